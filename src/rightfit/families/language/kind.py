"""The family of language models: training and fine-tuning of transformers on tokens."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence

import numpy as np

from rightfit import facts
from rightfit.errors import ContradictionError, RightfitError
from rightfit.estimation.data_path import DataLoad
from rightfit.estimation.figures import FigureColumns, exact, probability_within
from rightfit.estimation.training_setup import TrainingCase, setup_fields
from rightfit.facts import trainers
from rightfit.families.language.engine import LanguageEngine
from rightfit.families.language.wish import LOW_RANK, read_wish, tuned_layout
from rightfit.market.offers import ServerTable
from rightfit.messages import Message, cause
from rightfit.physics.columns import Array, DeviceColumns, MemoryCounter, Method, Recompute, SetupColumns
from rightfit.search.advice import cheapest_of, effect_of
from rightfit.search.answer import Option, Reason
from rightfit.search.criteria import ADAPTER_METHODS, assumed_framework, splits_models
from rightfit.search.market import Volume
from rightfit.search.option_facts import WorkFacts
from rightfit.search.rank import Row
from rightfit.search.risk import with_start
from rightfit.search.training.explore import Craft, Details, TrainingResult, explore
from rightfit.search.training.kind import training_family
from rightfit.search.training.machines import Fleet, Variant, build_fleet, collapse
from rightfit.search.training.options import row_risk, shifted, with_risks
from rightfit.search.training.space import NODE_COUNTS, SetupTable, Sharding, SpaceLimits
from rightfit.search.training.wish import TrainingRequest
from rightfit.workload.model import Workload

# ---- The space of set-ups of a language model: its bounds, its machines, what every set-up has
# in common, and the data of a run.

SHARDINGS = {"none": (Sharding.NONE,), "zero1": (Sharding.ZERO1,), "zero2": (Sharding.ZERO2,), "zero3": (Sharding.ZERO3,)}
STATE_SHARDINGS = (Sharding.ZERO1, Sharding.ZERO2, Sharding.OFFLOAD_OPTIMIZER)
FULLY_SHARDED = (Sharding.ZERO3, Sharding.HYBRID)
BESIDE_ACTIVATIONS = (Sharding.NONE, *FULLY_SHARDED)
"""Shardings of the trainers that move activations to the host."""
CORE_COST = {"tokenized": "ready_s_per_token", "text": "text_s_per_token"}


def space_limits(wish: TrainingRequest, node_counts: tuple[int, ...] = NODE_COUNTS) -> SpaceLimits:
    """The bounds of the space that the model and the user's choices set."""
    workload, model, tuning = wish.workload, wish.model, wish.tuning
    return SpaceLimits(
        num_heads=max(1, model.num_heads),
        num_layers=max(1, model.num_layers),
        num_experts=model.num_experts,
        global_batch=wish.global_batch,
        seq_len=wish.seq_len,
        method=wish.method,
        splits_models=splits_models(workload, wish.method) and not moves_activations(workload),
        node_counts=node_counts,
        tensor=(workload.tensor_parallel,) if workload.tensor_parallel else (),
        pipeline=(workload.pipeline_parallel,) if workload.pipeline_parallel else (),
        micro_batch=micro_batches(wish),
        recompute=recompute_levels(workload),
        sharding=tuned_shardings(wish) if tuning else chosen_shardings(workload.sharding, workload.offload),
        last_resort=last_resort(wish),
        apart=2 if tuning and tuning.is_apart else 1,
        by_server=bool(tuning and tuning.rollout),
    )


def moves_activations(workload: Workload) -> bool:
    """Whether what recomputation keeps, the inputs of layers, lies in host memory; weights and
    states stay where they are."""
    return workload.offload == "activations"


def recompute_levels(workload: Workload) -> tuple[int, ...]:
    """Levels of recomputation that are open: the user's; all layers where their inputs lie on the
    host (that is what trainers move); else (empty) every one."""
    level = workload.recompute or ("full" if moves_activations(workload) else "")
    return (int(Recompute[level.upper()]),) if level else ()


