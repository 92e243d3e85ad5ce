"""Left out means unknown: the name of the software, the publisher, the class of device; and the
page leads with what a stranger gets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rightfit.facts import tables
from rightfit.proof import honest_page, left_out
from rightfit.proof.left_out import read_folds, substituted
from rightfit.proof.tables import read_truth

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
PUBLISHERS = left_out.read_publishers(VALIDATION / "publishers.csv")


def test_rounds_of_a_benchmark_and_sisters_are_one_publisher() -> None:
    sources = {str(row["source"]) for row in read_truth(VALIDATION / "truth").rows}
    rounds = {source for source in sources if "training_results" in source or "mlperf" in source}
    assert len(rounds) > 8
    assert {left_out.publisher_of(source, PUBLISHERS) for source in rounds} == {"MLCommons"}
    assert {left_out.publisher_of(name, PUBLISHERS) for name in ("qwen1-readme-profile", "qwen2.5-speed-benchmark")} == {"Qwen"}
    assert left_out.publisher_of("somebody's blog", PUBLISHERS) == "somebody's blog"


def test_what_stands_in_for_what_is_left_out() -> None:
    folds = read_folds(VALIDATION / "folds")
    source = "deepspeed-posts"
    named, alone, crowd, device = (
        left_out.coefficients_without(way, source, folds, has_siblings=siblings)
        for way, siblings in (("named", True), ("publisher", False), ("publisher", True), ("device", True))
    )
    assert named == alone == folds[source]
    priors = left_out.priors()
    assert all(crowd[name][key] == value for name, values in priors.items() for key, value in values.items())
    hopper = device["compute"]["gemm_fraction.hopper"]
    assert hopper == priors["compute"]["gemm_fraction.hopper"]
    assert device["software"] == folds[source]["software"]


def test_priors_are_before_any_fit() -> None:
    """No prior of a fitted coefficient is its fitted value everywhere: that would be
    a fit in disguise."""
    for name, values in left_out.priors().items():
        fitted = tables.coefficients(name)
        assert any(fitted[key] != value for key, value in values.items()) or name in ("network", "training"), name


def test_stack_unknown_withholds_the_name_and_its_rules() -> None:
    rows = [
        row
        for row in read_truth(VALIDATION / "truth").select(["train_memory"]).rows
        if "unsloth" in str(row["framework"]).lower() and row["measured"]
    ][:5]
    assert rows
    names = ["train_memory"] * len(rows)
    named, unknown = (left_out.answers_without(way, rows, names, {}, PUBLISHERS) for way in ("named", "stack"))
    with substituted({}):
        assert [one["predicted"] for one in named] != [one["predicted"] for one in unknown]
    assert all("framework" in str(one["assumptions"]) for one in unknown)
    assert [row["framework"] for row in rows] == [row["framework"] for row in rows if row["framework"]]


def test_publishers_weigh_the_same_whatever_their_rows() -> None:
    answers = [{"predicted": value, "low95": 0.5, "high95": 1.2} for value in [*[1.1] * 70, *[1.5] * 7]]
    found = left_out.score([1.0] * 77, answers, ["long"] * 70 + ["short"] * 7)
    assert (found.rows, found.publishers) == (77, 2)
    assert found.median == pytest.approx(0.1)
    assert found.p90 == pytest.approx(0.5)
    one = left_out.score([1.0] * 71, [*answers[:70], {"predicted": 9.0, "low95": 8.0, "high95": 9.0}], ["long"] * 70 + ["blog"])
    assert one.in_95 == pytest.approx(1.0 - 0.2 / 1.2, abs=1e-4)
    assert left_out.weighted_quantile(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]), 0.5) == 2.0


def test_readme_leads_with_blind_scores() -> None:
    headline = json.loads((VALIDATION / "headline.json").read_text(encoding="utf-8"))
    for readme in ("README.md", "README.zh.md"):
        text = (VALIDATION.parent / readme).read_text(encoding="utf-8")
        first = honest_page.readme_rows(VALIDATION, headline, [("memory, full fine-tuning", "A", "A")], chinese=False)[0].removeprefix(
            "| A "
        )
        assert first in text
