"""Room on a card: what the chosen set-up must hold at each moment of a step, and the largest micro-batch that it would hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rightfit.physics.columns import DeviceColumns, SetupColumns
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.rank import Row
from rightfit.search.training.machines import collapse

if TYPE_CHECKING:
    from rightfit.search.training.found import Exploration, TrainingEngine

#: Above so many samples a micro-batch is said to be as large as one likes.
MOST_SAMPLES = 2**20
_POINTS = 34


def room_sections(exploration: Exploration, option: Option, row: Row) -> tuple[Section, ...]:
    """The section `memory`: phases [bytes on a card], what the card gives, the micro-batch and the largest one that fits the search asks for."""
    setups = exploration.space.setups.take(np.array([exploration.setup_of(row.offer, row.node)], dtype=np.intp))
    machine = exploration.fleet.machine_index[exploration.market.offers.server_index[[row.offer]]]
    columns, device = collapse(setups.columns(exploration.base)), exploration.fleet.machines.device.take(machine)
    phases = {name: float(np.max(held)) for name, held in exploration.engine.phases(columns).items()}
    largest = largest_batch(exploration.engine, columns, device)
    if not largest:
        return ()
    each = max(round(float(setups.micro_batch[0]) / option.layout.micro_batch), 1)  # a pair of answers is told as one
    batch = {"micro_batch": option.layout.micro_batch, "largest_micro_batch": largest // each}
    content = {"phase_bytes": phases, "capacity_bytes": float(exploration.engine.capacity(device)[0]), **batch}
    return (Section("memory", content, (Reason("largest_batch", batch),)),)


def largest_batch(engine: TrainingEngine, columns: SetupColumns, device: DeviceColumns) -> int:
    """The largest micro-batch of one set-up that fits the card as the search asks it to; 0 where not even one sample does."""
    low, high = 0, MOST_SAMPLES + 1
    room = float(np.ravel(engine.capacity(device))[0])
    while high - low > 1:
        points = np.unique(
            np.geomspace(max(low, 1), high, _POINTS).round() if high > 2 * low + _POINTS else np.linspace(low, high, _POINTS).round()
        )
        tried = columns.replace(micro_batch=points)
        fits = points[np.broadcast_to(engine.memory(tried) * engine.safety(tried, device) <= room, points.shape)]
        low = max(low, int(fits.max(initial=0)))
        high = min(high, int(points[points > low].min(initial=high)))
    return low
