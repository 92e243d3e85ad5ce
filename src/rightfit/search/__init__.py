"""Which servers are best: candidate space -> estimates -> constraints -> objective -> rank, with reasons as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightfit.search.answer import Alternative as Alternative
    from rightfit.search.answer import Assumption as Assumption
    from rightfit.search.answer import NearMiss as NearMiss
    from rightfit.search.answer import Option as Option
    from rightfit.search.answer import Plan as Plan
    from rightfit.search.answer import Reason as Reason
    from rightfit.search.answer import Rejection as Rejection
    from rightfit.search.planner import plan as plan
    from rightfit.search.single import Verdict as Verdict
    from rightfit.search.single import estimate_one as estimate_one
    from rightfit.search.single import why as why

_HOMES = {
    **dict.fromkeys(("Alternative", "Assumption", "NearMiss", "Option", "Plan", "Reason", "Rejection"), "answer"),
    "plan": "planner",
    **dict.fromkeys(("Verdict", "estimate_one", "why"), "single"),
}
__all__ = ["Alternative", "Assumption", "NearMiss", "Option", "Plan", "Reason", "Rejection", "Verdict", "estimate_one", "plan", "why"]


def __getattr__(name: str) -> Any:
    """Load the parts on first use: importing the package costs nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"rightfit.search.{_HOMES[name]}"), name)
