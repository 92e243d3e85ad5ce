"""The candidate space of serving: machine class x devices of one replica x engine and weight
format, as columns for the physics.

A replica takes 1, 2, 4, 8 or 16 accelerators of one server (tensor parallel); where not even all of
them hold the weights, servers are chained by pipeline. How many replicas there are and what they
cost is not decided here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.convert import device_columns, model_columns
from rightfit.estimation.serving import overhead_bytes
from rightfit.estimation.serving_extras import ServingExtras, fixed_bytes
from rightfit.estimation.serving_steps import ServingCase, is_latent, serving_fields
from rightfit.facts import devices
from rightfit.facts.engines import cache_bytes, engine_class, on_device, version_number, weight_formats
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.physics import serving_columns
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import Load, ServeColumns
from rightfit.records import dataclass
from rightfit.search.service.stacks import ServingStack, StackRequest, has_feature, safe_bytes, stacks_of
from rightfit.search.training.machines import MachineClasses, chips, linked, links_of, part_of_card

if TYPE_CHECKING:
    from rightfit.market import ServerTable
    from rightfit.search.service.wish import ServingRequest

Index = NDArray[np.intp]
#: Machine class, accelerators in a server, servers, stack, and whether attention is data parallel
#: with experts over all accelerators.
Candidate = tuple[int, int, int, ServingStack, bool]

CPU_FAMILY = "cpu"
TENSOR_DEGREES = (1, 2, 4, 8, 16)
PIPELINE_NODES = (2, 3, 4, 6, 8, 16)
PLAIN = ("machine", "tensor", "nodes", "fits", "needed_bytes", "safe_bytes", "usable_bytes", "device_code", "stack_code")


@dataclass(frozen=True, slots=True)
class ServingFleet:
    """Servers by machine class. `first`: a server row of each class; `machine_index`: class of each
    server (-1: cannot serve this) and what it lacks (`missing`, empty: nothing); `stacks`: what
    runs on each class; `taken`: devices of a class that other models hold (empty: none)."""

    accelerators: tuple[Accelerator, ...]
    families: tuple[str, ...]
    gpus_per_node: Index
    first: Index
    machine_index: Index
    missing: tuple[str, ...]
    stacks: tuple[tuple[ServingStack, ...], ...]
    taken: Array = dataclasses.field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.accelerators)


@dataclass(frozen=True, slots=True)
class ServingSpace:
    """Candidates, one row each: machine class, accelerators of one replica in a server (`tensor`),
    servers that it spans, and the columns that physics reads.

    How a replica divides its accelerators is in `serve`. Its input length is that of the part of a
    prompt that is not shared with other requests. `safe_bytes`: what is needed with the margin by
    which `fits` is judged.
    """

    machine: Index
    tensor: Index
    nodes: Index
    stack: tuple[ServingStack, ...]
    model: ModelColumns
    serve: ServeColumns
    device: DeviceColumns
    links: LinkColumns
    fits: NDArray[np.bool_]
    needed_bytes: Array
    safe_bytes: Array
    usable_bytes: Array
    device_code: Index
    stack_code: Index
    extras: ServingExtras = dataclasses.field(default_factory=ServingExtras)

    def __len__(self) -> int:
        return len(self.stack)

    def take(self, index: Index) -> ServingSpace:
        """Rows `index`."""
        plain: dict[str, Any] = {name: getattr(self, name)[index] for name in PLAIN}
        columns: dict[str, Any] = {name: getattr(self, name).take(index) for name in ("model", "serve", "device", "links")}
        return ServingSpace(stack=tuple(self.stack[i] for i in index.tolist()), extras=self.extras, **plain, **columns)

    @property
    def held_bytes(self) -> Array:
        """What one device holds beside weights, workspace and cache of the model: the engine's
        context, adapters, a draft, a shared prefix."""
        return overhead_bytes(self.serve) + fixed_bytes(self.extras, self.model, self.serve)


def family_of(accelerator: Accelerator) -> str:
    """The coefficient family of an accelerator; AMD cards other than Instinct are in no serving
    engine's list of tested devices."""
    if accelerator.vendor == "AMD" and not accelerator.architecture.startswith("CDNA"):
        return "unknown"
    return devices.family_of(accelerator)


