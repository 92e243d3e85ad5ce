"""From laws of length and traces to the columns of the queue model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.queueing import ATOM_WEIGHTS, LoadColumns, atoms_of
from rightfit.workload.traces import Lengths, Requests

FINE = 4096


def length_atoms(lengths: Lengths) -> NDArray[np.float64]:
    """A law of lengths as the slices' means that the queue model uses."""
    if lengths.variation == 0 and not lengths.even:
        return np.full(ATOM_WEIGHTS.size, lengths.mean)
    return atoms_of(np.sort(lengths.quantiles((np.arange(FINE) + 0.5) / FINE)))


def load_columns(rate_per_s: object, *, inputs: Lengths, outputs: Lengths) -> LoadColumns:
    """One law of requests at N rates per replica."""
    return LoadColumns.of(rate_per_s, input_tokens=length_atoms(inputs), output_tokens=length_atoms(outputs))


def load_of_requests(requests: Requests, *, num_replicas: object = 1) -> LoadColumns:
    """A trace as a Poisson load of its mean rate and lengths, shared by N numbers of replicas. Bursts of the trace are not in it: simulate
    them."""
    rate = requests.rate_per_s / np.atleast_1d(np.asarray(num_replicas, dtype=np.float64))
    atoms = [atoms_of(np.sort(tokens.astype(np.float64))) for tokens in (requests.input_tokens, requests.output_tokens)]
    return LoadColumns.of(rate, input_tokens=atoms[0], output_tokens=atoms[1])
