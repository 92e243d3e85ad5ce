"""promtool reads the exported settings and rules, and an alert fires on the figures it is meant for."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from jobs import files, hostile, taken

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian package prometheus)")


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


def test_an_alert_fires_when_memory_goes_over_the_plan_s_limit(tmp_path: Path) -> None:
    text = files("prometheus", "chat-8b")["alerts.yml"]
    (tmp_path / "alerts.yml").write_text(text, encoding="utf-8")
    rules = {rule["alert"]: rule for rule in yaml.safe_load(text)["groups"][0]["rules"]}
    limit = float(rules["GpuMemoryHigh"]["expr"].rpartition(">")[2])
    alert = {"exp_labels": {"severity": "warning", "gpu": "0"}, "exp_annotations": rules["GpuMemoryHigh"]["annotations"]}
    case = {
        "interval": "1m",
        "input_series": [{"series": 'DCGM_FI_DEV_FB_USED{gpu="0"}', "values": f"{limit - 100}x4 {limit + 100}x10"}],
        "alert_rule_test": [
            {"eval_time": "4m", "alertname": "GpuMemoryHigh", "exp_alerts": []},
            {"eval_time": "12m", "alertname": "GpuMemoryHigh", "exp_alerts": [alert]},
        ],
    }
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": [case]}), encoding="utf-8"
    )
    promtool(tmp_path, "test", "rules", "test.yml")
