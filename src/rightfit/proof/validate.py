"""`rightfit validate`: predict every measured row, score it, print it, keep the headline and its tables current, and write the accuracy page.

The errors are leave-one-source-out where a `folds` folder lies beside the measured tables: each source is predicted with coefficients that
were fitted without it. Elsewhere (`--truth` with one's own tables) they are of the coefficients that ship. What is scored is in
families.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightfit.errors import FileInputError
from rightfit.proof.accuracy import FamilyScores, family_scores, headline_numbers
from rightfit.proof.accuracy_page import render
from rightfit.proof.accuracy_tables import Cells, fits_cells, headline_cells, interval_cells, table
from rightfit.proof.figures import FAMILIES, FigureFamily
from rightfit.proof.folds import Coefficients, predict_left_out, read_folds
from rightfit.proof.honest_page import head, left_out_cells
from rightfit.proof.honest_page import headline_numbers as left_out_numbers
from rightfit.proof.left_out import LeftOutScore, left_out_scores, read_publishers
from rightfit.proof.own_tables import own_cells, own_text
from rightfit.proof.rerun import read_rerun, rerun_text
from rightfit.proof.tables import write_text_atomically
from rightfit.proof.truth import Truth, read_truth, truth_folder
from rightfit.records import dataclass

#: A headline error may rise by this factor before the check fails.
TOLERANCE = 1.05


@dataclass(frozen=True, slots=True)
class Validation:
    """What one run of the validation gives: the scores by family, the page, the headline numbers, and whether sources were left out."""

    families: tuple[FamilyScores, ...]
    text: str
    headline: dict[str, float]
    left_out: bool
    scores: Mapping[str, Mapping[str, LeftOutScore]] = dataclasses.field(default_factory=dict)
    own: tuple[Cells, ...] = ()

    def tables(self) -> list[Cells]:
        """The headline tables alone, each a header and its rows."""
        verdicts = [fits_cells(self.families)] if any(found.fits for found in self.families) else []
        return [*left_out_cells(self.scores), headline_cells(self.families), interval_cells(self.families), *verdicts, *self.own]

    def published(self) -> list[list[list[str]]]:
        """The tables under the headline of the page, as rows of cells, the heading first: what the web page shows."""
        _, _, behind = self.text.partition("### Headline")
        blocks = re.split(r"\n\s*\n", re.split(r"^## ", behind, flags=re.MULTILINE)[0])
        return [[_cells(line) for line in _table_lines(block)] for block in blocks if block.lstrip().startswith("|")]

    def summary(self) -> str:
        """The headline tables as Markdown."""
        return "\n".join(table(*cells) for cells in self.tables())


def _table_lines(block: str) -> list[str]:
    return [line for line in block.strip().splitlines() if line.startswith("|") and not re.fullmatch(r"[|\s:-]+", line)]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def validate(folder: str | Path | None = None) -> Validation:
    """Score the predictors against the measured tables in `folder` (see truth_folder). Raises FileInputError without tables."""
    root = truth_folder(folder)
    truth = read_truth(root)
    folds = read_folds(root.parent / "folds")
    found = tuple(_score_family(family, part, folds) for family in FAMILIES if (part := family.rows(truth)).rows)
    if not found:
        titles = "; ".join(family.title.lower() for family in FAMILIES)
        raise FileInputError(f"the measured tables hold no row that is predicted: {titles}")
    scores = _left_out(truth, folds, root.parent) if folds else {}
    peers = root / "peers_training_scores.md"
    text = render(
        found,
        provenance=_provenance(bool(folds), found),
        peers=peers.read_text(encoding="utf-8") if peers.is_file() else "",
        rerun=rerun_text(read_rerun(root.parent / "rivals.csv"), found),
        head=head(root.parent, scores) if folds else "",
        own=own_text(root.parent),
    )
    return Validation(found, text, headline_numbers(found) | left_out_numbers(scores), bool(folds), scores, tuple(own_cells(root.parent)))


def _left_out(truth: Truth, folds: Mapping[str, Coefficients], validation: Path) -> dict[str, dict[str, LeftOutScore]]:
    """Scores of the rows that count with their stack, publisher or class of device left out."""
    counted = [i for i, reason in enumerate(truth.excluded) if not reason]
    rows, names = [truth.rows[i] for i in counted], [truth.table[i] for i in counted]
    return left_out_scores(rows, names, folds, read_publishers(validation / "publishers.csv"))


def _score_family(family: FigureFamily, truth: Truth, folds: Mapping[str, Coefficients]) -> FamilyScores:
    """Predict the family's rows, also without the column that it withholds, and score them."""
    hidden = [{**row, family.withheld: ""} for row in truth.rows] if family.withheld else []
    return family_scores(
        family,
        truth.rows,
        predict_left_out(truth.rows, folds),
        truth.excluded,
        withheld=predict_left_out(hidden, folds) if hidden else (),
    )


