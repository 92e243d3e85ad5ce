"""Tables of the accuracy page, as cells and as Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.proof import score
from rightfit.proof.accuracy import COVERAGE_TARGETS, FamilyScores, HeadlineScore, PartScore
from rightfit.proof.score import GroupScore, Scored

_SLICE_ROWS = 40
_MIN_ROWS = 3

Cells = tuple[Sequence[str], list[list[str]]]


def percent(value: float, *, signed: bool = False) -> str:
    """0.0613 -> '6.1 %'; a dash where there is nothing."""
    if math.isnan(value):
        return "-"
    return f"{100 * value:+.1f} %" if signed else f"{100 * value:.1f} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    cells = [[text.replace("|", "/") for text in row] for row in rows]
    lines = [" | ".join(header), " | ".join("---" for _ in header), *(" | ".join(row) for row in cells)]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


_SCORE_HEADER = ("rows", "sources", "median APE", "P90", "signed", "by source", "within 20 %", "in 80 %", "in 95 %", "width of 80 %")


def _score_cells(group: GroupScore) -> list[str]:
    return [
        str(group.rows),
        str(group.sources),
        percent(group.median_ape),
        percent(group.p90_ape),
        percent(group.signed_median, signed=True),
        percent(group.by_source_median_ape),
        percent(group.within_20),
        percent(group.coverage80),
        percent(group.coverage95),
        percent(group.width80),
    ]


def score_table(name: str, groups: Sequence[GroupScore]) -> str:
    """Scores as a table whose first column is `name`."""
    return table((name, *_SCORE_HEADER), [[group.group, *_score_cells(group)] for group in groups])


def headline_cells(families: Sequence[FamilyScores]) -> Cells:
    """The figures that the project is judged by, beside what they must be: header and rows."""
    rows = [_headline_row(found) for each in families for found in each.headlines if found.group.rows]
    return ("figure", *_SCORE_HEADER[:5], "target median / P90", "met"), rows


def _headline_row(score: HeadlineScore) -> list[str]:
    targets = score.headline.targets
    wanted = f"{percent(targets[0])} / {percent(targets[1]) if math.isfinite(targets[1]) else '-'}" if targets else "-"
    return [score.headline.name, *_score_cells(score.group)[:5], wanted, _word(score.is_met)]


def _word(is_met: bool | None) -> str:
    return "-" if is_met is None else "yes" if is_met else "no"


def interval_cells(families: Sequence[FamilyScores]) -> Cells:
    """Coverage and width of the intervals: header and rows."""
    rows = [_interval_row(part) for each in families for part in each.parts if part.group.rows]
    return ("figure", "in 80 %", "in 95 %", "median width of 80 %", "target", "met"), rows


def _interval_row(score: PartScore) -> list[str]:
    group, width = score.group, score.part.width80
    low80, high80 = COVERAGE_TARGETS["80"]
    low95, high95 = COVERAGE_TARGETS["95"]
    covers = low80 <= group.coverage80 <= high80 and low95 <= group.coverage95 <= high95
    is_narrow = width is None or group.width80 <= width
    target = f"{100 * low80:.0f}-{100 * high80:.0f} % / {100 * low95:.0f}-{100 * high95:.0f} %" + (f" / {percent(width)}" if width else "")
    return [group.group, percent(group.coverage80), percent(group.coverage95), percent(group.width80), target, _word(covers and is_narrow)]


def fits_cells(families: Sequence[FamilyScores]) -> Cells:
    """Confusion of fits / does not fit: header and rows."""
    rows = []
    for fit in (fit for each in families for fit in each.fits):
        refused = percent(fit.false_refusals / fit.ran) if fit.ran else "-"
        false95 = percent(fit.false_fits / fit.out_of_memory) if fit.out_of_memory else "-"
        false_mid = percent(fit.false_fits_mid / fit.out_of_memory) if fit.out_of_memory else "-"
        rows.append([fit.group, str(fit.ran), f"{fit.false_refusals} ({refused})", str(fit.out_of_memory), f"{fit.false_fits} ({false95})"])
        rows[-1].append(f"{fit.false_fits_mid} ({false_mid})")
    return (
        "rows",
        "ran",
        "called 'does not fit'",
        "out of memory",
        "called 'fits' at the 95 % bound",
        "called 'fits' at the mid value",
    ), rows


def slices(scored: Scored, cuts: Mapping[str, Callable[[Mapping[str, Any]], str]]) -> str:
    """One table for each way of slicing that makes more than one group of a few rows."""
    parts = []
    for name, key in cuts.items():
        groups = [group for group in score.by(scored, key) if group.rows >= _MIN_ROWS]
        hidden = f"\n{len(groups) - _SLICE_ROWS} smaller groups are not shown.\n" if len(groups) > _SLICE_ROWS else ""
        if groups and (len(groups) > 1 or name == "source"):
            parts.append(f"#### By {name}\n\n{score_table(name, groups[:_SLICE_ROWS])}{hidden}")
    return "\n".join(parts)


def worst_table(scored: Scored, job: Callable[[Mapping[str, Any]], str], count: int = 10) -> str:
    """The rows that are furthest off, with the terms that make the prediction."""
    rows = []
    for at in score.worst(scored, count):
        row, terms = scored.rows[at], scored.predictions[at].get("terms") or {}
        blame = ", ".join(f"{name} {100 * share:.0f} %" for name, share in sorted(terms.items(), key=lambda item: -item[1])[:3])
        measured, predicted = float(scored.measured[at]), float(scored.predicted[at])
        remark = score.text_of(row, "flags") or score.text_of(row, "notes")[:80]
        rows.append([score.text_of(row, "id"), score.text_of(row, "source"), job(row), f"{measured:.4g}", f"{predicted:.4g}"])
        rows[-1] += [f"{predicted / measured:.2f}x", blame, remark]
    return table(("id", "source", "job", "measured", "predicted", "ratio", "largest terms", "remark of the row"), rows)


def floor_text(families: Sequence[FamilyScores]) -> str:
    """What is left of the errors of headline figures when each source may have a factor of its own, beside the targets."""
    rows = []
    for found in families:
        for each in found.headlines:
            if each.headline.targets is None or not each.group.rows:
                continue
            mine = [part.scored.take(_held(part.scored, each.headline.holds)) for part in found.parts]
            scored = max(mine, key=lambda part: len(part.measured))
            floors = (score.after_free_factor(scored), score.after_free_factor(scored, by_software=True))
            errors = ((each.group.median_ape, each.group.p90_ape), *floors, each.headline.targets)
            rows.append(
                [each.headline.name, *(" / ".join("-" if math.isinf(value) else percent(value) for value in pair) for pair in errors)]
            )
    if not rows:
        return ""
    header = ("figure, median / P90", "left out", "one free factor per source", "one per source and software", "target")
    intro = """Errors that remain when each source may have one factor of its own, fitted to its rows after the fact. A predictor of new sources does not know that
