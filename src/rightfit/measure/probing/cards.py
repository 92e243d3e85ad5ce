"""What accelerators show of themselves: NVIDIA's (NVML, with its profiling counters on Hopper and
newer), AMD's (amdsmi), and DCGM where it runs.

Each question is asked on its own: what a driver, a card or a MIG part does not answer is unknown,
never 0. Process ids are not used: in a container they are not those that the driver knows, so the
command's cards are those of CUDA_VISIBLE_DEVICES and its memory is what was added since the start.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rightfit.records import dataclass
from rightfit.units import MIB

#: Reasons for a lowered clock that heat or the supply of power cause (nvml.h: nvmlClocksEventReason
#: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown, HwPowerBrake).
_THROTTLES = 0x8 | 0x20 | 0x40 | 0x80
#: A card at full load is at its power limit (SwPowerCap) as a matter of course: only a limit under
#: the one that it came with takes speed from it.
_POWER_CAP, _LOWERED = 0x4, 0.99
#: Metrics of NVML's GPM (nvml.h: nvmlGpmMetricId_t), in percent.
_GPM = {"sm_active_share": 2, "tensor_active_share": 5, "dram_active_share": 10}
#: Fields of DCGM (dcgm_fields.h), shares; in the order in which they are asked for.
_DCGM = {1002: "sm_active_share", 1004: "tensor_active_share", 1005: "dram_active_share"}
_DCGM_LINE = re.compile(r"^GPU[ -](\d+)\s+(.*)$")
_DCGM_TIMEOUT_S, _DCGM_EVERY_S = 5, 10


@dataclass(frozen=True, slots=True)
class Reading:
    """One card at one moment: `shares` by metric of a run record, in [0, 1];
    `used_bytes` of all processes."""

    key: str
    name: str
    used_bytes: float | None
    power_w: float | None
    shares: Mapping[str, float]
    is_part: bool = False


class Cards(Protocol):
    """The cards of one vendor that the command may use."""

    def read(self) -> list[Reading]:
        """Every card now."""
        ...


def optional(name: str) -> Any:
    """A library that may not be installed or, without its driver, cannot be imported (amdsmi raises
    KeyError); None without it."""
    try:
        with contextlib.redirect_stdout(None):
            return importlib.import_module(name)
    except Exception:
        return None


def found_cards(library: Callable[[str], Any] = optional) -> list[Cards]:
    """What is there: NVIDIA's cards, AMD's cards; none without a driver."""
    found: list[Cards] = []
    nvml, amd = _started(library("pynvml"), "nvmlInit"), _started(library("amdsmi"), "amdsmi_init")
    if nvml is not None:
        found.append(Nvidia(nvml))
    if amd is not None:
        found.append(Amd(amd))
    return found


def _started(library: Any, name: str) -> Any:
    """The library where its driver answers; None otherwise."""
    if library is None:
        return None
    try:
        getattr(library, name)()
    except Exception:  # no driver, no library, no right: each a kind of its own
        return None
    return library


def ask(library: Any, name: str, *arguments: Any) -> Any:
    """One question; None where this driver or card does not answer it."""
    try:
        return getattr(library, name)(*arguments)
    except Exception:
        return None


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name or "")


# ---- NVIDIA --------------------------------------------------------------------------------------


class Nvidia:
    """Cards and MIG parts by NVML."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._samples: dict[str, Any] = {}
        self._dcgm = Dcgm()

    def read(self) -> list[Reading]:
        """Every visible card or part now."""
        handles = visible(self._nvml)
        profiled = {key: self._profiled(key, handle) for key, handle, is_part in handles if not is_part}
        if handles and not any(profiled.values()):
            profiled = self._dcgm.read()
        return [self._reading(key, handle, is_part, profiled.get(key, {})) for key, handle, is_part in handles]

    def _reading(self, key: str, handle: Any, is_part: bool, shares: Mapping[str, float]) -> Reading:
        used, watts = ask(self._nvml, "nvmlDeviceGetMemoryInfo", handle), ask(self._nvml, "nvmlDeviceGetPowerUsage", handle)
        rates = None if is_part else ask(self._nvml, "nvmlDeviceGetUtilizationRates", handle)  # NVML: undefined on MIG
        reasons = ask(self._nvml, "nvmlDeviceGetCurrentClocksEventReasons", handle)
        known = dict(shares)
        if rates is not None:
            known["gpu_busy_share"] = rates.gpu / 100.0
        if reasons is not None:
            known["throttled_share"] = float(bool(reasons & _THROTTLES) or (bool(reasons & _POWER_CAP) and self._is_limited(handle)))
        name = _text(ask(self._nvml, "nvmlDeviceGetName", handle))
        return Reading(key, name, None if used is None else float(used.used), None if watts is None else watts / 1000.0, known, is_part)

    def _is_limited(self, handle: Any) -> bool:
        """Whether the card was given less power than it came with; unknown counts as not."""
        limit, usual = (
            ask(self._nvml, name, handle) for name in ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementDefaultLimit")
        )
        return bool(limit and usual and limit < _LOWERED * usual)

    def _profiled(self, key: str, handle: Any) -> dict[str, float]:
        """Shares between this sample of GPM and the one before; empty where the card has
        none (before Hopper)."""
        support = ask(self._nvml, "nvmlGpmQueryDeviceSupport", handle)
        if support is None or not support.isSupportedDevice:
            return {}
        now = ask(self._nvml, "nvmlGpmSampleAlloc")
        if now is None or not _done(self._nvml, "nvmlGpmSampleGet", handle, now):
            return {}
        before, self._samples[key] = self._samples.get(key), now
        found = self._between(before, now) if before is not None else {}
        if before is not None:
            ask(self._nvml, "nvmlGpmSampleFree", before)
        return found

    def _between(self, before: Any, now: Any) -> dict[str, float]:
        with contextlib.suppress(Exception):
            asked = self._nvml.c_nvmlGpmMetricsGet_t()
            asked.version, asked.numMetrics = self._nvml.NVML_GPM_METRICS_GET_VERSION, len(_GPM)
            asked.sample1, asked.sample2 = before, now
            for at, number in enumerate(_GPM.values()):
                asked.metrics[at].metricId = number
            self._nvml.nvmlGpmMetricsGet(asked)
            values = {name: asked.metrics[at] for at, name in enumerate(_GPM)}
            return {name: min(one.value / 100.0, 1.0) for name, one in values.items() if one.nvmlReturn == 0 and one.value >= 0}
        return {}


