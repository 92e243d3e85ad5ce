"""What a server with accelerators needs beside them for a service: RAM and processors of its engine's processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rightfit import facts
from rightfit.search.service.disk import weights_bytes
from rightfit.search.service.wish import ServingWish, usual
from rightfit.search.weight_files import num_parameters

if TYPE_CHECKING:
    from rightfit.physics.columns import Array
    from rightfit.search.service.space import ServingFleet

_OTHER_BITS = 16.0
_BITS = {"fp32": 32.0}


def host_need_bytes(wish: ServingWish, fleet: ServingFleet) -> Array:
    """Host RAM [bytes] that a server of each machine class needs (classes,): the engine's processes, and weights on their way to the cards.

    Engines of language models read one file after another, each process its own; other models are read whole, in the arithmetic that runs,
    and then moved (from_pretrained, torch.load). Classes without accelerators hold the model in RAM: their need is that of the estimate.
    """
    known = usual()
    cards = fleet.gpus_per_node.astype(np.float64)
    if wish.generates:
        staged = cards * min(weights_bytes(wish), float(known["host_file_bytes"]))
    else:
        bits = [_BITS.get(stacks[0].format if stacks else "", _OTHER_BITS) for stacks in fleet.stacks]
        staged = num_parameters(wish.model) * np.array(bits) / 8.0
    return np.asarray(known["host_bytes_per_server"] + cards * known["host_bytes_per_process"] + staged)


def least_vcpus(wish: ServingWish, accelerators: Array) -> Array:
    """Hardware threads that the processes of an engine need at least; `accelerators` of one server, 0 of those without, which need none."""
    apart = float(usual()["engine_processes"]) if wish.generates else float(facts.coefficients("planning")["job_processes"])
    return np.where(accelerators > 0, apart + accelerators, 0.0)
