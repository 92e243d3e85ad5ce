"""What nobody stated and decides a service is said with what would be without it: limits of
latency, and the format of the weights."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit.explain.sheets import HARMLESS, short_sheet
from rightfit.facts.engines import starts_from_wide
from rightfit.messages import Lang
from rightfit.search.answer import Plan
from rightfit.search.service.limits import DECIDES

SERVICES: list[dict[str, Any]] = [
    {"model": "Qwen/Qwen2.5-3B-Instruct", "rate": "0.05/s", "gpu": "cpu"},
    {"model": "openai/whisper-large-v3", "rate": "0.2/s"},
    {"model": "stable-diffusion-1.5", "rate": "0.05/s"},
    {"model": "Qwen/Qwen2.5-7B-Instruct", "rate": "2/s"},
    {"model": "meta-llama/Meta-Llama-3-70B-Instruct", "rate": "3/s"},
]


#: As good as no limit.
LONGEST = {"ttft": "1h", "tpot": "1min", "latency": "1d"}


def planned(**wish: Any) -> Plan:
    return rightfit.plan(task="serve", **wish)


def screen(plan: Plan, lang: Lang) -> str:
    return " ".join(str(short_sheet(plan, lang)).split())


@pytest.mark.parametrize("wish", SERVICES, ids=lambda wish: wish["model"])
def test_a_limit_that_decides_is_said_and_one_that_does_not_is_not(wish: dict[str, Any]) -> None:
    plan = planned(**wish)
    assert plan.best is not None
    said = [reason.params for section in plan.sections if section.name == "limits" for reason in section.reasons]
    assumed = {one.field for one in plan.assumptions}
    for one in said:
        assert one["metric"] in assumed
        assert one["monthly_usd"] < plan.best.cost.total_usd
        far = planned(**wish, **{one["metric"]: LONGEST[one["metric"]]})
        assert far.best is not None
        assert far.best.cost.total_usd <= 1.1 * one["monthly_usd"]
    assert ("drives this choice" in screen(plan, "en")) == bool(said)
    assert ("左右了结果" in screen(plan, "zh")) == bool(said)
    loose = {name: value for name, value in LONGEST.items() if name in assumed}
    if loose and not said:
        found = planned(**wish, **loose).best
        assert found is not None
        assert found.cost.total_usd > (1.0 - 2.0 * DECIDES) * plan.best.cost.total_usd


def test_weights_of_fewer_bits_that_save_are_the_next_line() -> None:
    plan = planned(model="meta-llama/Meta-Llama-3-70B-Instruct", users=200)
    assert plan.best is not None
    rows = next(section for section in plan.sections if section.name == "formats").content["formats"]
    cheaper = [row for row in rows if row["quality"] in HARMLESS and row["monthly_usd"] < 0.9 * plan.best.cost.total_usd]
    assert cheaper
    assert any(f"--quantization {row['format']}" in screen(plan, "en") for row in cheaper)


@pytest.mark.parametrize(
    ("wish", "cause"),
    [
        ({"model": "meta-llama/Meta-Llama-3-8B-Instruct", "gpu": "T4", "rate": "3/s"}, "card"),
        ({"model": "meta-llama/Meta-Llama-3-70B-Instruct", "users": 200, "objective": "cost"}, "cheapest"),
        ({"model": "deepseek-ai/DeepSeek-R1", "users": 50, "country": "CN"}, "servers"),
    ],
)
def test_fewer_bits_come_first_where_one_would_take_them(wish: dict[str, Any], cause: str) -> None:
    plan, whole = planned(**wish), planned(**wish, quantization="none")
    assert plan.best is not None
    assert whole.best is not None
    taken = [one for one in plan.assumptions if one.why.key == f"assumed_serve_packed_{cause}"]
    assert taken
    assert taken[0].value == plan.best.layout.weight_format
    assert plan.best.cost.total_usd < whole.best.cost.total_usd
    assert f"quantization = {taken[0].value}" in screen(plan, "en")


@pytest.mark.parametrize("gpu", ["GH200", "L40S"])
def test_of_fewer_bits_at_one_price_those_lead_that_start_as_they_stand(gpu: str) -> None:
    """On GH200 FP8 and AWQ cost the same, and an engine makes only the first of the checkpoint."""
    plan = planned(model="meta-llama/Llama-3.1-70B-Instruct", gpu=gpu, rate="1/s")
    assert plan.best is not None
    narrow = planned(model="meta-llama/Llama-3.1-70B-Instruct", gpu=gpu, rate="1/s", quantization="awq").best
    assert narrow is not None
    if narrow.cost.total_usd > 0.9 * plan.best.cost.total_usd:
        assert starts_from_wide(plan.best.layout.engine, plan.best.layout.weight_format)
        assert "serve_not_stored" not in {one.key for one in plan.best.warnings}
    assert "serve_not_stored" in {one.key for one in narrow.warnings}


def test_who_says_the_format_gets_it() -> None:
    for word, kept in (("none", "fp16"), ("awq", "int4-awq")):
        best = planned(model="meta-llama/Meta-Llama-3-8B-Instruct", gpu="T4", rate="3/s", quantization=word).best
        assert best is not None
        assert best.layout.weight_format == kept


@pytest.mark.parametrize(("lang", "said"), [("en", "GPU memory"), ("zh", "显存不足")])
def test_servers_that_do_not_hold_a_replica_are_refused_for_memory(lang: Lang, said: str) -> None:
    from rightfit.explain.serving_text import serving_given_text

    wish = {"model": "meta-llama/Llama-3.1-405B", "task": "serve", "rate": "1/s", "quantization": "none"}
    assert said in serving_given_text(rightfit.estimate(**wish, on="aws/p5.48xlarge", nodes=1), lang)
    crowded = {"model": "Qwen/Qwen2.5-7B-Instruct", "task": "serve", "rate": "60/s"}
    assert said not in serving_given_text(rightfit.estimate(**crowded, on="aws/g6.xlarge", nodes=1), lang)
