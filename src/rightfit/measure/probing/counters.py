"""What a process tree takes of the machine: processors, memory, disk, network (psutil), cards. What
cannot be read is unknown, never 0."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rightfit.measure.probing import cards
from rightfit.records import dataclass

_CGROUP = Path("/sys/fs/cgroup")
#: Processes whose shared memory is told apart in one sample; the rest count whole.
_MOST_DETAILED = 32
#: Samples that wait to hear whether the program was stepping when they were taken: over an hour of
#: them; and how many a mean over its steps needs.
_MOST_WAITING, _LEAST_STEPPING = 4096, 3


@dataclasses.dataclass(slots=True)
class Mean:
    """A running mean: a run of weeks needs no more room than one of seconds."""

    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        """One more value."""
        self.total, self.count = self.total + value, self.count + 1

    @property
    def value(self) -> float:
        """The mean of what was added; at least one value."""
        return self.total / self.count


@dataclasses.dataclass(slots=True)
class Means:
    """Means by metric over the whole run and over the time between its first steady step and its
    last: loading, compiling and saving say nothing of a step. Of the latter one hears afterwards,
    so the latest samples wait."""

    whole: dict[str, Mean] = dataclasses.field(default_factory=dict)
    stepping: dict[str, Mean] = dataclasses.field(default_factory=dict)
    waiting: collections.deque[tuple[float, list[tuple[str, float]]]] = dataclasses.field(
        default_factory=lambda: collections.deque(maxlen=_MOST_WAITING)
    )

    def add(self, values: list[tuple[str, float]], *, when: float) -> None:
        """One sample, taken at `when` [s since the epoch]; a metric comes once for each card."""
        for name, value in values:
            self.whole.setdefault(name, Mean()).add(value)
        self.waiting.append((when, values))

    def stepped(self, first: float, last: float) -> None:
        """The program has stepped from `first` to `last` [s since the epoch]."""
        while self.waiting and self.waiting[0][0] <= last:
            when, values = self.waiting.popleft()
            for name, value in values if when >= first else ():
                self.stepping.setdefault(name, Mean()).add(value)

    def best(self) -> Mapping[str, Mean]:
        """Means over the steps where there are enough samples of them, else over the run."""
        return {
            name: steps if (steps := self.stepping.get(name)) and steps.count >= _LEAST_STEPPING else whole
            for name, whole in self.whole.items()
        }


@dataclasses.dataclass
class Machine:
    """Samples of one process tree. `sample` is called about once a second. `means`: of cards and of
    the busiest process, by metric of a run record; `memory`: what each card holds more than at the
    start, at its peak; `now` the latest values [bytes, shares]."""

    pid: int
    host_peak: float = 0.0
    cpu_s: dict[int, float] = dataclasses.field(default_factory=dict)
    busiest: float = 0.0
    read: dict[int, float] = dataclasses.field(default_factory=dict)
    received: tuple[float, float] | None = None
    means: Means = dataclasses.field(default_factory=Means)
    memory: dict[str, float] = dataclasses.field(default_factory=dict)
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    now: dict[str, float] = dataclasses.field(default_factory=dict)
    has_parts: bool = False

    def __post_init__(self) -> None:
        self.begun = time.perf_counter()
        self._group = group_memory()
        self._psutil = cards.optional("psutil")
        self._cards = cards.found_cards(cards.optional)
        self._before = {reading.key: reading.used_bytes for reading in self._readings() if reading.used_bytes is not None}
        self._killed = oom_kills()
        self._cpu_before: tuple[float, dict[int, float]] = (self.begun, {})

    def sample(self) -> None:
        """Read every counter once; a process that ends meanwhile is left out."""
        if self._psutil is not None:
            with contextlib.suppress(self._psutil.Error, OSError):
                self._processes()
            with contextlib.suppress(Exception):
                self._network()
        sampled = [*self._busiest_now(), *self._accelerators()]
        self.means.add(sampled, when=time.time())

    def _busiest_now(self) -> list[tuple[str, float]]:
        """Cores that the busiest process took since the sample before."""
        now = time.perf_counter()
        (at, before), self._cpu_before = self._cpu_before, (now, dict(self.cpu_s))
        spent = [self.cpu_s[pid] - before[pid] for pid in self.cpu_s.keys() & before.keys()]
        return [("cpu_one_core_share", max(spent) / (now - at))] if spent and now > at else []

    def _processes(self) -> None:
        root = self._psutil.Process(self.pid)
        total = 0.0
        for at, process in enumerate([root, *root.children(recursive=True)]):
            with contextlib.suppress(self._psutil.Error, OSError):
                total += self._memory_of(process, detailed=at < _MOST_DETAILED)
                times = process.cpu_times()
                self.cpu_s[process.pid] = times.user + times.system
                if hasattr(process, "io_counters"):
                    self.read[process.pid] = float(process.io_counters().read_bytes)
        self.host_peak = max(self.host_peak, total)
        self.now["host_memory_bytes"] = total
        elapsed = time.perf_counter() - self.begun
        self.busiest = max(self.cpu_s.values(), default=0.0) / elapsed if elapsed > 0 else 0.0

    def _memory_of(self, process: Any, *, detailed: bool) -> float:
        """Proportional share where the system tells it: pages that loader
        workers share count once."""
        if detailed:
            with contextlib.suppress(self._psutil.Error, AttributeError, OSError):
                return float(process.memory_full_info().pss)
        return float(process.memory_info().rss)

    def _network(self) -> None:
        now = float(self._psutil.net_io_counters().bytes_recv)
        self.received = (self.received[0] if self.received else now, now)

    def _readings(self) -> list[cards.Reading]:
        return [reading for vendor in self._cards for reading in vendor.read()]

    def _accelerators(self) -> list[tuple[str, float]]:
        found = self._readings()
        sampled: list[tuple[str, float]] = []
        for reading in found:
            self.names.setdefault(reading.key, reading.name)
            self.has_parts = self.has_parts or reading.is_part
            sampled += reading.shares.items()
            if reading.power_w is not None:
                sampled.append(("power_w", reading.power_w))
            if reading.used_bytes is not None:
                added = max(reading.used_bytes - self._before.get(reading.key, 0.0), 0.0)
                self.memory[reading.key] = max(self.memory.get(reading.key, 0.0), added)
        self._remember(found)
        return sampled

    def _remember(self, found: list[cards.Reading]) -> None:
        """The latest values: the mean share of the cards, the fullest card."""
        for name in {name for reading in found for name in reading.shares}:
            values = [reading.shares[name] for reading in found if name in reading.shares]
            self.now[name] = sum(values) / len(values)
        used = [reading.used_bytes for reading in found if reading.used_bytes is not None]
        if used:
            self.now["card_memory_bytes"] = max(used)

    @property
    def group_peak(self) -> float:
        """What the group of processes held at its peak more than at the start [bytes], files that
        were read left out; 0 where that is not told, or an older peak was higher."""
        before, now = self._group, group_memory()
        if before is None or now is None or now.peak <= before.peak:
            return 0.0
        return max(now.peak - before.current - max(now.files - before.files, 0.0), 0.0)

    @property
    def was_killed_for_memory(self) -> bool:
        """Whether the kernel killed a process of this group of processes for
        memory since the start."""
        now = oom_kills()
        return self._killed is not None and now is not None and now > self._killed

    @property
    def elapsed_s(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.begun


def oom_kills(root: Path = _CGROUP) -> int | None:
    """Kills for memory in this process's group (cgroup v2 memory.events); None
    where that is not told."""
    try:
        folder = _group_folder(root, "memory.events")
        return int(_pairs(folder / "memory.events")["oom_kill"]) if folder is not None else None
    except (OSError, ValueError, KeyError):
        return None


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """Memory of a group of processes [bytes]: what it holds, the most it ever held, and of what it
    holds the files that were read, which the kernel gives back when it must."""

    current: float
    peak: float
    files: float


def group_memory(root: Path = _CGROUP) -> GroupMemory | None:
    """That of this process's group (cgroup v2); None where that is not told."""
    try:
        folder = _group_folder(root, "memory.peak")
        if folder is None:
            return None
        current, peak = (float((folder / f"memory.{name}").read_text(encoding="utf-8")) for name in ("current", "peak"))
        return GroupMemory(current, peak, float(_pairs(folder / "memory.stat")["file"]))
    except (OSError, ValueError, KeyError):
        return None


