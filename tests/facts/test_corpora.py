"""Data sets by name."""

from __future__ import annotations

import pytest
from complaints import complaint
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit import facts
from rightfit.errors import AmbiguousNameError, UnknownNameError

STEADY = settings(deadline=None, derandomize=True, max_examples=60)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("imagenet-1k", "ImageNet-1k (ILSVRC2012)"),
        ("ImageNet", "ImageNet-1k (ILSVRC2012)"),
        ("image net 1k", "ImageNet-1k (ILSVRC2012)"),
        ("coco", "COCO 2017 (train+val+test TFRecord)"),
        ("tatsu-lab/alpaca", "Alpaca"),
        ("wikitext-103", "WikiText-103 raw"),
        ("the pile", "The Pile"),
        ("FineWeb Edu", "FineWeb-Edu 100B shuffled (nanochat, compressed parquet)"),
        ("c4", "C4 en (json.gz)"),
    ],
)
def test_names_and_aliases(query: str, name: str) -> None:
    assert facts.dataset(query).name == name


def test_sizes_are_in_base_units() -> None:
    record = facts.dataset("imagenet-1k")
    assert (record.samples, record.size_bytes) == (1_281_167, 167.3e9)
    assert facts.dataset("the pile").tokens == 300_000_000_000


def test_misspelt_and_ambiguous_names() -> None:
    with pytest.raises(UnknownNameError) as caught:
        facts.dataset("imagnet")
    assert caught.value.nearest[0] == "ImageNet-1k (ILSVRC2012)"
    with pytest.raises(AmbiguousNameError, match="CIFAR-10, CIFAR-100"):
        facts.dataset("cifar")
    with pytest.raises(UnknownNameError, match="rightfit datasets"):
        facts.dataset("")


def test_every_name_and_alias_resolves_to_its_own_record() -> None:
    for record in facts.datasets().values():
        for text in (record.name, *record.aliases):
            assert facts.dataset(text) is record, text


def test_alias_rows_name_bundled_data_sets() -> None:
    assert {row["name"] for row in facts.table("dataset_aliases")} <= set(facts.datasets())


@STEADY
@given(st.text(max_size=60))
def test_any_text_gives_a_record_or_our_error(text: str) -> None:
    assert "\n" not in complaint(facts.dataset, text)
