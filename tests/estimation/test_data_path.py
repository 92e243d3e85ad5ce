"""The data path of servers: volumes bought as slowly as will do, page cache, streaming, starved
cores; hand-computed."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit import facts
from rightfit.estimation.data_path import (
    DataLoad,
    HostColumns,
    Staging,
    data_path,
    host_columns,
    network_volumes,
    volume_steps,
    volumes,
)
from rightfit.facts.machines import core_named
from rightfit.market import open_catalog
from rightfit.market.names import names_data
from rightfit.search.offers import hosts_of, open_market

IMAGENET = DataLoad(dataset_bytes=140e9, samples=1.28e6, epochs=10.0, core_s=0.02, reads_per_sample=0.11, decode="pillow")


def hosts(**values: Any) -> HostColumns:
    usual = {
        "provider": "aws",
        "instance_type": "x.large",
        "cpu_model": "Intel Xeon Platinum 8175M",
        "arch": "x86_64",
        "vcpus": 34.0,
        "memory_bytes": 64e9,
        "local_nvme_bytes": 0.0,
        "network_bytes_per_s": 3e9,
        "accelerators": 1.0,
    } | values
    return host_columns(**{name: (value,) if isinstance(value, str) else np.array([value]) for name, value in usual.items()})


def path(load: DataLoad = IMAGENET, *, run_s: float = 36_000.0, nodes: float = 1.0, needed: float = 14e9, **values: Any) -> Any:
    found = data_path(load, hosts(**values), run_s=np.array([[run_s]]), nodes=np.array([nodes]), needed_memory_bytes=np.array([[needed]]))
    return {field.name: getattr(found, field.name)[0, 0] for field in dataclasses.fields(found)}


def test_preparing_by_hand() -> None:
    """34 vCPUs less the two of the training process are 16 cores and 16 siblings at the sibling's
    share; 20 ms x GHz each picture at 3.1."""
    cores = 16 * (1 + facts.coefficients("loading")["sibling_share"])
    found = path()
    assert found["cores"] == pytest.approx(cores)
    assert found["prepare_s"] == pytest.approx(1.28e6 * 0.02 / 3.1 / cores)


def test_page_cache_takes_its_share_of_the_reading() -> None:
    """50 GB are left, four fifths cache: 40 of 140 GB; the rest is read from the
    volume that will do."""
    found = path()
    assert found["cached"] == pytest.approx(40 / 140)
    assert found["read_s"] == pytest.approx(100e9 / found["disk_bytes_per_s"])


def test_the_cheapest_volume_that_will_do() -> None:
    """100 GB an epoch of 3,600 s want 28 MB/s: the free 125 of gp3 do. In 200 s, preparing slower:
    1.28e6 x 0.02 / 3.1 / 18.3 s = 450 s and so 177 MB/s."""
    assert path()["disk_bytes_per_s"] == pytest.approx(125e6)
    fast = path(run_s=2000.0)
    assert fast["disk_bytes_per_s"] == pytest.approx(250e6)
    assert fast["price_factor"] == pytest.approx((140 * 0.08 + 125 * 0.04) / (140 * 0.08))


def test_starved_cards_wait_for_their_cores() -> None:
    found = path(run_s=2000.0)
    assert found["run_s"] > 2000.0
    assert found["run_s"] == pytest.approx(10 * max(found["prepare_s"], found["read_s"]), rel=1e-3)
    assert path(run_s=2000.0, vcpus=4.0)["run_s"] > 5 * found["run_s"]


def test_data_on_local_disks_cost_no_volume() -> None:
    found = path(local_nvme_bytes=1e12, run_s=400_000.0)
    assert found["staging"] in (Staging.LOCAL, Staging.STREAM)
    assert found["stored_bytes"] == 0
    assert found["disk_bytes_per_s"] == pytest.approx(1.5e9)


def test_small_data_live_in_memory() -> None:
    small = dataclasses.replace(IMAGENET, dataset_bytes=5e9)
    found = path(small)
    assert (found["staging"], found["read_s"], found["stored_bytes"]) == (Staging.MEMORY, 0, 0)
    assert found["staging_s"] == pytest.approx(5e9 / 8.5e8)


def test_streaming_saves_the_copy_of_large_data() -> None:
    """20 TB in one pass of ten days on 8 servers: copying everything to each takes longer than a
    hundredth of the run."""
    large = dataclasses.replace(IMAGENET, dataset_bytes=2e13, epochs=1.0, core_s=0.0)
    found = path(large, run_s=864_000.0, nodes=8.0)
    assert found["staging"] == Staging.STREAM
    assert found["staging_s"] == 0
    assert found["run_s"] == pytest.approx(864_000.0)
    assert found["first_s"] == pytest.approx(2e13 / 8 / 8.5e8)


def test_what_is_asked_for_is_taken() -> None:
    asked = dataclasses.replace(IMAGENET, storage="io2")
    assert path(asked)["disk_bytes_per_s"] == pytest.approx(140 * 4e6)
    assert path(dataclasses.replace(IMAGENET, storage="stream"))["staging"] == Staging.STREAM


def test_workers_asked_for_limit_the_cores() -> None:
    assert path(dataclasses.replace(IMAGENET, workers=4))["cores"] == pytest.approx(4)


def test_no_run_no_time() -> None:
    assert np.isinf(path(run_s=np.inf)["run_s"])


def test_a_longer_run_never_ends_earlier_on_one_volume() -> None:
    fixed = dataclasses.replace(IMAGENET, storage="io2")
    runs = [path(fixed, run_s=seconds) for seconds in np.geomspace(10, 1e6, 60)]
    totals = [run["run_s"] + run["staging_s"] for run in runs]
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(totals))


def test_steps_get_faster_as_they_get_dearer() -> None:
    for provider in volumes():
        steps = volume_steps(provider, 5e11)
        assert [step.usd_per_month for step in steps] == sorted(step.usd_per_month for step in steps)
        assert all(a.bytes_per_s < b.bytes_per_s for a, b in itertools.pairwise(steps))


def test_clouds_without_described_volumes_get_the_least() -> None:
    assert network_volumes("nobody")[0].most_bytes_per_s == pytest.approx(125e6)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("AMD EPYC 9B14 (Genoa), GCP VM 16 vCPU", "AMD EPYC Genoa (Zen 4)"),
        ("AWS p3dn.24xlarge", "Intel Xeon Skylake"),
        ("2x EPYC 7742", "AMD EPYC Rome (Zen 2)"),
        ("EPYC 7763", "AMD EPYC Milan (Zen 3)"),
        ("Arm Neoverse-V2", "Arm Neoverse V2"),
        ("AWS Graviton3", "Arm Neoverse V1"),
        ("", "usual server"),
    ],
)
def test_processors_by_their_names(words: str, name: str) -> None:
    assert core_named(words).name == name


@pytest.mark.parametrize(
    "volume", [(p, v) for p, kinds in volumes().items() for v in kinds if v.price_key], ids=lambda pair: f"{pair[0]}-{pair[1].name}"
)
def test_prices_of_volumes_are_those_of_the_catalog(volume: tuple[str, Any]) -> None:
    """The table's prices compare volumes with each other; the catalog's price of the default one in
    the region is what is billed."""
    provider, kind = volume
    home = names_data()["home_regions"].get(provider, "global")
    prices = [open_catalog().storage_price(provider, home, kind=word, product=kind.price_key) for word in ("block", "file")]
    known = [price.price_usd_per_gb_month for price in prices if price and price.product == kind.price_key]
    assert known
    assert kind.usd_per_gb_month == pytest.approx(known[0], rel=0.2)


def test_the_first_volume_of_a_cloud_is_the_one_billed_by_default() -> None:
    for provider, product in names_data()["storage"]["block"].items():
        assert network_volumes(provider)[0].price_key == product


def test_every_figure_has_a_source() -> None:
    for name in ("volumes", "cpus", "loaders", "storage_benchmarks", "loading_intervals"):
        assert all(row["source"] for row in facts.table(name))


def test_a_volume_asked_for_is_rented_beside_local_disks() -> None:
    found = path(dataclasses.replace(IMAGENET, storage="gp3"), local_nvme_bytes=4e12)
    assert found["staging"] == Staging.VOLUME
    assert found["stored_bytes"] == pytest.approx(140e9)


def test_a_seller_that_states_no_processors_gains_nothing_by_it() -> None:
    """Few are taken: as many as the lower quarter of the servers with so many accelerators has."""
    servers = open_market(open_catalog()).offers.servers
    stated, cards = np.nan_to_num(servers.vcpus) > 0, np.nan_to_num(servers.num_accelerators)
    taken = hosts_of(servers).vcpus
    assert np.isfinite(taken).all()
    assert (taken > 0).all()
    each = servers.vcpus[stated & (cards > 0)] / cards[stated & (cards > 0)]
    for server in np.flatnonzero(~stated):
        assert taken[server] / cards[server] == pytest.approx(np.quantile(each, 0.25))
    assert path(run_s=2000.0, vcpus=np.nan)["run_s"] == path(run_s=2000.0, vcpus=8.0)["run_s"] > path(run_s=2000.0)["run_s"]


def test_processors_that_are_not_stated_are_said_to_be_taken() -> None:
    """Where loading needs them: clips decoded on the way; not where tokens are read as they are."""
    for option in rightfit.plan(model="r3d_18", task="train", data="100kvideos", cloud="crusoe").options:
        assert any(reason.key == "vcpus_unknown" for reason in option.warnings) == np.isnan(option.vcpus)
    for option in rightfit.plan(model="gpt2", task="pretrain", data="1Gtok", cloud="crusoe").options:
        assert not any(reason.key == "vcpus_unknown" for reason in option.warnings)