def _provenance(left_out: bool, families: Sequence[FamilyScores]) -> str:
    counts = "; ".join(f"{found.answered[1]:,} of {found.asked:,} ({found.family.title.lower()})" for found in families)
    how = (
        "Every source is predicted with coefficients fitted without it (leave-one-source-out; see `validation/README.md`)."
        if left_out
        else "The coefficients are those that ship; they were fitted on some of these sources."
    )
    return f"Usable rows: {counts}. {how}"


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the results of a checkout live. `headline` and `tables` (which ship with the package, for the web page) are records; `page` and its plots are made when
    the site is built."""

    headline: Path
    tables: Path
    page: Path


def regressions(now: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Headline figures that rose by more than the tolerance (and by more than a tenth of a percent point)."""
    return [
        f"{name}: {before[name]:.4f} -> {now.get(name, float('nan')):.4f}"
        for name in before
        if not now.get(name, float("inf")) <= max(before[name] * TOLERANCE, before[name] + 0.001)
    ]


def check(result: Validation, paths: Paths) -> list[str]:
    """What CI must complain about: a headline that got worse, tables that are not current. The page is no record: who reads it has it made."""
    problems = []
    if paths.headline.is_file():
        before = json.loads(paths.headline.read_text(encoding="utf-8"))
        problems += [f"worse by more than 5 %: {text}" for text in regressions(result.headline, before)]
    else:
        problems.append(f"{paths.headline} does not exist: run `rightfit validate --write`")
    if not paths.tables.is_file() or paths.tables.read_text(encoding="utf-8") != _tables_text(result):
        problems.append(f"{paths.tables} is not current: run `rightfit validate --write`")
    return problems


def write(result: Validation, paths: Paths) -> list[Path]:
    """Write the headline, its tables and the page; the plots too where matplotlib is installed. Gives the files written."""
    for path in (paths.page, paths.tables):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(paths.headline, [json.dumps(result.headline, indent=2, sort_keys=True) + "\n"])
    write_text_atomically(paths.tables, [_tables_text(result)])
    write_text_atomically(paths.page, [result.text])
    from rightfit.proof.accuracy_plots import write_plots

    return [paths.headline, paths.tables, paths.page, *write_plots(result.families, paths.page.parent / "accuracy")]


def _tables_text(result: Validation) -> str:
    """One line a row, so that a change shows what it changed."""
    tables = [",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) for rows in result.published()]
    return "[\n" + ",\n".join(f"[\n{rows}\n]" for rows in tables) + "\n]\n"


def repository_paths(folder: Path) -> Paths:
    """The places in the checkout of a truth folder."""
    validation = folder.resolve().parent
    root = validation.parent
    return Paths(validation / "headline.json", root / "src" / "rightfit" / "web" / "data" / "accuracy.json", root / "docs" / "accuracy.md")


__all__ = ["Paths", "Validation", "check", "headline_numbers", "regressions", "repository_paths", "validate", "write"]
