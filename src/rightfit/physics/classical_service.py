"""What a request to a classical model costs a core, and what a worker process holds."""

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

    web_s: HTTP, routing and the answer [s]; cell_s: reading and checking one number of the request [s]; cols: numbers in it; call_s: the library's
    own call, whatever it scores [s]; tree_s: calling one of the `trees` [s]; operations: elementary steps of a row (trees x levels, columns x
    outputs, ...); operation_s: of one [s]; stream_bytes: of the model that every request reads from memory (0 where caches hold it) [bytes],
    core_bandwidth: a core's share of the memory rate [bytes/s]; speed: of a core, relative to the one that the seconds are of. All broadcast; result [s].

        t = (web + cols x cell + call + trees x tree) / speed + max(operations x operation / speed, stream / bandwidth)

    Reference: linear as measured (validation/measured_classical_service.csv). Known error: a model that falls out of the processor's caches takes
    longer than its operations say, up to twice for forests of some hundred MiB.
    """
    fixed_s = (web_s + cell_s * cols + call_s + tree_s * trees) / speed
    return fixed_s + np.maximum(operations * operation_s / speed, stream_bytes / core_bandwidth)


def pass_s(core_s: Array, *, waiting: Array, workers: Array) -> Array:
    """Seconds until `waiting` requests are answered by `workers` processes that each take one at a time.

    core_s, workers: (N,) or broadcastable; waiting: (B,). Result (N, B): core_s x max(1, waiting / workers).
    """
    return core_s * np.maximum(waiting / workers, 1.0)


def worker_bytes(*, runtime_bytes: Array, model_bytes: Array, workers: Array) -> Array:
    """Memory of all workers [bytes]: each has the interpreter with its libraries, and a copy of the model."""
    return workers * (runtime_bytes + model_bytes)
