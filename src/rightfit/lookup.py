"""Looking around in what is known: words that must all occur, and the filters of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rightfit.messages import Message
from rightfit.units import normalize

if TYPE_CHECKING:
    from rightfit.facts import Accelerator, Dataset, Model
    from rightfit.market import Catalog, OfferFilter, ServerTable
    from rightfit.market.market import PriceList, ServerList
    from rightfit.market.offers import Indices, OfferTable
    from rightfit.market.refresh_rows import PricePoint
    from rightfit.search.answer import Section

Names = str | Sequence[str]
MODEL_FAMILIES = ("transformer", "vision", "diffusion", "other")


def accelerators(query: str) -> list[Accelerator]:
    """Accelerators that a loose name covers, or whose name, vendor or architecture holds all words;
    of several names with commas between them those of each."""
    from rightfit import facts

    known = facts.accelerators()
    if len(names := [name for name in query.replace("，", ",").split(",") if name.strip()]) > 1:
        return list(dict.fromkeys(record for name in names for record in accelerators(name)))
    covered = facts.match_accelerators(query) if query.strip() else ()
    if covered:
        return [known[name] for name in covered]
    return [record for record in known.values() if _holds(f"{record.name} {record.vendor} {record.architecture}", _words(query))]


def models(query: str, *, kind: str | None = None) -> list[Model]:
    """Models whose name or alias fits, of one family or kind where asked for."""
    from rightfit import facts

    return list(facts.search_models(query, kind=None if kind is None else _model_kind(kind)))


def model_record(record: Any) -> dict[str, Any]:
    """A model as one flat record: what every kind of model has first, then its own fields."""
    from dataclasses import asdict

    family = {"TransformerArchitecture": "transformer", "VisionModel": "vision", "DiffusionModel": "diffusion"}.get(
        type(record).__name__, "other"
    )
    values = asdict(record)
    params = values.get("params_total", values.get("total_params"))
    active = values.get("params_active")
    kind = values.get("kind") or values.get("task") or values.get("modality", "")
    own = {
        "name": record.name,
        "family": family,
        "kind": kind,
        "params_total": params,
        "params_active": active if active != params else None,
    }
    return {
        **own,
        **{key: value for key, value in values.items() if key not in ("name", "family", "kind", "params_total", "params_active")},
    }


def _model_kind(text: str) -> str:
    """A family of models or a kind within one, as records write it; an unknown one
    raises with the nearest."""
    from rightfit import facts

    word = normalize(text).casefold().strip()
    if word in MODEL_FAMILIES:
        return word
    kinds = {str(getattr(record, "kind", "")) for record in facts.models().values()} - {""}
    if word in kinds:
        return word
    from rightfit.errors import UnknownNameError
    from rightfit.workload.vocabulary import nearest_words

    near = nearest_words(word, (*MODEL_FAMILIES, *sorted(kinds)))
    raise UnknownNameError(
        "kind", text, nearest=near, allowed=Message("names.allowed_words", names=", ".join(MODEL_FAMILIES)), field="kind"
    )


def datasets(query: str) -> list[Dataset]:
    """Data sets whose name, aliases or domain hold all words."""
    from rightfit import facts

    words = _words(query)
    return [record for record in facts.datasets().values() if _holds(f"{record.name} {' '.join(record.aliases)} {record.domain}", words)]


def servers(query: str, *, cloud: Names = (), gpu: Names = (), catalog: Catalog | None = None) -> ServerList:
    """Server types whose provider, name, family or accelerator hold all words."""
    import numpy as np

    from rightfit.market.market import ServerList

    market = catalog or _open()
    found = market.find_servers(_filter(cloud=cloud, gpu=gpu), limit=None).servers
    rows = np.flatnonzero(_server_fits(found, _words(query)))
    return ServerList(found.take(rows), len(rows))


def value(
    query: str,
    *,
    sort: str,
    model: str = "",
    cloud: Names = (),
    region: Names = (),
    country: Names = (),
    gpu: Names = (),
    purchase: Names = (),
    catalog: Catalog | None = None,
) -> list[dict[str, Any]]:
    """Servers with accelerators, each at its cheapest sound offer, best value first; on demand
    where no purchase mode is named."""
    import dataclasses

    from rightfit.planner.cards import value_rows

    market = catalog or _open()
    chosen = _filter(cloud=cloud, region=region, country=country, gpu=gpu, purchase=purchase or "on-demand")
    chosen = dataclasses.replace(chosen, has_accelerator=True, include_slices=False, include_not_recommended=False)
    keep = _server_fits(market.servers(has_accelerator=True), _words(query))
    return value_rows(market, chosen, keep=keep, sort=sort, model=model)


def prices(
    query: str,
    *,
    cloud: Names = (),
    region: Names = (),
    country: Names = (),
    gpu: Names = (),
    purchase: Names = (),
    limit: int | None = None,
    each_seller_above: int | None = None,
    catalog: Catalog | None = None,
) -> PriceList:
    """Prices of such servers, cheapest first (per GPU, where each server has some); a word of the
    query may also be a region's code.

    Superseded prices are among them only where a word is the whole former name. Of more than
    `each_seller_above` prices only the first of each seller and way to pay is kept.
    """
    import dataclasses

    import numpy as np

    from rightfit.market.expected import expected
    from rightfit.market.market import PriceList
    from rightfit.market.offers import first_offers

    market = catalog or _open()
    words = _words(query)
    former = _former_names(market.servers(), words)
    chosen = _filter(cloud=cloud, region=region, country=country, gpu=gpu, purchase=purchase)
    offers = market.offers(dataclasses.replace(chosen, include_quarantined=bool(former)))
    if former:
        offers = offers.take(~offers.is_quarantined | np.isin(offers.server_index, former))
    named = {word for word in words if word in {region.casefold() for region in offers.regions}}
    in_region = np.array([not named or region.casefold() in named for region in offers.regions])
    fits = np.array(_server_fits(offers.servers, [word for word in words if word not in named]))
    rows = np.flatnonzero(in_region[offers.region_index] & fits[offers.server_index])
    is_many = each_seller_above is not None and len(rows) > each_seller_above
    sort = "price_per_gpu" if (offers.servers.num_accelerators[offers.server_index[rows]] > 0).all() else "price"
    order = first_offers(offers, rows, sort=sort, limit=None if is_many else limit)
    shown = offers.take(_first_of_each_seller(offers, order)[:limit] if is_many else order)
    return PriceList(shown, len(rows), expected(shown, among=market.all_offers(has_accelerator=chosen.has_accelerator)))


def _first_of_each_seller(offers: OfferTable, rows: Indices) -> Indices:
    """The first row of each seller and way to pay, in the order of the rows."""
    import numpy as np

    sellers = np.unique(np.array(offers.servers.provider), return_inverse=True)[1]
    keys = np.stack([sellers[offers.server_index[rows]], offers.purchase_index[rows]])
    return rows[np.sort(np.unique(keys, axis=1, return_index=True)[1])]


def _former_names(table: ServerTable, words: list[str]) -> list[int]:
    """Rows of the servers of which a word is the whole name, and which their seller lists under
    another one by now."""
    from rightfit.market.offers import SUPERSEDED_BY

    rows = [row for row, reason in enumerate(table.not_recommended) if reason.startswith(SUPERSEDED_BY)] if words else []
    names = {row: table.instance_type[row].casefold() for row in rows}
    return [row for row, name in names.items() if not {name, f"{table.provider[row]}/{name}"}.isdisjoint(words)]


def price_history(
    query: str,
    *,
    cloud: Names = (),
    region: Names = (),
    country: Names = (),
    gpu: Names = (),
    purchase: Names = (),
    catalog: Catalog | None = None,
) -> list[PricePoint]:
    """How the prices moved that `prices` gives: every price with the dates at which it was
    seen, oldest first."""
    from rightfit.market import refresh_rows

    market = catalog or _open()
    found = prices(query, cloud=cloud, region=region, country=country, gpu=gpu, purchase=purchase, catalog=market)
    return refresh_rows.price_history(found.rows())


def _open() -> Catalog:
    from rightfit.search.offers import open_priced

    return open_priced()


def ways_to_buy(query: str, *, region: Names = (), office_hours: float | None = None, catalog: Catalog | None = None) -> Section:
    """How to buy one server: every way to pay with its break-evens (see search/purchase.py), in the
    region given or where it is cheapest on demand."""
    import numpy as np

    from rightfit.errors import InputError
    from rightfit.market import open_catalog
    from rightfit.search.bill import section_of
    from rightfit.search.offers import read_market
    from rightfit.search.purchase import cheapest_region, how_to_buy
    from rightfit.search.servers import find_server

    if not query.strip():
        raise InputError(Message("units.no_server"), field="query")
    market = catalog or open_catalog()
    server = find_server(market, "/".join(query.split()))
    table = market.all_offers(has_accelerator=None)
    sound = (table.server_index == server) & ~table.is_quarantined & np.isfinite(table.price_usd_per_h)
    wanted = [found.region for name in read_names("region", region) for found in market.find_regions(name)]
    offers = read_market(market, table.take(np.flatnonzero(sound)))
    if not len(offers.offers):
        raise InputError(Message("units.no_price", server=query.strip()), field="query")
    place = cheapest_region(offers, wanted)
    return section_of(how_to_buy(market, offers, server, region=place, office_h=office_hours), job_h=None)


def _filter(*, cloud: Names = (), region: Names = (), country: Names = (), gpu: Names = (), purchase: Names = ()) -> OfferFilter:
    """Everything that exists, also what is never recommended, within the names given."""
    from rightfit.market import OfferFilter

    return OfferFilter(
        providers=read_names("cloud", cloud),
        regions=read_names("region", region),
        countries=read_names("country", country),
        gpus=_gpus(read_names("gpu", gpu)),
        purchases=read_names("purchase", purchase),
        has_accelerator=True if gpu else None,
        include_slices=True,
        include_not_recommended=True,
    )


def read_names(option: str, value: Names) -> tuple[str, ...]:
    """Names as the option of a workload reads them: lists taken apart, other spellings settled."""
    from rightfit.workload.options import read_wish

    names: tuple[str, ...] = read_wish(option, value if isinstance(value, str) else list(value)).get(option, ()) if value else ()
    return names


def _gpus(names: Sequence[str]) -> tuple[str, ...]:
    """The accelerators that loose names cover; a name that covers none is left for the
    catalog to refuse."""
    from rightfit import facts

    return tuple(dict.fromkeys(found for name in names for found in facts.match_accelerators(name) or (name,)))


def _server_fits(table: ServerTable, words: list[str]) -> list[bool]:
    """Whether each server meets all words. A word that names accelerators means those (or a server
    type whose name begins so: "p4" is a card and p4d a type), a word that is a whole server name
    that server only, any other word a part of a name."""
    from rightfit import facts

    names = list(zip(table.provider, table.instance_type, table.family, table.accelerator_name, strict=True))
    if not words:
        return [True] * len(names)
    covered = {word: frozenset(facts.match_accelerators(word)) for word in words}
    whole = {f"{provider}/{name}".casefold() for provider, name, _, _ in names} | {name.casefold() for _, name, _, _ in names}
    exact = frozenset(word for word in words if word in whole and not covered[word])

    def fits(word: str, provider: str, name: str, family: str, accelerator: str) -> bool:
        own = (name.casefold(), f"{provider}/{name}".casefold())
        if word in exact:
            return word in own
        if covered[word]:
            return accelerator in covered[word] or (own[0].startswith(word) and not own[0][len(word) :][:1].isdigit())
        return word in f"{own[1]} {family} {accelerator}".casefold()

    return [all(fits(word, *row) for word in words) for row in names]


def _words(query: str) -> list[str]:
    return normalize(query).casefold().split()


def _holds(text: str, words: Sequence[Any]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)
