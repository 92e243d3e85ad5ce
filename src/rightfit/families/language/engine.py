"""The physics that the search runs on: estimate/ and physics/ behind the few functions
of evaluate.Physics."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.estimation.convert import model_columns
from rightfit.estimation.figures import FigureColumns
from rightfit.estimation.intervals import MEMORY, TIME, RegimeColumns, interval_columns, interval_models, probability_over, regime_columns
from rightfit.estimation.training import MemoryColumns, StepColumns, memory_columns, rate_columns, step_columns
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics import memory_states, serving_columns
from rightfit.physics import step as physics
from rightfit.physics.columns import Array, Columns, DeviceColumns, LinkColumns, ModelColumns, SetupColumns
from rightfit.physics.compute import ComputeTimes, compute_times
from rightfit.physics.memory_peak import Phase, own_driver_bytes, peak_memory, phase_memory, usable_bytes
from rightfit.physics.serving_columns import ServeColumns
from rightfit.physics.step import communication_times, step_times
from rightfit.recent import exact_key
from rightfit.records import dataclass
from rightfit.search.criteria import ADAPTER_METHODS
from rightfit.search.market import Volume
from rightfit.search.risk import Spread
from rightfit.search.training.machines import collapse, surely
from rightfit.search.training.wish import TrainingRequest, Tuning

MEMORY_METRIC = "peak_memory_bytes"


@dataclass(frozen=True, slots=True)
class LanguageEngine:
    """The analytic engine for one model. A setup is offered when it fits with 90 % probability (the
    upper end of the 80 % interval)."""

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
        """Peak memory of each setup, all that the card must hold where its driver takes the
        most [bytes]."""
        return peak_memory(self.model, setup, DeviceColumns(), coefficients=facts.coefficients("memory")).required

    def spared(self, device: DeviceColumns) -> Array:
        """What the driver of each accelerator takes less than the most [bytes]."""
        usual = facts.coefficients("memory")
        return np.asarray(usual["context_bytes"] - own_driver_bytes(device, coefficients=usual))

    def phases(self, setup: SetupColumns, device: DeviceColumns) -> dict[str, Array]:
        """What the card must hold at each moment of a step [bytes]."""
        found = phase_memory(self.model, setup, device, coefficients=facts.coefficients("memory"))
        return {phase.name.lower(): held for phase, held in zip(Phase, found, strict=True)}

    def safety(self, setup: SetupColumns, device: DeviceColumns, *, sure: bool = False) -> Array:
        """The factor by which the true memory exceeds the predicted one with probability 10 %, or
        5 % (`sure`): the error of a prediction is a factor, so this does not depend on the
        prediction."""
        known = self.figure(MEMORY_METRIC, np.ones(setup.num_rows), self.regime(setup, device))
        return surely(known.high80, known.high95) if sure else known.high80

    def figure(self, metric: str, mid: Array, regime: RegimeColumns) -> FigureColumns:
        """A figure with its interval, by how well each row's regime is known."""
        return interval_columns(metric, mid, regime)

    def caution(self, device: DeviceColumns) -> NDArray[np.intp]:
        """0 where memory predictions were calibrated on the accelerator's family, 1 where not."""
        return interval_models()[MEMORY].uncalibrated(RegimeColumns.of(architecture=device.architecture)).astype(np.intp)

    def time_spread(self, setup: SetupColumns, device: DeviceColumns) -> Spread:
        """How far the time of each setup may lie above the predicted one: by how well
        its regime is known."""
        known = self.figure("total_time_s", np.ones(setup.num_rows), self.regime(setup, device))
        return Spread(known.high80, known.high95)

    def uncalibrated(self, device: DeviceColumns) -> NDArray[np.bool_]:
        """Accelerators of families that no time was calibrated on."""
        return interval_models()[TIME].uncalibrated(RegimeColumns.of(architecture=device.architecture)) > 0

    def capacity(self, device: DeviceColumns) -> Array:
        """What a job can use of each accelerator's memory [bytes]."""
        return usable_bytes(device, coefficients=facts.coefficients("memory"))

    def host(self, setup: SetupColumns) -> Array:
        """Host memory per node [bytes]."""
        return memory_states.host_bytes(self.model, setup, coefficients=facts.coefficients("memory"))

    def compute(self, setup: SetupColumns, device: DeviceColumns) -> ComputeTimes:
        """Times of one micro-batch."""
        return compute_times(self.model, setup, device, rate_columns(setup, device))

    def step_s(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: Columns) -> Array:
        """Seconds of one optimizer step."""
        assert isinstance(compute, ComputeTimes)
        rates = collapse(rate_columns(setup, device))
        communication = communication_times(self.model, setup, links, rates)
        return step_times(self.model, setup, device, rates, compute=compute, communication=communication).step_s

    def volume(self, wish: TrainingRequest, base: SetupColumns) -> Volume:
        """Bytes kept and moved by the whole job."""
        # The least of the precisions: an answer must not get dearer because another card of the
        # market would train in fp32.
        weights = float(np.min(memory_states.stored_bytes(self.model, base)))
        checkpoint = float(np.min(memory_states.checkpoint_file_bytes(self.model, base)))
        trained = base.adapter_params * base.adapter_weight_bytes
        result = float(np.max(trained)) if wish.method in ADAPTER_METHODS else weights
        return Volume(weights, wish.amount.dataset_bytes, checkpoint, result)

    def details(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> tuple[MemoryColumns, StepColumns]:
        """Everything about a few rows."""
        return memory_columns(self.model, setup, device), step_columns(self.model, setup, device, links)

    def fit_probability_of(self, setup: SetupColumns, device: DeviceColumns, required_bytes: Array) -> Array:
        """Probability that each row fits its accelerator."""
        return 1.0 - probability_over(MEMORY_METRIC, required_bytes, self.capacity(device), self.regime(setup, device))


# ---- The physics of tuning on preferences and rewards: the trained model's own, and what the
# models beside it and the rollouts add.
#
# Formulas and sources: physics/step.py and docs/tasks/preference-tuning.md. No measured run has
# calibrated them, so every interval is widened by the deviations of
# facts/data/coefficients/tuning.toml.


@dataclass(frozen=True, slots=True)
class TunedMemory:
    """What lies beside the trained model, per GPU [bytes]: frozen and second models by name
    while it trains, and all of a card's memory by name while the engine answers (empty
    without rollouts)."""

    beside: dict[str, Array]
    answering: dict[str, Array]

    @property
    def beside_bytes(self) -> Array:
        """All models beside the trained one."""
        return sum(self.beside.values(), start=np.zeros(1))

    @property
    def answering_bytes(self) -> Array:
        """All that lies on a card while the engine answers."""
        return sum(self.answering.values(), start=np.zeros(1))


@dataclass(frozen=True, slots=True)
class TunedTimes:
    """Seconds of an iteration, shape (N,): training of the policy, of the value model, scoring, and
    what rollouts add."""

    train_s: Array
    value_s: Array
    scoring_s: Array
    rollout_s: Array

    @property
    def step_s(self) -> Array:
        """All of them."""
        return self.train_s + self.value_s + self.scoring_s + self.rollout_s


@dataclass(frozen=True, slots=True)
class TunedEngine(LanguageEngine):
    """The analytic engine of one model that learns from preferences or rewards."""

    arch: TransformerArchitecture
    tuning: Tuning
    policy: ModelColumns  # with the vocabulary's head, which a reward model in training lacks

    @classmethod
    def tuned(cls, wish: TrainingRequest) -> TunedEngine:
        """The engine of a wish with a tuning."""
        assert wish.tuning is not None
        policy = model_columns([wish.model])
        trained = policy.replace(has_lm_head=0.0) if wish.tuning.method.method == "reward" else policy
        return cls(trained, float(wish.model.certainty == "typical"), wish.model, wish.tuning, policy)

    @property
    def key(self) -> Hashable:
        """The models and all that the wish says of learning: nothing else enters memory and
        times."""
        return (TunedEngine, exact_key(self.model, self.shape_typical, self.arch, self.tuning, self.policy))

    def memory(self, setup: SetupColumns) -> Array:
        """Peak memory of each setup over training and answering [bytes]."""
        found = self._memory(setup, DeviceColumns())
        return np.asarray(np.maximum(LanguageEngine.memory(self, setup) + found.beside_bytes, found.answering_bytes))

    def phases(self, setup: SetupColumns, device: DeviceColumns) -> dict[str, Array]:
        """What the card must hold at each moment of a step, and while answers
        are written [bytes]."""
        found = self._memory(setup, device)
        training = {name: held + found.beside_bytes for name, held in LanguageEngine.phases(self, setup, device).items()}
        return {**training, **({"answering": found.answering_bytes} if found.answering else {})}

    def _memory(self, setup: SetupColumns, device: DeviceColumns) -> TunedMemory:
        usual, method = facts.coefficients("tuning"), self.tuning.method
        own = physics.state_bytes(self.model, setup)
        copy = physics.frozen_bytes(self.policy, setup, weight_bytes=usual["frozen_weight_bytes"])
        size = self._size()
        beside = {}
        if method.reference and self.tuning.update == "full":  # adapters are switched off to get the reference
            beside["reference"] = copy
        if size:
            beside["reward_model"] = copy * size
        if method.value:
            beside["value_model"] = own.kept * size
        if not self.tuning.rollout:
            logits = physics.frozen_logits_bytes(self.model, setup, logit_bytes=usual["frozen_logit_bytes"])
            return TunedMemory({**beside, **({"frozen_logits": logits} if method.reference else {})}, {})
        engine = self._engine_bytes(setup)
        context = {"context": own_driver_bytes(device, coefficients=facts.coefficients("memory"))}
        if self.tuning.is_apart:
            return TunedMemory(beside, {**engine, **context})
        return TunedMemory(beside, {"weights": own.weights, "states": own.trained, **beside, **engine, **context})

    def _size(self) -> float:
        """Parameters of the reward model over those of the trained one; 0
        without a reward model."""
        other = self.tuning.reward_model
        return float(other.params_total) / float(self.arch.params_total) if other is not None else 0.0

    def _engine_bytes(self, setup: SetupColumns) -> dict[str, Array]:
        """Weights, least cache and the rest of the engine that answers, per GPU of it."""
        usual = facts.coefficients("tuning")
        tensor, stages = self._engine_layout(setup)
        serve = ServeColumns(tensor=tensor, pipeline=stages)
        length = np.full(1, self.tuning.prompt_tokens + self.tuning.answer_tokens)
        cache = serving_columns.kv_bytes_per_device(self.policy, serve, tokens=length)
        return {
            "engine_weights": serving_columns.weights_bytes_per_device(self.policy, serve),
            "engine_cache": cache * usual["engine_running"],
            "engine": np.full(1, usual["engine_bytes"]),
        }

    def _engine_layout(self, setup: SetupColumns) -> tuple[Array, Array]:
        """GPUs of a server and servers that one engine takes."""
        usual = facts.coefficients("tuning")
        tensor = physics.engine_gpus(self.policy, setup, most=usual["most_engine_gpus"])
        whole = serving_columns.weights_bytes_per_device(self.policy, ServeColumns())
        return tensor, physics.engine_stages(setup, tensor=tensor, weights_bytes=whole, most_bytes=usual["most_engine_weights"])

    def host(self, setup: SetupColumns) -> Array:
        """Host memory per node [bytes]: what is moved there of a value model's states counts as
        for the trained one."""
        own = LanguageEngine.host(self, setup)
        nodes = np.maximum(np.ceil(setup.num_gpus / setup.gpus_per_node), 1.0)
        moved = memory_states.offloaded_bytes(self.model, setup) / nodes
        return np.asarray(own + moved * self._size() * float(self.tuning.method.value))

    def step_s(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: Columns) -> Array:
        """Seconds of one iteration: rollout, scoring and training."""
        assert isinstance(compute, ComputeTimes)
        return self._times(setup, device, links, compute).step_s

    def _times(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns, compute: ComputeTimes) -> TunedTimes:
        rates, method = collapse(rate_columns(setup, device)), self.tuning.method
        communication = communication_times(self.model, setup, links, rates)
        train = step_times(self.model, setup, device, rates, compute=compute, communication=communication).step_s
        forward = physics.forward_s(setup, rates, compute=compute, communication=communication)
        size = self._active()
        scoring = forward * (method.policy_forwards + method.reference + size * (1.0 + method.value))
        value = train * size * float(method.value)
        if not self.tuning.rollout:
            return TunedTimes(train, value, scoring, 0.0 * train)
        answering = self._rollout_s(setup, device, links)
        if self.tuning.rollout == "async":  # the next answers are written meanwhile; the longer of the two counts
            answering = np.maximum(answering - train - value - scoring, 0.0)
        return TunedTimes(train, value, scoring, answering)

    def _active(self) -> float:
        """Parameters that a token passes through in the reward model, over those
        of the trained one."""
        other = self.tuning.reward_model
        return float(other.params_active) / float(self.arch.params_active) if other is not None else 0.0

    def _rollout_s(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> Array:
        from rightfit.estimation.serving_extras import Rollout, rollout_s  # half of serving, which most methods never ask

        tensor, stages = self._engine_layout(setup)
        engines = np.maximum(np.floor(setup.num_gpus / (tensor * stages)), 1.0)
        sequences = setup.data * setup.micro_batch * setup.grad_accum
        memory = np.maximum(device.memory_bytes, 1.0)
        share = self.capacity(device) / memory
        if not self.tuning.is_apart:
            lying = self._memory(setup, device)
            outside = [value for name, value in lying.answering.items() if not name.startswith("engine")]
            share = share - sum(outside, start=np.zeros(1)) / memory
        rollout = Rollout(tensor, stages, sequences / engines, np.maximum(share, 0.0), self.tuning.prompt_tokens, self.tuning.answer_tokens)
        return rollout_s(self.arch, self.policy, device, links, rollout, gpus_per_node=setup.gpus_per_node)

    def figure(self, metric: str, mid: Array, regime: RegimeColumns) -> FigureColumns:
        """A figure with its interval, widened by what no measured run has told yet."""
        usual = facts.coefficients("tuning")
        name = "memory" if metric == MEMORY_METRIC else "rollout_time" if self.tuning.rollout else "pair_time"
        return LanguageEngine.figure(self, metric, mid, regime).widened(usual[f"{name}_deviation"])

    def volume(self, wish: TrainingRequest, base: SetupColumns) -> Volume:
        """Bytes kept and moved, the reward model's weights among them."""
        found = LanguageEngine.volume(self, wish, base)
        more = self._size() * float(self.arch.params_total) * facts.coefficients("tuning")["frozen_weight_bytes"]
        return dataclasses.replace(found, weights_bytes=found.weights_bytes + more)

    def details(self, setup: SetupColumns, device: DeviceColumns, links: LinkColumns) -> tuple[MemoryColumns, StepColumns]:
        """Everything about a few rows: the models beside the trained one, and the
        phases of an iteration."""
        memory, step = LanguageEngine.details(self, setup, device, links)
        times = self._times(setup, device, links, self.compute(setup, device))
        more = {"value_s": times.value_s, "scoring_s": times.scoring_s, "rollout_s": times.rollout_s}
        shape = step.step_s.shape
        terms = {**step.terms, **{name: np.broadcast_to(value, shape) for name, value in more.items()}}
        told = StepColumns(terms, np.broadcast_to(times.step_s, shape), step.model_flops, step.bottleneck)
        return self._told_memory(memory, self._memory(setup, device), shape), told

    def _told_memory(self, memory: MemoryColumns, found: TunedMemory, shape: tuple[int, ...]) -> MemoryColumns:
        """Terms of the phase that needs more, row by row."""
        required = np.broadcast_to(memory.required_bytes + found.beside_bytes, shape)
        answering = np.broadcast_to(found.answering_bytes, shape)
        training = {**memory.terms, **found.beside}
        names = dict.fromkeys((*training, *found.answering))
        zero, later = np.zeros(1), answering > required
        terms = {name: np.where(later, found.answering.get(name, zero), training.get(name, zero)) for name in names}
        peak = np.where(later, answering, memory.peak_bytes + found.beside_bytes)
        return dataclasses.replace(memory, terms=terms, peak_bytes=peak, required_bytes=np.maximum(required, answering))
