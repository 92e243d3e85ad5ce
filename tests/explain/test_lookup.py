"""Rules of thumb asked for in one's own words."""

from __future__ import annotations

import pytest

from rightfit.explain.rule_lookup import find_rule, rule_lookup
from rightfit.explain.rules import all_rules, example_of
from rightfit.workload import Workload


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("ram_4x_vram", "ram_4x_vram"),
        ("RAM >= 4x VRAM", "ram_4x_vram"),
        ("内存 ≥ 4 × GPU 显存总量", "ram_4x_vram"),
        ("显存≥1.5倍模型参数", "vram_1_5x_weights"),
        ("7B needs 24 GB", "vram_24gb_for_7b"),
        ("GPU utilisation above 70%", "utilisation_above_70_percent"),
    ],
)
def test_a_rule_is_found_in_its_own_words(text: str, rule: str) -> None:
    found = find_rule(text)
    assert found is not None
    assert found.id == rule


@pytest.mark.parametrize("text", ["g5.xlarge=T4", "ecs.gn7i-c2g1.xlarge", "A100", "meta-llama/Meta-Llama-3-8B", "8"])
def test_what_is_no_rule_is_left_to_others(text: str) -> None:
    assert find_rule(text) is None
    assert rule_lookup(text) is None


@pytest.mark.parametrize("name", all_rules())
def test_every_rule_has_an_example_that_is_a_workload(name: str) -> None:
    assert Workload(**example_of(all_rules()[name])).model


def test_the_answer_names_verdict_figure_and_example() -> None:
    answer = rule_lookup("RAM >= 4x VRAM")
    assert answer is not None
    assert (answer.kind, answer.exists, answer.claim) == ("rule", True, "wrong")
    assert answer.facts["verdict"] == "misleading"
    assert answer.facts["figure"] < answer.facts["claim"]
    assert "Tried on full fine-tuning of meta-llama/Meta-Llama-3-8B with 50Mtok" in answer.explanation_en
    assert "为例" in answer.explanation_zh


def test_a_rule_about_named_servers_is_evaluated_on_them() -> None:
    answer = rule_lookup("llama3_8b_full_on_1xa100_or_2x3090")
    assert answer is not None
    assert answer.claim == "wrong"
    assert "it does not fit on gcp/a2-highgpu-1g" in answer.explanation_en
    assert "it fits on azure/Standard_NC24ads_A100_v4 only with optimizer state in host RAM" in answer.explanation_en
