"""Look around in the knowledge base: models, accelerators, datasets, servers, prices; check
a name or a claim."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rightfit import units
from rightfit.cli.commands.catalog import listing_of_history
from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, Format, View, emit, listing, note, open_market
from rightfit.cli.parameters import is_added
from rightfit.errors import InputError
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table, price_remark, purchase_text, server_status
from rightfit.messages import Lang, Message

if TYPE_CHECKING:
    from rightfit.market.market import PriceList
    from rightfit.market.verdicts import CheckResult


Query = Annotated[list[str] | None, argument(help="Words in the name; omit to list all.", metavar="QUERY", show_default=False)]
Clouds = Annotated[list[str] | None, option("--cloud", help="Only these clouds, e.g. aws,gcp.", metavar="A,B", show_default=False)]
Gpus = Annotated[list[str] | None, option("--gpu", help="Only these accelerators, e.g. A100.", metavar="A,B", show_default=False)]
Regions = Annotated[list[str] | None, option("--region", help="Only these regions.", metavar="A,B", show_default=False)]
Countries = Annotated[list[str] | None, option("--country", help="Only these countries, e.g. US,CN.", metavar="A,B", show_default=False)]
Purchases = Annotated[
    list[str] | None, option("--purchase", help="Only these pricing models, e.g. spot.", metavar="A,B", show_default=False)
]
History = Annotated[bool, option("--history", help="Price history: every price with the dates it was seen.")]
BreakEven = Annotated[bool, option("--break-even", help="All pricing models for one server, and the usage at which each beats on demand.")]
Sort = Annotated[
    str | None,
    option("--sort", help="Best value first: usd_per_pflop, usd_per_gb_vram or usd_per_mtok.", metavar="WORD", show_default=False),
]
ForModel = Annotated[
    str | None, option("--model", help="Model for the price per token (usd_per_mtok).", metavar="MODEL", show_default=False)
]
Plot = Annotated[
    str | None, option("--plot", help="Plot price against performance into this SVG, PNG or PDF.", metavar="FILE", show_default=False)
]
Kind = Annotated[str | None, option("--kind", help="Only this family: transformer, vision, diffusion, other.", metavar="WORD")]


def gib(value: Any) -> str:
    """Memory as cards and servers are sold: GiB."""
    return f"{value / 2**30:,.4g} GiB" if _known(value) else ""


def number(value: Any) -> str:
    """A plain number; empty when unknown."""
    if not _known(value):
        return ""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


def count(value: Any) -> str:
    """A large number with a letter."""
    return units.format_count(value) if _known(value) else ""


def scaled(factor: float) -> Any:
    """A number shown in units of `factor`."""
    return lambda value: f"{value / factor:,.4g}" if _known(value) else ""


def hourly(value: Any) -> str:
    """Dollars an hour."""
    return units.format_usd(value) if _known(value) else ""


def _known(value: Any) -> bool:
    return value is not None and value == value and value != 0


_MODEL_COLUMNS = (
    Column("name", flexible=True),
    Column("family"),
    Column("kind", drop=2),
    Column("params_total", count, right=True),
    Column("params_active", count, right=True, drop=3),
    Column("num_layers", number, right=True, drop=4),
    Column("hidden_size", number, right=True, drop=5),
    Column("max_position", number, right=True, drop=6),
    Column("licence", drop=7),
)
_ACCELERATOR_COLUMNS = (
    Column("name"),
    Column("vendor", drop=4),
    Column("architecture", drop=3),
    Column("memory_bytes", gib, right=True),
    Column("memory_bandwidth", scaled(1e9), right=True),
    Column("fp16_flops", scaled(1e12), right=True),
    Column("bf16_flops", scaled(1e12), right=True, drop=2),
    Column("fp8_flops", scaled(1e12), right=True, drop=1),
    Column("nvlink_bandwidth", scaled(1e9), right=True, drop=5),
    Column("tdp_w", number, right=True, drop=7),
    Column("release_year", lambda value: str(value or ""), right=True, drop=6),
)
_DATASET_COLUMNS = (
    Column("name", flexible=True),
    Column("domain", drop=1),
    Column("samples", count, right=True),
    Column("tokens", count, right=True),
    Column("size_bytes", lambda value: units.format_bytes(value) if value else "", right=True),
)
_SERVER_COLUMNS = (
    Column("provider"),
    Column("instance_type"),
    Column("vcpus", number, right=True),
    Column("memory_bytes", gib, right=True),
    Column("num_accelerators", number, right=True),
    Column("accelerator_name"),
    Column("accelerator_memory_bytes", gib, right=True, drop=4),
    Column("gpu_interconnect", drop=5),
    Column("network_bytes_per_s", scaled(1.25e8), right=True, drop=3),
    Column("rdma", drop=6),
    Column("status", drop=2),
)
_PRICE_COLUMNS = (
    Column("provider"),
    Column("instance_type", flexible=True),
    Column("gpus", flexible=True),
    Column("region", flexible=True),
    Column("purchase", flexible=True),
    Column("price_usd_per_h", hourly, right=True),
    Column("price_per_gpu_usd_per_h", hourly, right=True),
    Column("as_of"),
    Column("expected", right=True, drop=2),
    Column("remark", drop=1),
)
_GPU_COLUMNS = {"gpus", "price_per_gpu_usd_per_h"}


def _expected_range(record: Mapping[str, Any], lang: Lang) -> str:
    """What the server costs today in four cases of five; nobody knows of a price too long ago."""
    if record["is_beyond_knowledge"]:
        return label("prices", "ask_first", lang)
    low, high = (units.format_usd(record[f"expected_{end}80_usd_per_h"]) for end in ("low", "high"))
    return low if low == high else label("prices", "range", lang, low=low, high=high)


CardCount = Annotated[int | None, option("--count", help="GPUs per server (default: 8, or the server's own count).", metavar="N", min=1)]


def models(query: Query = None, kind: Kind = None, *, view: View) -> None:
    """List supported models by name or alias.

    Example: rightfit models llama-3
    """
    from rightfit import api
    from rightfit.lookup import model_record

    listing([model_record(record) for record in api.models(_joined(query), kind=kind)], Table(_MODEL_COLUMNS, []), view)


def accelerators(query: Query = None, *, view: View) -> None:
    """Accelerators: memory, bandwidth, dense tensor rates.

    Example: rightfit accelerators A100
    """
    from rightfit import api

    listing(_records(api.accelerators(_joined(query))), Table(_ACCELERATOR_COLUMNS, []), view)


def datasets(query: Query = None, *, view: View) -> None:
    """Public data sets you can pass to --data by name.

    Example: rightfit datasets alpaca
    """
    from rightfit import api

    listing(_records(api.datasets(_joined(query))), Table(_DATASET_COLUMNS, []), view)


def servers(
    query: Query = None,
    cloud: Clouds = None,
    gpu: Gpus = None,
    region: Regions = None,
    country: Countries = None,
    purchase: Purchases = None,
    sort: Sort = None,
    model: ForModel = None,
    plot: Plot = None,
    *,
    view: View,
) -> None:
    """List server types of all clouds.

    Examples:

    rightfit servers --cloud alicloud --gpu A10

    rightfit servers --sort usd_per_mtok --model llama-3-8b --purchase on-demand
    """
    from rightfit import api

    if sort is not None or plot is not None or model is not None:
        chosen = sort or ("usd_per_mtok" if model else "usd_per_pflop")
        _by_value(_joined(query), chosen, model or "", plot, view, cloud=cloud, gpu=gpu, region=region, country=country, purchase=purchase)
        return
    if region or country or purchase:
        raise InputError(Message("cli.servers_without_sort"), field="sort")
    records = api.servers(_joined(query), cloud=cloud or (), gpu=gpu or (), catalog=open_market(view))
    shown = records if view.is_machine else [{**record, "status": server_status(record, view.lang)} for record in records]
    listing(shown, Table(_SERVER_COLUMNS, []), view)


def _by_value(query: str, sort: str, model: str, plot: str | None, view: View, **filters: list[str] | None) -> None:
    """Servers by what their money buys; each at its cheapest sound offer."""
    from rightfit import lookup
    from rightfit.planner import cards

    found = lookup.value(query, sort=sort, model=model, catalog=open_market(view), **{name: text or () for name, text in filters.items()})
    if plot is not None:
        cards.save_plot(found, plot, sort=sort)
        note(label("places", "plotted", view.lang, path=plot), view)
    columns = (
        *(
            Column("provider"),
            Column("instance_type", flexible=True),
            Column("accelerator_name", drop=3),
            Column("num_accelerators", number, right=True),
        ),
        *(Column("region", drop=4), Column("purchase", drop=2), Column("price_usd_per_h", hourly, right=True)),
        *(Column("usd_per_pflop", hourly, right=True), Column("usd_per_gb_vram", hourly, right=True)),
        *((Column("usd_per_mtok", hourly, right=True),) if model else ()),
        Column("as_of", drop=1),
    )
    listing(found, Table(columns, []), view)


def prices(
    query: Query = None,
    cloud: Clouds = None,
    gpu: Gpus = None,
    region: Regions = None,
    country: Countries = None,
    purchase: Purchases = None,
    history: History = False,
    break_even: BreakEven = False,
    count: CardCount = None,
    *,
    view: View,
) -> None:
    """Prices per hour for the whole server and per GPU, cheapest first, each with its date.

    A long list shows the cheapest of each provider and pricing model; --top 0 shows all.

    Example: rightfit prices g5.xlarge --purchase spot

    A quote that you were given is kept in your price book: rightfit prices add
    tencent/PNV6.16XLARGE640 250cny --region ap-beijing
    """
    if query and is_added(query):
        from rightfit.cli.commands.catalog import add_price

        unused = {"cloud": cloud, "country": country, "history": history, "break_even": break_even}
        add_price(query[1:], region=region, purchase=purchase, gpu=gpu, count=count, unused=unused, view=view)
        return
    from rightfit import lookup

    chosen: dict[str, Any] = {
        "cloud": cloud or (),
        "gpu": gpu or (),
        "region": region or (),
        "country": country or (),
        "purchase": purchase or (),
    }
    if break_even:
        section = lookup.ways_to_buy(_joined(query), region=region or (), catalog=open_market(view))
        from rightfit.cli.plan_view import break_even_answer

        emit(break_even_answer(section, view), view)
        return
    if history:
        listing_of_history(lookup.price_history(_joined(query), **chosen, catalog=open_market(view)), view)
        return
    is_long_list = not (view.is_machine or view.top is not None)
    asked: dict[str, Any] = {"limit": view.limit(default=20), "catalog": open_market(view)}

    def find(words: str, filters: Mapping[str, Any]) -> PriceList:
        nonlocal is_long_list
        is_long_list = is_long_list and not filters["cloud"]  # of one provider one looks for a place or a server
        return lookup.prices(words, **filters, each_seller_above=20 if is_long_list else None, **asked)

    found = find(_joined(query), chosen)
    if not found.total and (said := _filters_said(_joined(query), chosen)):
        note(label("status", "same_as", view.lang, command=shlex.join(["rightfit", "prices", *_as_options(said)])), view)
        found = find("", {**chosen, **said})
    records = found.rows()
    has_gpus = any(record["num_accelerators"] for record in records)
    left_out = (set() if has_gpus else _GPU_COLUMNS) | ({"region"} if is_long_list and found.total > len(records) else set())
    columns = [column for column in _PRICE_COLUMNS if column.key not in left_out]
    columns += [Column("source", flexible=True)] if view.verbose else []
    shown = records if view.is_machine else [_price_record(record, view.lang) for record in records]
    listing(shown, Table(columns, []), view, total=found.total, more="more_sellers" if is_long_list else "more")
    if old := sum(record["is_beyond_knowledge"] for record in records):
        note(label("prices", "old", view.lang, count=old), view)


def _price_record(record: Mapping[str, Any], lang: Lang) -> dict[str, Any]:
    """A price as people read it."""
    count, name = record["num_accelerators"], record["accelerator_name"]
    words = {"purchase": purchase_text(record["purchase"], lang), "gpus": f"{count:.3g}x {name}" if count else ""}
    return {**record, **words, "remark": price_remark(record, lang), "expected": _expected_range(record, lang)}


def _filters_said(query: str, chosen: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The filters that a query of several words says in full ("H100 in Frankfurt"), which is no
    name of a server; empty where it says anything else or an option says it otherwise."""
    from rightfit.workload.ask import understand

    if len(query.split()) < 2:
        return {}
    read = understand(query)
    said = {name: str(value).split(",") for name, value in read.wishes.items() if name in chosen}
    is_whole = len(said) == len(read.wishes) and not (read.weighty or read.unused) and not any(chosen[name] for name in said)
    return said if is_whole else {}


