"""What training programs print and leave: log lines, out-of-memory messages, PyTorch's memory
snapshots, and a table of one's own."""

from __future__ import annotations

import ast
import io
import pickle
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from rightfit import facts
from rightfit.errors import FileInputError, InputError
from rightfit.measure.readers.item import Definitions, Item, Reader, figure, number, words
from rightfit.measure.record import Measured, Run, metrics
from rightfit.measure.signals import failure_of, steady
from rightfit.messages import Message
from rightfit.units import GIB

# ---- log lines -----------------------------------------------------------------------------------

_MEGATRON = re.compile(r"elapsed time per iteration \(ms\):\s*([\d.]+)")
_TITAN = re.compile(r"\bstep:\s*(\d+).{0,400}?\bmemory:\s*([\d.]+)\s*GiB.{0,400}?\btps:\s*([\d,]+)")
_TQDM = re.compile(r"\b\d+/\d+ \[[\d:]+<[\d:?]+,\s*([\d.]+)\s*(it/s|s/it)")
_DEEPSPEED = re.compile(r"SamplesPerSec=([\d.]+)")
_DICT = re.compile(r"\{'(?:loss|train_runtime)'[^{}\n]{0,4000}\}")
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def log_figures(text: str) -> tuple[list[Measured], dict[str, str], str]:
    """Figures of the lines of a log, the set-up they tell, and whose lines they are; nothing
    where none is known."""
    clean = _ANSI.sub("", text.replace("\r", "\n"))
    for name, read in _LOGS.items():
        figures, setup = read(clean)
        if figures:
            return figures, setup, name
    return [], {}, ""


def _megatron(text: str) -> tuple[list[Measured], dict[str, str]]:
    batch = re.search(r"global batch size:\s*(\d+)", text)
    return _from_intervals([float(value) / 1000 for value in _MEGATRON.findall(text)]), words(global_batch=batch[1] if batch else "")


def _titan(text: str) -> tuple[list[Measured], dict[str, str]]:
    lines = _TITAN.findall(text)
    rates = [float(rate.replace(",", "")) for _, _, rate in lines]
    found = steady([1 / rate for rate in rates if rate > 0])
    if found is None:
        return [], {}
    peak = max(float(memory) for _, memory, _ in lines)
    return figure("tokens_per_s_per_gpu", 1 / found.median, statistic="median", n=found.count) + figure(
        "peak_mem_gib_per_gpu", peak, statistic="max", counter="reserved", n=len(lines)
    ), {}


def _deepspeed(text: str) -> tuple[list[Measured], dict[str, str]]:
    found = steady([1 / value for value in map(float, _DEEPSPEED.findall(text)) if value > 0])
    return (figure("samples_per_s", 1 / found.median, statistic="median", n=found.count) if found else []), {}


def _trainer(text: str) -> tuple[list[Measured], dict[str, str]]:
    last: Mapping[str, Any] = {}
    for match in _DICT.findall(text):
        try:
            line = ast.literal_eval(match)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        last = line if "train_runtime" in line else last
    rate = number(last.get("train_steps_per_second"))
    return figure("step_time_s", 1 / rate if rate else None) + figure("samples_per_s", last.get("train_samples_per_second")), {}


def _tqdm(text: str) -> tuple[list[Measured], dict[str, str]]:
    found = steady(_bar_intervals(text))
    definition = "the bar's moving average of one turn: an optimizer step in most trainers, a micro-batch in some"
    return (figure("step_time_s", found.median, statistic="median", n=found.count, definition=definition) if found else []), {}


def log_intervals(text: str) -> list[float]:
    """Seconds a step of the lines of a log, oldest first: Megatron's own, or a progress
    bar's moving average."""
    megatron = [float(value) / 1000 for value in _MEGATRON.findall(text)]
    return megatron or _bar_intervals(text)


def _bar_intervals(text: str) -> list[float]:
    return [1 / float(value) if unit == "it/s" else float(value) for value, unit in _TQDM.findall(text) if float(value) > 0]


def _from_intervals(intervals: list[float]) -> list[Measured]:
    found = steady(intervals)
    return figure("step_time_s", found.median, statistic="median", n=found.count, spread=found.error) if found else []


