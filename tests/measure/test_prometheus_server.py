"""A real Prometheus with an hour of made history: figures are those of the law that made it, in the
window that is asked for."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit.cli.run import run as run_cli
from rightfit.errors import AmbiguousNameError, FileInputError, InputError, NetworkError
from rightfit.measure.ingest import ingest
from rightfit.measure.readers.item import Definitions
from rightfit.measure.record import Run

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMTOOL is None or PROMETHEUS is None, reason="Prometheus is not installed (Debian package prometheus)")

ENDED = 1_750_000_000  # the history is of then, so that nothing depends on the clock
EVERY_S, SPAN_S = 15, 3600
CARDS = ("GPU-a", "GPU-b")
#: Gauges by time in the hour [s]: the card is idle for ten minutes, then busy; memory peaks for one
#: scrape alone; one value means "not supported".
BUSY = lambda at: 0 if at < 600 else 90  # noqa: E731
USED_MIB = lambda at: 61_440 if at == 1800 else 40_960  # noqa: E731
TOKENS_PER_S, REQUESTS_PER_S, FIRST_S = 400.0, 2.0, 0.12


def history() -> str:
    """The hour as OpenMetrics. The server of the model starts anew after half an hour: its counters
    begin at zero again."""
    moments = range(0, SPAN_S + 1, EVERY_S)
    lines: list[str] = []

    def gauge(name: str, labels: str, law: object) -> None:
        lines.extend(f"{name}{{{labels}}} {law(at)} {ENDED - SPAN_S + at}" for at in moments)  # type: ignore[operator]

    def family(name: str, kind: str) -> None:
        lines.append(f"# TYPE {name} {kind}")

    for name, law in (("DCGM_FI_DEV_GPU_UTIL", BUSY), ("DCGM_FI_DEV_FB_USED", USED_MIB), ("DCGM_FI_PROF_SM_ACTIVE", lambda _: 2**63 - 14)):
        family(name, "gauge")
        for card in CARDS:
            gauge(name, f'UUID="{card}",modelName="NVIDIA A100-SXM4-80GB",Hostname="node-1"', law)

    def counted(at: int, rate: float) -> float:
        return rate * (at if at < 1800 else at - 1800)

    family("vllm:generation_tokens", "counter")
    gauge("vllm:generation_tokens_total", 'model_name="tiny"', lambda at: counted(at, TOKENS_PER_S))
    family("vllm:request_success", "counter")
    gauge("vllm:request_success_total", 'model_name="tiny"', lambda at: counted(at, REQUESTS_PER_S))
    family("vllm:time_to_first_token_seconds", "histogram")
    for edge, share in (("0.1", 0.0), ("0.25", 1.0), ("+Inf", 1.0)):
        gauge(
            "vllm:time_to_first_token_seconds_bucket",
            f'model_name="tiny",le="{edge}"',
            lambda at, share=share: share * counted(at, REQUESTS_PER_S),
        )
    gauge("vllm:time_to_first_token_seconds_sum", 'model_name="tiny"', lambda at: FIRST_S * counted(at, REQUESTS_PER_S))
    gauge("vllm:time_to_first_token_seconds_count", 'model_name="tiny"', lambda at: counted(at, REQUESTS_PER_S))
    family("vllm:kv_cache_usage_perc", "gauge")
    gauge("vllm:kv_cache_usage_perc", 'model_name="tiny"', lambda at: 0.5)
    family("vllm:gpu_cache_usage_perc", "gauge")  # the old name beside the new one, as dashboards met it
    gauge("vllm:gpu_cache_usage_perc", 'model_name="tiny"', lambda at: 0.5)
    family("vllm:num_requests_running", "gauge")
    gauge("vllm:num_requests_running", 'model_name="other"', lambda at: 1)
    return "\n".join([*lines, "# EOF", ""])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "history.txt").write_text(history())
    (folder / "prometheus.yml").write_text("global: {}\n")
    made = subprocess.run(
        [str(PROMTOOL), "tsdb", "create-blocks-from", "openmetrics", "history.txt", "data"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(PROMETHEUS), "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--storage.tsdb.retention.time=100y"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], cwd=folder, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            assert process.poll() is None, (folder / "log").read_text()
            try:
                urllib.request.urlopen(f"{address}/-/ready", timeout=5).read()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(20)


def asked(server: str, **more: object) -> Run:
    (run,) = ingest(server, definitions=Definitions(**{"until": ENDED, "match": 'model_name!="other"', **more}))  # type: ignore[arg-type]
    return run


def test_an_hour_is_read_as_it_was_made(server: str) -> None:
    run = asked(server)
    assert (run.source.kind, run.source.tool) == ("prometheus-server", "dcgm+vllm")
    assert run.setup == {"model": "tiny", "gpu": "A100-SXM-80GB", "n_gpus": "2"}
    found = {(item.metric, item.statistic): item.value for item in run.measured}
    assert found["gpu_busy_share", "mean"] == pytest.approx(0.9 * 5 / 6, rel=0.02)
    assert found["peak_mem_gib_per_gpu", "max"] == 60.0  # one scrape of 240 had it
    assert found["output_tok_per_s_total", "mean"] == pytest.approx(TOKENS_PER_S, rel=0.02)  # the restart costs one interval
    assert found["req_per_s", "mean"] == pytest.approx(REQUESTS_PER_S, rel=0.02)
    assert found["ttft_ms", "mean"] == pytest.approx(1e3 * FIRST_S, rel=1e-6)
    assert found["kv_cache_used_share", "max"] == 0.5  # never added to that of its old name
    assert "sm_active_share" not in {item.metric for item in run.measured}
    first = next(item for item in run.measured if item.metric == "ttft_ms")
    assert first.n == pytest.approx(REQUESTS_PER_S * SPAN_S, rel=0.02)


def test_a_part_of_the_hour_is_that_part(server: str) -> None:
    idle = asked(server, until=ENDED - SPAN_S + 590, last_s=500.0)
    assert idle.value("gpu_busy_share") == 0.0
    late = asked(server, last_s=900.0)
    assert late.value("gpu_busy_share") == pytest.approx(0.9)
    assert late.value("peak_mem_gib_per_gpu") == 40.0
    counted = next(item.n for item in late.measured if item.metric == "ttft_ms")
    assert counted == pytest.approx(900 * REQUESTS_PER_S, rel=0.03)  # and not all since the server started


def test_several_models_are_a_question(server: str) -> None:
    with pytest.raises(AmbiguousNameError, match=r"--match 'model_name=\"other\"'"):
        asked(server, match="")


@pytest.mark.parametrize(
    ("wish", "error", "says"),
    [
        ({"until": ENDED + 10 * SPAN_S}, FileInputError, "no DCGM, vLLM"),
        ({"match": 'model_name="nobody"'}, FileInputError, "no DCGM, vLLM"),
        ({"match": "what is this"}, InputError, "--match"),
    ],
)
def test_windows_and_labels_without_a_figure(server: str, wish: dict[str, object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        asked(server, **wish)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_gone_or_another() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://user:secret@127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(NetworkError, match="cannot read") as caught:
        ingest(address)
    assert "secret" not in str(caught.value)


def test_the_command_and_an_answer_that_was_saved(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.json"
    window = ["--until", "2025-06-15T15:06:40Z", "--last", "1h", "--match", 'model_name!="other"']
    assert run_cli(["ingest", server, *window, "--out", str(out), "-q"]) == 0
    assert json.loads(out.read_text())["source"]["kind"] == "prometheus-server"
    query = f"{server}/api/v1/query_range?query=DCGM_FI_DEV_GPU_UTIL&start={ENDED - 900}&end={ENDED}&step=15"
    assert ingest(query)[0].value("gpu_busy_share") == pytest.approx(0.9)
    capsys.readouterr()
    for words, says in ((["--last", "soon"], "--last"), (["--last", "1s"], "1 min"), (["--until", "noon"], "--until")):
        assert run_cli(["ingest", server, *words]) == 2
        assert says in capsys.readouterr().err
    assert run_cli(["resize", str(out), "--format", "json", "-q", "--lang", "en"]) in (0, 2)