def tuned_shardings(wish: TrainingRequest) -> tuple[int, ...]:
    """Sharding modes of tuning on preferences and rewards: no framework of it streams weights from
    the host through its several passes."""
    modes = chosen_shardings(wish.workload.sharding, wish.workload.offload) or (
        tuple(mode for mode in Sharding if not (wish.method in ADAPTER_METHODS and mode in STATE_SHARDINGS))
    )
    return tuple(mode for mode in modes if mode != Sharding.OFFLOAD_ALL)


def micro_batches(wish: TrainingRequest) -> tuple[int, ...]:
    """Sequences of a micro-batch that are open: the user's, else (empty) every power of two; both
    answers of a pair go together, and KTO compares the answers of a micro-batch with each other."""
    pair = 2 if wish.tuning and wish.tuning.method.is_paired else 1
    several = pair > 1 or bool(wish.tuning and wish.tuning.method.method == "kto")
    if wish.workload.micro_batch:
        return (wish.workload.micro_batch * pair,)
    return tuple(2**power for power in range(1, wish.global_batch.bit_length())) if several else ()


def last_resort(wish: TrainingRequest) -> tuple[int, ...]:
    """Shardings that nothing but need speaks for: under adapters on a mixture of experts without
    expert parallelism ZeRO-3, which gathers every expert for every micro-step."""
    gathers_experts = wish.model.num_experts > 1 and wish.method in ADAPTER_METHODS and not splits_models(wish.workload, wish.method)
    return FULLY_SHARDED if gathers_experts else ()


def chosen_shardings(sharding: str | None, offload: str | None) -> tuple[int, ...]:
    """Sharding modes that the user's words leave open; an empty tuple means all."""
    if offload in ("optimizer",):
        return (Sharding.OFFLOAD_OPTIMIZER,)
    if offload in ("params", "all"):
        return (Sharding.OFFLOAD_ALL,)
    modes = FULLY_SHARDED if sharding == "fsdp" else SHARDINGS.get(sharding or "", ())
    if sharding == "zero3":
        modes = FULLY_SHARDED
    if not modes and offload == "activations":
        return BESIDE_ACTIVATIONS
    if not modes and offload == "none":
        return tuple(mode for mode in Sharding if mode < Sharding.OFFLOAD_OPTIMIZER)
    if modes and offload in (None, "activations") and sharding not in ("none",):
        return (*modes, Sharding.NONE)  # one accelerator has nothing to shard over
    return tuple(modes)


@functools.lru_cache(maxsize=8)
def _fleet(servers: ServerTable, method: Method, precision: str, attention: str) -> Fleet:
    """A table of servers is hashed by identity, so the cache keeps the fleets of
    the last few markets."""
    return build_fleet(servers, method=method, precision=precision, attention=attention)


def fleet_of(servers: ServerTable, wish: TrainingRequest) -> Fleet:
    """Machine classes of servers for this method and precision."""
    return _fleet(servers, wish.method, wish.workload.precision or "", wish.workload.attention or "")


def training_case(wish: TrainingRequest, variant: Variant) -> TrainingCase:
    """How the model is trained on one kind of accelerator."""
    workload = wish.workload
    method = wish.tuning.update if wish.tuning else workload.method or "full"
    framework, optimizer = workload.framework or assumed_framework(workload, wish.method), workload.optimizer or ""
    weights, attention = workload.quantization or "", workload.attention or ("flash" if variant.flash else "sdpa")
    habits = trainers.stack_habits(framework=framework, method=method, model=wish.model.name, optimizer=optimizer)
    return TrainingCase(
        wish.model,
        habits,
        software=trainers.software(framework, attention=attention, weights=weights),
        optimizer=trainers.optimizer(optimizer),
        compute=trainers.number_format(variant.precision),
        method=Method[method.upper()],
        packed=trainers.packed_base(weights, nf4=habits.nf4, always=method == "qlora"),
        rank=workload.lora_rank or 0.0,
        targets=trainers.adapter_targets(",".join(workload.lora_targets)) if workload.lora_targets else None,
        attention=attention,
        supports_flash=variant.flash,
    )


