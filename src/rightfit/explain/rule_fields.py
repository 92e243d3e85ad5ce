"""The figures that a rule's reason may name, formatted for one language."""

from __future__ import annotations

import math

from rightfit.explain import quantities as q
from rightfit.explain.measures import Measures
from rightfit.explain.messages import Lang, say
from rightfit.explain.reasons import UNSHARDED, sharding_text, term_text


def figure_text(value: float, unit: str, lang: Lang, *, currency: str = "usd") -> str:
    """A figure in a rule's unit: memory, data, rate, bandwidth, percent, duration, usd or count."""
    if not math.isfinite(value):
        return say("rule_words.unknown_figure", lang)
    if unit == "duration":
        return q.duration_text(value, lang)
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


def _measure_fields(measure: Measures, lang: Lang, currency: str) -> dict[str, str]:
    def text(value: float, unit: str) -> str:
        return figure_text(value, unit, lang, currency=currency)

    return {
        "method": q.method_text("pretrain" if measure.task == "train" and measure.method == "full" else measure.method, lang),
        "gpus": q.counted("gpu", measure.num_gpus, lang),
        "loading": text(measure.loading_share, "percent"),
        "communication": text(measure.communication_share, "percent"),
        "mfu": text(measure.mfu, "percent"),
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
