"""Run a command, sample it, and make a record of it. The command's exit code, its signals and its
output stay what they are."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import resource
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts.tables import constant_group
from rightfit.measure.probing.counters import FOLDER_PREFIX, FOLDER_VARIABLE, Machine, Stepping, counted, leading
from rightfit.measure.readers.item import Item, figure
from rightfit.measure.readers.training_text import log_figures
from rightfit.measure.record import LONGEST_COMMAND, Measured, Run, Source, own_version, sealed
from rightfit.measure.signals import card_named, failure_of, steady
from rightfit.messages import Message, system_problem
from rightfit.records import dataclass
from rightfit.units import GIB

# ---- What PyTorch's profiler saw of a few steps: operators by kind (facts/data/profile_kinds.csv),
# and those that take most time alone.

#: Operators that a record names.
_MOST = 12
OTHER = "other"


@cache
def _kinds() -> tuple[tuple[str, str], ...]:
    return tuple((row["word"], row["kind"]) for row in facts.table("profile_kinds"))


def kind_of(name: str) -> str:
    """The kind of an operator or kernel by the first word of the table that its name holds."""
    plain = name.casefold()
    return next((kind for word, kind in _kinds() if word in plain), OTHER)


def profile_of(tallies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds a step by kind, and of the operators that take most; on the card where there is one,
    else on the host. Empty where nothing was profiled."""
    tally = next((one for one in tallies if one.get("operators")), None)
    if tally is None:
        return {}
    steps = max(int(tally["profiled"]), 1)
    on_card = any(device > 0 for _, _, device, _, _ in tally["operators"])
    rows = [(str(name), (device if on_card else host) / steps, int(calls)) for name, host, device, calls, _ in tally["operators"]]
    rows = [row for row in rows if row[1] > 0 and not row[0].startswith("ProfilerStep")]
    kinds: dict[str, float] = {}
    for name, seconds, _ in rows:
        kinds[kind_of(name)] = kinds.get(kind_of(name), 0.0) + seconds
    largest = sorted(rows, key=lambda row: -row[1])[:_MOST]
    return {
        "steps": steps,
        "where": "card" if on_card else "host",
        "kinds_s": dict(sorted(kinds.items(), key=lambda pair: -pair[1])),
        "operators": [{"name": name, "seconds": seconds, "calls": calls / steps} for name, seconds, calls in largest],
    }


# ---- A probed run together with what was meant to run and with the log that it wrote. What was
# seen goes before what was planned; what the user says before both.

#: Columns that tell the card: a plan's are not taken over by a run on a machine that
#: shows none, or another.
_CARD = ("gpu", "n_gpus", "device", "n_devices")


@dataclass(frozen=True, slots=True)
class Planned:
    """What was meant to run, beside what is seen: set-up in columns of `rightfit predict`,
    server, and the wish."""

    setup: Mapping[str, str] = dataclasses.field(default_factory=dict)
    server: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    workload: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def with_plan(run: Run, planned: Planned, given: Mapping[str, str]) -> Run:
    """The run with set-up, server and wish of its plan, as far as they are those of the
    machine that it ran on."""
    wanted, notes = dict(planned.setup), []
    card, seen = wanted.get("gpu", ""), {**run.setup, **given}.get("gpu", "")
    is_here = not card or card_named(card).casefold() == card_named(seen).casefold()
    if not is_here:
        wanted = {name: value for name, value in wanted.items() if name not in _CARD}
        what = f"a card {seen!r} was" if seen else "no card was"
        notes.append(
            f"the plan is for {card}, {what} seen here: server and card of the plan are not taken over, and its figures are not compared"
        )
    notes += [
        f"the plan says {name} {wanted[name]}, the run had {run.setup[name]}"
        for name in ("micro_batch", "seq_len", "grad_accum")
        if name in wanted and name in run.setup and wanted[name] != run.setup[name] and name not in given
    ]
    return run.model_copy(
        update={
            "setup": {**wanted, **run.setup, **given},
            "server": dict(planned.server) if is_here else {},
            "workload": dict(planned.workload),
            "warnings": [*run.warnings, *notes],
        }
    )


