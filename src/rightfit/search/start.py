"""How long a start takes is not known well: boot, pulling the image, fetching weights and data. Its doubt is added to that of the work by squares."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.estimate.figures import Figure, FigureColumns, normal_score
from rightfit.physics.columns import Array


def start_spread() -> tuple[float, float]:
    """Factors on the usual start at the upper ends of its 80 % and its 95 % interval."""
    usual = facts.coefficients("planning")
    return usual["start_high80"], usual["start_high95"]


def longer_start(probability: float) -> float:
    """By which factor a start may take longer, with this probability (0.5 to 1)."""
    high80, _ = start_spread()
    return float(high80 ** (normal_score(probability) / normal_score(0.9)))


def with_start(figures: FigureColumns, startup_s: Array) -> FigureColumns:
    """Total times whose interval has the doubt of their start in it; `startup_s` (N,) is part of each [s]."""
    return dataclasses.replace(figures, **_widened(figures, startup_s))


def with_one_start(figure: Figure, startup_s: float) -> Figure:
    """The same of one figure."""
    ends: dict[str, Any] = {name: float(value) for name, value in _widened(figure, startup_s).items()}
    return dataclasses.replace(figure, **ends)


def _widened(figures: Figure | FigureColumns, startup_s: Array | float) -> dict[str, Any]:
    high80, high95 = start_spread()
    factors = {"low80": 1.0 / high80, "high80": high80, "low95": 1.0 / high95, "high95": high95}
    out: dict[str, Any] = {}
    for name, factor in factors.items():
        side = -1.0 if name.startswith("low") else 1.0
        moved = np.hypot(getattr(figures, name) - figures.mid, startup_s * (factor - 1.0))
        out[name] = np.asarray(figures.mid + side * moved)
    return out