def _as_options(said: Mapping[str, Sequence[str]]) -> list[str]:
    return [word for name, values in said.items() for word in (f"--{name}", ",".join(values))]


def check(
    claims: Annotated[
        list[str],
        argument(
            help="Names, statements, NAME=CLAIM, a text file, or - for standard input.", metavar="NAME[=CLAIM]...", show_default=False
        ),
    ],
    *,
    view: View,
) -> None:
    """Check whether a server, accelerator, claim or text is right, and find the correct name.

    Example: rightfit check ecs.gn7i-c2g1.xlarge g5.xlarge=T4
    """
    from rightfit import api
    from rightfit.cli.asking import in_words_of

    claims = [_text_of(claim) for claim in claims]
    view = in_words_of(" ".join(claims), view)
    tell_checked(api.check(claims, catalog=open_market(view)), view)


#: What a file of text is called: a claim is never.
_TEXT_FILES = (".txt", ".md", ".markdown", ".csv", ".tsv", ".log", ".text", ".rst")


def _text_of(claim: str) -> str:
    """A claim as it stands, the text of a file that it names, or standard input for "-"."""
    path = Path(claim) if len(claim) < _LONGEST_PATH and not {"\n", "\0"} & set(claim) else None
    is_file = path is not None and (
        (path.suffix.casefold() in _TEXT_FILES and " " not in claim.strip()) or ("/" in claim and path.is_file())
    )
    if claim != "-" and not is_file:
        return claim
    try:
        text = sys.stdin.read() if claim == "-" or path is None else path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(Message("facts.no_such_file", path=claim)) from error
    except OSError as error:
        raise InputError(Message("cli.check_file_unread", path=claim)) from error
    except UnicodeDecodeError as error:
        raise InputError(Message("cli.check_file_no_text", path=claim)) from error
    if not text.strip():
        raise InputError(Message("cli.check_file_empty", path=claim))
    return text.strip()


