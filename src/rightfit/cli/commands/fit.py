"""Which models fit one's cards."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rightfit.cli.market import open_market
from rightfit.cli.output import Answer, View, emit
from rightfit.errors import ContradictionError, InputError
from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang, join
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.planner.fit import Fit
    from rightfit.search.own_machine import Machine

MOST_CARDS = 999
Cards = Annotated[str, typer.Argument(help="A card, or several kinds with commas, e.g. RTX-4090.", metavar="GPU", show_default=False)]
Count = Annotated[
    int | None, typer.Option("--count", help="Cards of it in one machine.", metavar="N", min=1, max=MOST_CARDS, show_default=False)
]
Task = Annotated[str, typer.Option("--task", help="serve or finetune (default: both).", metavar="WORD")]


def fit(cards: Cards, count: Count = None, task: Task = "", *, view: View) -> None:
    """Which models fit my card, served and tuned by each method, at the usual lengths and without offloading.

    Example: rightfit fit RTX-4090

    Several cards stand in one machine: rightfit fit RTX-3090 --count 2 --task finetune
    """
    from rightfit.planner.fit import fits_of

    machines = [_machine(name, count) for name in cards.split(",") if name.strip()]
    if not machines:
        raise InputError("gpu: name a card, for example rightfit fit RTX-4090", field="gpu")
    catalog = open_market(view)
    found = [fits_of(machine, task=task, catalog=catalog) for machine in machines]
    records = [dataclasses.asdict(one) for fits in found for one in fits]
    emit(Answer(records, records, [part for fits in found for part in _parts(fits, view.lang)]), view)


def _machine(text: str, count: int | None) -> Machine:
    """The cards of a name, "2xRTX-3090" or with --count; both must say the same."""
    from rightfit.search.own_machine import read_machine

    machine = read_machine(text)
    if count is not None and machine.count not in (1, count):
        raise ContradictionError(f"count {count} contradicts {text.strip()}; say the number once", field="count")
    return machine if count is None else dataclasses.replace(machine, count=count)


def _parts(fits: tuple[Fit, ...], lang: Lang) -> list[str | Table]:
    """The largest model of each way in a sentence, and every model with every way."""
    from rightfit import facts

    first = fits[0]
    ways = list(dict.fromkeys(one.way for one in fits))
    largest = []
    for way in ways:
        held = [one.model for one in fits if one.way == way and one.fits]
        largest.append(
            label("fit", f"largest_{way}", lang, model=held[-1]) if (held := _language(held)) else label("fit", f"none_{way}", lang)
        )
    memory = q.memory_text(facts.accelerators()[first.gpu].memory_bytes)
    head = label("fit", "head", lang, count=first.count, gpu=first.gpu, memory=memory, largest=join(largest, lang))
    columns = (Column("model", flexible=True), *(Column(f"fit_{way}") for way in ways))
    words = {True: label("fit", "yes", lang), False: "-", None: ""}
    records: list[dict[str, Any]] = [
        {"model": model, **{f"fit_{way}": words[_known(fits, model, way)] for way in ways}}
        for model in dict.fromkeys(one.model for one in fits)
    ]
    return [head, Table(columns, records), label("fit", "note", lang)]


def _known(fits: tuple[Fit, ...], model: str, way: str) -> bool | None:
    return next((one.fits for one in fits if (one.model, one.way) == (model, way)), None)


def _language(models: list[str]) -> list[str]:
    """Those that produce text: of models that draw the largest says little."""
    from rightfit import facts

    kinds = {row["model"]: row["kind"] for row in facts.table("fit_models")}
    return [model for model in models if kinds[model] == "language"]
