"""Answers kept in memory: the most recently used, within a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict

_ENTRY_BYTES = 200  # what an entry costs beside its answer, roughly


class AnswerCache:
    """Answers by key. An answer is kept once though several keys (spellings of one question) may lead to it. Safe between threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._lock = most_bytes, threading.Lock()
        self._answers: OrderedDict[str, bytes] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: str) -> bytes | None:
        """The answer of a key, which thereby counts as used."""
        with self._lock:
            answer = self._answers.get(key)
            if answer is not None:
                self._answers.move_to_end(key)
            return answer

    def put(self, key: str, answer: bytes) -> None:
        """Keep an answer; the least recently used ones make room. One that is larger than a quarter of the room is not kept."""
        cost = len(answer) + _ENTRY_BYTES
        if cost > self._most_bytes // 4:
            return
        with self._lock:
            self._drop(key)
            self._answers[key] = answer
            self.size_bytes += cost
            while self.size_bytes > self._most_bytes:
                self._drop(next(iter(self._answers)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._answers.clear()
            self.size_bytes = 0

    def _drop(self, key: str) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None:
            self.size_bytes -= len(answer) + _ENTRY_BYTES
