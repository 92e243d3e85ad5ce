"""Serving models of one forward pass (encoders, vision, diffusion, speech) on accelerators and on CPU servers.

A replica is one accelerator, or the CPU of one server. It treats what has gathered while it worked (batch while busy): at mean batch b the rate is
b / S(b), and a request waits for the rest of the pass under way and for its own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.catalog.offers import PURCHASE_CODES, OfferTable, ServerTable
from rightfit.errors import ContradictionError, InputError, UnknownNameError
from rightfit.estimate.forward_cases import forward_cases
from rightfit.estimate.forward_models import first_match, forward_work
from rightfit.estimate.forward_predict import metric_values
from rightfit.estimate.forward_words import wish_of
from rightfit.facts.records import Accelerator
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns
from rightfit.physics.serving_columns import ServeColumns
from rightfit.search.constraints import Wanted, filter_failures
from rightfit.search.explore import Market, read_market
from rightfit.search.machines import chips
from rightfit.search.own_model import note_own
from rightfit.search.serving_grid import ReplicaGrid
from rightfit.search.serving_space import ServingFleet, ServingSpace, family_of
from rightfit.search.serving_stacks import Stack
from rightfit.search.serving_wish import LATENCIES, Limits, ServingWish, usual
from rightfit.search.wish import Notes

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

Index = NDArray[np.intp]

BATCHES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
AMX_RATIO = 4.0  # bf16 over fp32 operations a cycle from which a CPU has matrix units
NO_INT8 = ("pascal", "volta", "cdna1")  # no int8 matrix units
_SKIPPED = ("burstable", "gpu")


def read_forward_wish(workload: Workload, model: Any, notes: Notes) -> ServingWish:
    """A workload whose model does not generate text."""
    work = forward_work(wish_of(model.name, "", "", "", "", "latency_ms"))
    if work is None:
        raise InputError(
            f"model: how fast {model.name} runs is not known; encoders, vision, diffusion, speech and language models are", field="model"
        )
    _refuse_token_options(workload, model.name)
    note_own(model, notes)
    tokens = 0
    if work.modality == "text":
        tokens = workload.input_tokens or int(usual()["forward_tokens"])
        if workload.input_tokens is None:
            notes.take("input_tokens", tokens, "serve_forward_tokens")
    if work.modality == "audio":
        window = float(usual()["audio_window_s"])
        notes.take("request", window, "serve_audio_window")
    rate = 0.0
    if workload.task == "serve":
        rate = workload.rate_per_s or 0.0
        if not rate and not workload.users:
            rate = float(usual()["rate_per_s"])
            notes.take("rate", rate, "serve_rate")
    return ServingWish(
        workload=workload,
        model=model,
        rate_per_s=rate,
        users=workload.users or 0,
        requests=_requests(workload, work.modality, tokens) if workload.task == "batch" else 0.0,
        input_tokens=tokens,
        output_tokens=0,
        limits=_limits(workload, work.modality, notes),
        assumptions=tuple(notes.taken),
    )


def _refuse_token_options(workload: Workload, name: str) -> None:
    for option in ("ttft", "tpot"):
        if getattr(workload, f"{option}_s") is not None:
            raise ContradictionError(
                f"{option} contradicts model {name}: it does not produce text token by token; use latency", field=option
            )
    for option in ("api_price", "prefix_share", "cached_tokens", "adapters", "speculative", "kv_cache"):
        if getattr(workload, option) is not None:
            raise ContradictionError(
                f"{option} contradicts model {name}: it is for models that produce text token by token; leave it out", field=option
            )
    if workload.output_tokens is not None:
        raise ContradictionError(
            f"output_tokens contradicts model {name}: it does not produce text token by token; leave it out", field="output_tokens"
        )


def _limits(workload: Workload, modality: str, notes: Notes) -> Limits:
    infinity = float("inf")
    percentile = (workload.percentile or usual()["percentile"]) / 100.0
    latency = workload.latency_s
    if workload.task == "batch":
        return Limits(infinity, infinity, infinity, percentile)
    if latency is None:
        latency = usual()["image_latency_s" if modality in ("image", "video", "audio") else "forward_latency_s"]
        notes.take(LATENCIES[2], latency, "serve_latency")
    return Limits(infinity, infinity, float(latency), percentile)


def _requests(workload: Workload, modality: str, tokens: int) -> float:
    """Inputs of a batch job: images, texts, or windows of audio."""
    unit = workload.data_unit or ""
    if workload.data_samples is not None:
        if unit.startswith("hour"):
            if modality != "audio":
                raise InputError("data in hours is for speech models; give images or samples", field="data")
            return workload.data_samples * 3600.0 / float(usual()["audio_window_s"])
        return workload.data_samples
    if workload.data_tokens is not None and tokens:
        return max(1.0, workload.data_tokens / tokens)
    raise InputError("data: how much is there to work through? give --data, for example 100kimages, 1Msamples or 10000hours", field="data")


@dataclasses.dataclass(frozen=True, slots=True)
class ForwardChoice:
    """Engines and arithmetic that the user leaves open: rows of facts/data/forward_stacks.csv, and the number format wanted (empty: the usual)."""

    rows: tuple[dict[str, str], ...]
    dtype: str


def read_forward_choice(workload: Workload, modality: str) -> ForwardChoice:
    """The user's words as rows of the table."""
    rows = [row for row in facts.table("forward_stacks") if modality in row["modalities"].split("|")]
    if workload.framework:
        lowered = workload.framework.strip().lower()
        rows = [row for row in rows if row["name"].lower() == lowered or lowered in row["words"].split("|")]
        if not rows:
            names = sorted({row["name"] for row in facts.table("forward_stacks") if modality in row["modalities"].split("|")})
            raise UnknownNameError(
                "serving engine", workload.framework, nearest=(), allowed="allowed for this model: " + ", ".join(names), field="framework"
            )
    wanted = workload.quantization if workload.quantization not in (None, "none", "any") else workload.precision
    if wanted and not any(wanted in row["dtypes"].split("|") for row in rows):
        allowed = sorted({dtype for row in rows for dtype in row["dtypes"].split("|")})
        raise ContradictionError(
            f"quantization {wanted} is not served for this kind of model; allowed: {', '.join(allowed)}", field="quantization"
        )
    return ForwardChoice(tuple(rows), wanted or "")


