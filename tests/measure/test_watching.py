"""A run that is followed: how far, until when, for how much, and what is wrong; from processes,
exporters, trackers and logs."""

from __future__ import annotations

import http.client
import json
import os
import socketserver
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rightfit.cli.run import run as run_cli
from rightfit.errors import FileInputError, InputError, NetworkError, UnavailableError
from rightfit.estimation.figures import Figure
from rightfit.explain import run_text
from rightfit.explain.messages import topic
from rightfit.measure.watching import judging
from rightfit.measure.watching.judging import Expected, Finding, State, expected_of, growth_per_s, judge
from rightfit.measure.watching.sources import LastStep, Look, exporter_source, history_of, since, source_of
from rightfit.messages import LANGS
from rightfit.units import GIB
from rightfit.web.watch_page import WatchServer

STEP = Figure(10.0, 8.0, 13.0, 7.0, 17.0)
PLAN = Expected(
    "1 x aws/p5", figures={"step_s": STEP}, steps=1000, startup_s=60.0, usd_per_h=36.0, capacity_bytes=80 * GIB, host_bytes=64 * GIB
)


def codes(state: State) -> list[str]:
    return [finding.code for finding in state.findings]


def test_what_is_left_and_what_it_costs_follow_the_steps_measured() -> None:
    look = Look(at_s=0.0, step=200, intervals=(10.0,) * 200, elapsed_s=2100.0, since_step_s=3.0)
    state = judge([look], PLAN)
    assert state.share == 0.2
    assert state.left_s is not None
    assert state.usd is not None
    assert (state.left_s.mid, state.left_s.source) == (8000.0, "measured")
    assert (state.spent_usd, state.usd.mid) == (pytest.approx(21.0), pytest.approx(101.0))
    assert codes(state) == []


def test_before_the_steps_have_settled_the_plan_speaks() -> None:
    state = judge([Look(at_s=0.0, step=4, intervals=(30.0,) * 4, elapsed_s=100.0)], PLAN)
    assert state.left_s is not None
    assert (state.left_s.mid, state.left_s.low80, state.left_s.high80, state.left_s.source) == (9960.0, 7968.0, 12948.0, "calibrated")
    assert codes(state) == []  # four slow steps are no verdict


@pytest.mark.parametrize(("step_s", "wanted"), [(18.0, ["step_s_above"]), (16.0, []), (6.0, ["step_s_below"])])
def test_leaving_the_interval(step_s: float, wanted: list[str]) -> None:
    assert codes(judge([Look(at_s=0.0, step=50, intervals=(step_s,) * 50, since_step_s=1.0)], PLAN)) == wanted


def test_a_noisy_step_time_leaves_the_interval_only_when_that_is_sure() -> None:
    noisy = tuple(5.0 if at % 2 else 31.0 for at in range(30))  # mean 18 with a standard error of 2.4
    assert codes(judge([Look(at_s=0.0, step=30, intervals=noisy, since_step_s=1.0)], PLAN)) == []


def test_a_stall_is_longer_than_ten_steps_and_than_any_pause_so_far() -> None:
    def at(since_s: float, *pauses: float) -> list[str]:
        return codes(judge([Look(at_s=0.0, step=50, intervals=(10.0,) * 49 + pauses, since_step_s=since_s)], PLAN))

    assert at(90.0) == []
    assert at(130.0) == ["stall"]
    assert at(130.0, 60.0) == []  # a checkpoint took a minute once
    ended = Look(at_s=0.0, step=50, intervals=(10.0,) * 49, since_step_s=9999.0, is_alive=False)
    assert codes(judge([ended], PLAN)) == []


def test_a_run_that_never_steps() -> None:
    assert codes(judge([Look(at_s=0.0, elapsed_s=300.0)], PLAN)) == []
    assert codes(judge([Look(at_s=0.0, elapsed_s=600.0)], PLAN)) == ["no_steps"]


def looks(*bytes_: float, every_s: float = 30.0, name: str = "host_memory_bytes") -> list[Look]:
    return [Look(at_s=every_s * at, figures={name: value}) for at, value in enumerate(bytes_)]


def test_memory_that_grows_all_the_time_is_a_leak_and_says_when_it_is_full() -> None:
    leaking = looks(*(8 * GIB + at * 0.1 * GIB for at in range(60)))
    state = judge(leaking, PLAN)
    assert codes(state) == ["leak"]
    figures = state.findings[0].figures
    assert figures["bytes_per_h"] == pytest.approx(12 * GIB, rel=0.01)
    assert figures["full_in_s"] == pytest.approx((64 - 13.9) / 12 * 3600, rel=0.02)


