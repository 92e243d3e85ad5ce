"""What an error says."""

from __future__ import annotations

from collections.abc import Callable

from rightfit.errors import RightfitError


def complaint(call: Callable[[str], object], text: str) -> str:
    """What our error says about `text`; '' when the call answers. Any other error passes through
    and fails the test."""
    try:
        call(text)
    except RightfitError as error:
        return str(error)
    return ""