def forward_stack(choice: ForwardChoice, family: str) -> Stack | None:
    """The first engine of the table that runs on a family, in the arithmetic wanted or the engine's usual one."""
    for row in choice.rows:
        dtypes = [name for name in row["dtypes"].split("|") if not (name == "int8" and family in NO_INT8)]
        if family in row["families"].split("|") and (not choice.dtype or choice.dtype in dtypes):
            usual_dtype = "fp32" if family == "pascal" and "fp32" in dtypes else dtypes[0]
            return Stack(row["name"], row["engine"], "", choice.dtype or usual_dtype, "")
    return None


def forward_market(catalog: Catalog, wanted: Wanted, *, with_cpus: bool) -> Market:
    """Servers with accelerators, and of each CPU server its cheapest offer that passes the user's filters."""
    table = catalog.all_offers()
    sound = ~table.is_quarantined & np.isfinite(table.price_usd_per_h)
    has_card = (table.servers.num_accelerators > 0)[table.server_index]
    rows = np.flatnonzero(sound & has_card)
    if with_cpus and (not wanted.gpus or "" in wanted.gpus):
        rows = np.concatenate([rows, cheapest_cpu_offers(table, sound & ~has_card, wanted)])
    offers = table.take(rows)
    return read_market(catalog, offers)


def cheapest_cpu_offers(table: OfferTable, candidates: NDArray[np.bool_], wanted: Wanted) -> Index:
    """One offer for each CPU server: the cheapest that no filter refuses."""
    purchases = [PURCHASE_CODES[name] for name in wanted.purchases]
    rows = np.flatnonzero(candidates & np.isin(table.purchase_index, purchases))
    part = table.take(rows)
    refused = np.zeros(rows.shape[0], dtype=np.bool_)
    for name, mask in filter_failures(part, dataclasses.replace(wanted, gpus=())).items():
        refused |= mask if name != "purchase" else False
    kept = rows[~refused]
    order = kept[np.argsort(table.price_usd_per_h[kept], kind="stable")]
    _, first = np.unique(table.server_index[order], return_index=True)
    return order[first]


