"""Which matrices take an adapter, in plain words of both languages: generated sentences."""

from __future__ import annotations

import itertools

import pytest

import rightfit
from rightfit.facts.trainers import Targets, adapter_targets
from rightfit.workload.ask import understand

ATTENTION = ("q", "k", "v", "o")
FEED = ("gate", "up", "down")
EVERY = "all-linear"
SAID = {
    "on all linear layers": EVERY,
    "all-linear": EVERY,
    "every linear layer": EVERY,
    "q k v o": ATTENTION,
    "qkvo": ATTENTION,
    "q and v only": ("q", "v"),
    "target modules q_proj, v_proj": ("q", "v"),
    "q/k/v/o + gate/up/down": (*ATTENTION, *FEED),
    "attention only": ATTENTION,
    "only the attention": ATTENTION,
    "on the attention layers": ATTENTION,
    "MLP too": (*ATTENTION, *FEED),
    "attention and MLP": (*ATTENTION, *FEED),
    "attn + ffn": (*ATTENTION, *FEED),
    "attention + expert projections": (*ATTENTION, *FEED, "expert"),
    "all linear layers but not the experts": (*ATTENTION, *FEED),
}
SAID_ZH = {
    "所有线性层": EVERY,
    "加在全部线性层上": EVERY,
    "q、k、v、o": ATTENTION,
    "只加在注意力层": ATTENTION,
    "注意力层": ATTENTION,
    "注意力和MLP层": (*ATTENTION, *FEED),
    "MLP也加": (*ATTENTION, *FEED),
    "注意力和专家层": (*ATTENTION, *FEED, "expert"),
    "所有线性层，不含专家": (*ATTENTION, *FEED),
}
HEADS = (
    "LoRA fine-tune of Qwen3-30B-A3B on 3k samples, {}, r=16",
    "QLoRA, {}, Llama-3.1-8B, 20M tokens",
    "DPO with LoRA {} of Qwen2.5-7B, 9k pairs",
)
HEADS_ZH = ("用LoRA微调Qwen3-30B-A3B，{}，3000条", "QLoRA微调Llama-3.1-8B，r=32，{}，2000万token")
CASES = [*itertools.product(HEADS, SAID.items()), *itertools.product(HEADS_ZH, SAID_ZH.items())]


def counted(targets: str | tuple[str, ...]) -> Targets:
    return adapter_targets(targets if isinstance(targets, str) else ",".join(targets))


@pytest.mark.parametrize(("head", "said"), CASES)
def test_where_adapters_are_is_read_in_plain_words(head: str, said: tuple[str, str | tuple[str, ...]]) -> None:
    words, targets = said
    found = understand(head.format(words))
    assert not found.weighty, found.weighty
    assert counted(found.wishes["lora_targets"]) == counted(targets)
    assert "method" in found.wishes
    assert "data" in found.wishes


@pytest.mark.parametrize(
    "text",
    [
        "LoRA fine-tune of Qwen2.5-7B on 3k samples",
        "serve Qwen2.5-7B with sparse attention for 20 users",
        "full fine-tune of Llama-3.1-8B, 10M tokens, all layers",
        "LoRA微调Qwen2.5-7B，3000条",
    ],
)
def test_nothing_is_read_where_nothing_is_said(text: str) -> None:
    assert "lora_targets" not in understand(text).wishes


def test_adapters_that_nobody_placed_and_that_decide_the_fit_are_told() -> None:
    """On the framework's few matrices it fits, on all of them it does not: the plan says it."""
    told = {
        "model": "Qwen3-30B-A3B",
        "method": "qlora",
        "data": "11k samples",
        "epochs": 1,
        "lora_rank": 16,
        "gpu": "RTX-4090",
        "num_gpus": 1,
    }
    stack = {"framework": "unsloth", "offload": "none", "sellers": "all"}
    open_plan = rightfit.plan(**told, **stack)
    assert open_plan.best is not None
    doubt = next(reason for reason in open_plan.best.warnings if reason.key == "adapters_decide")
    assert doubt.params["peak_bytes"] > doubt.params["limit_bytes"] >= open_plan.best.estimate["peak_memory_bytes"].mid
    placed = rightfit.plan(**told, **stack, lora_targets="q,v")
    assert placed.best is not None
    assert "adapters_decide" not in {reason.key for reason in placed.best.warnings}
