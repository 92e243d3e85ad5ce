"""Our own figures for the workload at hand, gathered from an option so that rules of thumb can be
held against them."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Collection, Iterator, Mapping, Set
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import fields_of, say
from rightfit.explain.reasons import UNSHARDED, sharding_text, term_text
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass
from rightfit.search.answer import Option

_BYTES_PER_16_BIT_WEIGHT = 2
#: Less of a core than this is told as such.
_NEXT_TO_NONE = 0.1
_COMMUNICATION = frozenset({"tensor", "expert", "context", "shard", "data", "offload", "communication"})


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of one option in base units; NaN where unknown. Sums (`vram_*`, `host_*`, `weights`)
    are over the whole job."""

    model: str
    task: str
    method: str
    params: float
    weights_bytes: float
    peak_memory_bytes: float
    peak_low80_bytes: float
    peak_high80_bytes: float
    vram_needed_bytes: float
    vram_bytes: float
    num_gpus: float
    least_gpus: float
    nodes: float
    vcpus: float
    vcpus_per_gpu: float
    host_memory_bytes: float
    host_memory_needed_bytes: float
    disk_needed_bytes: float
    data_bytes: float
    read_bytes_per_s: float
    network_bytes_per_s: float
    loading_share: float
    stall_share: float
    loader_cores: float
    communication_share: float
    busy_share: float
    mfu: float
    total_time_s: float
    total_usd: float
    micro_batch: float
    seq_len: float
    spot_saving_fraction: float
    reserved_saving_fraction: float
    purchase: str
    sharding: str
    tensor: float
    bottleneck: str
    has_nvlink: bool


def measures(
    option: Option,
    workload: Any,
    *,
    params: float,
    savings: tuple[float, float] = (math.nan, math.nan),
    has_nvlink: bool = False,
    need_bytes: float = math.nan,
) -> Measures:
    """The figures of `option`.

    `params`: parameters of the model; `savings`: fractions that spot and the deepest commitment
    save; `need_bytes`: what one copy of the job needs at least (the option's own peak over all
    cards where not given; a large micro-batch fills a card on purpose).
    """
    nodes, num_gpus = float(option.nodes), float(option.num_accelerators)
    peak = option.estimate["peak_memory_bytes"]
    need = peak.mid * num_gpus if math.isnan(need_bytes) else need_bytes
    time_s = _mid(option, "total_time_s")
    data = _data_bytes(option, workload)
    read = data * float(workload.epochs or option.facts.get("epochs") or 1) / time_s if time_s > 0 else math.nan
    loading = float(option.data_path.get("loading_share", math.nan))
    communication = _share(option, _COMMUNICATION)
    return Measures(
        model=str(workload.model),
        task=str(workload.task),
        method=option.layout.method,
        params=params,
        weights_bytes=params * _BYTES_PER_16_BIT_WEIGHT,
        peak_memory_bytes=peak.mid,
        peak_low80_bytes=peak.low80,
        peak_high80_bytes=peak.high80,
        vram_needed_bytes=need,
        vram_bytes=option.accelerator.memory_bytes * num_gpus,
        num_gpus=num_gpus,
        least_gpus=float(math.ceil(need / option.accelerator.memory_bytes)),
        nodes=nodes,
        vcpus=option.vcpus * nodes,
        vcpus_per_gpu=option.vcpus / option.accelerator.count_per_node,
        host_memory_bytes=option.memory_bytes * nodes,
        host_memory_needed_bytes=_mid(option, "host_memory_bytes") * nodes,
        disk_needed_bytes=_mid(option, "disk_bytes"),
        data_bytes=data,
        read_bytes_per_s=read,
        network_bytes_per_s=option.network_gbps * 1e9 / 8,
        loading_share=loading,
        stall_share=float(option.data_path.get("stall_share", math.nan)),
        loader_cores=float(option.data_path.get("needed_cores", math.nan)) * nodes,
        communication_share=communication,
        busy_share=1 - communication - float(option.data_path.get("stall_share", 0.0)),
        mfu=_mid(option, "mfu"),
        total_time_s=time_s,
        total_usd=option.cost.total_usd,
        micro_batch=float(option.layout.micro_batch),
        seq_len=float(workload.seq_len or option.facts.get("seq_len") or math.nan),
        spot_saving_fraction=0.0 if savings[0] < 0 else savings[0],  # what costs more saves nothing
        reserved_saving_fraction=0.0 if savings[1] < 0 else savings[1],
        purchase=option.purchase,
        sharding=option.layout.sharding,
        tensor=float(option.layout.tensor),
        bottleneck=max(option.time_terms, key=lambda name: option.time_terms[name], default=""),
        has_nvlink=has_nvlink,
    )


