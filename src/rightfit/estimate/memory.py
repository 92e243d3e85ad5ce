"""Memory of a training job: GPU peak by term, host RAM, checkpoint and disk sizes, as columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.physics import memory_host
from rightfit.physics.columns import Array, DeviceColumns, ModelColumns, SetupColumns
from rightfit.physics.memory_overheads import usable_bytes
from rightfit.physics.memory_peak import peak_memory
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class MemoryColumns:
    """`terms` [bytes per GPU at the peak] add up to `peak_bytes`, as the asked counter (setup.memory_counter) sees it.

    `required_bytes` is what the card must hold, whatever the counter; a job fits where it is at most `capacity_bytes`. `phase` holds
    numbers of `Phase`. Host RAM is per node, checkpoint and disk are for the whole job.
    """

    terms: dict[str, Array]
    peak_bytes: Array
    required_bytes: Array
    capacity_bytes: Array
    phase: NDArray[np.intp]
    host_bytes: Array
    checkpoint_bytes: Array
    disk_bytes: Array

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Whether the job fits the card."""
        return np.less_equal(self.required_bytes, self.capacity_bytes)


def memory_columns(model: ModelColumns, setup: SetupColumns, device: DeviceColumns) -> MemoryColumns:
    """Memory of every row. The columns broadcast against each other."""
    coefficients = facts.coefficients("memory")
    peak = peak_memory(model, setup, device, coefficients=coefficients)
    host = memory_host.host_bytes(model, setup, coefficients=coefficients)
    return MemoryColumns(
        terms=peak.terms,
        peak_bytes=peak.peak,
        required_bytes=peak.required,
        capacity_bytes=usable_bytes(device, coefficients=coefficients),
        phase=peak.phase,
        host_bytes=host,
        checkpoint_bytes=memory_host.checkpoint_file_bytes(model, setup),
        disk_bytes=memory_host.disk_bytes(model, setup, kept_checkpoints=coefficients["kept_checkpoints"]),
    )
