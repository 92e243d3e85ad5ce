"""A hand-made option: QLoRA of an 8B model on one L4, with round figures. Real dataclasses of
search, no catalog needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from rightfit.estimation.figures import Figure
from rightfit.search.answer import Cost, Layout, Option, OptionAccelerator, Reason
from rightfit.workload import Workload

GIB = 2**30
LAYOUT = Layout(
    data=1,
    tensor=1,
    pipeline=1,
    expert=1,
    context=1,
    sharding="none",
    shard_degree=1,
    micro_batch=2,
    grad_accum=8,
    recompute="full",
    precision="bf16",
    attention="flash",
    offload="none",
    method="qlora",
)


def figure(mid: float, spread: float = 0.1) -> Figure:
    """A figure with a symmetric 80 % interval of `spread` and a 95 % one twice as wide."""
    return Figure(mid, mid * (1 - spread), mid * (1 + spread), mid * (1 - 2 * spread), mid * (1 + 2 * spread))


def make_option(**changes: Any) -> Option:
    """The option, with fields changed; `layout` changes go into the layout."""
    layout = dataclasses.replace(LAYOUT, **changes.pop("layout", {}))
    estimate = {
        "peak_memory_bytes": figure(12 * GIB),
        "step_s": figure(10.0),
        "tokens_per_s": figure(3277.0),
        "total_time_s": figure(18720.0),
        "mfu": figure(0.42),
        "host_memory_bytes": figure(24 * GIB),
        "disk_bytes": figure(60e9),
    }
    option = Option(
        rank=1,
        provider="gcp",
        region="us-central1",
        instance_type="g2-standard-4",
        nodes=1,
        purchase="on-demand",
        accelerator=OptionAccelerator("L4", 1, 24 * GIB),
        vcpus=4,
        memory_bytes=16 * GIB,
        network_gbps=10,
        price_as_of="2026-07-30",
        price_source="price list",
        layout=layout,
        estimate=estimate,
        memory_terms={"weights": 5.5 * GIB, "activations": 4 * GIB, "logits": 2 * GIB, "context": 0.5 * GIB},
        time_terms={"gemm_s": 9.0, "memory_bound_s": 1.0},
        data_path=DATA_PATH,
        cost=Cost(0.7068, 3.68, figure(3.68), {"servers_usd": 3.6, "storage_usd": 0.08}, 0.0736),
        why=(
            Reason(
                "cheapest",
                {
                    "total_usd": 3.68,
                    "total_time_s": 18720.0,
                    "runner_up": "aws/g6.xlarge",
                    "runner_up_usd": 4.2,
                    "runner_up_time_s": 18700.0,
                },
            ),
            Reason("fits", {"peak_bytes": 12 * GIB, "limit_bytes": 22 * GIB, "probability": 0.9995}),
        ),
        warnings=(Reason("price_stale", {"as_of": "2024-12-31"}),),
        facts={"capacity_bytes": 22 * GIB, "seq_len": 2048, "tokens": 5e7, "dataset_bytes": 2e8},
    )
    return dataclasses.replace(option, **changes)


DATA_PATH = {
    "dataset_bytes": 2e8,
    "decode": "tokenized",
    "staging": "volume",
    "why": "volume",
    "staging_s": 1.6,
    "volume": "gp3",
    "volume_bytes": 1.62e10,
    "disk_bytes_per_s": 1.25e8,
    "read_bytes_per_s": 1.25e8,
    "needed_bytes_per_s": 2.5e6,
    "cached_share": 0.5,
    "samples_per_s": 6.25e5,
    "cores": 7.0,
    "needed_cores": 0.1,
    "workers": 2,
    "first_epoch_s": 80.0,
    "later_epoch_s": 80.0,
    "loading_s": 1.6,
    "loading_share": 0.02,
    "stall_share": 0.0,
    "first_stall_share": 0.0,
    "rule_share": 0.2,
    "limit": "read",
    "upload_s": 0.0,
    "moved_usd": 0.0,
    "checkpoint": {
        "bytes": 4e7,
        "interval_s": 1200.0,
        "count": 16.0,
        "save_s": 0.08,
        "write_s": 0.32,
        "upload_s": 0.05,
        "kept": 2.0,
        "object_usd": 1e-5,
    },
}


@pytest.fixture(scope="session")
def option_of() -> Callable[..., Option]:
    """Builds the option with changes."""
    return make_option


@pytest.fixture(scope="session")
def workload() -> Workload:
    """The wish that the option answers."""
    return Workload(model="meta-llama/Meta-Llama-3-8B", task="finetune", method="qlora", data="50Mtok", seq_len=2048)
