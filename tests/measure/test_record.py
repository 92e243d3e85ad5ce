"""Run records: one JSON a run, with known definitions, without secrets; kept once, merged
only where they agree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rightfit.errors import FileInputError, UnavailableError, UnknownNameError
from rightfit.measure.record import (
    Run,
    Source,
    document,
    measured,
    merged,
    metrics,
    read_runs,
    run_of,
    sealed,
    written,
)
from rightfit.measure.store import RunStore, runs_at


def a_run(**more: object) -> Run:
    values = {
        "source": Source(kind="probe"),
        "measured": [measured("step_time_s", 0.5, n=40, spread=0.01)],
        "setup": {"model": "7B"},
        **more,
    }
    return sealed(Run.model_validate(values))


def test_a_record_written_and_read_is_the_same_record(tmp_path: Path) -> None:
    run = a_run()
    path = tmp_path / "run.json"
    path.write_text(written([run]))
    assert read_runs(path) == [run]
    found = json.loads(path.read_text())
    assert found["steps"] == {
        "count": 40,
        "step_s": {"mid": 0.5, "low80": pytest.approx(0.4872, abs=1e-4), "high80": pytest.approx(0.5128, abs=1e-4)},
    }


def test_the_contract_s_names_are_in_the_document() -> None:
    names = "schema_version kind source command exit_code started duration_s workload host steps data_wait_share peak_memory_bytes peak_host_memory_bytes utilisation service oom warnings"
    assert set(names.split()) <= document(a_run()).keys()


def test_a_service_is_told_in_seconds() -> None:
    run = a_run(measured=[measured("ttft_ms", 120.0), measured("ttft_ms", 300.0, statistic="p95"), measured("req_per_s", 4.0)])
    assert document(run)["service"] == {"requests_per_s": 4.0, "ttft_s": {"mean": 0.12, "p95": 0.3}, "tpot_s": {}, "latency_s": {}}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"kind": "plan"}, "not a run record"),
        ([1], "not a run record"),
        ({"kind": "run", "source": {"kind": "x"}, "duration_s": -1}, "duration_s"),
        ({"kind": "run", "source": {"kind": "x"}, "colour": 1}, "colour"),
        ({"kind": "run", "source": {"kind": "x"}, "measured": [{"metric": "speed", "value": 1}]}, "unknown metric"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(found: object, words: str) -> None:
    with pytest.raises((FileInputError, UnknownNameError), match=words) as error:
        run_of(found)
    assert "\n" not in str(error.value)


def test_every_metric_has_a_unit_a_definition_two_names_and_a_source() -> None:
    assert all(all((m.unit, m.definition, m.en, m.zh, m.source)) and m.sense in ("cost", "rate", "state") for m in metrics().values())
    assert all(bool(m.figure) <= (m.sense != "state") for m in metrics().values())


def test_the_same_run_read_twice_is_kept_once_and_deleted_by_how_its_id_begins(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs.sqlite")
    assert store.save([a_run(), a_run(), a_run(command="other")]) == 2
    assert store.save([a_run()]) == 0
    assert store.get(a_run().id[:6]) == a_run()
    assert len(runs_at(tmp_path / "runs.sqlite")) == 2
    assert store.delete([a_run().id]) == 1
    with pytest.raises(UnknownNameError, match="unknown run"):
        store.get(a_run().id)


def test_a_store_that_is_not_one_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    path.write_text("not a database " * 100)
    with pytest.raises(UnavailableError, match="cannot be used"):
        RunStore(path).all()


def test_records_of_one_run_become_one_and_contradictions_are_refused() -> None:
    memory = a_run(measured=[measured("peak_mem_gib_per_gpu", 20.0, counter="allocated")], setup={"gpu": "A100"}, oom=True)
    whole = merged([a_run(), memory])
    assert whole.setup == {"model": "7B", "gpu": "A100"}
    assert {item.metric for item in whole.measured} == {"step_time_s", "peak_mem_gib_per_gpu"}
    assert whole.oom
    with pytest.raises(FileInputError, match="not from one run"):
        merged([a_run(), a_run(setup={"model": "8B"})])


def test_a_folder_without_records_says_how_to_get_some(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(FileInputError, match="rightfit probe"):
        runs_at(tmp_path)
    with pytest.raises(FileInputError, match="the word mine"):
        runs_at(tmp_path / "nowhere")
