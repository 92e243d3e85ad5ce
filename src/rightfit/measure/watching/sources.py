"""One look at a run: how far it is, how long its steps take, what its machine does. Sources make
looks; nothing here knows where they come from."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from rightfit.errors import AmbiguousNameError, FileInputError, InputError, MissingComponentError, NetworkError, RightfitError
from rightfit.measure.harmless import harmless_address
from rightfit.measure.probing.cards import optional
from rightfit.measure.probing.counters import FOLDER_PREFIX, FOLDER_VARIABLE, Machine, counted, leading
from rightfit.measure.readers import trackers
from rightfit.measure.readers.item import MOST_BYTES, Item, number
from rightfit.measure.readers.prometheus import Sample, figures_of, known_name, samples_of
from rightfit.measure.readers.training_text import log_intervals
from rightfit.measure.record import is_there
from rightfit.messages import Message, cause
from rightfit.records import dataclass
from rightfit.units import GIB, MIB


@dataclass(frozen=True, slots=True)
class Look:
    """A moment of a run. `at_s`: our own monotonic clock. `step` optimizer steps done of `whole`;
    `intervals` seconds a step, oldest first; `elapsed_s` since the run began. `figures`: metrics of
    a run record by name, as they are now or since the look before; memory in bytes. What is not
    known is absent or None."""

    at_s: float
    is_alive: bool = True
    step: float | None = None
    whole: float | None = None
    intervals: tuple[float, ...] = ()
    since_step_s: float | None = None
    elapsed_s: float | None = None
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Source(Protocol):
    """Something that can be followed."""

    @property
    def name(self) -> str:
        """How it is called."""
        ...

    def look(self) -> Look:
        """The run now. Raises UnavailableError where it cannot be seen at all."""
        ...


class LastStep:
    """When the count of steps last grew, by our own clock, so that a clock that is set cannot
    make or hide a stall."""

    def __init__(self) -> None:
        self._step: float | None = None
        self._at_s = 0.0

    def since(self, step: float | None, now_s: float, *, known_s: float = 0.0) -> float | None:
        """Seconds since the count grew; at the first look `known_s`, what the source itself tells.
        None before the first step."""
        if step is None or step <= 0:
            return None
        if self._step is None:
            self._step, self._at_s = step, now_s - max(known_s, 0.0)
        elif step != self._step:
            self._step, self._at_s = step, now_s
        return now_s - self._at_s


# ---- Follow a service or a machine by the page that it shows to Prometheus: what happened
# since the look before.

_TIMEOUT_S = 10
#: Metric, statistic of a record -> figure of a look in base units, and what one
#: unit is of its unit.
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
        """The page now. Raises NetworkError where it does not answer, InputError where no
        name on it is known."""
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
    """Samples of what happened between two pages: histograms as differences, counters at both
    moments, gauges as they are. A counter that fell was reset."""
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
            Message("problems.cannot_read", name=harmless_address(address), error=cause(getattr(error, "reason", error)))
        ) from None


def exporter_source(address: str) -> ExporterSource:
    """The source of an address; without a path it is that of /metrics. Raises InputError for
    what is no address."""
    parts = urlsplit(address)
    if not parts.hostname:
        raise InputError(Message("measure.no_exporter_address", address=address[:80]), field="target")
    path = parts.path if parts.path.strip("/") not in ("", "v1") else "/metrics"
    whole = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
    return ExporterSource(whole, harmless_address(whole))


# ---- Follow a run by what it leaves: a tracker's folder (TensorBoard, W&B offline, MLflow), a
# trainer's state, or a log that grows.

#: Of a log only so much of its end is read.
_TAIL_BYTES = int(MIB)
_STEP_OF = re.compile(r"(?<![\d:.])(\d+)/(\d+) \[|iteration\s+(\d+)/\s*(\d+)\s*\||\bstep:\s*(\d+)\b")

_ELAPSED = re.compile(r"\[((?:\d+:)?\d+:\d+)<")


@dataclass(frozen=True, slots=True)
class History:
    """What a run has left: optimizer steps done and wanted, seconds a step, and what
    its own sampler saw."""

    step: float | None = None
    whole: float | None = None
    intervals: tuple[float, ...] = ()
    started_s: float | None = None
    last_s: float | None = None
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)


def history_of(path: Path) -> History:
    """What a file or folder tells; read anew each time, since it grows. Raises FileInputError where
    nothing in it is known."""
    item = Item(path, str(path))
    found = [read(item) for detects, read in _KINDS if detects(item)]
    if found:  # of several runs the one that wrote last
        return max(found, key=lambda one: one.last_s or 0.0)
    newest = _newest_log(path)
    if newest is not None:
        return _log(newest)
    raise FileInputError(Message("measure.no_history", file=path))


def _of_points(points: Sequence[tuple[float, float]], whole: float | None = None, figures: Mapping[str, float] | None = None) -> History:
    moments = [at for at, _ in points]
    known = {"started_s": min(moments), "last_s": max(moments)} if moments else {}
    step = max((step for _, step in points), default=None)
    return History(step=step, whole=whole, intervals=tuple(trackers.step_intervals(points)), figures=figures or {}, **known)


def _trainer_state(item: Item) -> History:
    """Steps done and wanted; the file has no times, so the step time comes from looking at it."""
    if item.is_folder:
        states = sorted(item.path.glob("**/trainer_state.json"), key=lambda path: path.stat().st_mtime)
        return _trainer_state(Item(states[-1], str(states[-1])))
    return History(step=number(item.json.get("global_step")), whole=number(item.json.get("max_steps")), last_s=item.path.stat().st_mtime)


def _is_trainer_state(item: Item) -> bool:
    if item.is_folder:
        return any(item.path.glob("**/trainer_state.json"))
    return isinstance(item.json, Mapping) and {"log_history", "global_step"} <= item.json.keys()


def _is_trainer_log(item: Item) -> bool:
    first = item.json[0] if isinstance(item.json, list) and item.json else None
    return isinstance(first, Mapping) and {"current_steps", "total_steps", "elapsed_time"} <= first.keys()


def _trainer_log(item: Item) -> History:
    whole = number(item.json[-1].get("total_steps"))
    found = _of_points(trackers.trainer_log_points(item), whole)
    return dataclasses.replace(found, started_s=None, last_s=item.path.stat().st_mtime)


def _wandb(item: Item) -> History:
    points, stats = trackers.wandb_points(max(trackers.wandb_files(item), key=lambda path: path.stat().st_mtime))
    return _of_points(points, figures=_last_figures(stats))


def _mlflow(item: Item) -> History:
    """The run that wrote last."""
    best = History()
    for _, series, params in trackers.mlflow_runs(item):
        longest = max((points for key, points in series.items() if not key.startswith("system/")), key=len, default=[])
        system = [{key: points[-1][2]} for key, points in series.items() if key.startswith("system/") and points]
        found = _of_points([(at, step) for at, step, _ in longest], number(params.get("max_steps")), _last_figures(system))
        best = found if (found.last_s or 0.0) >= (best.last_s or 0.0) else best
    return dataclasses.replace(best, whole=best.whole if best.whole and best.whole > 0 else None)


def _last_figures(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The trackers' own samples, the newest of each."""
    newest: dict[str, Any] = {}
    for line in lines:
        newest |= line
    return {item.metric: item.value for item in trackers.system_figures([newest]) if item.metric == "gpu_busy_share"}