def with_log(run: Run, log: Path) -> Run:
    """The run with the figures of the log that it wrote, where the same figure was
    not counted inside."""
    if not log.is_file():
        return run.model_copy(update={"warnings": [*run.warnings, f"--log: no file {log}"]})
    figures, setup, tool = log_figures(Item(log, str(log)).text)
    known = {item.metric for item in run.measured}
    new = [item for item in figures if item.metric not in known]
    if not figures:
        return run.model_copy(update={"warnings": [*run.warnings, f"--log: no progress that is known in {log}"]})
    kept = [text for text in run.warnings if not text.startswith("no steps were counted")] if new else run.warnings
    definition = [item.model_copy(update={"definition": f"{item.definition} (log of {tool})"}) for item in new]
    return run.model_copy(update={"measured": [*definition, *run.measured], "setup": {**setup, **run.setup}, "warnings": list(kept)})


AGENT = Path(__file__).parent / "agent"
_OF_PARTS = "a card is divided (MIG): memory is that of its parts, and use of the card is not defined on them (NVML)"
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def probe(
    command: Sequence[str],
    *,
    setup: Mapping[str, str] | None = None,
    stop_when_stable: bool = False,
    planned: Planned | None = None,
    deep: bool = False,
    log: Path | None = None,
    snapshot: Path | None = None,
) -> Run:
    """Run the command to its end and say what it did. With `stop_when_stable` it is asked to stop
    when the step time has settled; with `deep` PyTorch's profiler looks at three steps, and an
    out-of-memory error leaves PyTorch's memory snapshot at `snapshot`.PID.pickle. `log`: a file
    that the command writes, read where no steps could be counted. Raises InputError where it
    cannot start."""
    if not command:
        raise InputError(Message("measure.no_command"), field="command")
    started = datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True) as folder:
        process = _start(command, folder, _deep(snapshot) if deep else {})
        with contextlib.suppress(OSError):
            (Path(folder) / "probe").write_text(json.dumps({"pid": process.pid}), encoding="utf-8")
        machine = Machine(process.pid)
        with _forwarding(process):
            stopped = _watch(process, machine, Path(folder), stop_when_stable=stop_when_stable)
        run = _record(command, process.returncode, machine, counted(Path(folder)), started=started, stopped=stopped)
    run = run if log is None else with_log(run, log)
    return sealed(with_plan(run, planned or Planned(), setup or {}))


def exit_code(returncode: int) -> int:
    """What a shell would say: 128 and the signal for a command that a signal ended."""
    return 128 - returncode if returncode < 0 else returncode


