"""Caches, batches and rules to know by heart are computed from the model, the card and the length
that are asked about."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.explain.sum_questions import sum_question
from rightfit.market import Catalog
from rightfit.search.offers import open_priced


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


MODELS = ("Qwen2.5-14B-Instruct", "llama 3.1 8b", "qwen2.5-32b", "Qwen3-8B")
CARDS = ("RTX 4090", "L40S", "A100 80G", "H100")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("form", ["{m} 在 {c} 上加到 {k}k 上下文还放得下吗", "can a {c} hold {m} with {k}k context?"])
def test_a_longer_context_never_fits_where_a_shorter_does_not(form: str, card: str, model: str, market: Catalog) -> None:
    found = [sum_question(form.format(m=model, c=card, k=size), market) for size in (4, 32, 128, 512)]
    assert None not in found
    answers = [("yes", "half", "no").index(one.facts["answer"]) for one in found if one is not None]
    assert answers == sorted(answers)
    held = [one.facts["held_bytes"] for one in found if one is not None]
    assert held[1] == pytest.approx(8 * held[0], rel=0.01)


@pytest.mark.parametrize(
    ("sentence", "answer"),
    [
        ("我4090上的qwen2.5-14b-int4现在8k上下文，加到64k还撑得住不", "half"),
        ("qwen2.5-14b awq on a 4090 with 16k context, does it fit?", "yes"),
        ("can a single L40S hold llama 3.1 8b with 128k context?", "yes"),
        ("qwen2.5-32b awq on 2x 4090, 32k context for 4 concurrent users, enough?", "half"),
        ("qwen2.5-32b awq on one 4090, 128k context, enough?", "no"),
    ],
)
def test_weights_in_the_format_that_is_told(sentence: str, answer: str, market: Catalog) -> None:
    found = sum_question(sentence, market)
    assert found is not None
    assert found.facts["answer"] == answer, found.explanation_en
    assert found.claim == {"yes": "right", "half": "unknown", "no": "wrong"}[answer]


def test_the_cache_of_a_token_is_that_of_its_shape(market: Catalog) -> None:
    found = sum_question("qwen2.5-14b 的KV cache 32k要占多少显存", market)
    assert found is not None
    model = facts.model("qwen2.5-14b", network=False)
    assert isinstance(model, facts.TransformerArchitecture)
    assert found.facts["token_bytes"] == 2 * model.num_layers * model.num_kv_heads * model.head_dim * 2


@pytest.mark.parametrize("batch", [2, 8, 32, 128])
@pytest.mark.parametrize(
    "form", ["vllm里batch从1加到{b}，吞吐是不是就涨{b}倍", "if I go from batch 1 to {b} on an A100 with an 8B, is throughput {b}x?"]
)
def test_a_batch_brings_less_than_its_size(form: str, batch: int, market: Catalog) -> None:
    found = sum_question(form.format(b=batch), market)
    assert found is not None
    assert found.claim == "wrong"
    assert 1.0 < found.facts["times"] < batch


@pytest.mark.parametrize(
    ("sentence", "ways"),
    [
        ("rule of thumb: vram per billion params for full finetune w/ AdamW? and lora? and qlora?", {"full", "lora", "qlora"}),
        ("每十亿参数推理要多少显存，有没有经验公式", {"serve"}),
        ("how to estimate GPU memory for LoRA per billion parameters", {"lora"}),
        ("显存怎么估算，全参数微调每B参数多少G", {"full"}),
    ],
)
def test_memory_per_billion_is_told_for_the_ways_that_are_named(sentence: str, ways: set[str], market: Catalog) -> None:
    found = sum_question(sentence, market)
    assert found is not None
    assert {name.split("_")[0] for name in found.facts["ways"]} == ways


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("rule of thumb for tokens/sec single stream? e.g. 13B fp16 on a 3090", "13B on 1 x RTX-3090"),
        ("有没有公式估算单用户每秒多少token，A100和H100", "H100-SXM-80GB"),
        ("is there a back-of-envelope formula for tokens per second from memory bandwidth?", "RTX-4090"),
    ],
)
def test_the_rule_of_the_bandwidth_is_told_with_its_figures(sentence: str, told: str, market: Catalog) -> None:
    found = sum_question(sentence, market)
    assert found is not None
    assert "memory bandwidth /" in found.explanation_en
    assert told in found.explanation_en


@pytest.mark.parametrize(
    "sentence",
    ["serve Qwen2.5-7B at 5 req/s with 8k context, which card?", "LoRA of 8B with 8k sequences on a 4090, does it fit?", "什么是 KV cache"],
)
def test_jobs_are_left_to_plans(sentence: str, market: Catalog) -> None:
    assert sum_question(sentence, market) is None
