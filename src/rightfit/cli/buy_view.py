"""How to buy a server as a table, what follows from it, and the bill line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.cli.labels import Lang, label
from rightfit.cli.output import Answer, View
from rightfit.cli.tables import Column, Table
from rightfit.explain import quantities as q
from rightfit.explain.reasons import term_text

if TYPE_CHECKING:
    from rightfit.search.answer import Plan, Reason, Section


def buy_parts(plan: Plan, view: View, render: Callable[[Reason], str]) -> Iterable[str | Table]:
    """The section on buying as a table with its lines, then the month, and with --verbose every line of the bill."""
    sections = {section.name: section for section in plan.sections}
    currency = plan.workload.currency
    if "buy" in sections:
        yield modes_table(sections["buy"].content["modes"], view.lang, currency=currency)
    reasons = [reason for name in ("buy", "bill") if name in sections for reason in sections[name].reasons]
    if reasons:
        yield "\n".join([label("section", "buy_lines", view.lang), *(f"- {render(reason)}" for reason in reasons)])
    if view.verbose and "bill" in sections:
        yield bill_table(sections["bill"], view.lang, currency=currency)


def modes_table(modes: Sequence[dict[str, Any]], lang: Lang, *, currency: str) -> Table:
    """Every way to pay, one a line."""

    def money(value: Any) -> str:
        return "" if value is None else str(q.money_text(value, currency))

    columns = (
        Column("purchase", flexible=True),
        Column("hourly", money, right=True),
        Column("saving", lambda value: "" if value is None else q.percent_text(value), right=True),
        Column("job", money, right=True, drop=4),
        Column("month_730", money, right=True),
        Column("office", money, right=True, drop=2),
        Column("owed", money, right=True, drop=3),
        Column("even_hours", lambda value: "" if not value else f"{value:,.0f} h", right=True),
        Column("even_months", lambda value: "" if not value else q.plain(value, 2), right=True),
        Column("payment", drop=5),
        Column("remark", drop=1),
    )
    records = [_record(mode, lang) for mode in modes]
    kept = tuple(column for column in columns if any(record[column.key] not in (None, "") for record in records))
    return Table(kept, records, title=label("section", "buy", lang))


def _record(mode: dict[str, Any], lang: Lang) -> dict[str, Any]:
    remarks = [label("basis", mode["basis"], lang)] if mode["basis"] != "quoted" else []
    remarks += [label("remark", "is_stale", lang)] if mode["is_stale"] else []
    return {
        "purchase": q.purchase_text(mode["purchase"], lang),
        "hourly": mode["price_usd_per_h"],
        "saving": mode["saving"],
        "job": mode["job_usd"],
        "month_730": mode["month_usd"],
        "office": mode["office_usd"],
        "owed": mode["owed_usd"] or None,
        "even_hours": mode["even_hours"],
        "even_months": mode["even_months"],
        "payment": label("payment", mode["payment"].replace(" ", "_"), lang),
        "remark": ", ".join(remarks),
    }


def bill_table(section: Section, lang: Lang, *, currency: str) -> Table:
    """Every line of the bill, what is only paid for keeping or moving things marked as such."""

    def price(value: Any) -> str:
        return q.plain(value, 4)

    columns = (
        Column("line", flexible=True),
        Column("value", lambda value: str(q.money_text(value, currency)), right=True),
        Column("quantity", q.plain, right=True, drop=3),
        Column("unit", drop=3),
        Column("unit_usd", price, right=True, drop=2),
        Column("remark", flexible=True, drop=1),
    )
    records = [
        {
            "line": term_text(line["name"], lang, kind="bill") + (label("section", "beside", lang) if line["beside"] else ""),
            "value": line["usd"],
            "quantity": line["quantity"],
            "unit": line["unit"],
            "unit_usd": line["unit_usd"],
            "remark": line["note"] or line["source"],
        }
        for line in section.content["lines"]
    ]
    return Table(columns, records, title=label("section", "bill", lang))


def break_even_answer(section: Section, view: View) -> Answer:
    """The ways to pay for one server, and what follows from them."""
    from rightfit.explain import renderer

    render = renderer(view.lang)
    place = section.content["modes"][0]["region"]
    lines = "\n".join([label("section", "buy_lines", view.lang), *(f"- {render(reason)}" for reason in section.reasons)])
    table = modes_table(section.content["modes"], view.lang, currency="usd")
    records = [{name: value for name, value in mode.items() if name != "job_usd"} for mode in section.content["modes"]]
    head = label("section", "buy_region", view.lang, region=", ".join(dict.fromkeys(mode["region"] for mode in section.content["modes"])))
    return Answer(section.to_dict(render), records, [table, head, lines] if place else [table, lines])
