"""What a family of scored figures is: its rows, its parts with a section each, its headline figures with targets, its slices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rightfit.proof import score
from rightfit.proof.tables import cell_text
from rightfit.proof.truth import Truth
from rightfit.records import dataclass

Row = Mapping[str, Any]
Holds = Callable[[Row], bool]
Words = Callable[[Row], str]


@dataclass(frozen=True, slots=True)
class Headline:
    """A figure that the project is judged by: the rows it is of, and the largest median APE and P90 allowed (infinite: none at
    P90; None: shown and kept from getting worse, but without a target)."""

    name: str
    holds: Holds
    targets: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class FigurePart:
    """A quantity with a section of its own. `label` names it in headline.json and in tables, `unit` on the axes of its plot; `width80` is
    the largest
    median width of its 80 % interval (None: no target)."""

    name: str
    label: str
    title: str
    unit: str
    holds: Holds
    width80: float | None = None
    colour: Words = score.headline_group


@dataclass(frozen=True, slots=True)
class FigureFamily:
    """One kind of work whose figures are measured in `tables`.

    `owns` picks its rows; `withheld` is the column whose absence is scored too (nothing when empty), with the reason in `withheld_why`;
    `is_factor` where an error is a factor: the larger of prediction and measurement over the smaller, less one, instead of predicted /
    measured - 1;
    `has_verdicts` says whether rows tell fits from does not fit; `plot` is the beginning of its plots' file names.
    """

    name: str
    title: str
    tables: tuple[str, ...]
    owns: Holds
    parts: tuple[FigurePart, ...]
    headlines: tuple[Headline, ...]
    slices: Mapping[str, Words]
    job: Words
    plot: str = ""
    withheld: str = ""
    withheld_why: str = ""
    has_verdicts: bool = False
    is_factor: bool = False

    def label_of(self, row: Row) -> str:
        """The label of the first part that a row is of; empty where it is of none."""
        return next((part.label for part in self.parts if part.holds(row)), "")

    def rows(self, truth: Truth) -> Truth:
        """The rows of this family; a folder may hold tables of any name, so the columns decide, not the file."""
        keep = [i for i, row in enumerate(truth.rows) if self.owns(row)]
        return Truth([truth.rows[i] for i in keep], [truth.table[i] for i in keep], [truth.excluded[i] for i in keep], truth.files)


def metric_of(row: Row) -> str:
    """The row's metric."""
    return cell_text(row.get("metric"))


def of_metrics(*metrics: str) -> Holds:
    """Whether a row is of one of these metrics."""
    return lambda row: metric_of(row) in metrics
