"""rightfit probe: a command runs as it would without us, and what it did is counted from
inside and outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.measure.probing import cards, counters, wrapped
from rightfit.measure.probing.counters import Machine, oom_kills
from rightfit.measure.probing.wrapped import exit_code, probe
from rightfit.measure.record import Run, read_runs


def train(*arguments: object) -> Run:
    return probe([sys.executable, "train.py", *map(str, arguments)])


def test_steps_waiting_and_set_up_are_counted_without_a_change_of_code(project: Path) -> None:
    run = train(60, 0.006, 0.004, 1)
    assert run.exit_code == 0
    step = next(item for item in run.measured if item.metric == "step_time_s")
    assert step.n is not None
    assert step.n >= 50
    assert 0.010 <= step.value < 0.03
    waited = run.value("data_wait_share")
    assert waited is not None
    assert 0.4 < waited < 0.8
    assert run.setup == {"micro_batch": "4", "seq_len": "128"}
    assert (run.value("host_memory_peak_bytes") or 0) > 2**20
    assert run.value("peak_mem_gib_per_gpu") is None  # there is no card: unknown, not 0


def test_accumulated_gradients_are_one_step(project: Path) -> None:
    run = train(80, 0.001, 0.001, 4)
    assert run.setup["grad_accum"] == "4"
    assert 0.008 <= (run.value("step_time_s") or 0) < 0.05


def test_optimizers_that_step_together_are_one_step(project: Path) -> None:
    (project / "gan.py").write_text(
        "import time\nfrom torch.optim.optimizer import Optimizer\nfrom torch.utils.data.dataloader import _BaseDataLoaderIter\n"
        "one, two = Optimizer(), Optimizer()\nfor batch in _BaseDataLoaderIter(40, 0.004):\n    one.step(); two.step()\n"
    )
    run = probe([sys.executable, "gan.py"])
    assert next(item.n for item in run.measured if item.metric == "step_time_s") in range(30, 40)


@pytest.mark.parametrize(
    ("code", "wanted"), [("raise SystemExit(7)", 7), ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137), ("1/0", 1)]
)
def test_the_exit_code_is_that_of_the_command(project: Path, code: str, wanted: int) -> None:
    run = probe([sys.executable, "-c", code])
    assert run.exit_code == wanted
    assert not run.complete
    assert run.signal == (9 if wanted == 137 else None)


def test_what_cannot_be_started_is_said() -> None:
    with pytest.raises(InputError, match="cannot start 'no-such-program'"):
        probe(["no-such-program"])
    with pytest.raises(InputError, match="needs a command"):
        probe([])
    assert exit_code(-15) == 143


def test_the_user_s_own_sitecustomize_runs(project: Path) -> None:
    (project / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 42\n")
    assert probe([sys.executable, "-c", "assert mine == 42"]).exit_code == 0


def test_python_that_ignores_the_environment_is_measured_from_outside(project: Path) -> None:
    run = probe([sys.executable, "-E", "-c", "pass"])
    assert run.exit_code == 0
    assert "rightfit ingest" in run.warnings[0]
    assert run.value("duration_s") is not None


def test_out_of_memory_is_a_lower_bound(project: Path) -> None:
    text = (
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 500.00 MiB is free. Of the allocated memory 22.00 GiB "
        "is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
    )
    run = probe([sys.executable, "-c", f"class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError({text!r})"])
    assert (run.exit_code, run.oom) == (1, True)
    assert [(item.value, item.bound) for item in run.measured if item.metric == "peak_mem_gib_per_gpu"] == [(24.0, ">=")]
    assert run.warnings[0] == "no step was finished before memory ran out"


def test_a_run_is_stopped_when_it_has_settled(project: Path) -> None:
    begun = time.perf_counter()
    run = probe([sys.executable, "train.py", "100000", "0.01", "0.01", "1"], stop_when_stable=True)
    assert time.perf_counter() - begun < 40
    assert run.complete
    assert run.signal == signal.SIGINT or run.exit_code == 130
    assert run.value("step_time_s") == pytest.approx(0.021, rel=0.3)


def test_ranks_and_children_are_seen_and_the_first_rank_stands_for_all(project: Path) -> None:
    (project / "two.py").write_text(
        "import os, subprocess, sys\n"
        "jobs = [subprocess.Popen([sys.executable, 'train.py', '40', '0.002', '0.002', '1'], env={**os.environ, 'RANK': str(r), 'WORLD_SIZE': '2'}) for r in range(2)]\n"
        "sys.exit(max(job.wait() for job in jobs))\n"
    )
    run = probe([sys.executable, "two.py"])
    assert run.exit_code == 0
    step, rate = run.value("step_time_s"), run.value("samples_per_s")
    assert step is not None
    assert rate == pytest.approx(8 / step, rel=0.01)  # 4 samples a rank, two ranks


def test_a_million_steps_take_little_room_and_time(project: Path) -> None:
    (project / "many.py").write_text(
        "from torch.optim.optimizer import Optimizer\none = Optimizer()\nfor _ in range(1_000_000): one.step()\n"
    )
    run = probe([sys.executable, "many.py"])
    step = next(item for item in run.measured if item.metric == "step_time_s")
    assert step.n is not None
    assert step.n > 800_000
    assert step.value < 50e-6


def test_signals_reach_the_command_and_partial_counts_are_kept(project: Path) -> None:
    source = Path(counters.__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{project}{os.pathsep}{source}"}
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "rightfit",
            "probe",
            "--out",
            "run.json",
            "-q",
            "--",
            sys.executable,
            "train.py",
            "100000",
            "0.002",
            "0.002",
            "1",
        ],
        env=environment,
    )
    time.sleep(8)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    run = read_runs("run.json")[0]
    assert (run.signal, run.complete) == (15, False)
    assert run.value("step_time_s") is not None


def test_a_folder_that_cannot_be_written_costs_the_count_only(project: Path) -> None:
    code = "import os, shutil; shutil.rmtree(os.environ['RIGHTFIT_PROBE_DIR'])\nimport train_\n"
    (project / "train_.py").write_text("from torch.optim.optimizer import Optimizer\none = Optimizer()\nfor _ in range(9): one.step()\n")
    assert probe([sys.executable, "-c", code]).exit_code == 0


# ---- cards, as a driver shows them ---------------------------------------------------------------


class Driver:
    """NVML of two cards: the first holds a neighbour's memory, the second lacks
    what MIG parts lack."""

    def __init__(self) -> None:
        self.used = {0: 10 * 2**30, 1: 0}
        self.reasons, self.limit = {0: 0, 1: 0x40}, 400_000

    def __getattr__(self, name: str) -> Any:
        answers: dict[str, Any] = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda _: b"NVIDIA A100-SXM4-80GB",
            "nvmlDeviceGetMemoryInfo": lambda index: type("Info", (), {"used": self.used[index]}),
            "nvmlDeviceGetUtilizationRates": self.rates,
            "nvmlDeviceGetPowerUsage": lambda _: 250_000,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda index: self.reasons[index],
            "nvmlDeviceGetEnforcedPowerLimit": lambda _: self.limit,
            "nvmlDeviceGetPowerManagementDefaultLimit": lambda _: 400_000,
        }
        return answers[name]  # an old driver lacks functions: KeyError here

    def rates(self, index: int) -> Any:
        if index:
            raise RuntimeError("Not Supported")
        return type("Rates", (), {"gpu": 80})


def test_cards_are_told_by_device_and_memory_of_others_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setattr(cards, "optional", lambda name: driver if name == "pynvml" else None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    machine = Machine(os.getpid())
    driver.used = {0: 15 * 2**30, 1: 4 * 2**30}
    machine.sample()
    assert machine.memory == {"0": 5 * 2**30, "1": 4 * 2**30}
    means = {name: mean.value for name, mean in machine.means.best().items()}
    assert (means["gpu_busy_share"], means["power_w"], means["throttled_share"]) == (0.8, 250.0, 0.5)
    assert machine.now["card_memory_bytes"] == 15 * 2**30
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [key for key, _, _ in cards.visible(driver)] == ["1"]


@pytest.mark.parametrize(
    ("reasons", "limit", "share"),
    [(0x4, 400_000, 0.0), (0x4, 300_000, 1.0), (0x8, 400_000, 1.0), (0x20, 400_000, 1.0), (0x80, 400_000, 1.0), (0x1, 300_000, 0.0)],
)
def test_a_card_at_its_own_power_limit_is_not_throttled(monkeypatch: pytest.MonkeyPatch, reasons: int, limit: int, share: float) -> None:
    """An H100 that trains runs at its power limit all the time (measured): only a limit that
    somebody lowered, or heat, is a fault."""
    driver = Driver()
    driver.reasons, driver.limit = {0: reasons, 1: reasons}, limit
    monkeypatch.setattr(cards, "optional", lambda name: driver if name == "pynvml" else None)
    machine = Machine(os.getpid())
    machine.sample()
    assert machine.means.best()["throttled_share"].value == share


def test_means_are_of_the_steps_where_there_are_some() -> None:
    means = counters.Means()
    for at in range(10):
        means.add([("gpu_busy_share", 0.0 if at < 5 else 1.0)], when=float(at))
    assert means.best()["gpu_busy_share"].value == 0.5
    means.stepped(5.0, 6.5)
    assert means.best()["gpu_busy_share"].value == 0.5  # two samples are too few
    means.stepped(5.0, 8.0)
    assert (means.best()["gpu_busy_share"].value, means.best()["gpu_busy_share"].count) == (1.0, 4)
    means.add([("gpu_busy_share", 0.0)], when=30.0)  # saving the model
    assert means.best()["gpu_busy_share"].value == 1.0


def test_loading_before_the_steps_does_not_make_a_busy_process_idle(project: Path) -> None:
    """Six seconds of sleep, then work: over the whole run half a core, over the
    steps a whole one."""
    pytest.importorskip("psutil")
    (project / "late.py").write_text(
        "import time\nfrom torch.optim.optimizer import Optimizer\nfrom torch.utils.data.dataloader import _BaseDataLoaderIter\n"
        "time.sleep(6)\none = Optimizer()\n"
        "for batch in _BaseDataLoaderIter(120, 0.0):\n"
        "    begun = time.perf_counter()\n    while time.perf_counter() - begun < 0.07: pass\n    one.step()\n"
    )
    run = probe([sys.executable, "late.py"])
    busy, whole = run.value("cpu_one_core_share"), run.value("cpu_share")
    assert busy is not None
    assert whole is not None
    assert busy > 1.3 * whole * len(os.sched_getaffinity(0))


def test_a_batch_that_is_fetched_ahead_belongs_to_no_step(project: Path) -> None:
    """Trainers look one batch ahead, and a run may be ended within a step: neither changes how many
    batches a step has."""
    (project / "ahead.py").write_text(
        "from torch.optim.optimizer import Optimizer\nfrom torch.utils.data.dataloader import _BaseDataLoaderIter\n"
        "one, batches = Optimizer(), _BaseDataLoaderIter(1000, 0.0001)\nnext(batches)\n"
        "for step in range(7):\n    for _ in range(4): next(batches)\n    one.step()\n"
        "for _ in range(3): next(batches)\n"
    )
    assert probe([sys.executable, "ahead.py"]).setup["grad_accum"] == "4"


def test_without_a_driver_and_without_psutil_figures_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "optional", lambda _: None)
    machine = Machine(os.getpid())
    machine.sample()
    assert (machine.means.best(), machine.memory, machine.host_peak) == ({}, {}, 0.0)
    assert oom_kills(Path("/nowhere")) is None


def test_the_command_prints_its_own_output_and_the_record_goes_to_standard_error(project: Path) -> None:
    source = Path(counters.__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": f"{project}{os.pathsep}{source}", "LANG": "C.UTF-8"}
    command = [
        sys.executable,
        "-m",
        "rightfit",
        "probe",
        "--set",
        "model=7B",
        "--out",
        "run.json",
        "--",
        sys.executable,
        "train.py",
        "30",
        "0",
        "0.002",
        "1",
    ]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert "step time" in result.stderr
    assert json.loads(Path("run.json").read_text())["setup"]["model"] == "7B"


GIB = 2**30


@pytest.mark.parametrize(
    ("before", "after", "peak"),
    [
        ((10, 12, 3), (11, 30, 3), 20),
        ((10, 12, 3), (11, 30, 8), 15),
        ((10, 40, 3), (11, 40, 3), 0),
        ((10, 12, 8), (11, 30, 3), 20),
    ],
    ids=["higher than ever", "files that were read", "an older peak", "files that were dropped"],
)
def test_the_group_of_processes_tells_its_peak(
    before: tuple[int, int, int], after: tuple[int, int, int], peak: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lives between two samples is seen by the kernel."""
    monkeypatch.setattr(counters, "_CGROUP", tmp_path)
    monkeypatch.setattr(counters.group_memory, "__defaults__", (tmp_path,))

    def tell(current: int, highest: int, files: int) -> None:
        (tmp_path / "memory.current").write_text(f"{current * GIB}\n")
        (tmp_path / "memory.peak").write_text(f"{highest * GIB}\n")
        (tmp_path / "memory.stat").write_text(f"anon 1\nfile {files * GIB}\n")

    tell(*before)
    machine = counters.Machine(os.getpid())
    tell(*after)
    assert machine.group_peak == pytest.approx(peak * GIB)
    (tmp_path / "memory.peak").unlink()
    assert machine.group_peak == 0.0


@pytest.mark.parametrize("largest", ["samples", "ru_maxrss", "control group"])
def test_the_peak_of_the_host_is_the_largest_that_was_seen(largest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {name: (3.0 if name == largest else 1.0) * GIB for name in ("samples", "ru_maxrss", "control group")}
    monkeypatch.setattr(counters.Machine, "group_peak", seen["control group"])
    usage = SimpleNamespace(ru_maxrss=seen["ru_maxrss"] / 1024, ru_utime=1.0, ru_stime=0.0)
    monkeypatch.setattr(wrapped.resource, "getrusage", lambda _: usage)
    machine = counters.Machine(os.getpid())
    machine.host_peak = seen["samples"]
    found = {item.metric: item.value for item in wrapped._machine_figures(machine, 10.0)}
    assert found["host_memory_peak_bytes"] == 3.0 * GIB
