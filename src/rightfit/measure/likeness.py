"""What makes two cases alike: the same job, the same server, near in batch and length. Read from the columns of `rightfit predict`.

The job is what a user keeps while servers change: the model, how it is trained or which engine serves it, and the precision. The server is the accelerator
and how many of them; memory is compared with memory of the same counter only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rightfit.measure.readers.item import number
from rightfit.measure.record import metrics
from rightfit.records import dataclass

Array = NDArray[np.float64]

_TRAINING = ("model", "method", "framework", "precision")
_SERVING = ("model", "engine", "weights_dtype")
_SAMPLES = ("task", "model", "framework", "precision")
_UNITS_OF = {"training-memory": _TRAINING, "training-step": _TRAINING, "samples-step": _SAMPLES, "samples-memory": _SAMPLES}


@dataclass(frozen=True, slots=True)
class Case:
    """One case: the figure that its metric is of, job, card, number of cards, counter of memory, and log2 of batch and length (0 where not known)."""

    figure: str
    job: tuple[str, ...]
    card: str
    count: str
    counter: str
    batch: float
    length: float


def case_of(row: Mapping[str, str], metric: str) -> Case:
    """The case of a row of cells."""
    figure = figure_of(row, metric)
    serving = figure not in _UNITS_OF
    job = tuple(_plain(name, row.get(name, "")) for name in _UNITS_OF.get(figure, _SERVING))
    length = (
        _number(row, "input_tokens") + _number(row, "output_tokens") if serving else _number(row, "seq_len") or _number(row, "image_size")
    )
    batch = _number(row, "batch_or_concurrency") if serving else _number(row, "micro_batch") or _number(row, "batch_per_gpu")
    counter = (row.get("mem_kind") or row.get("counter") or "") if figure.endswith("memory") else ""
    card, count = row.get("device" if serving else "gpu", ""), row.get("n_devices" if serving else "n_gpus", "")
    return Case(figure, job, card.strip().casefold(), count.strip(), counter.strip(), _log2(batch), _log2(length))


def figure_of(row: Mapping[str, str], metric: str) -> str:
    """The figure of a metric; memory and rates of training on samples are figures of their own. Empty where a metric is not calibrated."""
    found = metrics()[metric].figure if metric in metrics() else ""
    is_samples = "image_size" in row and "micro_batch" not in row and "engine" not in row
    return found.replace("training-", "samples-") if is_samples and found.startswith("training-") else found


def _plain(name: str, text: str) -> str:
    """The engine without its version: a new version is the same stack, with more doubt."""
    text = text.strip().casefold()
    return text.split(" (")[0] if name == "engine" else text


def _number(row: Mapping[str, str], name: str) -> float:
    return number(row.get(name)) or 0.0


def _log2(value: float) -> float:
    return math.log2(value) if value > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Cases:
    """Cases as arrays: codes of job, card and server (a server is of one job), log2 of batch and of length."""

    job: NDArray[np.intp]
    card: NDArray[np.intp]
    server: NDArray[np.intp]
    batch: Array
    length: Array

    def take(self, index: NDArray[np.intp]) -> Cases:
        """Cases `index`."""
        return Cases(self.job[index], self.card[index], self.server[index], self.batch[index], self.length[index])


def as_cases(cases: Sequence[Case]) -> Cases:
    """Cases as arrays whose codes hold among these cases only."""
    jobs = _codes((case.figure, case.job) for case in cases)
    cards = _codes((case.job, case.card, case.counter) for case in cases)
    servers = _codes((case.job, case.card, case.count, case.counter) for case in cases)
    batch, length = (np.array([getattr(case, name) for case in cases], dtype=np.float64) for name in ("batch", "length"))
    return Cases(jobs, cards, servers, batch, length)


def _codes(keys: Iterable[object]) -> NDArray[np.intp]:
    known: dict[object, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)
