"""Rates of a usual GPU and stack for tests of formulas: round numbers, and the shapes of operators
as they are in the data."""

from __future__ import annotations

import dataclasses
from typing import Any

from rightfit import facts
from rightfit.physics.columns import Columns
from rightfit.physics.operators import RateColumns
from rightfit.physics.queueing import ReplicaColumns

OPERATORS = facts.coefficients("operators")


def shapes_of(kind: type[Columns]) -> dict[str, float]:
    """The shapes of operators that a struct of rates holds."""
    return {field.name: OPERATORS[field.name] for field in dataclasses.fields(kind) if field.name in OPERATORS}


def linear_replicas(**fields: Any) -> ReplicaColumns:
    """Replicas whose step is a straight line, of at most 256 sequences and 8,192 tokens unless the
    test says otherwise."""
    return ReplicaColumns.linear(**({"max_batch": 256.0, "chunk_tokens": 8192.0} | fields))


RATES = RateColumns.of(
    **shapes_of(RateColumns),
    gemm_fraction=0.8,
    vector_fraction=0.85,
    fp32_energy_ratio=7.0,
    ramp_k=128,
    bandwidth_fraction=0.8,
    flash_forward=0.5,
    flash_backward=0.4,
    eager_attention=0.3,
    layer_forward_cpu_s=3e-4,
    overlap=0.8,
    residual_passes=3,
    activation_passes=3,
    softmax_passes=4,
    loss_bytes=14,
    update_passes=1.2,
    accumulate_passes=3.0,
    dequantise_fraction=0.7,
    expert_gemm=0.8,
    expert_imbalance=1.1,
    weight_sync_bandwidth=3.5e9,
    weight_sync_s=0.4,
    selective_share=0.1,
    switch_fraction=0.75,
    mesh_fraction=0.75,
    pcie_fraction=0.5,
    socket_fraction=0.4,
    inter_fraction=0.8,
    context_overlap=0.5,
    pipeline_overlap=0.5,
)