def serving_fleet(servers: ServerTable, wish: StackRequest, *, processors: Mapping[int, Accelerator] | None = None) -> ServingFleet:
    """Machine classes of a table of servers, and what runs on each. `processors`: servers without
    accelerators that may serve too, by row."""
    known, cpus = chips(servers), processors or {}
    verdicts: dict[str, tuple[tuple[ServingStack, ...], str]] = {
        name: stacks_of(card, family_of(card), wish) for name, card in known.items()
    }
    missing, classes = [], MachineClasses(len(servers))
    on_cpu: dict[int, tuple[tuple[ServingStack, ...], str]] = {}
    cards: list[Accelerator] = []
    for server, whole in enumerate(linked(servers)):
        key: tuple[object, ...] = whole
        name, count = whole[:2]
        if card := cpus.get(server):
            has_bf16 = int(card.bf16_flops > 0)
            if has_bf16 not in on_cpu:
                on_cpu[has_bf16] = stacks_of(card, CPU_FAMILY, wish)
            lacks, key = on_cpu[has_bf16][1], ("", card.name, card.memory_bytes)
        else:
            lacks, card = (verdicts[name][1] or part_of_card(count), known[name]) if name in verdicts else ("accelerator", None)
        missing.append(lacks)
        if card is not None and not lacks and classes.put(server, key):
            cards.append(card)
    first = classes.first
    names = [servers.accelerator_name[row] for row in first]
    return ServingFleet(
        accelerators=tuple(cards),
        families=tuple(family_of(known[name]) if name else CPU_FAMILY for name in names),
        gpus_per_node=np.maximum(servers.num_accelerators[first], 1).astype(np.intp) if first else np.zeros(0, dtype=np.intp),
        first=np.array(first, dtype=np.intp),
        machine_index=classes.index,
        missing=tuple(missing),
        stacks=tuple(verdicts[name][0] if name else on_cpu[int(card.bf16_flops > 0)][0] for name, card in zip(names, cards, strict=True)),
    )


def degrees_of(model: TransformerArchitecture, num_gpus: int, *, asked: int | None = None) -> tuple[int, ...]:
    """Tensor degrees that a server with so many accelerators allows: they divide the heads."""
    heads = max(model.num_heads, 1)
    fixed = (asked,) if asked else TENSOR_DEGREES
    return tuple(degree for degree in fixed if degree <= num_gpus and heads % degree == 0)


def build_serving_space(servers: ServerTable, fleet: ServingFleet, wish: ServingRequest) -> ServingSpace:
    """All candidates: replicas within one server, and pipelines over servers where those do
    not hold the model."""
    workload = wish.workload
    asked = 1 if workload.slice else workload.tensor_parallel  # slices have no links to one another
    allowed = {count: degrees_of(wish.model, count, asked=asked) for count in set(fleet.gpus_per_node.tolist())}
    counts = fleet.gpus_per_node.tolist()
    single = [
        (machine, degree, 1, stack, False)
        for machine in range(len(fleet))
        for degree in allowed[counts[machine]]
        for stack in fleet.stacks[machine]
        if (workload.pipeline_parallel or 1) == 1
    ] + _attention_data(fleet, wish, nodes=(1,))
    inside = _columns(servers, fleet, wish, single)
    codes = _stack_codes(fleet)
    held = {
        place
        for place, fits in zip(zip(inside.machine.tolist(), inside.stack_code.tolist(), strict=True), inside.fits.tolist(), strict=True)
        if fits
    }
    chained = [
        (machine, max(degrees), nodes, stack, False)
        for machine in range(len(fleet))
        if not workload.slice and (degrees := allowed[counts[machine]])
        for stack in fleet.stacks[machine]
        if (machine, codes[id(stack)]) not in held and fleet.families[machine] != CPU_FAMILY
        for nodes in ((workload.pipeline_parallel,) if workload.pipeline_parallel else PIPELINE_NODES)
        if nodes and 1 < nodes <= wish.model.num_layers
    ]
    chained += [row for row in _attention_data(fleet, wish, nodes=PIPELINE_NODES) if (row[0], codes[id(row[3])]) not in held]
    across = _columns(servers, fleet, wish, chained)
    return joined(inside, _smallest_that_fit(across))


