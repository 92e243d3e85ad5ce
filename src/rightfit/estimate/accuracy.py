"""The accuracy page: tables of how wrong the predictions are, as Markdown. Pure: scores in, text out."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.estimate import rules, score
from rightfit.estimate.score import FitScore, GroupScore, Scored
from rightfit.estimate.tables import cell_text
from rightfit.estimate.truth import Truth

#: What must be reached: (median APE, P90 of APE) by headline group, from the project's acceptance table.
TARGETS: Mapping[str, tuple[float, float]] = {
    "memory, full": (0.06, 0.18),
    "memory, adapters": (0.08, 0.25),
    "time, one node": (0.10, 0.30),
    "time, many nodes": (0.12, 0.35),
}
WIDTH_TARGETS = {"memory": 0.25, "time": 0.40}
COVERAGE_TARGETS = {"80": (0.76, 0.85), "95": (0.93, 0.98)}
PLOTS = ("predicted_measured", "error_by_source", "coverage")
_SLICE_ROWS = 40
_MIN_ROWS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Accuracy:
    """Everything the page says."""

    memory: Scored
    time: Scored
    headline: list[GroupScore]
    families: list[GroupScore]
    fits: list[FitScore]
    answered: tuple[int, int]
    refusals: list[tuple[str, int]]
    others: list[GroupScore]
    rules: list[tuple[str, GroupScore, FitScore | None]]
    nameless: list[GroupScore]
    provenance: str


def accuracy(
    rows: Sequence[Mapping[str, Any]],
    predictions: Sequence[Mapping[str, Any]],
    excluded: Sequence[str],
    *,
    nameless: Sequence[Mapping[str, Any]] = (),
    provenance: str,
) -> Accuracy:
    """Score the rows that count, and beside them those that stay out.

    `nameless` are predictions of the same rows with the framework's name withheld.
    """
    counted = [index for index, reason in enumerate(excluded) if not reason]
    kept_rows, kept = [rows[i] for i in counted], [predictions[i] for i in counted]
    scored = score.pair(kept_rows, kept)
    memory, time = _split(scored)
    out = [index for index, reason in enumerate(excluded) if reason]
    others = score.pair([rows[i] for i in out], [predictions[i] for i in out])
    return Accuracy(
        memory,
        time,
        [_named(scored, name) for name in TARGETS],
        [score.group_score("memory", memory), score.group_score("time", time)],
        _fit_scores(rows, predictions, kept_rows, kept),
        score.answered_share(kept),
        _refusals(kept),
        [score.group_score(f"not counted: {name}", part) for name, part in zip(("memory", "time"), _split(others), strict=True)],
        _rules(kept_rows),
        _nameless(kept_rows, [nameless[i] for i in counted]) if nameless else [],
        provenance,
    )


def _nameless(rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> list[GroupScore]:
    """Headline groups as predicted without the framework's name."""
    scored = score.pair(rows, answers)
    return [_named(scored, name) for name in TARGETS]


def _rules(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, GroupScore, FitScore | None]]:
    """Rules of thumb on the rows that count: name, score, confusion of fits where there is one."""
    answers = rules.rule_predictions(rows)
    memory, time = _split(score.pair(rows, answers))
    return [
        (rules.MEMORY_RULE, score.group_score(rules.MEMORY_RULE, memory), score.fits_score("rule", rows, answers)),
        (rules.TIME_RULE, score.group_score(rules.TIME_RULE, time), None),
    ]


def _split(scored: Scored) -> tuple[Scored, Scored]:
    import numpy as np

    memory = np.array([score.is_memory(row) for row in scored.rows], dtype=bool)
    return scored.take(np.flatnonzero(memory)), scored.take(np.flatnonzero(~memory))


def _named(scored: Scored, name: str) -> GroupScore:
    import numpy as np

    inside = np.array([score.headline_group(row) == name for row in scored.rows], dtype=bool)
    return score.group_score(name, scored.take(np.flatnonzero(inside)))


def _fit_scores(
    rows: Sequence[Mapping[str, Any]],
    predictions: Sequence[Mapping[str, Any]],
    kept_rows: Sequence[Mapping[str, Any]],
    kept: Sequence[Mapping[str, Any]],
) -> list[FitScore]:
    """Usable rows by kind, and every row of the tables that says whether it ran."""

    def part(name: str, wanted: str) -> FitScore:
        index = [i for i, row in enumerate(kept_rows) if score.is_memory(row) and score.headline_group(row) == wanted]
        return score.fits_score(name, [kept_rows[i] for i in index], [kept[i] for i in index])

    return [
        score.fits_score("usable rows", kept_rows, kept),
        part("of these, full", "memory, full"),
        part("of these, adapters", "memory, adapters"),
        score.fits_score("all rows, usable or not", rows, predictions),
    ]


