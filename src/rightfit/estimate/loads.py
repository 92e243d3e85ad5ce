"""From laws of length and traces to the columns of the queue model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.queueing import ATOM_WEIGHTS, LoadColumns, atoms_of
from rightfit.workload.traces import Lengths

FINE = 4096


def length_atoms(lengths: Lengths) -> NDArray[np.float64]:
    """A law of lengths as the slices' means that the queue model uses."""
    if lengths.variation == 0 and not lengths.even:
        return np.full(ATOM_WEIGHTS.size, lengths.mean)
    return atoms_of(np.sort(lengths.quantiles((np.arange(FINE) + 0.5) / FINE)))


def load_columns(rate_per_s: object, *, inputs: Lengths, outputs: Lengths) -> LoadColumns:
    """One law of requests at N rates per replica."""
    return LoadColumns.of(rate_per_s, input_tokens=length_atoms(inputs), output_tokens=length_atoms(outputs))
