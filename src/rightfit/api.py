"""The public functions of rightfit: one for each command, typed, returning values and never printing.

Every function is thin: it reads the wish, calls the room that does the work, and hands back its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.errors import UnknownNameError
from rightfit.units import normalize

if TYPE_CHECKING:
    from rightfit.catalog import Catalog, OfferTable, ServerTable
    from rightfit.catalog.check import CheckResult
    from rightfit.facts import Accelerator, Dataset, Model
    from rightfit.search.answer import Plan
    from rightfit.workload.model import Workload

Names = str | Sequence[str]


def plan(
    workload: Workload | str | Path | None = None, /, *, catalog: Catalog | None = None, top: int | None = None, **wishes: Any
) -> Plan:
    """Rank servers for a workload.

    Give a `Workload`, the path of a workload file, or the options of `rightfit plan` by name: `plan(model="7B", method="qlora", data="50Mtok")`.
    The result has `.best`, `.options`, `.pareto`, `.rejected`, `.advice`, `.to_dict()` and `.to_json()`; `.best` is None when nothing is feasible.
    """
    from rightfit import search

    return search.plan(read_workload(workload, wishes), catalog=catalog, **({} if top is None else {"top": top}))


def estimate(
    workload: Workload | str | Path | None = None, /, *, on: str, nodes: int = 1, catalog: Catalog | None = None, **wishes: Any
) -> Plan:
    """What a workload does on one given server ("aws/p4d.24xlarge"), without a search over servers."""
    from rightfit import search

    return search.estimate_one(read_workload(workload, wishes), on=on, nodes=nodes, catalog=catalog)


def why(server: str, workload: Workload | str | Path | None = None, /, *, catalog: Catalog | None = None, **wishes: Any) -> Any:
    """Why a server ("aws/g5.xlarge") was or was not chosen, and the least change that would alter it."""
    from rightfit import search

    return search.why(read_workload(workload, wishes), server, catalog=catalog)


def read_workload(workload: Workload | str | Path | None, wishes: Mapping[str, Any]) -> Workload:
    """A Workload from any of the forms that `plan` takes."""
    from rightfit.workload.model import Workload

    if isinstance(workload, Workload):
        return workload.with_changes(**wishes) if wishes else workload
    if workload is not None:
        return Workload.from_file(workload, **wishes)
    return Workload(**wishes)


def predict(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Predict measured quantities row by row (columns as in `rightfit predict`); a row that cannot be predicted says why in `error`."""
    from rightfit.estimate.predict import predict as predict_rows

    return predict_rows(list(rows))


def check(claims: Names) -> list[CheckResult]:
    """Does this server, accelerator or claim ("g5.xlarge=T4") hold, and what is right or nearest?"""
    from rightfit.catalog.check import check as check_claims

    return check_claims([claims] if isinstance(claims, str) else list(claims))


def models(query: str = "", *, kind: str | None = None) -> list[Model]:
    """Models whose name or alias fits `query`, best first; all of them without a query."""
    from rightfit import facts

    return list(facts.search_models(query, kind=kind)) if query.strip() else list(facts.models().values())


def accelerators(query: str = "") -> list[Accelerator]:
    """Accelerators that a loose name covers ("A100"), or whose name, vendor or architecture holds all words of `query`."""
    from rightfit import facts

    known = facts.accelerators()
    if not query.strip():
        return list(known.values())
    covered = facts.match_accelerators(query)
    if covered:
        return [known[name] for name in covered]
    words = _words(query)
    return [record for record in known.values() if _holds(f"{record.name} {record.vendor} {record.architecture}", words)]


def datasets(query: str = "") -> list[Dataset]:
    """Data sets whose name or domain holds all words of `query`."""
    from rightfit import facts

    words = _words(query)
    return [record for record in facts.datasets().values() if _holds(f"{record.name} {record.domain}", words)]


def servers(query: str = "", *, cloud: Names = (), gpu: Names = (), catalog: Catalog | None = None) -> list[dict[str, Any]]:
    """Server types, as dictionaries, whose provider, name, family or accelerator holds all words of `query`."""
    from rightfit.catalog import open_catalog

    table = (catalog or open_catalog()).servers()
    clouds, gpus, words = _clouds(cloud, set(table.provider)), _gpus(gpu), _words(query)
    columns = (table.provider, table.instance_type, table.family, table.accelerator_name)
    found = []
    for index, (provider, name, family, accelerator) in enumerate(zip(*columns, strict=True)):
        if (
            (not clouds or provider in clouds)
            and (not gpus or accelerator in gpus)
            and _holds(f"{provider}/{name} {family} {accelerator}", words)
        ):
            found.append(table.row(index))
    return found


