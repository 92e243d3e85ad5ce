"""Accelerators by the names that people, clouds and papers use."""

from __future__ import annotations

import pytest
from complaints import complaint
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit import facts
from rightfit.errors import AmbiguousNameError, UnknownNameError
from rightfit.facts.devices import architecture_code, named_accelerators

STEADY = settings(deadline=None, derandomize=True, max_examples=60)


A100 = ("A100-PCIe-40GB", "A100-SXM-40GB", "A100-PCIe-80GB", "A100-SXM-80GB")
V100 = ("V100-PCIe-16GB", "V100-PCIe-32GB", "V100-SXM-16GB", "V100-SXM-32GB")


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("A100", A100),
        ("a100-80gb", A100[2:]),
        ("A100 80GB", A100[2:]),
        ("a10080gb", A100[2:]),
        ("A100-80G", A100[2:]),
        ("A100 80 GB", A100[2:]),
        ("A100-SXM4-80GB", A100[3:]),
        ("NVIDIA A100-SXM4-40GB", A100[1:2]),
        ("A100 PCIe", (A100[0], A100[2])),
        ("H100", ("H100-PCIe-80GB", "H100-SXM-80GB", "H100-NVL-94GB")),
        ("H100-SXM5-80GB", ("H100-SXM-80GB",)),
        ("nvidia-h100-80gb", ("H100-PCIe-80GB", "H100-SXM-80GB")),
        ("V100", V100),
        ("nvidia-tesla-v100", V100),
        ("V100 (32GB)", (V100[1], V100[3])),
        ("V100S", ("V100S-PCIe-32GB",)),
        ("P100", ("P100-PCIe-16GB", "P100-SXM-16GB")),
        ("T4", ("T4",)),
        ("Tesla T4", ("T4",)),
        ("T4 16GB", ("T4",)),
        ("T4 PCIe", ("T4",)),
        ("A10", ("A10",)),
        ("A10G", ("A10G",)),
        ("4090", ("RTX-4090",)),
        ("rtx4090", ("RTX-4090",)),
        ("NVIDIA GeForce RTX 4090", ("RTX-4090",)),
        ("RTX 4090 24GB", ("RTX-4090",)),
        ("4090D", ("RTX-4090-D",)),
        ("RTX 3090", ("RTX-3090",)),
        ("3090ti", ("RTX-3090-Ti",)),
        ("2080 Ti", ("RTX-2080-Ti",)),
        ("A6000", ("RTX-A6000",)),
        ("RTX 6000 Ada", ("RTX-6000-Ada",)),
        ("RTX 6000", ("RTX-6000-Ada", "Quadro-RTX-6000")),
        ("RTX PRO 6000", ("RTX-PRO-6000-Server", "RTX-PRO-6000-WS")),
        ("L20", ("L20",)),
        ("L40S", ("L40S",)),
        ("H20", ("H20-96GB", "H20-141GB")),
        ("B200", ("B200-SXM-180GB",)),
        ("B200 192GB", ("B200-SXM-180GB",)),
        ("MI300X", ("MI300X",)),
        ("AMD Instinct MI300X", ("MI300X",)),
        ("Gaudi 2", ("Gaudi2",)),
        ("trn1", ("Trainium1",)),
        ("inf2", ("Inferentia2",)),
        ("TPU v5e", ("TPU-v5e",)),
        ("Ascend 910B", ("Ascend-910B",)),
        ("910b", ("Ascend-910B",)),
        ("GPU H", ("ALI-GPU-H-96GB",)),
        ("A1000", ()),
        ("gpu", ()),
        ("80GB", ("A100-PCIe-80GB", "A100-SXM-80GB", "H100-PCIe-80GB", "H100-SXM-80GB")),
        ("", ()),
    ],
)
def test_loose_names_cover(name: str, covered: tuple[str, ...]) -> None:
    assert facts.match_accelerators(name) == covered


def test_every_exact_name_covers_only_itself() -> None:
    for name in facts.accelerators():
        assert facts.match_accelerators(name) == (name,)
        assert facts.match_accelerators(name.lower()) == (name,)
        assert facts.match_accelerators(name.replace("-", " "))[:1] or "NPU" in name


def test_every_alias_names_bundled_accelerators() -> None:
    for row in facts.table("accelerator_aliases"):
        names = row["accelerators"].split(";")
        assert set(names) <= set(facts.accelerators())
        assert facts.match_accelerators(row["alias"]) == tuple(names)


