"""What a request to a classical model costs a core, and what a worker process holds.

Source: accounting; docs/decisions/classical-ml.md.
"""

from __future__ import annotations

import numpy as np

from rightfit.physics.columns import Array


def request_core_s(
    *,
    web_s: Array,
    cell_s: Array,
    cols: Array,
    call_s: Array,
    tree_s: Array,
    trees: Array,
    operations: Array,
    operation_s: Array,
    stream_bytes: Array,
    core_bandwidth: Array,
    speed: Array,
) -> Array:
    """Core seconds of a request for one row.

    `web_s` [s] of HTTP, routing and the answer, `cell_s` [s] to read and check one number of the request, `cols` [columns] in it, `call_s`
    [s] of the library's own call, `tree_s` [s] to call one of the `trees` [trees], `operations` [operations] of a row (trees x levels,
    columns x outputs, ...), `operation_s` [s] of one, `stream_bytes` [bytes] of the model that every request reads from memory (0 where
    caches hold it), `core_bandwidth` [bytes/s] a core's share of the memory rate, `speed` [1] of a core, relative to the one that the
    seconds are of -> [s].

        t = (web + cols x cell + call + trees x tree) / speed + max(operations x operation / speed, stream / bandwidth)

    Source: linear as measured (validation/measured_classical_service.csv). Known error: a model that falls out of the processor's caches
    takes longer than its operations say, up to twice for forests of some hundred MiB.
    """
    fixed_s = (web_s + cell_s * cols + call_s + tree_s * trees) / speed
    return fixed_s + np.maximum(operations * operation_s / speed, stream_bytes / core_bandwidth)


def pass_s(core_s: Array, *, waiting: Array, workers: Array) -> Array:
    """Seconds until `waiting` requests are answered by `workers` processes that each take one at a time.

    `core_s` [s], `waiting` [requests, (B,)], `workers` [1] -> [s, (N, B)]: core_s x max(1, waiting / workers).
    """
    return core_s * np.maximum(waiting / workers, 1.0)


def worker_bytes(*, runtime_bytes: Array, model_bytes: Array, workers: Array) -> Array:
    """Memory of all workers: each has the interpreter with its libraries, and a copy of the model.

    `runtime_bytes`, `model_bytes` [bytes], `workers` [1] -> [bytes].
    """
    return workers * (runtime_bytes + model_bytes)
