"""What physics says of candidates of services, kept between questions: most next questions change the budget, the places or the load, and the times
of a step stay. The key is a digest of everything that is read, so that nothing can be forgotten in it."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from rightfit.recent import Recent

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The last results of a pure function, within a number of bytes. Safe between threads; callers must not write into a result."""

    def __init__(self, most_bytes: int, *, size_of: Callable[[Value], int]) -> None:
        self.known: Recent[bytes, Value] = Recent(most_bytes, size_of=size_of)

    def of(self, compute: Callable[[], Value], *read: Any) -> Value:
        """The result of `compute`, which reads `read` and nothing else: records of arrays, arrays, and what prints all that it holds."""
        key = digest(*read)
        found = self.known.get(key)
        if found is None:
            found = compute()
            self.known.put(key, found)
        return found


def digest(*read: Any) -> bytes:
    """What stands for everything that these hold [16 bytes]."""
    found = hashlib.blake2b(digest_size=16)
    for part in _parts(read):
        found.update(part)
    return found.digest()


def _parts(value: Any) -> Iterator[Any]:
    """The bytes of a value, whatever it is made of. Arrays are read whole: NumPy prints a long one shortened."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"{value.dtype.str}{value.shape}".encode()
        yield np.ascontiguousarray(value).data
        return
    inner: Sequence[Any]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        inner = [part for pair in value.items() for part in pair]
    elif isinstance(value, tuple | list):
        inner = value
    else:
        yield repr(value).encode() + b"\0"
        return
    yield f"{type(value).__qualname__}{len(inner)}".encode()
    for part in inner:
        yield from _parts(part)
