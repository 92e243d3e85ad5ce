"""The script that makes the bundled tables."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from loaded import load_module

SCRIPT = Path(__file__).parents[2] / "scripts" / "build_facts.py"


@pytest.fixture(scope="module")
def build() -> ModuleType:
    return load_module(SCRIPT)


def test_numbers_in_base_units(build: ModuleType) -> None:
    assert build.number("") == ""
    assert build.number("80", build.GIB) == "85899345920"
    assert build.number("312", 1e12) == "312000000000000"
    assert build.number("0.133", 1e9) == "133000000"


def test_sizes(build: ModuleType) -> None:
    assert build.size_in_bytes("7484928 (fp32)") == "7484928"
    assert build.size_in_bytes("15.0 GB (checkpoint)") == "15000000000"
    assert build.size_in_bytes("421 GiB") == str(421 * 2**30)
    assert build.size_in_bytes("") == ""
    assert build.first_integer("800 (min side, up to 1333)") == "800"
    assert build.first_integer("") == ""


@pytest.mark.parametrize(
    ("experts", "layers", "full", "linear", "dense", "every", "moe_layers"),
    [
        ("", "32", "32", "0", "", "", 0),
        ("8", "32", "32", "0", "", "", 32),
        ("256", "61", "61", "0", "3", "", 58),
        ("128", "48", "48", "0", "", "2", 24),
        ("128", "52", "6", "23", "", "", 23),
        ("512", "48", "12", "36", "", "", 48),
    ],
)
def test_moe_layers(build: ModuleType, experts: str, layers: str, full: str, linear: str, dense: str, every: str, moe_layers: int) -> None:
    row = {"n_experts": experts, "n_layers": layers, "n_full_attn_layers": full, "n_sliding_layers": "0", "n_linear_layers": linear}
    assert build.count_moe_layers({**row, "first_dense_layers": dense, "moe_layer_freq": every}) == moe_layers


def test_layers_of_both_stacks(build: ModuleType) -> None:
    assert build.count_layers({"n_layers": "12", "encoder_layers": "12", "decoder_layers": "4"}) == "16"
    assert build.count_layers({"n_layers": "12", "encoder_layers": "", "decoder_layers": ""}) == "12"


def test_a_width_for_each_layer_becomes_their_mean(build: ModuleType) -> None:
    assert build.feed_forward_width({"intermediate_size": "[4096, 8192]"}) == "6144"
    assert build.feed_forward_width({"intermediate_size": ""}) == ""


def test_rows_without_source_and_shared_names_stop_the_build(build: ModuleType) -> None:
    with pytest.raises(SystemExit, match="vision: no source for b"):
        build.refuse_without_source("vision", [{"name": "a", "source": "x"}, {"name": "b", "source": ""}])
    with pytest.raises(SystemExit, match="'x' names both a and b"):
        build.refuse_shared_names([("vision", "a", "x"), ("other", "b", "X")])


def test_corrections_name_rows_and_fields_that_exist(build: ModuleType) -> None:
    from rightfit import facts

    for row in facts.table("corrections"):
        record = facts.models()[row["name"]] if row["name"] in facts.models() else facts.accelerators()[row["name"]]
        found = getattr(record, row["field"]) or ""
        assert str(found) in (row["value"], "False", "") or found == float(row["value"])
        assert row["reason"]