_LOGS: Mapping[str, Callable[[str], tuple[list[Measured], dict[str, str]]]] = {
    "Megatron": _megatron,
    "torchtitan": _titan,
    "DeepSpeed": _deepspeed,
    "transformers": _trainer,
    "tqdm": _tqdm,
}


def _is_log(item: Item) -> bool:
    return not item.is_folder and (bool(log_figures(item.text)[0]) or failure_of(item.text) is not None)


def _log(item: Item, _definitions: Definitions) -> list[Run]:
    figures, setup, tool = log_figures(item.text)
    failure = failure_of(item.text)
    if failure is not None:
        figures = [*figures, *failure.figures()]
    return [
        item.run(
            "log",
            figures,
            tool=tool or "PyTorch",
            setup=setup,
            oom=failure is not None,
            complete=failure is None,
            warnings=[failure.verdict] if failure else [],
        )
    ]


# ---- PyTorch's memory snapshot -------------------------------------------------------------------


class _PlainUnpickler(pickle.Unpickler):
    """Reads containers, numbers and text; anything else in the file would run
    code and is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")


def _snapshot_of(item: Item) -> Mapping[str, Any] | None:
    if item.is_folder or item.name.rpartition(".")[2] not in ("pickle", "pkl"):
        return None
    try:
        found = _PlainUnpickler(io.BytesIO(item.content)).load()
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, AttributeError, MemoryError):
        return None
    return found if isinstance(found, Mapping) and "segments" in found else None


def _snapshot(item: Item, _definitions: Definitions) -> list[Run]:
    """Reserved and allocated at the peak of the recorded history; at the moment of the snapshot
    where no history was recorded."""
    found = _snapshot_of(item)
    if found is None:
        raise FileInputError(Message("measure.not_a_memory_snapshot", file=item.shown))
    segments = found["segments"]
    reserved, allocated = (sum(number(part.get(name)) or 0.0 for part in segments) for name in ("total_size", "allocated_size"))
    peak = max([allocated, *(_peak(trace, allocated) for trace in found.get("device_traces") or [])])
    figures = figure("peak_mem_gib_per_gpu", peak / GIB, statistic="max", counter="allocated") + figure(
        "peak_mem_gib_per_gpu", max(reserved, peak) / GIB, statistic="max", counter="reserved"
    )
    warnings = (
        [] if any(found.get("device_traces") or []) else ["no history was recorded, so this is one moment: a lower bound of the peak"]
    )
    figures = [part.model_copy(update={"bound": ">="}) for part in figures] if warnings else figures
    return [item.run("torch-memory", figures, tool="PyTorch", warnings=warnings)]


def _peak(trace: list[Mapping[str, Any]], now: float) -> float:
    """The largest allocated size over the history, walked backwards from what is allocated now."""
    level = peak = now
    for event in reversed(trace):
        size = number(event.get("size")) or 0.0
        level += size if event.get("action") == "free_completed" else -size if event.get("action") == "alloc" else 0.0
        peak = max(peak, level)
    return peak


# ---- a table of one's own ------------------------------------------------------------------------


@cache
def _spellings() -> Mapping[str, tuple[str, str, float]]:
    """Columns as people head them -> kind, column and factor: facts/data/run_columns.csv, and the
    names themselves."""
    known = {name: ("figure", name, 1.0) for name in metrics()}
    for row in facts.table("run_columns"):
        known.update({word: (row["kind"], row["column"], float(row["factor"] or 1.0)) for word in row["spellings"].split()})
    return known


def _plain(header: str) -> str:
    """A header without its case, brackets and signs: "Tokens/s" is tokens_s."""
    return re.sub(r"[^a-z0-9]+", "_", header.casefold()).strip("_")


def _is_own(item: Item) -> bool:
    return bool(item.table) and ({"metric", "measured"} <= item.table[0].keys() or bool(_own_figures(item.table[0])))


def is_table_of_runs(item: Item) -> bool:
    """Whether a table tells set-ups of runs, whatever was measured of them."""
    return bool(item.table) and any(_spellings().get(_plain(header), ("",))[0] == "setup" for header in item.table[0])


def _own_figures(row: Mapping[str, str]) -> dict[str, tuple[str, float]]:
    """Header -> metric and factor, of the columns that are figures."""
    known = {header: _spellings()[_plain(header)] for header in row if _plain(header) in _spellings()}
    is_service = bool(known) and any(_plain(header) in _OF_SERVICES for header in row)
    found = {header: (column, factor) for header, (kind, column, factor) in known.items() if kind == "figure"}
    return {header: (_METRIC.get(column, (column, column))[is_service], factor) for header, (column, factor) in found.items()}


#: Columns that only services have, and what a column of either kind is of training and of services.
_OF_SERVICES = frozenset(("engine", "input_tokens", "output_tokens", "ttft_ms", "tpot_ms", "req_per_s", "concurrency"))
_METRIC = {"tokens_per_s": ("tokens_per_s_per_gpu", "output_tok_per_s_total"), "peak_memory": ("peak_mem_gib_per_gpu", "peak_mem_gib")}


def _own(item: Item, definitions: Definitions) -> list[Run]:
    return [_own_run(item, at, row, definitions) for at, row in enumerate(item.table, start=2) if any(row.values())]


def _own_run(item: Item, line: int, row: Mapping[str, str], definitions: Definitions) -> Run:
    where = f"{item.shown} line {line}"
    heads = {} if "metric" in row else _own_figures(row)
    values = {"measured": (row["metric"], 1.0)} if "metric" in row else heads
    setup = {
        _setup_name(name): text
        for name, text in row.items()
        if name not in (*values, "metric", "measured", "id", "source", "notes") and text
    }
    figures: list[Measured] = []
    for header, (name, factor) in values.items():
        text = row[header]
        if not text:
            continue
        value = number(text.replace(",", ""))
        is_share = name in metrics() and metrics()[name].sense == "state"  # of which nothing is an amount
        if name not in metrics() or value is None or value < 0 or (value == 0 and not is_share):
            raise FileInputError(Message("measure.not_a_figure", place=where, metric=header if heads else name, value=text))
        figures += _own_figure(where, name, value * factor / _cards_of(header, name, {**setup, **definitions.setup}), row, definitions)
    return Item(item.path, f"{item.shown}#{line}").run("own-table", figures, setup=setup)


def _setup_name(header: str) -> str:
    """The column of a set-up as `rightfit predict` calls it; as it stands where it is none."""
    kind, column, _ = _spellings().get(_plain(header), ("", "", 1.0))
    return column if kind == "setup" else header


def _cards_of(header: str, metric: str, setup: Mapping[str, str]) -> float:
    """Cards among which a rate of the whole job is told by its column."""
    of_job = metric == "tokens_per_s_per_gpu" and _spellings().get(_plain(header), ("", "", 1.0))[1] == "tokens_per_s"
    return (number(setup.get("n_gpus")) or 1.0) if of_job else 1.0


#: What memory is taken to be read from where nobody says.
ASSUMED_COUNTER = "nvidia-smi"


def is_counter_assumed(run: Run) -> bool:
    """Whether a table of one's own told memory and not what counted it."""
    is_told = run.source.kind != "own-table" or run.setup.keys() & {"mem_kind", "counter"}
    return not is_told and any(item.metric.startswith("peak_mem") for item in run.measured)