@functools.lru_cache(maxsize=8192)
def _cpu_row(text: str) -> tuple[str, bool]:
    """The row of the CPU table that a server's words mean, and whether that CPU has matrix units."""
    row = first_match("forward_cpus", text)
    assert row is not None
    return row["pattern"], float(row["bf16_per_cycle"]) >= AMX_RATIO * float(row["fp32_per_cycle"])


@dataclasses.dataclass(frozen=True, slots=True)
class ForwardMachine:
    """One class of machines: the card or CPU as the estimate names it, its family, how many replicas a server holds."""

    device: str
    family: str
    per_node: int
    memory_bytes: float
    card: Accelerator


Timed = Callable[[Sequence[ForwardMachine], Sequence[Stack], ServingWish], tuple[Array, Array]]


def forward_fleet(servers: ServerTable, offers: OfferTable, choice: ForwardChoice) -> tuple[ServingFleet, list[ForwardMachine]]:
    """Machine classes of accelerators (by name and number) and of CPUs (by kind and cores)."""
    known = chips(servers)
    families = {name: family_of(card) for name, card in known.items()}
    stacks = {family: forward_stack(choice, family) for family in {*families.values(), "cpu", "cpu-amx"}}
    listed = np.unique(offers.server_index)
    machine, missing = np.full(len(servers), -1, dtype=np.intp), ["accelerator"] * len(servers)
    keys: dict[tuple[object, ...], int] = {}
    machines: list[ForwardMachine] = []
    first: list[int] = []
    some = next(iter(facts.accelerators().values()))  # the form of a machine; a processor overwrites what matters
    for server in listed.tolist():
        name, count = servers.accelerator_name[server], float(servers.num_accelerators[server])
        found = _card_machine(known, families, name, count) if name else cpu_machine(servers, server, some)
        lacks = "accelerator" if found is None else "" if stacks[found.family] else "engine"
        if name and count != int(count):
            lacks = "whole accelerators"
        missing[server] = lacks
        if lacks or found is None:
            continue
        key = (_cpu_key(found) if found.family.startswith("cpu") else found.card.name, found.per_node)
        if key not in keys:
            keys[key] = len(machines)
            machines.append(found)
            first.append(server)
        machine[server] = keys[key]
    fleet = ServingFleet(
        accelerators=tuple(one.card for one in machines),
        families=tuple(one.family for one in machines),
        gpus_per_node=np.array([one.per_node for one in machines], dtype=np.intp),
        first=np.array(first, dtype=np.intp),
        machine_index=machine,
        missing=tuple(missing),
        stacks=tuple((stack,) if (stack := stacks[one.family]) else () for one in machines),
    )
    return fleet, machines


def _cpu_key(machine: ForwardMachine) -> tuple[str, float]:
    return _cpu_row(machine.device)[0], machine.card.num_sms


def _card_machine(known: Mapping[str, Accelerator], families: Mapping[str, str], name: str, count: float) -> ForwardMachine | None:
    card = known.get(name)
    if card is None or min(card.memory_bytes, card.memory_bandwidth, max(card.fp16_flops, card.fp32_flops, card.bf16_flops)) <= 0:
        return None
    return ForwardMachine(card.equivalent_to or card.name, families[name], max(int(count), 1), card.memory_bytes, card)


def cpu_machine(servers: ServerTable, server: int, some: Accelerator) -> ForwardMachine | None:
    """A CPU server as a machine of one replica; its number of cores stands in `num_sms`."""
    if servers.category[server] in _SKIPPED or not servers.vcpus[server] >= 2 or servers.vcpus[server] > 192:
        return None
    arm = servers.arch[server].startswith("arm")
    cores = max(1, int(servers.vcpus[server] * (1.0 if arm else usual()["cpu_physical_share"])))
    prefix = servers.instance_type[server].partition(".")[0]
    text = f"CPU {servers.cpu_model[server]} {prefix}."
    family = "cpu-amx" if _cpu_row(text)[1] else "cpu"
    memory = float(np.nan_to_num(servers.memory_bytes[server]))
    card = dataclasses.replace(some, name="", vendor="CPU", memory_bytes=memory, num_sms=cores, equivalent_to="")
    return ForwardMachine(text, family, 1, memory, card)


