"""Models beside the trained one: bytes by hand, a forward pass as part of a step, the engine's
share of a server."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation.convert import device_columns, model_columns
from rightfit.estimation.training import rate_columns
from rightfit.estimation.training_setup import setup_fields
from rightfit.physics import step
from rightfit.physics.columns import LinkColumns, ModelColumns, SetupColumns
from rightfit.physics.compute import compute_times
from rightfit.physics.step import communication_times, step_times
from rightfit.proof.cases.training import training_case

LLAMA = "meta-llama/Meta-Llama-3-8B"
PARAMS = 8_030_261_248


def model() -> ModelColumns:
    return model_columns([facts.model(LLAMA)])  # type: ignore[list-item]


def setup(method: str = "full", **values: float) -> SetupColumns:
    fields = setup_fields(training_case(facts.model(LLAMA), method=method, precision="bf16", framework="transformers"))  # type: ignore[arg-type]
    return SetupColumns.of(**{key: [value] for key, value in {**fields, "seq_len": 1024.0, "gpus_per_node": 8.0, **values}.items()})


def test_a_frozen_copy_takes_two_bytes_a_parameter_and_is_cut_at_stage_three() -> None:
    assert step.frozen_bytes(model(), setup(), weight_bytes=2.0)[0] == pytest.approx(2 * PARAMS, rel=1e-3)
    sharded = setup(shard_stage=3.0, shard_degree=8.0, data=8.0)
    assert step.frozen_bytes(model(), sharded, weight_bytes=2.0)[0] == pytest.approx(2 * PARAMS / 8, rel=1e-3)
    other = setup(shard_stage=2.0, shard_degree=8.0, data=8.0)
    assert step.frozen_bytes(model(), other, weight_bytes=2.0)[0] == pytest.approx(2 * PARAMS, rel=1e-3)


def test_adamw_keeps_eight_bytes_of_moments_beside_weights_in_full() -> None:
    kept = step.state_bytes(model(), setup(linear_weight_bytes=4.0, other_weight_bytes=4.0, master_bytes=0.0, optimizer_bytes=8.0))
    assert kept.weights[0] == pytest.approx(4 * PARAMS, rel=1e-3)
    assert kept.trained[0] == pytest.approx(8 * PARAMS, rel=1e-3)
    assert kept.kept[0] == kept.weights[0] + kept.trained[0]
    adapters = step.state_bytes(model(), setup("lora", shard_stage=0.0))
    assert adapters.trained[0] < 0.02 * kept.trained[0]


def test_logits_without_gradients_are_tokens_by_vocabulary() -> None:
    found = step.frozen_logits_bytes(model(), setup(micro_batch=4.0, seq_len=1024.0), logit_bytes=2.0)
    assert found[0] == 4 * 1024 * 128_256 * 2
    assert step.frozen_logits_bytes(model().replace(has_lm_head=0.0), setup(), logit_bytes=2.0)[0] == 0


@pytest.mark.parametrize(
    ("values", "gpus"),
    [
        ({}, 1),
        ({"shard_stage": 3.0, "shard_degree": 8.0}, 8),
        ({"shard_stage": 2.0, "shard_degree": 8.0}, 1),
        ({"shard_stage": 3.0, "shard_degree": 16.0, "gpus_per_node": 4.0}, 4),
        ({"shard_stage": 3.0, "shard_degree": 6.0, "gpus_per_node": 6.0}, 2),  # a power of two that divides the server's cards
        ({"tensor": 2.0}, 2),
    ],
)
def test_an_engine_takes_as_many_cards_as_the_trainer_spreads_its_weights_over(values: dict[str, float], gpus: int) -> None:
    assert step.engine_gpus(model(), setup(**values), most=8.0)[0] == gpus


@pytest.mark.parametrize(
    ("weights_gb", "shards", "servers"),
    [(14, 8, 1), (144, 64, 1), (256, 512, 1), (257, 512, 2), (470, 128, 2), (810, 512, 4), (1342, 512, 8), (1342, 32, 4), (1342, 8, 1)],
)
def test_an_engine_spans_as_few_servers_as_leave_room_beside_its_weights(weights_gb: float, shards: float, servers: int) -> None:
    spread = setup(shard_stage=3.0, shard_degree=shards)
    found = step.engine_stages(spread, tensor=np.full(1, 8.0), weights_bytes=np.full(1, weights_gb * 1e9), most_bytes=32e9)
    assert found[0] == servers
    alone = step.engine_stages(spread.replace(shard_stage=2.0), tensor=np.full(1, 8.0), weights_bytes=np.full(1, 1e12), most_bytes=32e9)
    assert alone[0] == 1


def test_a_forward_pass_is_about_a_third_of_a_step() -> None:
    job = setup(micro_batch=8.0, grad_accum=8.0)
    device, links = device_columns([facts.accelerators()["H100-SXM-80GB"]]), LinkColumns()
    rates = rate_columns(job, device)
    compute = compute_times(model(), job, device, rates)
    communication = communication_times(model(), job, links, rates)
    whole = step_times(model(), job, device, rates, compute=compute, communication=communication).step_s[0]
    once = step.forward_s(job, rates, compute=compute, communication=communication)[0]
    assert 0.22 < once / whole < 0.40
    twice = step.forward_s(job.replace(grad_accum=16.0), rates, compute=compute, communication=communication)[0]
    assert twice == pytest.approx(2 * once)
    assert np.isfinite(once)