def _done(library: Any, name: str, *arguments: Any) -> bool:
    try:
        getattr(library, name)(*arguments)
    except Exception:
        return False
    return True


def visible(nvml: Any) -> list[tuple[str, Any, bool]]:
    """(key, handle, whether it is a MIG part) of the cards that the command may use: all, or those
    of CUDA_VISIBLE_DEVICES by number, GPU or MIG id."""
    count = int(ask(nvml, "nvmlDeviceGetCount") or 0)
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    words = [str(index) for index in range(count)] if given is None else [part.strip() for part in given.split(",") if part.strip()]
    found = []
    for word in words:
        by_id = word.startswith(("GPU-", "MIG-"))
        if not by_id and not (word.isdigit() and int(word) < count):
            continue
        handle = ask(nvml, "nvmlDeviceGetHandleByUUID", word) if by_id else ask(nvml, "nvmlDeviceGetHandleByIndex", int(word))
        if handle is not None:
            found += _parts(nvml, word, handle, is_part=word.startswith("MIG-"))
    return found


def _parts(nvml: Any, word: str, handle: Any, *, is_part: bool) -> list[tuple[str, Any, bool]]:
    """A card, or its MIG parts where it is divided."""
    mode = None if is_part else ask(nvml, "nvmlDeviceGetMigMode", handle)
    if not mode or not mode[0]:
        return [(word, handle, is_part)]
    count = int(ask(nvml, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
    parts = [(f"{word}/{at}", ask(nvml, "nvmlDeviceGetMigDeviceHandleByIndex", handle, at), True) for at in range(count)]
    return [part for part in parts if part[1] is not None] or [(word, handle, False)]


# ---- DCGM ----------------------------------------------------------------------------------------


class Dcgm:
    """Shares of `dcgmi dmon`, where DCGM is installed and its service runs: what NVML does not tell
    of cards before Hopper."""

    def __init__(self) -> None:
        self._program = shutil.which("dcgmi")
        self._asked_s = -math.inf

    def read(self) -> dict[str, dict[str, float]]:
        """Shares by number of the card; empty without DCGM, and where it was asked a moment ago: it
        takes a second. A DCGM that once failed is not asked again."""
        if self._program is None or time.monotonic() - self._asked_s < _DCGM_EVERY_S:
            return {}
        self._asked_s = time.monotonic()
        fields = ",".join(map(str, _DCGM))
        try:
            answer = subprocess.run(  # noqa: S603 (the program of the driver's own tools)
                [self._program, "dmon", "-e", fields, "-c", "1"], capture_output=True, text=True, timeout=_DCGM_TIMEOUT_S, check=True
            )
        except (OSError, subprocess.SubprocessError):
            self._program = None
            return {}
        return dcgm_shares(answer.stdout)


def dcgm_shares(text: str) -> dict[str, dict[str, float]]:
    """Shares by card from what `dcgmi dmon -e 1002,1004,1005` prints; N/A is unknown."""
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        match = _DCGM_LINE.match(line.strip())
        if match:
            cells = match[2].split()
            pairs = zip(_DCGM.values(), cells, strict=False)
            found[match[1]] = {name: min(float(cell), 1.0) for name, cell in pairs if re.fullmatch(r"\d+(\.\d+)?", cell)}
    return found


# ---- AMD -----------------------------------------------------------------------------------------


class Amd:
    """Cards by amdsmi (ROCm 6 and 7)."""

    def __init__(self, amd: Any) -> None:
        self._amd = amd

    def read(self) -> list[Reading]:
        """Every visible card now."""
        handles = list(ask(self._amd, "amdsmi_get_processor_handles") or [])
        given = os.environ.get("HIP_VISIBLE_DEVICES") or os.environ.get("ROCR_VISIBLE_DEVICES")
        chosen = range(len(handles)) if given is None else [int(part) for part in given.split(",") if part.strip().isdigit()]
        return [self._reading(index, handles[index]) for index in chosen if index < len(handles)]

    def _reading(self, index: int, handle: Any) -> Reading:
        activity = ask(self._amd, "amdsmi_get_gpu_activity", handle) or {}
        board = ask(self._amd, "amdsmi_get_gpu_asic_info", handle) or {}
        power = ask(self._amd, "amdsmi_get_power_info", handle) or {}
        memory = ask(self._amd, "amdsmi_get_gpu_vram_usage", handle) or {}
        pairs = {"gpu_busy_share": _plain(activity.get("gfx_activity")), "dram_active_share": _plain(activity.get("umc_activity"))}
        shares = {name: min(value / 100.0, 1.0) for name, value in pairs.items() if value is not None}
        used = _plain(memory.get("vram_used"))  # in MB of 2^20 (amdsmi.h: amdsmi_vram_usage_t)
        watts = _plain(power.get("current_socket_power"))
        watts = _plain(power.get("average_socket_power")) if watts is None else watts
        return Reading(f"amd{index}", _text(board.get("market_name")), None if used is None else used * MIB, watts, shares)


def _plain(value: Any) -> float | None:
    """A number; None for the words and the full registers by which amdsmi says "not supported"."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 0xFFFF_FFFF else None
