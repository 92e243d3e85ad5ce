"""The worked example of a fleet stands in the pages as it comes out, in both languages,
with its calendar."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.deep
def test_the_worked_example_is_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/write_fleet_pages.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_has_40_jobs_and_6_services_of_the_posts() -> None:
    from rightfit.fleets.reading import read_fleet

    found = read_fleet(ROOT / "docs/examples/fleet.yaml")
    assert (len(found.jobs), len(found.services)) == (40, 6)
    scenarios = (ROOT / "tests/data/scenarios.toml").read_text("utf-8")
    assert [job.name for job in (*found.jobs, *found.services) if f'id = "{job.name}"' not in scenarios] == []


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_calendar_has_a_bar_for_each_job(lang: str) -> None:
    from rightfit.fleets.reading import read_fleet

    chart = (ROOT / f"docs/examples/fleet.{lang}.svg").read_text("utf-8")
    told = set(re.findall(r"<title>([\w-]+):", chart))
    found = read_fleet(ROOT / "docs/examples/fleet.yaml")
    assert told == {job.name for job in (*found.jobs, *found.services)}
