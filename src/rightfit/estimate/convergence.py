"""Samples that a benchmark run takes to reach its quality target, from MLPerf's reference convergence points.

A published time to train is samples to converge over samples a second; the first depends on the model, the target and the global batch,
never on the machine. facts/data/convergence.csv has the mean over the reference runs; between batch sizes it is interpolated in
log-log, outside them held. Single runs differ from the mean by about 8 % (BERT at batch 256) to 3 % (GPT-3).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from rightfit import facts


@functools.cache
def _points(model: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    rows = sorted((float(row["global_batch"]), float(row["samples"])) for row in facts.table("convergence") if row["model"] == model)
    return tuple(math.log(batch) for batch, _ in rows), tuple(math.log(samples) for _, samples in rows)


def samples_to_converge(model: str, *, global_batch: float) -> float:
    """Samples to the benchmark's target for a model by hub id and a global batch [samples]; NaN for a model that is no benchmark."""
    batches, samples = _points(model)
    if not batches or global_batch <= 0:
        return math.nan
    return math.exp(float(np.interp(math.log(global_batch), batches, samples)))
