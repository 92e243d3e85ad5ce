from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.errors import CatalogError
from rightfit.market import open_catalog, packed_tables
from rightfit.market.packed_tables import decode_table, encode_table

CELLS = st.text(alphabet=st.characters(blacklist_characters="\n", blacklist_categories=("Cs",)), max_size=8)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=30))
def test_a_table_comes_back_as_it_went_in(rows: list[tuple[str, str]]) -> None:
    columns = {"a": [row[0] for row in rows], "b": [row[1] for row in rows]}
    back = decode_table(encode_table(columns))
    assert {name: column.texts() for name, column in back.items()} == columns


def test_packing_is_deterministic() -> None:
    columns = {"x": [str(i * 7919 % 1000) for i in range(5000)], "y": ["same"] * 5000}
    assert encode_table(columns) == encode_table(columns)


def test_many_distinct_values_are_kept_as_lines() -> None:
    values = [f"{i}.{i * i}" for i in range(1000)]
    column = decode_table(encode_table({"v": values}))["v"]
    assert column.texts() == values
    np.testing.assert_array_equal(column.numbers()[:3], [0.0, 1.1, 2.4])


def test_empty_cells_become_what_the_caller_wants() -> None:
    column = decode_table(encode_table({"v": ["1", "", "3"]}))["v"]
    assert column.numbers(empty=0.0).tolist() == [1.0, 0.0, 3.0]
    assert np.isnan(column.numbers()[1])


def test_line_breaks_are_refused_in_long_text_columns() -> None:
    with pytest.raises(ValueError, match="line breaks"):
        encode_table({"v": [f"{i}\n" for i in range(300)]})


# What was collected at first: more only, since rows that people add stand beside the packed tables
# until they are folded in.
@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("servers", 6660),
        ("prices", 177506),
        ("storage_prices", 615),
        ("egress_prices", 328),
        ("interruptions", 14568),
        ("discounts", 240),
        ("regions", 298),
        ("market_gpu_prices", 964),
        ("seed_check", 28),
    ],
)
def test_the_package_carries_every_row(name: str, rows: int) -> None:
    table = packed_tables.load_unamended(name)
    [packed] = {len(column.codes) for column in table.values()}
    assert packed == packed_tables.manifest()["tables"][name]["rows"]
    assert packed >= rows * 0.95  # retired rows go


def test_the_package_data_is_small() -> None:
    assert sum(entry["bytes"] for entry in packed_tables.manifest()["tables"].values()) < 1_000_000


@pytest.mark.parametrize("damage", ["truncated", "garbage", "gone"])
def test_a_damaged_package_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    folder = tmp_path / "data"
    shutil.copytree(packed_tables._FOLDER, folder)
    prices = folder / "prices.pack"
    if damage == "gone":
        prices.unlink()
    else:
        whole = prices.read_bytes()
        prices.write_bytes(whole[: len(whole) // 2] if damage == "truncated" else b"garbage" * 1000)
    monkeypatch.setattr(packed_tables, "_FOLDER", folder)
    with pytest.raises(CatalogError, match="reinstall rightfit"):
        open_catalog(tmp_path / "c.sqlite")


def test_the_rules_belong_to_the_fingerprint() -> None:
    """A rule changed by hand without `scripts/build_catalog.py stamp` would leave
    old stores in use."""
    digest = hashlib.sha256()
    for name in packed_tables.manifest()["tables"]:
        digest.update(hashlib.sha256(packed_tables.data_bytes(f"{name}.pack")).hexdigest().encode())
    digest.update(hashlib.sha256(packed_tables.data_bytes("rules.toml")).hexdigest().encode())
    assert packed_tables.manifest()["fingerprint"] == digest.hexdigest(), "rules.toml has changed; run scripts/build_catalog.py stamp"
