"""The catalog: what is in it, and whether it is sound."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from rightfit import units
from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, note, open_market
from rightfit.errors import AmbiguousNameError, InputError, RightfitError, UnknownNameError
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table
from rightfit.files import write_whole
from rightfit.messages import Lang, Message, system_problem
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.market import Catalog, ServerTable
    from rightfit.market.refresh import RefreshOutcome
    from rightfit.market.refresh_rows import PricePoint


Providers = Annotated[
    list[str] | None, argument(help="Price sources; omit to refresh all available ones.", metavar="PROVIDER", show_default=False)
]
EveryType = Annotated[bool, option("--every-type", help="Include types without accelerators that need one request each (Alibaba).")]


def _integer(value: Any) -> str:
    return f"{value:,}"


_STATUS_COLUMNS = (
    Column("provider"),
    Column("servers", _integer, right=True),
    Column("accelerated_servers", _integer, right=True),
    Column("recommendable_servers", _integer, right=True, drop=2),
    Column("prices", _integer, right=True),
    Column("regions", _integer, right=True, drop=3),
    Column("oldest"),
    Column("newest"),
    Column("median_age_days", lambda value: "" if value is None else f"{value:,.0f}", right=True, drop=2),
    Column("stale_prices", _integer, right=True),
    Column("estimated_prices", _integer, right=True, drop=1),
)
_CHECK_COLUMNS = (Column("check"), Column("severity"), Column("count", _integer, right=True), Column("example", flexible=True))
_FINDING_COLUMNS = (
    Column("check"),
    Column("severity", drop=3),
    Column("server", flexible=True),
    Column("region", drop=2),
    Column("purchase", drop=1),
    Column("had", flexible=True),
    Column("limit", flexible=True),
)
_REFRESH_COLUMNS = (
    Column("provider"),
    Column("status"),
    Column("prices", _integer, right=True),
    Column("new", _integer, right=True),
    Column("gone", _integer, right=True),
    Column("dearer", _integer, right=True),
    Column("cheaper", _integer, right=True),
    Column("new_servers", _integer, right=True, drop=2),
    Column("quarantined", _integer, right=True, drop=1),
    Column("message", flexible=True),
)
_MOVE_COLUMNS = (
    Column("provider"),
    Column("instance_type", flexible=True),
    Column("region", flexible=True),
    Column("purchase"),
    Column("before_usd_per_h", units.format_usd, right=True),
    Column("now_usd_per_h", units.format_usd, right=True),
    Column("change", "{:+.1%}".format, right=True),
)
_HISTORY_COLUMNS = (
    Column("provider"),
    Column("instance_type", flexible=True),
    Column("region", flexible=True),
    Column("purchase"),
    Column("as_of"),
    Column("price_usd_per_h", units.format_usd, right=True),
    Column("change", lambda value: "" if value != value else f"{value:+.1%}", right=True),
    Column("source", flexible=True, drop=1),
)


def status(*, view: View) -> None:
    """Show servers, prices and price dates per provider.

    Example: rightfit catalog status
    """
    found = open_market(view).status()
    records = [dataclasses.asdict(entry) for entry in found.providers]
    size_mb = f"{found.size_bytes / 1e6:.1f}"
    summary = label(
        "catalog",
        "summary",
        view.lang,
        servers=_integer(found.servers),
        prices=_integer(found.prices),
        newest=found.newest,
        age_days=found.age_days,
        quarantined=_integer(found.quarantined_prices),
        not_recommended=_integer(found.not_recommended_servers),
    )
    place = label("catalog", "place", view.lang, location=found.location, size_mb=size_mb, fingerprint=found.fingerprint[:16])
    emit(Answer(found.to_dict(), records, [summary, Table(_STATUS_COLUMNS, records), place]), view)


def verify(*, view: View) -> None:
    """Run integrity checks on every price and server, and list what is quarantined.

    Example: rightfit catalog verify --verbose
    """
    findings = [dataclasses.asdict(finding) for finding in open_market(view).verify()]
    tables = [Table(_CHECK_COLUMNS, _by_check(findings))] if findings else []
    limit = view.limit(default=20)
    if view.verbose and findings:
        shown = [{**finding, "server": _server(finding)} for finding in findings[:limit]]
        tables.append(Table(_FINDING_COLUMNS, shown))
    errors = sum(finding["severity"] == "error" for finding in findings)
    head = label("catalog", "verified", view.lang, errors=_integer(errors), warnings=_integer(len(findings) - errors))
    emit(Answer(findings, findings, [head, *tables]), view)
    if findings and not view.verbose and not view.is_machine:
        note(label("catalog", "verbose_lists", view.lang), view)


def _by_check(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = Counter((finding["check"], finding["severity"]) for finding in findings)
    first = {
        finding["check"]: f"{_server(finding)} {finding['region']}: {finding['had']} ({finding['limit']})" for finding in reversed(findings)
    }
    return [{"check": check, "severity": severity, "count": count, "example": first[check]} for (check, severity), count in counts.items()]


def _server(finding: dict[str, Any]) -> str:
    return "/".join(part for part in (finding["provider"], finding["instance_type"]) if part)


def refresh(providers: Providers = None, every_type: EveryType = False, *, view: View) -> None:
    """Fetch current prices from the providers; if a source fails, its old prices are kept.

    Example: rightfit catalog refresh azure nebius
    """
    from rightfit.market import refresh as market_refresh

    with _progress(view) as progress:
        outcomes = market_refresh.refresh(tuple(providers or ()), every_type=every_type, progress=progress)
    records = [dataclasses.asdict(outcome) for outcome in outcomes]
    shown = [{**record, "status": label("refresh", record["status"], view.lang)} for record in records]
    largest = [{**move, "change": move["now_usd_per_h"] / move["before_usd_per_h"] - 1} for one in records for move in one["largest_moves"]]
    parts: list[str | Table] = [Table(_REFRESH_COLUMNS, shown)]
    if largest:
        parts += [label("refresh", "largest", view.lang), Table(_MOVE_COLUMNS, largest)]
    emit(Answer(records, records, parts), view)
    _explain(outcomes, view)
    if not any(outcome.status == "refreshed" for outcome in outcomes) or any(
        outcome.status in ("failed", "refused") for outcome in outcomes
    ):
        raise click.exceptions.Exit(3)


def _explain(outcomes: Sequence[RefreshOutcome], view: View) -> None:
    """What went wrong, whole, and the rows that refused a list; a table may have cut it short."""
    for outcome in outcomes:
        if outcome.status in ("failed", "refused"):
            sys.stderr.write(f"error: {outcome.message}\n")
            for line in outcome.findings[: None if view.verbose else 10]:
                sys.stderr.write(f"  {line}\n")
    if all(outcome.status == "skipped" for outcome in outcomes):
        sys.stderr.write("error: " + label("refresh", "nothing_asked", view.lang) + "\n")


@contextlib.contextmanager
def _progress(view: View) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each provider on standard error, where that is a terminal."""
    if view.quiet or not sys.stderr.isatty():
        yield lambda name, done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def step(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.update(tasks[name], completed=done)

        yield step


def listing_of_history(points: Sequence[PricePoint], view: View) -> None:
    """The answer to `rightfit prices --history`."""
    records = [dataclasses.asdict(point) for point in points]
    limit = view.limit(default=40)
    emit(Answer(records[:limit], records[:limit], [Table(_HISTORY_COLUMNS, records[:limit])] if records else []), view)
    if not records:
        note(label("status", "nothing_found", view.lang), view)
    elif limit is not None and len(records) > limit:
        note(label("status", "more", view.lang, shown=limit, total=f"{len(records):,}"), view)


# ---- Keep a price that one was quoted: `rightfit prices add PROVIDER/INSTANCE PRICE` writes it
# into a price book.

USUAL_BOOK = "prices.toml"
USUAL_CARDS = 8
MOST_NAMES = 5
EXAMPLE = "rightfit prices add tencent/PNV6.16XLARGE640 250cny --region ap-beijing"


def add_price(
    words: Sequence[str],
    *,
    region: list[str] | None,
    purchase: list[str] | None,
    gpu: list[str] | None,
    count: int | None,
    unused: Mapping[str, Any],
    view: View,
) -> None:
    """Write one entry into the price book that is named (RIGHTFIT_PRICE_BOOK, else prices.toml
    here), checked as a whole; a file that would be wrong is left as it was. `unused`: options of
    `prices` that say nothing about a quote; one that is given is refused."""
    from rightfit.market import open_catalog
    from rightfit.search.offers import book_path

    lang = view.lang
    _check_form(words, {"region": region, "purchase": purchase, "gpu": gpu}, unused, lang)
    file = (book_path(view.price_book) or Path(USUAL_BOOK)).expanduser()
    if file.suffix.casefold() == ".csv":
        raise InputError(Message("cli.price_add_csv", path=str(file), usual=USUAL_BOOK))
    if file.is_dir():
        raise InputError(Message("cli.price_add_unwritable", path=str(file), why=Message("others.folder")))
    catalog = open_catalog()
    one = {"region": (region or [""])[0], "purchase": (purchase or [""])[0], "gpu": (gpu or [""])[0]}
    kind, values = entry_of(words[0], words[1], catalog, **one, count=count, lang=lang)
    _keep(file, kind, values, catalog, lang)
    record = {"price_book": str(file), "entry": kind, **values}
    emit(Answer(record, [record], [label("prices", "added", lang, server=words[0], price=words[1], path=str(file))]), view)


def _check_form(words: Sequence[str], single: Mapping[str, list[str] | None], unused: Mapping[str, Any], lang: Lang) -> None:
    """One server, one price, and nothing that would be dropped in silence."""
    if len(words) != 2 or not all(words[0].partition("/")):
        raise InputError(Message("cli.price_add_form", example=EXAMPLE))
    if given := [name for name, value in unused.items() if value]:
        raise InputError(Message("cli.price_add_unused", option="--" + given[0].replace("_", "-")))
    if several := [name for name, value in single.items() if value and (len(value) > 1 or "," in value[0])]:
        raise InputError(Message("cli.price_add_several", option=f"--{several[0]}"))
    from rightfit import units

    plain = re.sub(r"\s*/\s*(h|hour|小时|时)$", "", words[1].strip())
    try:
        amount = units.parse_money(plain) if not re.fullmatch(r"[\d.]+", plain) else units.Money(float(plain), "usd")
    except (InputError, ValueError):
        raise InputError(Message("cli.price_add_price", price=words[1])) from None
    if not amount.amount > 0 or amount.per_month:
        raise InputError(Message("cli.price_add_price", price=words[1]))


def _keep(file: Path, kind: str, values: Mapping[str, Any], catalog: Catalog, lang: Lang) -> None:
    """Append the entry, if the book is still right with it: it is checked as a copy, and
    only then written."""
    from rightfit.market.price_book import Server, read_price_book
    from rightfit.search.offers import with_price_book

    before = ""
    if file.exists():
        book = read_price_book(file)  # a mistake that stands there already is told with its own line
        before = file.read_text("utf-8-sig")
        same = [one for one in book.entries if isinstance(one, Server) and kind == "server" and one.name == values["name"]]
        if same:
            raise InputError(Message("cli.price_add_twice", server=values["name"], path=str(file), line=same[0].line))
    text = before or f'as_of = "{datetime.datetime.now(tz=datetime.UTC).date().isoformat()}"\n'
    lines = [f"[[{kind}]]", *(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())]
    text = text.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "prices.toml")
        copy.write_text(text, "utf-8")
        try:
            with_price_book(catalog, copy)
        except UnknownNameError:
            raise
        except RightfitError as error:
            told = re.sub(r"^\d+:\s*", "", error.text(lang).replace(f"{copy}:", "").replace(str(copy), str(file)))
            raise InputError(Message("cli.price_add_refused", why=told)) from None
    try:
        write_whole(file.resolve(), text)
    except OSError as error:
        raise InputError(Message("cli.price_add_unwritable", path=str(file), why=system_problem(error))) from None


