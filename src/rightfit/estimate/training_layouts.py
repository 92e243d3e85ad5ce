"""State of a model that is not a language model, split over devices or held in host memory: what that saves on a card and costs in time.

Splitting is FSDP's: weights, gradients and optimizer states of a network are cut over `degree` devices; each pass gathers the weights of
two blocks at a
time, once forward and once backward (Zhao et al. 2023, arXiv 2304.11277). Embedding tables are cut by rows or columns and exchange what
they look up
(physics.train_step). Held in host memory, frozen weights come over PCIe block by block, once forward and once backward. Known error: how
much of
either the computation hides is taken, not measured.
"""

from __future__ import annotations

import numpy as np

from rightfit import facts
from rightfit.estimate.vision_training import STORED, STORED_BYTES, TrainSetup, WorkColumns, communication_rates
from rightfit.physics import collectives
from rightfit.physics.columns import Array, LinkColumns


def split_work(work: WorkColumns, degree: Array) -> WorkColumns:
    """The work as one device of `degree` holds it, shape (N,): its part of the states and two gathered blocks beside."""
    usual = facts.coefficients("training")
    blocks = np.maximum(work.layers / usual["units_of_layers"], 2.0)
    gathered = np.where(degree > 1, 2.0 * work.params / blocks * usual["gathered_bytes"], 0.0)
    return work.replace(params=work.params / degree, trained=work.trained / degree, fixed_bytes=work.fixed_bytes + gathered)


def gathering_s(work: WorkColumns, setup: TrainSetup, links: LinkColumns, *, degree: Array, compute: Array) -> Array:
    """Seconds of a step that gathering split weights adds [s], shape (N,): two gathers each pass, less what `compute` [s] hides."""
    usual = facts.coefficients("training")
    ranks = collectives.group(setup.num_gpus, stride=np.ones(1), gpus_per_node=setup.gpus_per_node)
    whole = setup.grad_accum * collectives.all_reduce_s(work.params * usual["gathered_bytes"], ranks, links, communication_rates())
    return np.where(degree > 1, _exposed(whole, compute), 0.0)


def swapping_s(work: WorkColumns, setup: TrainSetup, links: LinkColumns, *, compute: Array) -> Array:
    """Seconds of a step that weights in host memory add [s], shape (N,): there and back each pass, less what `compute` [s] hides."""
    moved = 2.0 * setup.grad_accum * host_weights_bytes(work, setup)
    return np.where(setup.offload > 0, _exposed(moved / np.maximum(links.host_bandwidth, 1e9), compute), 0.0)


def host_weights_bytes(work: WorkColumns, setup: TrainSetup) -> Array:
    """Bytes of weights that each device keeps in host memory, shape (N,)."""
    frozen = (setup.adapter_rank > 0) | (setup.trainable > 0)
    stored = np.where(frozen, np.asarray(STORED_BYTES)[setup.stored.astype(np.intp)], STORED_BYTES[STORED.index("fp32")])
    return setup.offload * work.params * stored


def _exposed(seconds: Array, compute: Array) -> Array:
    usual = facts.coefficients("training")
    return np.maximum(seconds - usual["overlap"] * compute, usual["exposed_least"] * seconds)