def _newest_log(path: Path) -> Path | None:
    """The file itself, or of a folder the log that was written last and shows progress."""
    if path.is_file():
        return path if _shows_progress(path) else None
    logs = [found for ending in ("*.log", "*.out", "*.txt") for found in path.rglob(ending)]
    for found in sorted(logs, key=lambda log: log.stat().st_mtime, reverse=True):
        if _shows_progress(found):
            return found
    return None


def _tail(path: Path) -> str:
    with path.open("rb") as stream:
        stream.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
        return stream.read().decode("utf-8", "replace").replace("\r", "\n")


def _shows_progress(path: Path) -> bool:
    text = _tail(path)
    return bool(_STEP_OF.search(text) or log_intervals(text))


def _log(path: Path) -> History:
    text = _tail(path)
    found = _STEP_OF.findall(text)
    last = [part for part in found[-1] if part] if found else []
    step, whole = (number(last[0]) if last else None), (number(last[1]) if len(last) > 1 else None)
    clocks = _ELAPSED.findall(text)
    last_s = path.stat().st_mtime
    started_s = last_s - trackers.clock_s(clocks[-1]) if clocks else None
    return History(step=step, whole=whole, intervals=tuple(log_intervals(text)), started_s=started_s, last_s=last_s)


_KINDS: Sequence[tuple[Callable[[Item], bool], Callable[[Item], History]]] = (
    (_is_trainer_log, _trainer_log),
    (lambda item: bool(trackers.wandb_files(item)), _wandb),
    (lambda item: bool(trackers.event_files(item)), lambda item: _of_points(trackers.tensorboard_points(trackers.newest_run(item)))),
    (_is_trainer_state, _trainer_state),
    (lambda item: trackers.mlflow_store(item) is not None, _mlflow),
)


@dataclasses.dataclass(slots=True)
class FolderSource:
    """A folder or file that a run writes to."""

    path: Path
    name: str
    _last: LastStep = dataclasses.field(default_factory=LastStep)
    _seen: list[tuple[float, float]] = dataclasses.field(default_factory=list)

    def look(self) -> Look:
        """What it says now. Where it tells no times, steps are timed by our own looks."""
        now = time.monotonic()
        try:
            found = history_of(self.path)
        except RightfitError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):  # it was being written
            found = History()
        since = max(time.time() - found.last_s, 0.0) if found.last_s else 0.0
        return Look(
            at_s=now,
            step=found.step,
            whole=found.whole,
            intervals=found.intervals or self._timed(found.step, now),
            since_step_s=self._last.since(found.step, now, known_s=since),
            elapsed_s=max(time.time() - found.started_s, 0.0) if found.started_s else None,
            figures=found.figures,
            is_alive=found.whole is None or found.step is None or found.step < found.whole,
        )

    def _timed(self, step: float | None, now: float) -> tuple[float, ...]:
        if step is not None and (not self._seen or step > self._seen[-1][1]):
            self._seen.append((now, step))
        return tuple((at - before) / (step - last) for (before, last), (at, step) in itertools.pairwise(self._seen))


