"""Which models fit a card, in words: the largest of each way in a sentence, and every model with every way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang, join
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.planner.fit import Fit


def fit_parts(fits: Sequence[Fit], lang: Lang) -> tuple[str, Table]:
    """The sentence and the table of one machine."""
    first = fits[0]
    ways = list(dict.fromkeys(one.way for one in fits))
    largest = []
    for way in ways:
        held = _language([one.model for one in fits if one.way == way and one.fits])
        largest.append(label("fit", f"largest_{way}", lang, model=held[-1]) if held else label("fit", f"none_{way}", lang))
    memory = q.memory_text(facts.accelerators()[first.gpu].memory_bytes)
    head = label("fit", "head", lang, count=first.count, gpu=first.gpu, memory=memory, largest=join(largest, lang))
    columns = (Column("model", flexible=True), *(Column(f"fit_{way}") for way in ways))
    words = {True: label("fit", "yes", lang), False: "-", None: ""}
    known = {(one.model, one.way): one.fits for one in fits}
    records: list[dict[str, Any]] = [
        {"model": model, **{f"fit_{way}": words[known.get((model, way))] for way in ways}}
        for model in dict.fromkeys(one.model for one in fits)
    ]
    return head, Table(columns, records)


def _language(models: list[str]) -> list[str]:
    """Those that produce text: of models that draw the largest says little."""
    kinds = {row["model"]: row["kind"] for row in facts.table("fit_models")}
    return [model for model in models if kinds[model] == "language"]
