"""Language models on CPU servers."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit.errors import ContradictionError
from rightfit.families.serving.explore import processor
from rightfit.search.service.options import ServingLayout

SMALL: dict[str, Any] = {"task": "serve", "rate": "0.2/s"}


def test_servers_without_accelerators_where_asked_for() -> None:
    plan = rightfit.plan("qwen2.5-0.5b", **SMALL, gpu="none", top=5)
    assert plan.options
    for option in plan.options:
        assert option.accelerator.name == ""
        assert isinstance(option.layout, ServingLayout)
        assert option.layout.engine in ("llama.cpp", "OpenVINO")
        assert option.estimate["ttft_s"].mid <= 2.0
        assert option.estimate["tpot_s"].mid <= 0.2
        assert "serve_cpu_rough" in {reason.key for reason in option.warnings}


def test_left_open_the_answer_is_the_cheaper_of_both() -> None:
    cheapest = {gpu: rightfit.plan("qwen2.5-0.5b", **SMALL, cloud="aws,gcp", gpu=gpu, top=1).best for gpu in (None, "none")}
    assert cheapest[None] is not None
    assert cheapest["none"] is not None
    assert cheapest[None].cost.total_usd <= cheapest["none"].cost.total_usd


def test_fewer_bits_on_a_cpu_read_less() -> None:
    sizes = {}
    for name in ("gguf-q4-k-m", "gguf-q8-0"):
        best = rightfit.plan("qwen2.5-0.5b", **SMALL, gpu="none", quantization=name, top=1).best
        assert best is not None
        assert isinstance(best.layout, ServingLayout)
        assert best.layout.engine == "llama.cpp"
        sizes[name] = best.memory_terms["weights"]
    assert sizes["gguf-q4-k-m"] < 0.75 * sizes["gguf-q8-0"]


def test_large_models_are_out_of_reach_of_cpus() -> None:
    plan = rightfit.plan("meta-llama/Meta-Llama-3-70B", task="serve", rate="1/s", tpot="20ms", ttft="1h", gpu="none")
    assert not plan.options
    assert {"tpot"} <= {rejection.criterion for rejection in plan.rejected}


def test_cores_share_a_socket_and_no_more_than_one() -> None:
    whole, half, twice = (processor("CPU Xeon Platinum 8488C m7i.", cores, 64e9, is_arm=False) for cores in (48, 24, 96))
    assert half.memory_bandwidth == pytest.approx(whole.memory_bandwidth / 2)
    assert half.bf16_flops == pytest.approx(whole.bf16_flops / 2)
    assert twice.memory_bandwidth == whole.memory_bandwidth
    assert whole.memory_bandwidth == pytest.approx(min(280e9, 307e9 * 48 / 56))


def test_arithmetic_is_what_the_processor_has() -> None:
    amx = processor("CPU Xeon Platinum 8488C m7i.", 8, 64e9, is_arm=False)
    ice = processor("CPU Xeon Platinum 8375C m6i.", 8, 64e9, is_arm=False)
    arm = processor("CPU Ampere Altra cax41.", 8, 64e9, is_arm=True)
    assert amx.bf16_flops > 5 * ice.fp16_flops
    assert ice.bf16_flops == 0
    assert (arm.bf16_flops, arm.int8_ops) == (0, 0)
    assert arm.fp16_flops == pytest.approx(8 * 2.5e9 * 16)


def test_engine_that_needs_a_card_is_refused_without_one() -> None:
    with pytest.raises(ContradictionError, match=r"run on CPUs: .*OpenVINO"):
        rightfit.plan("qwen2.5-0.5b", **SMALL, gpu="none", framework="vllm")
