"""What was used last, kept in memory within a number of bytes, and keys that stand for all that an
answer was made of."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Generic, TypeVar

import numpy as np

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Values by key, the most recently used. `size_of`: what a value costs [bytes].
    Safe between threads."""

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


#: Classes of which `repr` says all.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes, datetime.date, datetime.datetime})


def exact_key(*parts: Any) -> bytes:
    """What stands for parts, their classes, and every value inside them, arrays to the last byte
    [16 bytes]. Equal mappings have equal keys.

    TypeError for an object that does not say what it holds: a key that leaves something out answers
    one question with another's answer.
    """
    said: list[Any] = []
    _say(parts, said.append)
    return hashlib.blake2b(b"".join(said), digest_size=16).digest()


def _say(value: Any, say: Callable[[Any], None]) -> None:
    """Bytes that no other value gives: they begin with its class and tell where it ends."""
    kind = value.__class__
    if kind in _PLAIN:
        say(f"{kind.__name__} {value!r};".encode("utf-8", "surrogatepass"))
        return
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        say(f"array {value.dtype.str}{value.shape};".encode())
        say(value.tobytes())
        return
    inside = _inside(kind, value)
    if _PLAIN.issuperset(map(type, inside)):
        say(f"{kind.__qualname__} {tuple(inside)!r};".encode("utf-8", "surrogatepass"))
        return
    say(f"{kind.__qualname__} {len(inside)};".encode())
    for part in inside:
        _say(part, say)


def _inside(kind: type, value: Any) -> Sequence[Any]:
    """The values that one is made of."""
    if kind is tuple or kind is list:
        return value  # type: ignore[no-any-return]
    if names := _fields(kind):
        return [getattr(value, name) for name in names]
    if isinstance(value, Mapping):
        return [part for item in sorted(value.items(), key=lambda item: exact_key(item[0])) for part in item]
    if isinstance(value, set | frozenset):
        return sorted(map(exact_key, value))
    if isinstance(value, enum.Enum):
        return (value.name,)
    if isinstance(value, np.ndarray):
        return (value.shape, *value.ravel().tolist())
    if isinstance(value, PurePath):
        return (str(value),)
    if isinstance(value, list | tuple):
        return value
    if hasattr(value, "model_dump"):
        return (value.model_dump(),)
    raise TypeError(f"{kind.__qualname__} does not say what it holds")


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
