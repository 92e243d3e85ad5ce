"""promtool reads the exported settings and rules; a real Prometheus on a stand-in for the cards'
exporter fires its alerts and draws the dashboard's curves."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import files, hostile, job, taken

from rightfit.estimation.figures import Figure
from rightfit.measure.watching.judging import Expected, exposition, judge
from rightfit.measure.watching.sources import Look

PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian package prometheus)")
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def promtool(folder: Path, *words: str) -> None:
    found = subprocess.run([str(PROMTOOL), *words], cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("name", taken("prometheus"))
def test_settings_and_rules_are_read(name: str, tmp_path: Path) -> None:
    for maker in (files, hostile):
        for path, text in maker("prometheus", name).items():
            (tmp_path / path).write_text(text, encoding="utf-8")
        promtool(tmp_path, "check", "config", "prometheus.yml")
        promtool(tmp_path, "check", "rules", "alerts.yml")


def rules_of(name: str) -> dict[str, Any]:
    found = yaml.safe_load(files("prometheus", name)["alerts.yml"])["groups"][0]["rules"]
    return {rule.get("alert") or rule["record"]: rule for rule in found}


def limit(rule: dict[str, Any]) -> float:
    """The figure at the end of an alert's condition."""
    return float(re.findall(r"[<>]=? ([\d.e+-]+)", rule["expr"])[-1])


BUSY, HELD, HOT, ERRORS = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_XID_ERRORS"


def series(name: str, metric: str, values: str, cards: int = 1) -> list[dict[str, str]]:
    plan = job(name).plan_id
    return [{"series": f'{metric}{{gpu="{card}", rightfit_plan="{plan}"}}', "values": values} for card in range(cards)]


def finding(name: str, code: str) -> list[dict[str, str]]:
    """A finding of `rightfit watch` that begins to hold half-way, beside one that
    holds all the time."""
    other = f'rightfit_finding{{code="rule_input", rightfit_plan="{job(name).plan_id}"}}'
    return [{"series": other.replace("rule_input", code), "values": "0x60 1x60"}, {"series": other, "values": "1x120"}]


def test_each_rule_fires_on_what_it_is_meant_for_and_not_before(tmp_path: Path) -> None:
    """promtool's own unit tests of rules: first half within the plan, second half beyond it."""
    name = "full-8b-gcp"
    rules, plan = rules_of(name), job(name)
    assert set(rules) >= {"GpuHot", "GpuErrors", "GpuMemoryHigh", "GpuLost", "CostRateHigh", "DataStall", "GpuIdle"}
    assert set(rules) >= {"StepsSlow", "RunStalled", "MemoryLeak"}
    slow = plan.option.estimate["step_s"].high95
    high, cards = limit(rules["GpuMemoryHigh"]), plan.num_gpus
    peak = plan.option.estimate["peak_memory_bytes"].mid / 1024**2
    inputs = {
        "GpuHot": series(name, HOT, "60x60 95x60"),
        "GpuErrors": series(name, ERRORS, "0x60 1x60"),
        "GpuMemoryHigh": series(name, HELD, f"{high - 100:.0f}x60 {high + 100:.0f}x60"),
        "GpuLost": series(name, HOT, "60x60 _x60") + (series(name, HOT, "60x120", cards)[1:] if cards > 1 else []),
        "CostRateHigh": series(name, HOT, "60x120", cards)
        + [
            {**each, "values": "_x60 60x60", "series": each["series"].replace("gpu=", 'server="2", gpu=')}
            for each in series(name, HOT, "", cards)
        ],
        "DataStall": series(name, HELD, f"{peak:.0f}x120") + series(name, BUSY, "0.9x60 0.1x60"),
        "GpuIdle": series(name, HELD, f"{peak:.0f}x60 10x60") + series(name, BUSY, "0.9x60 0.0x60"),
        "StepsSlow": series(name, "rightfit_step_seconds", f"{0.99 * slow:.6g}x60 {1.01 * slow:.6g}x60"),
        "RunStalled": finding(name, "stall"),
        "MemoryLeak": finding(name, "leak"),
    }
    if cards == 1:
        del inputs["GpuLost"]  # nothing is left to count when the only card is gone
    cases = []
    for alert, given in inputs.items():
        cases.append(
            {
                "interval": "1m",
                "input_series": given,
                "promql_expr_test": [
                    {"expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})', "eval_time": "55m", "exp_samples": []},
                    {
                        "expr": f'count(count by (alertname) (ALERTS{{alertname="{alert}", alertstate="firing"}}))',
                        "eval_time": "{eval}",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    },
                ],
            }
        )
        cases[-1]["promql_expr_test"][1]["eval_time"] = "63m" if alert == "GpuErrors" else "115m"
    (tmp_path / "alerts.yml").write_text(files("prometheus", name)["alerts.yml"], encoding="utf-8")
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": cases}), encoding="utf-8"
    )
    promtool(tmp_path, "test", "rules", "test.yml")


