"""What a family of work tells the frame. One FAMILY a folder of rightfit.families; the verbs of rightfit.planner read no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Counts, Option, Reason, Section
from rightfit.search.found import Found
from rightfit.search.offers import Market
from rightfit.search.rank import Ranking, Row, rank

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.workload import Workload

F = TypeVar("F", bound=Found)
MOST_PARETO = 12


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the options of a plan: advice, and sections (of the load, of other ways to buy)."""

    advice: tuple[Reason, ...] = ()
    sections: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True)
class Given(Generic[F]):
    """One given server type, so many of them.

    `found`: the search over that server alone, which says what it fails. `shown`: the search whose row is shown, which may be as if what
    does not fit did.
    `at`: that row, None where there is nothing to show. `fits`: whether the job runs on them. `failing`: the (offer, column) whose
    criteria are told. `advice`: what would help where it does not fit.
    """

    found: F
    shown: F
    at: Row | None
    fits: bool
    failing: tuple[int, int] = (0, 0)
    advice: tuple[Reason, ...] = ()


def first_points(front: Sequence[Row]) -> Sequence[Row]:
    """The cheapest points of a front."""
    return front[:MOST_PARETO]


def as_found(exploration: F, top: int) -> tuple[F, Ranking]:
    """The search as it is: its times are of the whole physics already."""
    return exploration, rank(exploration, top=top)


@dataclass(frozen=True, slots=True)
class Family(Generic[F]):
    """One kind of work.

    explore: the search over all that the catalog has.
    confirm: the ranking of what was found, with its first rows worked out further where the quick law is not enough.
    options: rows as options in the order given; of the first `num_full` in full. reasons: the options with `why` and `warnings`.
    given: the job on so many servers of the one type that a market holds.
    beside: advice and sections of a plan. simulate: the options played through; None where there is nothing to play.
    front: which points of the Pareto front are options. told: names under which money and time of a standing are told.
    money: how to buy the first option, and every line of its bill. room: what the card of the first
    option must hold when, and how much more it would. is_service: whether requests are answered, one by one or as a batch.
    """

    name: str
    explore: Callable[[Workload, Catalog], F]
    options: Callable[[F, Sequence[Row], int], tuple[Option, ...]]
    reasons: Callable[[F, Sequence[Option]], tuple[Option, ...]]
    assumptions: Callable[[F], tuple[Assumption, ...]]
    counts: Callable[[F], Counts]
    given: Callable[[Workload, Market, int, Catalog], Given[F]]
    beside: Callable[[F, tuple[Option, ...], Sequence[Row], Catalog], Beside]
    money: Callable[[F, Option, Row, Catalog], tuple[Section, ...]]
    room: Callable[[F, Option, Row], tuple[Section, ...]] = lambda *_: ()
    confirm: Callable[[F, int], tuple[F, Ranking]] = as_found
    told: Callable[[F], tuple[str, str]] = lambda _: ("total_usd", "total_time_s")
    front: Callable[[Sequence[Row]], Sequence[Row]] = first_points
    simulate: Callable[[F, tuple[Option, ...], Sequence[Row]], tuple[Option, ...]] | None = None
    is_service: bool = False
