"""Prometheus: the text that an exporter shows, and the JSON of the API, of DCGM, vLLM, SGLang, TGI
and Triton (facts/data/exporter_metrics.csv).

One page of an exporter is a moment: gauges count, totals since the start become a rate only where
the page tells how long that is (process_start_time_seconds) or where two moments are given. A
histogram gives its mean, and percentiles with the bounds of their bucket. Of a figure under an old
and a new name only the first name in the table counts; they are never added. Values near 2^63 mean
"not supported".
"""

from __future__ import annotations

import datetime
import itertools
import math
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rightfit import facts
from rightfit.errors import AmbiguousNameError, FileInputError, InputError, NetworkError
from rightfit.facts.tables import constant_group
from rightfit.measure.readers.item import MOST_BYTES, Definitions, Item, Reader, figure, number, words
from rightfit.measure.record import Measured, Run, Source, json_of
from rightfit.measure.signals import card_named
from rightfit.messages import Message, cause
from rightfit.records import dataclass

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*?)\})?\s+([-+]?(?:[\d.eE+-]+|Inf|NaN))(?:\s+(-?[\d.]+))?\s*$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NOT_SUPPORTED = 2.0**62
_STARTED = "process_start_time_seconds"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series at one moment [s since 1970, None where the page has none]."""

    name: str
    labels: Mapping[str, str]
    value: float
    at: float | None


@cache
def known() -> Mapping[str, Mapping[str, str]]:
    """Exporters' names -> lines of the table, in its order."""
    return {row["name"]: row for row in facts.table("exporter_metrics")}


def unit_name(name: str) -> str:
    """A name without the endings of newer exporters and of histograms."""
    for ending in ("_bucket", "_sum", "_count"):
        if name.removesuffix(ending) in known():
            return name.removesuffix(ending)
    return name.removesuffix("_RATIO") if name.removesuffix("_RATIO") in known() else name if name in known() else f"{name}_total"


def known_name(name: str) -> bool:
    """Whether a name is one of an exporter that is read."""
    return unit_name(name) in known()


def samples_of(text: str) -> list[Sample]:
    """Samples of an exposition text; what is not supported or not a number is dropped."""
    found = []
    for line in text.splitlines():
        match = _LINE.match(line) if line and line[0] != "#" else None
        value = number(match[3]) if match else None
        if match and value is not None and abs(value) < _NOT_SUPPORTED:
            found.append(Sample(match[1], dict(_LABEL.findall(match[2] or "")), value, _moment(match[4])))
    return found


def _moment(text: str | None) -> float | None:
    """Seconds; the exposition of Prometheus counts milliseconds, that of OpenMetrics seconds."""
    at = number(text)
    return None if at is None else at / 1000 if at > 1e11 else at


def samples_of_api(answer: Mapping[str, Any]) -> list[Sample]:
    """Samples of an answer of /api/v1/query or /api/v1/query_range."""
    found = []
    for series in answer.get("data", {}).get("result", []):
        labels = {name: str(value) for name, value in series.get("metric", {}).items()}
        name = labels.pop("__name__", "")
        for at, text in series.get("values") or [series.get("value") or (None, None)]:
            value = number(text)
            if value is not None and abs(value) < _NOT_SUPPORTED:
                found.append(Sample(name, labels, value, number(at)))
    return found


def figures_of(samples: Sequence[Sample]) -> list[Measured]:
    """Figures of the samples of known exporters, each metric once."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(unit_name(sample.name), []).append(sample)
    elapsed = _elapsed(samples)
    figures: list[Measured] = []
    for name, row in known().items():
        if name in by_name and row["metric"] not in {item.metric for item in figures}:
            figures += _figure(row, by_name[name], elapsed)
    return figures


def _elapsed(samples: Sequence[Sample]) -> float | None:
    """Seconds since the exporter's process started, where one moment tells."""
    start = next((sample for sample in samples if sample.name == _STARTED), None)
    return start.at - start.value if start and start.at and start.at > start.value else None


def _figure(row: Mapping[str, str], samples: list[Sample], elapsed: float | None) -> list[Measured]:
    scale, metric = float(row["scale"]), row["metric"]
    definition = f"{row['exporter']}: {row['name']}"
    if row["how"] == "histogram":
        return _histogram(metric, samples, scale, definition)
    if row["how"] == "counter":
        rate = _rate(samples, elapsed)
        return figure(metric, rate, scale=scale, definition=definition)
    values = [min(sample.value * scale, 1.0) if metric.endswith("_share") else sample.value * scale for sample in samples]
    if row["how"] == "peak":
        counter = "nvidia-smi" if metric.startswith("peak_mem") else ""
        return figure(metric, max(values), statistic="max", n=len(values), definition=definition, counter=counter)
    return figure(metric, sum(values) / len(values), n=len(values), definition=definition)


