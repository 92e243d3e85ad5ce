"""Models without a name: dimensions and bare sizes."""

from __future__ import annotations

import math
from statistics import quantiles

import pytest
from complaints import complaint
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit import facts
from rightfit.errors import InputError, QuantityError
from rightfit.facts import dimensions
from rightfit.facts.parameter_count import count_parameters

STEADY = settings(deadline=None, derandomize=True, max_examples=60)


LLAMA = "layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256"


def test_given_dimensions_count_as_the_model_they_describe() -> None:
    record = dimensions.given_architecture(LLAMA)
    known = facts.model("meta-llama/Meta-Llama-3-8B")
    assert record.params_total == known.params_total == 8_030_261_248
    assert (record.head_dim, record.attention_kind, record.certainty) == (128, "gqa", "given")


def test_given_experts() -> None:
    record = dimensions.given_architecture("layers=32 hidden=4096 heads=32 kv_heads=8 ffn=14336 vocab=32000 experts=8 top_k=2")
    known = facts.model("mistralai/Mixtral-8x7B-v0.1")
    assert (record.params_total, record.params_active) == (known.params_total, known.params_active)
    assert record.kind == "moe-decoder"


def test_what_is_not_given_is_assumed_and_named() -> None:
    record = dimensions.given_architecture("layers=24,hidden=2048")
    assert (record.num_heads, record.head_dim) == (16, 128)
    for word in ("num_heads=16", "num_kv_heads=", "intermediate_size=", "vocab_size="):
        assert word in record.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hidden=4096", "need layers="),
        ("layers=2", "need hidden="),
        ("layers=2,hidden=64,foo=1", "'foo'; known: layers"),
        ("layers=2,hidden=64,layers=3", "given twice"),
        ("layers=-2,hidden=64", "must be a whole number from 1 to 10,000"),
        ("layers=2.5,hidden=64", "must be a whole number"),
        ("layers=nan,hidden=64", "must be a whole number"),
        ("layers=0,hidden=64", "must be a whole number"),
        ("layers=2,hidden=99999999", "from 1 to 1,000,000"),
        ("layers=2,hidden=4097,heads=32", "hidden=4097 is not divisible by heads=32"),
        ("layers=2,hidden=4096,heads=32,kv_heads=5", "kv_heads=5 does not divide heads=32"),
        ("layers=2,hidden=64,experts=4,top_k=8", "top_k=8 is more than experts=4"),
        ("layers=2,hidden=64,dense_layers=3,experts=4", "dense_layers=3 is more than layers=2"),
        ("=", "unknown model dimension ''"),
        ("layers", "unknown model dimension 'layers'"),
    ],
)
def test_bad_dimensions(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dimensions.given_architecture(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("7B", 7_000_000_000),
        ("350M", 350_000_000),
        ("1.5b", 1_500_000_000),
        ("1.5 billion", 1_500_000_000),
        ("13B params", 13_000_000_000),
        ("70亿", 7_000_000_000),
        ("1,500M", 1_500_000_000),
        ("1T", 1_000_000_000_000),
        ("7", None),
        ("B7", None),
        ("7BB", None),
        ("", None),
        ("llama", None),
    ],
)
def test_bare_counts(text: str, count: int | None) -> None:
    assert dimensions.parameter_count(text) == count


@pytest.mark.parametrize("text", ["1k", "0B", "999T"])
def test_absurd_counts(text: str) -> None:
    with pytest.raises(QuantityError, match="outside 1M to 20T"):
        dimensions.parameter_count(text)


@pytest.mark.parametrize("text", ["100M", "350M", "1B", "3B", "7B", "13B", "34B", "70B", "180B", "405B", "1T"])
def test_typical_shape_has_the_count_and_whole_heads(text: str) -> None:
    record = facts.model(text)
    count = dimensions.parameter_count(text)
    assert count is not None
    assert record.params_total == count
    assert record.certainty == "typical"
    assert count_parameters(record).total == pytest.approx(count, rel=0.01)
    assert record.hidden_size == record.num_heads * record.head_dim
    assert record.num_heads % record.num_kv_heads == 0
    assert record.intermediate_size >= record.hidden_size


def test_seven_billion_looks_like_a_seven_billion_model() -> None:
    record = facts.model("7B")
    assert record.hidden_size == 4096
    assert 28 <= record.num_layers <= 36
    assert record.num_heads == 32


def test_typical_shape_is_as_far_off_as_its_docstring_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave each decoder out: median and 80th percentile of hidden size 0 and 20 %, of
    layers 13 and 29 %."""
    every = dimensions._dense_decoders()
    assert len(every) == 129
    hidden, layers = [], []
    for left_out in every:
        others = tuple(one for one in every if one.params_total != left_out.params_total)
        monkeypatch.setattr(dimensions, "_dense_decoders", lambda others=others: others)
        shape = dimensions.typical_architecture(left_out.params_total)
        hidden.append(abs(math.log(shape.hidden_size / left_out.hidden_size)))
        layers.append(abs(math.log(shape.num_layers / left_out.num_layers)))
    assert quantiles(hidden, n=10)[4] <= 0.05
    assert quantiles(hidden, n=10)[7] <= math.log(1.21)
    assert quantiles(layers, n=10)[4] <= math.log(1.14)
    assert quantiles(layers, n=10)[7] <= math.log(1.29)


@STEADY
@given(st.integers(min_value=1_000_000, max_value=20_000_000_000_000))
def test_every_size_has_a_shape(count: int) -> None:
    record = dimensions.typical_architecture(count)
    assert record.num_layers >= 1
    assert record.num_heads % record.num_kv_heads == 0
    assert record.params_total == count


@STEADY
@given(st.text(alphabet="layershidenkvf=,;0123456789 .-_", max_size=60))
def test_any_text_gives_a_record_or_our_error(text: str) -> None:
    assert "\n" not in complaint(dimensions.given_architecture, text)
