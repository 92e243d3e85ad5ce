"""Follow a service or a machine by the page that it shows to Prometheus: what happened since the look before."""

from __future__ import annotations

import dataclasses
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from rightfit.errors import InputError, NetworkError
from rightfit.measure.readers.exposition import Sample, figures_of, known_name, samples_of
from rightfit.measure.readers.item import MOST_BYTES
from rightfit.measure.record import without_secrets
from rightfit.measure.watching.look import Look
from rightfit.messages import Message, cause
from rightfit.units import GIB

_TIMEOUT_S = 10
#: Metric, statistic of a record -> figure of a look in base units, and what one unit is of its unit.
_FIGURES = {
    ("ttft_ms", "p95"): ("ttft_p95_s", 1e-3),
    ("ttft_ms", "mean"): ("ttft_s", 1e-3),
    ("tpot_ms", "mean"): ("tpot_s", 1e-3),
    ("itl_ms", "mean"): ("tpot_s", 1e-3),
    ("latency_ms", "mean"): ("latency_s", 1e-3),
    ("peak_mem_gib_per_gpu", "max"): ("card_memory_bytes", GIB),
}
_STARTED = "process_start_time_seconds"


@dataclasses.dataclass(slots=True)
class ExporterSource:
    """An address of an exporter."""

    address: str
    name: str
    _before: list[Sample] = dataclasses.field(default_factory=list)

    def look(self) -> Look:
        """The page now. Raises NetworkError where it does not answer, InputError where no name on it is known."""
        now, moment = time.monotonic(), time.time()
        page = [dataclasses.replace(sample, at=moment) for sample in samples_of(_fetched(self.address))]
        if not any(known_name(sample.name) for sample in page):
            raise InputError(
                Message("measure.no_known_values", address=self.name, count=len(page)),
                field="target",
            )
        figures = _figures(since(self._before, page))
        started = next((sample.value for sample in page if sample.name == _STARTED), None)
        self._before = page
        return Look(at_s=now, elapsed_s=max(moment - started, 0.0) if started else None, figures=figures)


def since(before: Sequence[Sample], now: Sequence[Sample]) -> list[Sample]:
    """Samples of what happened between two pages: histograms as differences, counters at both moments, gauges as they are. A counter that fell was reset."""
    if not before:
        return list(now)
    last = {_key(sample): sample for sample in before}
    found: list[Sample] = []
    for sample in now:
        earlier = last.get(_key(sample))
        if sample.name.endswith(("_bucket", "_sum", "_count")):
            fell = earlier is not None and earlier.value > sample.value
            found.append(sample if earlier is None or fell else dataclasses.replace(sample, value=sample.value - earlier.value))
        else:
            found += [earlier, sample] if earlier is not None and sample.name.endswith("_total") else [sample]
    return found


def _key(sample: Sample) -> tuple[str, tuple[tuple[str, str], ...]]:
    return sample.name, tuple(sorted(sample.labels.items()))


def _figures(samples: Sequence[Sample]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for item in figures_of(samples):
        name, scale = _FIGURES.get((item.metric, item.statistic), (item.metric, 1.0))
        if item.statistic in ("mean", "max") or name != item.metric:
            found.setdefault(name, item.value * scale)
    return found


def _fetched(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 (http and https only)
            return str(answer.read(MOST_BYTES).decode("utf-8", "replace"))
    except (OSError, ValueError, urllib.error.URLError) as error:
        raise NetworkError(
            Message("problems.cannot_read", name=without_secrets(address), error=cause(getattr(error, "reason", error)))
        ) from None


def exporter_source(address: str) -> ExporterSource:
    """The source of an address; without a path it is that of /metrics. Raises InputError for what is no address."""
    parts = urlsplit(address)
    if not parts.hostname:
        raise InputError(Message("measure.no_exporter_address", address=address[:80]), field="target")
    path = parts.path if parts.path.strip("/") not in ("", "v1") else "/metrics"
    whole = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return ExporterSource(whole, without_secrets(whole))