def _attention_data(fleet: ServingFleet, wish: ServingRequest, *, nodes: Sequence[int]) -> list[Candidate]:
    """Layouts of mixtures of experts in which each accelerator attends to its own requests and
    experts are spread over all of them.

    A latent cache cannot be cut by heads and would stand on each accelerator of a tensor group.
    Only engines and cards of facts/data/serving_features.csv.
    """
    if not wish.model.num_experts or wish.workload.slice or wish.workload.tensor_parallel or wish.workload.pipeline_parallel:
        return []
    return [
        (machine, int(fleet.gpus_per_node[machine]), count, stack, True)
        for machine in range(len(fleet))
        if fleet.gpus_per_node[machine] > 1
        for stack in fleet.stacks[machine]
        if has_feature("attention-data", stack.name, fleet.families[machine])
        for count in nodes
        if wish.model.num_experts % (int(fleet.gpus_per_node[machine]) * count) == 0
    ]


def _smallest_that_fit(space: ServingSpace) -> ServingSpace:
    """Of the layouts over servers of one class and stack, the two smallest that hold the model (the
    largest where none does)."""
    chosen: list[int] = []
    groups: dict[tuple[int, int, bool], list[int]] = {}
    spread = (np.broadcast_to(space.serve.attention_data, (len(space),)) > 1).tolist()
    for row, group in enumerate(zip(space.machine.tolist(), space.stack_code.tolist(), spread, strict=True)):
        groups.setdefault(group, []).append(row)
    for rows in groups.values():
        fitting = [row for row in rows if space.fits[row]]
        chosen += fitting[:2] if fitting else rows[-1:]
    return space.take(np.array(chosen, dtype=np.intp))


def _stack_codes(fleet: ServingFleet) -> dict[int, int]:
    """A number for each stack that is its own, by the identity of the record: one of many is
    compared in no time."""
    records = {id(stack): stack for found in fleet.stacks for stack in found}
    kinds = {stack: code for code, stack in enumerate(dict.fromkeys(records.values()))}
    return {identity: kinds[stack] for identity, stack in records.items()}


def joined(first: ServingSpace, second: ServingSpace) -> ServingSpace:
    """Two spaces one under the other."""
    if not len(second):
        return first
    if not len(first):
        return second
    plain = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in PLAIN}
    columns: dict[str, Any] = {
        name: type(getattr(first, name)).stack([stretched(getattr(part, name), len(part)) for part in (first, second)])
        for name in ("serve", "device", "links")
    }
    values: dict[str, Any] = {**plain, **columns}
    return ServingSpace(stack=(*first.stack, *second.stack), model=first.model, extras=first.extras, **values)


def stretched(columns: Any, rows: int) -> Any:
    """Columns with every field of full length."""
    return type(columns)(**{field.name: np.broadcast_to(getattr(columns, field.name), (rows,)) for field in dataclasses.fields(columns)})


