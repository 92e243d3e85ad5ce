"""Services of classical models: sized by cores, never on GPUs, refused in one line where
they make no sense."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.errors import ContradictionError, InputError, UnavailableError
from rightfit.explain.voices import plan_text

WISH = {"task": "serve", "data": "1Mrows x 30cols", "rate": "200/s", "latency": "50ms", "top": 3}


@pytest.fixture(scope="module")
def plan() -> rightfit.api.Plan:  # type: ignore[name-defined]
    return rightfit.plan("xgboost", **WISH)


def test_the_best_server_has_no_card_and_carries_the_rate_within_the_limit(plan) -> None:
    best = plan.best
    assert best.accelerator.name == ""
    assert best.estimate["requests_per_s"].mid >= 200.0
    assert best.estimate["latency_p95_s"].mid <= 0.05
    assert best.estimate["latency_p50_s"].mid <= best.estimate["latency_p95_s"].mid <= best.estimate["latency_p99_s"].mid
    assert best.facts["workers"] * best.nodes >= 200.0 * best.estimate["latency_p50_s"].mid / 2.0  # Little's law, loosely
    assert best.cost.total_usd == pytest.approx(sum(best.cost.terms.values()))


def test_a_hundred_times_the_rate_costs_about_as_much_more(plan) -> None:
    many = rightfit.plan("xgboost", **{**WISH, "rate": "20000/s"})
    assert 10.0 < many.best.cost.total_usd / plan.best.cost.total_usd < 110.0


def test_a_forest_of_python_trees_costs_more_than_boosted_ones(plan) -> None:
    forest = rightfit.plan("random-forest", **{**WISH, "rate": "2000/s"}, trees=300)
    boosted = rightfit.plan("lightgbm", **{**WISH, "rate": "2000/s"}, trees=300)
    assert forest.best.cost.total_usd > boosted.best.cost.total_usd


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_words_name_library_server_and_workers(plan, lang) -> None:
    setup = plan_text(plan, lang).best.setup
    assert "xgboost" in setup
    assert "FastAPI" in setup
    assert "30" in setup


def test_columns_alone_are_enough_and_what_is_taken_is_said() -> None:
    found = rightfit.plan("logistic-regression", task="serve", columns=20, rate="10/s", top=1)
    assert {"data_rows", "latency", "library"} <= {one.field for one in found.assumptions}
    assert found.best.facts["columns"] == 20.0


@pytest.mark.parametrize(
    ("wishes", "error", "words"),
    [
        ({}, InputError, "--columns 30"),
        ({"columns": 30, "gpu": "A100"}, ContradictionError, "gpu"),
        ({"columns": 30, "tpot": "30ms"}, ContradictionError, "tpot"),
        ({"columns": 30, "quantization": "int8"}, ContradictionError, "quantization"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(wishes, error, words) -> None:
    with pytest.raises(error, match=words) as caught:
        rightfit.plan("xgboost", task="serve", **wishes)
    assert "\n" not in str(caught.value)


def test_algorithms_that_score_no_rows_say_so() -> None:
    with pytest.raises(UnavailableError, match="does not score single rows"):
        rightfit.plan("dbscan", task="serve", columns=10)


def test_estimate_and_why_answer_too() -> None:
    wish = {"task": "serve", "columns": 30, "rate": "50/s"}
    found = rightfit.estimate("xgboost", on="aws/c7i.2xlarge", **wish)
    assert found.best is not None
    assert rightfit.why("aws/c7i.2xlarge", "xgboost", **wish).fits
    refused = rightfit.why("aws/p5.48xlarge", "xgboost", **wish)
    assert not refused.fits
