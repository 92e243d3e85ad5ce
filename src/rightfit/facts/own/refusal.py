"""What a worker tells the user in one line."""

from __future__ import annotations

from rightfit.messages import Message


class RefusedError(Exception):
    """Something that the user must know; `kind` is "file" or "input"."""

    def __init__(self, message: Message, kind: str = "input") -> None:
        super().__init__(message)
        self.message, self.kind = message, kind


def one_line(text: str) -> str:
    """The first lines of a message, joined and cut."""
    joined = " ".join(text.split())
    return joined if len(joined) <= 300 else joined[:297] + "..."
