"""What a pasted text says of a cloud (its prices, InfiniBand, TPUs) and of the series that it gives
as examples of so many GPUs ("4x/8x A100 (AWS p4d, GCP A2)"), held against the catalog."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rightfit.explain import quantities as q
from rightfit.explain.claim_words import cards_of
from rightfit.explain.claims import card_prices
from rightfit.explain.statement_parts import Part, Reader, Told, both, judged, word
from rightfit.market import server_names
from rightfit.market.names import find_provider
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog

#: Prices so near the middle of the clouds are neither high nor low.
_NEAR = 0.05


def cloud_readers(catalog: Catalog) -> tuple[Reader, ...]:
    """The readers of clauses about clouds, in order."""
    return (_name_cloud, functools.partial(_examples, catalog), functools.partial(_prices, catalog), functools.partial(_has, catalog))


def _name_cloud(clause: str, told: Told) -> Sequence[Part]:
    told.cloud = find_provider(re.sub(r"\(.*?\)", "", clause).strip()) or told.cloud
    return ()


def _name(cloud: str) -> dict[Lang, str]:
    return {lang: q.provider_text(cloud, lang) for lang in LANGS}


def _prices(catalog: Catalog, clause: str, told: Told) -> Sequence[Part]:
    """A cloud called dear or cheap: its prices on demand beside the middle of all clouds that have
    the same GPU."""
    is_dear, is_cheap = (bool(word(name).search(clause)) for name in ("dear", "cheap"))
    if not told.cloud or is_dear == is_cheap:
        return ()
    named = {name for _, names in cards_of(clause) for name in names}
    others = [card_prices(catalog, cloud) for cloud in sorted({*catalog.servers().provider} - {told.cloud})]
    ratios = [
        price / float(np.median(theirs))
        for card, price in card_prices(catalog, told.cloud).items()
        if (not named or card in named) and (theirs := [prices[card] for prices in others if card in prices])
    ]
    if not ratios:
        return ()
    ratio = float(np.median(ratios))
    holds = ratio > 1 + _NEAR if is_dear else ratio < 1 + _NEAR
    return [judged(clause, holds, both("cloud_prices", cloud=_name(told.cloud), count=len(ratios), ratio=q.percent_text(ratio)))]


def _has(catalog: Catalog, clause: str, told: Told) -> Sequence[Part]:
    """InfiniBand or TPUs of a cloud."""
    asked = next((name for name in ("infiniband", "tpu") if word(name).search(clause)), "")
    if not told.cloud or not asked or not word("has").search(clause):
        return ()
    servers = catalog.servers()
    of_cloud = [row for row, cloud in enumerate(servers.provider) if cloud == told.cloud and not servers.not_recommended[row]]
    found = [row for row in of_cloud if (servers.rdma[row] == asked if asked == "infiniband" else "TPU" in servers.accelerator_name[row])]
    example = servers.instance_type[found[0]] if found else "-"
    reason = both(
        "cloud_has" if found else "cloud_has_not",
        cloud=_name(told.cloud),
        thing=asked.upper() if asked == "tpu" else "InfiniBand",
        example=example,
    )
    return [judged(clause, bool(found), reason)]


def _examples(catalog: Catalog, clause: str, told: Told) -> Sequence[Part]:
    """Series in brackets that are to have one of the counts of GPUs before them."""
    found = re.search(r"\((?:如|例如|比如|e\.g\.|such as|like)?\s*([^()]+)\)", clause)
    if found is None:
        return ()
    counts = {int(one) for one in re.findall(r"(?<![\w.])(\d{1,2})\s*(?:x|卡|张|块)", clause[: found.start()])}
    wanted = {name for _, names in cards_of(clause[: found.start()]) for name in names}
    if not counts and not word("many_gpus").search(clause[: found.start()]):
        return ()
    servers, parts = catalog.servers(), list[Part]()
    for name in re.findall(r"[A-Za-z]+\d?[A-Za-z]*v?\d+[\w.-]*|[A-Za-z]\d[a-z]?", found[1]):
        rows = [row for row in server_names.series_members(catalog, name) if servers.num_accelerators[row] > 0]
        if not rows:
            continue
        had = sorted({(int(servers.num_accelerators[row]), servers.accelerator_name[row]) for row in rows})
        holds = any((count in counts if counts else count > 1) and (not wanted or card in wanted) for count, card in had)
        shown = ", ".join(f"{count} x {card}" for count, card in had)
        parts.append(judged(f"{clause[: found.start()].strip()} ({name})", holds, both("series_cards", name=name, had=shown)))
    return parts
