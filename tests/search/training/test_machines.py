"""Servers as machine classes, and what accelerators can do."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.families.language.kind import base_setup, chosen_shardings, fleet_of
from rightfit.families.language.wish import read_wish
from rightfit.market import open_catalog
from rightfit.physics.columns import Dtype, MemoryCounter, Method
from rightfit.search.offers import known_host_bytes, open_market
from rightfit.search.training.machines import Variant, behind, build_fleet, lacks, variant_of
from rightfit.search.training.space import Sharding
from rightfit.workload import Workload


@pytest.mark.parametrize(
    ("name", "method", "precision", "lacking"),
    [
        ("A100-SXM-80GB", Method.QLORA, "bf16", ""),
        ("V100-SXM-16GB", Method.FULL, "bf16", "bf16"),
        ("A100-SXM-80GB", Method.FULL, "fp8", "fp8"),
        ("H100-SXM-80GB", Method.FULL, "fp8", ""),
        ("Inferentia2", Method.FULL, "", "training"),
        ("Trainium1", Method.QLORA, "", "nf4"),
        ("Trainium1", Method.LORA, "", ""),
        ("K80", Method.FULL, "", "training"),
    ],
)
def test_what_an_accelerator_lacks(name: str, method: Method, precision: str, lacking: str) -> None:
    assert lacks(facts.accelerator(name), method=method, precision=precision) == lacking


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("H100-SXM-80GB", Variant("bf16", True)),
        ("T4", Variant("fp16", False)),
        ("P40", Variant("fp32", False)),
        ("MI300X", Variant("bf16", True)),
    ],
)
def test_the_arithmetic_is_the_best_the_card_has(name: str, variant: Variant) -> None:
    assert variant_of(facts.accelerator(name), precision="", attention="") == variant


def test_a_hidden_chip_takes_the_rates_of_its_equivalent_and_keeps_its_name_and_memory() -> None:
    label = facts.accelerators()["ALI-G49E-48GB"]
    chip = behind(label)
    assert chip.name == label.name
    assert chip.memory_bytes == label.memory_bytes == 48 * 2**30
    assert chip.bf16_flops == facts.accelerators()["RTX-4090"].bf16_flops > 0
    assert behind(facts.accelerators()["T4"]) is facts.accelerators()["T4"]


def test_classes_share_what_physics_reads() -> None:
    market = open_market(open_catalog())
    servers = market.offers.servers
    fleet = build_fleet(servers, method=Method.LORA)
    rows = {name: row for row, name in enumerate(servers.instance_type) if servers.provider[row] == "aws"}
    # The host's size changes no step: g5.xlarge and g5.2xlarge differ in RAM and vCPUs only.
    assert fleet.machine_index[rows["g5.xlarge"]] >= 0
    assert len(fleet.machines) < (fleet.machine_index >= 0).sum()
    assert fleet.machine_index[rows["inf1.xlarge"]] == -1
    assert fleet.missing[rows["inf1.xlarge"]] == "training"
    for server in (rows["p4d.24xlarge"], rows["g5.48xlarge"]):
        machine = fleet.machine_index[server]
        assert fleet.machines.accelerators[machine] == servers.accelerator_name[server]
        assert fleet.machines.gpus_per_node[machine] == servers.num_accelerators[server]


def test_slices_of_an_accelerator_get_no_class() -> None:
    servers = open_market(open_catalog()).offers.servers
    fleet = build_fleet(servers, method=Method.LORA)
    sliced = (servers.num_accelerators > 0) & (servers.num_accelerators < 1)
    assert sliced.any()
    assert (fleet.machine_index[sliced] == -1).all()


def test_the_fleet_is_kept_for_the_next_question() -> None:
    market = open_market(open_catalog())
    wish = read_wish(Workload(model="gpt2", method="full", data="1Mtok"))
    assert fleet_of(market.offers.servers, wish) is fleet_of(market.offers.servers, wish)


def test_unknown_host_memory_is_taken_as_little() -> None:
    servers = open_market(open_catalog()).offers.servers
    unknown = servers.memory_bytes != servers.memory_bytes
    assert unknown.any()
    assumed = known_host_bytes(servers)
    assert (assumed[~unknown] == servers.memory_bytes[~unknown]).all()
    assert (assumed[unknown] <= (servers.num_accelerators * servers.accelerator_memory_bytes)[unknown]).all()


def test_the_base_setup_follows_the_variant() -> None:
    wish = read_wish(Workload(model="gpt2", method="full", data="1Mtok"))
    base = base_setup(wish, [Variant("bf16", True), Variant("fp16", False)])
    assert base.compute_dtype.tolist() == [Dtype.BF16, Dtype.FP16]
    assert base.memory_counter.tolist() == [MemoryCounter.DRIVER]
    assert base.seq_len.tolist() == [1024]


@pytest.mark.parametrize(
    ("sharding", "offload", "modes"),
    [
        (None, None, ()),
        ("none", None, (Sharding.NONE,)),
        ("zero2", None, (Sharding.ZERO2, Sharding.NONE)),
        ("fsdp", None, (Sharding.ZERO3, Sharding.HYBRID, Sharding.NONE)),
        (None, "optimizer", (Sharding.OFFLOAD_OPTIMIZER,)),
        (None, "activations", (Sharding.NONE, Sharding.ZERO3, Sharding.HYBRID)),
        ("zero3", "activations", (Sharding.ZERO3, Sharding.HYBRID, Sharding.NONE)),
        (None, "all", (Sharding.OFFLOAD_ALL,)),
        (None, "none", (Sharding.NONE, Sharding.ZERO1, Sharding.ZERO2, Sharding.ZERO3, Sharding.HYBRID)),
    ],
)
def test_the_users_sharding_words(sharding: str | None, offload: str | None, modes: tuple[int, ...]) -> None:
    assert chosen_shardings(sharding, offload) == modes
