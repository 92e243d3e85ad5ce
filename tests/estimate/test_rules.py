"""The rules of thumb, by hand."""

from __future__ import annotations

import pytest

from rightfit.estimate.rules import rule_predictions


def test_both_rules_by_hand() -> None:
    job = {
        "model": "meta-llama/Llama-2-7b-hf",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "8",
        "dp": "8",
        "zero": "3",
        "strategy": "zero3/fsdp",
        "method": "full",
    }
    job |= {"micro_batch": "1", "seq_len": "2048", "precision": "bf16"}
    memory, time, other = rule_predictions([{**job, "metric": name} for name in ("peak_mem_gib_per_gpu", "tokens_per_s_per_gpu", "mfu")])
    assert memory["predicted"] == pytest.approx(6738415616 * 16 / 8 / 2**30, rel=1e-6)
    assert memory["fits"] == 1
    assert time["predicted"] == pytest.approx(0.4 * 312e12 / (6 * 6738415616), rel=1e-3)
    assert other["predicted"] is None