_LONGEST_PATH = 260


def tell_checked(found: Sequence[CheckResult], view: View) -> None:
    """The answers of `check`, one after the other."""
    results = [result.to_dict(lang=view.lang) for result in found]
    parts: list[Any] = [_verdict(result, view) for result in results]
    if view.format is Format.markdown and len(results) > 1:
        parts = _verdict_table(results, view)
    emit(Answer(results, [_flat(result) for result in results], parts), view)


def _verdict_table(results: Sequence[Mapping[str, Any]], view: View) -> list[Any]:
    """The verdicts on a pasted text as a table to publish, what was not judged below it."""
    columns = (Column("statement", flexible=True), Column("verdict"), Column("right_value", flexible=True))
    is_judged = [result["claim"] is not None or result["kind"] != "market" for result in results]
    rows = [
        {
            "statement": result["query"],
            "verdict": label("check", f"claim_{result['claim']}" if result["claim"] else "exists", view.lang),
            "right_value": " ".join(str(result["explanation"]).splitlines()),
        }
        for result, judged in zip(results, is_judged, strict=True)
        if judged
    ]
    return [Table(columns, rows), *(_verdict(result, view) for result, judged in zip(results, is_judged, strict=True) if not judged)]


def _joined(query: list[str] | None) -> str:
    return " ".join(query or ())


