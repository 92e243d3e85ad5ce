"""Denials ("is not a T4", "放不下"): a statement with one is judged affirmed, and the verdict is
turned round, so that a statement and its denial are never both right or both wrong."""

from __future__ import annotations

import functools
import re
import tomllib
from typing import Any

from rightfit.facts.expressions import Expression, expression
from rightfit.market.packed_tables import data_bytes

#: What parts a statement into clauses: a denial holds within its own.
_CLAUSE = re.compile(r"[,，;；。！!\n]|[：:](?!//)|\.\s|但是?|\bbut\b")
_TURNED = {"right": "wrong", "wrong": "right"}


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(data_bytes("denials.toml").decode())


@functools.cache
def _denied() -> tuple[tuple[Expression, str], ...]:
    return tuple((expression(pattern), meant) for pattern, meant in _table()["denied"])


@functools.cache
def _pattern(name: str) -> Expression:
    return expression(_table()[name])


def affirmed(text: str) -> str | None:
    """What a statement of one clause denies ("the A10 has no NVLink": "the A10 has NVLink"); None
    where it denies nothing, denies twice, or asks."""
    if _pattern("asked").search(text):
        return None
    kept: list[str] = []

    def hidden(found: re.Match[str]) -> str:
        kept.append(found[0])
        return f"\0{len(kept) - 1}\0"

    said = _pattern("kept").sub(hidden, text.strip(" ,，。.!！"))
    for pattern, meant in _denied():
        changed, count = pattern.subn(meant, said)
        if count:
            is_twice = count > 1 or any(other.search(changed) for other, _ in _denied())
            if is_twice or _CLAUSE.search(re.sub(r"[(（][^()（）]*[)）]", "", changed)):
                return None
            restored = re.sub(r"\0(\d+)\0", lambda found: kept[int(found[1])], changed)
            return " ".join(restored.split())
    return None


def turned(verdict: str | None) -> str | None:
    """The verdict on a denial of what has this verdict."""
    return _TURNED.get(verdict or "", verdict)