class Exporter(http.server.BaseHTTPRequestHandler):
    """Two cards of a plan: one within its figures, one too hot and too full; and a server program
    with requests in flight."""

    text = ""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(self.text.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


METRICS = """\
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{{gpu="0"}} 61
DCGM_FI_DEV_GPU_TEMP{{gpu="1"}} 95
DCGM_FI_DEV_FB_USED{{gpu="0"}} 900
DCGM_FI_DEV_FB_USED{{gpu="1"}} {full}
DCGM_FI_PROF_GR_ENGINE_ACTIVE{{gpu="0"}} 0.93
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="0"}} 0.41
DCGM_FI_DEV_POWER_USAGE{{gpu="0"}} 312.5
DCGM_FI_DEV_XID_ERRORS{{gpu="0"}} 0
vllm:num_requests_running 12
vllm:num_requests_waiting 3
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{le="0.1"}} {first}
vllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {all}
"""


def of_run() -> str:
    """What `rightfit watch --listen` shows of a run that waits for its data."""
    step = Figure(10.0, 8.0, 13.0, 7.0, 17.0)
    plan = Expected("1 x aws/p5", figures={"step_s": step}, steps=1000, usd_per_h=36.0, total_usd=step)
    look = Look(at_s=0.0, step=200, intervals=(10.0,) * 200, elapsed_s=2100.0, since_step_s=3.0, figures={"data_wait_share": 0.3})
    return exposition(judge([look], plan))


def ask(port: int, path: str, **words: str) -> Any:
    address = f"http://127.0.0.1:{port}/api/v1/{path}?{urllib.parse.urlencode(words)}"
    with DIRECT.open(address, timeout=10) as answer:
        return json.loads(answer.read())["data"]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A Prometheus with the exported settings; only addresses and times are those of the
    test. Gives its port."""
    if PROMETHEUS is None:
        pytest.skip("prometheus is not installed")
    folder = tmp_path_factory.mktemp("prometheus")
    exporter = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    found = files("prometheus", "chat-8b")
    settings = yaml.safe_load(found["prometheus.yml"])
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    for scraped in settings["scrape_configs"]:
        scraped["static_configs"][0]["targets"] = [f"127.0.0.1:{exporter.server_port}"]
    settings["scrape_configs"] = settings["scrape_configs"][:1]
    rules = yaml.safe_load(found["alerts.yml"])
    for rule in rules["groups"][0]["rules"]:
        rule |= {"for": "2s"} if "alert" in rule else {}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (folder / "alerts.yml").write_text(yaml.safe_dump(rules), encoding="utf-8")
    full = limit(rules_of("chat-8b")["GpuMemoryHigh"]) + 500
    Exporter.text = METRICS.format(full=full, first=1, all=1) + of_run()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [
        PROMETHEUS,
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.path=data",
        "--log.level=error",
    ]
    server = subprocess.Popen(words, cwd=folder)
    for turn in range(400):
        time.sleep(0.1)
        Exporter.text = METRICS.format(full=full, first=1 + turn, all=1 + turn * 1.2) + of_run()
        try:
            if turn > 40 and len(ask(port, "alerts")["alerts"]) >= 2 and ask(port, "query", query="vllm:num_requests_running")["result"]:
                break
        except OSError:
            continue
    yield port
    server.terminate()
    server.wait(timeout=20)
    exporter.shutdown()
    exporter.server_close()


def test_a_real_prometheus_fires_the_alerts_of_the_card_that_is_beyond_the_plan(watched: int) -> None:
    for _ in range(100):
        firing = {
            alert["labels"]["alertname"]: alert["labels"].get("gpu")
            for alert in ask(watched, "alerts")["alerts"]
            if alert["state"] == "firing"
        }
        if {"GpuHot", "GpuMemoryHigh"} <= set(firing):
            break
        time.sleep(0.1)
    assert (firing["GpuHot"], firing["GpuMemoryHigh"]) == ("1", "1")
    assert "GpuErrors" not in firing
    cost = float(ask(watched, "query", query="rightfit:cost_usd_per_hour")["result"][0]["value"][1])
    assert cost == pytest.approx(2 * job("chat-8b").option.cost.hourly_usd / job("chat-8b").num_gpus, rel=1e-4)


def test_every_curve_of_the_dashboard_is_drawn(watched: int) -> None:
    panels = [panel for panel in json.loads(files("grafana", "chat-8b")["dashboard.json"])["panels"] if panel["type"] == "timeseries"]
    assert len(panels) == 8
    for panel in panels:
        for target in panel["targets"]:
            result = ask(watched, "query", query=target["expr"])["result"]
            assert result, f"{panel['title']}: {target['expr']}"


def test_plan_and_real_of_a_run_are_drawn_side_by_side(watched: int) -> None:
    """The dashboard of a training run on what `rightfit watch` shows, the
    plan's figures as lines."""
    name = "full-8b-gcp"
    panels = {panel["title"]: panel for panel in json.loads(files("grafana", name)["dashboard.json"])["panels"]}
    for title, wanted in (("Step time", 10.0), ("Time left", 8000.0), ("Cost at completion", 101.0), ("Findings", 1.0)):
        query = panels[title]["targets"][0]["expr"].replace(job(name).plan_id, job("chat-8b").plan_id)
        assert float(ask(watched, "query", query=query)["result"][0]["value"][1]) == pytest.approx(wanted), title
    lines = [step["value"] for step in panels["Step time"]["fieldConfig"]["defaults"]["thresholds"]["steps"][1:]]
    step_s = job(name).option.estimate["step_s"]
    assert lines == [step_s.low95, step_s.mid, step_s.high95]


@pytest.mark.parametrize("name", taken("grafana"))
def test_queries_of_every_plan_are_prometheus_s_language(name: str, watched: int) -> None:
    for maker in (files, hostile):
        for panel in json.loads(maker("grafana", name)["dashboard.json"])["panels"]:
            for target in panel.get("targets", []):
                ask(watched, "query", query=target["expr"])
    with pytest.raises(OSError, match="400"):
        ask(watched, "query", query="sum by (")
