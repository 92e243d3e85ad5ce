"""Columns of training that is not of language models: sums, directions, feasibility, speed."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit.estimation.convert import default_links
from rightfit.estimation.pass_records import NetworkInput
from rightfit.estimation.sample_training import (
    PRECISIONS,
    STACKS,
    STORED,
    TrainingColumns,
    TrainSetup,
    train_devices,
    training_columns,
    work_columns,
)
from rightfit.estimation.sample_work import train_work

CARD = "A100-SXM-80GB"
GIB = 2.0**30


def columns(model: str, task: str, *, card: str = CARD, side: float = 224, **setup: object) -> TrainingColumns:
    work = work_columns([train_work(NetworkInput(model, task=task, height=side))])
    layout = TrainSetup.of(**setup)
    size = layout.num_rows
    links = default_links([card] * size, num_gpus=np.broadcast_to(layout.num_gpus, size), gpus_per_node=8)
    return training_columns(work, layout, train_devices([card]), links)


def test_terms_add_up() -> None:
    found = columns("resnet50", "classification", batch=[32, 256], num_gpus=[1, 8])
    assert np.sum(list(map(np.asarray, np.broadcast_arrays(*found.time_terms.values()))), axis=0) == pytest.approx(found.step_s)
    assert np.sum(list(map(np.asarray, np.broadcast_arrays(*found.memory_terms.values()))), axis=0) == pytest.approx(found.peak_bytes)
    assert found.samples_per_s == pytest.approx(np.array([32, 2048]) / found.step_s)


def test_states_by_hand() -> None:
    found = columns("resnet50", "classification", batch=1, precision=PRECISIONS.index("fp32"), optimizer_bytes=8)
    assert found.memory_terms["weights"][0] == pytest.approx(4 * 25.56e6)
    assert found.memory_terms["states"][0] == pytest.approx(12 * 25.56e6)  # gradient and two moments


def test_activations_grow_with_the_batch_and_shrink_with_half_precision() -> None:
    found = columns("resnet50", "classification", batch=[64, 128, 128], precision=[0, 0, PRECISIONS.index("amp")])
    one, two, half = found.memory_terms["activations"]
    assert two == pytest.approx(2 * one)
    assert 0.5 <= half / two < 0.85


def test_adapters_hold_frozen_weights_as_stored() -> None:
    common = {"batch": 1, "precision": PRECISIONS.index("bf16"), "adapter_rank": 16}
    found = columns("flux.1-dev", "diffusion", side=512, stored=[STORED.index("half"), STORED.index("nf4")], **common)
    assert found.memory_terms["weights"][0] == pytest.approx(2 * 11.901e9)
    assert found.memory_terms["weights"][1] == pytest.approx(0.56 * 11.901e9)
    assert found.memory_terms["states"][0] < 0.05 * found.memory_terms["weights"][0]


def test_opened_weights_live_through_the_backward_pass_unless_recomputed_or_streamed() -> None:
    common = {"batch": 1, "precision": PRECISIONS.index("bf16"), "adapter_rank": 16, "stored": STORED.index("fp8wo")}
    found = columns("flux.1-dev", "diffusion", side=512, recompute=[0, 1, 0], offload=[0, 0, 1], **common)
    plain, recomputed, streamed = found.memory_terms["weights"]
    assert recomputed == pytest.approx(1.05 * 11.901e9)
    assert plain - recomputed == pytest.approx(2 * 11.901e9, rel=0.2)
    assert streamed == 0.0


def test_quantised_layers_cost_the_host_more() -> None:
    common = {"batch": 1, "precision": PRECISIONS.index("bf16"), "adapter_rank": 16, "recompute": 1}
    found = columns("flux.1-dev", "diffusion", side=256, stored=[STORED.index(name) for name in ("half", "fp8wo", "int8")], **common)
    assert found.step_s[0] < found.step_s[1] < found.step_s[2]


def test_recomputation_trades_time_for_memory() -> None:
    found = columns("flux.1-dev", "diffusion", side=1024, batch=1, precision=4, adapter_rank=16, stored=1, recompute=[0, 1])
    assert found.step_s[1] > 1.2 * found.step_s[0]
    assert found.memory_terms["activations"][1] < 0.2 * found.memory_terms["activations"][0]


def test_cached_latents_save_the_encoders() -> None:
    found = columns("stable-diffusion-xl", "diffusion", side=1024, batch=4, cached=[1, 0], beside_on_card=[0, 1])
    assert found.step_s[1] > found.step_s[0]
    assert found.memory_terms["frozen_networks"][1] == pytest.approx(2 * (817.7e6 + 83.7e6), rel=0.01)


def test_full_tuning_of_a_large_denoiser_does_not_fit_where_adapters_do() -> None:
    full = columns("flux.1-dev", "diffusion", side=512, batch=1, precision=2)
    adapters = columns("flux.1-dev", "diffusion", side=512, batch=1, precision=4, adapter_rank=16, stored=1, recompute=1)
    assert not full.fits[0]
    assert adapters.fits[0]


def test_split_tables() -> None:
    found = columns("dlrm", "recommendation", side=0, batch=8192, num_gpus=8, tables_split=[1, 8])
    assert found.memory_terms["tables"][0] == pytest.approx(8 * found.memory_terms["tables"][1])
    assert not found.fits[0]
    assert found.fits[1]


def test_more_devices_are_faster_but_not_in_proportion() -> None:
    found = columns("resnet50", "classification", batch=256, num_gpus=[1, 8, 64], gpus_per_node=[1, 8, 8])
    assert np.all(np.diff(found.samples_per_s) > 0)
    assert found.samples_per_s[2] < 64 * found.samples_per_s[0]


def test_a_faster_card_is_faster() -> None:
    rates = [
        columns("resnet50", "classification", card=card, batch=128).samples_per_s[0] for card in ("T4", "A100-SXM-80GB", "H100-SXM-80GB")
    ]
    assert rates == sorted(rates)


def test_the_driver_sees_at_least_what_is_allocated() -> None:
    found = columns("resnet50", "classification", batch=64, counter=[0, 1, 2])
    assert np.all(np.diff(found.peak_bytes) > 0)
    assert found.required_bytes == pytest.approx(found.peak_bytes[2])


def test_ten_thousand_candidates_are_one_call() -> None:
    batches = np.tile(np.arange(1, 101), 100)
    found = columns("resnet50", "classification", batch=batches)
    assert found.step_s.shape == (10_000,)


def test_detectors_gain_little_from_half_precision() -> None:
    """Mask R-CNN in NVIDIA's examples: 37 to 43 ms an image on A100 in TF32, 38 to
    42 under autocast."""
    precisions = [PRECISIONS.index(name) for name in ("tf32", "amp")]
    found = columns("maskrcnn-r50-fpn", "instance_segmentation", side=800, batch=12, precision=precisions, software=STACKS.index("ngc"))
    assert 0.7 < found.step_s[0] / found.step_s[1] < 1.4


def test_fused_stacks_keep_detectors_narrow() -> None:
    wide, narrow = (
        columns("maskrcnn-r50-fpn", "instance_segmentation", side=800, batch=12, precision=2, software=STACKS.index(name))
        for name in ("ngc", "tuned")
    )
    assert wide.step_s[0] > 2 * narrow.step_s[0]
