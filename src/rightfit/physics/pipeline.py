"""Pipeline parallelism: idle time at the start and end of a step, and the imbalance of stages.

1F1B and GPipe idle (p - 1) micro-batch times; interleaving v chunks per stage divides that by v (Narayanan et al. 2021). A pipeline runs at
the pace of its slowest stage: the last one also holds the vocabulary head.

Source: Narayanan et al. 2021.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array


def step_parts(*, body_s: Array, head_s: Array, stages: Array, micro_batches: Array, chunks: Array, layers: Array) -> tuple[Array, Array]:
    """Busy and idle seconds of a step.

    `body_s`, `head_s` [s] of one micro-batch in all layers and in the head, `stages` [GPUs], `micro_batches` [micro-batches], `chunks` [1]
    per stage, `layers` [layers] -> [s], [s]. A full stage holds ceil(layers / stages) layers; the last one holds the remainder and the head
    (a remainder is usually chosen for that: 126 layers on 8 stages, 94 on 32). Busy is what one GPU works on average; idle the bubble plus
    waiting for the slowest stage.
    """
    per_layer = body_s / np.maximum(layers, 1.0)
    full = np.ceil(layers / stages)
    last = np.maximum(layers - (stages - 1.0) * full, 0.0) * per_layer + head_s
    mean = (body_s + head_s) / stages
    slowest = np.where(stages > 1, np.maximum(full * per_layer, last), mean)
    total = micro_batches * slowest + (stages - 1.0) * mean / np.maximum(chunks, 1.0)
    busy = micro_batches * mean
    return busy, total - busy
