"""Where so much data lie while a model trains on them: the decision by volume, with the rate that is read and what a month of it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.records import dataclass
from rightfit.search.answer import Option

if TYPE_CHECKING:
    from rightfit.catalog import Catalog


@dataclass(frozen=True, slots=True)
class VolumeDecision:
    """`tier` of data_tiers.csv; `read_bytes_per_s`: the fastest that one of the planned options reads; money by the month [USD]: an object store, and (above a
    terabyte) a parallel file system that is as large as the data and fast enough. `tiers`: name and least size of each, ascending."""

    data_bytes: float
    tier: str
    where: str
    read_bytes_per_s: float
    object_usd_per_month: float
    parallel_usd_per_month: float
    parallel_bytes: float
    parallel_bytes_per_s: float
    provider: str
    region: str
    tiers: tuple[tuple[str, float], ...]


def decide(data_bytes: float, options: Sequence[Option], catalog: Catalog) -> VolumeDecision:
    """The decision for an amount of data that these options train on; prices are those of the first option's place, else of AWS in us-east-1."""
    rows = sorted(facts.table("data_tiers"), key=lambda row: float(row["least_bytes"]))
    tier = [row for row in rows if float(row["least_bytes"]) <= data_bytes][-1]
    read = max((float(option.data_path.get("read_bytes_per_s") or 0.0) for option in options), default=0.0)
    place = (options[0].provider, options[0].region) if options else ("aws", "us-east-1")
    stored = catalog.storage_price_usd_per_gb_month(*place, "object") or catalog.storage_price_usd_per_gb_month(
        "aws", "us-east-1", "object"
    )
    shared = parallel_system()
    size = max(data_bytes, float(shared["least_gb"]) * 1e9, read / float(shared["bytes_per_s_per_byte"]))
    return VolumeDecision(
        data_bytes=data_bytes,
        tier=tier["name"],
        where=tier["where"],
        read_bytes_per_s=read,
        object_usd_per_month=data_bytes / 1e9 * float(stored or math.nan),
        parallel_usd_per_month=size / 1e9 * float(shared["usd_per_gb_month"]),
        parallel_bytes=size,
        parallel_bytes_per_s=size * float(shared["bytes_per_s_per_byte"]),
        provider=place[0],
        region=place[1],
        tiers=tuple((row["name"], float(row["least_bytes"])) for row in rows),
    )


def parallel_system() -> Mapping[str, Any]:
    """The parallel file system that sizes are reckoned with: least size, rate and price by size (facts/data/volumes.csv)."""
    row = next(row for row in facts.table("volumes") if "lustre" in row["volume"])
    return {**row, "bytes_per_s_per_byte": float(row["mb_per_s_per_gb"]) * 1e6 / 1e9}
