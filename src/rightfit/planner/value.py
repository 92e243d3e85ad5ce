"""Performance for money: every server's price over its arithmetic, its memory, and the tokens of a model that it works off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.catalog.offers import OfferFilter, OfferTable
from rightfit.errors import InputError, UnknownNameError
from rightfit.messages import Message, cause
from rightfit.units import GB, PFLOPS

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.service.found import ServingExploration

SORTS = ("usd_per_pflop", "usd_per_gb_vram", "usd_per_mtok")
_CORPUS_TOKENS = 1e9  # large enough that starting up does not matter


def value_rows(
    catalog: Catalog, offer_filter: OfferFilter, *, keep: Sequence[bool] | None = None, sort: str, model: str = "", quantization: str = ""
) -> list[dict[str, Any]]:
    """One record for each server type at its cheapest sound offer within the filter, best value first.

    usd_per_pflop: USD an hour for 10^15 dense 16-bit operations a second at the peak; usd_per_gb_vram: USD an hour for 10^9 bytes of
    accelerator memory;
    usd_per_mtok: USD for a million tokens of `model` in batch inference, by the same engine as `plan`. Servers whose figure is unknown are
    left out.
    """
    if sort not in SORTS:
        raise UnknownNameError("sort order", sort, allowed=Message("names.part_allowed_words", names=", ".join(SORTS)), field="sort")
    if sort == "usd_per_mtok" and not model:
        raise InputError(Message("planner.sort_without_model"), field="model")
    offers = catalog.offers(offer_filter)
    rows = cheapest_rows(offers)
    tokens = tokens_usd(catalog, model, offer_filter, quantization=quantization) if model else {}
    records = [_record(offers, row, tokens) for row in rows if keep is None or keep[int(offers.server_index[row])]]
    known = [record for record in records if record[sort] is not None]
    return sorted(known, key=lambda record: (record[sort], record["provider"], record["instance_type"]))


def cheapest_rows(offers: OfferTable) -> list[int]:
    """Of each server with an accelerator the cheapest offer; an estimate only where nothing is quoted."""
    able = np.flatnonzero(np.isfinite(offers.price_usd_per_h) & (offers.servers.num_accelerators[offers.server_index] > 0))
    order = able[np.lexsort((offers.price_usd_per_h[able], offers.is_estimate[able]))]
    _, first = np.unique(offers.server_index[order], return_index=True)
    return [int(row) for row in order[first]]


def _record(offers: OfferTable, row: int, tokens: dict[tuple[str, str], float]) -> dict[str, Any]:
    offer, servers, server = offers.row(row), offers.servers, int(offers.server_index[row])
    card = facts.accelerators().get(servers.accelerator_name[server])
    count, price = float(servers.num_accelerators[server]), offer["price_usd_per_h"]
    flops = count * max(card.bf16_flops, card.fp16_flops) if card else 0.0
    memory = count * float(np.nan_to_num(servers.accelerator_memory_bytes[server]))
    names = ("provider", "instance_type", "region", "purchase", "price_usd_per_h", "as_of", "source", "is_estimate", "is_stale")
    return {
        **{name: offer[name] for name in names},
        "accelerator_name": servers.accelerator_name[server],
        "num_accelerators": count,
        "flops": flops or None,
        "vram_bytes": memory or None,
        "usd_per_pflop": price / (flops / PFLOPS) if flops else None,
        "usd_per_gb_vram": price / (memory / GB) if memory else None,
        "usd_per_mtok": tokens.get((offer["provider"], offer["instance_type"])),
    }


def tokens_usd(catalog: Catalog, model: str, offer_filter: OfferFilter, *, quantization: str = "") -> dict[tuple[str, str], float]:
    """USD for a million tokens (prompts and answers) of batch inference on each server type, at its cheapest offer within the filter."""
    from rightfit.planner.plan import search
    from rightfit.workload import Workload

    wishes: dict[str, Any] = {"quantization": quantization} if quantization else {}
    filters = {
        "cloud": offer_filter.providers,
        "region": offer_filter.regions,
        "country": offer_filter.countries,
        "gpu": offer_filter.gpus,
        "purchase": offer_filter.purchases,
    }
    wishes |= {name: list(value) for name, value in filters.items() if value}
    found: ServingExploration = search(Workload(model=model, task="batch", data=f"{_CORPUS_TOKENS:.0f}tok", **wishes), catalog=catalog)
    total = np.where(found.bits == 0, found.bill.total_usd, np.inf).min(axis=1)
    work = found.wish.requests * (found.wish.input_tokens + found.wish.output_tokens)
    out: dict[tuple[str, str], float] = {}
    servers = found.market.offers.servers
    for row in np.flatnonzero(np.isfinite(total)).tolist():
        server = int(found.market.offers.server_index[row])
        key = (servers.provider[server], servers.instance_type[server])
        out[key] = min(out.get(key, np.inf), float(total[row]) * 1e6 / work)
    return out


def save_plot(records: Sequence[dict[str, Any]], path: str, *, sort: str) -> None:
    """Price an hour against what it buys, one dot a server type, both axes logarithmic; the front of best value is named. Needs matplotlib
    (extra `plot`)."""
    from rightfit.errors import MissingComponentError

    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingComponentError(Message("planner.no_matplotlib")) from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    bought = {"usd_per_pflop": ("flops", PFLOPS, "dense 16-bit PFLOP/s"), "usd_per_gb_vram": ("vram_bytes", GB, "accelerator memory, GB")}
    key, unit, words = bought.get(sort, ("usd_per_mtok", 1.0, "USD per million tokens"))
    points = [(record["price_usd_per_h"], record[key] / unit, record) for record in records if record[key]]
    figure, axes = plt.subplots(figsize=(8, 5.5))
    for card in dict.fromkeys(record["accelerator_name"].split("-")[0] for _, _, record in points):
        chosen = [(price, gain) for price, gain, record in points if record["accelerator_name"].split("-")[0] == card]
        axes.scatter(*zip(*chosen, strict=True), s=12, label=card)
    for price, gain, record in points[:5]:
        axes.annotate(f"{record['provider']}/{record['instance_type']}", (price, gain), fontsize=7)
    axes.set(xscale="log", yscale="log", xlabel="USD per hour", ylabel=words)
    axes.legend(fontsize=6, ncols=3)
    figure.tight_layout()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(Message("planner.plot_unwritten", path=path, error=cause(error)), field="plot") from None
    finally:
        plt.close(figure)