def entry_of(
    server: str,
    price: str,
    catalog: Catalog,
    *,
    region: str = "",
    purchase: str = "",
    gpu: str = "",
    count: int | None = None,
    lang: Lang = "en",
) -> tuple[str, dict[str, Any]]:
    """The kind of entry and its fields: another price of a server that has one, else the server
    with what the catalog knows of it."""
    from rightfit.market import names
    from rightfit.market.offers import NO_PRICE

    table = catalog.servers()
    provider, _, name = server.partition("/")
    provider = names.resolve_provider(provider)
    place = _place(catalog, provider, region)
    purchase = names.resolve_purchases([purchase])[0] if purchase else ""
    at = next((row for row, known in enumerate(zip(table.provider, table.instance_type, strict=True)) if known == (provider, name)), None)
    if at is None:
        if not gpu:
            own = [one for cloud, one in zip(table.provider, table.instance_type, strict=True) if cloud == provider]
            near = nearest_words(name, own, count=2)
            hint = Message("cli.price_add_near", names=", ".join(f"{provider}/{one}" for one in near)) if near else ""
            raise InputError(Message("cli.price_add_no_server", server=server, hint=hint))
        fields: dict[str, Any] = {"provider": provider, "name": name, "gpu": card_named(gpu), "gpus": count or USUAL_CARDS}
    else:
        _check_cards(server, table, at, gpu, count, lang)
        if table.not_recommended[at] != NO_PRICE:
            return "discount", _repriced(catalog, provider, name, place, purchase, price, lang)
        fields = {"provider": provider, "name": name, **_known(table, at)}
    place = place or names.names_data()["mainland"]["regions"].get(provider, provider)
    return "server", {**fields, "price": price, "site": place, **({"purchase": purchase} if purchase else {})}