def _records(items: Sequence[Any]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(record) for record in items]


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    import json

    return {key: json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else value for key, value in result.items()}


def _verdict(result: Mapping[str, Any], view: View) -> str:
    """One claim in two to four lines."""
    from rightfit.explain.rule_lookup import headed, verdict_words

    query = str(result["query"])
    words = verdict_words(query, kind=result["kind"], exists=result["exists"], claim=result["claim"], known=result["facts"], lang=view.lang)
    lines = [headed(query, words, view.lang), *(f"  {line}" for line in result["explanation"].splitlines())]
    if result["nearest"] and result["nearest"][0] not in result["explanation"] + result["query"]:
        lines.append("  " + label("check", "nearest", view.lang, names=", ".join(result["nearest"])))
    return "\n".join(lines)


# ---- Who rents what, and where: providers side by side, and regions with names, law and distance.

Residency = Annotated[
    list[str] | None,
    option("--residency", help="Only this jurisdiction: eu, eea, gdpr, cn-mainland, or countries.", metavar="A,B", show_default=False),
]
Near = Annotated[str | None, option("--near", help="Your location (country, city or region); nearest first.", metavar="PLACE")]


def _places_joined(values: Any) -> str:
    return ", ".join(values or ())


def providers(query: Query = None, *, view: View) -> None:
    """Compare providers: GPUs, largest server, interconnect, spot, in-house chips, regions,
    price of one A100 and one H100.

    Example: rightfit providers aws gcp alicloud
    """
    from rightfit import api

    found = api.providers(*(query or ()), catalog=open_market(view), lang=view.lang)
    words = {flag: label("places", "yes" if flag else "no", view.lang) for flag in (True, False)}
    told = [{**row, "spot": words[row["spot"]], "chips": [*row["own_silicon"], *row["domestic"]]} for row in found]
    shown = found if view.is_machine else told
    columns = (
        Column("name"),
        Column("num_cards", number, right=True, drop=6),
        Column("largest"),
        Column("gpu_interconnect", drop=7),
        Column("rdma", drop=9),
        Column("spot", drop=2),
        Column("chips", _places_joined, flexible=True),
        Column("regions", number, right=True, drop=1),
        Column("a100_usd_per_h", hourly, right=True),
        Column("h100_usd_per_h", hourly, right=True),
        Column("as_of", drop=8),
    )
    listing(shown, Table(columns, []), view, total=len(found))


