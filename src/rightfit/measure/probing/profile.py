"""What PyTorch's profiler saw of a few steps: operators by kind (facts/data/profile_kinds.csv), and those that take most time alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from rightfit import facts

#: Operators that a record names.
_MOST = 12
OTHER = "other"


@cache
def _kinds() -> tuple[tuple[str, str], ...]:
    return tuple((row["word"], row["kind"]) for row in facts.table("profile_kinds"))


def kind_of(name: str) -> str:
    """The kind of an operator or kernel by the first word of the table that its name holds."""
    plain = name.casefold()
    return next((kind for word, kind in _kinds() if word in plain), OTHER)


def profile_of(tallies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Seconds a step by kind, and of the operators that take most; on the card where there is one, else on the host. Empty where nothing was profiled."""
    tally = next((one for one in tallies if one.get("operators")), None)
    if tally is None:
        return {}
    steps = max(int(tally["profiled"]), 1)
    on_card = any(device > 0 for _, _, device, _, _ in tally["operators"])
    rows = [(str(name), (device if on_card else host) / steps, int(calls)) for name, host, device, calls, _ in tally["operators"]]
    rows = [row for row in rows if row[1] > 0 and not row[0].startswith("ProfilerStep")]
    kinds: dict[str, float] = {}
    for name, seconds, _ in rows:
        kinds[kind_of(name)] = kinds.get(kind_of(name), 0.0) + seconds
    largest = sorted(rows, key=lambda row: -row[1])[:_MOST]
    return {
        "steps": steps,
        "where": "card" if on_card else "host",
        "kinds_s": dict(sorted(kinds.items(), key=lambda pair: -pair[1])),
        "operators": [{"name": name, "seconds": seconds, "calls": calls / steps} for name, seconds, calls in largest],
    }
