"""Which engine runs which weights on which accelerator: facts/data/serving_stacks.csv and
serving_formats.csv as rules.

A wrong pair is refused with the reason: at once (exit 2) where the user named engine and card, else
as a rejection of the offers.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import ContradictionError, UnknownNameError
from rightfit.estimation.convert import model_columns
from rightfit.estimation.figures import Figure, serving_interval
from rightfit.estimation.serving_extras import kept_bytes
from rightfit.facts.engine_releases import READ, ModelClass, goes_with, has_class, model_class, release_for, starts_on
from rightfit.facts.engines import published_format, stacks_named
from rightfit.facts.machines import ProcessorKind, processor_kind, processor_record
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.market.offers import PURCHASES, OfferTable, ServerTable, today
from rightfit.messages import Message
from rightfit.physics import serving_columns
from rightfit.physics.columns import Array
from rightfit.records import dataclass
from rightfit.search.constraints import Filters, filter_failures
from rightfit.search.offers import Market
from rightfit.search.sense import leading_rows
from rightfit.search.service.wish import ServingRequest, usual
from rightfit.search.sources import num_parameters, published_bytes
from rightfit.workload.vocabulary import nearest_words

SIXTEEN_BIT = ("bf16", "fp16", "gguf-f16")
PACKED = ("int4-awq", "int4-gptq", "nf4", "int8")
"""Formats of quantised copies of a checkpoint, which stay what they are."""


@dataclass(frozen=True, slots=True)
class ServingStack:
    """An engine with the weights it runs: `engine` and `version` as the estimate's tables name
    them, `format` of the weights, `kv` of the cache."""

    name: str
    engine: str
    version: str
    format: str
    kv: str = "16-bit"

    @property
    def is_full_precision(self) -> bool:
        """Whether the weights are as they were published."""
        return self.format in SIXTEEN_BIT


@dataclass(frozen=True, slots=True)
class StackRequest:
    """What the user fixed: engine names of the table, weight formats and those of the cache,
    whether any weight format will do; the names by which the model's class is known (as asked,
    that of its record); and the share of a card that the engine is told to take (0: its own)."""

    engines: tuple[str, ...]
    formats: tuple[str, ...]
    is_free: bool
    published: str = ""
    kv: tuple[str, ...] = ("16-bit",)
    names: tuple[str, ...] = ()
    memory_share: float = 0.0

    @property
    def known(self) -> ModelClass | None:
        """The model's class; None where the tables do not know it."""
        return model_class(*self.names)


@functools.cache
def stack_rows() -> tuple[dict[str, str], ...]:
    """The table of engines."""
    return tuple(facts.table("serving_stacks"))


@functools.cache
def format_rows() -> dict[str, dict[str, str]]:
    """The table of weight formats by name."""
    return {row["name"]: row for row in facts.table("serving_formats")}


def published_quality(repository: str, weight_format: str) -> dict[str, str]:
    """What a quantised form of a checkpoint scored beside the published weights, where somebody
    published it (facts/data/published_quality.csv)."""
    rows = facts.table("published_quality")
    row = next((row for row in rows if (row["repository"], row["format"]) == (repository, weight_format)), {})
    return {name: row[name] for name in ("format", "score", "score_as_published", "benchmark", "source") if row}


def read_stack_wish(
    *,
    engine: str,
    quantization: str,
    precision: str,
    model: str = "",
    kv_cache: str = "",
    names: tuple[str, ...] = (),
    memory_share: float = 0.0,
) -> StackRequest:
    """The user's words as names of the tables; unknown ones raise with what is allowed. Without a
    word, or where nothing is to be quantized, a model is served as it was published."""
    formats, is_free = _formats(quantization, precision)
    published = published_format(model)
    if is_packed(published):
        formats, is_free = _packed_formats(published, quantization, precision, formats), False
    elif published and not precision and quantization.strip().lower() in ("", *UNQUANTIZED):
        formats = (published, *formats)
    kv = {"fp8": ("fp8",), "any": ("16-bit", "fp8")}.get(kv_cache, ("16-bit",))
    wish = StackRequest(_engines(engine), formats, is_free, published, kv, names, memory_share)
    settable = [row["name"] for row in stack_rows() if row["memory_setting"]]
    if memory_share and wish.engines and not set(wish.engines) & set(settable):
        told = {"engine": wish.engines[0], "engines": ", ".join(settable)}
        raise ContradictionError(Message("search.no_memory_setting", **told), field="gpu_memory_utilization")
    return wish