def base_setup(wish: TrainingRequest, variants: Sequence[Variant]) -> SetupColumns:
    """What method, precision, optimizer and framework decide, one row for each variant. Memory is
    counted as the driver reports it: that is what must fit the card."""
    try:
        rows = [setup_fields(training_case(wish, variant)) for variant in variants]
    except KeyError as error:
        raise RightfitError(Message("families.setup_unresolved", method=wish.workload.method, error=cause(error))) from None
    names = {name: [row[name] for row in rows] for name in rows[0]}
    sync = {"weight_sync": 1.0} if wish.tuning and wish.tuning.rollout else {}
    sync |= {"offload_activations": 1.0} if moves_activations(wish.workload) else {}
    return collapse(SetupColumns.of(**{**names, **sync, "seq_len": wish.seq_len, "memory_counter": float(MemoryCounter.DRIVER)}))


def load_of(wish: TrainingRequest, volume: Volume) -> DataLoad:
    """The data of a run: one sample is one token."""
    usual, workload = facts.coefficients("loading"), wish.workload
    epochs = workload.epochs or 1.0
    tokens = wish.amount.tokens / epochs
    decode = workload.decode or "tokenized"
    if decode not in CORE_COST:
        raise ContradictionError(Message("families.decode_language", decode=decode), field="decode")
    storage = workload.storage or ""
    return DataLoad(
        dataset_bytes=volume.dataset_bytes,
        samples=tokens,
        epochs=epochs,
        core_s=usual[CORE_COST[decode]],
        reads_per_sample=volume.dataset_bytes / tokens / usual["shard_bytes"],
        weights_bytes=volume.weights_bytes,
        decode=decode,
        storage=storage,
        workers=workload.workers or 0,
    )


# ---- Chosen rows in full where language models are trained: memory and step term by term,
# figures with intervals.


def evaluate_rows(search_result: TrainingResult, rows: Sequence[Row], num_full: int | None = None) -> Details:
    """Run the whole physics on the rows' setups."""
    engine = search_result.engine
    assert isinstance(engine, LanguageEngine)
    servers = search_result.market.offers.server_index[[row.offer for row in rows]]
    machine = search_result.fleet.machine_index[servers]
    setup = np.array([search_result.setup_of(row.offer, row.node) for row in rows], dtype=np.intp)
    setups = search_result.space.setups.take(setup)
    columns = setups.columns(search_result.base)
    device, links = search_result.fleet.machines.device.take(machine), search_result.fleet.machines.links.take(machine)
    memory, step = engine.details(columns, device, links)
    regime = engine.regime(columns, device)
    where = tuple(np.array([getattr(row, name) for row in rows], dtype=np.intp) for name in ("offer", "node"))
    total_s = search_result.bill.total_s[where]
    fixed_s = search_result.bill.startup_s[where]
    shape = total_s.shape

    def figure(metric: str, mid: Array) -> FigureColumns:
        return engine.figure(metric, np.broadcast_to(mid, shape), regime)

    at = (servers, where[1])
    waits = np.divide(search_result.path.run_s[at], search_result.path.compute_s[at])  # of computing and loading the longer counts
    step_s = step.step_s * waits
    tokens = columns.tokens_per_step / step_s
    figures = {
        "peak_memory_bytes": figure("peak_memory_bytes", memory.required_bytes),
        "step_s": figure("step_s", step_s),
        "tokens_per_s": figure("tokens_per_s", tokens),
        "samples_per_s": figure("samples_per_s", tokens / columns.seq_len),
        "mfu": figure("mfu", step.mfu(columns, device) / waits),
        "total_time_s": shifted(figure("total_time_s", total_s - fixed_s), fixed_s),
        "host_memory_bytes": figure("host_memory_bytes", memory.host_bytes),
        "disk_bytes": exact(np.broadcast_to(memory.disk_bytes + search_result.volume.dataset_bytes, shape)),
    }
    deadline = search_result.filters.deadline_s
    works = figure("total_time_s", search_result.bill.run_s[where])
    risks = tuple(
        row_risk(search_result, row, works.row(position)) if num_full is None or position < num_full else None
        for position, row in enumerate(rows)
    )
    figures["total_time_s"] = with_start(with_risks(figures["total_time_s"], risks), fixed_s)
    in_time = probability_within(figures["total_time_s"], np.full(shape, deadline or np.inf))
    fits = engine.fit_probability_of(columns, device, memory.required_bytes)
    if search_result.wish.tuning is not None:  # its intervals are wider than those that the two probabilities know
        fits = probability_within(figures["peak_memory_bytes"], np.broadcast_to(engine.capacity(device), shape))
    return Details(
        setups=setups,
        columns=columns,
        memory=memory,
        step=step,
        figures=figures,
        fit_probability=np.broadcast_to(fits, shape),
        deadline_probability=in_time,
        uncalibrated=np.broadcast_to(engine.uncalibrated(device), shape),
        stored_bytes=np.broadcast_to(engine.memory(columns.replace(recompute=float(Recompute.NONE))) - engine.spared(device), shape),
        waiting_s=np.broadcast_to(step_s - step.step_s, shape),
        risks=risks,
        adapted_bytes=_adapted_bytes(search_result, setups, device, shape),
    )


