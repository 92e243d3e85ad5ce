"""What machines log: nvidia-smi's CSV and dmon, sacct and seff of Slurm, exports of
the clouds' monitors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.errors import FileInputError
from rightfit.measure.readers.item import Definitions, Item, Reader, figure, number, words
from rightfit.measure.readers.trackers import mean_of
from rightfit.measure.record import Measured, Run
from rightfit.measure.signals import card_named
from rightfit.messages import Message
from rightfit.units import GIB

_UNIT = re.compile(r"^(.*?)\s*\[(.+)\]$")
_VALUE = re.compile(r"^\s*([-+]?[\d.]+)")


def leading(text: str | None) -> float | None:
    """The number with which a cell begins ("31 %"); None for "[N/A]", "[Not Supported]", "-"."""
    match = _VALUE.match(text or "")
    return number(match[1]) if match else None


def device_figures(busy: Sequence[float], memory_mib: Sequence[float], power: Sequence[float]) -> list[Measured]:
    """Figures of a sampler of cards: percent, MiB and W."""
    return (
        figure("gpu_busy_share", mean_of([value / 100 for value in busy]), n=len(busy))
        + figure(
            "peak_mem_gib_per_gpu", max(memory_mib) / 1024 if memory_mib else None, statistic="max", n=len(memory_mib), counter="nvidia-smi"
        )
        + figure("power_w", mean_of(power), n=len(power))
    )


# ---- nvidia-smi ----------------------------------------------------------------------------------


def _columns(item: Item) -> dict[str, str]:
    """Columns of nvidia-smi without their units -> as they stand in the file."""
    return {(_UNIT.match(name) or [name, name])[1]: name for name in (item.table[0] if item.table else {})}


def _is_smi(item: Item) -> bool:
    return bool({"utilization.gpu", "memory.used"} & _columns(item).keys())


def _smi(item: Item, _definitions: Definitions) -> list[Run]:
    columns = _columns(item)

    def values(name: str) -> list[float]:
        cells = [leading(row.get(columns[name])) for row in item.table] if name in columns else []
        return [value for value in cells if value is not None]

    names = [row[columns["name"]] for row in item.table if "name" in columns and row.get(columns["name"])]
    cards = {row[columns["index"]] for row in item.table} if "index" in columns else set()
    figures = device_figures(values("utilization.gpu"), values("memory.used"), values("power.draw"))
    if not figures:
        raise FileInputError(Message("measure.every_value_missing", file=item.shown))
    missing = [name for name in ("utilization.gpu", "memory.used") if name in columns and not values(name)]
    warnings = [f"{', '.join(missing)}: not told by this card (MIG parts have none)"] if missing else []
    return [
        item.run(
            "nvidia-smi",
            figures,
            setup=words(gpu=card_named(names[0]) if names else "", n_gpus=len(cards) or ""),
            warnings=[*warnings, _ALLOCATORS],
        )
    ]


_ALLOCATORS = "memory as the driver sees it: TensorFlow, JAX and vLLM take it all at once, so with them it says nothing of need"


# ---- nvidia-smi dmon -----------------------------------------------------------------------------


#: Lines of a terminal (the prompt, the command) that stand before what a program printed.
_SHELL_LINES = 20


def _is_dmon(item: Item) -> bool:
    lines = (line.lower().split() for line in item.head.splitlines()[:_SHELL_LINES] if line.lstrip().startswith("#"))
    return any("gpu" in cells and {"sm", "pwr", "fb"} & set(cells) for cells in lines)


def _dmon(item: Item, _definitions: Definitions) -> list[Run]:
    header: list[str] = []
    columns: dict[str, list[float]] = {}
    cards = set()
    for line in item.text.splitlines():
        cells = line.split()
        if line.lstrip().startswith("#"):
            header = [cell.lower() for cell in line.lstrip("# ").split()] if "gpu" in line.lower() else header
        elif header and len(cells) == len(header):
            found = dict(zip(header, cells, strict=True))
            cards.add(found["gpu"])
            for name, text in found.items():
                if number(text) is not None:
                    columns.setdefault(name, []).append(float(text))
    figures = device_figures(columns.get("sm", []), columns.get("fb", []), columns.get("pwr", []))
    if not figures:
        raise FileInputError(Message("measure.no_dmon_columns", file=item.shown))
    return [item.run("nvidia-smi-dmon", figures, tool="nvidia-smi", setup=words(n_gpus=len(cards)), warnings=[_ALLOCATORS])]


# ---- Slurm ---------------------------------------------------------------------------------------

_SIZES = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "": 1.0}
_SIZE = re.compile(r"^([\d.]+)\s*([KMGT]?)(?:i?B)?[nc]?$", re.IGNORECASE)


def _bytes(text: str) -> float | None:
    match = _SIZE.match(text.strip())
    return float(match[1]) * _SIZES[match[2].upper()] if match else None


def _seconds(text: str) -> float | None:
    """Of Slurm's [D-]HH:MM:SS[.mmm]."""
    days, _, clock = text.rpartition("-")
    parts = [number(part) for part in clock.split(":")]
    if not clock or None in parts:
        return None
    return (number(days) or 0.0) * 86400 + sum((part or 0.0) * 60.0**power for power, part in enumerate(reversed(parts)))


