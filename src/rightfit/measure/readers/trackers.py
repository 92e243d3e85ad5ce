"""Training runs as trackers and trainers keep them: trainer_state.json, LLaMA-Factory's
trainer_log.jsonl, TensorBoard, W&B offline, MLflow.

One line of a history is one logged step; a step time is the time between two lines over the
optimizer steps between them, after warm-up.
"""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.errors import FileInputError
from rightfit.measure.readers.item import Definitions, Item, Reader, figure, number, words
from rightfit.measure.record import Measured, Run, json_of
from rightfit.measure.signals import steady
from rightfit.messages import Message, at_place, cause

# ---- Two binary logs read without their programs: TensorBoard's event files and
# W&B's offline files.
#
# Both frame protobuf messages; the few fields needed are read by tag from the wire format (varint,
# 64-bit, length-delimited, 32-bit).
# TensorBoard: record = length u64, crc u32, data, crc u32 (tensorflow/core/lib/io/record_writer.h);
# Event {1 wall_time double, 2 step varint, 5 summary}; Summary.Value
# {1 tag, 2 simple_value float, 8 tensor}. W&B: LevelDB's log framing, blocks of 32 KiB, after a
# header of 7 bytes (wandb/sdk/internal/datastore.py, 0.31).

_BLOCK = 32_768
_HEADER = 7


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """(tag, value) of each field of a message: integers, or bytes. Ends at the first
    thing that is no field."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, tag = key & 7, key >> 3
        if kind == 0:
            value, at = _varint(data, at)
            yield tag, value
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield tag, data[at : at + size]
            at += size
        elif kind == 2:
            size, at = _varint(data, at)
            yield tag, data[at : at + size]
            at += size
        else:
            return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            break
    return value, at


# ---- TensorBoard ---------------------------------------------------------------------------------


def scalars_of_events(data: bytes) -> Iterator[tuple[str, float, float, float]]:
    """(tag, wall time [s], step, value) of every scalar; a file cut short ends where it was cut."""
    at = 0
    while at + 12 <= len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        event = data[at + 12 : at + 12 + size]
        if len(event) < size:
            return
        yield from _scalars(event)
        at += 16 + size


def _scalars(event: bytes) -> Iterator[tuple[str, float, float, float]]:
    parts = dict(fields(event))
    if 1 not in parts or 5 not in parts:
        return
    (wall,) = struct.unpack("<d", parts[1])
    for tag, message in fields(parts[5]):
        value = dict(fields(message)) if tag == 1 else {}
        scalar = _scalar(value)
        if 1 in value and scalar is not None:
            yield value[1].decode("utf-8", "replace"), wall, float(parts.get(2, 0)), scalar


def _scalar(value: dict[int, Any]) -> float | None:
    """A scalar as TensorFlow 1 wrote it, or as a tensor of one tag (float_val or content)."""
    if 2 in value and len(value[2]) == 4:
        return float(struct.unpack("<f", value[2])[0])
    tensor = dict(fields(value[8])) if 8 in value and isinstance(value[8], bytes) else {}
    raw = tensor.get(5) or tensor.get(4) or b""
    if isinstance(raw, bytes) and len(raw) in (4, 8):
        return float(struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0])
    return None


# ---- W&B -----------------------------------------------------------------------------------------


def wandb_records(data: bytes) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Lines of history and of system statistics, each a mapping of key to value. A file cut short
    ends where it was cut."""
    history, stats = [], []
    for record in _leveldb_records(data):
        for tag, message in fields(record):
            if tag == 2 and isinstance(message, bytes):
                history.append(_items(message, list_number=1))
            elif tag == 7 and isinstance(message, bytes):
                stats.append(_items(message, list_number=3))
    return history, stats


def _items(message: bytes, *, list_number: int) -> dict[str, Any]:
    """Key and value of items {1 key, 2 nested_key, 16 value_json}; nested keys joined by dots."""
    found = {}
    for tag, item in fields(message):
        if tag != list_number or not isinstance(item, bytes):
            continue
        key, nested, text = "", [], b""
        for part, value in fields(item):
            if part == 1:
                key = value.decode("utf-8", "replace")
            elif part == 2:
                nested.append(value.decode("utf-8", "replace"))
            elif part == 16:
                text = value
        try:
            found[key or ".".join(nested)] = json_of(text)
        except ValueError:
            continue
    return found