def _deep(snapshot: Path | None) -> dict[str, str]:
    """What the agent is told; and NCCL's flight recorder, which says after a
    time-out which rank hung."""
    found = {"RIGHTFIT_PROBE_DEEP": "1", "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000", "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}
    return found | ({"RIGHTFIT_PROBE_SNAPSHOT": str(snapshot.absolute())} if snapshot is not None else {})


def _start(command: Sequence[str], folder: str, more: Mapping[str, str]) -> subprocess.Popen[bytes]:
    own = os.pathsep.join(filter(None, (str(AGENT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": own, FOLDER_VARIABLE: folder, **more}
    try:
        return subprocess.Popen(list(command), env=environment, start_new_session=True)  # noqa: S603 (the user's own command)
    except OSError as error:
        raise InputError(Message("measure.cannot_start", program=command[0], error=system_problem(error)), field="command") from None


@contextlib.contextmanager
def _forwarding(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals sent to us go to the command and all that it started."""

    def forward(number: int, _frame: Any) -> None:
        _send(process, number)

    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, forward) for number in _FORWARDED} if is_main else {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _watch(process: subprocess.Popen[bytes], machine: Machine, folder: Path, *, stop_when_stable: bool) -> bool:
    """Sample until the command ends; whether it was asked to stop because its
    step time had settled."""
    rule, stepping = constant_group("measure", "probe"), Stepping(folder)
    asked_at: float | None = None
    escalation = [(0.0, signal.SIGINT), (rule["terminate_after"], signal.SIGTERM), (rule["kill_after"], signal.SIGKILL)]
    while True:
        machine.sample()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=rule["sample_every"])
        if span := stepping.span():
            machine.means.stepped(*span)
        if process.returncode is not None:
            return asked_at is not None
        if asked_at is None and stop_when_stable and _is_stable(folder):
            asked_at = time.monotonic()
        while asked_at is not None and escalation and time.monotonic() - asked_at >= escalation[0][0]:
            _send(process, escalation.pop(0)[1])


def _is_stable(folder: Path) -> bool:
    found = leading(counted(folder))
    intervals = steady(found["intervals"]) if found else None
    return intervals is not None and intervals.is_stable


# ---- what was counted inside ---------------------------------------------------------------------


def _step_figures(tally: Mapping[str, Any]) -> tuple[list[Measured], list[str]]:
    found = steady(tally["intervals"])
    if found is None:
        return [], [f"{tally['steps']} steps were counted: too few for a step time"]
    count = found.count * tally["joined"]
    figures = figure("step_time_s", found.mean, n=count, spread=found.error) + figure(
        "step_time_s", found.median, statistic="median", n=count
    )
    if tally["batches"] and tally["span_s"] > 0 and tally["kind"] == "torch":
        figures += figure("data_wait_share", min(tally["wait_s"] / tally["span_s"], 1.0), n=tally["batches"])
    if tally["first_after_s"] is not None:
        figures += figure("startup_s", tally["first_after_s"])
    if tally["shape"] and tally["batches"] and len(tally["shape"][1]) >= 1 and tally["kind"] == "torch":
        samples = tally["shape"][1][0] * tally["world_size"] * tally["batches_per_step"]
        figures += figure("samples_per_s", samples / found.mean, n=count)
    notes = [] if found.is_stable else ["the step time has not settled: fewer than 20 steps, a trend, or a standard error over 2 %"]
    return figures, notes


def _setup(tallies: Sequence[Mapping[str, Any]], tally: Mapping[str, Any] | None, machine: Machine) -> dict[str, str]:
    """What the processes tell of the set-up: cards, ranks, batch and length of the first batch,
    library. Without PyTorch the cards are those that hold more than at the start."""
    setup: dict[str, str] = {}
    names = [card["name"] for one in tallies for card in one["gpus"]]
    names = names or [machine.names[key] for key, added in machine.memory.items() if added > 0 and not machine.has_parts]
    if names:
        setup |= {"gpu": card_named(names[0]), "n_gpus": str(max(len(names), tally["world_size"] if tally else 1))}
    fetched = tally or next((one for one in tallies if one["shape"]), None)  # a run may fail before its first step
    if fetched and fetched["shape"]:
        is_text, shape = fetched["shape"]
        setup |= {"micro_batch": str(shape[0])} if shape else {}
        setup |= {"seq_len": str(shape[1])} if is_text and len(shape) > 1 else {}
        batches = round(fetched["batches_per_step"]) if fetched["steps"] else 0
        setup |= {"grad_accum": str(batches)} if batches > 1 else {}
    if tally and tally["kind"] == "keras":
        setup["framework"] = "keras"
    if tally and tally["kind"] in ("xgboost", "lightgbm"):
        setup |= {"library": tally["kind"], "model": tally["kind"]}  # the library is the algorithm
    return setup


def _memory_figures(tallies: Sequence[Mapping[str, Any]], machine: Machine) -> list[Measured]:
    """Peaks of PyTorch's allocator, the largest of all ranks; memory as the
    driver saw it, beside."""
    cards = [card for tally in tallies for card in tally["gpus"]]
    figures: list[Measured] = []
    for counter in ("allocated", "reserved") if cards else ():
        figures += figure("peak_mem_gib_per_gpu", max(card[counter] for card in cards) / GIB, statistic="max", counter=counter)
    # The driver is asked once a second: what it shows is under the peak where that was shorter.
    reserved = max((card["reserved"] for card in cards), default=0.0)
    if machine.memory and max(machine.memory.values()) > reserved:
        preallocates = any({"tensorflow", "jax"} & tally["versions"].keys() for tally in tallies)
        counter = "preallocated" if preallocates else "nvidia-smi"
        figures += figure("peak_mem_gib_per_gpu", max(machine.memory.values()) / GIB, statistic="max", counter=counter)
    return figures


def _machine_figures(machine: Machine, elapsed: float) -> list[Measured]:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    used = sum(machine.cpu_s.values()) or usage.ru_utime + usage.ru_stime
    peak = max(machine.host_peak, usage.ru_maxrss * 1024.0, machine.group_peak)  # samples miss what lives shortly
    figures = figure("duration_s", elapsed, statistic="total") + figure("host_memory_peak_bytes", peak, statistic="max")
    figures += figure("cpu_share", min(used / elapsed / cores, 1.0)) if elapsed > 0 else []
    figures += figure("disk_read_bytes_per_s", sum(machine.read.values()) / elapsed) if machine.read and elapsed > 0 else []
    if machine.received and elapsed > 0:
        figures += figure("net_recv_bytes_per_s", (machine.received[1] - machine.received[0]) / elapsed)
    for name, mean in machine.means.best().items():
        figures += figure(name, mean.value, n=mean.count)
    return figures


def _record(
    command: Sequence[str],
    returncode: int,
    machine: Machine,
    tallies: Sequence[Mapping[str, Any]],
    *,
    started: str,
    stopped: bool,
) -> Run:
    tally = leading(tallies)
    fit = sum(one["fit_s"] for one in tallies)
    failure = next((found for one in tallies if (found := failure_of(one["error"]))), None)
    killed = returncode == -signal.SIGKILL and machine.was_killed_for_memory
    elapsed = machine.elapsed_s
    steps, notes = _step_figures(tally) if tally else ([], _why_no_steps(tallies, failed=failure is not None or killed))
    figures = [
        *steps,
        *figure("train_time_s", fit or None, statistic="total"),
        *_memory_figures(tallies, machine),
        *_machine_figures(machine, elapsed),
    ]
    if failure:
        figures += failure.figures()
        notes = [*notes, failure.verdict]
    if killed:
        figures = [item.model_copy(update={"bound": ">="}) if item.metric == "host_memory_peak_bytes" else item for item in figures]
        notes = [*notes, "killed by the kernel for host memory: at least that much RAM is needed, no larger card"]
    versions: dict[str, str] = {name: text for one in tallies for name, text in one["versions"].items()}
    host = {"cpus": os.cpu_count(), "gpus": sorted(machine.names.values()), "versions": versions}
    return Run(
        source=Source(kind="probe", tool="rightfit", version=own_version()),
        command=shlex.join(command)[:LONGEST_COMMAND],
        exit_code=exit_code(returncode),
        signal=-returncode if returncode < 0 else None,
        oom=bool(failure and failure.kind == "need") or killed,
        complete=returncode == 0 or stopped,
        started=started,
        duration_s=elapsed,
        setup=_setup(tallies, tally, machine),
        host={name: value for name, value in host.items() if value},
        measured=figures,
        warnings=[*notes, *([_OF_PARTS] if machine.has_parts else [])],
        profile=profile_of(tallies),
    )


def _why_no_steps(tallies: Sequence[Mapping[str, Any]], *, failed: bool) -> list[str]:
    if any(one["fit_s"] for one in tallies):
        return []
    if failed:
        return ["no step was finished before memory ran out"]
    return [
        "no steps were counted: not PyTorch, Keras, XGBoost, LightGBM or scikit-learn, or Python was started with -S, -E or -I; --log FILE reads the progress that it writes, rightfit ingest its tracker"
    ]