def _sacct_rows(item: Item) -> list[dict[str, str]]:
    """Rows of sacct: with marks between the columns (-P), or under lines as long as each column is
    wide, as it prints without."""
    if item.table and {"JobID", "Elapsed"} <= item.table[0].keys():
        return item.table
    lines = item.text.splitlines()
    rule = next((at for at, line in enumerate(lines[:_SHELL_LINES]) if at and re.fullmatch(r"-+( -+)+\s*", line)), 0)
    spans = [match.span() for match in re.finditer(r"-+", lines[rule])] if rule else []
    header, *rows = (
        ([line[start:end].strip() for start, end in spans] for line in [lines[rule - 1], *lines[rule + 1 :]]) if spans else ([],)
    )
    return [dict(zip(header, row, strict=True)) for row in rows if any(row)] if {"JobID", "Elapsed"} <= set(header) else []


def _is_sacct(item: Item) -> bool:
    return bool(_sacct_rows(item))


def _sacct(item: Item, _definitions: Definitions) -> list[Run]:
    jobs: dict[str, list[dict[str, str]]] = {}
    for row in _sacct_rows(item):
        jobs.setdefault(row.get("JobID", "").split(".")[0], []).append(row)
    return [_slurm_job(item, job, rows) for job, rows in jobs.items() if job]


def _slurm_job(item: Item, job: str, rows: Sequence[Mapping[str, str]]) -> Run:
    """The steps of a job: the largest memory, the usage of the card where it is sane."""
    head = rows[0]
    usage = [_tres(row.get(name, "")) for row in rows for name in ("TRESUsageInMax", "TRESUsageInAve")]
    memory = [value for part in usage if (value := _bytes(part.get("gres/gpumem", ""))) and value < 1024 * GIB]
    busy = [value for part in usage if (value := number(part.get("gres/gpuutil"))) is not None and value <= 100]
    host = [value for row in rows if (value := _bytes(row.get("MaxRSS", "")))]
    elapsed = _seconds(head.get("Elapsed", ""))
    cores, used = number(_tres(head.get("AllocTRES", "")).get("cpu") or head.get("AllocCPUS")), _seconds(head.get("TotalCPU", ""))
    state = head.get("State", "")
    figures = figure("host_memory_peak_bytes", max(host, default=None), statistic="max") + figure("duration_s", elapsed, statistic="total")
    figures += figure("peak_mem_gib_per_gpu", max(memory) / GIB if memory else None, statistic="max", counter="nvidia-smi")
    figures += figure("gpu_busy_share", max(busy) / 100 if busy else None)
    figures += figure("cpu_share", used / elapsed / cores if used is not None and elapsed and cores else None)
    warnings = (
        [] if memory or "gres/gpu" not in head.get("AllocTRES", "") else ["Slurm tells no memory of the card (MIG, AMD, or an old CUDA)"]
    )
    is_oom = any("OUT_OF_ME" in row.get("State", "") for row in rows)
    setup = words(n_gpus=_tres(head.get("AllocTRES", "")).get("gres/gpu"), nodes=head.get("NNodes"))
    where = Item(item.path, f"{item.shown}#{job}")
    return where.run(
        "sacct",
        figures,
        tool="Slurm",
        duration_s=elapsed,
        setup=setup,
        oom=is_oom,
        complete=state.startswith("COMPLETED"),
        warnings=warnings,
    )