factor; where even these errors miss a target, the rows of one source differ among themselves by more than the columns tell."""
    return f"### What is left within a source\n\n{intro}\n\n{table(header, rows)}"


def _held(scored: Scored, holds: Callable[[Mapping[str, Any]], bool]) -> NDArray[np.intp]:
    return np.flatnonzero(np.array([holds(row) for row in scored.rows], dtype=bool))


def noise_text(families: Sequence[FamilyScores]) -> str:
    """The floor that the data allow: how much measurements of one configuration differ within a source and between sources."""
    repeated = [line for found in families for line in _spread_lines(found.spread)]
    between = [line for found in families for line in _spread_lines(found.source_spread)]
    parts = []
    for title, lines in (
        ("Rows whose configuration columns are all equal, yet whose measured values differ:", repeated),
        ("The same between two sources (versions and remarks aside):", between),
    ):
        if lines:
            parts.append(f"{title}\n\n" + "\n".join(lines) + "\n")
    return "### What the data allow\n\n" + "\n".join(parts) if parts else ""


def _spread_lines(spread: Mapping[str, Sequence[float]]) -> list[str]:
    """One line for each part with pairs."""
    return [
        f"- {label}: {len(found)} pairs of rows with equal columns differ by {percent(float(np.median(found)))} at the median, "
        f"{percent(float(np.quantile(found, 0.9)))} at P90"
        for label, found in sorted(spread.items())
        if found
    ]
