"""From a run to advice: every rule fires on its evidence and on nothing else; a test is proposed
only where it is worth its price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit import facts
from rightfit.explain.messages import has
from rightfit.explain.run_text import _finding_lines, advice_lines
from rightfit.measure.own_runs import with_runs
from rightfit.measure.record import Run, Source, measured, metrics, sealed, written
from rightfit.measure.resizing import Advice, changes_of, expected_saving, findings_of, next_test, resize
from rightfit.proof.predict import evidence, predict

SETUP = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "method": "lora",
    "precision": "bf16",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "micro_batch": "4",
    "seq_len": "1024",
}
#: Figures of a run for which each rule of the table speaks first.
SYMPTOMS: dict[str, dict[str, float]] = {
    "errors": {"error_share": 0.2},
    "few_steps": {"step_time_s": 1.0},
    "throttled": {"throttled_share": 0.4},
    "input": {"data_wait_share": 0.6, "gpu_busy_share": 0.3},
    "one_core": {"data_wait_share": 0.05, "gpu_busy_share": 0.4, "cpu_one_core_share": 0.99},
    "idle": {"data_wait_share": 0.05, "gpu_busy_share": 0.4, "cpu_one_core_share": 0.2},
    "bandwidth": {"gpu_busy_share": 0.95, "tensor_active_share": 0.1, "dram_active_share": 0.8},
    "compute": {"gpu_busy_share": 0.95, "tensor_active_share": 0.5},
    "cache": {"kv_cache_used_share": 0.97, "queue_len": 12},
    "preempted": {"preemptions_per_s": 0.5},
    "admission": {"kv_cache_used_share": 0.3, "queue_len": 12},
    "unused": {"peak_mem_gib_per_gpu": 20.0},
}


def a_run(figures: dict[str, float], **more: Any) -> Run:
    items = []
    for name, value in figures.items():
        extra: dict[str, Any] = {"counter": "allocated"} if name.startswith("peak") else {"n": 5} if name == "step_time_s" else {}
        items.append(measured(name, value, **extra))
    return sealed(Run(source=Source(kind="probe"), setup={**SETUP, **more.pop("setup", {})}, measured=items, **more))


def test_the_table_of_rules_is_whole() -> None:
    rows = facts.table("resize_rules")
    assert {row["code"] for row in rows} == {*SYMPTOMS, "failed"}
    assert all(row["source"] for row in rows)
    names = {condition.rstrip("0123456789.").rstrip("<>=") for row in rows for condition in row["conditions"].split(";")}
    assert names <= set(metrics()) | {"steps", "memory_share", "exit_code"}
    assert all(has(f"measure.bound_{row['bottleneck']}") and has(f"measure.verdict_{row['verdict']}") for row in rows)


@pytest.mark.parametrize("code", SYMPTOMS)
def test_each_rule_speaks_first_on_its_evidence(code: str) -> None:
    found = findings_of(a_run(SYMPTOMS[code]))
    assert found[0].code == code
    assert found[0].figures


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_why_a_run_is_unfit_is_a_sentence(lang: Any) -> None:
    codes = [row["code"] for row in facts.table("resize_rules") if row["bottleneck"] == "none" and row["verdict"] == "test"]
    assert codes
    for code in codes:
        run = a_run(SYMPTOMS[code]) if code in SYMPTOMS else a_run({}, exit_code=1, complete=False)
        text = "\n".join(_finding_lines(Advice("test", "none", tuple(findings_of(run)), (), (), None), lang))
        assert text.endswith(("。", "."))
        assert not set("<>_") & set(text)


@pytest.mark.parametrize("code", SYMPTOMS)
def test_a_figure_that_was_not_measured_proves_nothing(code: str) -> None:
    for missing in SYMPTOMS[code]:
        rest = {name: value for name, value in SYMPTOMS[code].items() if name != missing}
        assert all(missing not in finding.figures for finding in findings_of(a_run(rest)))


def test_a_sound_busy_run_has_no_finding() -> None:
    assert findings_of(a_run({"data_wait_share": 0.02, "gpu_busy_share": 0.97, "peak_mem_gib_per_gpu": 70.0})) == []


def test_out_of_memory_is_answered_with_changes_that_save_memory_by_our_own_estimate() -> None:
    run = a_run({}, oom=True, setup={"recompute": "none"})
    advice = resize([run], None, lambda rows: predict(rows))
    assert (advice.verdict, advice.bottleneck) == ("change", "memory")
    changes = {change.name: change for change in advice.changes}
    assert changes["recompute"].saved_gib is not None
    assert changes["recompute"].saved_gib > 1.0
    assert changes["recompute"].slower is not None
    assert changes["recompute"].slower > 0.1
    assert changes["halve_batch"].saved_gib is not None
    assert changes["halve_batch"].saved_gib > 0.5
    saved = [change.saved_gib or 0.0 for change in advice.changes]
    assert saved == sorted(saved, reverse=True)


def test_a_set_up_that_is_not_known_gives_no_change() -> None:
    assert changes_of(sealed(Run(source=Source(kind="probe"))), lambda rows: predict(rows)) == ()


def test_the_expected_saving_is_the_integral() -> None:
    draws = 100.0 * np.exp(np.random.default_rng(0).normal(0, 0.3, 400_000))
    for best in (60.0, 90.0, 100.0, 140.0):
        assert expected_saving(best, 100.0, 0.3) == pytest.approx(np.maximum(best - draws, 0).mean(), rel=0.02)
    assert expected_saving(0.0, 1.0, 0.3) == 0.0


def plan_of(run: Run, data: str) -> Any:
    found = rightfit.plan(SETUP["model"], method="lora", data=data, seq_len=1024, gpu="A100,H100,L40S", top=20)
    return with_runs(found, evidence([run]), top=20)


def test_a_test_is_proposed_for_a_long_job_and_not_for_a_short_one() -> None:
    run = a_run({"step_time_s": 1.0}).model_copy(update={"measured": [measured("step_time_s", 1.0, n=50)]})
    assert next_test(plan_of(run, "1Mtok").options, [run]) is None
    found = next_test(plan_of(run, "5000Mtok").options, [run])
    assert found is not None
    assert found.expected_saving_usd > found.usd > 0
    assert resize([run], plan_of(run, "5000Mtok"), lambda rows: predict(rows), tests=0).next_test is None
    assert resize([run], plan_of(run, "1Mtok"), lambda rows: predict(rows)).verdict in ("stop", "keep")


def test_advice_reads_in_both_languages_and_as_the_contract_s_json() -> None:
    run = a_run(SYMPTOMS["input"])
    advice = resize([run], plan_of(run, "50Mtok"), lambda rows: predict(rows))
    assert {"verdict", "bottleneck", "evidence", "changes", "options", "next_test"} == advice.to_dict().keys()
    english, chinese = advice_lines(advice, "en"), advice_lines(advice, "zh")
    assert len(english) == len(chinese)
    assert "data loading" in english[0]
    assert "等待数据" in chinese[0]
    json.dumps(advice.to_dict(), default=str)


def test_the_command_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from rightfit.cli import main

    monkeypatch.setenv("LANG", "C.UTF-8")
    path = tmp_path / "run.json"
    path.write_text(written([a_run(SYMPTOMS["idle"])]))
    assert main(("resize", str(path))) == 0
    assert "--data" in capsys.readouterr().out
    assert main(("resize", str(path), "--data", "50Mtok", "--format", "json")) == 0
    assert json.loads(capsys.readouterr().out)["bottleneck"] == "launch"
    path.write_text(written([sealed(Run(source=Source(kind="probe")))]))
    assert main(("resize", str(path), "--data", "50Mtok")) == 2
    assert "which model?" in capsys.readouterr().err


def test_servers_of_a_service_are_whole() -> None:
    from rightfit.measure.resizing import expected_saving_in_servers

    draws = np.random.default_rng(1).normal(size=200_000)
    for best, each, servers in ((1000.0, 260.0, 4), (900.0, 100.0, 12), (500.0, 500.0, 1)):
        costs = np.maximum(np.ceil(servers * np.exp(0.25 * draws)), 1) * each
        truth = float(np.mean(np.maximum(best - costs, 0.0)))
        assert expected_saving_in_servers(best, servers * each, servers, 0.25) == pytest.approx(truth, rel=0.03, abs=1.0)
    assert expected_saving_in_servers(500.0, 500.0, 1, 0.25) == 0.0  # there is no half server


def test_a_load_test_is_proposed_where_many_servers_may_be_fewer() -> None:
    setup = {"model": "Qwen/Qwen2.5-7B", "engine": "vLLM", "device": "A100-SXM-80GB", "n_devices": "1"}
    run = sealed(Run(source=Source(kind="probe"), setup=setup, measured=[measured("req_per_s", 3.0, n=400)]))
    many = rightfit.plan("Qwen/Qwen2.5-7B", task="serve", users=5000, cloud="aws", purchase="on-demand", top=8)
    found = next_test(many.options, [run])
    assert found is not None
    assert found.nodes == 1  # one replica stands for all
    advice = resize([run], many, lambda rows: predict(rows))
    assert advice.next_test == found
    assert "per month" in advice_lines(advice, "en")[-1]
    assert "每月" in advice_lines(advice, "zh")[-1]
    assert found.expected_saving_usd > found.usd > 0
    few = rightfit.plan("Qwen/Qwen2.5-7B", task="serve", users=2, gpu="L40S", max_nodes=1, purchase="on-demand", top=8)
    assert all(round(float(option.facts.get("servers") or option.nodes)) == 1 for option in few.options)
    assert next_test(few.options, [run]) is None
    measured_all = [
        run.model_copy(update={"setup": {**setup, "device": option.accelerator.name, "n_devices": str(option.layout.tensor)}})
        for option in many.options
    ]
    assert next_test(many.options, measured_all) is None


@pytest.mark.parametrize("figures", [{}, SYMPTOMS["input"], SYMPTOMS["compute"], {"peak_mem_gib_per_gpu": 20.0}], ids=str)
@pytest.mark.parametrize("code", [1, 137, -9])
def test_a_run_that_failed_is_measured_again(figures: dict[str, float], code: int) -> None:
    """Whatever it says of its server: neither "keep" nor "stop"."""
    failed = a_run(figures, exit_code=code, complete=False)
    assert findings_of(failed)[0].code == "failed"
    assert resize([failed], None, lambda rows: predict(rows)).verdict == "test"
    asked_to_stop = a_run(figures, exit_code=130, complete=True)
    assert "failed" not in {finding.code for finding in findings_of(asked_to_stop)}


@pytest.mark.parametrize("figures", [{}, {"duration_s": 5.0}, {"peak_host_mem_gib": 1.0}, {"gpu_busy_share": 0.9}])
def test_a_run_that_says_nothing_is_no_reason_to_keep_a_server(figures: dict[str, float]) -> None:
    """Without use of the card, memory or waiting nothing is known: it says what to measure."""
    known = {name: value for name, value in figures.items() if name in metrics()}
    advice = rightfit.resize(a_run(known))
    assert (advice.verdict, advice.findings) == ("test", ())
    assert "Not enough is known" in advice_lines(advice, "en")[0]
    assert "rightfit probe" in advice_lines(advice, "zh")[0]


@pytest.mark.parametrize("code", [code for code in SYMPTOMS if code not in ("errors", "few_steps", "throttled")])
def test_a_run_that_says_something_is_judged(code: str) -> None:
    advice = rightfit.resize(a_run(SYMPTOMS[code]))
    assert advice.verdict in ("keep", "change")
    assert "Not enough" not in advice_lines(advice, "en")[0]
