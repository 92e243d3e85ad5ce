"""Shared prefixes, adapters, drafts, cache formats and expert layouts in serving plans."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit.errors import ContradictionError
from rightfit.search.answer import Option, Plan
from rightfit.search.service.options import ServingLayout

LLAMA = "meta-llama/Meta-Llama-3-8B"
CHAT: dict[str, Any] = {
    "task": "serve",
    "rate": "1/s",
    "input_tokens": 1024,
    "output_tokens": 256,
    "gpu": "L40S",
    "cloud": "runpod",
    "top": 1,
}


def best(plan: Plan) -> tuple[Option, ServingLayout]:
    assert plan.best is not None
    assert isinstance(plan.best.layout, ServingLayout)
    return plan.best, plan.best.layout


@pytest.fixture(scope="module")
def plain() -> tuple[Option, ServingLayout]:
    return best(rightfit.plan(LLAMA, **CHAT))


def test_shared_prefix_saves_prefill_and_memory(plain: tuple[Option, ServingLayout]) -> None:
    option, layout = best(rightfit.plan(LLAMA, **CHAT, cached_tokens=512))
    assert option.estimate["ttft_s"].mid < 0.8 * plain[0].estimate["ttft_s"].mid
    # Room of 175 requests of 1,024 + 128 tokens, now of 512 + 128 each and one prefix of 512.
    tokens = plain[1].max_batch * (1024 + 128) - 512
    assert layout.max_batch == pytest.approx(tokens / (512 + 128), rel=0.02)
    assert option.memory_terms["extras"] == pytest.approx(512 * 131072)


def test_share_and_tokens_of_a_prefix_are_the_same() -> None:
    by_share, by_tokens = (best(rightfit.plan(LLAMA, **CHAT, **wish))[0] for wish in ({"prefix_share": 0.5}, {"cached_tokens": 512}))
    assert by_share.estimate["ttft_s"].mid == by_tokens.estimate["ttft_s"].mid
    assert by_share.cost.total_usd == by_tokens.cost.total_usd


def test_adapters_take_memory_and_time(plain: tuple[Option, ServingLayout]) -> None:
    option, layout = best(rightfit.plan(LLAMA, **CHAT, adapters=20, adapter_rank=16))
    assert option.memory_terms["extras"] == pytest.approx(20 * 83.9e6, rel=1e-3)
    assert option.estimate["tpot_s"].mid > plain[0].estimate["tpot_s"].mid
    assert layout.max_batch < plain[1].max_batch
    more = best(rightfit.plan(LLAMA, **CHAT, adapters=40, adapter_rank=16))[0]
    assert more.memory_terms["extras"] == pytest.approx(2 * option.memory_terms["extras"])


def test_drafts_help_a_light_load_and_the_more_the_more_are_accepted(plain: tuple[Option, ServingLayout]) -> None:
    times = [
        best(rightfit.plan(LLAMA, **CHAT, speculative="ngram", acceptance=share))[0].estimate["tpot_s"].mid for share in (0.0, 0.5, 0.9)
    ]
    assert times == sorted(times, reverse=True)
    assert times[0] >= plain[0].estimate["tpot_s"].mid * 0.999
    assert times[2] < 0.5 * plain[0].estimate["tpot_s"].mid


def test_draft_model_costs_memory_and_its_own_steps() -> None:
    by_model = best(rightfit.plan(LLAMA, **CHAT, speculative="llama-3.2-1b", acceptance=0.7))
    by_ngram = best(rightfit.plan(LLAMA, **CHAT, speculative="ngram", acceptance=0.7))
    assert by_model[0].estimate["tpot_s"].mid > by_ngram[0].estimate["tpot_s"].mid
    assert by_model[0].memory_terms["extras"] == pytest.approx(1.236e9 * 2, rel=0.02)
    assert by_model[1].max_batch < by_ngram[1].max_batch


def test_section_says_what_drafts_yield() -> None:
    plan = rightfit.plan(LLAMA, **CHAT, speculative="llama-3.2-1b")
    content = {one.name: one.content for one in plan.sections}["extras"]
    assert content["tokens_per_step"] == pytest.approx(1 + 0.7 + 0.49 + 0.343)
    assert {one.field for one in plan.assumptions} >= {"acceptance", "draft_tokens"}


@pytest.mark.parametrize(
    ("wishes", "words"),
    [
        ({"speculative": "qwen2.5-0.5b"}, "vocabularies differ"),
        ({"speculative": "meta-llama/Meta-Llama-3-70B"}, "must be smaller"),
        ({"speculative": "ngram"}, "set acceptance"),
        ({"speculative": "bert-base-uncased"}, "does not generate text"),
        ({"cached_tokens": 1024}, "at most 1023"),
    ],
)
def test_what_cannot_be_is_refused(wishes: dict[str, Any], words: str) -> None:
    with pytest.raises(ContradictionError, match=words):
        rightfit.plan(LLAMA, **CHAT, **wishes)


def test_encoders_have_none_of_it() -> None:
    with pytest.raises(ContradictionError, match="adapters contradicts model"):
        rightfit.plan("bert-base-uncased", task="serve", adapters=3)


def test_cache_of_eight_bits_holds_twice_as_many(plain: tuple[Option, ServingLayout]) -> None:
    option, layout = best(rightfit.plan(LLAMA, **CHAT, kv_cache="fp8"))
    assert layout.kv_format == "fp8"
    assert layout.max_batch == pytest.approx(2 * plain[1].max_batch, rel=0.02)
    assert "serve_kv_quality" in {reason.key for reason in option.warnings}
    with pytest.raises(ContradictionError, match="kv_cache 16bit"):
        rightfit.plan(LLAMA, **{**CHAT, "gpu": "V100"}, kv_cache="fp8")


def test_any_cache_is_never_dearer() -> None:
    long = {"task": "serve", "rate": "5/s", "input_tokens": 6000, "output_tokens": 1000, "gpu": "L40S", "top": 1}
    costs = {kv: best(rightfit.plan(LLAMA, **long, kv_cache=kv))[0].cost.total_usd for kv in ("16bit", "fp8", "any")}
    assert costs["any"] <= min(costs["16bit"], costs["fp8"]) * (1 + 1e-9)


def test_latent_cache_is_spread_over_data_parallel_attention_where_that_pays() -> None:
    plan = rightfit.plan("deepseek-ai/DeepSeek-V3", task="serve", users=400, think="0s", gpu="H200", top=3)
    layouts = [option.layout for option in plan.options if isinstance(option.layout, ServingLayout)]
    assert any(layout.attention_data > 1 for layout in layouts)
    for option in plan.options:
        layout = option.layout
        assert isinstance(layout, ServingLayout)
        assert layout.expert == layout.attention_data
        cards = layout.tensor * layout.pipeline * layout.attention_data * layout.replicas
        assert cards <= option.num_accelerators
        assert 256 % layout.attention_data == 0


def test_dense_models_have_no_experts_to_spread(plain: tuple[Option, ServingLayout]) -> None:
    assert plain[1].attention_data == 1