def _tres(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (pair.partition("=") for pair in text.split(",")) if value}


_SEFF = {"Job ID", "Memory Utilized", "CPU Efficiency"}


def _is_seff(item: Item) -> bool:
    return len(_SEFF & {line.split(":", 1)[0].strip() for line in item.head.splitlines()}) >= 2


def _seff(item: Item, _definitions: Definitions) -> list[Run]:
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in item.text.splitlines()) if value}
    state = found.get("State", "")
    elapsed = _seconds(found.get("Job Wall-clock time", ""))
    percent = leading(found.get("CPU Efficiency"))
    figures = figure("host_memory_peak_bytes", _bytes(found.get("Memory Utilized", "").replace(" ", "")), statistic="max")
    figures += figure("duration_s", elapsed, statistic="total") + figure("cpu_share", percent / 100 if percent is not None else None)
    return [item.run("seff", figures, tool="Slurm", duration_s=elapsed, oom="OUT_OF_ME" in state, complete=state.startswith("COMPLETED"))]


# ---- monitors of clouds --------------------------------------------------------------------------

_CLOUDS = {
    "nvidia_smi_utilization_gpu": ("gpu_busy_share", 0.01),
    "nvidia_smi_memory_used": ("peak_mem_gib_per_gpu", 1e6 / GIB),
    "nvidia_smi_power_draw": ("power_w", 1.0),
    "cpuutilization": ("cpu_share", 0.01),
    "agent.googleapis.com/gpu/utilization": ("gpu_busy_share", 0.01),
    "agent.googleapis.com/gpu/memory/bytes_used": ("peak_mem_gib_per_gpu", 1 / GIB),
    "percentage cpu": ("cpu_share", 0.01),
}


def _cloud_series(item: Item) -> dict[str, list[float]]:
    """Metric name of a cloud -> values, of CloudWatch's get-metric-data and get-metric-statistics,
    of Google's time series, or of a CSV of a console."""
    found: dict[str, list[float]] = {}
    data = item.json if isinstance(item.json, Mapping) else {}
    for part in data.get("MetricDataResults") or []:
        found.setdefault(str(part.get("Label")), []).extend(map(float, part.get("Values", [])))
    if "Datapoints" in data:
        found[str(data.get("Label"))] = [float(point.get("Maximum", point.get("Average", 0))) for point in data["Datapoints"]]
    for part in data.get("timeSeries") or (item.json if isinstance(item.json, list) else []):
        if isinstance(part, Mapping) and "points" in part:
            name = str((part.get("metric") or {}).get("type"))
            found.setdefault(name, []).extend(value for point in part["points"] if (value := _google(point)) is not None)
    for row in item.table if not data else []:
        for name, text in row.items():
            if (value := number(text)) is not None and _cloud_name(name):
                found.setdefault(name, []).append(value)
    return {name: values for name, values in found.items() if _cloud_name(name) and values}


def _google(point: Mapping[str, Any]) -> float | None:
    value = point.get("value") or {}
    return number(value.get("doubleValue", value.get("int64Value")))


def _cloud_name(name: str) -> str:
    return next((known for known in _CLOUDS if known in name.casefold()), "")


def _cloud(item: Item, _definitions: Definitions) -> list[Run]:
    figures: list[Measured] = []
    for name, values in _cloud_series(item).items():
        metric, scale = _CLOUDS[_cloud_name(name)]
        is_peak = metric.startswith("peak_mem")
        value = max(values) if is_peak else mean_of(values)
        figures += figure(
            metric,
            value,
            scale=scale,
            statistic="max" if is_peak else "mean",
            n=len(values),
            **({"counter": "nvidia-smi"} if is_peak else {}),
        )
    return [item.run("cloud-monitor", figures, warnings=["averages over minutes hide short peaks and stalls: memory may have been higher"])]


READERS = (
    Reader("nvidia-smi", _is_smi, _smi),
    Reader("nvidia-smi-dmon", _is_dmon, _dmon, special=2),
    Reader("sacct", _is_sacct, _sacct),
    Reader("seff", _is_seff, _seff, special=2),
    Reader("cloud-monitor", lambda item: not item.is_folder and bool(_cloud_series(item)), _cloud),
)
