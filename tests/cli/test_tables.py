"""Plain tables that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightfit.cli.output import markdown, plain, render, text_width, wrap
from rightfit.explain.messages import default_lang, label, labels
from rightfit.explain.quantities import Column, Table

COLUMNS = (Column("a"), Column("b", right=True, drop=1), Column("c", flexible=True, drop=2))


def test_numbers_are_right_aligned_and_columns_dropped_in_order() -> None:
    table = Table(COLUMNS, [{"a": "x", "b": "1", "c": "long text here"}, {"a": "yy", "b": "100", "c": "z"}])
    assert render(table, lang="en", width=80) == "a     b  c\n--  ---  --------------\nx     1  long text here\nyy  100  z"
    assert render(table, lang="en", width=10) == "a     b\n--  ---\nx     1\nyy  100"
    assert render(table, lang="en", width=3) == "a\n--\nx\nyy"


def test_flexible_columns_are_cut_when_nothing_can_be_dropped() -> None:
    table = Table((Column("a"), Column("c", flexible=True)), [{"a": "x", "c": "0123456789" * 3}])
    assert render(table, lang="en", width=20).splitlines()[-1] == "x  0123456789012345…"


def test_chinese_characters_take_two_columns() -> None:
    assert text_width("机型 A10") == 8
    table = Table((Column("a"), Column("b")), [{"a": "阿里云", "b": "x"}, {"a": "aws", "b": "y"}])
    assert render(table, lang="zh", width=80).splitlines()[2:] == ["阿里云  x", "aws     y"]


def test_markdown_escapes() -> None:
    assert (
        markdown(Table((Column("a"), Column("b", right=True)), [{"a": "x|y", "b": 1}]), lang="en") == "| a | b |\n|---|---:|\n| x\\|y | 1 |"
    )


@given(st.text(st.sampled_from("ab 中文，。-()"), max_size=120), st.integers(10, 60))
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    line = "- " + " ".join(text.split())
    wrapped = wrap(line, width=width)
    assert wrapped.replace("\n", "").replace(" ", "") == line.replace(" ", "")
    longest_word = max((text_width(word) for word in line.split(" ")), default=0)
    assert all(text_width(part) <= max(width, longest_word + 2) for part in wrapped.splitlines())


def test_hanging_indent() -> None:
    assert wrap("- one two three four", width=12) == "- one two\n  three four"
    assert wrap("每百万 token $0.152。", width=19) == "每百万 token\n$0.152。"
    assert wrap("end to end 11.5 s / 13.8 s here", width=22) == "end to end 11.5 s /\n13.8 s here"
    assert wrap("spot: 1 x A100-80GB for it", width=12) == "spot:\n1 x A100-80GB\nfor it"
    assert wrap("    deep text that is long", width=14) == "    deep text\n    that is\n    long"


def test_every_label_has_both_languages_with_the_same_fields() -> None:
    for section in labels().values():
        for entry in section.values():
            assert set(entry) == {"en", "zh"}
            assert sorted(part.split("}")[0] for part in entry["en"].split("{")[1:]) == sorted(
                part.split("}")[0] for part in entry["zh"].split("{")[1:]
            )


def test_labels() -> None:
    assert label("column", "provider", "zh") == "云厂商"
    assert label("column", "some_new_key", "en") == "some new key"
    assert default_lang({"LANG": "zh_CN.UTF-8"}) == "zh"
    assert default_lang({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}) == "en"
    assert default_lang({}) == "en"


def test_plain_values() -> None:
    assert plain({"a": float("nan"), "b": (1.0, 2.5), "c": True}) == {"a": None, "b": [1, 2.5], "c": True}


@pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(1)>",
        "[text](javascript:alert(1))",
        "![](https://x/y)",
        "`code`",
        "a\n# heading",
        "</td><script>",
        "<!-- x -->",
        "[a][b]",
    ],
)
def test_markdown_has_no_markup_of_names(name: str) -> None:
    from rightfit.cli.output import Format, _markdown

    class View:
        lang, format = "en", Format.markdown

    rendered = markdown(Table([Column("figure")], [{"figure": name}], title=name), lang="en") + _markdown(f"Best: {name}", View())  # type: ignore[arg-type]
    assert "\n# " not in _markdown("x", View()) + markdown(Table([Column("figure")], [{"figure": name}]), lang="en")  # type: ignore[arg-type]
    for mark in ("<img", "<script", "</td", "<!--", "](", "[a][b]", " `code`"):
        assert mark not in rendered
