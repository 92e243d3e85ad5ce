"""A mixture of experts that nobody knows, and lengths of which the usual and the longest are told:
generated sentences of both languages."""

from __future__ import annotations

import itertools
import math

import pytest

from rightfit import facts
from rightfit.errors import InputError, UnknownNameError
from rightfit.facts import dimensions
from rightfit.facts.parameter_count import count_parameters
from rightfit.workload.ask import understand

SIZES = ((140, 9), (523, 31), (76.5, 3.2))
SAID = (
    "Quobil-{total}B-A{active}B",
    "Quobil-Next-{total}B-A{active}B-Instruct",
    "a MoE with {total}B total and {active}B active parameters",
    "our own {total}B MoE ({active}B active)",
    "a new mixture of experts, {active}B activated, {total}B in total,",
)
SAID_ZH = ("Quobil-{total}B-A{active}B", "一个总参数{total}B、激活{active}B的MoE", "新的MoE模型，激活参数{active}B，总参数量{total}B")
HEADS = ("serve {} for 30 users, 4k prompts", "LoRA fine-tune of {} on 20M tokens")
HEADS_ZH = ("部署{}，30人并发，平均4k上下文", "用LoRA微调{}，2000万token")
CASES = [*itertools.product(HEADS, SAID), *itertools.product(HEADS_ZH, SAID_ZH)]


@pytest.mark.parametrize(("total", "active"), SIZES)
@pytest.mark.parametrize(("head", "said"), CASES)
def test_told_sizes_are_the_model(head: str, said: str, total: float, active: float) -> None:
    found = understand(head.format(said.format(total=f"{total:g}", active=f"{active:g}")))
    assert not found.weighty, found.weighty
    assert found.wishes["model"] == f"{total:g}B-A{active:g}B"
    assert any(one.key == "workload.assumed_mixture" for one in found.assumed) == said.startswith("Quobil")


def test_sizes_beside_a_known_model_say_what_is_known() -> None:
    for text in ("serve Qwen3-235B-A22B (235B total, 22B active) for 30 users", "部署DeepSeek-V3，总参数671B，激活37B，30人用"):
        found = understand(text)
        assert not found.weighty
        assert "-A3" not in found.wishes["model"]


@pytest.mark.parametrize(("total", "active"), SIZES)
def test_a_mixture_of_told_sizes_has_them(total: float, active: float) -> None:
    model = facts.model(f"{total:g}B-A{active:g}B", network=False)
    assert (model.params_total, model.params_active) == (round(total * 1e9), round(active * 1e9))
    counted = count_parameters(model)
    assert counted.total == pytest.approx(model.params_total, rel=0.03)
    assert counted.active == pytest.approx(model.params_active, rel=0.05)
    assert model.certainty == "typical"
    assert model.num_experts > model.experts_per_token


def test_the_cache_of_a_left_out_mixture_is_within_a_factor_of_two_at_the_median(monkeypatch: pytest.MonkeyPatch) -> None:
    known = dimensions._plain_mixtures()
    off = []
    for one in known:
        others = tuple(other for other in known if abs(other.params_total / one.params_total - 1) > 0.02)
        monkeypatch.setattr(dimensions, "_plain_mixtures", lambda others=others: others)
        guess = dimensions.typical_mixture(one.params_total, one.params_active)
        cache = [model.num_layers * model.num_kv_heads * model.head_dim for model in (guess, one)]
        off.append(abs(math.log(cache[0] / cache[1])))
    assert sorted(off)[len(off) // 2] <= math.log(2)


def test_more_active_parameters_than_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="310B-A19B"):
        facts.model("19B-A310B", network=False)


def test_the_name_of_an_unknown_mixture_is_refused_with_its_sizes() -> None:
    with pytest.raises(UnknownNameError, match="140B-A9B"):
        facts.model("Quobil-140B-A9B", network=False)


LENGTHS = {
    "128k context, prompts average 6k": 6000,
    "average context 6k, max 128k": 6000,
    "avg 6k context (128k max)": 6000,
    "typically 6k tokens, up to 32k": 6000,
    "128k 上下文，平均 6k": 6000,
    "平均 6k token，最长 32k": 6000,
}


@pytest.mark.parametrize("said", LENGTHS)
def test_the_usual_length_sets_the_load_of_a_service(said: str) -> None:
    found = understand(f"serve Qwen2.5-72B for 50 users, {said}")
    assert not found.weighty, found.weighty
    assert float(found.wishes["input_tokens"]) == LENGTHS[said]
    assert any(one.key == "workload.assumed_usual_length" for one in found.assumed)


@pytest.mark.parametrize(
    "said", ["9k samples avg 700 tok (max 3000)", "9k samples averaging 700 tokens, max 3000", "9000条，平均 700 token，最长 3000"]
)
def test_samples_of_a_usual_length_are_tokens_and_the_longest_is_the_sequence(said: str) -> None:
    found = understand(f"QLoRA of Qwen2.5-7B on {said}, 2 epochs")
    assert not found.weighty, found.weighty
    assert found.wishes["data"] == "6300000 tokens"
    assert found.wishes["seq_len"] == "3000"


@pytest.mark.parametrize("said", ["average latency 2 s, max 5 s", "500 users on average, max 800 users"])
def test_what_is_no_length_is_none(said: str) -> None:
    assert not any(one.key == "workload.assumed_usual_length" for one in understand(f"serve Qwen2.5-7B, 2k prompts, {said}").assumed)
