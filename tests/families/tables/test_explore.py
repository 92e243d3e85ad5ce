"""The search over servers for classical machine learning and data preparation, held against
sums made one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.classical_tasks import figures_of, named_task

from rightfit import facts
from rightfit.estimation.classical_rates import cpu_columns
from rightfit.estimation.preparation import preparation_task, rates_of, work_of
from rightfit.facts import coefficients
from rightfit.facts.machines import host_processor, processor_words
from rightfit.families.tables.explore import TableResult, explore_host
from rightfit.families.tables.kind import confirm
from rightfit.families.tables.work import probability_within
from rightfit.market import open_catalog
from rightfit.physics.loading import PreparationHosts, peak_ram_bytes, preparation_terms, spilled_bytes, working_cores
from rightfit.search.rank import late_of
from rightfit.search.sense import as_good_as, counted
from rightfit.workload import Workload


def found_for(**wishes: Any) -> TableResult:
    return explore_host(Workload(**wishes), open_catalog())


@pytest.fixture(scope="module")
def boosting() -> TableResult:
    return found_for(model="xgboost", data="11Mrows x 28cols", trees=500, depth=8)


def some_rows(found: TableResult, *, count: int = 25) -> list[int]:
    """Offers on demand of servers without accelerator, spread over the catalog."""
    offers = found.market.offers
    on_demand = (offers.purchase_index == 0) & ~found.servers.has_card[offers.server_index] & (found.bits[:, 0] == 0)
    rows = np.flatnonzero(on_demand)
    return list(rows[:: max(1, len(rows) // count)][:count])


def one_server(found: TableResult, row: int) -> tuple[Any, float, float]:
    """The processor of an offer's server as columns of one row, its RAM and its network."""
    servers, at = found.market.offers.servers, int(found.market.offers.server_index[row])
    words = processor_words(servers.provider[at], servers.cpu_model[at], servers.instance_type[at], servers.arch[at])
    memory = np.array([servers.memory_bytes[at]])
    network = float(np.nan_to_num(servers.network_bytes_per_s[at])) or np.inf
    return cpu_columns([host_processor(words)], vcpus=np.array([servers.vcpus[at]]), memory_bytes=memory), float(memory[0]), network


def test_time_ram_and_rent_of_single_servers(boosting: TableResult) -> None:
    task = named_task("xgboost", rows=11e6, cols=28, library="xgboost", settings="500 trees, depth 8")
    loading = facts.coefficients("loading")
    store = min(loading["object_bytes_per_s_per_connection"] * loading["object_connections"], 5e9)
    for row in some_rows(boosting):
        cpu, _, network = one_server(boosting, row)
        alone = figures_of(task, cpu)
        server = int(boosting.market.offers.server_index[row])
        assert boosting.work.work_s[server, 0] == pytest.approx(float(alone.time_s.mid[0]))
        assert boosting.work.ram_bytes[server, 0] == pytest.approx(float(alone.peak_ram_bytes.mid[0]))
        assert boosting.work.ram_needed_bytes[server, 0] == pytest.approx(float(alone.peak_ram_bytes.high80[0]))
        staging = 11e6 * 28 * 8 / min(store, network)
        least_s = 300.0 + float(alone.time_s.mid[0])
        total_s = float(boosting.bill.total_s[row, 0])
        assert least_s < total_s <= (least_s + staging * 40) * 1.01
        price = float(boosting.market.offers.price_usd_per_h[row])
        charges = boosting.market.charges
        billed = max(total_s, float(charges.minimum_s[row]))
        billed = np.ceil(billed / charges.increment_s[row]) * charges.increment_s[row]
        assert boosting.bill.servers_usd[row, 0] == pytest.approx(price * billed / 3600.0, rel=1e-6)


def test_nothing_that_is_chosen_lacks_memory_or_fails_a_filter() -> None:
    found = found_for(model="random-forest", data="5GB", cloud="aws,alicloud", purchase="on-demand", deadline="5h", budget="20usd")
    offer, node = np.nonzero(found.bits == 0)
    server = found.market.offers.server_index[offer]
    assert offer.shape[0] > 100
    assert {found.market.offers.servers.provider[at] for at in server} == {"aws", "alicloud"}
    assert (found.work.ram_needed_bytes[server, node] <= found.servers.ram_bytes[server]).all()
    assert (found.bill.total_s[offer, node] <= 5 * 3600).all()
    assert (found.bill.total_usd[offer, node] <= 20).all()
    assert not found.servers.is_burstable[server].any()


def test_the_first_is_as_good_as_the_cheapest_of_all_that_pass(boosting: TableResult) -> None:
    ranking = confirm(boosting, 10)[1]
    best = ranking.top[0]
    offer, node = np.nonzero(boosting.bits == 0)
    usd = boosting.bill.total_usd[offer, node][~np.any(late_of(boosting, offer, node), axis=0)]
    mine = boosting.bill.total_usd[best.offer, best.node]
    assert as_good_as(mine / 0.85, usd.min(), task="classical")  # Arm counts for what x86 might cost
    offers, nodes = np.array([row.offer for row in ranking.top]), np.array([row.node for row in ranking.top])
    costs = counted(boosting, boosting.bill.total_usd[offers, nodes], offers)  # of those that follow by cost
    soon = ~np.any(late_of(boosting, offers, nodes), axis=0)
    assert np.all(as_good_as(costs[soon][1:-1], costs[soon][2:], task="classical"))
    offers, nodes = np.array([row.offer for row in ranking.pareto]), np.array([row.node for row in ranking.pareto])
    front = list(zip(boosting.bill.total_usd[offers, nodes].tolist(), boosting.bill.total_s[offers, nodes].tolist(), strict=True))
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(front))