@pytest.mark.parametrize(
    "values",
    [
        [8.0 + min(at, 19) for at in range(60)],  # fills a cache, then stays
        [8.0 + (at % 7) for at in range(60)],  # breathes
        [8.0 + at * 0.001 for at in range(60)],  # under a twentieth
        [8.0 + at for at in range(15)],  # too few looks
    ],
)
def test_memory_that_settles_or_breathes_is_no_leak(values: list[float]) -> None:
    assert growth_per_s([(30.0 * at, value) for at, value in enumerate(values)]) == 0.0


def test_a_short_time_says_nothing_of_leaks() -> None:
    assert growth_per_s([(float(at), 8.0 + at) for at in range(60)]) == 0.0


def test_waste_is_said_in_money() -> None:
    def of(**figures: float) -> list[Finding]:
        return list(judge([Look(at_s=0.0, step=50, intervals=(10.0,) * 50, figures=figures, since_step_s=1.0)], PLAN).findings)

    waiting = of(data_wait_share=0.25)
    assert [(one.code, one.figures["wasted_usd_per_h"]) for one in waiting] == [("rule_input", 9.0)]
    assert [(one.code, one.figures["wasted_usd_per_h"]) for one in of(data_wait_share=0.0, gpu_busy_share=0.5)] == [("rule_idle", 18.0)]
    assert of(data_wait_share=0.05, gpu_busy_share=0.9) == []


def test_cards_that_do_nothing() -> None:
    idle = [Look(at_s=10.0 * at, figures={"gpu_busy_share": 0.0}) for at in range(40)]
    assert "idle_cards" in codes(judge(idle, PLAN))
    assert "idle_cards" not in codes(judge(idle[:20], PLAN))  # still loading
    assert "idle_cards" not in codes(judge([*idle, Look(at_s=400.0, figures={"gpu_busy_share": 0.9})], PLAN))


def test_a_card_that_is_nearly_full_and_one_that_its_framework_filled() -> None:
    full = {"card_memory_bytes": 79.0 * GIB}
    assert codes(judge([Look(at_s=0.0, figures=full)], PLAN)) == ["card_memory_bytes_near"]
    assert codes(judge([Look(at_s=0.0, figures={**full, "preallocates": 1.0})], PLAN)) == []


def test_a_clock_that_is_set_makes_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    last = LastStep()
    assert last.since(None, 0.0) is None
    assert last.since(5, 10.0, known_s=4.0) == 4.0
    assert last.since(5, 30.0, known_s=-86_400.0) == 24.0  # the wall clock went back a day: not asked any more
    assert last.since(6, 31.0, known_s=86_400.0) == 0.0
    assert LastStep().since(5, 10.0, known_s=-50.0) == 0.0


# ---- words, metrics, page ------------------------------------------------------------------------


def every_finding() -> list[Finding]:
    """One finding of each code with every figure that its words may name."""
    figures = dict.fromkeys(("throttled_share", "data_wait_share", "gpu_busy_share", "kv_cache_used_share", "error_share"), 0.5)
    figures |= dict.fromkeys(("now", "low95", "high95", "ratio", "since_s", "limit_s", "queue_len", "preemptions_per_s"), 2.0)
    figures |= dict.fromkeys(("now_bytes", "limit_bytes", "bytes_per_h"), GIB)
    return [Finding(code, figures) for code in judging.CODES]


@pytest.mark.parametrize("lang", LANGS)
def test_every_finding_has_words_and_no_word_lacks_a_finding(lang: Any) -> None:
    lines = [run_text.finding_line(finding, lang) for finding in every_finding()]
    assert len(set(lines)) == len(lines)
    assert all(line[-1] in ".?。？" for line in lines)
    said = {name.removeprefix("finding_") for name in topic("watch") if name.startswith("finding_")} - {"leak_full"}
    assert said == set(judging.CODES)


