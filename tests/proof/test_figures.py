"""Families of figures: every measured row belongs to at most one, and the words that cut them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rightfit.errors import UnknownNameError
from rightfit.proof.figures import FAMILIES, card_class, engine_group, family, is_low_load, load_group, pass_kind
from rightfit.proof.tables import read_truth

TRUTH = Path(__file__).resolve().parents[2] / "validation" / "truth"


def test_rows_have_one_family_one_part_and_a_headline() -> None:
    truth = read_truth(TRUTH)
    for table, row in zip(truth.table, truth.rows, strict=True):
        owners = [found for found in FAMILIES if found.owns(row)]
        wanted = any(table in found.tables for found in FAMILIES)
        assert len(owners) == int(wanted), (table, row["id"])
        for owner in owners:
            assert sum(part.holds(row) for part in owner.parts) == 1
            assert any(headline.holds(row) for headline in owner.headlines)


def test_names_are_unique_over_families() -> None:
    labels = [part.label for found in FAMILIES for part in found.parts]
    headlines = [headline.name for found in FAMILIES for headline in found.headlines]
    assert len(set(labels)) == len(labels)
    assert len(set(headlines)) == len(headlines)
    with pytest.raises(UnknownNameError, match="passes"):
        family("pass")


@pytest.mark.parametrize(
    ("cells", "is_low", "group"),
    [
        ({"batch_or_concurrency": "1"}, True, "one request"),
        ({"batch_or_concurrency": "32", "n_devices": "8"}, True, "17 to 128 in flight"),
        ({"batch_or_concurrency": "33", "n_devices": "8"}, False, "17 to 128 in flight"),
        ({"batch_or_concurrency": "1000"}, False, "over 128 in flight"),
        ({"batch_or_concurrency": "max", "request_rate": "inf"}, False, "all at once, as many as fit"),
        ({"batch_or_concurrency": "offline max"}, False, "all at once, as many as fit"),
        ({"request_rate": "4"}, False, "open loop"),
        ({}, False, "not stated"),
    ],
)
def test_loads(cells: dict[str, str], is_low: bool, group: str) -> None:
    assert is_low_load(cells) is is_low
    assert load_group(cells) == group


def test_engines_and_cards() -> None:
    assert engine_group({"engine": "TensorRT-LLM (Triton backend)"}) == "TensorRT-LLM"
    assert engine_group({"engine": "PyTorch 1.13.1"}) == "PyTorch"
    assert engine_group({"engine": "ExLlama v1"}) == "ExLlama"
    assert engine_group({"engine": "ExLlamaV2"}) == "ExLlamaV2"
    assert engine_group({}) == "unknown"
    assert card_class({"device": "A100-80GB"}) == "ampere"
    assert card_class({"device": "RTX 3090"}) == "ampere small"
    assert card_class({"device": "CPU: Core i9-10940X"}) == "cpu"
    assert card_class({}) == "unknown"


def test_kinds_of_passes() -> None:
    names = {"resnet50": "vision", "bert-large-uncased": "encoder", "stabilityai/stable-diffusion-xl-base-1.0": "diffusion"}
    for name, kind in names.items():
        assert pass_kind({"model": name, "metric": "latency_ms"}) == kind
    assert pass_kind({"model": "openai/whisper-large-v2", "metric": "latency_ms"}) == "speech"
