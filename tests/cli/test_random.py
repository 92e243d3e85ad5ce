"""Random command lines: whatever is asked, the answer is one of the contract's exit codes and bad
input is one line."""

from __future__ import annotations

import random
from typing import Any

import pytest

VALUES = {
    "task": ["train", "finetune", "serve"],
    "method": ["full", "lora", "qlora", "prefix", "freeze", "galore"],
    "data": ["50Mtok", "10GB", "1 token", "alpaca", "1e15 tokens", "10万条"],
    "epochs": ["0.001", "1e4"],
    "seq-len": ["1", "128", "8k"],
    "global-batch": ["1", "7", "1e8"],
    "deadline": ["1s", "10y"],
    "budget": ["0.01usd", "500元"],
    "cloud": ["aws", "阿里云", "otc"],
    "country": ["CN", "europe"],
    "purchase": ["spot", "reserved", "any"],
    "gpu": ["H100", "TPU v5e", "910B", "V100"],
    "max-nodes": ["1", "64"],
    "precision": ["fp32", "fp8"],
    "quantization": ["none", "int8", "nf4"],
    "objective": ["time", "balanced"],
    "optimizer": ["adamw-8bit", "sgd", "muon"],
    "micro-batch": ["1", "4096"],
    "tensor-parallel": ["2", "64"],
    "pipeline-parallel": ["5", "128"],
    "sharding": ["none", "zero2", "fsdp"],
    "offload": ["optimizer", "all"],
}
MODELS = ["7B", "gpt2", "bert-base-uncased", "t5-large", "layers=2,hidden=64", "google/gemma-2-9b", "tiny", "resnet50"]
SERVERS = ["aws/g5.xlarge", "aws/t3.large", "otc/p2s.2xlarge.8", "aws/p3.2xlarge", "runpod/2x_L4"]


@pytest.mark.parametrize("seed", range(25))
def test_any_wish_gets_an_answer(run: Any, seed: int) -> None:
    chance = random.Random(seed)
    model, server = chance.choice(MODELS), chance.choice(SERVERS)
    start = chance.choice([["plan", model], ["plan", model], ["estimate", model, "--on", server, "--nodes", "2"], ["why", server, model]])
    wishes = [word for name in chance.sample(sorted(VALUES), chance.randint(0, 6)) for word in (f"--{name}", chance.choice(VALUES[name]))]
    view = ["--format", chance.choice(["table", "json", "csv", "yaml", "markdown", "html"]), "--lang", chance.choice(["en", "zh"])]
    result = run(*start, *wishes, *view)
    assert result.code in (0, 1, 2, 3), (start, wishes, result.err)
    assert bool(result.out) == (result.code in (0, 1)) or "csv" in view
    if result.code in (2, 3):
        assert result.err.startswith(("error: ", "错误："))
    assert "NaN" not in result.out
