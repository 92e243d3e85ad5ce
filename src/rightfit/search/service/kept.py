"""What physics says of candidates of services, kept between questions: most next questions change the budget, the places or the load, and the times
of a step stay. The key is a digest of everything that is read, so that nothing can be forgotten in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rightfit.recent import Recent, exact_key

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The last results of a pure function, within a number of bytes. Safe between threads; callers must not write into a result."""

    def __init__(self, most_bytes: int, *, size_of: Callable[[Value], int]) -> None:
        self.known: Recent[bytes, Value] = Recent(most_bytes, size_of=size_of)

    def of(self, compute: Callable[[], Value], *read: Any) -> Value:
        """The result of `compute`, which reads `read` and nothing else."""
        key = exact_key(*read)
        found = self.known.get(key)
        if found is None:
            found = compute()
            self.known.put(key, found)
        return found