def _refusals(predictions: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    counts: dict[str, int] = {}
    for answer in predictions:
        if answer.get("error"):
            counts[str(answer["error"])] = counts.get(str(answer["error"]), 0) + 1
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


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


Cells = tuple[Sequence[str], list[list[str]]]


def headline_cells(page: Accuracy) -> Cells:
    """The figures that the project is judged by, beside what they must be: header and rows."""
    rows = []
    for group in page.headline:
        median, p90 = TARGETS[group.group]
        met = "yes" if group.median_ape <= median and group.p90_ape <= p90 else "no"
        rows.append([group.group, *_score_cells(group)[:5], f"{percent(median)} / {percent(p90)}", met])
    return ("figure", *_SCORE_HEADER[:5], "target median / P90", "met"), rows


def interval_cells(page: Accuracy) -> Cells:
    """Coverage and width of the intervals: header and rows."""
    rows = []
    for group in page.families:
        low80, high80 = COVERAGE_TARGETS["80"]
        low95, high95 = COVERAGE_TARGETS["95"]
        good = low80 <= group.coverage80 <= high80 and low95 <= group.coverage95 <= high95 and group.width80 <= WIDTH_TARGETS[group.group]
        cells = [percent(group.coverage80), percent(group.coverage95), percent(group.width80)]
        rows.append([group.group, *cells, f"76-85 % / 93-98 % / {percent(WIDTH_TARGETS[group.group])}", "yes" if good else "no"])
    return ("figure", "in 80 %", "in 95 %", "median width of 80 %", "target", "met"), rows


def fits_cells(page: Accuracy) -> Cells:
    """Confusion of fits / does not fit: header and rows."""
    rows = []
    for fit in page.fits:
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


def slices(scored: Scored) -> str:
    """One table for each way of slicing."""
    parts = []
    for name, key in score.SLICES.items():
        groups = [group for group in score.by(scored, key) if group.rows >= _MIN_ROWS]
        hidden = f"\n{len(groups) - _SLICE_ROWS} smaller groups are not shown.\n" if len(groups) > _SLICE_ROWS else ""
        parts.append(f"### By {name}\n\n{score_table(name, groups[:_SLICE_ROWS])}{hidden}")
    return "\n".join(parts)


def worst_table(scored: Scored, count: int = 10) -> str:
    """The rows that are furthest off, with the terms that make the prediction."""
    rows = []
    for row in score.worst(scored, count):
        terms = sorted(row["terms"].items(), key=lambda item: -item[1])[:3]
        blame = ", ".join(f"{name} {100 * share:.0f} %" for name, share in terms)
        job = f"{row['model'].rsplit('/', 1)[-1]}, {row['method']}, {row['n_gpus']}x {row['gpu']}, batch {row['micro_batch']} x {row['seq_len']}"
        ratio = row["predicted"] / row["measured"]
        rows.append(
            [row["id"], row["source"], job, f"{row['measured']:.4g}", f"{row['predicted']:.4g}", f"{ratio:.2f}x", blame, row["flags"]]
        )
    return table(("id", "source", "job", "measured", "predicted", "ratio", "largest terms", "flags of the row"), rows)


_NOT_CONFIGURATION = frozenset({"id", "measured", "date", "source_where", "trust", "flags", "why_not", "usable"})


def repeat_spread(truth: Truth) -> dict[str, list[float]]:
    """Relative differences |a / b - 1| of neighbouring measurements of one configuration, by metric: no predictor can be better than half of it."""
    seen: dict[tuple[str, ...], list[float]] = {}
    for row, reason in zip(truth.rows, truth.excluded, strict=True):
        value = score.number(row.get("measured"))
        if not reason and value > 0:
            key = tuple(cell_text(text) for name, text in sorted(row.items()) if name and name not in _NOT_CONFIGURATION)
            seen.setdefault(key, []).append(value)
    spread: dict[str, list[float]] = {}
    for key, values in seen.items():
        values.sort()
        family = "memory" if score.MEMORY_METRIC in key else "time"
        spread.setdefault(family, []).extend(high / low - 1 for low, high in itertools.pairwise(values))
    return spread


def noise_text(truth: Truth) -> str:
    """The floor that the data allow: how much repeated measurements of one configuration differ."""
    lines = []
    for family, differences in sorted(repeat_spread(truth).items()):
        if differences:
            ordered = sorted(differences)
            median, p90 = ordered[len(ordered) // 2], ordered[int(0.9 * (len(ordered) - 1))]
            lines.append(
                f"- {family}: {len(ordered)} pairs of rows with equal columns differ by {percent(median)} at the median, {percent(p90)} at P90"
            )
    if not lines:
        return ""
    return (
        "### What the data allow\n\nRows whose configuration columns are all equal, yet whose measured values differ:\n\n"
        + "\n".join(lines)
        + "\n"
    )


def rival_rows(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading of peers_training_scores.md."""
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    body = next((part for part in section if part.startswith(heading)), "")
    lines = [line for line in body.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def rivals(page: Accuracy, peers: str) -> str:
    """The rivals' errors as measured on these tables, our own line and the rules of thumb on exactly our rows on top."""
    (memory_rule, memory_score, memory_fits), (time_rule, time_score, _) = page.rules
    ours = "**rightfit** (the usable rows of these tables)"
    memory = [
        [ours, *_rival_cells(page.families[0]), *_fit_cells(page.fits[0])],
        [f"{memory_rule} (the same rows)", *_rival_cells(memory_score)],
    ]
    memory[1] += _fit_cells(memory_fits) if memory_fits else ["-", "-"]
    time = [[ours, *_rival_cells(page.families[1])], [f"{time_rule} (the same rows)", *_rival_cells(time_score)]]
    for cells in time:
        del cells[3]
    parts = []
    for title, own in (("Peak memory", memory), ("Throughput", time)):
        theirs = rival_rows(peers, title)
        header = theirs[0] if theirs else _RIVAL_HEADERS[title]
        parts.append(f"### {title}\n\n{table(header, [*own, *theirs[2:]])}")
    return "\n".join(parts)


_RIVAL_HEADERS = {
    "Peak memory": ["tool", "rows", "median APE (signed)", "by source", "within 20 %", "false fits", "false refusals"],
    "Throughput": ["tool", "rows", "median APE (signed)", "within 20 %"],
}


def _rival_cells(group: GroupScore) -> list[str]:
    if not group.rows:
        return ["0", "-", "-", "-"]
    median = f"{percent(group.median_ape)} ({100 * group.signed_median:+.0f})"
    return [f"{group.rows:,}", median, percent(group.by_source_median_ape), percent(group.within_20)]


def _fit_cells(fit: FitScore) -> list[str]:
    return [f"{fit.false_fits} of {fit.out_of_memory}", f"{fit.false_refusals} of {fit.ran}"]


def nameless_text(page: Accuracy) -> str:
    """How far off a framework is that we know nothing about."""
    if not page.nameless:
        return ""
    return f"""### Without the framework's name

The habits of a training stack (what it keeps in fp32, whether it stores the logits) are data of ours, in part learned from the stacks measured
here; leaving a source out takes away its coefficients but not those habits. The same rows with the framework's name withheld show what remains
for a stack that nobody has looked at; the interval widens accordingly.

{score_table("figure", page.nameless)}"""


def render(page: Accuracy, *, peers: str = "", rerun: str = "", noise: str = "", plots: Sequence[str] = ()) -> str:
    """The whole page."""
    answered, asked = page.answered
    refusals = "".join(f"- {count} x {reason}\n" for reason, count in page.refusals[:10]) or "- none\n"
    images = "".join(f"![{name}](accuracy/{name}.svg)\n" for name in plots)
    share = percent(answered / asked) if asked else "-"
    return f"""# How wrong rightfit is

Written by `rightfit validate`; do not edit. {page.provenance}

APE is |predicted / measured - 1|. "By source" is the median over sources of each source's median, so that no long table decides. The columns
"in 80 %" and "in 95 %" say how many measured values lie inside the interval; width is (high - low) / predicted.

## Headline

{table(*headline_cells(page))}
{table(*interval_cells(page))}
{table(*fits_cells(page))}
Answered: {answered:,} of {asked:,} usable rows ({share}). Refused:

{refusals}
{images}
{noise}
{nameless_text(page)}
## Memory

{slices(page.memory)}
### Worst rows

{worst_table(page.memory)}
## Throughput and step time

{slices(page.time)}
### Worst rows

{worst_table(page.time)}
## Rows that are not counted

The tables mark these as lacking too much to be compared (see `validation/exclusions.csv` and `why_not` of each row); where a prediction is possible
all the same, it is this far off. No target applies.

{score_table("rows", page.others)}
## The rivals

Errors of other tools on the rows that each can express, of these tables and of further ones that are held back (as of 2026-11). A tool that answers
few rows chose easier ones.

{rivals(page, peers)}
{rerun}"""