def _rate(samples: list[Sample], elapsed: float | None) -> float | None:
    """Growth per second of all series together: between the first and the last moment, or since the
    start. A counter that fell was reset: it counts from zero."""
    series: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for sample in samples:
        series.setdefault(tuple(sorted(sample.labels.items())), []).append(sample)
    moments = [sample.at for sample in samples if sample.at is not None]
    span = max(moments) - min(moments) if moments else 0.0
    if span > 0:
        return sum(_growth(_in_order(part)) for part in series.values()) / span
    return sum(part[-1].value for part in series.values()) / elapsed if elapsed else None


def _growth(ordered: list[Sample]) -> float:
    return sum(after.value - before.value if after.value >= before.value else after.value for before, after in itertools.pairwise(ordered))


def _histogram(metric: str, samples: list[Sample], scale: float, definition: str) -> list[Measured]:
    last = _added(samples)
    total = sum(value for name, _, value in last if name.endswith("_sum"))
    count = sum(value for name, _, value in last if name.endswith("_count"))
    buckets: dict[float, float] = {}
    for name, labels, value in last:
        if name.endswith("_bucket"):
            edge = math.inf if labels.get("le") == "+Inf" else float(labels["le"])
            buckets[edge] = buckets.get(edge, 0.0) + value
    figures = figure(metric, total / count, scale=scale, n=int(count), definition=definition) if count else []
    for level, statistic in ((0.5, "p50"), (0.95, "p95")) if count and buckets else ():
        low, high, within = _bucket(buckets, level * count)
        if math.isfinite(high):
            text = f"{definition}; between {low * scale:g} and {high * scale:g} (its bucket)"
            figures += figure(
                metric,
                low + (high - low) * within,
                scale=scale,
                statistic=statistic,
                n=int(count),
                definition=text,
                spread=(high - low) / 2 * scale,
            )
        else:
            figures += figure(
                metric, low, scale=scale, statistic=statistic, n=int(count), definition=f"{definition}; beyond its last bucket", bound=">="
            )
    return figures


def _added(samples: list[Sample]) -> list[tuple[str, Mapping[str, str], float]]:
    """What each series counted: between its moments where there are several, else since the
    start of its process."""
    series: dict[tuple[Any, ...], list[Sample]] = {}
    for sample in samples:
        series.setdefault((sample.name, *sorted(sample.labels.items())), []).append(sample)
    has_history = len({sample.at for sample in samples}) > 1
    return [(part[-1].name, part[-1].labels, _growth(part) if has_history else part[-1].value) for part in map(_in_order, series.values())]


def _in_order(samples: list[Sample]) -> list[Sample]:
    return sorted(samples, key=lambda sample: sample.at or 0)


def _bucket(buckets: Mapping[float, float], rank: float) -> tuple[float, float, float]:
    """Bounds of the bucket that a rank falls into, and how far into it, as if its values lay evenly
    (Prometheus, histogram_quantile)."""
    low = below = 0.0
    for edge in sorted(buckets):
        if buckets[edge] >= rank:
            return low, edge, (rank - below) / (buckets[edge] - below) if buckets[edge] > below else 1.0
        low, below = edge, buckets[edge]
    return low, math.inf, 0.0


def _setup(samples: Sequence[Sample]) -> dict[str, str]:
    labels = [sample.labels for sample in samples]
    device = next((label["modelName"] for label in labels if label.get("modelName")), "")
    cards = {label.get("UUID") or label.get("gpu") for label in labels if label.get("UUID") or label.get("gpu")}
    model = next((label["model_name"] for label in labels if label.get("model_name")), "")
    return words(model=model, gpu=card_named(device), n_gpus=len(cards) or "")


def _run(item: Item, samples: list[Sample], kind: str) -> list[Run]:
    figures = figures_of(samples)
    names = {sample.name for sample in samples}
    if not figures:
        counters = sorted(name for name in names if unit_name(name) in known())
        why = Message("measure.only_totals", metrics=", ".join(counters[:3])) if counters else Message("measure.no_exporter_name")
        raise FileInputError(Message("measure.no_prometheus_names", file=item.shown, count=len(names), why=why))
    return [record_of(samples, kind, where=item.shown)]


def record_of(samples: Sequence[Sample], kind: str, *, where: str, **more: Any) -> Run:
    """The record of samples, some of which are known."""
    figures = figures_of(samples)
    tool = "+".join(dict.fromkeys(found.definition.split(":")[0] for found in figures))
    warnings = ["over 1 and cut to 1: shares of MIG parts count the whole card"] if any(_over(sample) for sample in samples) else []
    moments = [sample.at for sample in samples if sample.at]
    span = max(moments) - min(moments) if moments else None
    source = Source(kind=kind, tool=tool, path_or_url=where)
    return Run(source=source, measured=figures, setup=_setup(samples), warnings=warnings, duration_s=span or None, **more)


def _over(sample: Sample) -> bool:
    row = known().get(unit_name(sample.name))
    return row is not None and row["metric"].endswith("_share") and sample.value * float(row["scale"]) > 1.0


