"""The gate of CI: intervals and tables of accuracy are current, and no headline error
rose by more than 5 %."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rightfit.proof import accuracy_page, honest_page
from rightfit.proof.validate import check, repository_paths, validate

VALIDATION = Path(__file__).resolve().parents[2] / "validation"


def test_tables_are_current_headline_no_worse_and_the_page_whole() -> None:
    result = validate(VALIDATION / "truth")
    assert check(result, repository_paths(VALIDATION / "truth")) == []
    assert accuracy_page.own_text(VALIDATION) in result.text
    leads_with_blind_scores(result.text)


def leads_with_blind_scores(page: str) -> None:
    """Blind scores stand above own rows, and a goal that is missed stands with its
    floor and its reason."""
    words = ("| blind | first contact | left out: stack unknown |", "## Own rows, coefficients fitted without the source")
    places = [page.index(part) for part in words]
    assert places == sorted(places)
    blind = honest_page.blind_lines(VALIDATION)
    for name, aim in honest_page.goals(VALIDATION).items():
        assert f"| {name} | {honest_page.pair(float(blind[name]['median_by_source']), float(blind[name]['p90_ape']))} |" in page
        if honest_page.is_met(blind[name], aim) == "no":
            said = page.partition("Goals that are missed on blind rows")[2]
            line = next(line for line in said.splitlines() if line.startswith(f"- {name}: "))
            floor = line.partition("Floor: “")[2].partition("”")[0]
            assert f"| {floor} | " in page.partition("### What is left within a source")[2]  # the floor stands on the page
            assert len(line.partition("Why: ")[2].split()) > 5


@pytest.mark.parametrize("script", ["fit_intervals.py", "fit_law.py"])
def test_intervals_are_current(script: str) -> None:
    pytest.importorskip("scipy")
    done = subprocess.run([sys.executable, str(VALIDATION / script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_source_with_a_fold_is_left_out_of_it() -> None:
    from rightfit.proof.left_out import read_folds
    from rightfit.proof.tables import read_truth

    folds = read_folds(VALIDATION / "folds")
    truth = read_truth(VALIDATION / "truth").select(["train_memory", "train_throughput"])
    counted = {
        (name, row["source"])
        for name, row, reason in zip(truth.table, truth.rows, truth.excluded, strict=True)
        if not reason and row["measured"]
    }
    lacking = [
        f"{table}: {source}"
        for table, source in sorted(counted)
        if ("memory" if table == "train_memory" else "compute") not in folds.get(source, {})
    ]
    assert lacking == []


def test_every_source_of_inference_with_a_fold_is_left_out_of_it() -> None:
    from rightfit.proof.cases.forward import is_forward
    from rightfit.proof.figures import family
    from rightfit.proof.left_out import read_folds
    from rightfit.proof.tables import read_truth

    folds, truth = read_folds(VALIDATION / "folds"), read_truth(VALIDATION / "truth")
    lacking = []
    for name, file in (("serving", "serving"), ("passes", "forward")):
        part = family(name).rows(truth)
        kept = [row for row, reason in zip(part.rows, part.excluded, strict=True) if not reason and row["measured"]]
        sources = {
            row["source"] for row in kept if name == "serving" or is_forward(row)
        }  # a language model of unknown name passes for neither
        lacking += [f"{name}: {source}" for source in sorted(sources) if file not in folds.get(source, {})]
    assert lacking == []
