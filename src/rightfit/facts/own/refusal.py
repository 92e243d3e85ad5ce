"""What a worker tells the user in one line."""

from __future__ import annotations


class RefusedError(Exception):
    """Something that the user must know; `kind` is "file" or "input"."""

    def __init__(self, message: str, kind: str = "input") -> None:
        super().__init__(message)
        self.kind = kind


def one_line(text: str) -> str:
    """The first lines of a message, joined and cut."""
    joined = " ".join(text.split())
    return joined if len(joined) <= 300 else joined[:297] + "..."
