"""Looking around in what is known: words that must all occur, and the filters of a workload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rightfit.units import normalize

if TYPE_CHECKING:
    from rightfit.catalog import Catalog, OfferFilter, ServerTable
    from rightfit.catalog.market import PriceList, ServerList
    from rightfit.facts import Accelerator, Dataset

Names = str | Sequence[str]


def accelerators(query: str) -> list[Accelerator]:
    """Accelerators that a loose name covers, or whose name, vendor or architecture holds all words."""
    from rightfit import facts

    known = facts.accelerators()
    covered = facts.match_accelerators(query) if query.strip() else ()
    if covered:
        return [known[name] for name in covered]
    return [record for record in known.values() if _holds(f"{record.name} {record.vendor} {record.architecture}", _words(query))]


def datasets(query: str) -> list[Dataset]:
    """Data sets whose name, aliases or domain hold all words."""
    from rightfit import facts

    words = _words(query)
    return [record for record in facts.datasets().values() if _holds(f"{record.name} {' '.join(record.aliases)} {record.domain}", words)]


def servers(query: str, *, cloud: Names = (), gpu: Names = (), catalog: Catalog | None = None) -> ServerList:
    """Server types whose provider, name, family or accelerator hold all words."""
    import numpy as np

    from rightfit.catalog import open_catalog
    from rightfit.catalog.market import ServerList

    market = catalog or open_catalog()
    found = market.find_servers(_filter(cloud=cloud, gpu=gpu), limit=None).servers
    rows = np.flatnonzero(_server_fits(found, _words(query)))
    return ServerList(found.take(rows), len(rows))


def prices(
    query: str,
    *,
    cloud: Names = (),
    region: Names = (),
    country: Names = (),
    gpu: Names = (),
    purchase: Names = (),
    limit: int | None = None,
    catalog: Catalog | None = None,
) -> PriceList:
    """Prices of such servers, cheapest first; a word of the query may also be a region's code."""
    import numpy as np

    from rightfit.catalog import open_catalog
    from rightfit.catalog.market import PriceList
    from rightfit.catalog.queries import first_offers

    market = catalog or open_catalog()
    offers = market.offers(_filter(cloud=cloud, region=region, country=country, gpu=gpu, purchase=purchase))
    words = _words(query)
    named = {word for word in words if word in {region.casefold() for region in offers.regions}}
    in_region = np.array([not named or region.casefold() in named for region in offers.regions])
    fits = np.array(_server_fits(offers.servers, [word for word in words if word not in named]))
    rows = np.flatnonzero(in_region[offers.region_index] & fits[offers.server_index])
    return PriceList(offers.take(first_offers(offers, rows, sort="price", limit=limit)), len(rows))


def _filter(*, cloud: Names = (), region: Names = (), country: Names = (), gpu: Names = (), purchase: Names = ()) -> OfferFilter:
    """Everything that exists, also what is never recommended, within the names given."""
    from rightfit.catalog import OfferFilter

    return OfferFilter(
        providers=_read("cloud", cloud),
        regions=_read("region", region),
        countries=_read("country", country),
        gpus=_gpus(_read("gpu", gpu)),
        purchases=_read("purchase", purchase),
        has_accelerator=True if gpu else None,
        include_slices=True,
        include_not_recommended=True,
    )


def _read(option: str, value: Names) -> tuple[str, ...]:
    """Names as the option of a workload reads them."""
    from rightfit.workload.options import read_wish

    names: tuple[str, ...] = read_wish(option, value if isinstance(value, str) else list(value)).get(option, ()) if value else ()
    return names


def _gpus(names: Sequence[str]) -> tuple[str, ...]:
    """The accelerators that loose names cover; a name that covers none is left for the catalog to refuse."""
    from rightfit import facts

    return tuple(dict.fromkeys(found for name in names for found in facts.match_accelerators(name) or (name,)))


def _server_fits(table: ServerTable, words: list[str]) -> list[bool]:
    """Whether each server holds all words; a word that is a whole server name means that server only."""
    names = list(zip(table.provider, table.instance_type, table.family, table.accelerator_name, strict=True))
    if not words:
        return [True] * len(names)
    whole = {f"{provider}/{name}".casefold() for provider, name, _, _ in names} | {name.casefold() for _, name, _, _ in names}
    exact = [word for word in words if word in whole]
    loose = [word for word in words if word not in whole]
    return [_fits_one(provider, name, f"{family} {accelerator}", exact, loose) for provider, name, family, accelerator in names]


def _fits_one(provider: str, name: str, more: str, exact: list[str], loose: list[str]) -> bool:
    own = (name.casefold(), f"{provider}/{name}".casefold())
    return all(word in own for word in exact) and _holds(f"{provider}/{name} {more}", loose)


def _words(query: str) -> list[str]:
    return normalize(query).casefold().split()


def _holds(text: str, words: Sequence[Any]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)
