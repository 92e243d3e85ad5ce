"""The accuracy page as Markdown, from the scores."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit.proof import score
from rightfit.proof.accuracy import COVERAGE_TARGETS, FamilyScores, HeadlineScore, PartScore
from rightfit.proof.score import FitScore, GroupScore, Scored
from rightfit.proof.tables import cell_text, read_cases

# ---- Tables of the accuracy page, as cells and as Markdown.

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


def worst_table(scored: Scored, job: Callable[[Mapping[str, Any]], str]) -> str:
    """The rows that are furthest off, with the terms that make the prediction."""
    rows = []
    for at in score.worst(scored, 10):
        row, terms = scored.rows[at], scored.predictions[at].get("terms") or {}
        blame = ", ".join(f"{name} {100 * share:.0f} %" for name, share in sorted(terms.items(), key=lambda item: -item[1])[:3])
        measured, predicted = float(scored.measured[at]), float(scored.predicted[at])
        remark = score.text_of(row, "flags") or score.text_of(row, "notes")[:80]
        rows.append([score.text_of(row, "id"), score.text_of(row, "source"), job(row), f"{measured:.4g}", f"{predicted:.4g}"])
        rows[-1] += [f"{predicted / measured:.2f}x", blame, remark]
    return table(("id", "source", "job", "measured", "predicted", "ratio", "largest terms", "remark of the row"), rows)


def floor_text(families: Sequence[FamilyScores]) -> str:
    """What is left of the errors of headline figures when each source may have a factor of its own,
    beside the targets."""
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
    """The floor that the data allow: how much measurements of one configuration differ within a
    source and between sources."""
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


# ---- The rivals on the accuracy page: their errors as studied on all tables, ours and the rules of
# thumb on our rows on top.

_OURS = "**rightfit** (the usable rows of these tables)"
_HEADERS = {
    "Peak memory": ["tool", "rows", "median APE (signed)", "by source", "within 20 %", "false fits", "false refusals"],
    "Throughput": ["tool", "rows", "median APE (signed)", "within 20 %"],
}


def rival_rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading of peers_training_scores.md."""
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    body = next((part for part in section if part.startswith(heading)), "")
    lines = [line for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def training_rivals(scores: FamilyScores, peers: str) -> str:
    """The rivals' errors as measured on these tables, our own line and the rules of thumb on
    exactly our rows on top."""
    memory, time = ([[_OURS, *_error_cells(scores.part(name).group)]] for name in ("memory", "time"))
    memory[0] += _fit_cells(scores.fits[0])
    for part, lines in (("memory", memory), ("time", time)):
        if part in scores.rules:
            rule = scores.rules[part]
            lines.append([f"{rule.name} (the same rows)", *_error_cells(rule.group)])
            lines[-1] += (_fit_cells(rule.fit) if rule.fit else ["-", "-"]) if part == "memory" else []
    for cells in time:
        del cells[3]
    parts = []
    for title, own in (("Peak memory", memory), ("Throughput", time)):
        theirs = rival_rows(peers, title)
        header = theirs[0] if theirs else _HEADERS[title]
        parts.append(f"### {title} of training\n\n{table(header, [*own, *theirs[2:]])}")
    return "\n".join(parts)


def _error_cells(group: GroupScore) -> list[str]:
    if not group.rows:
        return ["0", "-", "-", "-"]
    median = f"{percent(group.median_ape)} ({100 * group.signed_median:+.0f})"
    return [f"{group.rows:,}", median, percent(group.by_source_median_ape), percent(group.within_20)]


def _fit_cells(fit: FitScore) -> list[str]:
    return [f"{fit.false_fits} of {fit.out_of_memory}", f"{fit.false_refusals} of {fit.ran}"]


def quoted(peers: str) -> str:
    """What the study says of serving, as it stands there."""
    line = next((line for line in peers.splitlines() if line.startswith("Serving")), "")
    return f"From the same study: {line[0].lower()}{line[1:]}\n" if line else ""


def has_training(families: Sequence[FamilyScores]) -> FamilyScores | None:
    """The family of training, where the tables hold rows of it."""
    return next((found for found in families if found.family.name == "training" and found.asked), None)


_PLOT_KINDS = ("predicted_measured", "error_by_source", "coverage")


def plot_names(families: Sequence[FamilyScores]) -> list[str]:
    """File names, without ending, of the plots of these families."""
    return [f"{found.family.plot}{kind}" for found in families for kind in _PLOT_KINDS]


def render(families: Sequence[FamilyScores], *, provenance: str, peers: str = "", rerun: str = "", head: str = "", own: str = "") -> str:
    """The whole page."""
    verdicts = f"\n{table(*fits_cells(families))}" if any(found.fits for found in families) else ""
    return f"""# How wrong rightfit is

Written by `rightfit validate`; do not edit.

{head}## Own rows, coefficients fitted without the source

{provenance}

APE is |predicted / measured - 1|. "By source" is the median over sources of each source's median, so that no long table decides. The columns
"in 80 %" and "in 95 %" say how many measured values lie inside the interval; width is (high - low) / predicted.

### Headline of own rows, stack named

{table(*headline_cells(families))}
{table(*interval_cells(families))}{verdicts}
{"".join(_answered(found) for found in families)}
{noise_text(families)}
{floor_text(families)}
{"".join(family_text(found) for found in families)}
{own}## Rows that are not counted

The tables mark these as lacking too much to be compared (see `validation/exclusions.csv` and `why_not` of each row); where a prediction is possible
all the same, it is this far off. No target applies.

{score_table("rows", [part.other for found in families for part in found.parts if part.other.rows])}
{rivals_text(families, peers=peers, rerun=rerun)}"""


def _answered(scores: FamilyScores) -> str:
    answered, counted = scores.answered
    share = percent(answered / counted) if counted else "-"
    refusals = "".join(f"- {count} x {reason}\n" for reason, count in scores.refusals[:10])
    tail = f" Refused:\n\n{refusals}\n" if refusals else "\n\n"
    return f"{scores.family.title}: {answered:,} of {counted:,} usable rows answered ({share}).{tail}"


def family_text(scores: FamilyScores) -> str:
    """One family: plots, what is left without a name, and every part in slices."""
    images = "".join(f"![{name}](accuracy/{name}.svg)\n" for name in plot_names([scores]))
    parts = "".join(part_text(scores, part) for part in scores.parts if part.group.rows)
    return f"## {scores.family.title}\n\n{images}\n{withheld_text(scores)}{parts}"


def part_text(scores: FamilyScores, part: PartScore) -> str:
    """One quantity in slices, and its worst rows."""
    cut = slices(part.scored, scores.family.slices)
    return f"### {part.part.title}\n\n{cut}\n#### Worst rows\n\n{worst_table(part.scored, scores.family.job)}\n"


def withheld_text(scores: FamilyScores) -> str:
    """How far off a framework or an engine is that we know nothing about."""
    groups = [each.withheld for each in scores.headlines if each.withheld is not None and each.withheld.rows]
    if not groups:
        return ""
    name = scores.family.withheld
    return f"### Without the {name}'s name\n\n{scores.family.withheld_why}\n\n{score_table('figure', groups)}\n"


def rivals_text(families: Sequence[FamilyScores], *, peers: str, rerun: str) -> str:
    """The section of the rivals."""
    training = has_training(families)
    studied = training_rivals(training, peers) if training is not None else ""
    return f"""## The rivals

Errors of other tools on the rows that each can express, of these tables and of further ones that are held back (as of 2026-11). A tool that answers
few rows chose easier ones.

{studied}
{quoted(peers)}
{rerun}"""


# ---- What runs of one's own are worth, for the accuracy page: errors with 0 to 3 own rows, the
# bars that they must keep, and what a choice costs with 0 to 2 tests.
#
# The figures are written by `validation/fit_calibration.py --write` (own_runs.csv) and
# `validation/own_decisions.py --write` (own_decisions.csv), on sources left out; the bars are lines
# of validation/own_bars.csv.

RUNS, DECISIONS, BARS = "own_runs.csv", "own_decisions.csv", "own_bars.csv"
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
Line = Mapping[str, str]


def _lines(path: Path) -> list[dict[str, str]]:
    return [{name: cell_text(cell) for name, cell in line.items() if name} for line in read_cases(path)] if path.is_file() else []


def error_cells(validation: Path) -> Cells | None:
    """Median error with 0, 1, 2 and 3 own rows of the job; None without the table. Each cell
    compares the same cases before and after."""
    lines = _lines(validation / RUNS)
    if not lines:
        return None
    by = {(line["figure"], int(line["rows"])): line for line in lines}
    figures = list(dict.fromkeys(line["figure"] for line in lines))
    rows = [[_name(figure), *(_pair(by.get((figure, known))) for known in (1, 2, 3)), *_last(by[figure, 1])] for figure in figures]
    return ["figure", "1 own row", "2 own rows", "3 own rows", "sources made worse by one row", "in 80 % (one row)"], rows


def _name(figure: str) -> str:
    return figure.replace("-", " ")


def _pair(line: Line | None) -> str:
    return f"{percent(float(line['median_none']))} → {percent(float(line['median_corrected']))}" if line else "-"


def _last(line: Line) -> list[str]:
    return [percent(float(line["worse_corrected"])), percent(float(line["inside80"]))]


def bar_rows(validation: Path) -> list[tuple[str, str, float, str, float, bool]]:
    """(figure, what, value, sign, bar, whether it is kept) of every bar."""
    by = {(line["figure"], line["rows"]): line for line in _lines(validation / RUNS)}
    found = []
    for bar in _lines(validation / BARS):
        line = by.get((bar["figure"], bar["rows"]))
        if line is not None:
            value, limit = float(line[bar["column"]]), float(bar["limit"])
            found.append((bar["figure"], bar["what"], value, bar["sign"], limit, _SIGNS[bar["sign"]](value, limit)))
    return found


def bar_cells(validation: Path) -> Cells | None:
    """The bars, and which are kept."""
    rows = [
        [_name(figure), what, percent(value), f"{sign} {percent(limit)}", "yes" if kept else "no"]
        for figure, what, value, sign, limit, kept in bar_rows(validation)
    ]
    return (["figure", "bar", "measured", "limit", "kept"], rows) if rows else None


def decision_cells(validation: Path) -> Cells | None:
    """Extra cost of the chosen card over the best one; None without the table."""
    lines = _lines(validation / DECISIONS)
    names = ("test_0", "test_1", "test_2", "cheapest_per_hour", "random")
    rows = [[_name(line["figure"]), line["choices"], line["sources"], *(percent(float(line[name])) for name in names)] for line in lines]
    header = ["figure", "choices", "sources", "no test", "1 test", "2 tests", "cheapest by the hour", "a card at random"]
    return (header, rows) if rows else None


def own_cells(validation: Path) -> list[Cells]:
    """Every table that there is."""
    return [cells for cells in (error_cells(validation), bar_cells(validation), decision_cells(validation)) if cells is not None]


def own_text(validation: Path) -> str:
    """The section of the accuracy page; empty without the tables."""
    errors, bars, decisions = error_cells(validation), bar_cells(validation), decision_cells(validation)
    if errors is None:
        return ""
    return f"""## With runs of your own

Median error before and after so many measured rows of the same job are known (`--runs`); each source with numbers fitted without it ([how](decisions/own-runs.md)). Serving memory is never corrected. The cases of a cell are those of jobs with more rows than are known, so its first number differs from cell to cell.

{table(*errors)}{_section("The bars of this release:", bars)}{_section(_DECISIONS, decisions)}
"""


_DECISIONS = (
    "What a choice costs: the extra cost of the chosen card over the best one, as many of each at the same batch and length, at the lowest on-demand price of each card "
    "(`validation/card_prices.csv`); the card of the lowest predicted cost is tested first. Mean over the sources' means:"
)


def _section(text: str, cells: Cells | None) -> str:
    return f"\n{text}\n\n{table(*cells)}" if cells is not None else ""
