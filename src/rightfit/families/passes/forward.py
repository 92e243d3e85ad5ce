"""Serving models of one forward pass (encoders, vision, diffusion, speech) on accelerators
and on CPU servers.

A replica is one accelerator, or the CPU of one server. It treats what has gathered while it worked
(batch while busy): at mean batch b the rate is b / S(b), and a request waits for the rest of the
pass under way and for its own.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import ContradictionError, InputError, UnknownNameError
from rightfit.estimation.forward import Arithmetic, Engine, ForwardCase, case_columns, pass_metric_values
from rightfit.estimation.forward_models import forward_work, rests
from rightfit.estimation.pass_records import ForwardDevice, ForwardWork, PassInput, card_device, processor_device
from rightfit.facts.networks import PassEngine, drawn_size, heard_seconds, pass_engines
from rightfit.facts.records import Accelerator, DiffusionModel, OtherModel
from rightfit.families.registry import explored
from rightfit.market.offers import OfferTable, ServerTable
from rightfit.messages import Message, contradiction
from rightfit.physics.columns import Array, DeviceColumns, LinkColumns, ModelColumns, once
from rightfit.physics.serving_columns import ServeColumns
from rightfit.records import dataclass
from rightfit.search.constraints import Filters
from rightfit.search.offers import Market, open_market, whole_market
from rightfit.search.request_checks import Notes, note_own
from rightfit.search.service.found import shared_fleet
from rightfit.search.service.grid import PASS_BATCHES, Kept
from rightfit.search.service.space import ServingFleet, ServingSpace, family_of
from rightfit.search.service.stacks import WEIGHT_BYTES, PassMachine, ServingStack, cpu_machine, cpu_offers, safe_bytes
from rightfit.search.service.wish import LATENCY_LIMITS, Limits, ServingRequest, usual
from rightfit.search.sources import num_parameters
from rightfit.search.training.machines import MachineClasses, chips
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.facts import Model
    from rightfit.market import Catalog
    from rightfit.workload import Workload


def is_taken_for_a_picture(model: object, work: ForwardWork) -> bool:
    """Whether the work of a forecaster, a voice or a robot's policy was guessed from its parameters
    as that of a network of pictures: nobody counted it, and it is none."""
    return isinstance(model, OtherModel) and work.is_guessed and work.modality == "vision"


# ---- What one input of a model of one pass is like: pixels, frames, denoising steps, seconds of
# sound; each is read or refused.

#: Options of an input, and why a model that does not take one refuses it.
_INSTEAD: Mapping[str, Message] = {
    "image_size": Message("contradictions.no_images"),
    "frames": Message("contradictions.no_videos"),
    "denoise_steps": Message("contradictions.no_denoise"),
    "audio_length": Message("contradictions.no_sound"),
}


def taken_options(model: Model, work: ForwardWork) -> tuple[str, ...]:
    """The options about an input that a model takes."""
    if isinstance(model, DiffusionModel):
        if heard_seconds(model):
            return ("audio_length", "denoise_steps")
        return ("image_size", "frames", "denoise_steps") if work.modality == "video" else ("image_size", "denoise_steps")
    return {"vision": ("image_size",), "audio": ("audio_length",)}.get(work.modality, ())


def read_inputs(workload: Workload, model: Model, work: ForwardWork, notes: Notes) -> PassInput:
    """What the user says of an input; what a model does not take is refused, and what it takes and
    nobody says is noted where the answer hangs on it."""
    taken = taken_options(model, work)
    given = {name: getattr(workload, f"{name}_s" if name == "audio_length" else name) for name in _INSTEAD}
    for name, value in given.items():
        if value is not None and name not in taken:
            do = Message("contradictions.takes", options=", ".join(taken)) if taken else Message("contradictions.leave")
            raise ContradictionError(contradiction(name, workload.model, kind="model", why=_INSTEAD[name], do=do), field=name)
    unsaid = {name for name in taken if given[name] is None}
    _note_usual(model, work, unsaid, notes, seconds=seconds_of(workload))
    hears = "audio_length" in unsaid and work.modality == "audio" and seconds_of(workload) < float(usual()["audio_window_s"])
    beams = float(usual()["audio_beams"]) if work.modality == "audio" and len(work.stages) > 1 else 1.0
    if beams > 1.0:
        notes.take("beams", beams, "audio_beams")
    height, _, width = (workload.image_size or "0").partition("x")
    return PassInput(
        model.name,
        height=float(height),
        width=float(width or height),
        frames=float(workload.frames or 0),
        steps=float(workload.denoise_steps or 0),
        audio_s=float(workload.audio_length_s or (seconds_of(workload) if hears else 0)),
        beams=beams,
    )


def _note_usual(model: Model, work: ForwardWork, unsaid: set[str], notes: Notes, *, seconds: float) -> None:
    if not isinstance(model, DiffusionModel):
        if "audio_length" in unsaid:
            notes.take("request", seconds, "serve_audio_window")
        return
    height, width, frames = drawn_size(model)
    if rests(model):
        notes.take("offload", "expert", "resting_expert")
    if "image_size" in unsaid:
        notes.take("image_size", f"{height:.0f}x{width:.0f}", "image_size")
    if "frames" in unsaid:
        notes.take("frames", frames, "frames")
    if "denoise_steps" in unsaid:
        notes.take("denoise_steps", work.stages[0].repeats, "denoise_steps")
    if "audio_length" in unsaid:
        notes.take("audio_length_s", heard_seconds(model), "audio_length")


def seconds_of(workload: Workload) -> float:
    """Seconds of sound in a request of a speech model [s]. Who states only how soon the text must
    be there speaks in pieces short enough for it: as long beside that as the usual window beside
    the usual limit."""
    window = float(usual()["audio_window_s"])
    if workload.audio_length_s or workload.task != "serve" or not workload.latency_s:
        return workload.audio_length_s or window
    return min(window, workload.latency_s * window / float(usual()["audio_latency_s"]))


Index = NDArray[np.intp]

NO_INT8 = ("pascal", "volta", "cdna1")  # no int8 matrix units
Timed = Callable[[Sequence[PassMachine], Sequence[ServingStack], ServingRequest], tuple[Array, Array]]


def read_forward_wish(workload: Workload, model: Any, notes: Notes) -> ServingRequest:
    """A workload whose model does not generate text."""
    work = forward_work(PassInput(model.name))
    if work is None or is_taken_for_a_picture(model, work):
        raise InputError(Message("families.speed_unknown", model=model.name), field="model")
    if work.modality != "text" and workload.input_tokens is not None:
        raise ContradictionError(Message("families.reads_no_tokens", model=workload.model), field="input_tokens")
    note_own(model, notes)
    tokens = 0
    if work.modality == "text":
        tokens = workload.input_tokens or int(usual()["forward_tokens"])
        if workload.input_tokens is None:
            notes.take("input_tokens", tokens, "serve_forward_tokens")
    one_input = read_inputs(workload, model, work, notes)
    return ServingRequest(
        workload=workload,
        model=model,
        rate_per_s=forward_rate(workload, notes, modality=work.modality),
        users=0 if work.modality == "audio" else workload.users or 0,
        requests=_requests(workload, work.modality, tokens) if workload.task == "batch" else 0.0,
        input_tokens=tokens,
        output_tokens=0,
        limits=forward_limits(workload, work.modality, notes),
        assumptions=tuple(notes.taken),
        modality=work.modality,
        one_input=dataclasses.replace(one_input, tokens=float(tokens)),
        told=told_of(one_input, model, work),
    )


def told_of(one_input: PassInput, model: Model, work: ForwardWork) -> dict[str, float]:
    """What an input is like, as the reader is told: what was given, else the usual values; nothing
    of inputs whose size moves little."""
    if isinstance(model, DiffusionModel):
        height, width, frames = drawn_size(model)
        steps = one_input.steps or work.stages[0].repeats
        if seconds := heard_seconds(model):
            return {"seconds": one_input.audio_s or seconds, "denoise_steps": steps}
        size = {"height": one_input.height or height, "width": one_input.width or width, "denoise_steps": steps}
        return {**size, "frames": one_input.frames or frames} if work.modality == "video" else size
    if work.modality == "audio":
        return {"seconds": one_input.audio_s or float(usual()["audio_window_s"])}
    return {"height": one_input.height, "width": one_input.width} if one_input.height else {}


def forward_rate(workload: Workload, notes: Notes, *, modality: str = "") -> float:
    """Requests a second of a service; 0 of a batch job, and where users were given
    in place of a rate. Users who speak give as many seconds of sound a second as they are."""
    if workload.task != "serve":
        return 0.0
    rate = workload.rate_per_s or 0.0
    if not rate and workload.users and modality == "audio":
        rate = workload.users / seconds_of(workload)
        notes.take("rate", rate, "serve_live_audio")
    if not rate and not workload.users:
        name = f"{modality}_rate_per_s" if modality in ("image", "video") else "rate_per_s"
        rate = float(usual()[name])
        notes.take("rate", rate, "serve_rate")
    return rate


def forward_limits(workload: Workload, modality: str, notes: Notes) -> Limits:
    """The limit of a pass: the user's, or the usual one of its kind of input."""
    infinity = float("inf")
    percentile = (workload.percentile or usual()["percentile"]) / 100.0
    latency = workload.latency_s
    if workload.task == "batch":
        return Limits(infinity, infinity, infinity, percentile)
    if latency is None:
        latency = float(usual()[f"{modality}_latency_s" if modality in ("image", "video", "audio") else "forward_latency_s"])
        if modality == "audio":  # a longer recording may take longer by as much
            latency *= max(seconds_of(workload) / float(usual()["audio_window_s"]), 1.0)
        notes.take(LATENCY_LIMITS[2], latency, f"serve_latency_{modality}" if modality in ("video", "audio") else "serve_latency")
    return Limits(infinity, infinity, float(latency), percentile)


