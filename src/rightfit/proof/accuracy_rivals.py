"""The rivals on the accuracy page: their errors as studied on all tables, ours and the rules of thumb on our rows on top."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rightfit.proof.accuracy import FamilyScores
from rightfit.proof.accuracy_tables import percent, table
from rightfit.proof.score import FitScore, GroupScore

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
    """The rivals' errors as measured on these tables, our own line and the rules of thumb on exactly our rows on top."""
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
