"""Options in full: the chosen rows with memory and time broken down, figures with intervals, cost
terms, and reasons as data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.estimation.data_path import NEVER, DataLoad, Staging, VolumeStep, object_rate, volume_steps
from rightfit.estimation.figures import Figure, FigureColumns
from rightfit.physics import interruption, loading, money
from rightfit.physics.columns import Array, AttentionKernel, DeviceColumns, Recompute, SetupColumns, once
from rightfit.physics.step import Bottleneck
from rightfit.search.answer import Cost, Layout, Option, OptionAccelerator, Reason, Section
from rightfit.search.bill import cost_of
from rightfit.search.family import offer_doubts, offered, spot_facts
from rightfit.search.market import failure_rate_per_s
from rightfit.search.offers import hosts_of
from rightfit.search.option_facts import TrainingFacts
from rightfit.search.price_facts import price_facts, price_regions
from rightfit.search.rank import Row
from rightfit.search.risk import Risk, RunOfRow, risk_facts, risk_of_row
from rightfit.search.sources import moved_usd, upload_s
from rightfit.search.training.evaluate import resolved
from rightfit.search.training.machines import behind, collapse
from rightfit.search.training.space import OFFLOAD_NAMES, SHARDING_NAMES

if TYPE_CHECKING:
    from rightfit.search.training.explore import Details, TrainingEngine, TrainingResult


# ---- Room on a card: what the chosen set-up must hold at each moment of a step, and the largest
# micro-batch that it would hold.

#: Above so many samples a micro-batch is said to be as large as one likes.
MOST_SAMPLES = 2**20
_POINTS = 34


def room_sections(search_result: TrainingResult, option: Option, row: Row) -> tuple[Section, ...]:
    """The section `memory`: phases [bytes on a card], what the card gives, the micro-batch and the
    largest one that fits the search asks for."""
    setups = search_result.space.setups.take(np.array([search_result.setup_of(row.offer, row.node)], dtype=np.intp))
    machine = search_result.fleet.machine_index[search_result.market.offers.server_index[[row.offer]]]
    columns, device = collapse(setups.columns(search_result.base)), search_result.fleet.machines.device.take(machine)
    phases = {name: float(np.max(held)) for name, held in search_result.engine.phases(columns, device).items()}
    largest = largest_batch(search_result.engine, columns, device)
    if not largest:
        return ()
    each = max(round(float(setups.micro_batch[0]) / option.layout.micro_batch), 1)  # a pair of answers is told as one
    batch = {"micro_batch": option.layout.micro_batch, "largest_micro_batch": largest // each}
    content = {"phase_bytes": phases, "capacity_bytes": float(search_result.engine.capacity(device)[0]), **batch}
    return (Section("memory", content, (Reason("largest_batch", batch),)),)


def largest_batch(engine: TrainingEngine, columns: SetupColumns, device: DeviceColumns) -> int:
    """The largest micro-batch of one set-up that fits the card as the search asks it to; 0 where
    not even one sample does."""
    low, high = 0, MOST_SAMPLES + 1
    room, spared = (float(np.ravel(value)[0]) for value in (engine.capacity(device), engine.spared(device)))
    while high - low > 1:
        points = once(
            np.geomspace(max(low, 1), high, _POINTS).round() if high > 2 * low + _POINTS else np.linspace(low, high, _POINTS).round()
        )
        tried = columns.replace(micro_batch=points)
        needed = (engine.memory(tried) - spared) * engine.safety(tried, device) * resolved()
        fits = points[np.broadcast_to(needed <= room, points.shape)]
        low = max(low, int(fits.max(initial=0)))
        high = min(high, int(points[points > low].min(initial=high)))
    return low


# ---- The data path and the checkpoints of one option as plain figures and codes; explain/ turns
# them into sentences.

READ, PREPARE = "read", "prepare"


def data_part(search_result: TrainingResult, offer: int, node: int) -> dict[str, Any]:
    """Everything about the data of the option in one row of the market: where they are staged and
    why, what loading needs and what it gets."""
    path, load = search_result.path, search_result.craft.load(search_result.wish, search_result.volume)
    server = int(search_result.market.offers.server_index[offer])
    hosts, at = hosts_of(search_result.market.offers.servers), (server, node)
    nodes = search_result.space.limits.node_counts[node]
    compute_s, first, later = (float(values[at]) for values in (path.compute_s, path.first_s, path.later_s))
    epoch_s = compute_s / load.epochs
    later = first if load.epochs <= 1.0 else later  # one epoch is never read again
    step = _step(path.step[at], search_result.market.offers.servers.provider[server], load)
    cores = float(path.cores[at])
    core_s = load.samples / nodes * load.core_s / float(hosts.core_speed[server])
    moved = found_at(moved_usd(search_result.filters.source, search_result.market.offers, search_result.volume), offer)
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
        "stall_share": _stall(max(first, epoch_s) + (load.epochs - 1.0) * max(later, epoch_s), compute_s),
        "first_stall_share": _stall(first, epoch_s),
        "rule_share": facts.coefficients("loading")["least_stall_share"],
        "limit": READ if float(path.read_s[at]) > float(path.prepare_s[at]) else PREPARE,
        "upload_s": found_at(upload_s(search_result.filters.source, search_result.market.offers, search_result.volume), offer),
        "moved_usd": moved,
        "checkpoint": checkpoint_part(search_result, offer, node),
    }


def found_at(values: Any, offer: int) -> float:
    """The value of an offer in a column that may have one row for all."""
    return float(values[offer if values.shape[0] > 1 else 0])


def _stall(loading_s: float, compute_s: float) -> float:
    """Share of the time that accelerators wait: of a run the same as its waiting for data."""
    return float(loading.stall_share(loading_s=np.array([loading_s]), compute_s=np.array([compute_s]))[0])


def _step(position: Any, provider: str, load: DataLoad) -> VolumeStep | None:
    return None if int(position) == NEVER else volume_steps(provider, load.node_bytes, load.storage)[int(position)]


def why_staged(load: DataLoad, staging: Staging, *, volume: str, cached: float) -> str:
    """Why the data lie there, as a code: asked, local, memory, stream, cached (a volume whose
    content the page cache holds) or volume. What was asked for and this server does not have is
    not called so."""
    if load.storage and load.storage in (volume, staging.name.lower()):
        return "asked"
    if staging == Staging.VOLUME:
        return "cached" if cached >= 1.0 else "volume"
    return staging.name.lower()


def workers_of(load: DataLoad, *, cores: float, needed: float, accelerators: float) -> int:
    """Loader processes for each accelerator: as asked, else what the work needs with a half more,
    at least 2 and at most the cores there are."""
    if load.workers:
        return load.workers
    most = max(1.0, cores // accelerators) if np.isfinite(cores) else 8.0
    return int(min(max(2.0, np.ceil(1.5 * needed / accelerators)), most))


def checkpoint_part(search_result: TrainingResult, offer: int, node: int) -> dict[str, float]:
    """Size, interval, number, time and cost of checkpoints of the option."""
    usual = facts.coefficients("planning")
    offers, bill = search_result.market.offers, search_result.bill
    server, nodes = int(offers.server_index[offer]), float(search_result.space.limits.node_counts[node])
    hosts = hosts_of(offers.servers)
    size, work_s = search_result.volume.checkpoint_bytes, float(bill.run_s[offer, node])
    rate = failure_rate_per_s(
        search_result.market.charges.take(np.array([offer])), accelerators=hosts.accelerators[[server]], nodes=np.array([nodes])
    )
    save_s = size / (usual["checkpoint_bytes_per_s"] * nodes)
    interval = float(interruption.optimal_interval_s(np.array([[save_s]]), mean_time_between=1.0 / rate)[0, 0])
    disk = float(search_result.path.disk_bytes_per_s[server, node])
    kept = usual["checkpoints_kept"] * size
    price = search_result.market.charges.object_usd_per_gb_month[[offer]]
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


def build_options(search_result: TrainingResult, rows: Sequence[Row], num_full: int | None = None) -> tuple[Option, ...]:
    """The rows as options, ranked in their order (reasons are added by grounds.py). `num_full`: of
    how many, from the first, the law of the time under interruptions is worked out; the rest keep
    the interval of the undisturbed run."""
    if not rows:
        return ()
    details = search_result.craft.evaluate(search_result, rows, num_full)
    return tuple(_option(search_result, details, row, position) for position, row in enumerate(rows))


def row_risk(search_result: TrainingResult, row: Row, work: Figure) -> Risk | None:
    """What stops do to the run of one row; None where hardly any is expected."""
    offers, at = search_result.market.offers, (row.offer, row.node)
    run = RunOfRow(
        work=work,
        startup_s=float(search_result.bill.startup_s[at]),
        total_s=float(search_result.bill.total_s[at]),
        nodes=search_result.space.limits.node_counts[row.node],
        accelerators=float(offers.servers.num_accelerators[offers.server_index[row.offer]]),
        checkpoint_bytes=search_result.volume.checkpoint_bytes,
    )
    return risk_of_row(search_result.market.charges, row.offer, run, deadline_s=search_result.filters.deadline_s)


def with_risks(times: FigureColumns, risks: Sequence[Risk | None]) -> FigureColumns:
    """The times with the intervals of those runs whose risk was worked out."""
    at = [position for position, risk in enumerate(risks) if risk is not None]
    columns = {name: np.array(getattr(times, name), dtype=np.float64) for name in ("low80", "high80", "low95", "high95")}
    for name, column in columns.items():
        column[at] = [getattr(risk.total, name) for risk in risks if risk is not None]
    return FigureColumns(times.mid, **columns, source=times.source)


def shifted(figures: FigureColumns, offset: Array) -> FigureColumns:
    """Figures plus a known amount."""
    names = ("mid", "low80", "high80", "low95", "high95")
    return dataclasses.replace(figures, **{name: getattr(figures, name) + offset for name in names})


def _option(search_result: TrainingResult, details: Details, row: Row, position: int) -> Option:
    server = int(search_result.market.offers.server_index[row.offer])
    servers = search_result.market.offers.servers
    machine = int(search_result.fleet.machine_index[server])
    estimate = {name: figures.row(position) for name, figures in details.figures.items()}
    if details.uncalibrated[position]:
        estimate = {name: dataclasses.replace(figure, source=_extrapolated(figure.source)) for name, figure in estimate.items()}
    return Option(
        **offered(search_result, row, position),
        accelerator=OptionAccelerator(
            servers.accelerator_name[server],
            int(servers.num_accelerators[server]),
            float(search_result.fleet.machines.memory_bytes[machine]),
        ),
        layout=layout_of(search_result, details, position),
        estimate=estimate,
        memory_terms=memory_terms(details, position),
        time_terms=time_terms(details, position),
        cost=_cost(search_result, row, estimate["total_time_s"]),
        facts=_facts(search_result, details, row, position),
        data_path=data_part(search_result, row.offer, row.node),
    )


def _extrapolated(source: str) -> str:
    return "extrapolated" if source == "calibrated" else source


def _terms(terms: Any, position: int) -> dict[str, float]:
    """Terms of one row without those that are zero."""
    values = {name: float(column[position if column.shape[0] > 1 else 0]) for name, column in terms.items()}
    return {name: value for name, value in values.items() if value}


def time_terms(details: Details, position: int) -> dict[str, float]:
    """Terms that add up to the step, waiting for data among them where there
    is any worth a name."""
    terms, waiting = _terms(details.step.terms, position), float(details.waiting_s[position])
    return {**terms, "loading_s": waiting} if waiting > 1e-9 * sum(terms.values()) else terms


def memory_terms(details: Details, position: int) -> dict[str, float]:
    """Terms that add up to what the card must hold. The allocator's slack is what is left of it
    under pressure: it gives cached blocks back before it fails, so a roomy card shows a larger
    figure in use."""
    terms = _terms(details.memory.terms, position)
    required = float(np.broadcast_to(details.memory.required_bytes, details.fit_probability.shape)[position])
    slack = terms.get("slack", 0.0) + required - sum(terms.values())
    return {**terms, "slack": max(slack, 0.0)}


def layout_of(search_result: TrainingResult, details: Details, position: int) -> Layout:
    """The setup of one row in words and degrees."""
    setup, columns = details.setups, details.columns
    number = {name: int(getattr(setup, name)[position]) for name in ("data", "tensor", "pipeline", "expert", "context")}
    sharding = int(setup.sharding[position])
    attention = columns.attention[position if columns.attention.shape[0] > 1 else 0]
    layout = Layout(
        **number,
        sharding=SHARDING_NAMES[sharding] if setup.data[position] > 1 else "none",
        shard_degree=int(setup.shard_degree[position]),
        micro_batch=int(setup.micro_batch[position]),
        grad_accum=int(setup.grad_accum[position]),
        recompute=Recompute(int(setup.recompute[position])).name.lower(),
        precision=search_result.fleet.machines.variants[int(setup.variant[position])].precision,
        attention=AttentionKernel(int(attention)).name.lower(),
        offload="activations" if np.any(columns.offload_activations) else OFFLOAD_NAMES[sharding],
        method=search_result.wish.workload.method or "full",
        update="",
        rollout="",
    )
    return search_result.craft.layout(search_result, details, position, layout)


def _cost(search_result: TrainingResult, row: Row, time: Figure) -> Cost:
    """Money of one row, and what a million tokens or samples come to."""
    cost = cost_of(search_result.bill, search_result.market, (row.offer, row.node), time=time)
    key, count = search_result.craft.unit_cost(search_result.wish)
    changed: dict[str, Any] = {key: cost.total_usd * 1e6 / count}
    return dataclasses.replace(cost, **changed)


def _facts(search_result: TrainingResult, details: Details, row: Row, position: int) -> TrainingFacts:
    """What reasons and explanations need beside the contract's fields."""
    at, servers = (row.offer, row.node), search_result.market.offers.servers
    server = int(search_result.market.offers.server_index[row.offer])
    capacity = np.broadcast_to(details.memory.capacity_bytes, details.fit_probability.shape)
    bottleneck = np.broadcast_to(details.step.bottleneck, details.fit_probability.shape)
    setups = details.setups
    listed = facts.accelerators()[servers.accelerator_name[server]]
    chip = behind(listed)
    batch = int(setups.data[position]) * int(setups.micro_batch[position]) * int(setups.grad_accum[position])
    return {
        "fit_probability": float(details.fit_probability[position]),
        "deadline_probability": float(details.deadline_probability[position]) if search_result.filters.deadline_s else None,
        "capacity_bytes": float(capacity[position]),
        "bottleneck": Bottleneck(int(bottleneck[position])).name.lower(),
        "steps": float(np.ceil(search_result.wish.amount.tokens / (batch * search_result.wish.seq_len) - 1e-9)),
        **search_result.craft.facts(search_result.wish),
        "dataset_bytes": search_result.volume.dataset_bytes,
        "startup_s": float(search_result.bill.startup_s[at]),
        "run_s": float(search_result.bill.run_s[at]),
        "save_and_restart_s": float(search_result.bill.save_and_restart_s[at]),
        "checkpoint_bytes": search_result.volume.checkpoint_bytes,
        **spot_facts(search_result, row),
        "without_recompute_bytes": float(details.stored_bytes[position]),
        "adapted_bytes": 0.0 if details.adapted_bytes is None else float(details.adapted_bytes[position]),
        "vendor": chip.vendor,
        "equivalent_to": chip.equivalent_to if chip is not listed else "",
        "billing_minimum_s": float(search_result.market.charges.minimum_s[row.offer]),
        "gpu_interconnect": servers.gpu_interconnect[server],
        "rdma": servers.rdma[server],
        "price_regions": price_regions(search_result, row.offer),
        "risk": risk_facts(details.risks[position], search_result.bill.hourly_usd[at]),
        "price": price_facts(search_result, row),
        **offer_doubts(search_result, row),
    }
