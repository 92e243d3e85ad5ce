"""The user's wish, validated once, then frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightfit.workload.model import Workload as Workload

__all__ = ["Workload"]


def __getattr__(name: str) -> Any:
    """Load the model on first use: vocabulary and money are useful without."""
    if name != "Workload":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rightfit.workload.model import Workload

    return Workload
