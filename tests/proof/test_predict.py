"""Batch prediction: every row answered or refused with a reason, in order, fast."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rightfit.proof.predict import TRAINING_METRICS, predict
from rightfit.proof.tables import PREDICTION_COLUMNS, read_truth

TRUTH = Path(__file__).resolve().parents[2] / "validation" / "truth"
JOB = {
    "id": "x",
    "metric": "peak_mem_gib_per_gpu",
    "model": "meta-llama/Meta-Llama-3-8B",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "method": "qlora",
    "micro_batch": "4",
    "seq_len": "2048",
    "precision": "bf16",
    "framework": "HF Transformers",
}


@pytest.fixture(scope="module")
def training_rows() -> list[dict[str, str]]:
    return read_truth(TRUTH).select(["train_memory", "train_throughput"]).rows


def one(**cells: object) -> dict[str, object]:
    return predict([{**JOB, **cells}])[0]


def test_the_row_of_an_answer() -> None:
    answer = one(note="kept")
    assert list(answer)[: len(PREDICTION_COLUMNS)] == list(PREDICTION_COLUMNS)
    assert answer["error"] == ""
    assert answer["engine"] == "analytic"
    assert answer["note"] == "kept"
    assert answer["low95"] < answer["low80"] < answer["predicted"] * 1.2
    assert answer["predicted"] * 0.8 < answer["high80"] < answer["high95"]
    assert 5 < answer["predicted"] < 60
    assert answer["fits"] == 1


def test_what_cannot_fit_is_called_so() -> None:
    answer = one(method="full", gpu="RTX-4090", model="meta-llama/Meta-Llama-3-70B")
    assert answer["fits"] == 0
    assert answer["fits95"] == 0


def test_metrics_of_one_job_agree_with_each_other() -> None:
    jobs = [{**JOB, "metric": metric, "n_gpus": "8", "strategy": "ddp", "dp": "8", "grad_accum": "2"} for metric in TRAINING_METRICS]
    figures = {answer["metric"]: answer["predicted"] for answer in predict(jobs)}
    step_s = figures["step_time_s"]
    assert figures["samples_per_s"] == pytest.approx(8 * 4 * 2 / step_s, rel=1e-4)
    assert figures["tokens_per_s_per_gpu"] == pytest.approx(4 * 2 * 2048 / step_s, rel=1e-4)
    assert figures["mfu"] == pytest.approx(figures["tflops_per_gpu"] / 312, rel=1e-4)
    assert figures["time_to_train_h"] is None


def test_every_usable_row_is_answered_and_all_keep_their_place(training_rows: list[dict[str, str]]) -> None:
    answers = predict(training_rows)
    assert [answer["id"] for answer in answers] == [row["id"] for row in training_rows]
    usable = [answer for row, answer in zip(training_rows, answers, strict=True) if row["usable"] == "1"]
    answered = [answer for answer in usable if answer["predicted"] is not None]
    assert len(answered) >= 0.97 * len(usable)
    for answer in answers:
        assert (answer["predicted"] is None) == bool(answer["error"])
        if answer["predicted"] is not None:
            assert 0 < answer["low95"] <= answer["low80"] <= answer["high80"] <= answer["high95"]


def test_only_the_raw_columns() -> None:
    answer = predict([{"model": "Qwen/Qwen2.5-7B", "gpu": "A100-SXM-80GB", "method": "lora", "micro_batch": 2, "seq_len": 1024}])[0]
    assert answer["error"] == ""
    assert answer["metric"] == "peak_mem_gib_per_gpu"
    assert "metric not stated" in answer["assumptions"]
    assert answer["predicted"] > 14


def test_an_unknown_cell_widens_the_interval_or_is_named() -> None:
    known, unknown = one(optimizer="adamw", attention="flash", recompute="full"), one(optimizer="", attention="", recompute="")
    assert len(unknown["assumptions"]) > len(known["assumptions"])


def test_unknown_accelerator_gives_no_verdict_on_fitting() -> None:
    answer = one(gpu="")
    assert answer["predicted"] is not None
    assert answer["fits"] is None
    assert "gpu not stated" in answer["assumptions"]


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        ({"metric": "joules"}, "is not predicted; the metrics are"),
        ({"metric": "time_to_train_h"}, "how much data"),
        ({"seq_len": "-1"}, "greater than 0"),
        ({"micro_batch": "many"}, "not a number"),
        ({"model": "no-such-model-at-all"}, "no-such-model-at-all"),
        ({"gpu": "no-such-card"}, "no-such-card"),
    ],
)
def test_refusals_have_a_reason(cells: dict[str, str], says: str) -> None:
    answer = one(**cells)
    assert answer["predicted"] is None
    assert says in answer["error"]


def test_the_other_training_tables_are_answered() -> None:
    rows = [row for table in ("vision_train", "vision_oom") for row in read_truth(TRUTH).select([table]).rows[:20]]
    assert sum(answer["predicted"] is not None for answer in predict(rows)) > 30


def test_no_rows() -> None:
    assert predict([]) == []


def test_garbage_loses_no_row_and_never_raises(training_rows: list[dict[str, str]]) -> None:
    dice = random.Random(7)
    junk = ["", "nan", "-1", "0", "1e400", "💥", "x" * 5000, "4096.5", "1,000", None, float("nan"), [], "../../etc", "=1+1", "9" * 40, True]
    rows: list[object] = []
    for number in range(3000):
        row: dict[object, object] = dict(dice.choice(training_rows), id=str(number % 50))
        for name in dice.sample(list(row), dice.randint(1, 12)):
            row[name] = dice.choice(junk)
        if dice.random() < 0.2:
            row = {name: row[name] for name in dice.sample(list(row), dice.randint(0, 8))}
        rows.append(row if dice.random() < 0.97 else dice.choice([None, 3, "text", [], {}]))
    answers = predict(rows)
    assert len(answers) == len(rows)
    for answer in answers:
        assert (answer["predicted"] is None) == bool(answer["error"])
        assert not any(word in answer["error"] for word in ("Traceback", "cannot be computed"))


def test_ten_thousand_rows_are_all_answered(training_rows: list[dict[str, str]]) -> None:
    rows = (training_rows * 2)[:10_000]
    assert len(predict(rows)) == 10_000