def _requests(workload: Workload, modality: str, tokens: int) -> float:
    """Inputs of a batch job: images, texts, or windows of audio."""
    unit = workload.data_unit or ""
    if workload.data_samples is not None:
        if unit.startswith("hour"):
            if modality != "audio":
                raise InputError(Message("families.hours_of_speech"), field="data")
            return workload.data_samples * 3600.0 / seconds_of(workload)
        _refuse_unit(unit, modality)
        return workload.data_samples
    if workload.data_tokens is not None and tokens:
        return max(1.0, workload.data_tokens / tokens)
    raise InputError(Message("families.amount_of_passes"), field="data")


#: Units of data that only some kinds of input have.
_UNITS_OF: Mapping[str, tuple[str, ...]] = {
    "images": ("vision", "image"),
    "videos": ("vision", "video"),
    "utterances": ("audio",),
    "documents": ("text",),
}


def _refuse_unit(unit: str, modality: str) -> None:
    """Data in the unit of another kind of input are another job."""
    if unit in _UNITS_OF and modality not in _UNITS_OF[unit]:
        instead = next((name for name, kinds in _UNITS_OF.items() if modality in kinds), "samples")
        raise InputError(Message("families.data_unit_passes", unit=unit, instead=instead), field="data")


@dataclass(frozen=True, slots=True)
class ForwardChoice:
    """Engines and arithmetic that the user leaves open; the number format wanted is empty
    for the usual one."""

    engines: tuple[PassEngine, ...]
    dtype: str