def regions(
    query: Query = None, cloud: Clouds = None, country: Countries = None, residency: Residency = None, near: Near = None, *, view: View
) -> None:
    """Regions: names in both languages, country, law, accelerated server types,
    and how far they are.

    Example: rightfit regions --residency eu --near Berlin
    """
    from rightfit import api

    found = api.regions(
        _joined(query), cloud=cloud or (), country=country or (), residency=residency or (), near=near or "", catalog=open_market(view)
    )
    columns = (
        Column("provider"),
        Column("region"),
        Column("display_en", flexible=True),
        Column("display_zh", flexible=True),
        Column("country"),
        Column("continent", drop=2),
        Column("law", _places_joined, drop=3),
        Column("gpu_types", number, right=True, drop=1),
        *((Column("latency", lambda value: latency_text(value, view)),) if near else ()),
    )
    listing(found, Table(columns, []), view)


def latency_text(name: str, view: View) -> str:
    """A class of distance with its usual round trip."""
    from rightfit import facts

    row = next(row for row in facts.table("latency") if row["class"] == name)
    span = f" ({row['low_ms']}-{row['high_ms']} ms)" if row["low_ms"] else ""
    return row[view.lang] + span


# ---- Which models fit one's cards.

MOST_CARDS = 999
Cards = Annotated[str, argument(help="One GPU type, or several separated by commas, e.g. RTX-4090.", metavar="GPU", show_default=False)]
Count = Annotated[int | None, option("--count", help="GPUs per machine.", metavar="N", min=1, max=MOST_CARDS, show_default=False)]
Task = Annotated[str, option("--task", help="serve or finetune (default: both).", metavar="WORD")]


def _is_model(text: str) -> bool:
    """Whether a text names a model."""
    from rightfit import facts
    from rightfit.errors import RightfitError

    try:
        return bool(facts.model(text))
    except RightfitError:
        return False


def fit(cards: Cards, count: Count = None, task: Task = "", *, view: View) -> None:
    """Show which models fit on your GPU, for serving and each fine-tuning method, at typical
    lengths and without offloading.

    Example: rightfit fit RTX-4090

    For several GPUs in one machine: rightfit fit RTX-3090 --count 2 --task finetune
    """
    from rightfit import api
    from rightfit.explain.listings import fit_parts

    try:
        found = api.fit(cards, count=count, task=task, catalog=open_market(view))
    except InputError as error:
        if error.field != "have" or not _is_model(cards):
            raise
        raise InputError(Message("cli.fit_of_model", text=cards), field="gpu") from None
    records = [dataclasses.asdict(one) for one in found]
    machines = [list(fits) for _, fits in itertools.groupby(found, key=lambda one: (one.gpu, one.count))]
    parts = [part for fits in machines for part in (*fit_parts(fits, view.lang), label("fit", "note", view.lang))]
    emit(Answer(records, records, parts), view)