def prices(
    query: str = "",
    *,
    cloud: Names = (),
    region: Names = (),
    country: Names = (),
    gpu: Names = (),
    purchase: Names = (),
    catalog: Catalog | None = None,
) -> list[dict[str, Any]]:
    """Prices, as dictionaries and cheapest first, of the server types that `servers` would find; each with date and source."""
    import numpy as np

    from rightfit.catalog import OfferFilter, open_catalog

    market = catalog or open_catalog()
    wanted = OfferFilter(
        providers=tuple(_clouds(cloud, set(market.servers().provider))),
        countries=_read("country", country),
        gpus=tuple(_gpus(gpu)),
        purchases=_purchases(purchase),
        has_accelerator=None,
        include_slices=True,
        include_not_recommended=True,
    )
    offers = market.offers(wanted)
    keep = _offer_mask(offers, _words(query), _regions(region, offers))
    order = np.flatnonzero(keep)
    order = order[np.argsort(offers.price_usd_per_h[order], kind="stable")]
    return [offers.row(int(index)) for index in order]


def _server_fits(table: ServerTable, words: list[str]) -> list[bool]:
    """Whether each server holds all words; a word that is a whole server name means that server only."""
    names = list(zip(table.provider, table.instance_type, table.family, table.accelerator_name, strict=True))
    whole = {f"{provider}/{name}".casefold() for provider, name, _, _ in names} | {name.casefold() for _, name, _, _ in names}
    exact = [word for word in words if word in whole]
    loose = [word for word in words if word not in whole]
    fits = []
    for provider, name, family, accelerator in names:
        own = (name.casefold(), f"{provider}/{name}".casefold())
        fits.append(all(word in own for word in exact) and _holds(f"{provider}/{name} {family} {accelerator}", loose))
    return fits


def _offer_mask(offers: OfferTable, words: list[str], regions: set[str]) -> Any:
    """Rows whose region is one of `regions` and whose server holds all words that are not a region's name."""
    import numpy as np

    known = {region.casefold() for region in offers.regions}
    named = {word for word in words if word in known}
    region_keeps = [(not regions or region in regions) and (not named or region.casefold() in named) for region in offers.regions]
    server_keeps = _server_fits(offers.servers, [word for word in words if word not in named])
    return np.array(region_keeps)[offers.region_index] & np.array(server_keeps)[offers.server_index]


def _words(query: str) -> list[str]:
    return normalize(query).casefold().split()


def _holds(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _read(option: str, value: Names) -> tuple[str, ...]:
    """Names as the option of a workload reads them."""
    from rightfit.workload.options import read_wish

    names: tuple[str, ...] = read_wish(option, value if isinstance(value, str) else list(value)).get(option, ()) if value else ()
    return names


def _clouds(value: Names, known: set[str]) -> set[str]:
    from rightfit.workload.vocabulary import nearest_words

    names = _read("cloud", value)
    for name in names:
        if name not in known:
            raise UnknownNameError(
                "cloud", name, nearest=nearest_words(name, known), allowed="known: " + ", ".join(sorted(known)), field="cloud"
            )
    return set(names)


def _gpus(value: Names) -> set[str]:
    from rightfit import facts

    found: set[str] = set()
    for name in _read("gpu", value):
        covered = facts.match_accelerators(name)
        if not covered:
            raise UnknownNameError("accelerator", name, nearest=facts.nearest_accelerators(name), field="gpu")
        found.update(covered)
    return found


def _purchases(value: Names) -> tuple[str, ...]:
    from rightfit.catalog import PURCHASE_GROUPS

    return tuple(dict.fromkeys(mode for name in _read("purchase", value) for mode in PURCHASE_GROUPS.get(name, (name,))))


def _regions(value: Names, offers: OfferTable) -> set[str]:
    from rightfit.workload.vocabulary import nearest_words

    names = _read("region", value)
    for name in names:
        if name not in offers.regions:
            raise UnknownNameError("region", name, nearest=nearest_words(name, set(offers.regions), count=3), field="region")
    return set(names)
