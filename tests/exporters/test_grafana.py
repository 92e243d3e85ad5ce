"""The dashboard through Grafana's own builder library: what it reads and writes
again is what we wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jobs import files, hostile, job, taken

dashboards = pytest.importorskip(
    "grafana_foundation_sdk.models.dashboard", reason="grafana-foundation-sdk is not installed (==1769699379!11.6.0)"
)


def lost(ours: Any, theirs: Any, place: str = "") -> list[str]:
    """Places of our dashboard that the library did not keep: unknown keys and
    values of a wrong kind."""
    if isinstance(ours, dict):
        kept = theirs if isinstance(theirs, dict) else {}
        return [
            name
            for key, value in ours.items()
            for name in (lost(value, kept[key], f"{place}.{key}") if key in kept else [f"{place}.{key}"])
        ]
    if isinstance(ours, list):
        if not isinstance(theirs, list) or len(ours) != len(theirs):
            return [place]
        return [name for number, pair in enumerate(zip(ours, theirs, strict=True)) for name in lost(*pair, f"{place}[{number}]")]
    return [] if ours == theirs else [place]


def read_back(text: str) -> Any:
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins

    register_default_plugins()
    return json.loads(JSONEncoder().encode(dashboards.Dashboard.from_json(json.loads(text))))


@pytest.mark.parametrize("name", taken("grafana"))
def test_grafana_s_library_keeps_every_key(name: str) -> None:
    for maker in (files, hostile):
        text = maker("grafana", name)["dashboard.json"]
        missing = [place for place in lost(json.loads(text), read_back(text)) if not place.endswith(("steps[0].value", ".id"))]
        assert missing == []


def test_a_key_that_grafana_does_not_know_would_be_found() -> None:
    ours = json.loads(files("grafana", "chat-8b")["dashboard.json"])
    ours["panels"][1]["nosuchkey"] = 1
    assert ".panels[1].nosuchkey" in lost(ours, read_back(json.dumps(ours)))


@pytest.mark.parametrize("name", taken("grafana"))
def test_lines_are_the_plan_s(name: str) -> None:
    panels = {panel["title"]: panel for panel in json.loads(files("grafana", name)["dashboard.json"])["panels"]}
    steps = panels["Memory of the cards"]["fieldConfig"]["defaults"]["thresholds"]["steps"]
    peak = job(name).option.estimate["peak_memory_bytes"]
    assert steps[1]["value"] == pytest.approx(peak.mid / 1024**2)
    assert panels["Cost of an hour"]["fieldConfig"]["defaults"]["thresholds"]["steps"][1]["value"] == job(name).option.cost.hourly_usd
    assert len({panel["id"] for panel in panels.values()}) == len(panels)
