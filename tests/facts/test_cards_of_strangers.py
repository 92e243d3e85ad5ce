"""Cards that measured runs of strangers name, as they name them."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts.engines import find_device
from rightfit.proof.cases.reader import forward_device

NAMES = {
    "RTX-5060-Ti": 16,
    "RTX 5060 Ti": 16,
    "RTX 3060": 12,
    "RTX A5500": 24,
    "RTX 2080 Max-Q": 8,
    "RTX 2080 mobile": 8,
    "RTX 2080 Super Max-Q": 8,
    "H800 NVL": 94,
    "RTX 2000E Ada": 16,
    "TPU v7x": 192,
    "TPU v7x (Ironwood)": 192,
}


@pytest.mark.parametrize(("name", "memory_gib"), NAMES.items())
def test_they_are_known_in_every_table(name: str, memory_gib: float) -> None:
    record = facts.accelerator(name, typical=True)
    assert record.memory_bytes / 2**30 == pytest.approx(memory_gib, rel=0.02)
    assert find_device(name)[0].name == record.name
    found = forward_device(name)
    assert found is not None
    assert found.bandwidth == record.memory_bandwidth


@pytest.mark.parametrize("name", ["Apple M3 Max", "Apple M1 Ultra", "Apple M4 Pro", "DGX Spark", "NVIDIA DGX Spark (GB10)"])
def test_machines_that_no_cloud_rents_serve_models_too(name: str) -> None:
    assert find_device(name)[0].memory_bandwidth > 0


@pytest.mark.parametrize(("plain", "other"), [("RTX 2080 Ti", "RTX-2080-Ti"), ("RTX 2000 Ada", "RTX-2000-Ada"), ("H800", "H800-SXM-80GB")])
def test_older_names_mean_what_they_meant(plain: str, other: str) -> None:
    assert facts.accelerator(plain, typical=True).name == other


@pytest.mark.parametrize("name", ["P800", "kunlun p800", "昆仑芯P800", "R200", "M5 Ultra", "Apple-M5-Ultra-80"])
def test_a_card_that_is_known_without_its_figures_is_refused_with_what_is_missing(name: str) -> None:
    with pytest.raises(InputError, match="nothing can be timed on it") as caught:
        facts.named_accelerators(name, field="gpu")
    assert caught.value.field == "gpu"
    assert "\n" not in str(caught.value)
    assert facts.match_accelerators(name) == ()
