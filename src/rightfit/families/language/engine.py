"""The physics that the search runs on: estimate/ and physics/ behind the few functions of evaluate.Physics."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimate.convert import model_columns
from rightfit.estimate.figures import FigureColumns
from rightfit.estimate.intervals import MEMORY, TIME, interval_columns, interval_models, probability_over
from rightfit.estimate.memory import MemoryColumns, memory_columns
from rightfit.estimate.regimes import RegimeColumns, regime_columns
from rightfit.estimate.software import rate_columns
from rightfit.estimate.speed import StepColumns, step_columns
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics import memory_host
from rightfit.physics.columns import Array, Columns, DeviceColumns, LinkColumns, ModelColumns, SetupColumns
from rightfit.physics.compute import ComputeTimes, compute_times
from rightfit.physics.memory_peak import Phase, peak_memory, phase_memory
from rightfit.physics.step import communication_times, step_times
from rightfit.records import dataclass
from rightfit.search.market import Volume
from rightfit.search.software import ADAPTER_METHODS
from rightfit.search.surety import Spread
from rightfit.search.training.machines import collapse
from rightfit.search.training.wish import TrainingWish

MEMORY_METRIC = "peak_memory_bytes"


@dataclass(frozen=True, slots=True)
class LanguageEngine:
    """The analytic engine for one model. A setup is offered when it fits with 90 % probability (the upper end of the 80 % interval)."""

    model: ModelColumns
    shape_typical: float

    @classmethod
    def of(cls, model: TransformerArchitecture) -> LanguageEngine:
        """The engine for an architecture."""
        return cls(model_columns([model]), float(model.certainty == "typical"))

    @property
    def key(self) -> Hashable:
        """The model and how well its shape is known: nothing else enters memory and times."""
        return (LanguageEngine, self.model.content(), self.shape_typical)

    def regime(self, setup: SetupColumns, device: DeviceColumns) -> RegimeColumns:
        """How well each setup is known."""
        return regime_columns(self.model, setup, device, shape_typical=self.shape_typical)

    def memory(self, setup: SetupColumns) -> Array:
        """Peak memory of each setup, all that the card must hold [bytes]."""
        return peak_memory(self.model, setup, DeviceColumns(), coefficients=facts.coefficients("memory")).required

    def phases(self, setup: SetupColumns) -> dict[str, Array]:
        """What the card must hold at each moment of a step [bytes]."""
        found = phase_memory(self.model, setup, coefficients=facts.coefficients("memory"))
        return {phase.name.lower(): held for phase, held in zip(Phase, found, strict=True)}

    def safety(self, setup: SetupColumns, device: DeviceColumns) -> Array:
        """The factor by which the true memory exceeds the predicted one with probability 10 %: the error of a prediction is a
        factor, so this does not depend on the prediction."""
        ones = np.ones(setup.num_rows)
        return self.figure(MEMORY_METRIC, ones, self.regime(setup, device)).high80

    def figure(self, metric: str, mid: Array, regime: RegimeColumns) -> FigureColumns:
        """A figure with its interval, by how well each row's regime is known."""
        return interval_columns(metric, mid, regime)

    def caution(self, device: DeviceColumns) -> NDArray[np.intp]:
        """0 where memory predictions were calibrated on the accelerator's family, 1 where not."""
        return interval_models()[MEMORY].uncalibrated(RegimeColumns.of(architecture=device.architecture)).astype(np.intp)

    def time_spread(self, setup: SetupColumns, device: DeviceColumns) -> Spread:
        """How far the time of each setup may lie above the predicted one: by how well its regime is known."""
        known = self.figure("total_time_s", np.ones(setup.num_rows), self.regime(setup, device))
        return Spread(known.high80, known.high95)

    def uncalibrated(self, device: DeviceColumns) -> NDArray[np.bool_]:
        """Accelerators of families that no time was calibrated on."""
        return interval_models()[TIME].uncalibrated(RegimeColumns.of(architecture=device.architecture)) > 0

    def capacity(self, device: DeviceColumns) -> Array:
        """What a job can use of each accelerator's memory [bytes]."""
        return device.memory_bytes * facts.coefficients("memory")["usable_fraction"]

    def host(self, setup: SetupColumns) -> Array:
        """Host memory per node [bytes]."""
        return memory_host.host_bytes(self.model, setup, coefficients=facts.coefficients("memory"))

    def compute(self, setup: SetupColumns, device: DeviceColumns) -> ComputeTimes:
        """Times of one micro-batch."""
        return compute_times(self.model, setup, device, rate_columns(setup, device))

    def step_s(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: Columns) -> Array:
        """Seconds of one optimizer step."""
        assert isinstance(compute, ComputeTimes)
        rates = collapse(rate_columns(setup, device))
        communication = communication_times(self.model, setup, links, rates)
        return step_times(self.model, setup, device, rates, compute=compute, communication=communication).step_s

    def volume(self, wish: TrainingWish, base: SetupColumns) -> Volume:
        """Bytes kept and moved by the whole job."""
        # The least of the precisions: an answer must not get dearer because another card of the market would train in fp32.
        weights = float(np.min(memory_host.stored_bytes(self.model, base)))
        checkpoint = float(np.min(memory_host.checkpoint_file_bytes(self.model, base)))
        trained = base.adapter_params * base.adapter_weight_bytes
        result = float(np.max(trained)) if wish.method in ADAPTER_METHODS else weights
        return Volume(weights, wish.amount.dataset_bytes, checkpoint, result)

    def details(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> tuple[MemoryColumns, StepColumns]:
        """Everything about a few rows."""
        return memory_columns(self.model, setup, device), step_columns(self.model, setup, device, links)

    def fit_probability_of(self, setup: SetupColumns, device: DeviceColumns, required_bytes: Array) -> Array:
        """Probability that each row fits its accelerator."""
        return 1.0 - probability_over(MEMORY_METRIC, required_bytes, self.capacity(device), self.regime(setup, device))