def forward_space(
    fleet: ServingFleet, machines: Sequence[ForwardMachine], wish: ServingWish, *, timed: Timed | None = None
) -> tuple[ServingSpace, Array]:
    """Candidates (one a machine class) and the seconds of a pass at each batch (rows x BATCHES); infinite where the batch does not fit.

    timed: gives seconds and memory of a pass on machines, in place of `passes`.
    """
    distinct: dict[tuple[str, float, Stack], int] = {}
    codes = []
    for number, one in enumerate(machines):
        key = (
            one.device if one.card.name else _cpu_row(one.device)[0],
            one.card.num_sms if not one.card.name else 0,
            fleet.stacks[number][0],
        )
        codes.append(distinct.setdefault(key, len(distinct)))
    firsts = [codes.index(code) for code in range(len(distinct))]
    seconds, memory = (timed or passes)([machines[row] for row in firsts], [fleet.stacks[row][0] for row in firsts], wish)
    code = np.array(codes, dtype=np.intp)
    usable = np.array([one.memory_bytes for one in machines]) * usual()["usable_memory"]
    pass_s = np.where(memory[code] <= usable[:, None], seconds[code], np.inf)
    needed = memory[code][:, 0]
    machine = np.arange(len(machines), dtype=np.intp)
    ones = np.ones(len(machines), dtype=np.intp)
    fits = np.isfinite(pass_s[:, 0])
    stacks = tuple(found[0] for found in fleet.stacks)
    parts = (ModelColumns(), ServeColumns(), DeviceColumns(), LinkColumns())
    return ServingSpace(machine, ones, ones, stacks, *parts, fits, needed, usable, code, code), pass_s


def passes(machines: Sequence[ForwardMachine], stacks: Sequence[Stack], wish: ServingWish) -> tuple[Array, Array]:
    """Seconds of a pass and its memory, (machines, BATCHES)."""
    tokens = str(wish.input_tokens) if wish.input_tokens else ""
    rows = [
        {
            "model": wish.model.name,
            "metric": "req_per_s",
            "device": one.device if one.card.name else f"{one.device} ({one.card.num_sms} cores)",
            "engine": stack.engine,
            "weights_dtype": stack.format,
            "batch_or_concurrency": f"{batch:g}",
            "n_devices": "1",
            "input_tokens": tokens,
        }
        for one, stack in zip(machines, stacks, strict=True)
        for batch in BATCHES.tolist()
    ]
    cases = forward_cases(rows)
    values = metric_values(cases)
    shape = (len(machines), BATCHES.shape[0])
    seconds, memory = np.full(len(rows), np.inf), np.full(len(rows), np.inf)
    batch = np.tile(BATCHES, len(machines))
    seconds[cases.index] = batch[cases.index] / values["req_per_s"]
    memory[cases.index] = values["peak_mem_gib"] * 2.0**30
    return seconds.reshape(shape), memory.reshape(shape)


def forward_grid(pass_s: Array, *, percentile: float) -> ReplicaGrid:
    """Rate and latency of each candidate at each mean batch; a pass that is slower per input than a smaller one gains nothing."""
    finite = np.isfinite(pass_s)
    rate = np.where(finite, BATCHES[None, :] / np.where(finite, pass_s, 1.0), 0.0)
    latency = np.where(finite, pass_s * (1.0 + percentile), np.inf)
    batch = np.broadcast_to(BATCHES, pass_s.shape)
    limit = np.where(finite, BATCHES[None, :], 0.0).max(axis=1, initial=0.0)
    nothing = np.zeros(pass_s.shape)
    return ReplicaGrid(batch, rate, nothing, nothing, latency, limit)


def modality_of(wish: ServingWish) -> tuple[str, float]:
    """What kind of input the model takes, and its parameters."""
    if wish.scores_rows:
        return "table", float(wish.model.params_total)
    work = forward_work(wish_of(wish.model.name, "", "", "", "", "latency_ms"))
    assert work is not None
    return work.modality, work.params


def suits_cpu(wish: ServingWish) -> bool:
    """Whether a CPU server is worth a look: small models, and none that draws images."""
    modality, params = modality_of(wish)
    return modality not in ("image", "video") and params <= usual()["largest_cpu_params"]
