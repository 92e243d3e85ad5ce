"""The rivals that `validation/rivals.py` and `validation/rivals_inference.py` ran on the usable rows of our tables, on the accuracy
page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rightfit.proof import score
from rightfit.proof.accuracy import FamilyScores, PartScore
from rightfit.proof.accuracy_tables import percent, table
from rightfit.proof.score import GroupScore
from rightfit.proof.tables import cell_text, read_cases

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
    """The rivals that were run on the usable rows of these tables, by figure; nothing without lines."""
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