def read_forward_choice(workload: Workload, modality: str) -> ForwardChoice:
    """The engines that the user's words leave."""
    found = facts.resolve_offline(workload.model or "")
    name = f"{facts.spoken(workload.model or '')} {found.record.name if found else ''}".casefold()
    able = [one for one in pass_engines() if modality in one.modalities and one.models in name]
    engines = able
    if workload.framework:
        lowered = workload.framework.strip().lower()
        engines = [one for one in able if one.name.lower() == lowered or lowered in one.words]
        if not engines:
            names = sorted({one.name for one in able})
            plain = {name.lower().replace(" ", ""): name for name in names}
            near = [plain[word] for word in nearest_words(lowered.replace(" ", ""), plain, count=2)]
            allowed_names = Message("names.allowed_here", names=", ".join(names))
            raise UnknownNameError("serving engine", workload.framework, nearest=near, allowed=allowed_names, field="framework")
    wanted = workload.quantization if workload.quantization not in (None, "none", "any") else workload.precision
    if wanted and not any(wanted in one.dtypes for one in engines):
        allowed = sorted({dtype for one in engines for dtype in one.dtypes})
        raise ContradictionError(Message("families.quantization_unserved", wanted=wanted, formats=", ".join(allowed)), field="quantization")
    return ForwardChoice(tuple(engines), wanted or "")


def forward_stack(choice: ForwardChoice, family: str) -> ServingStack | None:
    """The first engine of the table that runs on a family, in the arithmetic wanted or the
    engine's usual one."""
    for one in choice.engines:
        dtypes = [name for name in one.dtypes if not (name == "int8" and family in NO_INT8)]
        if family in one.families and (not choice.dtype or choice.dtype in dtypes):
            usual_dtype = "fp32" if family == "pascal" and "fp32" in dtypes else dtypes[0]
            return ServingStack(one.name, one.engine, "", choice.dtype or usual_dtype, "")
    return None


