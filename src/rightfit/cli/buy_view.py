"""The ways to pay for one server on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.cli.output import Answer, View
from rightfit.explain.buy_tables import modes_table
from rightfit.explain.labels import label

if TYPE_CHECKING:
    from rightfit.search.answer import Section


def break_even_answer(section: Section, view: View) -> Answer:
    """The ways to pay for one server, and what follows from them."""
    from rightfit.explain.reasons import renderer

    render = renderer(view.lang)
    place = section.content["modes"][0]["region"]
    lines = "\n".join([label("section", "buy_lines", view.lang), *(f"- {render(reason)}" for reason in section.reasons)])
    table = modes_table(section.content["modes"], view.lang, currency="usd")
    records = [{name: value for name, value in mode.items() if name != "job_usd"} for mode in section.content["modes"]]
    head = label("section", "buy_region", view.lang, region=", ".join(dict.fromkeys(mode["region"] for mode in section.content["modes"])))
    return Answer(section.to_dict(render), records, [table, head, lines] if place else [table, lines])
