"""The command: what it prints fits a screen in both languages, what it says as JSON follows its
schema, and exit codes."""

from __future__ import annotations

import itertools
import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

FLEET = """
name: lab
start: 2026-12-01
horizon: 1w
jobs:
- {name: qlora, count: 3, deadline: 3d, team: nlp, workload: {model: meta-llama/Meta-Llama-3-8B, method: qlora, data: 50Mtok}}
- {name: full, deadline: 5d, interruptible: false, workload: {model: meta-llama/Meta-Llama-3-8B, method: full, data: 500Mtok}}
owned:
- {gpu: 8xH100, count: 1, until: 4d}
limits: {clouds: "aws,gcp", budget: 5000usd, quota: [8 L40S]}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET, "utf-8")
    return path


def document(run: Any, *arguments: str) -> dict[str, Any]:
    result = run("fleet", *arguments, "--format", "json", "-q")
    assert result.code == 0, result.err
    found: dict[str, Any] = json.loads(result.out)
    return found


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_plan_fits_a_screen(run: Any, fleet: Path, lang: str) -> None:
    result = run("fleet", str(fleet), "--lang", lang)
    assert result.code == 0
    lines = result.out.splitlines()
    assert len(lines) <= 24
    assert "lab" in lines[0]
    assert any("qlora" in line for line in lines)
    assert ("{" in result.out) is False


def test_the_document_follows_its_schema_and_adds_up(run: Any, fleet: Path) -> None:
    found = document(run, str(fleet))
    schema = json.loads(resources.files("rightfit").joinpath("schema/fleet-plan.schema.json").read_text("utf-8"))
    jsonschema.validate(found, schema)
    assert sum(row["count"] for row in found["placements"] if row["name"] == "qlora") == 3
    assert found["cost"]["total_usd"] == pytest.approx(sum(row["cost_usd"] for row in found["placements"]), rel=1e-9)
    assert found["cost"]["total_usd"] == pytest.approx(sum(found["cost"]["terms"].values()), rel=1e-9)
    assert found["bound_usd"] <= found["cost"]["total_usd"] * (1 + 1e-9)
    full = next(row for row in found["placements"] if row["name"] == "full")
    assert full["purchase"] != "spot"
    assert full["end_h"] <= 120
    assert all(row["end_h"] <= 72 for row in found["placements"] if row["name"] == "qlora")


def test_what_is_owned_is_used_first(run: Any, fleet: Path) -> None:
    found = document(run, str(fleet))
    assert {row["purchase"] for row in found["placements"]} == {"owned"}
    assert found["cost"]["total_usd"] < found["cost"]["own_best_usd"]


def test_what_runs_stays_when_planned_again(run: Any, fleet: Path, tmp_path: Path) -> None:
    last = tmp_path / "last.json"
    found = document(run, str(fleet))
    last.write_text(json.dumps(found), "utf-8")
    half = min(row["end_h"] for row in found["placements"]) / 2
    later = FLEET.replace("start: 2026-12-01", f"start: 2026-12-01T{int(half):02d}:{int(half % 1 * 60):02d}").replace(
        "8xH100, count: 1", "8xH100, count: 1"
    )
    fleet.write_text(later, "utf-8")
    again = document(run, str(fleet), "--from", str(last))
    running = [row for row in again["placements"] if row["name"].endswith("(running)")]
    assert running
    assert again["moves"]["gone"] == 0
    before = {(row["name"], row["instance_type"], row["region"]) for row in found["placements"]}
    assert {(row["name"].removesuffix(" (running)"), row["instance_type"], row["region"]) for row in running} <= before


def test_what_cannot_be_placed_says_the_least_change(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "tight.yaml"
    path.write_text(
        FLEET.replace("budget: 5000usd", "budget: 1usd").replace("- {gpu: 8xH100, count: 1, until: 4d}", "").replace("owned:", "owned: []"),
        "utf-8",
    )
    result = run("fleet", str(path))
    assert result.code == 1
    assert "Not placed:" in result.out
    assert "all budgets" in result.out
    factor = float(result.out.split("all budgets ")[1].split()[0])
    path.write_text(path.read_text("utf-8").replace("budget: 1usd", f"budget: {factor * 1.1:g}usd"), "utf-8")
    assert run("fleet", str(path)).code == 0


def test_the_calendar_is_drawn(run: Any, fleet: Path, tmp_path: Path) -> None:
    chart = tmp_path / "fleet.svg"
    assert run("fleet", str(fleet), "--chart", str(chart)).code == 0
    text = chart.read_text("utf-8")
    assert text.startswith("<svg")
    assert text.count("<rect") >= 2
    assert ">qlora<" in text


W = "workload: {model: 7B, method: qlora, data: 1Mtok}"
BAD = [
    ("jobs: []\n", "0 jobs and 0 services"),
    ("jobs:\n- {name: a, workload: {model: 7B}, deadlin: 3d}\n", "did you mean deadline"),
    ("jobs:\n- {name: a, workload: {model: 7B, method: qlroa, data: 1Mtok}}\n", "did you mean qlora"),
    ("limits: {quota: [-8 H100]}\njobs:\n- {name: a, workload: {model: 7B, method: qlora, data: 1Mtok}}\n", "quota"),
    ("limits: {quota: [8 H1000]}\njobs:\n- {name: a, workload: {model: 7B, method: qlora, data: 1Mtok}}\n", "quota"),
    (f"start: 2026-12-01\njobs:\n- {{name: a, earliest: 2026-12-09, deadline: 2026-12-02, {W}}}\n", "is not after the earliest start"),
    (f"limits: {{quota: [-8 H100 in us-east-1]}}\njobs:\n- {{name: a, {W}}}\n", "-8 is below 0"),
    (f"teams: [nlp, vision]\njobs:\n- {{name: a, team: visoin, {W}}}\n", "did you mean vision"),
    ("jobs:\n" + "".join(f"- {{name: a{row}, {W}}}\n" for row in range(20_001)), "20,001 jobs and services; a fleet has at most 20,000"),
    (f"jobs:\n- {{name: a, count: 200000, {W}}}\n", "less than or equal to 100000"),
    (f"jobs:\n- {{name: a, after: b, {W}}}\n- {{name: b, after: a, {W}}}\n", "circular dependency: a after b after a"),
    (f"jobs:\n- {{name: a, after: bb, {W}}}\n- {{name: b, {W}}}\n", "did you mean b"),
    ("services:\n- {name: a, demand: 1/s, share: mig, workload: {model: 7B, slice: 1g}}\n", "share mig contradicts slice 1g"),
    ("services:\n- {name: a, demand: 1/s, share: half, workload: {model: 7B}}\n", "input should be 'whole', 'mig' or 'turns'"),
    ("limits: {clouds: awss}\njobs:\n- {name: a, workload: {model: 7B, method: qlora, data: 1Mtok}}\n", "did you mean aws"),
]


@pytest.mark.parametrize(("text", "told"), BAD)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_bad_fleet_gets_one_line(run: Any, tmp_path: Path, text: str, told: str, lang: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text, "utf-8")
    result = run("fleet", str(path), "--lang", lang)
    assert (result.code, result.out) == (2, "")
    assert len(result.err.strip().splitlines()) == 1
    assert "internal" not in result.err
    assert result.err.isascii() == (lang == "en")
    if lang == "en":
        assert told in result.err


def test_a_hundred_thousand_jobs_get_one_line_at_once(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    path.write_text("name,model,method,data\n" + "".join(f"a{row},7B,qlora,1Mtok\n" for row in range(100_000)), "utf-8")
    for lang, told in (("en", "100,000 jobs and services; a fleet has at most 20,000"), ("zh", "100,000")):
        result = run("fleet", str(path), "--lang", lang)
        assert (result.code, result.out, len(result.err.strip().splitlines())) == (2, "", 1)
        assert told in result.err


def test_runs_move_the_hours_of_the_jobs_that_they_are_of(tmp_path: Path) -> None:
    from rightfit import api
    from rightfit.fleets.planning import questions_of
    from rightfit.fleets.reading import read_fleet
    from rightfit.fleets.ways import calibrated, ways_of
    from rightfit.measure.record import run_of
    from rightfit.proof.predict import evidence

    jobs = [
        {"name": "same", "workload": {"model": "meta-llama/Meta-Llama-3-8B", "method": "lora", "data": "50Mtok", "cloud": "aws"}},
        {"name": "other", "workload": {"model": "Qwen/Qwen2.5-7B", "method": "lora", "data": "50Mtok", "cloud": "aws"}},
        {"name": "batch", "workload": {"model": "meta-llama/Meta-Llama-3-8B", "task": "batch", "data": "10ksamples", "cloud": "aws"}},
    ]
    setup = {"model": "Llama-3-8B", "method": "lora", "gpu": "A100-SXM-80GB", "n_gpus": "8", "micro_batch": "4", "seq_len": "1024"}
    slow = {"kind": "run", "source": {"kind": "probe"}, "setup": setup, "measured": [{"metric": "step_time_s", "value": 6.0, "unit": "s"}]}
    fleet = read_fleet({"start": "2026-12-01", "jobs": jobs})
    questions = questions_of(fleet)
    found = ways_of(list(questions.values()), processes=1)
    ways = {name: found[question] for name, question in questions.items()}
    moved, told = calibrated(ways, fleet, evidence([run_of(slow)]))
    assert moved["other"] == ways["other"]
    assert moved["batch"] == ways["batch"]
    assert told.keys() == {"same"}
    before = {(way.server, way.region, way.purchase, way.servers): way for way in ways["same"].found}
    for way in moved["same"].found:
        old = before[way.server, way.region, way.purchase, way.servers]
        assert way.hours > old.hours
        assert way.servers_usd / old.servers_usd == pytest.approx(way.hours / old.hours)
    assert [way.total_usd for way in moved["same"].found] == sorted(way.total_usd for way in moved["same"].found)
    record = tmp_path / "run.json"
    record.write_text(json.dumps(slow))
    plan = api.fleet({"start": "2026-12-01", "jobs": jobs[:1]}, runs=record, reasons=False, seconds=5).to_dict()
    assert any(one["field"] == "runs" and one["value"][0].startswith("same +") for one in plan["assumptions"])


def test_what_no_server_can_do_asks_for_no_wider_limit(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "impossible.yaml"
    job = "jobs:\n- {name: a, deadline: 3d, workload: {model: meta-llama/Meta-Llama-3-70B, method: full, data: 50Mtok, gpu: T4}}\n"
    path.write_text(job + "limits: {clouds: aws}\n", "utf-8")
    result = run("fleet", str(path))
    assert result.code == 1
    assert "no server can do it" in result.out
    assert "later" not in result.out
    assert "No single limit" not in result.out


def test_what_is_too_slow_says_how_much_later_would_do(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "slow.yaml"
    text = "jobs:\n- {name: a, deadline: DUE, workload: {model: meta-llama/Meta-Llama-3-8B, method: qlora, data: 5000Mtok}}\nlimits: {clouds: aws}\n"
    path.write_text(text.replace("DUE", "30min"), "utf-8")
    found = json.loads(run("fleet", str(path), "--format", "json", "-q").out)
    (row,) = found["relaxations"]
    assert row["kind"] == "deadline"
    fastest = found["unplaced"][0]["fastest_h"]
    assert fastest - 0.5 <= row["later_h"] <= (fastest - 0.5) * 1.1 + 0.1
    path.write_text(text.replace("DUE", f"{round(60 * (0.5 + row['later_h']) + 1)}min"), "utf-8")
    assert run("fleet", str(path)).code == 0


def test_a_job_starts_after_those_it_waits_for_and_keeps_waiting_when_planned_again(run: Any, tmp_path: Path) -> None:
    path, last = tmp_path / "chain.yaml", tmp_path / "last.json"
    work = "workload: {model: meta-llama/Meta-Llama-3-8B, method: qlora, data: 50Mtok}"
    text = (
        f"start: START\nhorizon: 1w\njobs:\n- {{name: eval, after: [tune, prepare], {work}}}\n- {{name: tune, count: 2, after: prepare, {work}}}\n"
        f"- {{name: prepare, {work}}}\nlimits: {{clouds: aws}}\n"
    )
    path.write_text(text.replace("START", "2026-12-01"), "utf-8")
    found = document(run, str(path))
    rows = {name: [row for row in found["placements"] if row["name"] == name] for name in ("prepare", "tune", "eval")}
    assert max(row["end_h"] for row in rows["prepare"]) <= min(row["start_h"] for row in rows["tune"])
    assert max(row["end_h"] for row in rows["tune"]) <= min(row["start_h"] for row in rows["eval"])
    assert rows["eval"][0]["after"] == ["tune", "prepare"]
    last.write_text(json.dumps(found), "utf-8")
    middle = (rows["prepare"][0]["start_h"] + rows["prepare"][0]["end_h"]) / 2
    path.write_text(text.replace("START", f"2026-12-01T{int(middle):02d}:{int(middle % 1 * 60):02d}"), "utf-8")
    again = document(run, str(path), "--from", str(last))
    running = next(row for row in again["placements"] if row["name"] == "prepare (running)")
    assert all(row["start_h"] >= running["end_h"] for row in again["placements"] if row["name"] == "tune")


def test_services_share_cards_where_that_is_cheaper(run: Any, tmp_path: Path) -> None:
    path, last = tmp_path / "shared.yaml", tmp_path / "last.json"
    one = "demand: 1/s, share: mig, workload: {model: meta-llama/Llama-3.2-1B, input_tokens: 200, output_tokens: 50}"
    text = f"start: 2026-12-01\nhorizon: 1w\ndefaults: {{gpu: H100}}\nservices:\n- {{name: chat, {one}}}\n- {{name: rewrite, {one}}}\nlimits: {{clouds: aws}}\n"
    path.write_text(text, "utf-8")
    found = document(run, str(path), "--futures", "2")
    schema = json.loads(resources.files("rightfit").joinpath("schema/fleet-plan.schema.json").read_text("utf-8"))
    jsonschema.validate(found, schema)
    (server,) = [row for row in found["placements"] if row["kind"] == "server"]
    tenants = [row for row in found["placements"] if row["kind"] == "service"]
    assert {row["name"] for row in tenants} == set(server["holds"]) == {"chat", "rewrite"}
    assert server["servers"] == 1
    assert [(row["purchase"], row["servers"], len(row["on"])) for row in tenants] == [("part", 0, 1)] * 2
    assert found["cost"]["total_usd"] == pytest.approx(sum(row["cost_usd"] for row in found["placements"]), rel=1e-9)
    assert found["cost"]["total_usd"] == pytest.approx(sum(found["cost"]["terms"].values()), rel=1e-9)
    assert found["cost"]["total_usd"] == pytest.approx(server["paid_usd"])
    assert found["cost"]["total_usd"] < 0.6 * server["alone_usd"]
    assert found["futures"]["draws"] >= 1
    for lang, told in (("en", "2 services share 1 x aws/"), ("zh", "2 个服务共用")):
        assert told in run("fleet", str(path), "--lang", lang).out
    last.write_text(json.dumps(found), "utf-8")
    path.write_text(text.replace("2026-12-01", "2026-12-03"), "utf-8")
    again = document(run, str(path), "--from", str(last))
    assert {row["kind"] for row in again["placements"]} == {"server", "service"}
    assert again["moves"]["moved"] == []
    exported = run("export", str(last), "--to", "purchases", "--out", str(tmp_path / "out"))
    assert exported.code == 0, exported.err
    assert (tmp_path / "out/placements.csv").read_text("utf-8").count("\n") == 4


def test_jobs_take_some_cards_of_one_host(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "host.yaml"
    work = "workload: {model: meta-llama/Meta-Llama-3-8B, method: qlora, data: 50Mtok, gpu: A100-SXM-80GB}"
    path.write_text(
        f"start: 2026-12-01\nhorizon: 1w\njobs:\n- {{name: tune, count: 8, deadline: 12h, {work}}}\nowned:\n- {{gpu: 8xA100-SXM-80GB}}\n",
        "utf-8",
    )
    found = document(run, str(path))
    assert {row["purchase"] for row in found["placements"]} == {"owned"}
    taken = [(card, row) for row in found["placements"] for cards in row.get("cards", ()) for card in cards]
    assert all(0 <= card < 8 for card, _ in taken)
    for (card, row), (other, beside) in itertools.combinations(taken, 2):
        assert card != other or row["end_h"] <= beside["start_h"] + 1e-6 or beside["end_h"] <= row["start_h"] + 1e-6
    if taken:
        assert "GPUs of own 8xA100" in run("fleet", str(path)).out


@pytest.mark.parametrize(("lang", "told"), [("en", "eval: depends on tune"), ("zh", "要等 tune")])
def test_what_waits_for_a_job_that_cannot_be_done_says_so(run: Any, tmp_path: Path, lang: str, told: str) -> None:
    path = tmp_path / "late.yaml"
    work = "workload: {model: meta-llama/Meta-Llama-3-8B, method: qlora, data: 5000Mtok}"
    path.write_text(
        f"jobs:\n- {{name: tune, deadline: 30min, {work}}}\n- {{name: eval, after: tune, {work}}}\nlimits: {{clouds: aws}}\n", "utf-8"
    )
    result = run("fleet", str(path), "--lang", lang)
    assert result.code == 1
    assert told in result.out


def test_what_is_bought_is_judged_by_futures(run: Any, fleet: Path) -> None:
    found = document(run, str(fleet), "--futures", "3", "--seconds", "40")
    futures = found["futures"]
    assert futures["draws"] == 3
    assert futures["ways_to_buy"][0]["name"] == "plan"
    assert futures["least_usd"] <= futures["mean_usd"] <= futures["greatest_usd"]
    schema = json.loads(resources.files("rightfit").joinpath("schema/fleet-plan.schema.json").read_text("utf-8"))
    jsonschema.validate(found, schema)
    for lang, word in (("en", "regret"), ("zh", "遗憾值")):
        shown = run("fleet", str(fleet), "--futures", "2", "--lang", lang)
        assert word in shown.out
        assert "futures" not in document(run, str(fleet))
