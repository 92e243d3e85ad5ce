"""Offers x node counts: what each way to rent costs for the run, with restarts, billing steps,
storage and data transfer."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.market.offers import PURCHASES, provider_codes
from rightfit.physics import interruption, money
from rightfit.physics.columns import Array
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market import OfferTable

Index = NDArray[np.intp]

SPOT = PURCHASES.index("spot")
ON_DEMAND = PURCHASES.index("on-demand")


@dataclass(frozen=True, slots=True)
class MarketFacts:
    """What a run pays besides rent, and how offers are billed: one value per offer.

    `spot_low`, `spot_high`: fraction of servers interrupted within a month (0 where not spot);
    `spot_known`: published for this offer or taken from others. Storage and egress prices are 0
    where `storage_known`, `egress_known` say that none was read.
    Public addresses are charged for each server, a load balancer once for a service on several;
    None: not looked at.
    """

    storage_usd_per_gb_month: Array
    object_usd_per_gb_month: Array
    storage_known: NDArray[np.bool_]
    egress_usd_per_gb: Array
    egress_known: NDArray[np.bool_]
    spot_low: Array
    spot_high: Array
    spot_known: NDArray[np.bool_]
    minimum_s: Array
    increment_s: Array
    public_ip_usd_per_h: Array | None = None
    balancer_usd_per_h: Array | None = None
    balancer_usd_per_gb: Array | None = None
    credit_usd: Array | None = None  # granted by the provider in a price book

    def take(self, rows: Index) -> MarketFacts:
        """The given offers."""
        columns: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        taken: dict[str, Any] = {name: None if column is None else column[rows] for name, column in columns.items()}
        return MarketFacts(**taken)


@dataclass(frozen=True, slots=True)
class Volume:
    """Bytes that a run keeps and moves: `weights` and `dataset` on every node, `checkpoint` each,
    `result` sent home at the end."""

    weights_bytes: float
    dataset_bytes: float
    checkpoint_bytes: float
    result_bytes: float

    @property
    def node_bytes(self) -> float:
        """On each node: the model to start from and the data."""
        return self.weights_bytes + self.dataset_bytes


@dataclass(frozen=True, slots=True)
class Staged:
    """How data come to the servers, by (offer, node count): seconds before the first step beside
    `startup`, bytes on the volumes of all nodes, their price over that of the default volume;
    `moved_usd` (offer,): bringing the data to the offer's region."""

    staging_s: Array
    stored_bytes: Array
    price_factor: Array
    moved_usd: Array


@dataclass(frozen=True, slots=True)
class Bill:
    """Time and money by (offer, node count), shape (O, J). The four cost terms add up to
    `total_usd`; the time terms to `total_s`."""

    total_s: Array
    startup_s: Array
    run_s: Array
    save_and_restart_s: Array
    hourly_usd: Array
    servers_usd: Array
    storage_usd: Array
    egress_usd: Array
    network_usd: Array
    total_usd: Array


class BillColumns(Protocol):
    """Money and time of every (offer, column), shape (O, J): of a whole job, or of a month of a
    service, whose time is the latency of a request."""

    @property
    def total_usd(self) -> Array: ...
    @property
    def total_s(self) -> Array: ...
    @property
    def hourly_usd(self) -> Array: ...
    @property
    def servers_usd(self) -> Array: ...
    @property
    def storage_usd(self) -> Array: ...
    @property
    def egress_usd(self) -> Array: ...
    @property
    def network_usd(self) -> Array: ...


@functools.cache
def billing_rules() -> dict[tuple[str, str], tuple[float, float]]:
    """(provider, purchase) -> (minimum_s, increment_s) from facts/data/billing.csv; provider "*" is
    for those not listed."""
    return {(row["provider"], row["purchase"]): (float(row["minimum_s"]), float(row["increment_s"])) for row in facts.table("billing")}


def billing_of(offers: OfferTable) -> tuple[Array, Array]:
    """Billing minimum and increment [s] of each offer."""
    rules = billing_rules()
    providers, code = provider_codes(offers.servers)
    table = np.array(
        [[rules.get((provider, purchase), rules["*", purchase]) for purchase in PURCHASES] for provider in providers], dtype=np.float64
    ).reshape(-1, 2)
    found = table.take(code[offers.server_index] * len(PURCHASES) + offers.purchase_index, axis=0)
    return found[:, 0], found[:, 1]


def failure_rate_per_s(facts_of_offers: MarketFacts, *, accelerators: Array, nodes: Array) -> Array:
    """Stops per second of the whole job, shape (O, J): hardware failures of every accelerator, and
    interruptions of every spot server."""
    hardware = facts.coefficients("planning")["failures_per_accelerator_s"]
    monthly = (facts_of_offers.spot_low + facts_of_offers.spot_high) / 2.0
    spot = interruption.interruptions_per_s(monthly)
    return (hardware * accelerators[:, None] + spot[:, None]) * nodes[None, :]


def address_usd(market: MarketFacts, kept_s: Array) -> Array:
    """What the public address of one server costs over `kept_s` seconds (O, J)."""
    hourly = market.public_ip_usd_per_h
    return kept_s / 3600.0 * hourly[:, None] if hourly is not None else np.zeros(kept_s.shape)


