"""Predictions beside what was measured; what was planned, seen and said, together; what would
explain a run that left its interval."""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.cli.run import run as run_cli
from rightfit.errors import UnavailableError
from rightfit.estimation.figures import Figure
from rightfit.explain.run_text import beside_table, explanation_lines, profile_lines
from rightfit.facts import accelerator, table
from rightfit.facts.devices import match_accelerators
from rightfit.measure import own_runs, record
from rightfit.measure.probing import cards
from rightfit.measure.probing.wrapped import Planned, kind_of, probe, profile_of, with_log, with_plan
from rightfit.measure.record import Run, Source, measured, read_runs
from rightfit.measure.signals import card_named
from rightfit.measure.watching.judging import Expected
from rightfit.messages import LANGS
from rightfit.proof.predict import predict

SETUP = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "method": "lora",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "micro_batch": "4",
    "seq_len": "1024",
    "precision": "bf16",
}
SETUP |= {"recompute": "none", "attention": "flash"}


def run_of(*items: Any, **setup: str) -> Run:
    return Run(source=Source(kind="probe"), setup={**SETUP, **setup}, measured=list(items))


def test_the_plan_s_figures_stand_beside_those_measured_and_predict_fills_the_rest() -> None:
    run = run_of(measured("step_time_s", 2.0), measured("peak_mem_gib_per_gpu", 30.0, counter="allocated", statistic="max"))
    plan = Expected(figures={"step_s": Figure(1.0, 0.9, 1.2, 0.8, 1.5)})
    pairs = {one.item.metric: one for one in own_runs.beside(run, predict, plan)}
    assert (pairs["step_time_s"].origin, pairs["step_time_s"].verdict, pairs["step_time_s"].predicted.mid) == ("plan", "above", 1.0)
    assert pairs["peak_mem_gib_per_gpu"].origin == "predict"
    assert pairs["peak_mem_gib_per_gpu"].predicted.low95 < pairs["peak_mem_gib_per_gpu"].predicted.mid
    assert len(beside_table(list(pairs.values()), "zh").records) == 2


def test_without_a_card_nothing_is_predicted() -> None:
    assert own_runs.beside(run_of(measured("step_time_s", 2.0), gpu=""), predict) == []
    assert own_runs.beside(run_of(measured("step_time_s", 2.0, bound=">=")), predict) == []


@pytest.mark.parametrize(("name", "columns"), [("recompute_full", {"recompute": "full"}), ("fp32", {"precision": "fp32"})])
@pytest.mark.parametrize("lang", LANGS)
def test_a_run_that_was_set_up_otherwise_is_explained(name: str, columns: dict[str, str], lang: Any) -> None:
    row = {**SETUP, "metric": "step_time_s"}
    real = predict([{**row, **columns}])[0]["predicted"]
    plain = predict([row])[0]["predicted"]
    assert abs(math.log(real / plain)) > 0.15
    run = run_of(measured("step_time_s", real))
    narrow = Figure(plain, 0.99 * plain, 1.01 * plain, 0.98 * plain, 1.02 * plain)
    one = own_runs.Beside(run.measured[0], narrow, "above", "plan")
    found = own_runs.explanations(run, one, predict)
    assert name in [one.name for one in found]
    assert abs(next(one.missed for one in found if one.name == name)) < 1e-3
    assert explanation_lines(one, found, lang)
    assert explanation_lines(one, [], lang) != explanation_lines(one, found, lang)
    assert own_runs.explanations(run, own_runs.Beside(run.measured[0], narrow, "inside", "plan"), predict) == []


# ---- planned, seen, said -------------------------------------------------------------------------


PLANNED = Planned(
    {"model": "7B", "gpu": "H100-SXM-80GB", "n_gpus": "8", "micro_batch": "8"},
    {"provider": "aws", "instance_type": "p5"},
    {"task": "finetune"},
)


def seen(**setup: str) -> Run:
    return Run(source=Source(kind="probe"), setup=setup)


def test_on_the_plan_s_card_the_plan_fills_what_was_not_seen() -> None:
    run = with_plan(seen(gpu=card_named("NVIDIA H100 80GB HBM3"), n_gpus="8", micro_batch="4"), PLANNED, {"precision": "bf16"})
    assert run.setup == {"model": "7B", "gpu": "H100-SXM-80GB", "n_gpus": "8", "micro_batch": "4", "precision": "bf16"}
    assert run.server == {"provider": "aws", "instance_type": "p5"}
    assert run.warnings == ["the plan says micro_batch 8, the run had 4"]