def _place(catalog: Catalog, provider: str, region: str) -> str:
    """The region by the code of a cloud that has regions; raises with the nearest. A place of one's
    own is taken as it is."""
    if not region or not any(one.provider == provider for one in catalog.regions()):
        return region
    found = catalog.find_regions(region, providers=[provider])
    if len(found) > 1:
        raise AmbiguousNameError("region", region, [one.region for one in found], field="region")
    return found[0].region


def card_named(text: str) -> str:
    """The one accelerator of a name. Raises where there is none, or cards of several kinds: a quote
    is for one of them."""
    from rightfit import facts

    found = list(facts.match_accelerators(text))
    exact = [name for name in found if name.casefold() == text.strip().casefold()]
    if not found:
        raise UnknownNameError("accelerator", text, nearest=facts.nearest_accelerators(text), field="gpu")
    if not exact and len(found) > 1:
        raise AmbiguousNameError("accelerator", text, found, field="gpu")
    return str((exact or found)[0])


def _check_cards(server: str, table: ServerTable, at: int, gpu: str, count: int | None, lang: Lang) -> None:
    """Cards that are told of a server that the catalog knows are its own."""
    from rightfit import facts

    own, number = table.accelerator_name[at], int(table.num_accelerators[at])
    if (gpu and own not in facts.match_accelerators(gpu)) or (count is not None and count != number):
        raise InputError(Message("cli.price_add_cards", server=server, cards=f"{number} x {own}" if own else "0"))