def _leveldb_records(data: bytes) -> Iterator[bytes]:
    at, parts = _HEADER, b""
    while at + _HEADER <= len(data):
        room = _BLOCK - at % _BLOCK
        if room < _HEADER:
            at += room
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        piece = data[at + _HEADER : at + _HEADER + length]
        if kind == 0 and length == 0:  # padding
            at += room
            continue
        if len(piece) < length:
            return
        at += _HEADER + length
        parts = piece if kind in (1, 2) else parts + piece
        if kind in (1, 4):
            yield parts
            parts = b""


def step_intervals(points: Sequence[tuple[float, float]]) -> list[float]:
    """Seconds a step between (seconds, optimizer step) pairs. Where a step is told several times
    (an evaluation writes a line of its own), it was done at the first of them, and the next one
    began at the last."""
    done: dict[float, tuple[float, float]] = {}
    for at, step in points:
        first, last = done.get(step, (at, at))
        done[step] = min(first, at), max(last, at)
    pairs = itertools.pairwise(sorted(done.items()))
    return [(at - before) / (step - last) for (last, (_, before)), (step, (at, _)) in pairs]


def step_figures(points: Sequence[tuple[float, float]]) -> list[Measured]:
    """Step time from (seconds, optimizer step) pairs in any order; nothing where fewer than three
    steps were logged."""
    found = steady(step_intervals(points))
    if found is None:
        return []
    return figure("step_time_s", found.mean, n=found.count, spread=found.error) + figure(
        "step_time_s", found.median, statistic="median", n=found.count
    )


def _nothing(item: Item, what: Message) -> FileInputError:
    return FileInputError(at_place(item.shown, what))


# ---- Hugging Face Trainer ------------------------------------------------------------------------


def _is_trainer(item: Item) -> bool:
    return (isinstance(item.json, Mapping) and {"log_history", "global_step"} <= item.json.keys()) or (
        item.is_folder and (item.path / "trainer_state.json").is_file()
    )


def _trainer(item: Item, definitions: Definitions) -> list[Run]:
    if item.is_folder:
        return _trainer(Item(item.path / "trainer_state.json", f"{item.shown}/trainer_state.json"), definitions)
    state = item.json
    last: Mapping[str, Any] = next((line for line in reversed(state["log_history"]) if "train_runtime" in line), {})
    steps, runtime = number(state.get("global_step")), number(last.get("train_runtime"))
    rate, warnings = number(last.get("train_steps_per_second")), []
    figures = figure("step_time_s", 1.0 / rate if rate else runtime / steps if runtime and steps else None, n=int(steps or 0))
    figures += figure("samples_per_s", last.get("train_samples_per_second"))
    if last:
        warnings.append("the trainer's own rates include evaluation, saving and start-up")
    if not figures:
        raise _nothing(
            item,
            Message("measure.no_trainer_time"),
        )
    setup = _batches(state, last, definitions)
    return [
        item.run(
            "trainer-state",
            figures,
            tool="transformers",
            setup=setup,
            duration_s=runtime,
            warnings=warnings,
            complete=steps == state.get("max_steps", steps),
        )
    ]


def _batches(state: Mapping[str, Any], last: Mapping[str, Any], definitions: Definitions) -> dict[str, str]:
    """Batch of a step from samples and steps a second, and where the cards are told how often
    gradients were added up: the state tells neither."""
    micro = number(state.get("train_batch_size"))
    samples, steps = number(last.get("train_samples_per_second")), number(last.get("train_steps_per_second"))
    whole = round(samples / steps) if samples and steps else 0
    cards = number(definitions.setup.get("n_gpus")) or 0.0
    added = whole / (micro * cards) if micro and cards else 0.0
    # Three digits are logged of a rate: what is no whole number of micro-batches was not meant.
    is_whole = added >= 1.0 and abs(added - round(added)) <= max(0.02 * added, 0.05)
    return words(micro_batch=micro, global_batch=whole or None, grad_accum=round(added) if is_whole and round(added) > 1 else None)