@pytest.mark.parametrize(("setup", "text"), [({}, "no card was seen here"), ({"gpu": "Tesla T4"}, "a card 'Tesla T4' was seen here")])
def test_elsewhere_server_and_card_are_not_taken_over(setup: dict[str, str], text: str) -> None:
    run = with_plan(seen(**setup), PLANNED, {})
    assert run.server == {}
    assert "n_gpus" not in run.setup
    assert run.setup.get("gpu", "") == setup.get("gpu", "")
    assert text in run.warnings[0]
    assert run.workload == {"task": "finetune"}


@pytest.mark.parametrize("row", table("driver_names"), ids=lambda row: row["driver_name"])
def test_names_of_drivers_are_cards_that_are_known(row: dict[str, str]) -> None:
    assert card_named(row["driver_name"]) == accelerator(row["accelerator"]).name == row["accelerator"]
    assert card_named(row["driver_name"].upper()) == row["accelerator"]


@pytest.mark.parametrize("row", table("driver_names"), ids=lambda row: row["driver_name"])
def test_names_of_drivers_are_taken_where_people_type_them(row: dict[str, str]) -> None:
    """What nvidia-smi prints is what people copy: into a wish, and into a table of cases."""
    assert row["accelerator"] in match_accelerators(row["driver_name"])
    cases = [
        {"metric": "peak_mem_gib_per_gpu", "model": "Qwen/Qwen2.5-0.5B", "micro_batch": "1", "seq_len": "512", "gpu": row["driver_name"]},
        {"metric": "tpot_ms", "model": "Qwen/Qwen2.5-0.5B", "input_tokens": "128", "output_tokens": "16", "device": row["driver_name"]},
        {"metric": "latency_ms", "model": "resnet50", "batch_or_concurrency": "1", "device": row["driver_name"]},
        {
            "metric": "images_per_s_total",
            "task": "classification",
            "model": "resnet50",
            "image_size": "224",
            "batch_per_gpu": "8",
            "gpu": row["driver_name"],
        },
    ]
    assert [answer.get("error") or "" for case in cases for answer in predict([case])] == [""] * len(cases)


def test_a_prediction_that_could_be_anything_gives_no_verdict() -> None:
    run = Run(source=Source(kind="probe"), setup={"model": "7B", "gpu": "H100"}, measured=[measured("step_time_s", 0.1)], complete=True)

    def vague(_cases: object) -> list[dict[str, float]]:
        return [{"predicted": 1.0, "low80": 0.05, "high80": 20.0, "low95": 0.01, "high95": 100.0}]

    (one,) = own_runs.beside(run, vague)
    assert one.verdict == "open"
    assert own_runs.explanations(run, one, vague) == []
    for lang, text in (("en", "within a factor of 100"), ("zh", "100 倍")):
        (line,) = explanation_lines(one, [], lang)
        assert text in line


def test_cards_of_other_names_and_parts_of_cards_stay_what_they_say() -> None:
    assert card_named("NVIDIA A100-SXM4-80GB") == "A100-SXM-80GB"
    assert card_named("NVIDIA A100-SXM4-80GB MIG 3g.40gb") == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert card_named("Abacus 9000") == "Abacus 9000"
    assert card_named("") == ""


def test_what_the_user_says_goes_first() -> None:
    run = with_plan(seen(micro_batch="4"), PLANNED, {"gpu": "H100-SXM-80GB", "micro_batch": "2"})
    assert (run.setup["micro_batch"], run.server["provider"], run.warnings) == ("2", "aws", [])