def test_one_accelerator_by_name() -> None:
    assert facts.accelerator("4090").name == "RTX-4090"
    with pytest.raises(AmbiguousNameError, match="A100-PCIe-40GB, A100-SXM-40GB"):
        facts.accelerator("A100")
    assert facts.accelerator("A100", typical=True).name == "A100-SXM-80GB"
    assert facts.accelerator("H100", typical=True).name == "H100-SXM-80GB"


def test_unknown_accelerator_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        facts.accelerator("A1000")
    assert any(name.startswith("A100") for name in caught.value.nearest)
    assert "did you mean" in str(caught.value)


@STEADY
@given(st.text(max_size=60))
def test_any_text_gives_names_or_our_error(text: str) -> None:
    covered = facts.match_accelerators(text)
    assert set(covered) <= set(facts.accelerators())
    assert "\n" not in complaint(facts.accelerator, text)


# Cards whose makers say nothing of what is inside: the clouds rent them under names of their own.
# Their figures stay unknown.
APPLE = ("M3-Max-40", "M3-Ultra-80", "M4-Max-40", "M5-Max-40")
UNDISCLOSED = frozenset({"undisclosed"})


@pytest.mark.parametrize("name", facts.accelerators())
def test_every_accelerator_says_what_a_prediction_needs(name: str) -> None:
    record = facts.accelerators()[name]
    if record.vendor in UNDISCLOSED:
        return
    rates = max(record.bf16_flops, record.fp16_flops, record.fp32_flops)
    figures = {"vendor": record.vendor, "architecture": record.architecture, "release_year": record.release_year, "form": record.form}
    figures |= {"memory_bytes": record.memory_bytes, "memory_bandwidth": record.memory_bandwidth, "bf16_flops (or fp16, fp32)": rates}
    missing = [column for column, figure in figures.items() if not figure]
    assert not missing or name in UNPUBLISHED, f"accelerators.csv: {name} lacks {', '.join(missing)}"
    code = architecture_code(record.vendor, record.architecture, record.compute_capability)
    assert code or name in OWN_SOFTWARE, (
        f"accelerators.csv: no row of architectures.csv has {record.vendor} {record.architecture} of compute capability "
        f"{record.compute_capability:g}, so that its time would be that of an unknown card"
    )


# Rates that the maker does not publish, and cards that run no training or serving program of ours.
UNPUBLISHED = frozenset({"MI308X"})
OWN_SOFTWARE = frozenset({"Qualcomm-AI100", "MTT-S5000", "MLU590", "MetaX-C500"}) | {f"Apple-{chip}" for chip in APPLE}


@pytest.mark.parametrize(
    ("named", "covered", "left"),
    [
        ("A100+", {"A100-SXM-80GB", "H100-SXM-80GB", "H200-SXM-141GB"}, {"L40S", "RTX-4090", "T4", "MI300X"}),
        ("L40S+", {"L40S", "A100-SXM-80GB", "H100-SXM-80GB"}, {"RTX-4090", "A10G"}),
        ("4090+", {"RTX-4090", "RTX-5090", "L40S", "A100-SXM-40GB"}, {"T4", "V100-SXM-16GB"}),
    ],
)
def test_as_good_a_card_has_as_much_memory_and_speed(named: str, covered: set[str], left: set[str]) -> None:
    found = set(facts.accelerators_at_least(named))
    assert covered <= found, covered - found
    assert not left & found
    assert set(named_accelerators(named, field="gpu")) == found


def test_a_label_of_a_cloud_stands_for_the_chip_that_its_figures_are_those_of() -> None:
    """H20 is rented as GPU H; a wish for it finds that where no server with one has a price."""
    from rightfit.search.constraints import read_filters
    from rightfit.search.offers import open_priced
    from rightfit.workload import Workload

    labels = facts.labelled_as(facts.match_accelerators("H20"))
    assert set(labels) == {"ALI-GPU-H-96GB", "ALI-GPU-H-e-141GB"}
    assert all(facts.accelerators()[one].vendor == "undisclosed" for one in labels)
    for wanted, is_label in (("H20", True), ("L4", False)):
        found = read_filters(Workload(model="7B", task="serve", rate="1/s", gpu=wanted), open_priced())
        assert any(facts.accelerators()[one].vendor == "undisclosed" for one in found.gpus) == is_label
