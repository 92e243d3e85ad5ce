"""The data path and the checkpoints of one option as plain figures and codes; explain/ turns them into sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.estimate.data_path import NEVER, DataLoad, Staging, object_rate
from rightfit.estimate.hosts import VolumeStep, volume_steps
from rightfit.physics import interruption, loading, money
from rightfit.search.hosts import hosts_of
from rightfit.search.market import failure_rate_per_s
from rightfit.search.sources import moved_usd, upload_s

if TYPE_CHECKING:
    from rightfit.search.training.found import Exploration

READ, PREPARE = "read", "prepare"


def data_part(exploration: Exploration, offer: int, node: int) -> dict[str, Any]:
    """Everything about the data of the option in one row of the market: where they are staged and why, what loading needs and what it
    gets."""
    path, load = exploration.path, exploration.craft.load(exploration.wish, exploration.volume)
    server = int(exploration.market.offers.server_index[offer])
    hosts, at = hosts_of(exploration.market.offers.servers), (server, node)
    nodes = exploration.space.limits.node_counts[node]
    compute_s, first, later = (float(values[at]) for values in (path.compute_s, path.first_s, path.later_s))
    epoch_s = compute_s / load.epochs
    step = _step(path.step[at], exploration.market.offers.servers.provider[server], load)
    cores = float(path.cores[at])
    core_s = load.samples / nodes * load.core_s / float(hosts.core_speed[server])
    moved = found_at(moved_usd(exploration.wanted.source, exploration.market.offers, exploration.volume), offer)
    return {
        "dataset_bytes": load.dataset_bytes,
        "decode": load.decode,
        "staging": Staging(int(path.staging[at])).name.lower(),
        "why": why_staged(load, Staging(int(path.staging[at])), volume=step.volume.name if step else "", cached=float(path.cached[at])),
        "staging_s": float(path.staging_s[at]),
        "volume": step.volume.name if step else "",
        "volume_bytes": float(path.stored_bytes[at]),
        "disk_bytes_per_s": float(path.disk_bytes_per_s[at]),
        "read_bytes_per_s": float(object_rate(hosts)[server] if path.staging[at] == Staging.STREAM else path.disk_bytes_per_s[at]),
        "needed_bytes_per_s": load.dataset_bytes / nodes / epoch_s if epoch_s else 0.0,
        "cached_share": float(path.cached[at]),
        "samples_per_s": load.samples / epoch_s if epoch_s else 0.0,
        "cores": cores,
        "needed_cores": core_s / epoch_s if epoch_s else 0.0,
        "workers": workers_of(
            load, cores=cores, needed=core_s / epoch_s if epoch_s else 0.0, accelerators=float(hosts.accelerators[server])
        ),
        "first_epoch_s": max(epoch_s, first),
        "later_epoch_s": max(epoch_s, later),
        "loading_s": later,
        "loading_share": later / epoch_s if epoch_s else 0.0,
        "stall_share": _stall(later, epoch_s),
        "first_stall_share": _stall(first, epoch_s),
        "rule_share": facts.coefficients("loading")["least_stall_share"],
        "limit": READ if float(path.read_s[at]) > float(path.prepare_s[at]) else PREPARE,
        "upload_s": found_at(upload_s(exploration.wanted.source, exploration.market.offers, exploration.volume), offer),
        "moved_usd": moved,
        "checkpoint": checkpoint_part(exploration, offer, node),
    }


def found_at(values: Any, offer: int) -> float:
    """The value of an offer in a column that may have one row for all."""
    return float(values[offer if values.shape[0] > 1 else 0])


def _stall(loading_s: float, compute_s: float) -> float:
    return float(loading.stall_share(loading_s=np.array([loading_s]), compute_s=np.array([compute_s]))[0])


def _step(position: Any, provider: str, load: DataLoad) -> VolumeStep | None:
    return None if int(position) == NEVER else volume_steps(provider, load.node_bytes, load.storage)[int(position)]


def why_staged(load: DataLoad, staging: Staging, *, volume: str, cached: float) -> str:
    """Why the data lie there, as a code: asked, local, memory, stream, cached (a volume whose content the page cache holds) or volume. What
    was asked
    for and this server does not have is not called so."""
    if load.storage and load.storage in (volume, staging.name.lower()):
        return "asked"
    if staging == Staging.VOLUME:
        return "cached" if cached >= 1.0 else "volume"
    return staging.name.lower()


def workers_of(load: DataLoad, *, cores: float, needed: float, accelerators: float) -> int:
    """Loader processes for each accelerator: as asked, else what the work needs with a half more, at least 2 and at most the cores there
    are."""
    if load.workers:
        return load.workers
    most = max(1.0, cores // accelerators) if np.isfinite(cores) else 8.0
    return int(min(max(2.0, np.ceil(1.5 * needed / accelerators)), most))


def checkpoint_part(exploration: Exploration, offer: int, node: int) -> dict[str, float]:
    """Size, interval, number, time and cost of checkpoints of the option."""
    usual = facts.coefficients("planning")
    offers, bill = exploration.market.offers, exploration.bill
    server, nodes = int(offers.server_index[offer]), float(exploration.space.limits.node_counts[node])
    hosts = hosts_of(offers.servers)
    size, work_s = exploration.volume.checkpoint_bytes, float(bill.run_s[offer, node])
    rate = failure_rate_per_s(
        exploration.market.charges.take(np.array([offer])), accelerators=hosts.accelerators[[server]], nodes=np.array([nodes])
    )
    save_s = size / (usual["checkpoint_bytes_per_s"] * nodes)
    interval = float(interruption.optimal_interval_s(np.array([[save_s]]), mean_time_between=1.0 / rate)[0, 0])
    disk = float(exploration.path.disk_bytes_per_s[server, node])
    kept = usual["checkpoints_kept"] * size
    price = exploration.market.charges.object_usd_per_gb_month[[offer]]
    cost = money.storage_usd(np.array([kept]), kept_s=bill.total_s[[offer], [node]], price_usd_per_gb_month=price)
    return {
        "bytes": size,
        "interval_s": min(interval, work_s),
        "count": max(1.0, np.ceil(work_s / interval)) if np.isfinite(interval) and interval > 0 else 1.0,
        "save_s": save_s,
        "write_s": size / (disk * nodes),
        "upload_s": size / (float(object_rate(hosts)[server]) * nodes),
        "kept": usual["checkpoints_kept"],
        "object_usd": float(cost[0]),
    }