def _known(table: ServerTable, at: int) -> dict[str, Any]:
    """What the catalog knows of a server without a price, in the fields of a price book."""
    fields: dict[str, Any] = {"vcpus": max(int(table.vcpus[at]), 1)}
    if table.accelerator_name[at]:
        fields = {"gpu": table.accelerator_name[at], "gpus": max(int(table.num_accelerators[at]), 1), **fields}
    fields |= {"memory": f"{table.memory_bytes[at] / 1e9:g}GB"} if table.memory_bytes[at] > 0 else {}
    return fields | ({"network_gbps": float(table.network_bytes_per_s[at] / 1.25e8)} if table.network_bytes_per_s[at] > 0 else {})


def _repriced(catalog: Catalog, provider: str, name: str, place: str, purchase: str, price: str, lang: Lang) -> dict[str, Any]:
    """A price for offers that the catalog lists: those of the region and way to pay; without a way
    on demand, where it is sold so."""
    from rightfit.market import names
    from rightfit.market.offers import PURCHASE_CODES

    words = {code: word for word, code in PURCHASE_CODES.items()}
    table = catalog.all_offers()
    listed = {
        (words[int(way)], table.regions[int(where)])
        for row, where, way in zip(table.server_index, table.region_index, table.purchase_index, strict=True)
        if (table.servers.provider[int(row)], table.servers.instance_type[int(row)]) == (provider, name)
    }
    ways = sorted({way for way, _ in listed})
    usual = names.resolve_purchases(["on-demand"])[0]
    way = purchase or (usual if usual in ways or not ways else ways[0])
    if way not in ways:
        raise InputError(Message("cli.price_add_way", server=f"{provider}/{name}", way=way, ways=", ".join(ways)))
    places = sorted(where for one, where in listed if one == way)
    if place and place not in places:
        near = list(dict.fromkeys([*nearest_words(place, places, count=MOST_NAMES), *places]))
        shown = ", ".join([*near[:MOST_NAMES], *(["..."] if len(near) > MOST_NAMES else [])])
        raise InputError(Message("cli.price_add_place", server=f"{provider}/{name}", region=place, way=way, regions=shown))
    return {"provider": [provider], "type": [name], **({"region": [place]} if place else {}), "purchase": [way], "price": price}
