"""Plans and predictions with runs of one's own say so, name the runs, and move as the runs say."""

from __future__ import annotations

from pathlib import Path

import pytest

import rightfit
from rightfit.errors import FileInputError
from rightfit.explain.messages import say
from rightfit.explain.run_text import advice_lines
from rightfit.explain.sheets import short_sheet
from rightfit.measure.record import Run, Source, measured, sealed, written
from rightfit.messages import Lang
from rightfit.proof.predict import predict

ROW = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "method": "lora",
    "precision": "bf16",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "micro_batch": "1",
    "seq_len": "1024",
    "grad_accum": "1",
}
WISH = {"model": "meta-llama/Meta-Llama-3-8B", "method": "lora", "data": "50Mtok", "gpu": "A100,H100", "seq_len": 1024}


def a_run(metric: str = "step_time_s", slower: float = 1.5, **row: str) -> Run:
    """A run that takes `slower` times what is predicted for it."""
    cells = {**ROW, **row, "metric": metric}
    predicted = predict([cells])[0]["predicted"]
    counter = {"counter": "allocated"} if metric.startswith("peak") else {}
    return sealed(Run(source=Source(kind="own-table"), setup={**ROW, **row}, measured=[measured(metric, predicted * slower, **counter)]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.json").write_text(written([a_run()]))
    return tmp_path


def test_a_plan_with_slow_runs_takes_longer_and_costs_more_and_names_the_run(folder: Path) -> None:
    before, after = rightfit.plan(**WISH, top=3), rightfit.plan(**WISH, top=3, runs=folder)  # type: ignore[arg-type]
    assert after.best is not None
    assert before.best is not None
    figures = after.best.estimate
    assert figures["step_s"].source == "calibrated"
    assert figures["total_time_s"].mid > 1.1 * rightfit.plan(**WISH, top=1).best.estimate["total_time_s"].mid  # type: ignore[union-attr,arg-type]
    assert after.best.cost.total_usd > before.best.cost.total_usd
    assert sum(after.best.cost.terms.values()) == pytest.approx(after.best.cost.total_usd, rel=1e-6)
    assert after.best.facts["own_runs"]["training-step"]["runs"] == [a_run().id]
    assert after.to_dict()["sections"]["own_runs"]["runs"] == [a_run().id]
    assert [option.rank for option in after.options] == [1, 2, 3]


def test_a_run_as_predicted_changes_little_but_the_width(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(written([a_run(slower=1.0)]))
    before, after = rightfit.plan(**WISH, top=1).best, rightfit.plan(**WISH, top=1, runs=tmp_path).best  # type: ignore[arg-type]
    assert before is not None
    assert after is not None
    assert after.estimate["step_s"].mid == pytest.approx(before.estimate["step_s"].mid, rel=1e-6)


def test_memory_far_over_the_prediction_moves_what_fits(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(written([a_run("peak_mem_gib_per_gpu", 3.0)]))
    plan = rightfit.estimate(WISH["model"], on="aws/g6e.xlarge", method="lora", data="50Mtok", seq_len=1024)
    moved = rightfit.estimate(WISH["model"], on="aws/g6e.xlarge", method="lora", data="50Mtok", seq_len=1024, runs=tmp_path)
    assert plan.best is not None
    assert moved.best is not None
    assert moved.best.estimate["peak_memory_bytes"].mid > 1.5 * plan.best.estimate["peak_memory_bytes"].mid
    assert moved.best.facts["fit_probability"] < plan.best.facts["fit_probability"]


def test_batch_predictions_say_where_they_come_from(folder: Path) -> None:
    rows = [
        {**ROW, "metric": "step_time_s"},
        {**ROW, "gpu": "H100-SXM-80GB", "metric": "tokens_per_s_per_gpu"},
        {**ROW, "metric": "peak_mem_gib_per_gpu"},
    ]
    plain, own = rightfit.predict(rows), rightfit.predict(rows, runs=folder)
    assert [answer["source"] for answer in own] == ["measured", "calibrated", ""]
    assert own[0]["predicted"] > 1.2 * plain[0]["predicted"]
    assert own[1]["predicted"] < plain[1]["predicted"]
    assert own[2]["predicted"] == plain[2]["predicted"]
    assert own[0]["runs"] == a_run().id


def test_without_runs_nothing_is_said() -> None:
    assert "runs" not in rightfit.predict([{**ROW, "metric": "step_time_s"}])[0]
    with pytest.raises(FileInputError, match="no folder or file"):
        rightfit.plan(**WISH, runs="nowhere")  # type: ignore[arg-type]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("wish", "run", "key"),
    [
        pytest.param(
            {"model": "xgboost", "data": "20Mrows x 40cols"},
            sealed(
                Run(source=Source(kind="probe"), setup={"library": "xgboost", "model": "xgboost"}, measured=[measured("step_time_s", 0.2)])
            ),
            "own_runs_unused",
            id="a figure that nothing predicts",
        ),
        pytest.param(
            {**WISH, "model": "Qwen/Qwen2.5-0.5B", "method": "full"},
            a_run("tpot_ms", device="A100-SXM-80GB"),
            "own_runs_other",
            id="another kind",
        ),
    ],
)
def test_runs_that_move_nothing_are_said_to(wish: dict[str, str], run: Run, key: str, lang: Lang, tmp_path: Path) -> None:
    """By a plan and by an advice: no figure counts as the runs' own, and the
    reason stands in both."""
    (tmp_path / "run.json").write_text(written([run]))
    before, after = rightfit.plan(**wish, top=2), rightfit.plan(**wish, top=2, runs=tmp_path)  # type: ignore[arg-type]
    assert after.best is not None
    assert before.best is not None
    assert after.best.cost.total == before.best.cost.total
    assert [reason.key for reason in after.best.why if reason.key.startswith("own_runs")] == [key]
    advice = rightfit.resize([run], tests=0, **wish)
    [said] = [line for line in advice_lines(advice, lang) if run.id in line]
    assert said in str(short_sheet(after, lang))
    assert say("measure.by_runs", lang) not in "\n".join(advice_lines(advice, lang))
