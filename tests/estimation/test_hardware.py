"""Links of servers and families of accelerators."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation import convert
from rightfit.estimation.convert import InterKind
from rightfit.facts.devices import architecture_code, architecture_names
from rightfit.physics.columns import IntraKind


def links(name: str, count: int, word: str, *, rdma: str = "none", network: float = 0.0) -> dict[str, float]:
    columns = convert.link_columns([name], num_accelerators=[count], gpu_interconnect=[word], rdma=[rdma], network_bytes_per_s=[network])
    return {
        field: float(getattr(columns, field)[0])
        for field in ("intra_bandwidth", "intra_kind", "inter_bandwidth", "inter_kind", "host_bandwidth")
    }


def test_p5_has_nvswitch_and_efa() -> None:
    p5 = links("H100-SXM-80GB", 8, "nvswitch", rdma="efa", network=400e9)
    assert p5["intra_bandwidth"] == 450e9
    assert p5["intra_kind"] == IntraKind.SWITCH
    assert (p5["inter_bandwidth"], p5["inter_kind"]) == (400e9, InterKind.EFA)


def test_pcie_card_without_bridge() -> None:
    assert links("L4", 8, "pcie") == {
        "intra_bandwidth": 31.5e9,
        "intra_kind": IntraKind.PCIE,
        "inter_bandwidth": 1.25e9,
        "inter_kind": InterKind.ETHERNET,
        "host_bandwidth": 31.5e9,
    }


def test_geforce_is_staged_in_host_memory() -> None:
    assert links("RTX-4090", 8, "pcie")["intra_bandwidth"] == pytest.approx(31.5e9 / 2)
    assert links("RTX-A6000", 4, "pcie")["intra_bandwidth"] == pytest.approx(31.5e9)


def test_bridges_join_two_cards_only() -> None:
    assert links("A100-PCIe-80GB", 2, "nvlink")["intra_bandwidth"] == 300e9
    assert links("A100-PCIe-80GB", 4, "nvlink")["intra_bandwidth"] == 31.5e9


def test_single_gpu_has_no_neighbours() -> None:
    assert links("A10", 1, "none")["intra_kind"] == IntraKind.NONE


def test_unknown_accelerator_gets_pcie() -> None:
    assert links("no-such-card", 4, "nvswitch")["intra_kind"] == IntraKind.PCIE


def test_nan_network_is_ten_gigabit() -> None:
    assert links("A10", 1, "none", network=float("nan"))["inter_bandwidth"] == 1.25e9


def test_every_catalogued_interconnect_word_is_known() -> None:
    assert set(convert.INTRA_WORDS) == {"none", "pcie", "nvlink", "nvswitch", "xgmi", "ici", "neuronlink", "roce"}


def test_defaults_where_only_the_gpu_is_known() -> None:
    names = ["H100-SXM-80GB", "RTX-3090", "V100-SXM-32GB"]
    columns = convert.default_links(names, num_gpus=np.array([64, 4, 16]), gpus_per_node=np.array([8]))
    assert columns.intra_kind.tolist() == [IntraKind.SWITCH, IntraKind.PCIE, IntraKind.NVLINK]
    assert columns.inter_bandwidth.tolist() == [400e9, 12.5e9, 12.5e9]


@pytest.mark.parametrize(
    ("note", "rate", "kind"),
    [
        ("2 nodes over 10 Gbps Ethernet", 1.25e9, InterKind.ETHERNET),
        ("8 x 400 Gb/s InfiniBand", 400e9, InterKind.INFINIBAND),
        ("EFA 400Gbps", 50e9, InterKind.EFA),
        ("", 200e9, InterKind.INFINIBAND),
    ],
)
def test_notes_about_the_network(note: str, rate: float, kind: InterKind) -> None:
    columns = convert.default_links(["A100-SXM-80GB"], num_gpus=[16], gpus_per_node=[8], notes=[note])
    assert (columns.inter_bandwidth[0], columns.inter_kind[0]) == (rate, kind)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("A100-SXM-80GB", "ampere-hbm"),
        ("A10", "ampere-gddr"),
        ("RTX-3090", "ampere-gddr"),
        ("L4", "ada"),
        ("T4", "turing"),
        ("V100-SXM-32GB", "volta"),
        ("H20-96GB", "hopper"),
        ("B200-SXM-180GB", "blackwell-hbm"),
        ("RTX-5090", "blackwell-gddr"),
        ("MI300X", "cdna3"),
        ("Gaudi2", "gaudi"),
        ("TPU-v5p", "tpu"),
        ("Trainium2", "neuron"),
        ("Ascend-910B", "ascend"),
    ],
)
def test_family_of_accelerators(name: str, family: str) -> None:
    card = facts.accelerators()[name]
    code = architecture_code(card.vendor, card.architecture, card.compute_capability)
    assert architecture_names()[code] == family


@pytest.mark.parametrize(
    ("name", "devices"), [("GB200", 72), ("GB300", 72), ("H100-SXM-80GB", 8), ("TPU-v5e", 256), ("Trainium1", 16), ("L40S", 8)]
)
def test_fast_links_are_a_property_of_the_server(name: str, devices: float) -> None:
    assert convert.linked_devices(name) == devices


def test_servers_of_a_rack_reach_one_another_over_its_links() -> None:
    names = ["GB200", "H100-SXM-80GB", "TPU-v5e"]
    found = convert.link_columns(
        names,
        num_accelerators=[4, 8, 4],
        gpu_interconnect=["nvswitch", "nvswitch", "ici"],
        rdma=["infiniband"] * 3,
        network_bytes_per_s=[200e9, 400e9, 12.5e9],
    )
    rates = [facts.accelerators()[name].nvlink_bandwidth / 2 for name in names]
    assert found.inter_bandwidth.tolist() == [4 * rates[0], 400e9, max(4 * rates[2], 12.5e9)]
