"""A sparse table in words: "one-hot, 2 million columns, 45 nonzeros per row", "200k features, 0.1 %
dense", one-hot 后 200 万维，每行平均 45 个非零.
"""

from __future__ import annotations

import functools

from rightfit.facts.expressions import Expression
from rightfit.units import parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Sentence


@functools.cache
def _shapes() -> tuple[Expression, ...]:
    """(Columns, cells of a row that hold something, the share of them.)"""
    said = r"(?:{is_word}|{about}|约|~|:|：|=)?\s*"
    return (
        grammar.shape(
            r"(?:{one_hot}\s*(?:{one_hot_into}\s*)*"
            + said
            + r")?(?<![\w.])(?P<value>{amount})\s*(?:{column_kind}\s?)?(?:{column})(?![a-z])"
        ),
        grammar.shape(r"(?:{apiece_sparse}\s*)?" + said + r"(?<![\w.])(?P<value>{digits})\s*(?:{nonzero})(?:\s*{apiece_sparse_behind})?"),
        grammar.shape(
            r"(?:{density_said}\s*"
            + said
            + r"(?<![\w.])(?P<value>\d+(?:\.\d+)?)\s?%)|(?<![\w.])(?P<behind>\d+(?:\.\d+)?)\s?%\s*(?:{density_behind})"
        ),
    )


def read_sparse(sentence: Sentence) -> None:
    """Columns and filled cells of a sparse table, where one is told."""
    columns, cells, share = _shapes()
    filled = cells.search(sentence.text)
    dense = share.search(sentence.text)
    if filled is None and dense is None:
        return
    if not sentence.has("columns") and (found := columns.search(sentence.text)):
        sentence.take(*found.span(), "columns", f"{parse_count(found['value'].replace(' ', '')):.0f}")
    if filled is not None:
        filled = cells.search(sentence.text)
    if filled is not None:
        sentence.take(*filled.span(), "settings", f"{filled['value']} nonzeros per row")
    elif dense := share.search(sentence.text):
        sentence.take(*dense.span(), "settings", f"density {dense['value'] or dense['behind']}%")