def _columns(servers: ServerTable, fleet: ServingFleet, wish: ServingRequest, rows: Sequence[Candidate]) -> ServingSpace:
    """Candidates as columns, with what fits."""
    machine = np.array([row[0] for row in rows], dtype=np.intp)
    tensor, nodes = (np.array([row[at] for row in rows], dtype=np.intp) for at in (1, 2))
    stacks = tuple(row[3] for row in rows)
    spread = np.array([row[4] for row in rows], dtype=np.bool_)
    model = model_columns([wish.model])
    if not rows:
        none, empty = np.zeros(0), (ServeColumns(), DeviceColumns(), LinkColumns())
        return ServingSpace(machine, tensor, nodes, (), model, *empty, none > 0, none, none, none, machine, machine, wish.extras)
    pairs = [(id(stack), fleet.families[row]) for row, stack in zip(machine.tolist(), stacks, strict=True)]
    kinds_of_pairs = dict(zip(pairs, stacks, strict=True))
    values = [stack_values(stack, family, wish.model) for (_, family), stack in kinds_of_pairs.items()]
    place = {pair: at for at, pair in enumerate(kinds_of_pairs)}
    code = np.array([place[pair] for pair in pairs], dtype=np.intp)
    serve = ServeColumns.of(
        **{name: np.array([value[name] for value in values])[code] for name in values[0]},
        tensor=np.where(spread, 1, tensor),
        pipeline=np.where(spread, 1, nodes),
        attention_data=np.where(spread, tensor * nodes, 1),
        expert=np.where(spread, tensor * nodes, 1),
        gpus_per_node=fleet.gpus_per_node[machine],
        input_tokens=wish.input_tokens - wish.extras.shared_tokens,
        output_tokens=wish.output_tokens,
        load=Load.CLOSED,
    )
    if share := wish.workload.gpu_memory_utilization:  # what it may take at most, its graphs among it
        serve = serve.replace(memory_fraction=np.full(1, share), graph_bytes=np.zeros(1))
    names = [(card.name, card.memory_bytes) for card in fleet.accelerators]
    codes = {name: code for code, name in enumerate(dict.fromkeys(names))}
    kinds = _stack_codes(fleet)
    device_code = np.array([codes[name] for name in names], dtype=np.intp)[machine]
    stack_code = np.array([kinds[id(stack)] for stack in stacks], dtype=np.intp)
    cards = {id(card): card for card in fleet.accelerators}
    row_of = {identity: row for row, identity in enumerate(cards)}
    device = device_columns(cards.values()).take(np.array([row_of[id(card)] for card in fleet.accelerators], dtype=np.intp)[machine])
    device = device.replace(memory_bytes=np.array([card.memory_bytes for card in fleet.accelerators])[machine])
    links = links_of(servers, fleet.first.tolist()).take(machine)
    needed, usable = memory_need(model, serve, device)
    needed = needed + fixed_bytes(wish.extras, model, serve)
    safe = safe_bytes(serving_columns.weights_bytes_per_device(model, serve), needed, wish)
    candidates, parts = (machine, tensor, nodes, stacks), (model, serve, device, links)
    return ServingSpace(*candidates, *parts, safe <= usable, needed, safe, usable, device_code, stack_code, wish.extras)


def memory_need(model: ModelColumns, serve: ServeColumns, device: DeviceColumns) -> tuple[Array, Array]:
    """Bytes that one device needs for the weights and one request, and what the
    engine may take of it."""
    operators = facts.coefficients("operators")
    one = serving_columns.kv_bytes_per_device(model, serve, tokens=serve.input_tokens + serve.output_tokens)
    taken = serving_columns.reserved_bytes(model, serve, overhead_bytes=overhead_bytes(serve), coefficients=operators)
    usable = serving_columns.usable_bytes(serve, device, taken_bytes=taken, coefficients=operators)
    shape = np.broadcast_shapes(taken.shape, one.shape, usable.shape)
    return np.broadcast_to(taken + one, shape), np.broadcast_to(usable, shape)


@functools.lru_cache(maxsize=4096)
def _cached_values(stack: ServingStack, family: str, *, is_latent: bool, is_mixture: bool) -> dict[str, float]:
    version = version_number(stack.version)
    engine = on_device(engine_class(stack.engine, version), family, stack.engine)
    kv_bytes = None if stack.kv == "16-bit" else cache_bytes(stack.kv)
    weights = weight_formats()[stack.format]
    return serving_fields(
        ServingCase(engine, family, weights, is_latent=is_latent, is_mixture=is_mixture, version=version, kv_bytes=kv_bytes)
    )


def stack_values(stack: ServingStack, family: str, model: TransformerArchitecture) -> dict[str, float]:
    """What engine and format decide of the serving columns."""
    return _cached_values(stack, family, is_latent=is_latent(model), is_mixture=model.num_experts > 0)


def known_accelerator(name: str) -> Accelerator:
    """The accelerator behind a catalog name."""
    from rightfit.search.training.machines import behind

    return behind(facts.accelerators()[name])