def _mid(option: Option, name: str) -> float:
    figure = option.estimate.get(name)
    return figure.mid if figure is not None else math.nan


def _share(option: Option, words: Set[str]) -> float:
    """Share of a step that the terms of these names take."""
    total = sum(option.time_terms.values())
    taken = sum(value for name, value in option.time_terms.items() if name.removesuffix("_s") in words)
    return taken / total if total else math.nan


def _data_bytes(option: Option, workload: Any) -> float:
    """Size of the data: as given, or as the search assumed it."""
    return float(workload.data_bytes or option.facts.get("dataset_bytes") or math.nan)


# ---- What an entry of data/rules.toml must hold: judged before a rule is made of it, so that what
# is missing is named and not stumbled over.

REASONS = ("holds", "fails", "misleading")
NEEDED = ("post", "kind", "figure", "unit", "statement", *REASONS)
UNITS = ("memory", "data", "bandwidth", "percent", "duration", "usd", "rate", "count")
# What a kind of rule needs besides; a rule of any other kind claims something, as a value or as a
# factor of a figure.
NEEDED_BY_KIND: Mapping[str, tuple[str, ...]] = {"fixed": ("verdict",), "setup": ("servers", "setup"), "gpus": (), "term": ()}
_LISTS = ("models", "methods", "tasks")
_MEASURES = tuple(field.name for field in dataclasses.fields(Measures))


def entry_problems(
    name: str, entry: Mapping[str, Any], *, allowed: Collection[str], kinds: Collection[str], table: Mapping[str, Any]
) -> list[str]:
    """What is wrong with one entry, one line each; `allowed` are the keys that an entry may have,
    `table` holds posts and examples."""
    lines = [*_missing(entry), *_unknown(entry, keys=allowed, kinds=kinds, table=table), *_texts(entry)]
    return [f"explain/data/rules.toml: {name} {line}" for line in lines]


def _missing(entry: Mapping[str, Any]) -> Iterator[str]:
    kind = str(entry.get("kind", ""))
    missing = [key for key in (*NEEDED, *NEEDED_BY_KIND.get(kind, ())) if key not in entry]
    if kind and kind not in NEEDED_BY_KIND and "value" not in entry and "base" not in entry:
        missing.append("value (or base and factor)")
    if missing:
        yield f"lacks {', '.join(missing)}"


def _unknown(entry: Mapping[str, Any], *, keys: Collection[str], kinds: Collection[str], table: Mapping[str, Any]) -> Iterator[str]:
    for key in entry:
        if key not in keys:
            yield f"has a key {key!r} that nothing reads{_nearest(key, keys)}"
    choices: Mapping[str, Collection[str]] = {
        "kind": kinds,
        "figure": _MEASURES,
        "base": _MEASURES,
        "unit": UNITS,
        "post": table["posts"],
        "example": table["examples"],
    }
    for key, allowed in choices.items():
        if key in entry and str(entry[key]) not in allowed:
            yield f"has the {key} {entry[key]!r}{_nearest(str(entry[key]), allowed)}; choose one of {', '.join(allowed)}"
    for key in entry.get("applies", {}):
        bound, _, figure = key.partition("_")
        if key not in _LISTS and not (bound in ("min", "max") and figure in (*_MEASURES, "gpus")):
            yield f"applies by {key!r}, which is neither min_ or max_ of a figure nor one of {', '.join(_LISTS)}"


def _texts(entry: Mapping[str, Any]) -> Iterator[str]:
    for key in ("statement", *REASONS):
        texts = entry.get(key, dict.fromkeys(LANGS, ""))
        absent = [lang for lang in LANGS if lang not in texts]
        if absent:
            yield f"has no {' and no '.join(absent)} text in {key}"
        elif fields_of(texts["en"]) != fields_of(texts["zh"]) or bool(texts["en"]) != bool(texts["zh"]):
            yield f"names other fields in the en than in the zh text of {key}"


