"""What every source of prices has in common: the rows it gives, what it needs, and how it is asked.

A provider is asked part by part (usually region by region), so that a refresh that was interrupted goes on with the parts it lacks.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.catalog.providers.client import Client


class PriceRow(NamedTuple):
    """One price as the provider states it: `price` in `currency` for `hours` hours of the whole server."""

    provider: str
    instance_type: str
    region: str
    purchase: str
    price: float
    currency: str = "USD"
    hours: float = 1.0
    note: str = ""


class ServerRow(NamedTuple):
    """A server type as the provider describes it; used only for types that the catalog does not know yet."""

    provider: str
    instance_type: str
    family: str
    category: str
    vcpus: float
    memory_gib: float
    gpu_name: str = ""
    gpu_count: float = 0.0
    gpu_memory_gib: float = 0.0
    arch: str = "x86_64"
    local_nvme_gb: float = 0.0
    network_gbps: float = 0.0


class InterruptionRow(NamedTuple):
    """How often spot servers of a type are reclaimed: a row of `offers.INTERRUPTION_BANDS`."""

    provider: str
    region: str
    instance_type: str
    band: int
    savings_pct: float


class MarketRow(NamedTuple):
    """USD per accelerator-hour over the offers of a marketplace."""

    provider: str
    gpu_name: str
    gpu_count: int
    region: str
    purchase: str
    low: float
    median: float
    high: float
    offers: int


Row = PriceRow | ServerRow | InterruptionRow | MarketRow
ROW_TYPES: Mapping[str, type[Row]] = {kind.__name__: kind for kind in (PriceRow, ServerRow, InterruptionRow, MarketRow)}


@dataclass(frozen=True, slots=True)
class KnownServer:
    """What the catalog knows of a server type that a price may depend on."""

    instance_type: str
    vcpus: float
    memory_gib: float
    accelerator_name: str
    num_accelerators: float


@dataclass(frozen=True, slots=True)
class Known:
    """The catalog as a provider module sees it: its regions (no pseudo ones) and server types by provider."""

    regions: Mapping[str, tuple[str, ...]]
    servers: Mapping[str, Mapping[str, KnownServer]]
    every_type: bool = False  # also types without accelerator where asking costs one request a type


@dataclass(frozen=True, slots=True)
class Need:
    """What a provider asks for: Python packages (with the extra that brings them) and credentials, in words and as a test."""

    extra: str = "prices"
    packages: tuple[str, ...] = ("httpx", "tenacity")
    credentials: str = ""  # empty: none are needed
    variables: tuple[tuple[str, ...], ...] = ()  # any one of these groups, all set
    files: tuple[str, ...] = ()  # or one of these files

    def missing_packages(self) -> tuple[str, ...]:
        """Packages that are not installed."""
        return tuple(name for name in self.packages if not _is_installed(name))

    def has_credentials(self) -> bool:
        """Whether something that looks like credentials is there; whether they are good only the provider can say."""
        if not self.credentials:
            return True
        if any(all(os.environ.get(name) for name in group) for group in self.variables):
            return True
        return any(os.path.exists(os.path.expanduser(name)) for name in self.files)  # noqa: PTH110, PTH111


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package that should hold it is missing
        return False


class Provider(Protocol):
    """A source of current prices."""

    name: str  # as on the command line
    covers: tuple[str, ...]  # providers of the catalog whose rows it gives
    source: str  # what stands beside each price
    needs: Need

    def parts(self, inventory: Known) -> Sequence[str]:
        """The pieces that are asked for one by one."""
        ...

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        """The rows of one piece; a RightfitError in one line when it cannot be had."""
        ...


def match_accelerator(name: str, *, memory_gib: float = 0.0) -> str:
    """Our name for an accelerator as a provider calls it, the variant by its memory; empty where it is not known or not certain."""
    from rightfit import facts

    known = facts.accelerators()
    found = [known[match] for match in facts.match_accelerators(name)]
    if memory_gib and len(found) > 1:
        found = [
            entry for entry in found if abs(entry.memory_bytes / 2**30 / memory_gib - 1) < 0.12
        ]  # nominal and usable sizes differ by 8 %
    return found[0].name if len(found) == 1 else ""
