"""Two rules of thumb that people use instead of a predictor, as rivals on exactly the same rows.

Memory: 16 bytes a parameter, divided over the shards. Throughput: 6 x active parameters FLOP a token at 40 % of the peak.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.estimate.cases import TrainingCases, training_cases
from rightfit.estimate.score import is_memory
from rightfit.estimate.tables import clean_row
from rightfit.physics.columns import Array

BYTES_PER_PARAMETER = 16.0
PEAK_SHARE = 0.4

MEMORY_RULE = "rule: 16 bytes a parameter"
TIME_RULE = "rule: 6 N D / (0.4 peak)"


def memory_rule_gib(cases: TrainingCases) -> Array:
    """16 bytes a parameter over tensor, pipeline and shards [GiB per GPU]."""
    setup = cases.setup
    parts = setup.tensor * setup.pipeline * np.maximum(setup.shard_degree, 1.0)
    result: Array = cases.model.params_total * BYTES_PER_PARAMETER / parts / 2.0**30
    return result


def throughput_rule(cases: TrainingCases) -> Array:
    """0.4 of the peak over 6 FLOP a parameter and token [tokens/s per GPU]."""
    peak = cases.device.peak_flops(cases.setup.compute_dtype)
    result: Array = PEAK_SHARE * peak / (6.0 * np.maximum(cases.model.params_active, 1.0))
    return result


def rule_predictions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the rules say of each row, in the form of predictions (without intervals); rows of other metrics have none."""
    answers: list[dict[str, Any]] = [{"predicted": None} for _ in rows]
    cases = training_cases([clean_row(row)[0] for row in rows])
    memory, time = np.broadcast_to(memory_rule_gib(cases), cases.index.shape), np.broadcast_to(throughput_rule(cases), cases.index.shape)
    capacity = np.broadcast_to(cases.device.memory_bytes, cases.index.shape) / 2.0**30
    for i, position in enumerate(cases.index):
        row = rows[int(position)]
        if is_memory(row):
            fits = int(memory[i] <= capacity[i])
            answers[int(position)] = {"predicted": float(memory[i]), "fits": fits, "fits95": fits}
        elif row.get("metric") == "tokens_per_s_per_gpu":
            answers[int(position)] = {"predicted": float(time[i])}
    return answers
