"""The accuracy page as Markdown, from the scores."""

from __future__ import annotations

from collections.abc import Sequence

from rightfit.proof.accuracy import FamilyScores, PartScore
from rightfit.proof.accuracy_rivals import has_training, quoted, training_rivals
from rightfit.proof.accuracy_tables import (
    fits_cells,
    floor_text,
    headline_cells,
    interval_cells,
    noise_text,
    percent,
    score_table,
    slices,
    table,
    worst_table,
)

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