#: Words for weights that nobody quantizes.
UNQUANTIZED = ("none", "off", "no")


def is_packed(published: str) -> bool:
    """Whether a checkpoint is published in a format from which an engine makes no other: it reads
    AWQ, GPTQ and the like as they are."""
    return published in PACKED


def _packed_formats(published: str, quantization: str, precision: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Formats of a packed checkpoint: its own. A word for 16 bit says what is computed in, and any
    of fewer bits leaves it as it is; another format raises."""
    word = quantization.strip().lower()
    is_other = precision == "fp8" or (word and word not in ("any", "free", "auto") and not set(asked) & {published, *SIXTEEN_BIT})
    if is_other:
        told = {"published": published, "format": (word or precision)}
        raise ContradictionError(Message("search.packed_checkpoint", **told), field="quantization" if word else "precision")
    return (published,)


def _engines(text: str) -> tuple[str, ...]:
    if not text:
        return ()
    lowered = text.strip().lower()
    found = stacks_named(text)
    if not found:
        names = [row["name"] for row in stack_rows()]
        near = nearest_words(lowered, names, count=2)
        raise UnknownNameError(
            "serving engine", text, nearest=near, allowed=Message("names.allowed_words", names=", ".join(names)), field="framework"
        )
    return found


def _formats(quantization: str, precision: str) -> tuple[tuple[str, ...], bool]:
    lowered = quantization.strip().lower()
    if lowered.startswith("gguf-"):
        lowered = "gguf-" + lowered.removeprefix("gguf-").replace("-", "_")
    if lowered in ("any", "free", "auto"):
        return tuple(name for name, row in format_rows().items() if row["free"] != "0"), True
    if lowered:
        found = tuple(name for name, row in format_rows().items() if name == lowered or lowered in row["words"].split("|"))
        if not found:
            raise UnknownNameError(
                "quantization",
                quantization,
                nearest=(),
                allowed=Message("names.allowed_words", names=f"none, any, {', '.join(format_rows())}"),
                field="quantization",
            )
        return (found if lowered in UNQUANTIZED else found[:1]), False
    if precision in ("fp16", "bf16", "fp8"):
        return (precision,), False
    if precision:
        raise ContradictionError(Message("search.serve_precision", precision=precision), field="precision")
    return SIXTEEN_BIT, False


def stacks_of(accelerator: Accelerator, family: str, wish: StackRequest) -> tuple[tuple[ServingStack, ...], str]:
    """The stacks to try on an accelerator, each with the cache formats wanted, or none
    and what it lacks."""
    found, lacks = _weight_stacks(accelerator, family, wish)
    stacks = tuple(
        dataclasses.replace(stack, kv=kv)
        for stack in found
        for kv in wish.kv
        if kv == "16-bit" or has_feature(f"{kv}-kv", stack.name, family)
    )
    return (stacks, "") if stacks else ((), lacks or "kv_cache")


@functools.cache
def has_feature(feature: str, engine: str, family: str) -> bool:
    """Whether an engine has a feature of facts/data/serving_features.csv on a family of cards."""
    rows = (row for row in facts.table("serving_features") if row["feature"] == feature)
    return any(engine in row["engines"].split("|") and family in row["families"].split("|") for row in rows)


def _weight_stacks(accelerator: Accelerator, family: str, wish: StackRequest) -> tuple[tuple[ServingStack, ...], str]:
    """The stacks by weight format, with a cache of 16 bit.

    For each format the first engine of the table that runs it there; 16 bit means bf16 where the
    accelerator has it, else fp16.
    """
    if (
        min(
            accelerator.memory_bytes,
            accelerator.memory_bandwidth,
            max(accelerator.bf16_flops, accelerator.fp16_flops, accelerator.fp32_flops),
        )
        <= 0
    ):
        return (), "specifications"
    rows = [row for row in stack_rows() if family in row["families"].split("|") and _is_wanted(row, wish)]
    if not rows:
        return (), "engine"
    rows = [row for row in rows if _knows(row, wish, accelerator)]
    if not rows:
        return (), "class"
    formats = [
        name
        for name in wish.formats
        if (has_arithmetic(accelerator, name) or (name == wish.published and any(_widens(row, name, family) for row in rows)))
        and family not in format_rows().get(name, {}).get("not_on", "").split("|")
    ]
    if "bf16" in formats and "fp16" in formats:
        formats.remove("fp16")
    if wish.is_free:
        formats = [name for name in formats if name not in format_rows() or format_rows()[name]["free"] == "1" or family == "cpu"]
    able = {name: rows if has_arithmetic(accelerator, name) else [row for row in rows if _widens(row, name, family)] for name in formats}
    found = [stack for name in formats for stack in [_first(able[name], name)] if stack]
    as_published = [stack for stack in found if stack.format == wish.published]
    if as_published and not wish.is_free:
        return tuple(as_published), ""
    whole = [stack for stack in found if stack.is_full_precision]
    if len(whole) > 1:  # the same weights twice: the engine that stands first in the table
        found = [stack for stack in found if not stack.is_full_precision or stack is whole[0]]
    if found:
        return tuple(found), ""
    return (), next((name for name in wish.formats if name not in formats), "engine") if len(wish.formats) == 1 else "engine"


def _is_wanted(row: dict[str, str], wish: StackRequest) -> bool:
    """Named by the user; or, where none is named, one that suits a server."""
    if wish.memory_share and not row["memory_setting"]:
        return False
    return row["name"] in wish.engines if wish.engines else not row["note"].startswith("only when named")


def _knows(row: dict[str, str], wish: StackRequest, accelerator: Accelerator) -> bool:
    """Whether a release of the engine runs on such a card and has the model's class there,
    where that is known. Cards of other makers than the two whose releases were read have
    engines of their own."""
    known, engine = wish.known, AGES.get(row["engine"], row["engine"])
    if engine in READ and accelerator.vendor in ("NVIDIA", "AMD"):
        return release_for(engine, wish.names, accelerator.name) is not None
    if not starts_on(engine, accelerator):
        return False
    return known is None or (_has_class(row, known) and goes_with(known, accelerator))


AGES = {"text-generation-inference": "tgi"}
COMPILED = "xla"
"""The class of engines that chips of their own compile models for: only where they are named, and
nothing is known of their models here."""


def _has_class(row: dict[str, str], known: ModelClass) -> bool:
    return row["classes"] == COMPILED or has_class(AGES.get(row["engine"], row["engine"]), known)


def refuse_unknown_class(wish: StackRequest, model: str) -> None:
    """Raise before any server is looked at where no released engine that may be taken has
    the model's class."""
    known = wish.known
    if known is None or any(_has_class(row, known) for row in stack_rows() if _is_wanted(row, wish) and row["classes"] != COMPILED):
        return
    engines = ", ".join(wish.engines) or "vLLM, SGLang"
    others = [row["name"] for row in stack_rows() if row["classes"] != COMPILED and _has_class(row, known)]
    told = {"model": model, "architecture": known.architecture, "engines": engines}
    if others:
        raise ContradictionError(Message("search.no_engine_class_but", **told, others=", ".join(others)), field="framework")
    raise ContradictionError(Message("search.no_engine_class", **told), field="framework")


def _widens(row: dict[str, str], name: str, family: str) -> bool:
    """Whether an engine keeps weights in a format that the card does not compute in, and widens
    them in its kernels."""
    return has_feature(f"{name}-weights", row["name"], family)


def _first(rows: list[dict[str, str]], name: str) -> ServingStack | None:
    row = next((row for row in rows if name in row["formats"].split("|")), None)
    return ServingStack(row["name"], row["engine"], row["version"], name) if row else None


def has_arithmetic(accelerator: Accelerator, name: str) -> bool:
    """Whether the accelerator computes in what the format needs."""
    needs = format_rows()[name]["needs"] if name in format_rows() else ""
    return not needs or float(getattr(accelerator, needs)) > 0


def refuse_wrong_pair(wish: StackRequest, cards: tuple[tuple[Accelerator, str], ...]) -> None:
    """Raise where the user named cards and none of them runs the engine or the format
    that was named too."""
    if not cards:
        return
    verdicts = {accelerator.name: stacks_of(accelerator, family, wish) for accelerator, family in cards}
    if any(stacks for stacks, _ in verdicts.values()):
        return
    name, (_, lacks) = next(iter(verdicts.items()))
    raise ContradictionError(pair_problem(name, lacks, wish), field="gpu")


def pair_problem(name: str, lacks: str, wish: StackRequest) -> Message:
    """One line on why engine, format and card do not go together, and what would."""
    accelerator = facts.accelerators()[name]
    if lacks == "class" and not wish.known:
        return Message("search.pair_release", engine=", ".join(wish.engines) or "vLLM, SGLang", card=name)
    if lacks == "class" and (known := wish.known):
        least = ", ".join(f"{engine} {version}" for engine, version in known.least.items() if version) or "-"
        return Message("search.pair_class", architecture=known.architecture or wish.names[0], card=name, least=least)
    if lacks == "engine" and wish.engines:
        row = next(row for row in stack_rows() if row["name"] == wish.engines[0])
        key = "_nvidia" if accelerator.vendor == "NVIDIA" else ""
        return Message(f"search.pair_engine{key}", engine=row["name"], formats=", ".join(wish.formats[:2]), card=name, source=row["source"])
    if lacks == "kv_cache":
        return Message("search.pair_cache", card=name, format=wish.kv[0])
    if lacks in format_rows():
        return Message("search.pair_arithmetic", card=name, format=lacks)
    if lacks == "specifications":
        return Message("search.pair_specifications", card=name)
    return Message("search.pair_none", formats=", ".join(wish.formats[:3]), card=name)


# ---- Servers without accelerators as replicas: which of their offers may lead, and the processor
# of each as a device.

Index = NDArray[np.intp]
_SKIPPED = ("burstable", "gpu")


def cpu_offers(market: Market, filters: Filters, kinds: Index | None = None) -> Index:
    """Of each CPU server (or each of its `kinds`, below 0 left out) and way to pay the offers that
    may lead, of those that no filter refuses."""
    offers = market.offers
    kind = np.arange(len(offers.servers)) if kinds is None else kinds
    is_meant = (offers.servers.num_accelerators <= 0) & (kind >= 0)
    rows = np.flatnonzero(is_meant[offers.server_index] & _unrefused(offers, dataclasses.replace(filters, gpus=()), today()))
    return leading_rows(market, rows, kind[offers.server_index[rows]] * len(PURCHASES) + offers.purchase_index[rows])


@functools.lru_cache(maxsize=2)
def _unrefused(offers: OfferTable, filters: Filters, day: str) -> NDArray[np.bool_]:
    """Offers (O,) that no filter refuses on a day: what is looked at next differs in the servers
    alone."""
    return np.asarray(~np.logical_or.reduce(list(filter_failures(offers, filters).values())))


@dataclass(frozen=True, slots=True)
class PassMachine:
    """One class of machines: the card or CPU as the facts name it, its family, how many replicas a
    server holds, and of a CPU server the kind of processor."""

    device: str
    family: str
    per_node: int
    memory_bytes: float
    card: Accelerator
    processor: ProcessorKind | None = None


def cpu_machine(servers: ServerTable, server: int) -> PassMachine | None:
    """A CPU server as a machine of one replica; its number of cores stands in `num_sms`."""
    shape = cpu_shape(servers, server)
    return _machine(*shape) if shape else None


def cpu_shape(servers: ServerTable, server: int) -> tuple[str, int, float] | None:
    """What a CPU server's processor is called, its cores and its memory [bytes]; None for a server
    that is none of one's own or too large."""
    if servers.category[server] in _SKIPPED or not servers.vcpus[server] >= 2 or servers.vcpus[server] > 192:
        return None
    arm = servers.arch[server].startswith("arm")
    cores = max(1, int(servers.vcpus[server] * (1.0 if arm else usual()["cpu_physical_share"])))
    memory = float(servers.memory_bytes[server])
    prefix = servers.instance_type[server].partition(".")[0]
    return f"CPU {servers.cpu_model[server]} {prefix}.", cores, 0.0 if math.isnan(memory) else memory


@functools.lru_cache(maxsize=8192)
def _machine(text: str, cores: int, memory_bytes: float) -> PassMachine:
    """Kept, because four thousand servers are a few hundred machines."""
    kind = processor_kind(text)
    card = processor_record(kind, cores=cores, memory_bytes=memory_bytes)
    return PassMachine(text, "cpu-amx" if kind.has_matrix_units else "cpu", 1, memory_bytes, card, kind)


# ---- What one server of a service or a batch job keeps on disk: weight files as they were
# published, a draft and adapters beside them.
#
# The bill rents volumes by it, and the plan carries it (`estimate.disk_bytes`), so that the files
# that start a server make the disk large enough.


def weights_bytes(wish: ServingRequest) -> float:
    """Everything that is fetched before the first request [bytes]: the model, a draft, adapters."""
    extras, model = wish.extras, wish.model
    found = published_bytes(model)
    if extras.draft is not None:
        found += published_bytes(extras.draft)
    if extras.adapters and isinstance(model, TransformerArchitecture):
        found += extras.adapters * float(serving_columns.adapter_bytes(model_columns([model]), rank=np.full(1, extras.adapter_rank))[0])
    return found


def kept_of(wish: ServingRequest) -> float:
    """What caches of prompts take that are kept for later requests, on all
    servers together [bytes]."""
    if not wish.extras.hit_share:
        return 0.0
    return kept_bytes(wish.extras, wish.model, input_tokens=wish.input_tokens, rate_per_s=wish.rate_per_s, users=wish.users)


def disk_bytes(wish: ServingRequest, run_format: str) -> float:
    """What a server keeps [bytes], with weights in the format that runs where its file is the
    larger, and a batch job's progress."""
    known = format_rows().get(run_format) if wish.generates else None
    as_run = num_parameters(wish.model) * float(known["bits"]) / 8.0 if known else 0.0
    more = max(0.0, as_run - published_bytes(wish.model))
    return weights_bytes(wish) + more + (float(usual()["batch_progress_bytes"]) if wish.is_batch else 0.0)


# ---- Figures of services with their intervals: as sure as predictions of such models are.

TABLE = "table"


def doubts_of(wish: ServingRequest) -> float:
    """Inputs of a wish that are not known but typical: the model's shape; how often drafts are
    accepted or prompts found again."""
    guessed = wish.extras.acceptance_low > 0 or (wish.extras.hit_share > 0 and wish.workload.cache_hits is None)
    return float(getattr(wish.model, "certainty", "exact") == "typical") + float(guessed)


def service_figure(metric: str, value: float, *, doubts: float, modality: str = "") -> Figure:
    """One figure by the name of its metric; `modality` of a model of one pass."""
    if modality == TABLE:
        return _table_figure(metric, value, doubts=doubts)
    return serving_interval(metric, np.array([value]), doubts=np.array([doubts]), modality=modality).row(0)


def _table_figure(metric: str, value: float, *, doubts: float) -> Figure:
    """A figure of a service of a classical model: as sure as predictions of such models on
    machines of other people."""
    from rightfit.estimation.figures import classical_interval

    known = "peak_ram_gib" if metric == "peak_mem_gib" else "predict_time_s"
    return classical_interval(known, np.array([value]), doubts=np.array([doubts]), gpu=False).row(0)


# ---- How surely a replica fits: engines fill a card with their cache by design, so that what must
# fit is the weights, what is beside them, and one request.
#
# Weights are counted; what is beside them (workspace, context, one request) is as unsure as
# measured peaks are.

#: Bytes of a parameter of a model of one pass by its format; two where it is not named.
WEIGHT_BYTES = {"fp32": 4.0, "int8": 1.0}


def spread_of(wish: ServingRequest) -> Figure:
    """The interval of a measured peak, as factors on its middle."""
    return service_figure("peak_mem_gib", 1.0, doubts=doubts_of(wish), modality="" if wish.generates else wish.modality)


def safe_bytes(weights: Array, needed: Array, wish: ServingRequest) -> Array:
    """What replicas need at most, with nine in ten: weights and what is beside them at the upper
    80 % end [bytes], shapes as given."""
    held = np.minimum(weights, needed)
    return np.asarray(held + (needed - held) * spread_of(wish).high80)


def fit_figure(weights: float, needed: float, wish: ServingRequest) -> Figure:
    """What one replica needs [bytes], with its interval."""
    held, spread = min(weights, needed), spread_of(wish)
    ends = {name: held + (needed - held) * getattr(spread, name) for name in ("low80", "high80", "low95", "high95")}
    return Figure(needed, **ends, source=spread.source)