def balancer_usd(market: MarketFacts, *, hours: float, sent_gb: float) -> Array:
    """What a load balancer costs over some hours with so much traffic (O,)."""
    hourly, per_gb = market.balancer_usd_per_h, market.balancer_usd_per_gb
    if hourly is None or per_gb is None:
        return np.zeros(market.minimum_s.shape)
    return hourly * hours + per_gb * sent_gb


@functools.cache
def network_charges() -> dict[tuple[str, str], dict[str, str]]:
    """(provider, item) -> row of facts/data/network_charges.csv; provider "*" is
    for those not listed."""
    return {(row["provider"], row["item"]): row for row in facts.table("network_charges")}


def network_charge(provider: str, item: str) -> dict[str, str]:
    """The charge of an item ("public-ip", "load-balancer") at a provider."""
    return network_charges().get((provider, item)) or network_charges()["*", item]


def bill(
    run_s: Array,
    *,
    price_usd_per_h: Array,
    accelerators: Array,
    network_bytes_per_s: Array,
    local_nvme_bytes: Array,
    nodes: Array,
    volume: Volume,
    market: MarketFacts,
    staged: Staged | None = None,
) -> Bill:
    """Time and money of a run of `run_s` seconds of work (O, J); the other arrays are by offer
    (O,), `nodes` by node count (J,).

    Every term is non-decreasing in `run_s`: checkpoints and restarts by physics.interruption, rent
    by physics.money. The model is fetched first; data come as `staged` says, or with the model
    where it says nothing. Volumes are rented for what local disks do not hold; checkpoints are kept
    in an object store; the result is sent out once.
    """
    usual = facts.coefficients("planning")
    rate = np.minimum(np.where(network_bytes_per_s > 0, network_bytes_per_s, np.inf), usual["download_bytes_per_s"])
    staged = staged or with_the_model(run_s, rate=rate, local_nvme_bytes=local_nvme_bytes, nodes=nodes, volume=volume)
    startup_s = (usual["startup_s"] + volume.weights_bytes / rate)[:, None] + staged.staging_s
    save_s = (volume.checkpoint_bytes / (usual["checkpoint_bytes_per_s"] * nodes))[None, :]
    between = 1.0 / failure_rate_per_s(market, accelerators=accelerators, nodes=nodes)
    interval = interruption.optimal_interval_s(save_s, mean_time_between=between)
    finite = np.where(np.isfinite(run_s), run_s, 0.0)
    expected = interruption.expected_s(
        finite, interval_s=interval, save_s=save_s, restart_s=usual["restart_s"] * np.ones((1, 1)), mean_time_between=between
    )
    total_s = np.where(np.isfinite(run_s), startup_s + expected, np.inf)
    payable = np.where(np.isfinite(run_s), total_s, 0.0)
    billed = money.billed_s(payable, minimum_s=market.minimum_s[:, None], increment_s=market.increment_s[:, None])
    servers = money.server_usd(billed, price_usd_per_h=price_usd_per_h[:, None], nodes=nodes[None, :])
    storage = money.storage_usd(
        staged.stored_bytes, kept_s=payable, price_usd_per_gb_month=market.storage_usd_per_gb_month[:, None] * staged.price_factor
    )
    kept_bytes = np.array([usual["checkpoints_kept"] * volume.checkpoint_bytes])
    storage = storage + money.storage_usd(kept_bytes, kept_s=payable, price_usd_per_gb_month=market.object_usd_per_gb_month[:, None])
    sent = money.egress_usd(np.array([volume.result_bytes]), price_usd_per_gb=market.egress_usd_per_gb, free_bytes=np.zeros(1))
    egress = (sent + staged.moved_usd)[:, None]
    network = address_usd(market, payable) * nodes[None, :]
    total = np.where(np.isfinite(run_s), servers + storage + egress + network, np.inf)
    if market.credit_usd is not None:
        # Of two ways that a credit pays whole the one that uses less of it is better: what is left
        # pays for the next job.
        total = np.maximum(total - market.credit_usd[:, None], usual["credit_unpaid_share"] * total)
    return Bill(
        total_s=total_s,
        startup_s=startup_s,
        run_s=run_s,
        save_and_restart_s=expected - finite,
        hourly_usd=price_usd_per_h[:, None] * nodes[None, :],
        servers_usd=servers,
        storage_usd=storage,
        egress_usd=np.broadcast_to(egress, run_s.shape),
        network_usd=network,
        total_usd=total,
    )


def with_the_model(run_s: Array, *, rate: Array, local_nvme_bytes: Array, nodes: Array, volume: Volume) -> Staged:
    """Data that are few: they come with the model, onto local disks where they hold both, else onto
    the default volume of each node."""
    on_volume = np.where(local_nvme_bytes >= volume.node_bytes, 0.0, volume.node_bytes)[:, None] * nodes[None, :]
    staging_s = np.broadcast_to((volume.dataset_bytes / rate)[:, None], run_s.shape)
    return Staged(staging_s, on_volume, np.ones((1, 1)), np.zeros(1))