def folder_source(path: Path) -> FolderSource:
    """The source of a file or folder. Raises InputError where it does not exist, FileInputError
    where nothing in it is known."""
    if not is_there(path):
        raise InputError(Message("measure.nothing_to_watch", word=str(path)), field="target")
    history_of(path)
    return FolderSource(path, str(path))


# ---- Follow a process: its machine from outside, and its steps where `rightfit probe` started it.


@dataclasses.dataclass(slots=True)
class ProcessSource:
    """A process and all that it started, by its id."""

    pid: int
    name: str
    _machine: Machine
    _last: LastStep = dataclasses.field(default_factory=LastStep)

    def look(self) -> Look:
        """The process now."""
        now = time.monotonic()
        process = _process(self.pid)
        is_alive = process is not None
        if is_alive:
            self._machine.sample()
        folder = folder_of(process) if process is not None else None
        tally = leading(counted(folder)) if folder is not None else None
        step = float(tally["steps"]) if tally else None
        known = max(time.time() - float(tally["written"]), 0.0) if tally and tally.get("written") else 0.0
        return Look(
            at_s=now,
            is_alive=is_alive,
            step=step,
            intervals=tuple(tally["intervals"]) if tally else (),
            since_step_s=self._last.since(step, now, known_s=known),
            elapsed_s=max(time.time() - process.create_time(), 0.0) if process is not None else None,
            figures={**self._machine.now, **self._processors(), **(_inside(tally) if tally else {})},
            notes=() if tally or not is_alive else ("no_count",),
        )

    def _processors(self) -> dict[str, float]:
        """Share of one core of the busiest process, since the start of looking."""
        return {"cpu_one_core_share": self._machine.busiest} if self._machine.cpu_s and self._machine.elapsed_s > 1.0 else {}


def _inside(tally: Mapping[str, Any]) -> dict[str, float]:
    """What the process itself counted."""
    found = {}
    if tally["batches"] and tally["span_s"] > 0 and tally["kind"] == "torch":
        found["data_wait_share"] = min(tally["wait_s"] / tally["span_s"], 1.0)
    held = [card.get("now", card["allocated"]) for card in tally["gpus"]]
    if held:
        found["allocated_bytes"] = float(max(held))
    if {"tensorflow", "jax"} & tally["versions"].keys():
        found["preallocates"] = 1.0
    return found


def process_source(pid: int) -> ProcessSource:
    """The source of a process id. Raises InputError where there is none,
    MissingComponentError without psutil."""
    if optional("psutil") is None:
        raise MissingComponentError(Message("measure.no_psutil"))
    process = _process(pid)
    if process is None:
        raise InputError(Message("measure.no_process", pid=pid), field="target")
    return ProcessSource(pid, f"process {pid} ({process.name()})", Machine(pid))


def _process(pid: int) -> Any:
    """The process where it runs; None for one that has ended, or waits only for
    its parent to notice."""
    psutil = optional("psutil")
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except (psutil.Error, OSError, OverflowError):
        return None


def folder_of(process: Any) -> Path | None:
    """Where `rightfit probe` keeps the counts of this process or of one that it started."""
    psutil = optional("psutil")
    with contextlib.suppress(psutil.Error, OSError):
        for one in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error, OSError):
                found = one.environ().get(FOLDER_VARIABLE)
                if found and Path(found).is_dir():
                    return Path(found)
    return None


def only_probe() -> int:
    """The process id of the one `rightfit probe` of this user that runs here. Raises InputError
    where there is none, AmbiguousNameError where there are several."""
    found = {}
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = int(json.loads((folder / "probe").read_text(encoding="utf-8"))["pid"])
            if _process(pid) is not None:
                found[pid] = folder
    if not found:
        raise InputError(
            Message("measure.what_to_watch"),
            field="target",
        )
    if len(found) > 1:
        raise AmbiguousNameError("run", "to watch", [str(pid) for pid in sorted(found)], field="target")
    return next(iter(found))


# ---- What can be followed, by the word that names it: a process id, an address, a file or folder,
# or nothing for the one `rightfit probe` that runs.


def source_of(target: str) -> Source:
    """The source of a target. Raises InputError, MissingComponentError; what it follows is
    read at each look."""
    if not target:
        return process_source(only_probe())
    if target.startswith(("http://", "https://")):
        return exporter_source(target)
    if target.isdigit() and not is_there(target):
        return process_source(int(target))
    return folder_source(Path(target))