def test_a_log_gives_the_steps_that_could_not_be_counted(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("\r".join(f"train: {at}/100 [00:{at:02d}<01:00,  2.00it/s]" for at in range(1, 40)))
    silent = Run(source=Source(kind="probe"), warnings=["no steps were counted: not PyTorch"])
    run = with_log(silent, log)
    assert run.value("step_time_s") == 0.5
    assert run.warnings == []
    counted = Run(source=Source(kind="probe"), measured=[measured("step_time_s", 0.1)])
    assert with_log(counted, log).value("step_time_s") == 0.1
    assert "no file" in with_log(silent, tmp_path / "none.log").warnings[-1]
    log.write_text("nothing")
    assert "no progress" in with_log(silent, log).warnings[-1]


# ---- Keras, the profiler -------------------------------------------------------------------------

KERAS = {
    "keras/__init__.py": "",
    "keras/src/__init__.py": "",
    "keras/src/callbacks/__init__.py": "",
    "keras/src/callbacks/callback_list.py": "class CallbackList:\n    def on_train_batch_end(self, batch, logs=None): pass\n",
    "fit.py": (
        "import time\nfrom keras.src.callbacks.callback_list import CallbackList\none = CallbackList()\n"
        "for at in range(60):\n    time.sleep(0.005)\n    one.on_train_batch_end(at)\n"
    ),
}


def test_batches_of_keras_are_steps(project: Path) -> None:
    for name, text in KERAS.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    run = probe([sys.executable, "fit.py"])
    step = next(item for item in run.measured if item.metric == "step_time_s")
    assert step.n == 53
    assert step.value >= 0.005
    assert run.setup["framework"] == "keras"
    assert run.value("data_wait_share") is None  # Keras's own loader is not seen: unknown, not 0


def operators(on_card: bool) -> list[list[Any]]:
    card = 1.0 if on_card else 0.0
    return [
        ["aten::addmm", 0.3, 0.6 * card, 30, 0],
        ["ncclDevKernel_AllReduce", 0.03, 0.3 * card, 3, 0],
        ["ProfilerStep*", 9.0, 9.0 * card, 3, 0],
        ["my_kernel", 0.06, 0.0, 3, 0],
    ]


@pytest.mark.parametrize("lang", LANGS)
def test_operators_are_told_by_kind_where_the_time_is(lang: Any) -> None:
    found = profile_of([{"operators": operators(True), "profiled": 3}])
    assert (found["where"], found["kinds_s"]) == (
        "card",
        {"matrix product": pytest.approx(0.2), "communication": pytest.approx(0.1)},
    )
    on_host = profile_of([{"operators": operators(False), "profiled": 3}])
    assert on_host["where"] == "host"
    assert on_host["kinds_s"]["other"] == pytest.approx(0.02)
    assert "67 %" in profile_lines(Run(source=Source(kind="probe"), profile=found), lang)[0]
    assert profile_of([{"operators": [], "profiled": 0}, {}]) == {}


@pytest.mark.parametrize("lang", LANGS)
def test_every_kind_of_operator_has_a_name(lang: Any) -> None:
    kinds = {row["kind"] for row in table("profile_kinds")} | {kind_of("whatever")}
    profile = {"steps": 3, "where": "host", "kinds_s": dict.fromkeys(kinds, 1.0), "operators": []}
    assert profile_lines(Run(source=Source(kind="probe"), profile=profile), lang)[0].count("%") == len(kinds)


# ---- AMD, DCGM, MIG ------------------------------------------------------------------------------


class Rocm:
    """amdsmi of two cards, the second of which answers in the ways in which amdsmi
    says "not supported"."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        answers: dict[str, Any] = {
            "amdsmi_init": lambda: None,
            "amdsmi_get_processor_handles": lambda: [0, 1],
            "amdsmi_get_gpu_activity": lambda card: {"gfx_activity": [70, "N/A"][card], "umc_activity": [30, 0xFFFF_FFFF][card]},
            "amdsmi_get_gpu_asic_info": lambda card: {"market_name": "AMD Instinct MI300X"},
            "amdsmi_get_power_info": lambda card: {"current_socket_power": "N/A", "average_socket_power": [400, "N/A"][card]},
            "amdsmi_get_gpu_vram_usage": lambda card: {"vram_used": [1024, "N/A"][card]},
        }
        return answers[name]  # type: ignore[no-any-return]


def test_cards_of_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIP_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("ROCR_VISIBLE_DEVICES", raising=False)
    (vendor,) = cards.found_cards(lambda name: Rocm() if name == "amdsmi" else None)
    first, second = vendor.read()
    assert (first.name, first.used_bytes, first.power_w) == ("AMD Instinct MI300X", 2.0**30, 400.0)
    assert first.shares == {"gpu_busy_share": 0.7, "dram_active_share": 0.3}
    assert (second.used_bytes, second.power_w, second.shares) == (None, None, {})
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert [reading.key for reading in vendor.read()] == ["amd1"]


def test_a_library_that_breaks_at_its_import_is_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "amdsmi_broken.py").write_text("print('Unable to find libamd_smi.so')\nraise KeyError('ROCM_HOME')\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert cards.optional("amdsmi_broken") is None
    assert capsys.readouterr().out == ""


DMON = """#Entity   SMACT        TENSO        DRAMA
ID
GPU 0     0.871        0.412        0.655
GPU 1     N/A          1.002        0.100
"""


def test_what_dcgm_prints() -> None:
    shares = cards.dcgm_shares(DMON)
    assert shares["0"] == {"sm_active_share": 0.871, "tensor_active_share": 0.412, "dram_active_share": 0.655}
    assert shares["1"] == {"tensor_active_share": 1.0, "dram_active_share": 0.1}
    assert cards.dcgm_shares("Error: unable to establish a connection") == {}


@pytest.mark.parametrize(("script", "wanted"), [(f"cat <<'E'\n{DMON}E", {"0", "1"}), ("exit 1", set())])
def test_dcgm_is_asked_through_its_own_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, wanted: set[str]) -> None:
    (tmp_path / "dcgmi").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "dcgmi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    dcgm = cards.Dcgm()
    assert set(dcgm.read()) == wanted
    assert dcgm.read() == {}  # a moment later, or after it failed, it is not asked again


class Divided:
    """NVML of a card that is divided into two parts, which know their memory and not their use."""

    def __getattr__(self, name: str) -> Any:
        def undefined(*_: Any) -> Any:
            raise RuntimeError("Not Supported")

        answers: dict[str, Any] = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: "card",
            "nvmlDeviceGetHandleByUUID": lambda word: word,
            "nvmlDeviceGetMigMode": lambda handle: (1, 1) if handle == "card" else undefined(),
            "nvmlDeviceGetMaxMigDeviceCount": lambda handle: 3,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda handle, at: f"part{at}" if at < 2 else undefined(),
            "nvmlDeviceGetMemoryInfo": lambda handle: type("Info", (), {"used": 3 * 2**30}),
            "nvmlDeviceGetName": lambda handle: "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
            "nvmlDeviceGetUtilizationRates": lambda handle: type("Rates", (), {"gpu": 100}),
        }
        return answers.get(name, undefined)


def test_parts_of_a_card_tell_memory_and_no_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (vendor,) = cards.found_cards(lambda name: Divided() if name == "pynvml" else None)
    found = vendor.read()
    assert [(one.key, one.is_part, one.used_bytes, dict(one.shares)) for one in found] == [
        (f"0/{at}", True, 3 * 2**30, {}) for at in range(2)
    ]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1234")
    assert [(one.key, one.is_part) for one in vendor.read()] == [("MIG-1234", True)]


# ---- the command ---------------------------------------------------------------------------------


def test_the_command_shows_the_plan_beside_the_run(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bounds = {"mid": 1.0, "low80": 0.9, "high80": 1.1, "low95": 0.8, "high95": 1.2, "source": "calibrated"}
    option: dict[str, Any] = {
        "rank": 1,
        "provider": "aws",
        "region": "us-east-1",
        "instance_type": "m7i.large",
        "nodes": 1,
        "purchase": "on-demand",
    }
    option |= {
        "accelerator": {"name": "", "count_per_node": 0, "memory_bytes": 0},
        "layout": {"micro_batch": 4},
        "estimate": {"step_s": bounds},
        "cost": {"hourly_usd": 1.0},
    }
    (project / "plan.json").write_text(
        json.dumps({"schema_version": 1, "workload": {"task": "finetune", "model": "7B"}, "options": [option]})
    )
    command = ["--", sys.executable, "train.py", "40", "0.001", "0.004", "1"]
    assert run_cli(["probe", "--plan", "plan.json", "--out", "run.json", *command]) == 0
    shown = capfd.readouterr().err
    assert "1 (plan)" in shown
    assert "below" in shown
    record = json.loads((project / "run.json").read_text())
    assert (record["server"]["instance_type"], record["setup"]["model"], record["workload"]["task"]) == ("m7i.large", "7B", "finetune")
    (project / "wish.yaml").write_text("model: 7B\nmethod: lora\ndata: 10Mtok\n")
    assert run_cli(["probe", "--file", "wish.yaml", "--out", "run.json", "-q", *command]) == 0
    assert json.loads((project / "run.json").read_text())["setup"]["method"] == "lora"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--plan", "none.json", "--", "true"], "none.json"),
        (["--ttft", "1s", "--", "true"], "--ttft is for load tests"),
        (["--plan", "a.json", "--file", "b.yaml", "--", "true"], "--plan or --file"),
        (["--url", "http://127.0.0.1:1", "--deep"], "--url tests an endpoint"),
    ],
)
def test_wrong_calls_end_in_one_line(project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert run_cli(["probe", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_a_full_disk_costs_the_record_and_not_the_run(project: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    command = [
        sys.executable,
        "-m",
        "rightfit",
        "probe",
        "--out",
        "/dev/full/run.json",
        "--",
        sys.executable,
        "train.py",
        "30",
        "0",
        "0.002",
        "1",
    ]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.stdout == "done\n"
    assert found.returncode == 3
    assert "cannot write" in found.stderr


def test_a_disk_that_is_really_full_ends_in_one_line(project: Path, tmp_path: Path) -> None:
    """A file system of 128 KiB, filled: the record and everything temporary have no room; the
    command runs to its end."""
    place = tmp_path / "full"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        with contextlib.suppress(OSError), (place / "filling").open("wb", buffering=0) as filling:
            while True:
                filling.write(bytes(4096))
        words = ["probe", "--out", str(place / "run.json"), "--", sys.executable, "-c", "print('to the end')"]
        environment = {**os.environ, "TMPDIR": str(place), "PYTHONPATH": str(Path(rightfit.__file__).parent.parent), "LANG": "C.UTF-8"}
        done = subprocess.run(
            [sys.executable, "-m", "rightfit", *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.stdout == "to the end\n"
        assert done.returncode == 3
        assert [line for line in done.stderr.splitlines() if line.startswith("error:")] == [
            f"error: cannot write {place / 'run.json'}: No space left on device"
        ]
        assert "host memory" in done.stderr
        kept = [line for line in done.stderr.splitlines() if "was saved to" in line]
        assert read_runs(kept[0].split(" to ")[1].removesuffix(" instead"))[0].exit_code == 0
        assert "Traceback" not in done.stderr
        assert sorted(path.name for path in place.iterdir()) == ["filling"]
    finally:
        subprocess.run(["umount", str(place)], check=False)


@pytest.mark.parametrize("places", [["--out"], ["--keep"], ["--out", "--keep"], ["--out", "--keep", "--quiet"]], ids=" ".join)
@pytest.mark.parametrize("command", ["probe", "ingest"])
def test_what_was_measured_is_shown_and_kept_where_its_place_takes_nothing(
    places: list[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    (tmp_path / "run.log").write_text("10/20 [00:10<00:10, 1.25s/it]\n" * 20)
    monkeypatch.setenv("RIGHTFIT_RUNS", str(tmp_path / "file" / "runs.sqlite"))
    words = [word for place in places for word in ([place, str(tmp_path / "file" / "run.json")] if place == "--out" else [place])]
    measured_of = ["--log", "run.log", "--", sys.executable, "-c", ""] if command == "probe" else ["run.log"]
    assert run_cli([command, *words, *measured_of]) == 3
    said = capfd.readouterr()
    assert "1.25" in said.err + said.out or "--quiet" in places
    kept = list(tmp_path.glob("rightfit-run-*.json"))
    assert len(kept) == 1
    assert str(kept[0]) in said.err
    assert read_runs(kept[0])[0].value("step_time_s") == pytest.approx(1.25)


def test_where_no_place_has_room_the_record_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text("10/20 [00:10<00:10, 1.25s/it]\n" * 20)
    refuse = UnavailableError("cannot write: No space left on device")

    def full(*_: object) -> None:
        raise refuse

    monkeypatch.setattr(record, "write_whole", full)
    assert run_cli(["ingest", "run.log", "--out", "run.json"]) == 3
    said = capfd.readouterr().err
    assert json.loads(said[said.index("{") : said.rindex("}") + 1])["steps"]["step_s"]["mid"] == pytest.approx(1.25)