def _own_figure(where: str, name: str, value: float, row: Mapping[str, str], definitions: Definitions) -> list[Measured]:
    if name.startswith("peak_mem"):
        counter = row.get("mem_kind") or row.get("counter") or definitions.counter
        return figure(name, value, statistic="max", counter=counter or ASSUMED_COUNTER)
    if name == "tpot_ms":
        return figure(name, _without_first(where, value, row, definitions))
    return figure(name, value)


def _without_first(where: str, value: float, row: Mapping[str, str], definitions: Definitions) -> float:
    """Time per token without the first; end to end over all tokens is turned into it where first
    token and tokens are known."""
    if definitions.counts_first_token is None:
        raise InputError(
            Message("measure.counts_first_token", place=where),
            field="first_token",
        )
    if not definitions.counts_first_token:
        return value
    first, tokens = number(row.get("ttft_ms")), number(row.get("output_tokens"))
    if first is None or not tokens or tokens < 2 or value * tokens <= first:
        raise InputError(Message("measure.take_first_token_out", place=where), field="first_token")
    return (value * tokens - first) / (tokens - 1)


READERS = (
    Reader("own-table", _is_own, _own, special=0),
    Reader("torch-memory", lambda item: _snapshot_of(item) is not None, _snapshot),
    Reader("log", _is_log, _log, special=-1),
)
