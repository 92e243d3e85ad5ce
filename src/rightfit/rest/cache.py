"""Answers kept in memory: the most recently used, within a number of bytes."""

from __future__ import annotations

from rightfit.recent import Recent

_ENTRY_BYTES = 200  # what an entry costs beside its answer, roughly


class AnswerCache(Recent[str, bytes]):
    """Answers by key. An answer is kept once though several keys (spellings of one question) may lead to it."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes, size_of=lambda answer: len(answer) + _ENTRY_BYTES)