def test_gpus_compute_faster_and_are_found_when_time_counts(boosting: TableResult) -> None:
    hurried = found_for(model="xgboost", data="11Mrows x 28cols", trees=500, depth=8, objective="time")
    best = confirm(hurried, 1)[1].top[0]
    assert hurried.work.on_gpu[int(hurried.market.offers.server_index[best.offer])]
    at = np.isfinite(boosting.work.run_s[:, 0])
    assert boosting.work.run_s[at & boosting.work.on_gpu, 0].min() < boosting.work.run_s[at & ~boosting.work.on_gpu, 0].min()


def test_preparation_of_single_servers() -> None:
    found = found_for(operation="tokenize", data="100GB")
    task = preparation_task("tokenize", data_bytes=100e9)
    for row in some_rows(found):
        cpu, _, _ = one_server(found, row)
        server = int(found.market.offers.server_index[row])
        rate = np.minimum(found.servers.store_rate, found.servers.usual_network)[[server]]
        host = PreparationHosts(cpu.cores, cpu.threads, cpu.speed, cpu.memory_bytes, rate, rate)
        counted = work_of(task), rates_of(task), host
        terms = {name: float(value[0]) for name, value in preparation_terms(*counted).items()}
        alone_s = max(terms["compute"], terms["read"] + terms["write"])
        cores = float(working_cores(PreparationHosts.of(cores=cpu.cores, threads=cpu.threads), rates_of(task))[0] * cpu.speed[0])
        moved_s = (task.input_bytes + task.output_bytes) / (coefficients("preparation")["moved_core_rate"] * cores)
        at_most = alone_s + moved_s  # moving data takes cores too, where it is not hidden behind the network
        assert alone_s * 0.999999 <= found.work.work_s[server, 0] <= at_most * 1.000001
        assert found.work.ram_bytes[server, 0] == pytest.approx(float((peak_ram_bytes(*counted) - spilled_bytes(*counted))[0]))


def test_one_vcpu_moves_what_a_core_can_and_storage_is_paid() -> None:
    found = found_for(operation="filter", data="2TB")
    offers, servers = found.market.offers, found.market.offers.servers
    run_s = found.work.run_s[:, 0]
    few = np.isfinite(run_s) & (servers.vcpus <= 2) & ~(servers.network_bytes_per_s > 0)
    assert few.any()
    assert (2e12 / run_s[few]).max() <= 2 * coefficients("preparation")["network_bytes_per_s_per_vcpu"]
    known = np.isfinite(found.bill.total_usd)
    at_least = 2e12 / 1e9 * 0.005 * found.bill.total_s / (730 * 3600)  # half a cent a gigabyte and month is less than any store asks
    assert (found.bill.storage_usd[known] >= at_least[known]).all()
    parts = found.bill.servers_usd + found.bill.storage_usd + found.bill.egress_usd + found.bill.network_usd
    assert np.allclose(parts[known], found.bill.total_usd[known])
    assert len(offers) == found.bill.total_usd.shape[0]


def test_several_servers_share_what_divides_and_nothing_else() -> None:
    shared = found_for(operation="tokenize", data="500GB", deadline="4h")
    counts = shared.node_counts
    at = np.flatnonzero(shared.work.fits.all(axis=1))[0]
    assert shared.work.work_s[at] == pytest.approx(shared.work.work_s[at, 0] / counts)
    assert found_for(operation="sort", data="50GB", deadline="4h").node_counts.tolist() == [1]
    assert found_for(operation="tokenize", data="500GB").node_counts.tolist() == [1]


def test_what_spills_goes_through_a_disk_and_what_cannot_does_not_fit() -> None:
    spilling, holding = (found_for(operation="sort", data="200GB", library=name, cloud="aws") for name in ("duckdb", "polars"))
    small = (spilling.servers.ram_bytes < 64e9) & (spilling.servers.ram_bytes > 16e9) & (spilling.servers.cpu.threads <= 32)
    assert spilling.work.fits[small & spilling.work.able].all()
    assert not spilling.work.fits[spilling.servers.ram_bytes < 0.2e9].any()
    assert (spilling.work.spilled_bytes[small] > 0).all()
    assert not holding.work.fits[small].any()


def test_probabilities_follow_the_interval() -> None:
    assert probability_within("memory", 10.0, 10.0, 0.0) == pytest.approx(0.5)
    high = 10.0 * np.exp(0.6931)  # the 90 % quantile of facts/data/classical_intervals.csv
    assert probability_within("memory", 10.0, high, 0.0) == pytest.approx(0.9, abs=1e-3)
    chances = [probability_within("memory", 10.0, limit, 1.0) for limit in (0.1, 2.0, 9.0, 10.0, 15.0, 40.0, 1e4)]
    assert chances == sorted(chances)
    assert 0.0 < chances[0] < 0.01 < 0.99 < chances[-1] < 1.0


def test_jobs_that_save_nothing_cost_more_where_servers_are_taken_away() -> None:
    found = found_for(model="svm", data="2M x 28", purchase="any")
    spot = found.market.charges.spot_high > 0.3
    rows = np.flatnonzero(spot & np.isfinite(found.bill.total_s[:, 0]))
    server = found.market.offers.server_index[rows]
    assert (found.bill.run_s[rows, 0] > found.work.work_s[server, 0]).all()


@pytest.mark.parametrize("data", ["10k x 5", "1B x 50"])
def test_more_rows_never_take_less(data: str) -> None:
    few, many = (found_for(model="lightgbm", data=size) for size in (data, data.replace("k x", "00k x").replace("1B", "2B")))
    assert (many.work.work_s >= few.work.work_s).all()
    assert (many.work.ram_bytes >= few.work.ram_bytes).all()