def _group_folder(root: Path, name: str) -> Path | None:
    """The folder of this process's group, or the one that a container sees, which has this file."""
    own = Path("/proc/self/cgroup").read_text(encoding="utf-8").strip().rpartition("::/")[2]
    return next((folder for folder in (root / own, root) if (folder / name).is_file()), None)


def _pairs(path: Path) -> dict[str, str]:
    return dict(line.split() for line in path.read_text(encoding="utf-8").splitlines())


# ---- What the agent counted inside the processes of a command: one JSON file a process, in a
# folder that only this run has.

#: Variable by which processes are told the folder, and how its name begins.
FOLDER_VARIABLE, FOLDER_PREFIX = "RIGHTFIT_PROBE_DIR", "rightfit-probe-"


def counted(folder: Path) -> list[dict[str, Any]]:
    """Counts of all processes; a file that is being written is left out."""
    found = []
    for path in sorted(folder.glob("*.json")):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text(encoding="utf-8")))
    return found


class Stepping:
    """When the program was stepping, as its processes tell it while they run; a file is read again
    only when it was written again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: dict[str, int] = {}
        self._times: dict[str, tuple[float, float]] = {}

    def span(self) -> tuple[float, float] | None:
        """From the first steady step to the last of all processes [s since the epoch]; None
        before there was one."""
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError, ValueError):
                written = path.stat().st_mtime_ns
                if self._seen.get(path.name) != written:
                    self._seen[path.name] = written
                    if stepped := json.loads(path.read_text(encoding="utf-8")).get("stepped"):
                        self._times[path.name] = (stepped[0], stepped[1])
        return (min(first for first, _ in self._times.values()), max(last for _, last in self._times.values())) if self._times else None


def leading(tallies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The process that stands for the run: of those that stepped the first rank,
    with the most steps."""
    stepped = [tally for tally in tallies if tally["steps"]]
    return min(stepped, key=lambda tally: (tally["rank"], -tally["steps"])) if stepped else None
