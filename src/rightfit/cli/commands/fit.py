"""Which models fit one's cards."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

from rightfit.cli.declared import argument, option
from rightfit.cli.market import open_market
from rightfit.cli.output import Answer, View, emit
from rightfit.errors import ContradictionError, InputError
from rightfit.explain.fits import fit_parts
from rightfit.explain.labels import label
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.search.own_machine import Machine

MOST_CARDS = 999
Cards = Annotated[str, argument(help="A card, or several kinds with commas, e.g. RTX-4090.", metavar="GPU", show_default=False)]
Count = Annotated[int | None, option("--count", help="Cards of it in one machine.", metavar="N", min=1, max=MOST_CARDS, show_default=False)]
Task = Annotated[str, option("--task", help="serve or finetune (default: both).", metavar="WORD")]


def fit(cards: Cards, count: Count = None, task: Task = "", *, view: View) -> None:
    """Which models fit my card, served and tuned by each method, at the usual lengths and without offloading.

    Example: rightfit fit RTX-4090

    Several cards stand in one machine: rightfit fit RTX-3090 --count 2 --task finetune
    """
    from rightfit.planner.fit import fits_of

    machines = [_machine(name, count) for name in cards.split(",") if name.strip()]
    if not machines:
        raise InputError(Message("cli.fit_no_card"), field="gpu")
    catalog = open_market(view)
    found = [fits_of(machine, task=task, catalog=catalog) for machine in machines]
    records = [dataclasses.asdict(one) for fits in found for one in fits]
    emit(
        Answer(records, records, [part for fits in found for part in (*fit_parts(fits, view.lang), label("fit", "note", view.lang))]), view
    )


def _machine(text: str, count: int | None) -> Machine:
    """The cards of a name, "2xRTX-3090" or with --count; both must say the same."""
    from rightfit.search.own_machine import read_machine

    machine = read_machine(text)
    if count is not None and machine.count not in (1, count):
        raise ContradictionError(Message("cli.count_twice", count=count, card=text.strip()), field="count")
    return machine if count is None else dataclasses.replace(machine, count=count)