def _is_trainer_log(item: Item) -> bool:
    first = item.json[0] if isinstance(item.json, list) and item.json else None
    return isinstance(first, Mapping) and {"current_steps", "total_steps", "elapsed_time"} <= first.keys()


def trainer_log_points(item: Item) -> list[tuple[float, float]]:
    """(seconds, optimizer step) of each line of a trainer_log.jsonl."""
    return [
        (clock_s(line["elapsed_time"]), float(line["current_steps"]))
        for line in item.json
        if "elapsed_time" in line and number(line.get("current_steps")) is not None
    ]


def _trainer_log(item: Item, _definitions: Definitions) -> list[Run]:
    points = trainer_log_points(item)
    figures = step_figures(points)
    if not figures:
        raise _nothing(item, Message("measure.few_steps"))
    last = item.json[-1]
    return [
        item.run(
            "trainer-log",
            figures,
            tool="LLaMA-Factory",
            duration_s=points[-1][0],
            complete=last.get("current_steps") == last.get("total_steps"),
        )
    ]


def clock_s(text: str) -> float:
    """Seconds of "1 day, 2:03:04" or "2:03:04"."""
    days, _, clock = text.rpartition("day")
    parts = [float(part) for part in clock.lstrip("s, ").split(":")]
    return (float(days) if days.strip() else 0.0) * 86400.0 + sum(part * 60.0**power for power, part in enumerate(reversed(parts)))


# ---- TensorBoard ---------------------------------------------------------------------------------


def event_files(item: Item) -> list[Path]:
    """TensorBoard's files of a folder, or the file itself."""
    if isinstance(item, _Files):
        return list(item.files)
    return sorted(item.path.rglob("events.out.tfevents.*")) if item.is_folder else [item.path] * ("tfevents" in item.name)


#: Folders beside each other that are parts of one run.
_PARTS_OF_RUN = frozenset(("train", "training", "eval", "evaluation", "validation", "val", "test"))


def runs_of_events(item: Item) -> list[list[Path]]:
    """TensorBoard's files by run, that which wrote last at the end: a run is a folder, or of
    several files in one those that go on where the file before ended."""
    by_run: dict[Path, list[Path]] = {}
    for path in event_files(item):
        folder = path.parent
        by_run.setdefault(folder.parent if folder.name in _PARTS_OF_RUN else folder, []).append(path)
    found = [run for paths in by_run.values() for run in _followed(paths)]
    return sorted(found, key=lambda paths: max(path.stat().st_mtime for path in paths))


def _followed(paths: Sequence[Path]) -> list[list[Path]]:
    """Files of one folder, parted where one begins again before the end of the one before it."""
    runs: list[list[Path]] = []
    reached: dict[Path, float] = {}
    for path in sorted(paths, key=lambda path: (path.parent, path.stat().st_mtime)):
        steps = [step for _, _, step, _ in scalars_of_events(path.read_bytes())]
        if not runs or (steps and min(steps) < reached.get(path.parent, -1.0) - _REPEATED * max(reached.get(path.parent, 0.0), 1.0)):
            runs.append([])
            reached.pop(path.parent, None)
        runs[-1].append(path)
        reached[path.parent] = max([reached.get(path.parent, -1.0), *steps])
    return runs


#: Of the steps done so many may be done again by a run that goes on from a checkpoint.
_REPEATED = 0.5


@dataclasses.dataclass(frozen=True)
class _Files(Item):
    """Some files of a folder."""

    files: tuple[Path, ...] = ()


def newest_run(item: Item) -> Item:
    """The run of a folder that wrote last."""
    runs = runs_of_events(item)
    return _Files(item.path, item.shown, tuple(runs[-1])) if runs else item


def tensorboard_points(item: Item) -> list[tuple[float, float]]:
    """(seconds since 1970, step) of the scalar that was written most often; needs no package."""

    points: dict[str, list[tuple[float, float]]] = {}
    for path in event_files(item):
        for tag, at, step, _ in scalars_of_events(path.read_bytes()):
            points.setdefault(tag, []).append((at, step))
    tag = max(points, key=lambda name: (len(points[name]), "loss" in name), default="")
    return points.get(tag, [])


