"""Rows of the table of training that is not of language models, as columns."""

from __future__ import annotations

import pytest

from rightfit.estimation.sample_training import PRECISIONS, STACKS, STORED
from rightfit.proof.cases.samples import SamplesRows, samples_cases

ROW = {
    "metric": "images_per_s_total",
    "task": "classification",
    "model": "resnet50",
    "framework": "PyTorch 2.1",
    "precision": "amp",
    "gpu": "A100-SXM4-80GB",
    "gpu_mem_gib": "80",
    "n_gpus": "8",
    "batch_per_gpu": "256",
    "image_size": "224",
    "extra_flags": "",
    "notes": "",
}


def read(**cells: str) -> SamplesRows:
    return samples_cases([ROW | cells])


def test_a_plain_row() -> None:
    found = read()
    assert not found.refused
    cases = found.cases
    assert (cases.setup.batch[0], cases.setup.num_gpus[0], cases.setup.gpus_per_node[0]) == (256, 8, 8)
    assert PRECISIONS[int(cases.setup.precision[0])] == "amp"
    assert STACKS[int(cases.setup.software[0])] == "eager"
    assert cases.device.memory_bytes[0] == pytest.approx(80 * 2**30, rel=0.02)


def test_other_spellings_of_a_card() -> None:
    plain = read().cases.device.bandwidth[0]
    for name in ("NVIDIA A100-SXM4-80GB (400W)", "A100-SXM4-80GB (DGX)", "A100 SXM4 80GB"):
        found = read(gpu=name)
        assert not found.refused, found.refused
        assert found.cases.device.bandwidth[0] == plain


def test_global_batch_and_nodes_of_a_benchmark() -> None:
    cases = read(batch_per_gpu="", n_gpus="16", extra_flags="nodes=2;apn=8;global_batch=4096", precision="mixed (submitter tuned)").cases
    assert (cases.setup.batch[0], cases.setup.gpus_per_node[0], cases.benchmark[0]) == (256, 8, 1)


def test_an_unstated_batch_is_named() -> None:
    assert any("batch not stated" in text for text in read(batch_per_gpu="").assumptions[0])


def test_adapters_on_a_quantised_base() -> None:
    cases = read(
        metric="peak_mem_gib_per_gpu",
        task="diffusion_finetune",
        model="flux.1-dev",
        precision="int8-torchao",
        image_size="1024",
        batch_per_gpu="1",
        n_gpus="1",
        extra_flags="lora;rank=64;checkpointing=layer;opt=adamw_bf16;latents cached",
    )
    setup = cases.cases.setup
    assert STORED[int(setup.stored[0])] == "int8"
    assert (setup.adapter_rank[0], setup.recompute[0], setup.cached[0], setup.optimizer_bytes[0]) == (64, 1, 1, 4)


def test_a_memory_row_needs_no_card() -> None:
    cases = read(metric="peak_mem_gib_per_gpu", gpu="not stated", gpu_mem_gib="")
    assert not cases.refused
    assert not cases.cases.has_device[0]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"model": ""}, "names no model"),
        ({"model": "no-such-network"}, "no-such-network"),
        ({"gpu": ""}, "names no device"),
        ({"gpu": "Abacus 3000"}, "Abacus"),
        ({"metric": "joules"}, "is not predicted; the metrics are"),
        ({"n_gpus": "many"}, "not a number"),
        ({"batch_per_gpu": "-4"}, "not a sensible number"),
        ({"task": "reinforcement_learning", "model": "minigo"}, "self-play"),
        ({"metric": "time_to_train_min", "task": "segmentation", "model": "unet-medical", "image_size": "572"}, "how much data"),
    ],
)
def test_refusals(cells: dict[str, str], says: str) -> None:
    assert says in read(**cells).refused[0]
