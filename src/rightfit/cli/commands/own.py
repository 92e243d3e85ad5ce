"""Buy or rent: what a server of one's own costs, and from which utilisation it beats renting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, open_market
from rightfit.errors import ContradictionError
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table
from rightfit.messages import Lang, Message

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Section

Target = Annotated[str, argument(help="An accelerator (H100) or a server (aws/p5.48xlarge).", metavar="GPU|SERVER", show_default=False)]
Count = Annotated[int | None, option("--count", help="GPUs per server (default: 8, or the server's own count).", metavar="N")]
Price = Annotated[str | None, option("--price", help="Price of the whole server, e.g. 250000usd.", metavar="MONEY")]
Rent = Annotated[str | None, option("--rent", help="Rental price per hour to compare with, e.g. 20usd.", metavar="MONEY")]
Years = Annotated[float | None, option("--years", help="Years of use.", metavar="N")]
Utilisation = Annotated[str | None, option("--utilisation", help="Share of hours in use, e.g. 60%.", metavar="SHARE")]
Electricity = Annotated[str | None, option("--electricity", help="Electricity price per kWh, e.g. 0.12usd.", metavar="MONEY")]
Pue = Annotated[float | None, option("--pue", help="Power usage effectiveness of the building.", metavar="RATIO")]
Space = Annotated[str | None, option("--space", help="Rack space and cooling, per kW per month.", metavar="MONEY")]
Staff = Annotated[str | None, option("--staff", help="Annual cost of one administrator, e.g. 120000usd.", metavar="MONEY")]
PerAdmin = Annotated[float | None, option("--servers-per-admin", help="Servers per administrator.", metavar="N")]
Maintenance = Annotated[str | None, option("--maintenance", help="Annual support and spares, as a share of the price.", metavar="SHARE")]
Residual = Annotated[str | None, option("--residual", help="Resale value at the end, as a share of the price.", metavar="SHARE")]
Interest = Annotated[str | None, option("--interest", help="Annual interest rate, e.g. 6%.", metavar="SHARE")]
Cloud = Annotated[str | None, option("--cloud", help="Compare with this cloud only.", metavar="WORD")]

Place = Annotated[
    str | None,
    option("--place", help="Location: home, office, colocation (default: a server room).", metavar="WORD", show_default=False),
]


def own(
    target: Target,
    count: Count = None,
    price: Price = None,
    rent: Rent = None,
    years: Years = None,
    utilisation: Utilisation = None,
    electricity: Electricity = None,
    pue: Pue = None,
    space: Space = None,
    staff: Staff = None,
    servers_per_admin: PerAdmin = None,
    maintenance: Maintenance = None,
    residual: Residual = None,
    interest: Interest = None,
    cloud: Cloud = None,
    place: Place = None,
    *,
    view: View,
) -> None:
    """Buy or rent: hourly cost of an owned server, and the break-even utilization against each
    rental option.

    Examples:

    rightfit own H100

    rightfit own 8xH100

    rightfit own RTX-4090 --count 2 --place home --utilisation 20%

    rightfit own aws/p4d.24xlarge --utilisation 80% --electricity 0.08usd
    """
    from rightfit import api

    figures = {
        "price": price,
        "years": years,
        "utilisation": utilisation,
        "electricity": electricity,
        "pue": pue,
        "space": space,
        "staff": staff,
        "servers_per_admin": servers_per_admin,
        "maintenance": maintenance,
        "residual": residual,
        "interest": interest,
    }
    section = api.own(target, count=count, rent=rent, cloud=cloud, place=place, catalog=open_market(view), **figures)
    emit(own_answer(section, view), view)


def own_answer(section: Section, view: View) -> Answer:
    """The comparison for people and programs."""
    from rightfit.explain.reasons import renderer

    records = [dict(rent) for rent in section.content.get("rents", ())]
    return Answer(section.to_dict(renderer(view.lang)), records, own_parts(section, view, currency="usd"))


def own_parts(section: Section, view: View, *, currency: str) -> list[str | Table]:
    """Statements, the year's bill, and the table of rents; with --verbose every
    assumption and its source."""
    from rightfit.explain.reasons import renderer

    render = renderer(view.lang, currency=currency)
    lines = "\n".join([label("section", "own", view.lang), *(f"- {render(reason)}" for reason in section.reasons)])
    if "rents" not in section.content:
        return [lines]
    parts: list[str | Table] = [lines, _year(section.content, view.lang, currency=currency)]
    return [*parts, *([_assumptions(section.content, view.lang)] if view.verbose else [])]


def _year(content: Any, lang: Lang, *, currency: str) -> Table:
    from rightfit.explain import quantities as q

    total = sum(content["yearly_terms"].values())
    columns = (
        Column("term"),
        Column("value", lambda value: q.money_text(value, currency), right=True),
        Column("share", q.percent_text, right=True),
    )
    records = [
        {"term": label("own", name, lang), "value": value, "share": value / total}
        for name, value in sorted(content["yearly_terms"].items(), key=lambda item: -item[1])
    ]
    return Table(columns, records, title=label("own", "year", lang, price=q.money_text(total, currency)))


def _assumptions(content: Any, lang: Lang) -> Table:
    from rightfit.estimation.ownership import defaults, habits_of
    from rightfit.explain.quantities import plain

    rows = [
        {
            "name": name,
            "value": plain(content["assumptions"][name]),
            "meaning": row.zh if lang == "zh" else row.en,
            "source": label("own", "given", lang) if name in content["given"] else row.source,
        }
        for name, row in {**defaults(), **habits_of(content.get("place", ""))}.items()
    ]
    first = {
        "name": "capex_usd",
        "value": plain(content["capex_usd"], 6),
        "meaning": label("own", "capex", lang),
        "source": content["price_source"],
    }
    columns = (Column("name"), Column("value", right=True), Column("meaning", flexible=True), Column("source", flexible=True))
    return Table(columns, [first, *rows])


def with_own(answered: Any, catalog: Catalog) -> Any:
    """A plan with its section "own"; a plan without an option has none. Raises where the best
    server has nothing that the comparison is about."""
    import dataclasses

    from rightfit.search.ownership import own_section

    section = own_section(answered, catalog)
    if section is not None:
        return dataclasses.replace(answered, sections=(*answered.sections, section))
    if answered.best is None:
        return answered
    server = f"{answered.best.provider}/{answered.best.instance_type}"
    raise ContradictionError(
        Message("cli.own_without_card", server=server),
        field="own",
    )


def with_own_parts(answer: Answer, answered: Any, view: View) -> Answer:
    """The answer with the comparison at its end, for people; services show their
    sections themselves."""
    import dataclasses

    from rightfit.explain.voices import voice_of

    if view.is_machine or voice_of(answered).is_service:
        return answer
    parts = [
        part
        for section in answered.sections
        if section.name == "own"
        for part in own_parts(section, view, currency=answered.workload.currency)
    ]
    return dataclasses.replace(answer, parts=[*answer.parts, *parts])
