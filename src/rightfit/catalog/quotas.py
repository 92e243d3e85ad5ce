"""Limits of an account: "max 8 A100 in us-east-1", "192 vCPUs on aws", "2 p4d.24xlarge"."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.catalog import names
from rightfit.catalog.offers import PURCHASES, Flags, Floats, OfferTable, ServerTable
from rightfit.errors import QuantityError, UnknownNameError
from rightfit.facts.word_tables import senses
from rightfit.messages import Message, either
from rightfit.records import dataclass
from rightfit.units import normalize

if TYPE_CHECKING:
    from rightfit.catalog.names import Region

UNITS = ("accelerators", "vcpus", "servers")
_EXAMPLE = Message(
    "catalog.part_example",
    example=either(('"8 A100 in us-east-1"', '"192 vcpus on aws"', '"4 p4d.24xlarge"', '"8 A100 in us-east-1 spot"')),
)
_FILLERS = frozenset(senses("amounts", "quota_filler"))
_VCPUS = frozenset({"vcpu", "vcpus", "cores", "cpus", "核", "个vcpu"})
_GPUS = frozenset({"gpu", "gpus", "card", "cards", "accelerators", "accelerator", "加速卡"})
_SERVERS = frozenset({"server", "servers", "node", "nodes", "instance", "instances", "服务器"})


@dataclass(frozen=True, slots=True)
class Quota:
    """At most so many of `unit` at once, of the offers that it speaks about; empty tuples: all."""

    most: float
    unit: str
    text: str
    gpus: tuple[str, ...] = ()
    types: tuple[str, ...] = ()  # patterns of server types
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    countries: tuple[str, ...] = ()
    purchases: tuple[str, ...] = ()

    def applies(self, offers: OfferTable) -> Flags:
        """Which offers it limits."""
        servers = offers.servers
        by_server = np.array([self._names(servers, row) for row in range(len(servers))], dtype=np.bool_)
        in_region = np.array(
            [
                (not self.regions or region in self.regions) and (not self.countries or country in self.countries)
                for region, country in zip(offers.regions, offers.region_countries, strict=True)
            ],
            dtype=np.bool_,
        )
        mode = np.array([not self.purchases or purchase in self.purchases for purchase in PURCHASES], dtype=np.bool_)
        return by_server[offers.server_index] & in_region[offers.region_index] & mode[offers.purchase_index]

    def _names(self, servers: ServerTable, row: int) -> bool:
        return (
            (not self.providers or servers.provider[row] in self.providers)
            and (not self.gpus or servers.accelerator_name[row] in self.gpus)
            and (not self.types or any(fnmatch.fnmatchcase(servers.instance_type[row].casefold(), name) for name in self.types))
        )

    def used_per_server(self, servers: ServerTable) -> Floats:
        """How much of the quota one server of each type takes."""
        columns = {"accelerators": servers.num_accelerators, "vcpus": servers.vcpus, "servers": np.ones(len(servers))}
        return np.asarray(np.nan_to_num(columns[self.unit]), dtype=np.float64)


def worst_excess(quotas: Iterable[Quota], offers: OfferTable, num_servers: Floats) -> tuple[Floats, Floats, Flags]:
    """Of the quota that each row breaks by the largest factor: its limit and what the row takes; and whether it is broken.

    num_servers: shape (offers, columns) or (1, columns), infinite or NaN where nothing fits anyway.
    """
    shape = np.broadcast_shapes((len(offers), 1), num_servers.shape)
    limit, taken = np.full(shape, np.inf), np.zeros(shape)
    count = np.where(np.isfinite(num_servers), num_servers, 0.0)
    for quota in quotas:
        takes = np.where(quota.applies(offers), quota.used_per_server(offers.servers)[offers.server_index], 0.0)[:, None] * count
        tighter = takes * _over(limit) > taken * _over(quota.most)
        limit, taken = np.where(tighter, quota.most, limit), np.where(tighter, takes, taken)
    return limit, taken, taken > limit


def _over(limit: Any) -> Any:
    """A limit to multiply with: finite and over zero, so that none and no limit at all compare with the others."""
    return np.clip(limit, 1e-9, 1e15)


def read_quota(
    text: str, regions: Iterable[Region], *, types: Iterable[str] = (), countries: Mapping[str, str] | None = None, field: str = "quota"
) -> Quota:
    """A limit in words; QuantityError in one line for what cannot be read. `types`: known server types; `countries`: names of countries ->
    codes."""
    from rightfit import facts

    words = _words(text)
    number = next((word for word in words if re.fullmatch(r"\d+(\.\d+)?", word)), None)
    below = next((word for word in words if re.fullmatch(r"-\d+(\.\d+)?", word)), None)
    if number is None and below is not None:
        raise QuantityError(Message("catalog.quota_below", field=field, text=text, below=below), field=field)
    if number is None:
        raise QuantityError(Message("catalog.quota_no_number", field=field, text=text, hint=_EXAMPLE), field=field)
    words.remove(number)
    known = {name.casefold() for name in types}
    found: dict[str, tuple[str, ...]] = dict.fromkeys(("gpus", "types", "providers", "regions", "countries", "purchases"), ())
    found_unit, records = "", tuple(regions)
    for word in words:
        if word in _VCPUS | _GPUS | _SERVERS:
            found_unit = "vcpus" if word in _VCPUS else "servers" if word in _SERVERS else "accelerators"
        elif gpus := facts.match_accelerators(word):
            found["gpus"] = (*found["gpus"], *gpus)
        elif word in known or any(character in word for character in "*?"):
            found["types"] = (*found["types"], word)
        elif word in (countries or {}):
            found["countries"] = (*found["countries"], (countries or {})[word])
        elif provider := names.find_provider(word):
            found["providers"] = (*found["providers"], provider)
        elif places := names.find_regions(word, records):
            found["regions"] = (*found["regions"], *dict.fromkeys(place.region for place in places))
        else:
            kind, names_found = _country_or_purchase(word, records, text=text, field=field)
            found[kind] = (*found[kind], *names_found)
    unit = found_unit or ("servers" if found["types"] and not found["gpus"] else "accelerators")
    return Quota(float(number), unit, " ".join(text.split()), **found)


def _words(text: str) -> list[str]:
    """Words without fillers; "8xA100" is 8 and A100."""
    plain = re.sub(r"(?<![A-Za-z0-9_.-])(\d+)\s*(?:[x×*]|张|块|台|个|卡)\s*", r"\1 ", normalize(text).casefold())
    plain = re.sub(r"(最多|至多|不超过|在)", r" \1 ", plain)
    return [word for word in re.split(r"[\s,:@]+", plain) if word and word not in _FILLERS and word != "在"]


def _country_or_purchase(word: str, regions: tuple[Region, ...], *, text: str, field: str) -> tuple[str, tuple[str, ...]]:
    try:
        return "purchases", names.resolve_purchases([word])
    except UnknownNameError:
        pass
    try:
        return "countries", names.resolve_countries(word, regions)
    except UnknownNameError:
        raise QuantityError(Message("catalog.quota_word", field=field, word=word, text=text, hint=_EXAMPLE), field=field) from None
