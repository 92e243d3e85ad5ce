"""`rightfit validate`: predict every measured row, score it, print it, keep the headline and its
tables current, and write the accuracy page.

The errors are leave-one-source-out where a `folds` folder lies beside the measured tables: each
source is predicted with coefficients that were fitted without it. Elsewhere (`--truth` with one's
own tables) they are of the coefficients that ship. What is scored is in families.py.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rightfit.errors import FileInputError
from rightfit.proof import score
from rightfit.proof.accuracy import FamilyScores, PartScore, family_scores, headline_numbers
from rightfit.proof.accuracy_page import Cells, fits_cells, headline_cells, interval_cells, own_cells, own_text, percent, render, table
from rightfit.proof.figures import FAMILIES, FigureFamily
from rightfit.proof.honest_page import head, left_out_cells
from rightfit.proof.honest_page import headline_numbers as left_out_numbers
from rightfit.proof.left_out import Coefficients, LeftOutScore, left_out_scores, predict_left_out, read_folds, read_publishers
from rightfit.proof.score import GroupScore
from rightfit.proof.tables import Truth, cell_text, read_cases, read_truth, truth_folder, write_text_atomically
from rightfit.records import dataclass

# ---- The rivals that `validation/rivals.py` and `validation/rivals_inference.py` ran on the usable
# rows of our tables, on the accuracy page.

_RERUN_NOTE = """Rivals that install today, run by `validation/rivals.py` and `validation/rivals_inference.py` on exactly the usable rows of these tables, our own
line and the rules of thumb on top. Rows that a tool has no input for are not counted for it (which ones is in those scripts).
"""
_RERUN_HEADER = ("tool", "version", "run on", "rows it can express", "median APE", "signed", "P90", "by source", "within 20 %")
_RERUN_FITS = ("false fits", "false refusals")
#: What rivals.csv calls the parts of training.
FIGURE_NAMES = {"throughput": "time"}


def read_rerun(path: Path) -> list[dict[str, str]]:
    """The lines of rivals.csv; none without the file."""
    if not path.is_file():
        return []
    return [{name: cell_text(cell) for name, cell in line.items()} for line in read_cases(path)]


def rerun_text(lines: Sequence[Mapping[str, str]], families: Sequence[FamilyScores] = ()) -> str:
    """The rivals that were run on the usable rows of these tables, by figure;
    nothing without lines."""
    if not lines:
        return ""
    ours = {part.part.label: (found, part) for found in families for part in found.parts}
    parts = []
    for figure in dict.fromkeys(line["figure"] for line in lines):
        mine = [line for line in lines if line["figure"] == figure]
        has_fits = any(line["ran"] for line in mine)
        label = FIGURE_NAMES.get(figure, figure)
        own = _own_cells(*ours[label], has_fits=has_fits) if label in ours else []
        cells = own + [_rerun_cells(line) + (_rerun_fit_cells(line) if has_fits else []) for line in mine]
        title = f"peak {figure} of training" if has_fits else f"{figure} of training" if figure in FIGURE_NAMES else figure
        parts.append(f"{title[0].upper()}{title[1:]}:\n\n{table((*_RERUN_HEADER, *(_RERUN_FITS if has_fits else ())), cells)}")
    return "### Re-run by us\n\n" + _RERUN_NOTE + "\n" + "\n".join(parts)


def _own_cells(scores: FamilyScores, part: PartScore, *, has_fits: bool) -> list[list[str]]:
    """Our line and that of the rule of thumb, on the rows that count."""
    asked = sum(part.part.holds(row) for row in part.scored.rows)
    fits = [scores.fits[0]] if scores.fits and has_fits else []
    rows = [["**rightfit**", "", "", *_group_cells(part.group, asked), *(_verdicts(fits[0]) if fits else ["-", "-"] if has_fits else [])]]
    rule = scores.rules.get(part.part.name)
    if rule is not None:
        rows.append(
            [rule.name, "", "", *_group_cells(rule.group, asked), *(_verdicts(rule.fit) if rule.fit else ["-", "-"] if has_fits else [])]
        )
    return rows


def _verdicts(fit: score.FitScore) -> list[str]:
    return [f"{fit.false_fits} of {fit.out_of_memory}", f"{fit.false_refusals} of {fit.ran}"]


def _group_cells(group: GroupScore, asked: int) -> list[str]:
    figures = [percent(group.median_ape), percent(group.signed_median, signed=True), percent(group.p90_ape)]
    return [f"{group.rows:,} of {asked:,}", *figures, percent(group.by_source_median_ape), percent(group.within_20)]


def _rerun_cells(line: Mapping[str, str]) -> list[str]:
    rows = f"{int(line['rows']):,} of {int(line['asked']):,}"
    median, signed = percent(score.number(line["median_ape"])), percent(score.number(line["signed"]), signed=True)
    others = [percent(score.number(line[name])) for name in ("p90", "by_source", "within_20")]
    return [line["tool"], line["version"], line["date"], rows, median, signed, *others]


def _rerun_fit_cells(line: Mapping[str, str]) -> list[str]:
    return [f"{line['false_fits']} of {line['out_of_memory']}", f"{line['false_refusals']} of {line['ran']}"]


#: A headline error may rise by this factor before the check fails.
TOLERANCE = 1.05


@dataclass(frozen=True, slots=True)
class Validation:
    """What one run of the validation gives: the scores by family, the page, the headline numbers,
    and whether sources were left out."""

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
        """The tables under the headline of the page, as rows of cells, the heading first: what
        the web page shows."""
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


def told_on_terminal(part: str) -> None:
    """A line on standard error where somebody watches: scoring takes minutes."""
    if sys.stderr.isatty():
        sys.stderr.write(f"{part} ...\n")


def validate(folder: str | Path | None = None, *, progress: Callable[[str], None] = told_on_terminal) -> Validation:
    """Score the predictors against the measured tables in `folder` (see truth_folder). Raises
    FileInputError without tables. `progress` is told the title of each part as it begins."""
    root = truth_folder(folder)
    truth = read_truth(root)
    folds = read_folds(root.parent / "folds")
    found = tuple(_score_family(family, part, folds, progress) for family in FAMILIES if (part := family.rows(truth)).rows)
    if not found:
        titles = "; ".join(family.title.lower() for family in FAMILIES)
        raise FileInputError(f"the measured tables hold no row that is predicted: {titles}")
    if folds:
        progress("Left-out scores")
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


def _score_family(family: FigureFamily, truth: Truth, folds: Mapping[str, Coefficients], progress: Callable[[str], None]) -> FamilyScores:
    """Predict the family's rows, also without the column that it withholds, and score them."""
    progress(f"{family.title}: {len(truth.rows):,} rows")
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
    """Where the results of a checkout live. `headline` and `tables` (which ship with the package,
    for the web page) are records; `page` and its plots are made when the site is built."""

    headline: Path
    tables: Path
    page: Path


def regressions(now: Mapping[str, float], before: Mapping[str, float]) -> list[str]:
    """Headline figures that rose by more than the tolerance (and by more than a tenth
    of a percent point)."""
    return [
        f"{name}: {before[name]:.4f} -> {now.get(name, float('nan')):.4f}"
        for name in before
        if not now.get(name, float("inf")) <= max(before[name] * TOLERANCE, before[name] + 0.001)
    ]


def check(result: Validation, paths: Paths) -> list[str]:
    """What CI must complain about: a headline that got worse, tables that are not current. The page
    is no record: who reads it has it made."""
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
    """Write the headline, its tables and the page; the plots too where matplotlib is installed.
    Gives the files written."""
    for path in (paths.page, paths.tables):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomically(paths.headline, [json.dumps(result.headline, indent=2, sort_keys=True) + "\n"])
    write_text_atomically(paths.tables, [_tables_text(result)])
    write_text_atomically(paths.page, [result.text])
    from rightfit.proof.accuracy import write_plots

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
