"""How wide the interval of an answer is, and with what probability the case fits: the law of intervals applied to a whole table.

The engines say of each answer what it is (`regime`: the group of figures and what the width may depend on); a name of software that nobody knows
counts as an empty cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rightfit.estimate.interval_law import IntervalLaw, family_of, interval_law
from rightfit.physics.columns import Array
from rightfit.proof.software_names import COLUMNS, is_known_software

#: Kind of software of a family of figures; the others name none.
_SOFTWARE = {
    "memory": "training",
    "time": "training",
    "serving": "serving",
    "serving-memory": "serving",
    "forward": "forward",
    "forward-memory": "forward",
    "samples-memory": "samples",
    "samples-run": "samples",
    "samples-time": "samples",
    "classical": "classical",
    "classical-memory": "classical",
}
#: Beginnings of what is said of software: told by a condition of its own, so that an unknown name and an empty cell count alike.
SOFTWARE_SAID = ("engine not stated", "framework ", "engine ", "library ")
FIGURES = ("predicted", "low80", "high80", "low95", "high95")
CONDITIONS = ("no_software", "unknowns", "new_device", "eager_stack", "fully_sharded", "moe", "counter")
#: Above the upper end of a 95 % interval.
_TAIL = 0.025


def software_kind(group: str) -> str:
    """The kind of software behind a group of figures; empty where none is named."""
    return _SOFTWARE.get(family_of(group), "")


def software_remark(kind: str, cells: Mapping[str, str]) -> str:
    """What is to be said of the software that a case names: that it is not known; nothing where it is, or none is named."""
    text = cells.get(COLUMNS[kind], "").strip() if kind else ""
    return f"{COLUMNS[kind]} {text[:60]!r} is not known: as if none were stated" if text and not is_known_software(kind, text) else ""


def conditions_of(
    cells: Sequence[Mapping[str, str]], answers: Sequence[Mapping[str, Any]], devices: Mapping[str, frozenset[str]]
) -> dict[str, Array]:
    """What the width of each answer depends on, as arrays by name. `devices`: those that a family of figures was fitted on."""
    regimes = [answer["regime"] for answer in answers]
    kinds = [software_kind(regime["group"]) for regime in regimes]
    told = [sum(_bears(text, regime["group"]) for text in answer["assumptions"]) for answer, regime in zip(answers, regimes, strict=True)]
    found = {
        "no_software": [
            bool(kind) and not is_known_software(kind, row.get(COLUMNS[kind], "")) for kind, row in zip(kinds, cells, strict=True)
        ],
        "unknowns": np.log2(1.0 + np.array(told)),
        "new_device": [_is_new(regime, devices) for regime in regimes],
        "knowledge": [regime.get("knowledge", 1.0) for regime in regimes],
    }
    found |= {name: [regime.get(name, 0.0) for regime in regimes] for name in CONDITIONS if name not in found}
    return {name: np.asarray(values, dtype=np.float64) for name, values in found.items()}


def _bears(text: str, group: str) -> bool:
    """Whether an assumption makes a figure less sure by itself: which card it is does not bear on the memory of a job."""
    return not text.startswith(SOFTWARE_SAID) and not (family_of(group) == "samples-memory" and " taken as " in text)


def _is_new(regime: Mapping[str, Any], devices: Mapping[str, frozenset[str]]) -> bool:
    known, device = devices.get(family_of(regime["group"])), regime.get("device", "")
    return bool(device) and known is not None and device not in known


def widen(cells: Sequence[Mapping[str, str]], answers: Sequence[dict[str, Any]], law: IntervalLaw | None = None) -> None:
    """Put the intervals of the law, and the verdict that follows from it, into these answers."""
    kept = [i for i, answer in enumerate(answers) if answer.get("regime") and answer["predicted"]]
    if not kept:
        return
    law = law or interval_law()
    rows, told = [cells[i] for i in kept], [answers[i] for i in kept]
    groups = [answer["regime"]["group"] for answer in told]
    scale = law.scale(groups, conditions_of(rows, told, law.devices))
    mid = np.array([answer["predicted"] for answer in told], dtype=np.float64)
    found = law.bounds(groups, scale, mid)
    bounds = np.stack([found.mid, found.low80, found.high80, found.low95, found.high95], axis=1)
    rooms = np.array([answer["regime"].get("room", np.nan) for answer in told], dtype=np.float64)
    over = law.probability_over(groups, scale, np.where(np.isfinite(rooms), rooms, 0.0))
    for row, answer, values, room, probability in zip(rows, told, bounds, rooms, over, strict=True):
        answer.update(zip(FIGURES, (float(f"{value:.6g}") for value in values), strict=True))
        if np.isfinite(room):
            answer["p_fits"] = float(f"{1.0 - probability:.4g}")
            most = law.most_risk(answer["regime"]["group"])
            answer["fits"], answer["fits95"] = int(probability < most), int(probability < _TAIL)
            answer["assumptions"] = [*answer["assumptions"], f"fits: the risk of running out of memory is below {most:.0%}"]
        if remark := software_remark(software_kind(answer["regime"]["group"]), row):
            answer["assumptions"] = [*answer["assumptions"], remark]
