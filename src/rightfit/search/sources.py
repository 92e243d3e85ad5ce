"""Where the data of a wish lie, what it costs to bring them, and which disks
there are to hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.facts.records import TracedModel, TransformerArchitecture
from rightfit.physics import money
from rightfit.physics.columns import Array
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market import Catalog, OfferTable
    from rightfit.search.market import Volume
    from rightfit.workload import Workload


HOME = "home"


@dataclass(frozen=True, slots=True)
class DataSource:
    """Where the data lie: a region of a cloud with what leaving it costs, or the user's own site
    (`provider` empty, nothing to pay)."""

    provider: str
    region: str
    other_region_usd_per_gb: float
    internet_usd_per_gb: float


def read_source(workload: Workload, catalog: Catalog) -> DataSource | None:
    """Where the data lie; None: in an object store of whatever region is rented."""
    if not workload.data_location:
        return None
    if workload.data_location.casefold() == HOME:
        return DataSource("", "", 0.0, 0.0)
    owner, _, place = workload.data_location.rpartition("/")
    region = catalog.region(owner, place) if owner else catalog.find_regions(place)[0]
    prices = [catalog.egress_price(region.provider, region.region, destination=word) for word in ("other_region", "internet")]
    first = [price.tiers[0].price_usd_per_gb if price else 0.0 for price in prices]
    return DataSource(region.provider, region.region, *first)


def is_elsewhere(source: DataSource | None, offers: OfferTable) -> Array:
    """For each offer 0 where its region holds the data, 1 for another region of the same cloud, 2
    for another cloud or the user's own site."""
    if source is None:
        return np.zeros(len(offers))
    pairs = zip(offers.region_providers, offers.regions, strict=True)
    by_region = [0.0 if pair == (source.provider, source.region) else 1.0 if pair[0] == source.provider else 2.0 for pair in pairs]
    return np.array(by_region)[offers.region_index]


def moved_usd(source: DataSource | None, offers: OfferTable, volume: Volume) -> Array:
    """Cost of bringing the data to each offer's region once, shape (O,)."""
    if source is None:
        return np.zeros(1)
    prices = np.array([0.0, source.other_region_usd_per_gb, source.internet_usd_per_gb])[is_elsewhere(source, offers).astype(np.intp)]
    return money.egress_usd(np.array([volume.dataset_bytes]), price_usd_per_gb=prices, free_bytes=np.zeros(1))


def upload_s(source: DataSource | None, offers: OfferTable, volume: Volume) -> Array:
    """Seconds to bring the data to each offer's region before the server is rented, shape (O,)."""
    rate = facts.coefficients("loading")["wide_area_bytes_per_s"]
    return np.where(is_elsewhere(source, offers) > 0, volume.dataset_bytes / rate, 0.0)


# ---- How large the weight files of a model are as they were published: what every server that
# starts from them keeps on disk.

_PARTS = ("linear_bytes", "expert_bytes", "attention_bytes", "other_bytes")


def num_parameters(model: Any) -> float:
    """Parameters of a model, all components together."""
    return float(getattr(model, "params_total", 0) or getattr(model, "total_params", 0))


def published_bytes(model: Any) -> float:
    """The weight files of a model [bytes]: as counted in a file of one's own, else language models
    in 16 bit or fewer, all others in 32."""
    if isinstance(model, TransformerArchitecture):
        from rightfit.search.service.wish import is_generating

        if is_generating(model):
            return _decoder_bytes(model)
    known = model.stored_bytes if isinstance(model, TracedModel) else getattr(model, "model_bytes", 0.0)
    return float(known or num_parameters(model) * facts.coefficients("serving_planning")["other_weight_bytes"])


def _decoder_bytes(model: TransformerArchitecture) -> float:
    """A language model's files: each part in the format that it was published in."""
    from rightfit.estimation.convert import model_columns
    from rightfit.facts.engines import published_format, weight_formats
    from rightfit.physics import serving_columns
    from rightfit.physics.serving_columns import ServeColumns

    narrow = published_format(model.name)
    if not narrow:
        return model.params_total * float(facts.coefficients("serving_planning")["decoder_weight_bytes"])
    stored = weight_formats()[narrow]
    serve = ServeColumns().replace(**{name: np.full(1, getattr(stored, name)) for name in _PARTS})
    size = float(serving_columns.weights_bytes(model_columns([model]), serve)[0])
    return size * max(1.0, model.params_stored / model.params_total)  # files hold heads for several tokens beside