def _tensorboard(item: Item, _definitions: Definitions) -> list[Run]:
    runs = [run for files in runs_of_events(item) for run in _tensorboard_run(_Files(item.path, item.shown, tuple(files)))]
    if not runs:
        raise _nothing(item, Message("measure.few_tensorboard_steps"))
    return runs


def _tensorboard_run(item: _Files) -> list[Run]:
    points = tensorboard_points(item)
    figures = step_figures(points)
    if not figures:
        return []
    moments = [at for at, _ in points]
    start = min(moments)
    return [item.run("tensorboard", figures, tool="TensorBoard", started=_iso(start), duration_s=max(moments) - start)]


def _iso(at: float) -> str:
    return datetime.datetime.fromtimestamp(at, tz=datetime.UTC).isoformat(timespec="seconds")


# ---- Weights & Biases, offline -------------------------------------------------------------------


def wandb_files(item: Item) -> list[Path]:
    """W&B's offline files of a folder, or the file itself."""
    return sorted(item.path.rglob("*.wandb")) if item.is_folder else [item.path] * (item.name.endswith(".wandb"))


def wandb_points(path: Path) -> tuple[list[tuple[float, float]], list[dict[str, Any]]]:
    """(seconds since 1970, step) of the history of one file, and the lines of its
    sampler of the machine."""

    history, stats = wandb_records(path.read_bytes())
    points = [
        (float(line["_timestamp"]), float(line["_step"]))
        for line in history
        if number(line.get("_timestamp")) is not None and number(line.get("_step")) is not None
    ]
    return points, stats


def _wandb(item: Item, _definitions: Definitions) -> list[Run]:
    runs = []
    for path in wandb_files(item):
        points, stats = wandb_points(path)
        figures = step_figures(points) + system_figures(stats)
        if figures:
            started = _iso(points[0][0]) if points else ""
            runs.append(
                Item(path, str(path)).run(
                    "wandb", figures, tool="wandb", started=started, duration_s=points[-1][0] - points[0][0] if points else None
                )
            )
    if not runs:
        raise _nothing(item, Message("measure.no_wandb_steps"))
    return runs


def system_figures(lines: Sequence[Mapping[str, Any]]) -> list[Measured]:
    """Figures of the trackers' own samplers: W&B's gpu.N.* and MLflow's system/*. Driver memory of
    a framework that takes it all at once says nothing."""
    busy = [
        value / 100
        for line in lines
        for name, value in _numbers(line)
        if name.endswith((".gpu", "utilization_percentage")) and "gpu" in name
    ]
    memory = [
        value for line in lines for name, value in _numbers(line) if name.startswith("gpu.") and name.endswith(".memoryAllocatedBytes")
    ]
    memory += [
        value * 2**20
        for line in lines
        for name, value in _numbers(line)
        if name.startswith("system/gpu_") and name.endswith("memory_usage_megabytes")
    ]
    power = [value for line in lines for name, value in _numbers(line) if name.endswith((".powerWatts", "power_usage_watts"))]
    host = [
        value * 2**20
        for line in lines
        for name, value in _numbers(line)
        if name in ("proc.memory.rssMB", "system/system_memory_usage_megabytes")
    ]
    return (
        figure("gpu_busy_share", mean_of(busy), n=len(busy))
        + figure("peak_mem_gib_per_gpu", max(memory) / 2**30 if memory else None, statistic="max", n=len(memory), counter="nvidia-smi")
        + figure("power_w", mean_of(power), n=len(power))
        + figure("host_memory_peak_bytes", max(host, default=None), statistic="max", n=len(host))
    )