def _nearest(name: str, allowed: Collection[str]) -> str:
    near = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {near[0]}?" if near else ""


# ---- The figures that a rule's reason may name, formatted for one language.


def figure_text(value: float, unit: str, lang: Lang, *, currency: str = "usd") -> str:
    """A figure in a rule's unit: memory, data, rate, bandwidth, percent, duration, usd or count."""
    if not math.isfinite(value):
        return say("rule_words.unknown_figure", lang)
    if unit == "duration":
        return q.duration_text(value, lang)
    if unit == "count" and 0.0 < value < _NEXT_TO_NONE:
        return f"< {_NEXT_TO_NONE:g}"
    if unit == "usd":
        return q.money_text(value, currency)
    if unit == "rate":
        return f"{q.data_text(value)}/s"
    formats = {"memory": q.memory_text, "data": q.data_text, "bandwidth": q.bandwidth_text, "percent": q.percent_text}
    return formats.get(unit, q.plain)(value)


def rule_fields(measure: Measures | None, lang: Lang, *, claim: float, figure: float, unit: str, currency: str = "usd") -> dict[str, str]:
    """Every field that a reason in data/rules.toml may use."""
    ratio = figure / claim if claim else math.nan
    fields = {
        "claim": figure_text(claim, unit, lang, currency=currency),
        "figure": figure_text(figure, unit, lang, currency=currency),
        "ratio": figure_text(ratio, "percent", lang),
        "over": figure_text(1 / ratio if ratio else math.nan, "count", lang),
    }
    return fields if measure is None else fields | _measure_fields(measure, lang, currency)


def leanest_text(figure: str, measure: Measures, lang: Lang) -> str:
    """What the leanest set-up of a job needs, beside what the plan's own takes where that is
    another figure."""
    planned = q.memory_text(measure.peak_memory_bytes)
    if planned == figure and measure.num_gpus == 1:
        return figure
    return say("rule_words.leanest", lang, figure=figure, planned=planned, gpus=q.counted("gpu", measure.num_gpus, lang))


def _measure_fields(measure: Measures, lang: Lang, currency: str) -> dict[str, str]:
    def text(value: float, unit: str) -> str:
        return figure_text(value, unit, lang, currency=currency)

    return {
        "method": q.method_text("pretrain" if measure.task == "train" and measure.method == "full" else measure.method, lang),
        "gpus": q.counted("gpu", measure.num_gpus, lang),
        "loading": text(measure.loading_share, "percent"),
        "communication": text(measure.communication_share, "percent"),
        "mfu": text(measure.mfu, "percent"),
        "cores_needed": text(measure.loader_cores, "count"),
        "host_memory": text(measure.host_memory_bytes, "memory"),
        "host_needed": text(measure.host_memory_needed_bytes, "memory"),
        "host_per_gpu": text(measure.host_memory_bytes / measure.num_gpus, "memory"),
        "data": text(measure.data_bytes, "data"),
        "micro_batch": text(measure.micro_batch, "count"),
        "seq_len": text(measure.seq_len, "count"),
        "time": text(measure.total_time_s, "duration"),
        "cost": text(measure.total_usd, "usd"),
        "interval": f"{text(measure.peak_low80_bytes, 'memory')} – {text(measure.peak_high80_bytes, 'memory')}",
        "purchase": q.purchase_text(measure.purchase, lang),
        "sharding": _sharding(measure, lang),
        "interconnect": _interconnect(measure, lang),
        "bottleneck": term_text(measure.bottleneck, lang, kind="time"),
    }


def _sharding(measure: Measures, lang: Lang) -> str:
    if measure.sharding not in UNSHARDED:
        return sharding_text(measure.sharding, lang)
    return say("rule_words.tensor" if measure.tensor > 1 else "rule_words.no_sharding", lang)


def _interconnect(measure: Measures, lang: Lang) -> str:
    if measure.nodes > 1:
        return say("rule_words.interconnect_network", lang)
    return say("rule_words.interconnect_nvlink" if measure.has_nvlink else "rule_words.interconnect_pcie", lang)