def forward_market(catalog: Catalog, filters: Filters, *, with_cpus: bool) -> Market:
    """Servers with accelerators, and of each CPU server the offers that pass the user's filters and
    may lead."""
    if not with_cpus or (filters.gpus and "" not in filters.gpus):
        return open_market(catalog)
    market = whole_market(catalog)
    has_card = (market.offers.servers.num_accelerators > 0)[market.offers.server_index]
    return market.take(np.concatenate([np.flatnonzero(has_card), cpu_offers(market, filters)]))


def forward_fleet(servers: ServerTable, offers: OfferTable, choice: ForwardChoice) -> tuple[ServingFleet, list[PassMachine]]:
    """Machine classes of accelerators (by name and number) and of CPUs (by kind and cores)."""
    known = chips(servers)
    stacks = {family: forward_stack(choice, family) for family in {*map(family_of, known.values()), "cpu", "cpu-amx"}}
    listed = once(offers.server_index)
    missing, classes = ["accelerator"] * len(servers), MachineClasses(len(servers))
    machines: list[PassMachine] = []
    for server in listed.tolist():
        name, count = servers.accelerator_name[server], float(servers.num_accelerators[server])
        found = _card_machine(known.get(name), count) if name else cpu_machine(servers, server)
        lacks = "accelerator" if found is None else "" if stacks[found.family] else "engine"
        if name and count != int(count):
            lacks = "whole accelerators"
        missing[server] = lacks
        if lacks or found is None:
            continue
        if classes.put(server, (_cpu_key(found) if found.family.startswith("cpu") else found.card.name, found.per_node)):
            machines.append(found)
    fleet = ServingFleet(
        accelerators=tuple(one.card for one in machines),
        families=tuple(one.family for one in machines),
        gpus_per_node=np.array([one.per_node for one in machines], dtype=np.intp),
        first=np.array(classes.first, dtype=np.intp),
        machine_index=classes.index,
        missing=tuple(missing),
        stacks=tuple((stack,) if (stack := stacks[one.family]) else () for one in machines),
    )
    return fleet, machines


def _cpu_key(machine: PassMachine) -> tuple[str, float, float]:
    """Processors of one class have one kind, as many cores and as much RAM: what does not fit the
    small one must not be sold on it."""
    assert machine.processor is not None
    return machine.processor.key, machine.card.num_sms, machine.memory_bytes


def _card_machine(card: Accelerator | None, count: float) -> PassMachine | None:
    if card is None or min(card.memory_bytes, card.memory_bandwidth, max(card.fp16_flops, card.fp32_flops, card.bf16_flops)) <= 0:
        return None
    return PassMachine(card.equivalent_to or card.name, family_of(card), max(int(count), 1), card.memory_bytes, card)


def shared_machines(
    fleet: ServingFleet, machines: list[PassMachine], workload: Workload, market: Market, catalog: Catalog
) -> tuple[ServingFleet, list[PassMachine]]:
    """Slices of cards in place of whole ones, and what neighbours take of each class."""
    if not workload.slice and not workload.beside:
        return fleet, machines
    cut = shared_fleet(fleet, workload, market.offers.servers, lambda other: explored(other, catalog))
    if not workload.slice:
        return cut, machines
    by_first = dict(zip(fleet.first.tolist(), machines, strict=True))
    pairs = zip(cut.first.tolist(), cut.accelerators, cut.gpus_per_node.tolist(), strict=True)
    return cut, [
        dataclasses.replace(by_first[server], memory_bytes=card.memory_bytes, card=card, per_node=count) for server, card, count in pairs
    ]


