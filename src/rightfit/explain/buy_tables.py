"""How to buy a server as a table, and the bill line by line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.reasons import term_text
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.search.answer import Section


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