def test_every_code_that_judging_gives_is_a_series_of_its_own() -> None:
    source = Path(judge.__code__.co_filename).read_text(encoding="utf-8")
    assert all(f'"{code}"' in source for code in ("stall", "no_steps", "leak", "idle_cards"))
    everything = [
        *looks(*(60 * GIB + at * 0.1 * GIB for at in range(60))),
        Look(
            at_s=2000.0,
            step=50,
            intervals=(18.0,) * 50,
            since_step_s=900.0,
            figures={"data_wait_share": 0.3, "card_memory_bytes": 90 * GIB, "host_memory_bytes": 67 * GIB},
        ),
    ]
    given = codes(judge(everything, PLAN))
    assert {"step_s_above", "stall", "leak", "rule_input", "card_memory_bytes_near", "host_memory_bytes_near"} <= set(given)
    assert set(given) <= set(judging.CODES)


def state_of_a_run() -> State:
    figures = {"data_wait_share": 0.25, "host_memory_bytes": 8.0 * GIB}
    return judge([Look(at_s=0.0, step=200, intervals=(18.0,) * 200, elapsed_s=3600.0, since_step_s=1.0, figures=figures)], PLAN)


def test_prometheus_reads_plan_and_real_side_by_side() -> None:
    text = judging.exposition(state_of_a_run())
    found = {(one.name, tuple(one.labels.items())): one.value for family in text_string_to_metric_families(text) for one in family.samples}
    assert found["rightfit_step_seconds", ()] == 18.0
    assert found["rightfit_step_seconds_planned", (("bound", "high95"),)] == 17.0
    assert found["rightfit_finding", (("code", "step_s_above"),)] == 1.0
    assert found["rightfit_finding", (("code", "stall"),)] == 0.0
    assert found["rightfit_spent_usd", ()] == pytest.approx(36.0)
    assert found["rightfit_data_wait_share", ()] == 0.25
    assert found["rightfit_left_seconds", (("bound", "mid"),)] == pytest.approx(800 * 18.0)


