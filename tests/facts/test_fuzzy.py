"""Tokens and nearest names."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.facts import tables

STEADY = settings(deadline=None, derandomize=True, max_examples=60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Meta-Llama-3-8B", ("meta", "llama", "3", "8b")),
        ("llama3-8b", ("llama", "3", "8b")),
        ("Qwen2.5-0.5B", ("qwen", "2.5", "0.5b")),
        ("Qwen-1_8B", ("qwen", "1.8b")),
        ("Mistral-7B-v0.1", ("mistral", "7b", "v", "0.1")),
        ("x-bnb-4bit", ("x", "bnb", "4bit")),
        ("--", ()),
        ("模型7B", ("模型", "7b")),
    ],
)
def test_tokens(text: str, words: tuple[str, ...]) -> None:
    assert tables.tokens(text) == words


def test_noise_depends_on_a_size() -> None:
    assert tables.without_noise(("llama", "3", "8b", "base", "instruct")) == ("llama", "3", "8b")
    assert tables.without_noise(("bert", "base")) == ("bert", "base")
    assert tables.without_noise(("chat",)) == ("chat",)


def test_nearest_orders_by_likeness() -> None:
    names = ["llama-3-8b", "llama-3-70b", "qwen-7b", "bert"]
    assert tables.nearest("lama-3-8b", names)[0] == "llama-3-8b"
    assert tables.nearest("", names) == ()
    assert tables.nearest("zzzz", names) == ()


@STEADY
@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=8))
def test_nearest_returns_given_names_without_repeats(text: str, names: list[str]) -> None:
    found = tables.nearest(text, names)
    assert set(found) <= set(names)
    assert len(found) == len(set(found)) <= 3