def forward_space(
    fleet: ServingFleet, machines: Sequence[PassMachine], wish: ServingRequest, *, timed: Timed | None = None
) -> tuple[ServingSpace, Array]:
    """Candidates (one a machine class) and the seconds of a pass at each batch (rows x
    PASS_BATCHES); infinite where the batch does not fit.

    timed: gives seconds and memory of a pass on machines, in place of `passes`.
    """
    distinct: dict[tuple[str, float, ServingStack, str], int] = {}
    codes = []
    for number, one in enumerate(machines):
        key = (
            one.processor.key if one.processor else one.device,
            one.card.num_sms if one.processor else 0,
            fleet.stacks[number][0],
            one.card.name if wish.workload.slice else "",
        )
        codes.append(distinct.setdefault(key, len(distinct)))
    firsts = [codes.index(code) for code in range(len(distinct))]
    seconds, memory = (timed or passes)([machines[row] for row in firsts], [fleet.stacks[row][0] for row in firsts], wish)
    code = np.array(codes, dtype=np.intp)
    usable = np.array([one.memory_bytes for one in machines]) * usual()["usable_memory"]
    resting = wish.model.denoiser_params / 2.0 if isinstance(wish.model, DiffusionModel) and rests(wish.model) else 0.0
    weights = (num_parameters(wish.model) - resting) * np.array([WEIGHT_BYTES.get(found[0].format, 2.0) for found in fleet.stacks])
    safe = safe_bytes(weights[:, None], memory[code], wish)
    most = usual()["audio_batch"] if wish.modality == "audio" else math.inf
    pass_s = np.where((safe <= usable[:, None]) & (most >= PASS_BATCHES), seconds[code], np.inf)
    needed = memory[code][:, 0]
    machine = np.arange(len(machines), dtype=np.intp)
    ones = np.ones(len(machines), dtype=np.intp)
    fits = np.isfinite(pass_s[:, 0])
    stacks = tuple(found[0] for found in fleet.stacks)
    parts = (ModelColumns(), ServeColumns(), DeviceColumns(), LinkColumns())
    return ServingSpace(machine, ones, ones, stacks, *parts, fits, needed, safe[:, 0], usable, code, code), pass_s


#: Passes of some hundred models on the whole market: a question that follows changes the
#: load or the money.
_PASSES: Kept[tuple[Array, Array]] = Kept(8_000_000, size_of=lambda found: sum(array.nbytes for array in found))


def passes(machines: Sequence[PassMachine], stacks: Sequence[ServingStack], wish: ServingRequest) -> tuple[Array, Array]:
    """Seconds of a pass and its memory, (machines, PASS_BATCHES)."""
    assert wish.one_input is not None
    devices = [_device_of(one) for one in machines]
    software = [(_engine_class(stack.name), Arithmetic(stack.format)) for stack in stacks]
    shares = [_share_of_card(one) for one in machines]
    one_input = wish.one_input
    return _PASSES.of(lambda: _passes(one_input, devices, software, shares), wish.model, one_input, devices, software, shares)


def _passes(
    one_input: PassInput, devices: Sequence[ForwardDevice], software: Sequence[tuple[Engine, Arithmetic]], shares: Sequence[float]
) -> tuple[Array, Array]:
    """The same of devices, each in its engine and arithmetic; shares: of the card
    that a machine has."""
    work = forward_work(one_input)
    assert work is not None
    cases = [
        ForwardCase(work, device, engine, arithmetic, batch=batch)
        for device, (engine, arithmetic) in zip(devices, software, strict=True)
        for batch in PASS_BATCHES.tolist()
    ]
    values = pass_metric_values(case_columns(cases))
    shape = (len(devices), PASS_BATCHES.shape[0])
    seconds = np.tile(PASS_BATCHES, len(devices)) / values["req_per_s"] / np.repeat(shares, PASS_BATCHES.shape[0])
    return seconds.reshape(shape), (values["peak_mem_gib"] * 2.0**30).reshape(shape)


def _device_of(machine: PassMachine) -> ForwardDevice:
    """The card of a machine, whole, or as many cores of its processor as a server has."""
    if machine.processor is not None:
        return processor_device(machine.processor, cores=float(machine.card.num_sms))
    return card_device(facts.accelerators()[machine.device])


@functools.cache
def _engine_class(name: str) -> Engine:
    """The class of an engine of the table of engines."""
    return next(Engine(one.engine_class) for one in pass_engines() if one.name == name)


def _share_of_card(machine: PassMachine) -> float:
    """Part of its card's arithmetic that a slice has; 1 of whole cards and processors.
    Times are those of the card over this share: an upper bound, since what waits for the
    host does not grow."""
    whole = facts.accelerators().get(machine.card.name.partition("/")[0])
    return machine.card.num_sms / max(whole.num_sms, 1) if whole is not None and "/" in machine.card.name else 1.0


def suits_cpu(wish: ServingRequest) -> bool:
    """Whether a CPU server is worth a look: small models, none that draws images, and those whose
    size is tables that are looked up."""
    work = forward_work(PassInput(wish.model.name))
    assert work is not None
    looks_up = all(stage.kind == "recommender" for stage in work.stages)
    return looks_up or (wish.modality not in ("image", "video") and work.params <= usual()["largest_cpu_params"])
