"""Fleet files: what is read of them, and one clear line for each thing that is wrong."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.fleets.reading import read_fleet
from rightfit.fleets.sources import MOST_LINES

TODAY = datetime.date(2026, 12, 1)
JOB = {"name": "a", "workload": {"model": "7B", "method": "qlora", "data": "50Mtok"}}
CHAT = {"name": "chat", "workload": {"model": "7B"}, "demand": "4/s office"}


def fleet(**values: Any) -> dict[str, Any]:
    return {"jobs": [JOB], **values}


def test_times_are_hours_from_the_start() -> None:
    job = {**JOB, "earliest": "2026-12-03", "deadline": "5d", "count": 3, "team": "nlp"}
    found = read_fleet({"start": "2026-12-01", "jobs": [job], "services": [CHAT], "steady": "12mo", "horizon": "2w"})
    assert (found.jobs[0].ready_h, found.jobs[0].due_h, found.jobs[0].count) == (48.0, 120.0, 3)
    assert found.horizon_h == 336.0
    assert found.steady_h == pytest.approx(8760.0)
    assert len(found.services[0].rates) == 24
    assert max(found.services[0].rates) == 4.0


def test_without_a_start_the_fleet_begins_today() -> None:
    assert read_fleet(fleet(), today=TODAY).start == datetime.datetime(2026, 12, 1)


def test_defaults_are_below_a_job_s_own_options() -> None:
    found = read_fleet(fleet(defaults={"sellers": "major", "data": "1Mtok"}))
    assert found.jobs[0].wishes["data"] == "50Mtok"
    assert found.jobs[0].wishes["sellers"] == "major"


def test_what_is_owned() -> None:
    owned = [
        {"server": "aws/p5.48xlarge", "count": 2, "region": "us-east-1", "kind": "reservation", "until": "30d"},
        {"gpu": "8xH100", "count": 3},
        {"kind": "savings-plan", "cloud": "aws", "usd_per_h": 100},
    ]
    first, second, third = read_fleet(fleet(owned=owned)).owned
    assert (first.provider, first.instance_type, first.count, first.until_h) == ("aws", "p5.48xlarge", 2, 720.0)
    assert (second.gpus_per_server, second.count) == (8, 3)
    assert any("H100" in name for name in second.gpus)
    assert (third.kind, third.usd_per_h) == ("savings-plan", 100)


def test_a_table_says_the_same_as_a_mapping(tmp_path: Path) -> None:
    path = tmp_path / "fleet.csv"
    path.write_text("name,model,method,data,count,deadline,team,demand\na,7B,qlora,50Mtok,2,5d,nlp,\nchat,7B,,,,,,4/s office\n", "utf-8")
    found = read_fleet(path)
    assert [(job.name, job.count, job.due_h, dict(job.wishes)) for job in found.jobs] == [
        ("a", 2, 120.0, {"model": "7B", "method": "qlora", "data": "50Mtok"})
    ]
    assert found.services[0].rates == read_fleet({"services": [CHAT]}).services[0].rates


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "start: 2026-12-01\njobs:\n- {name: a, workload: {model: 7B, method: qlora, data: 50Mtok}, deadline: 2026-12-09}\n", "utf-8"
    )
    (tmp_path / "a.json").write_text(json.dumps({"start": "2026-12-01", "jobs": [{**JOB, "deadline": "2026-12-09"}]}), "utf-8")
    assert read_fleet(tmp_path / "a.yaml") == read_fleet(tmp_path / "a.json")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no jobs": ({"jobs": []}, "0 jobs and 0 services"),
    "nothing": ({}, "0 jobs and 0 services"),
    "unknown key": (fleet(job=[]), "unknown key job; did you mean jobs"),
    "unknown key of a job": ({"jobs": [{**JOB, "dedline": "3d"}]}, "unknown key jobs[1].dedline; did you mean deadline"),
    "unknown key of limits": (fleet(limits={"qouta": []}), "did you mean quota"),
    "unknown option": ({"jobs": [{**JOB, "workload": {"modell": "7B"}}]}, "did you mean model"),
    "hours in the workload": ({"services": [{"name": "chat", "demand": "2/s", "workload": {"model": "7B", "office_hours": 176}}]}, "in the demand"),
    "deadline in the workload": ({"jobs": [{**JOB, "workload": {"model": "7B", "deadline": "3h"}}]}, "deadline belongs next to it"),
    "dates that go round": ({"jobs": [{**JOB, "earliest": "5d", "deadline": "2d"}]}, "the deadline 2d is not after the earliest start 5d"),
    "dates that go round of what is owned": (fleet(owned=[{"gpu": "8xH100", "since": "5d", "until": "2d"}]), "until 2d is not after since 5d"),
    "a date in the past": ({"start": "2026-12-01", "jobs": [{**JOB, "deadline": "2026-11-01"}]}, "not within three years of the start"),
    "no date": ({"jobs": [{**JOB, "deadline": "2026-13-01"}]}, "is not a date"),
    "no duration": ({"jobs": [{**JOB, "deadline": "soon"}]}, "deadline"),
    "no unit": ({"jobs": [{**JOB, "deadline": "24"}]}, "did you mean 24h?"),
    "after the horizon": ({"horizon": "2d", "jobs": [{**JOB, "earliest": "3d"}]}, "starts after the horizon"),
    "twice the same name": ({"jobs": [JOB, JOB]}, "duplicate name 'a'"),
    "negative count": ({"jobs": [{**JOB, "count": -1}]}, "jobs[1].count"),
    "count of zero": ({"jobs": [{**JOB, "count": 0}]}, "jobs[1].count"),
    "priority": ({"jobs": [{**JOB, "priority": 10}]}, "priority"),
    "unknown team": ({"teams": ["nlp", "vision"], "jobs": [{**JOB, "team": "nlpp"}]}, "did you mean nlp"),
    "team without a budget": ({"limits": {"teams": {"nlp": "100usd"}}, "jobs": [{**JOB, "team": "vison"}]}, "unknown team 'vison'"),
    "budget of nobody": ({"teams": ["nlp"], "limits": {"teams": {"npl": "100usd"}}, "jobs": [JOB]}, "did you mean nlp"),
    "negative budget": (fleet(limits={"budget": "-5usd"}), "limits.budget"),
    "budget without a currency": (fleet(limits={"budget": "500"}), "did you mean 500usd"),
    "share of spot": (fleet(limits={"spot_share": 1.5}), "spot_share"),
    "demand": ({"services": [{**CHAT, "demand": [1, 2]}]}, "2 numbers; give 24 (a day) or 168 (a week)"),
    "negative demand": ({"services": [{**CHAT, "demand": [-1.0] * 24}]}, "none negative"),
    "no demand": ({"services": [{"name": "chat", "workload": {"model": "7B"}}]}, "demand is missing"),
    "shape of demand": ({"services": [{**CHAT, "demand": "4/s ofice"}]}, "did you mean office"),
    "rate of demand": ({"services": [{**CHAT, "demand": "4"}]}, "did you mean 4/s?"),
    "neither server nor card": (fleet(owned=[{"count": 1}]), "give server (aws/p5.48xlarge) or gpu (8xH100)"),
    "unknown card": (fleet(owned=[{"gpu": "8xH1000"}]), "unknown accelerator"),
    "unknown cloud": (fleet(owned=[{"server": "amazonn/p5.48xlarge"}]), "unknown cloud"),
    "waiting for each other": (
        {"jobs": [{**JOB, "after": ["c"]}, {**JOB, "name": "b", "after": "a"}, {**JOB, "name": "c", "after": "b"}]},
        "circular dependency: a after c after b after a; remove one",
    ),
    "waiting for itself": ({"jobs": [{**JOB, "after": "a"}]}, "circular dependency: a after a"),
    "waiting for nobody": ({"jobs": [JOB, {**JOB, "name": "eval", "after": "aa"}]}, "jobs[2] (eval).after: no such job 'aa'; did you mean a"),
    "waiting for a service": ({"jobs": [{**JOB, "after": "chat"}], "services": [CHAT]}, "'chat' is a service, which never finishes"),
    "savings plan without money": (fleet(owned=[{"kind": "savings-plan", "cloud": "aws"}]), "usd_per_h"),
    "too many": ({"jobs": [JOB] * 100_000}, f"100,000 jobs and services; a fleet has at most {MOST_LINES:,}"),
    "no list": ({"jobs": "all"}, "jobs"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_fleet_gets_one_clear_line(case: str) -> None:
    values, told = BAD[case]
    with pytest.raises(InputError) as caught:
        read_fleet(values)
    message = str(caught.value)
    assert told in message
    assert "\n" not in message
    assert caught.value.exit_code == 2


FILES = {
    "empty.yaml": ("", "is empty"),
    "list.yaml": ("- a\n", "a fleet is a mapping"),
    "broken.yaml": ("jobs: [", "not valid YAML"),
    "alias.yaml": ("jobs: &a [1]\nservices: *a\n", "aliases"),
    "broken.json": ('{"jobs": ', "not valid JSON"),
    "column.csv": ("name,modle\na,7B\n", "did you mean model"),
    "short.csv": ("name,model\na\n", "expected 2 cells"),
    "empty.csv": ("name,model\n", "0 jobs"),
    "latin.yaml": (b"name: caf\xe9\n", "not UTF-8"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_gets_one_clear_line(name: str, tmp_path: Path) -> None:
    text, told = FILES[name]
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as caught:
        read_fleet(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "fleet.yaml").write_text("jobs: []", "utf-8")
    with pytest.raises(InputError, match=r"did you mean .*fleet\.yaml"):
        read_fleet(tmp_path / "flet.yaml")