def _is_exposition(item: Item) -> bool:
    lines = [line for line in item.head.splitlines()[:200] if line.strip()]
    return (
        bool(lines)
        and item.json is None
        and (any(line.startswith("# TYPE ") for line in lines) or all(_LINE.match(line) or line[0] == "#" for line in lines[:20]))
    )


def _is_api(item: Item) -> bool:
    return isinstance(item.json, Mapping) and item.json.get("status") == "success" and "result" in (item.json.get("data") or {})


READERS = (
    Reader("prometheus-text", _is_exposition, lambda item, _: _run(item, samples_of(item.text), "prometheus-text")),
    Reader("prometheus-api", _is_api, lambda item, _: _run(item, samples_of_api(item.json), "prometheus-api")),
)


# ---- A Prometheus by its address: the history of every known exporter in a window,
# asked through its API.
#
# Gauges are averaged and peaks are taken by Prometheus itself over each step (`avg_over_time`,
# `max_over_time`), so that a peak between two points is not lost; counters and histograms count
# what was added within the window. Several models in one answer are a question to the user: their
# figures are no one's.

KIND = "prometheus-server"
_TIMEOUT_S = 30
_OVER = {"gauge": "avg_over_time", "peak": "max_over_time"}


def is_server(address: str) -> bool:
    """Whether a Prometheus answers at this address (without a path)."""
    if urllib.parse.urlsplit(address).path.strip("/"):
        return False
    try:
        return _asked(address, "status/buildinfo", {}).get("status") == "success"
    except (NetworkError, FileInputError):
        return False


def runs_of_server(address: str, definitions: Definitions) -> list[Run]:
    """The record of the window that the user asks for. Raises NetworkError, FileInputError (no
    known exporter), AmbiguousNameError (several models), InputError (a selector that
    Prometheus refuses)."""
    until = definitions.until if definitions.until is not None else datetime.datetime.now(tz=datetime.UTC).timestamp()
    window = {"start": f"{until - definitions.last_s:.3f}", "end": f"{until:.3f}"}
    selector = "{" + definitions.match + "}"
    some = {"match[]": '{__name__!="",' + definitions.match + "}"}  # Prometheus refuses a selector that an empty label would meet
    names = _asked(address, "label/__name__/values", {**window, **(some if definitions.match else {})}).get("data") or []
    step = max(constant_group("measure", "history")["least_step"], definitions.last_s / constant_group("measure", "history")["points"])
    samples: list[Sample] = []
    for name in names:
        if not known_name(name):
            continue
        function = _OVER.get(known()[unit_name(name)]["how"], "")
        query = f"{function}({name}{selector}[{math.ceil(step)}s])" if function else f"{name}{selector}"
        answer = _asked(address, "query_range", {**window, "query": query, "step": f"{step:.3f}"})
        samples += [Sample(name, sample.labels, sample.value, sample.at) for sample in samples_of_api(answer)]
    if not samples:
        ours = Message("measure.other_names", count=len(names)) if names else ""
        raise FileInputError(Message("measure.no_figure_in_window", address=shown(address), line=ours))
    _refuse_several(samples, address)
    started = datetime.datetime.fromtimestamp(min(sample.at for sample in samples if sample.at is not None), tz=datetime.UTC)
    return [record_of(samples, KIND, where=shown(address), started=started.isoformat(timespec="seconds"))]


def _refuse_several(samples: Sequence[Sample], address: str) -> None:
    models = sorted({sample.labels["model_name"] for sample in samples if sample.labels.get("model_name")})
    if len(models) > 1:
        raise AmbiguousNameError("model", shown(address), [f"--match 'model_name=\"{model}\"'" for model in models])


def _asked(address: str, path: str, question: Mapping[str, str]) -> dict[str, Any]:
    """The answer of the API to a question."""
    url = f"{address.rstrip('/')}/api/v1/{path}?{urllib.parse.urlencode(question)}"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 (http and https only)
            content = answer.read(MOST_BYTES)
    except urllib.error.HTTPError as error:
        raise _refused(error, address, path) from None
    except (OSError, ValueError) as error:
        raise NetworkError(Message("problems.cannot_read", name=shown(address), error=cause(getattr(error, "reason", error)))) from None
    try:
        found = json_of(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FileInputError(Message("measure.no_prometheus", address=shown(address), path=path))
    return found


def _refused(error: urllib.error.HTTPError, address: str, path: str) -> Exception:
    try:
        said = json_of(error.read(10_000)).get("error", "")
    except (OSError, ValueError, AttributeError):
        said = ""
    if error.code in (400, 422) and said:
        return InputError(Message("measure.question_refused", message=str(said)[:200]), field="match")
    told = str(said)[:200].rstrip()
    problem = Message("measure.prometheus_status", path=path, status=error.code)
    if told:
        problem = Message("measure.prometheus_answers", path=path, status=error.code, message=told)
    return NetworkError(Message("problems.cannot_read", name=shown(address), error=problem))


def shown(address: str) -> str:
    """An address without name and password."""
    parts = urllib.parse.urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
