"""Follow a run by what it leaves: a tracker's folder (TensorBoard, W&B offline, MLflow), a trainer's state, or a log that grows."""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError, InputError, RightfitError
from rightfit.measure.places import is_there
from rightfit.measure.readers import trackers
from rightfit.measure.readers.item import Item, number
from rightfit.measure.readers.training_text import log_intervals
from rightfit.measure.watching.look import LastStep, Look
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.units import MIB

#: Of a log only so much of its end is read.
_TAIL_BYTES = int(MIB)
_STEP_OF = re.compile(r"(?<![\d:.])(\d+)/(\d+) \[|iteration\s+(\d+)/\s*(\d+)\s*\||\bstep:\s*(\d+)\b")

_ELAPSED = re.compile(r"\[((?:\d+:)?\d+:\d+)<")


@dataclass(frozen=True, slots=True)
class History:
    """What a run has left: optimizer steps done and wanted, seconds a step, and what its own sampler saw."""

    step: float | None = None
    whole: float | None = None
    intervals: tuple[float, ...] = ()
    started_s: float | None = None
    last_s: float | None = None
    figures: Mapping[str, float] = dataclasses.field(default_factory=dict)


def history_of(path: Path) -> History:
    """What a file or folder tells; read anew each time, since it grows. Raises FileInputError where nothing in it is known."""
    for detects, read in _KINDS:
        item = Item(path, str(path))
        if detects(item):
            return read(item)
    newest = _newest_log(path)
    if newest is not None:
        return _log(newest)
    raise FileInputError(Message("measure.no_history", file=path))


def _of_points(points: Sequence[tuple[float, float]], whole: float | None = None, figures: Mapping[str, float] | None = None) -> History:
    ordered = sorted({step: at for at, step in points}.items())
    intervals = tuple((at - before) / (step - last) for (last, before), (step, at) in itertools.pairwise(ordered))
    moments = [at for at, _ in points]
    known = {"started_s": min(moments), "last_s": max(moments)} if moments else {}
    return History(step=ordered[-1][0] if ordered else None, whole=whole, intervals=intervals, figures=figures or {}, **known)


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
    (lambda item: bool(trackers.event_files(item)), lambda item: _of_points(trackers.tensorboard_points(item))),
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
    """The source of a file or folder. Raises InputError where it does not exist, FileInputError where nothing in it is known."""
    if not is_there(path):
        raise InputError(Message("measure.nothing_to_watch", word=str(path)), field="target")
    history_of(path)
    return FolderSource(path, str(path))