def _adapted_bytes(search_result: TrainingResult, setups: SetupTable, device: DeviceColumns, shape: tuple[int, ...]) -> Array | None:
    """Peak memory of setups if every linear layer had the adapters of which nobody says where they
    are; None where somebody says it, or there are none."""
    wish = search_result.wish
    if wish.method not in LOW_RANK or wish.tuning is not None or wish.workload.lora_targets:
        return None
    wider = dataclasses.replace(wish, workload=wish.workload.with_changes(lora_targets=("all-linear",)))
    columns = setups.columns(base_setup(wider, search_result.fleet.machines.variants))
    return np.broadcast_to(search_result.engine.memory(columns) - search_result.engine.spared(device), shape)


def facts_of(wish: TrainingRequest) -> WorkFacts:
    """What explanations need beside: how long sequences are, how many tokens there are in all, and
    in how many passes."""
    return {"seq_len": wish.seq_len, "tokens": wish.amount.tokens, "epochs": wish.workload.epochs or 1.0}


def engine_of(wish: TrainingRequest) -> LanguageEngine:
    """The physics of a wish; that of tuning knows how engines answer, and few plans need it."""
    if wish.tuning is None:
        return LanguageEngine.of(wish.model)
    from rightfit.families.language.engine import TunedEngine

    return TunedEngine.tuned(wish)


def stack_that_splits(search_result: TrainingResult, best: Option | None) -> Iterable[Reason]:
    """Where nothing is feasible with the libraries that are assumed: what a stack that can split
    the model over accelerators would cost under the same limits."""
    workload = search_result.wish.workload
    if best is not None or workload.framework or search_result.space.limits.splits_models:
        return
    try:
        wish = read_wish(workload.with_changes(framework=SPLITTER))
    except RightfitError:
        return  # an option of the user's does not go with it
    if not splits_models(wish.workload, wish.method):
        return
    there = explore(wish, search_result.market, search_result.filters, CRAFT, node_counts=search_result.space.limits.node_counts)
    at = cheapest_of(there, there.bits == 0)
    if at is not None:
        yield Reason("framework", {"framework": SPLITTER, **effect_of(there, at, None)})


SPLITTER = "megatron"
"""The stack that splits models by tensor, pipeline and experts alike."""

CRAFT = Craft(
    read=read_wish,
    limits=space_limits,
    fleet=fleet_of,
    base=lambda wish, machines: base_setup(wish, machines.variants),
    engine=lambda wish, _machines: engine_of(wish),
    load=load_of,
    evaluate=evaluate_rows,
    layout=lambda found, _details, _position, layout: tuned_layout(found.wish, layout),
    facts=facts_of,
    unit_cost=lambda wish: ("per_million_tokens_usd", wish.amount.tokens),
)
FAMILY = training_family("language", CRAFT, more=stack_that_splits)
