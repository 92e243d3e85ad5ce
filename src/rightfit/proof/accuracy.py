"""The scores of the accuracy page: every family of figures on the rows that count, and on those that do not. Pure: rows and answers in."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.proof import rules, score
from rightfit.proof.figures import FigureFamily, FigurePart, Headline
from rightfit.proof.rules import RuleScore
from rightfit.proof.score import FitScore, GroupScore, Scored
from rightfit.records import dataclass

Row = Mapping[str, Any]
Answers = Sequence[Mapping[str, Any]]

COVERAGE_TARGETS = {"80": (0.76, 0.85), "95": (0.93, 0.98)}


@dataclass(frozen=True, slots=True)
class PartScore:
    """One quantity of a family: its rows, their errors together, and the errors of those that are not counted."""

    part: FigurePart
    scored: Scored
    group: GroupScore
    other: GroupScore


@dataclass(frozen=True, slots=True)
class HeadlineScore:
    """One headline figure, and the same rows with the withheld column (None where nothing is withheld)."""

    headline: Headline
    group: GroupScore
    withheld: GroupScore | None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without a target or without rows."""
        if self.headline.targets is None or not self.group.rows:
            return None
        median, p90 = self.headline.targets
        return self.group.median_ape <= median and self.group.p90_ape <= p90


@dataclass(frozen=True, slots=True)
class FamilyScores:
    """All that the page says of one family. `answered`: (rows with a prediction, rows that count); `asked`: all rows of its tables; `rules`
    by part;
    `spread`, `source_spread`: differences of repeated measurements by part, within a source and between sources."""

    family: FigureFamily
    parts: tuple[PartScore, ...]
    headlines: tuple[HeadlineScore, ...]
    fits: tuple[FitScore, ...]
    answered: tuple[int, int]
    refusals: tuple[tuple[str, int], ...]
    rules: Mapping[str, RuleScore]
    asked: int
    spread: Mapping[str, Sequence[float]]
    source_spread: Mapping[str, Sequence[float]]

    def part(self, name: str) -> PartScore:
        """A part by its name."""
        return next(found for found in self.parts if found.part.name == name)


def family_scores(
    family: FigureFamily,
    rows: Sequence[Row],
    predictions: Answers,
    excluded: Sequence[str],
    *,
    withheld: Answers = (),
) -> FamilyScores:
    """Score the rows that count, and beside them those that stay out.

    `withheld` are predictions of the same rows without the column that the family withholds.
    """
    counted = [index for index, reason in enumerate(excluded) if not reason]
    out = [index for index, reason in enumerate(excluded) if reason]
    kept_rows, kept = [rows[i] for i in counted], [predictions[i] for i in counted]
    scored = score.pair(kept_rows, kept, is_factor=family.is_factor)
    others = score.pair([rows[i] for i in out], [predictions[i] for i in out], is_factor=family.is_factor)
    without = score.pair(kept_rows, [withheld[i] for i in counted], is_factor=family.is_factor) if withheld else None
    return FamilyScores(
        family,
        tuple(_part_score(part, scored, others) for part in family.parts),
        tuple(_headline_score(headline, scored, without) for headline in family.headlines),
        _fit_scores(rows, predictions, kept_rows, kept) if family.has_verdicts else (),
        score.answered_share(kept),
        _refusals(kept),
        rules.rule_scores(family, kept_rows),
        len(rows),
        score.repeat_spread(kept_rows, family.label_of),
        score.source_spread(kept_rows, family.label_of),
    )


def those(scored: Scored, holds: Callable[[Row], bool]) -> Scored:
    """The scored rows for which something holds."""
    return scored.take(np.flatnonzero(np.array([holds(row) for row in scored.rows], dtype=bool)))


def _part_score(part: FigurePart, scored: Scored, others: Scored) -> PartScore:
    mine = those(scored, part.holds)
    left_out = score.group_score(f"not counted: {part.label}", those(others, part.holds))
    return PartScore(part, mine, score.group_score(part.label, mine), left_out)


def _headline_score(headline: Headline, scored: Scored, without: Scored | None) -> HeadlineScore:
    found = [score.group_score(headline.name, those(each, headline.holds)) if each is not None else None for each in (scored, without)]
    assert found[0] is not None
    return HeadlineScore(headline, found[0], found[1])


def _fit_scores(rows: Sequence[Row], predictions: Answers, kept_rows: Sequence[Row], kept: Answers) -> tuple[FitScore, ...]:
    """Usable rows by kind, and every row of the tables that says whether it ran."""

    def part(name: str, group: str) -> FitScore:
        index = [i for i, row in enumerate(kept_rows) if score.is_memory(row) and score.headline_group(row) == group]
        return score.fits_score(name, [kept_rows[i] for i in index], [kept[i] for i in index])

    return (
        score.fits_score("usable rows", kept_rows, kept),
        part("of these, full", "memory, full"),
        part("of these, adapters", "memory, adapters"),
        score.fits_score("all rows, usable or not", rows, predictions),
    )


def _refusals(predictions: Answers) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for answer in predictions:
        if answer.get("error"):
            counts[str(answer["error"])] = counts.get(str(answer["error"]), 0) + 1
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def headline_numbers(families: Sequence[FamilyScores]) -> dict[str, float]:
    """The figures that must not get worse."""
    numbers: dict[str, float] = {}
    for found in families:
        for headline in found.headlines:
            numbers[f"{headline.headline.name}: median APE"] = headline.group.median_ape
            numbers[f"{headline.headline.name}: P90 APE"] = headline.group.p90_ape
        for part in found.parts:
            numbers[f"{part.part.label}: width of 80 % interval"] = part.group.width80
            numbers[f"{part.part.label}: outside 95 % interval"] = 1 - part.group.coverage95
        numbers |= _verdict_numbers(found)
        prefix = "" if found.family.has_verdicts else f"{found.family.name}: "
        numbers[f"{prefix}rows not answered"] = 1 - found.answered[0] / max(found.answered[1], 1)
    return {name: round(value, 4) for name, value in numbers.items() if not math.isnan(value)}


def _verdict_numbers(scores: FamilyScores) -> dict[str, float]:
    """Wrong verdicts of fits, as shares; nothing where the family has none."""
    if not scores.fits:
        return {}
    usable = scores.fits[0]
    return {
        "false fits at the 95 % bound": usable.false_fits / max(usable.out_of_memory, 1),
        "false refusals": usable.false_refusals / max(usable.ran, 1),
    }
