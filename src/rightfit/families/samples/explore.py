"""The search for training on samples: the same candidates, market and criteria as for language models, with the physics of
training_engine."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, cast

import numpy as np

from rightfit import facts
from rightfit.catalog.offers import ServerTable
from rightfit.errors import InputError
from rightfit.estimate.vision_training import train_devices
from rightfit.families.samples.engine import SampleEngine
from rightfit.messages import Message
from rightfit.physics.columns import DeviceColumns, Dtype, MemoryCounter, Method, Recompute, SetupColumns
from rightfit.search.training.machines import Fleet, behind, build_fleet, collapse
from rightfit.search.training.space import Sharding, SpaceLimits

if TYPE_CHECKING:
    from rightfit.families.samples.sample_wish import SampleWish
    from rightfit.search.training.machines import Machines

_DTYPES = {"fp32": Dtype.FP32, "tf32": Dtype.TF32, "fp16": Dtype.FP16, "bf16": Dtype.BF16}
#: Layers whose blocks may be computed again in the backward pass.
_RECOMPUTED = ("conv", "grouped", "depthwise", "convnext", "window", "transformer", "unet", "detection", "conv3d", "denoiser", "dit")


@functools.lru_cache(maxsize=8)
def sample_fleet(servers: ServerTable, precision: str) -> Fleet:
    """Machine classes of the servers, their devices as the physics of samples takes them."""
    fleet = build_fleet(servers, method=Method.FULL, precision=precision)
    machines = fleet.machines
    if not len(machines):
        return fleet
    names = dict.fromkeys(machines.accelerators)
    device = train_devices([_chip(name) for name in names])
    code = {name: number for number, name in enumerate(names)}
    rows = np.array([code[name] for name in machines.accelerators], dtype=np.intp)
    columns = device.take(rows).replace(memory_bytes=machines.memory_bytes)
    # The search only hands devices through to the engine, which knows that they are of another kind.
    return dataclasses.replace(fleet, machines=dataclasses.replace(machines, device=cast("DeviceColumns", columns)))


def _chip(name: str) -> str:
    """The accelerator whose figures stand for `name`."""
    card = behind(facts.accelerators()[name])
    return card.equivalent_to or card.name


def sample_limits(wish: SampleWish, node_counts: tuple[int, ...]) -> SpaceLimits:
    """Data parallelism only; states or tables split where that can help, weights in host memory where denoisers are tuned."""
    workload = wish.workload
    levels = (Recompute.NONE, Recompute.FULL) if wish.work.kind in _RECOMPUTED else (Recompute.NONE,)
    if workload.recompute:
        levels = (Recompute[workload.recompute.upper()],)
    return SpaceLimits(
        num_heads=1,
        num_layers=1,
        num_experts=0,
        global_batch=wish.global_batch,
        seq_len=1,
        method=Method.FULL,
        splits_models=False,
        node_counts=node_counts,
        micro_batch=(workload.micro_batch,) if workload.micro_batch else (),
        recompute=tuple(int(level) for level in levels),
        sharding=shardings(wish),
    )


def shardings(wish: SampleWish) -> tuple[int, ...]:
    """Ways to hold the state that this model leaves open."""
    usual, work, workload = facts.coefficients("training"), wish.work, wish.workload
    if workload.offload in ("params", "all"):
        return (Sharding.OFFLOAD_ALL,)
    if workload.sharding == "none":
        return (Sharding.NONE,)
    if workload.sharding in ("zero3", "fsdp"):
        return (Sharding.ZERO3, Sharding.NONE)
    modes = [Sharding.NONE]
    if work.tables * 4.0 > usual["large_tables_bytes"] or work.params > usual["sharded_params"]:
        modes.append(Sharding.ZERO3)
    if work.kind in ("dit", "denoiser") and (wish.recipe.adapter_rank or wish.recipe.trainable) and workload.offload is None:
        modes.append(Sharding.OFFLOAD_ALL)
    return tuple(modes)


def sample_base(machines: Machines) -> SetupColumns:
    """What the arithmetic decides, one row for each variant."""
    dtypes = [float(_DTYPES[variant.precision]) for variant in machines.variants]
    return collapse(SetupColumns.of(seq_len=1.0, compute_dtype=dtypes, memory_counter=float(MemoryCounter.DRIVER)))


def refuse_what_never_fits(wish: SampleWish, engine: SampleEngine, machines: Machines) -> None:
    """An image or clip of a wanted size that alone is larger than any card holds is the user's slip, not a shortage of servers."""
    workload = wish.workload
    if not len(machines) or not (workload.image_size or workload.frames or workload.audio_length_s):
        return
    one = SetupColumns.of(seq_len=1.0, micro_batch=1.0, data=512.0, shard_degree=512.0, recompute=float(Recompute.FULL))
    needed = float(engine.memory(one)[0])
    largest = max(card.memory_bytes for card in facts.accelerators().values())
    if needed <= largest:
        return
    field = "image_size" if workload.image_size else "frames" if workload.frames else "audio_length"
    size = getattr(workload, field) if field != "audio_length" else f"{workload.audio_length_s:g}s"
    raise InputError(
        Message("families.sample_never_fits", option=field, size=size, needed=needed / 2**30, largest=largest / 2**30),
        field=field,
    )
