"""The whole step: parts add up, more hardware helps where it should and hurts where it must."""

from __future__ import annotations

import numpy as np
import pytest
from tests.physics.typical import RATES as TYPICAL

from rightfit.physics import step
from rightfit.physics.columns import (
    AttentionKernel,
    AttentionKind,
    DeviceColumns,
    LinkColumns,
    Method,
    ModelColumns,
    Recompute,
    SetupColumns,
)
from rightfit.physics.compute import compute_times
from rightfit.physics.operators import RateColumns

LLAMA = ModelColumns.of(
    num_layers=32,
    hidden_size=4096,
    num_heads=32,
    num_kv_heads=32,
    head_dim=128,
    intermediate_size=11008,
    vocab_size=32000,
    attention_kind=AttentionKind.MHA,
    params_total=6738415616,
    params_embedding=131072000,
)
A100 = DeviceColumns.of(
    memory_bytes=80e9,
    memory_bandwidth=2.039e12,
    fp32_flops=19.5e12,
    tf32_flops=156e12,
    fp16_flops=312e12,
    bf16_flops=312e12,
    num_sms=108,
    tdp_w=400,
    compute_capability=8.0,
)
DGX = LinkColumns.of(intra_bandwidth=300e9, inter_bandwidth=200e9, intra_kind=3, inter_kind=2, host_bandwidth=31.5e9)
VPC = DGX.replace(inter_bandwidth=1.25e9, inter_kind=0)
RATES = TYPICAL


def run(setup: SetupColumns, *, links: LinkColumns = DGX, model: ModelColumns = LLAMA, rates: RateColumns = RATES) -> step.StepTimes:
    compute = compute_times(model, setup, A100, rates)
    communication = step.communication_times(model, setup, links, rates)
    return step.step_times(model, setup, A100, rates, compute=compute, communication=communication)


def base(**changes: float) -> SetupColumns:
    values = {"micro_batch": 2.0, "seq_len": 4096.0, "grad_accum": 4.0, "attention": float(AttentionKernel.FLASH)}
    return SetupColumns.of(**(values | changes))


def test_terms_add_up() -> None:
    times = run(base(data=16, shard_stage=3, shard_degree=16, recompute=Recompute.FULL))
    assert sum(float(getattr(times, name)[0]) for name in step.TERMS) == pytest.approx(float(times.step_s[0]))
    assert all(float(getattr(times, name)[0]) >= 0 for name in step.TERMS)


def test_one_gpu_is_within_the_roofline() -> None:
    """6 N D at full peak bounds the step from below, a third of peak from above."""
    setup = base()
    ideal = 6 * 6.6e9 * 4 * 2 * 4096 / 312e12
    assert ideal < run(setup).step_s[0] < 3 * ideal


def test_full_recomputation_costs_about_a_third() -> None:
    ratio = run(base(recompute=Recompute.FULL)).step_s[0] / run(base()).step_s[0]
    assert 1.25 < ratio < 1.36


def test_lora_saves_the_weight_gradient() -> None:
    lora = base(
        method=Method.LORA, adapter_rank=8, adapter_params=4.2e6, adapter_on_query=1, adapter_on_key_value=1, trainable_params=4.2e6
    )
    assert 0.6 < run(lora).step_s[0] / run(base()).step_s[0] < 0.8


def test_second_node_over_ten_gigabit_is_slower_than_one() -> None:
    """The same global batch on 8 GPUs of one node and on 16 of two: over 10 Gb/s the second node
    hurts, over InfiniBand it helps."""
    one = base(data=8, shard_stage=3, shard_degree=8, grad_accum=4)
    two = base(data=16, shard_stage=3, shard_degree=16, grad_accum=2)
    assert run(two, links=VPC).step_s[0] > 2 * run(one, links=VPC).step_s[0]
    assert run(two).step_s[0] < 0.65 * run(one).step_s[0]


def test_tensor_parallel_over_a_slow_network_is_hopeless() -> None:
    inside = run(base(tensor=8, sequence_parallel=1)).step_s[0]
    outside = run(base(tensor=16, sequence_parallel=1), links=VPC).step_s[0]
    assert outside > 10 * inside


def test_small_micro_batches_are_bound_by_the_host() -> None:
    slow_host = RATES.replace(layer_forward_cpu_s=2e-3)
    tiny = base(micro_batch=1, seq_len=128)
    times = run(tiny, rates=slow_host)
    assert times.launch_s[0] > 0.5 * times.step_s[0]
    assert step.bottleneck(times, tiny)[0] == step.Bottleneck.LAUNCH


def test_pipeline_bubble_shrinks_with_micro_batches() -> None:
    few = run(base(pipeline=4, grad_accum=4))
    many = run(base(pipeline=4, grad_accum=64))
    assert many.pipeline_s[0] / many.step_s[0] < 0.3 * few.pipeline_s[0] / few.step_s[0]


def test_naive_pipeline_is_no_faster_than_one_gpu() -> None:
    assert run(base(pipeline=4, naive_pipeline=1)).step_s[0] == pytest.approx(run(base()).step_s[0], rel=0.03)


def test_gradient_sync_happens_once_a_step_under_ddp() -> None:
    once = run(base(data=16, grad_accum=1), links=VPC).data_s[0]
    more = run(base(data=16, grad_accum=8), links=VPC).data_s[0]
    assert more == pytest.approx(once, rel=0.02)


def test_offloaded_optimizer_moves_over_the_host_link() -> None:
    times = run(base(offload_optimizer=1))
    assert times.update_s[0] < 0.05 * times.offload_s[0]
    assert times.offload_s[0] > 6.7e9 / 1.5e9


def test_expert_parallel_traffic() -> None:
    moe = LLAMA.replace(kind=3, num_moe_layers=32, num_experts=64, experts_per_token=6, moe_intermediate_size=1408, params_total=20e9)
    spread = run(base(data=8, expert=8), model=moe)
    alone = run(base(data=8, expert=1), model=moe)
    assert spread.expert_s[0] > 0
    assert alone.expert_s[0] == 0


def test_rows_do_not_see_each_other() -> None:
    """A table of rows gives the same as each row alone."""
    stacked = SetupColumns.of(
        micro_batch=[1, 2, 4], seq_len=[1024, 4096, 2048], data=[1, 8, 16], shard_stage=[0, 3, 0], shard_degree=[1, 8, 1]
    )
    together = run(stacked).step_s
    for i in range(3):
        assert run(stacked.take(np.array([i]))).step_s[0] == pytest.approx(together[i])


@pytest.mark.parametrize("field", ["micro_batch", "seq_len", "grad_accum"])
def test_more_tokens_never_take_less_time(field: str) -> None:
    setup = base()
    doubled = setup.replace(**{field: getattr(setup, field) * 2})
    assert run(doubled).step_s[0] > run(setup).step_s[0]
