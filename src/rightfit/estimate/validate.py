"""`rightfit validate`: predict every measured row, score it, print it, keep the accuracy page and the headline current.

The errors are leave-one-source-out where a `folds` folder lies beside the measured tables: each source is predicted with coefficients that
were fitted without it. Elsewhere (`--truth` with one's own tables) they are of the coefficients that ship.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from rightfit.errors import FileInputError
from rightfit.estimate import accuracy, score
from rightfit.estimate.accuracy import Accuracy
from rightfit.estimate.folds import predict_left_out, read_folds
from rightfit.estimate.rerun import read_rerun, rerun_text
from rightfit.estimate.tables import write_text_atomically
from rightfit.estimate.truth import Truth, read_truth, truth_folder

#: A headline error may rise by this factor before the check fails.
TOLERANCE = 1.05
TRAINING_TABLES = ("train_memory", "train_throughput")


@dataclasses.dataclass(frozen=True, slots=True)
class Validation:
    """What one run of the validation gives: the scores, the page, the headline numbers, and what is wrong with them."""

    page: Accuracy
    text: str
    headline: dict[str, float]
    left_out: bool

    def tables(self) -> list[accuracy.Cells]:
        """The headline tables alone, each a header and its rows."""
        return [accuracy.headline_cells(self.page), accuracy.interval_cells(self.page), accuracy.fits_cells(self.page)]

    def summary(self) -> str:
        """The headline tables as Markdown."""
        return "\n".join(accuracy.table(*cells) for cells in self.tables())


def validate(folder: str | Path | None = None) -> Validation:
    """Score the predictors against the measured tables in `folder` (see truth_folder). Raises FileInputError without tables."""
    root = truth_folder(folder)
    truth = _training_rows(read_truth(root))
    folds = read_folds(root.parent / "folds")
    page = accuracy.accuracy(
        truth.rows,
        predict_left_out(truth.rows, folds),
        truth.excluded,
        nameless=predict_left_out([{**row, "framework": ""} for row in truth.rows], folds),
        provenance=_provenance(bool(folds), truth),
    )
    peers = root / "peers_training_scores.md"
    text = accuracy.render(
        page,
        peers=peers.read_text(encoding="utf-8") if peers.is_file() else "",
        rerun=rerun_text(read_rerun(root.parent / "rivals.csv")),
        noise=accuracy.noise_text(truth),
        plots=accuracy.PLOTS,
    )
    return Validation(page, text, headline_numbers(page), bool(folds))


def _training_rows(truth: Truth) -> Truth:
    """Rows whose metric is one of training; the other tables wait for their predictors."""
    from rightfit.estimate.predict import TRAINING_METRICS

    keep = [i for i, row in enumerate(truth.rows) if row.get("metric") in TRAINING_METRICS and ("method" in row or "micro_batch" in row)]
    if not keep:
        raise FileInputError("the measured tables hold no row of training memory, throughput or step time")
    return Truth([truth.rows[i] for i in keep], [truth.table[i] for i in keep], [truth.excluded[i] for i in keep], truth.files)


def _provenance(left_out: bool, truth: Truth) -> str:
    counted = sum(not reason for reason in truth.excluded)
    how = (
        "Every source is predicted with coefficients fitted without it (leave-one-source-out; see `validation/README.md`)."
        if left_out
        else "The coefficients are those that ship; they were fitted on some of these sources."
    )
    return f"{counted:,} usable rows of {len(truth.rows):,} training rows. {how}"


def headline_numbers(page: Accuracy) -> dict[str, float]:
    """The figures that must not get worse."""
    numbers: dict[str, float] = {}
    for group in page.headline:
        numbers[f"{group.group}: median APE"] = round(group.median_ape, 4)
        numbers[f"{group.group}: P90 APE"] = round(group.p90_ape, 4)
    for group in page.families:
        numbers[f"{group.group}: width of 80 % interval"] = round(group.width80, 4)
        numbers[f"{group.group}: outside 95 % interval"] = round(1 - group.coverage95, 4)
    usable = page.fits[0]
    numbers["false fits at the 95 % bound"] = round(usable.false_fits / max(usable.out_of_memory, 1), 4)
    numbers["false refusals"] = round(usable.false_refusals / max(usable.ran, 1), 4)
    numbers["rows not answered"] = round(1 - page.answered[0] / max(page.answered[1], 1), 4)
    return numbers


def regressions(now: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Headline figures that rose by more than the tolerance (and by more than a tenth of a percent point)."""
    return [
        f"{name}: {before[name]:.4f} -> {now.get(name, float('nan')):.4f}"
        for name in before
        if not now.get(name, float("inf")) <= max(before[name] * TOLERANCE, before[name] + 0.001)
    ]


def check(result: Validation, *, page: Path, headline: Path) -> list[str]:
    """What CI must complain about: a headline that got worse, a page that is not current."""
    problems = []
    if headline.is_file():
        problems += [
            f"worse by more than 5 %: {text}" for text in regressions(result.headline, json.loads(headline.read_text(encoding="utf-8")))
        ]
    else:
        problems.append(f"{headline} does not exist: run `rightfit validate --write`")
    if not page.is_file() or page.read_text(encoding="utf-8") != result.text:
        problems.append(f"{page} is not current: run `rightfit validate --write`")
    return problems


def write(result: Validation, *, page: Path, headline: Path) -> list[Path]:
    """Write the page and the headline; the plots too where matplotlib is installed. Gives the files written."""
    page.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(page, [result.text])
    write_text_atomically(headline, [json.dumps(result.headline, indent=2, sort_keys=True) + "\n"])
    from rightfit.estimate.accuracy_plots import write_plots

    return [page, headline, *write_plots(result.page, page.parent / "accuracy")]


def repository_paths(folder: Path) -> tuple[Path, Path]:
    """Where the page and the headline of a truth folder live: docs/accuracy.md and validation/headline.json of its checkout."""
    validation = folder.resolve().parent
    return validation.parent / "docs" / "accuracy.md", validation / "headline.json"


__all__ = ["Validation", "check", "headline_numbers", "regressions", "repository_paths", "score", "validate", "write"]