def read(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_page_its_data_and_the_metrics() -> None:
    with WatchServer("127.0.0.1", 0, "train <b>", "en") as server:
        assert read(f"http://{server.place}/")[0] == 503
        for _ in range(3):
            server.show(state_of_a_run())
        status, page = read(f"http://{server.place}/")
        assert status == 200
        assert "train &lt;b&gt;" in page
        assert "Slower than the plan" in page
        assert "<svg" in page
        assert "慢于方案" in read(f"http://{server.place}/?lang=zh")[1]
        assert "rightfit_step_seconds 18.0" in read(f"http://{server.place}/metrics")[1]
        assert json.loads(read(f"http://{server.place}/state.json")[1])["findings"][0]["code"] == "step_s_above"
        assert read(f"http://{server.place}/../etc/passwd")[0] == 404
        with pytest.raises(UnavailableError, match="cannot listen"):
            WatchServer("127.0.0.1", int(server.place.rpartition(":")[2]), "other", "en")


# ---- what a plan says ----------------------------------------------------------------------------


def test_a_plan_s_option_and_one_that_it_lacks() -> None:
    bounds = {"mid": 1.0, "low80": 0.9, "high80": 1.1, "low95": 0.8, "high95": 1.2, "source": "calibrated"}
    option = {
        "rank": 1,
        "provider": "aws",
        "instance_type": "p5",
        "nodes": 2,
        "estimate": {"step_s": bounds, "broken": {"mid": None}},
        "cost": {"hourly_usd": 40.0},
        "facts": {"steps": 100, "capacity_bytes": 1e9},
        "memory_bytes": 5e9,
    }
    found = expected_of({"workload": {"task": "finetune"}, "options": [option]}, 1)
    assert (found.server, found.steps, found.usd_per_h, found.host_bytes) == ("2 x aws/p5", 100.0, 40.0, 5e9)
    assert set(found.figures) == {"step_s"}
    with pytest.raises(FileInputError, match="no option 2; it has 1"):
        expected_of({"options": [option]}, 2)


# ---- where looks come from -----------------------------------------------------------------------


@pytest.fixture
def place(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose temporary files are its own, so that no other probe is seen."""
    monkeypatch.setenv("TMPDIR", str(project))
    monkeypatch.setattr("tempfile.tempdir", str(project))
    return project


@pytest.fixture
def probed(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A loop of a hundred thousand steps under rightfit probe."""
    paths = os.pathsep.join([str(place), *sys.path])
    command = [sys.executable, "-m", "rightfit", "probe", "-q", "--", sys.executable, "train.py", "100000", "0.004", "0.01", "1"]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.DEVNULL) as process:
        yield process
        process.terminate()
        process.wait(30)


def followed(target: str) -> Look:
    """A look at which steps are known."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            look = source_of(target).look()
        except InputError:
            look = None
        if look is not None and look.step and len(look.intervals) > 30:
            return look
        time.sleep(0.5)
    raise AssertionError("no steps were seen in 30 s")


def test_the_probe_that_runs_is_found_and_its_steps_are_seen(probed: subprocess.Popen[bytes]) -> None:
    look = followed("")
    assert look.is_alive
    assert 0.2 < look.figures["data_wait_share"] < 0.5
    assert look.figures["host_memory_bytes"] > 2**20
    assert look.elapsed_s is not None
    assert followed(str(probed.pid)).step  # the probe's own number leads to its command as well


def test_a_run_that_ends_is_said_to_have_ended(project: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"]) as process:
        source = source_of(str(process.pid))
        assert source.look().is_alive
        process.wait()
    assert not source.look().is_alive


@pytest.mark.parametrize(
    ("target", "error", "text"),
    [
        ("99999999", InputError, "no process 99999999"),
        ("/no/such/place", InputError, "nothing to watch"),
        ("http://", InputError, "is not a URL"),
        ("", InputError, "nothing to watch"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_one_line(place: Path, target: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        source_of(target)


def test_a_folder_without_a_history_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(FileInputError, match="no known run history"):
        source_of(str(tmp_path))


BAR = "\r".join(f"loss: 12%| | {at}/100 [00:{at:02d}<01:00,  2.00it/s]" for at in range(1, 40))
MEGATRON = "\n".join(f" iteration {at:8d}/    1000 | elapsed time per iteration (ms): 1500.0 | loss" for at in range(1, 40))
TRAINER_LOG = "\n".join(json.dumps({"current_steps": at, "total_steps": 80, "elapsed_time": f"0:00:{at:02d}"}) for at in range(1, 50))
STATE = json.dumps({"log_history": [], "global_step": 40, "max_steps": 80})


@pytest.mark.parametrize(
    ("name", "text", "step", "whole", "interval"),
    [
        ("train.log", BAR, 39, 100, 0.5),
        ("slurm-1.out", MEGATRON, 39, 1000, 1.5),
        ("trainer_log.jsonl", TRAINER_LOG, 49, 80, 1.0),
        ("checkpoint-40/trainer_state.json", STATE, 40, 80, None),
    ],
)
def test_logs_and_trainers_tell_steps(tmp_path: Path, name: str, text: str, step: int, whole: int, interval: float | None) -> None:
    place = tmp_path / "run" / name
    place.parent.mkdir(parents=True)
    place.write_text(text)
    for target in (place, place.parent):
        if name == "trainer_log.jsonl" and target is not place:
            continue
        found = history_of(target)
        assert (found.step, found.whole) == (step, whole)
        assert (found.intervals[-1] if found.intervals else None) == interval


PAGE = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{model_name="m"}} 7
vllm:num_requests_waiting{{model_name="m"}} {waiting}
vllm:kv_cache_usage_perc{{model_name="m"}} {cache}
vllm:num_preemptions_total{{model_name="m"}} {preempted}
vllm:time_to_first_token_seconds_bucket{{le="0.1",model_name="m"}} {fast}
vllm:time_to_first_token_seconds_bucket{{le="1.0",model_name="m"}} {all}
vllm:time_to_first_token_seconds_bucket{{le="+Inf",model_name="m"}} {all}
vllm:time_to_first_token_seconds_sum{{model_name="m"}} {total}
vllm:time_to_first_token_seconds_count{{model_name="m"}} {all}
process_start_time_seconds 1000
"""


class Exporter(socketserver.ThreadingTCPServer):
    """A page of metrics that changes."""

    allow_reuse_address, daemon_threads = True, True
    text = ""


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = server.text.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with Exporter(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_service_is_judged_by_what_happened_since_the_last_look(exporter: Exporter) -> None:
    source = exporter_source(f"http://127.0.0.1:{exporter.server_address[1]}")
    exporter.text = PAGE.format(waiting=0, cache=0.2, preempted=0, fast=1000, all=1000, total=50.0)
    quiet = source.look()
    assert quiet.figures["ttft_s"] == pytest.approx(0.05)
    exporter.text = PAGE.format(waiting=9, cache=0.95, preempted=3, fast=1000, all=1100, total=110.0)
    time.sleep(0.05)
    busy = source.look()
    assert busy.figures["ttft_s"] == pytest.approx(0.6)  # of the hundred since, not of the eleven hundred in all
    assert busy.figures["preemptions_per_s"] > 0
    plan = Expected(is_service=True, figures={"ttft_p95_s": Figure(0.1, 0.08, 0.2, 0.05, 0.3)}, usd_per_h=2.0)
    assert codes(judge([quiet, busy], plan)) == ["ttft_p95_s_above", "rule_cache"]
    exporter.text = "hello 1\n"
    with pytest.raises(InputError, match="none from DCGM, vLLM"):
        source.look()


def test_an_exporter_that_is_gone_and_one_that_started_anew(exporter: Exporter) -> None:
    with pytest.raises(NetworkError, match=r"cannot read http://127\.0\.0\.1:1/metrics"):
        exporter_source("http://user:password@127.0.0.1:1").look()
    from rightfit.measure.readers.prometheus import Sample

    before, now = Sample("x_count", {}, 100.0, 1.0), Sample("x_count", {}, 7.0, 2.0)
    assert since([before], [now]) == [now]


def test_the_command_once_as_json_and_following_to_the_end(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.log").write_text(BAR)
    assert run_cli(["watch", "train.log", "--once", "--format", "json", "--usd-per-hour", "3.6"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["step"], found["steps"], found["left_s"]["mid"]) == (39, 100, pytest.approx(30.5))
    assert found["cost_usd"]["mid"] == pytest.approx(found["spent_usd"] + 0.0305, rel=0.01)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(2)"]) as process:
        threading.Thread(target=process.wait, daemon=True).start()
        assert run_cli(["watch", str(process.pid), "--every", "1s"]) == 0
    assert "ended" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--every", "soon"], "--every"),
        (["--every", "5h"], "allowed 1s to 1h"),
        (["--listen", "here"], "is not a port"),
        (["--plan", "nothing.json"], "nothing.json"),
    ],
)
def test_wrong_options_end_in_one_line(project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    (project / "train.log").write_text(BAR)
    assert run_cli(["watch", "train.log", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost", 200), ("[::1]:80", 200), ("evil.example.com", 421), ("127.0.0.1.evil.com:80", 421), ("", 421)],
)
@pytest.mark.parametrize("path", ["/", "/metrics", "/state.json", "/other"])
def test_the_page_answers_to_this_machine_s_name_alone_and_loads_nothing(host: str, status: int, path: str) -> None:
    with WatchServer("127.0.0.1", 0, "train", "en") as server:
        server.show(state_of_a_run())
        connection = http.client.HTTPConnection(server.place, timeout=10)
        connection.request("GET", path, headers={"Host": host})
        answer = connection.getresponse()
        body = answer.read().decode()
        assert answer.status == (404 if status == 200 and path == "/other" else status)
        assert "default-src 'none'" in str(answer.getheader("Content-Security-Policy"))
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert ("step" in body) is (answer.status == 200)
        connection.close()


def test_of_two_runs_in_a_folder_the_live_one_is_followed(tmp_path: Path) -> None:
    """Of whatever tracker: an old run of one kind stands before a live one of another."""
    from tests.measure.test_readers import tensorboard_file, wandb_file

    def put(name: str, content: bytes, at: float) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (at, at))

    put("wandb/run-old.wandb", wandb_file(steps=90, interval_s=0.1), 1e9)
    assert history_of(tmp_path).step == 89
    put("logs/one/events.out.tfevents.1.h", tensorboard_file(steps=60, interval_s=0.25), 1.8e9)
    put("logs/two/events.out.tfevents.2.h", _later(tensorboard_file(steps=30, interval_s=0.5)), 1.9e9)
    found = history_of(tmp_path)
    assert (found.step, found.intervals[-1]) == (29, pytest.approx(0.5))


def _later(events: bytes) -> bytes:
    """The same events a year later."""
    import struct

    found, at = b"", 0
    while at < len(events):
        (size,) = struct.unpack_from("<Q", events, at)
        event = events[at + 12 : at + 12 + size]
        (wall,) = struct.unpack("<d", event[1:9])
        found += events[at : at + 12] + event[:1] + struct.pack("<d", wall + 3e7) + event[9:] + events[at + 12 + size : at + 16 + size]
        at += 16 + size
    return found