def _numbers(line: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in line.items():
        found = number(value)
        if found is not None:
            yield name, found


def mean_of(values: Sequence[float]) -> float | None:
    """The mean; None of nothing."""
    return sum(values) / len(values) if values else None


# ---- MLflow --------------------------------------------------------------------------------------


def mlflow_store(item: Item) -> Path | None:
    """The file store (a folder with meta.yaml and metrics/) or the database of an MLflow."""
    if not item.is_folder:
        return item.path if item.content[:15] == b"SQLite format 3" and _has_tables(item.path, {"metrics", "runs", "experiments"}) else None
    if any(item.path.glob("**/metrics")) and any(item.path.glob("**/meta.yaml")):
        return item.path
    database = item.path / "mlflow.db"
    return database if database.is_file() else None


def _has_tables(path: Path, wanted: set[str]) -> bool:
    return wanted <= {row[0] for row in _rows(path, "SELECT name FROM sqlite_master WHERE type = 'table'")}


def _rows(path: Path, question: str, values: Sequence[str] = ()) -> list[tuple[Any, ...]]:
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise FileInputError(Message("problems.cannot_read", name=path, error=cause(error))) from None
    try:
        return connection.execute(question, values).fetchall()
    except sqlite3.Error as error:
        raise FileInputError(Message("problems.cannot_read", name=path, error=cause(error))) from None
    finally:
        connection.close()


def mlflow_runs(item: Item) -> list[tuple[str, dict[str, _Points], dict[str, str]]]:
    """Name, points [s since 1970, step, value] by metric, and parameters of
    every run of a store."""
    store = mlflow_store(item)
    assert store is not None
    return list(_mlflow_database(store) if store.is_file() else _mlflow_files(store))


def _mlflow(item: Item, _definitions: Definitions) -> list[Run]:
    found = mlflow_runs(item)
    runs = []
    for name, series, params in found:
        longest = max((points for key, points in series.items() if not key.startswith("system/")), key=len, default=[])
        system = [{key: value} for key, points in series.items() if key.startswith("system/") for _, _, value in points]
        figures = step_figures([(at, step) for at, step, _ in longest]) + system_figures(system)
        if figures:
            setup = words(
                model=params.get("model_name_or_path") or params.get("model"), micro_batch=params.get("per_device_train_batch_size")
            )
            started = _iso(min(at for points in series.values() for at, _, _ in points))
            runs.append(Item(item.path, f"{item.shown}#{name}").run("mlflow", figures, tool="MLflow", setup=setup, started=started))
    if not runs:
        raise _nothing(item, Message("measure.no_mlflow_steps", count=len(found)))
    return runs


_Points = list[tuple[float, float, float]]


def _mlflow_database(path: Path) -> Iterator[tuple[str, dict[str, _Points], dict[str, str]]]:
    for (run,) in _rows(path, "SELECT run_uuid FROM runs WHERE lifecycle_stage = 'active' ORDER BY start_time"):
        series: dict[str, _Points] = {}
        for key, value, at, step in _rows(
            path, "SELECT key, value, timestamp, step FROM metrics WHERE run_uuid = ? AND is_nan = 0 ORDER BY timestamp", (run,)
        ):
            series.setdefault(key, []).append((at / 1000, float(step), float(value)))
        yield run, series, dict(_rows(path, "SELECT key, value FROM params WHERE run_uuid = ?", (run,)))


def _mlflow_files(folder: Path) -> Iterator[tuple[str, dict[str, _Points], dict[str, str]]]:
    for metrics in sorted(folder.glob("**/metrics")):
        series = {}
        for path in sorted(path for path in metrics.rglob("*") if path.is_file()):
            lines = [line.split() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
            series[path.relative_to(metrics).as_posix()] = [
                (float(line[0]) / 1000, float(line[2]), float(line[1])) for line in lines if len(line) >= 3 and number(line[1]) is not None
            ]
        params = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in sorted((metrics.parent / "params").glob("*"))}
        if any(series.values()):
            yield metrics.parent.name, series, params


READERS = (
    Reader("trainer-state", _is_trainer, _trainer),
    Reader("trainer-log", _is_trainer_log, _trainer_log, special=2),
    Reader("tensorboard", lambda item: bool(event_files(item)), _tensorboard),
    Reader("wandb", lambda item: bool(wandb_files(item)), _wandb, special=2),
    Reader("mlflow", lambda item: mlflow_store(item) is not None, _mlflow),
)
