"""What was used last, kept in memory within a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key, the most recently used. `size_of`: what a value costs [bytes]. Safe between threads."""

    def __init__(self, most_bytes: int, *, size_of: Callable[[Value], int]) -> None:
        self.most_bytes, self._size_of, self._lock = most_bytes, size_of, threading.Lock()
        self._known: OrderedDict[Key, Value] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def largest_bytes(self) -> int:
        """The largest value that is kept: a quarter of the room [bytes]."""
        return self.most_bytes // 4

    def get(self, key: Key) -> Value | None:
        """The value of a key, which thereby counts as used."""
        with self._lock:
            value = self._known.get(key)
            if value is not None:
                self._known.move_to_end(key)
            return value

    def put(self, key: Key, value: Value) -> None:
        """Keep a value that is not too large; the least recently used ones make room."""
        size = self._size_of(value)
        if size > self.largest_bytes:
            return
        with self._lock:
            self._drop(key)
            self._known[key] = value
            self.size_bytes += size
            while self.size_bytes > self.most_bytes:
                self._drop(next(iter(self._known)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()
            self.size_bytes = 0

    def _drop(self, key: Key) -> None:
        value = self._known.pop(key, None)
        if value is not None:
            self.size_bytes -= self._size_of(value)
