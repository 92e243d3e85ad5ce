"""Rules of thumb: complete in both languages, and judged as their numbers demand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from rightfit.errors import InputError, UnknownNameError
from rightfit.explain import rules
from rightfit.explain.messages import fields_of
from rightfit.explain.rule_measures import REASONS, Measures, figure_text, measures, rule_fields
from rightfit.explain.trials import SetupOutcome, outcomes_text
from rightfit.messages import LANGS
from rightfit.search.answer import Option
from rightfit.workload import Workload

GIB = 2**30


@pytest.fixture(scope="module")
def measure(option_of: Callable[..., Option], workload: Workload) -> Measures:
    return measures(option_of(), workload, params=8.03e9, savings=(0.6, 0.37))


def check(name: str, measure: Measures, **changes: object) -> rules.RuleCheck:
    return rules.judge(rules.rule_by_id(name), dataclasses.replace(measure, **changes))


@pytest.mark.parametrize("name", rules.rule_names())
def test_every_rule_is_whole(name: str) -> None:
    problems = rules.rule_problems(name)
    assert not problems, "; ".join(problems)


ENTRY = {
    "post": 0,
    "kind": "need",
    "figure": "vram_bytes",
    "unit": "memory",
    "value": 1.0,
    "statement": {"en": "a", "zh": "甲"},
    **{verdict: {"en": "x {figure}", "zh": "乙 {figure}"} for verdict in REASONS},
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, ""),
        ({"fails": None, "misleading": None}, "lacks fails, misleading"),
        ({"value": None}, "lacks value (or base and factor)"),
        ({"kind": "fixed"}, "lacks verdict"),
        ({"kind": "ned"}, "has the kind 'ned'; did you mean need?; choose one of"),
        ({"figure": "vram_byte"}, "has the figure 'vram_byte'; did you mean vram_bytes?"),
        ({"post": 9}, "has the post 9"),
        ({"unit": "GB"}, "has the unit 'GB'"),
        ({"example": "none"}, "has the example 'none'"),
        ({"factr": 2}, "has a key 'factr' that nothing reads; did you mean factor?"),
        ({"applies": {"least_params": 1}}, "applies by 'least_params'"),
        ({"statement": {"en": "a"}}, "has no zh text in statement"),
        ({"holds": {"en": "x {claim}", "zh": "乙"}}, "names other fields in the en than in the zh text of holds"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_an_entry_lacks_is_said_in_one_line(change: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {key: value for key, value in {**ENTRY, **change}.items() if value is not None}
    table = {**rules._table(), "acme": entry}
    monkeypatch.setattr(rules, "_table", lambda: table)
    found = rules.rule_problems("acme")
    assert any(line.startswith(f"explain/data/rules.toml: acme {said}") for line in found) if said else found == []
    if said:
        with pytest.raises(InputError, match=r"^explain/data/rules.toml: acme "):
            rules._rule.__wrapped__("acme")


@pytest.mark.parametrize("name", rules.rule_names())
def test_every_rule_speaks_both_languages_and_its_fields_exist(name: str, measure: Measures) -> None:
    rule = rules.rule_by_id(name)
    known = set(rule_fields(measure, "en", claim=1.0, figure=1.0, unit=rule.unit)) | {"outcomes"}
    assert set(rule.statement) == {"en", "zh"}
    assert 0 <= rule.post <= 4
    assert hasattr(measure, rule.figure)
    for texts in rule.reasons.values():
        assert fields_of(texts["en"]) == fields_of(texts["zh"])
        assert fields_of(texts["en"]) <= known
        assert bool(texts["en"]) == bool(texts["zh"])


@pytest.mark.parametrize("name", rules.rule_names())
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_every_verdict_that_can_come_out_has_a_reason(name: str, scale: float, measure: Measures) -> None:
    rule = rules.rule_by_id(name)
    if rule.kind == "setup":
        return
    result = check(name, measure, **{rule.figure: getattr(measure, rule.figure) * scale})
    for lang in LANGS:
        assert result.reason(lang)
        assert "nan" not in result.text(lang)


def test_a_rule_that_gives_too_little_memory_fails(measure: Measures) -> None:
    result = check("vram_1_5x_weights", measure, vram_needed_bytes=150 * GIB, method="full")
    assert result.verdict == "fails"
    assert result.claim == pytest.approx(1.5 * 2 * 8.03e9)
    assert "150 GiB" in result.reason("en")


def test_a_rule_that_gives_far_too_much_memory_misleads(measure: Measures) -> None:
    assert check("vram_1_5x_weights", measure).verdict == "misleading"
    assert check("ram_4x_vram", measure, vram_bytes=640 * GIB).verdict == "misleading"


def test_a_rule_near_our_figure_holds(measure: Measures) -> None:
    assert check("vram_24gb_for_7b", measure, vram_needed_bytes=20 * GIB).verdict == "holds"
    assert check("qlora_7b_on_24gb", measure, vram_needed_bytes=25 * GIB).verdict == "fails"


@pytest.mark.parametrize(
    ("name", "changes", "verdict"),
    [
        ("host_8_cores_64gb_per_gpu", {}, "misleading"),
        ("host_8_cores_64gb_per_gpu", {"vcpus_per_gpu": 12.0}, "misleading"),  # the server has them, the job needs none
        ("host_8_cores_64gb_per_gpu", {"vcpus_per_gpu": 12.0, "num_gpus": 8.0, "loader_cores": 50.0}, "holds"),
        ("host_8_cores_64gb_per_gpu", {"vcpus_per_gpu": 12.0, "loading_share": 1.67, "stall_share": 0.4}, "fails"),
        ("loading_below_20_percent", {}, "holds"),
        ("loading_below_20_percent", {"loading_share": 2.0, "stall_share": 0.5}, "fails"),
        ("loading_below_20_percent", {"loading_share": 0.9, "stall_share": 0.0}, "holds"),
        ("utilisation_above_70_percent", {}, "misleading"),
        ("utilisation_above_70_percent", {"busy_share": 0.5}, "fails"),
        ("gpu_per_100gb_data", {"data_bytes": 5e11}, "misleading"),
        ("gpu_per_100gb_data", {"data_bytes": 5e9, "num_gpus": 8.0}, "fails"),
        ("multi_node_over_1tb_data", {"data_bytes": 2e12}, "misleading"),
        ("multi_node_over_1tb_data", {"data_bytes": 2e12, "nodes": 3.0}, "holds"),
        ("single_card_under_10gb_data", {"num_gpus": 8.0}, "fails"),
        ("several_a100_for_100gb_to_1tb_data", {"num_gpus": 16.0}, "fails"),
        ("spot_saves_50_to_90", {}, "holds"),
        ("spot_saves_50_to_90", {"spot_saving_fraction": 0.3}, "fails"),
        ("spot_saves_50_to_90", {"spot_saving_fraction": float("nan")}, "unknown"),
        ("reserved_saves_50_to_90", {}, "fails"),
        ("network_25gbps", {"nodes": 2.0, "network_bytes_per_s": 1e9, "communication_share": 0.05}, "misleading"),
        ("network_25gbps", {"nodes": 2.0, "network_bytes_per_s": 5e9, "communication_share": 0.6}, "fails"),
        ("nvlink_for_many_cards", {"num_gpus": 4.0, "communication_share": 0.05}, "misleading"),
        ("long_jobs_subscription", {}, "holds"),
        ("long_jobs_subscription", {"purchase": "subscription-1m"}, "fails"),
    ],
)
def test_verdicts(name: str, changes: dict[str, float | str], verdict: str, measure: Measures) -> None:
    assert check(name, measure, **changes).verdict == verdict


def test_only_rules_about_the_workload_are_judged(measure: Measures) -> None:
    judged = {result.rule.id for result in rules.check_measures(measure)}
    assert {"vram_24gb_for_7b", "qlora_7b_on_24gb", "llm_finetune_vram_40gb"} <= judged
    assert not {"bert_base_8gb", "several_a100_for_70b", "network_25gbps", "mixed_precision_saves_memory"} & judged


def test_a_named_setup_is_judged_by_its_outcomes(measure: Measures) -> None:
    small = SetupOutcome("small", fits=False, plain_bytes=140 * GIB, limit_bytes=38 * GIB)
    helps = ("optimizer",)
    helped = SetupOutcome("big", True, 60 * GIB, 78 * GIB, helps, plain_bytes=110 * GIB, host_needed_bytes=150 * GIB, host_bytes=220 * GIB)
    plain = SetupOutcome("eight", True, 30 * GIB, 78 * GIB)
    assert rules.judge_setup([small]) == "fails"
    assert rules.judge_setup([small, helped]) == "misleading"
    assert rules.judge_setup([plain]) == "holds"
    assert rules.judge_setup([plain, SetupOutcome("one", fits=True)], smaller="one") == "misleading"
    assert rules.judge_setup([SetupOutcome("x", fits=None, why="not in the catalog")]) == "unknown"
    assert outcomes_text([small, helped, plain], "en") == (
        "it does not fit on small (140 GiB needed per GPU, 38 GiB usable); "
        "it fits on big only with optimizer state in host RAM (60 GiB of 78 GiB per GPU; 110 GiB without; the host needs 150 GiB of 220 GiB); "
        "it fits on eight (30 GiB of 78 GiB per GPU)"
    )
    unknown = dataclasses.replace(helped, host_bytes=float("nan"))
    assert outcomes_text([unknown], "zh") == (
        "big 只有借助优化器状态卸载到主机内存才放得下（每卡 60 GiB / 78 GiB，否则要 110 GiB），且主机内存要有 150 GiB，而该云没有公布"
    )


def test_a_rule_in_one_line(measure: Measures) -> None:
    result = check("loading_below_20_percent", measure)
    assert (
        result.text("en")
        == "data loading under 20% of a training step (blog post 3): right; loading takes 2% of a step here and overlaps with it: the GPUs wait for data 0% of the time."
    )
    assert result.text("zh").startswith("“数据加载时间应小于训练步时间的 20%”（博文 3）：成立。")


def test_an_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="vram_24gb_for_7b"):
        rules.rule_by_id("vram_24gb_7b")


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [("memory", 2**30, "1 GiB"), ("bandwidth", 3.125e9, "25 Gbps"), ("rate", 3e9, "3 GB/s"), ("percent", 0.25, "25%")],
)
def test_figures_in_a_rules_unit(unit: str, value: float, text: str) -> None:
    assert figure_text(value, unit, "en") == text
