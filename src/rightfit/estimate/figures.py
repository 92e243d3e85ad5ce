"""What an estimate says: figures with intervals and the terms that they are made of."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One predicted number in base units with an 80 % and a 95 % interval. `source`: formula, calibrated, measured or published."""

    mid: float
    low80: float
    high80: float
    low95: float
    high95: float
    source: str = "calibrated"

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class FigureColumns:
    """The same for N rows: five arrays of one shape."""

    mid: Array
    low80: Array
    high80: Array
    low95: Array
    high95: Array
    source: str = "calibrated"

    def row(self, index: int) -> Figure:
        """Row `index` as a Figure."""
        bounds = (self.mid, self.low80, self.high80, self.low95, self.high95)
        mid, low80, high80, low95, high95 = (float(column[index]) for column in bounds)
        return Figure(mid=mid, low80=low80, high80=high80, low95=low95, high95=high95, source=self.source)

    def take(self, index: NDArray[np.intp]) -> FigureColumns:
        """Rows `index`."""
        return FigureColumns(
            mid=self.mid[index],
            low80=self.low80[index],
            high80=self.high80[index],
            low95=self.low95[index],
            high95=self.high95[index],
            source=self.source,
        )
