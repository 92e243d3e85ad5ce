"""Requests to classical models (one row each) on processors: time and memory from the algorithm,
its size and its library.

Rates are of validation/measured_classical_service.csv, taken with CPU time on one core and carried
to other processors by the speed of a core (facts/data/classical_cpus.csv), as in
estimate/classical.py. No published rows measure such services: nothing could be left out to test
them, so their intervals are those of predictions of classical models on other people's machines.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rightfit import facts
from rightfit.errors import UnavailableError
from rightfit.estimation.classical import ClassicalTask, job_columns
from rightfit.estimation.classical_rates import counts
from rightfit.messages import Message
from rightfit.physics.classical import CpuColumns, pass_s, request_core_s, worker_bytes
from rightfit.physics.classical_work import Algorithm, grown_leaves, grown_levels
from rightfit.physics.columns import Array
from rightfit.records import dataclass

#: Algorithm -> the word of its coefficients.
FAMILIES: Mapping[Algorithm, str] = {
    Algorithm.BOOST_HIST: "boosting",
    Algorithm.BOOST_EXACT: "boosting",
    Algorithm.FOREST_EXACT: "forest",
    Algorithm.FOREST_RANDOM: "forest",
    Algorithm.FOREST_HIST: "forest",
    Algorithm.LINEAR_ITERATIVE: "linear",
    Algorithm.LINEAR_COORDINATE: "linear",
    Algorithm.LINEAR_CLOSED: "linear",
    Algorithm.ONE_PASS: "linear",
    Algorithm.KMEANS: "linear",
    Algorithm.MINIBATCH_KMEANS: "linear",
    Algorithm.PCA: "linear",
    Algorithm.RANDOM_SVD: "linear",
    Algorithm.MLP: "linear",
    Algorithm.KERNEL_SVM: "kernel",
    Algorithm.KNN_BRUTE: "neighbours",
}
_TREES = ("boosting", "forest")
_READ_WHOLE = ("kernel", "neighbours")


@dataclass(frozen=True, slots=True)
class ClassicalService:
    """A fitted model behind a web server. `cols` of a request, `operations` of a row, `model_bytes`
    of one copy; `family` names its rates."""

    name: str
    library: str
    family: str
    cols: float
    trees: float
    operations: float
    model_bytes: float
    certainty: str = "exact"

    @property
    def params_total(self) -> float:
        """The model's size in numbers of four bytes."""
        return self.model_bytes / 4.0


def classical_service(name: str, task: ClassicalTask) -> ClassicalService:
    """The service of a model that was trained by a task; raises for algorithms that
    score no single rows."""
    family = FAMILIES.get(task.algorithm)
    if family is None:
        raise UnavailableError(Message("estimate.scores_no_rows", algorithm=name))
    operations, model_bytes = _size(task, family)
    trees = task.trees * task.outputs if family in _TREES else 0.0
    return ClassicalService(name, task.library, family, task.cols, trees, operations, model_bytes)


def _size(task: ClassicalTask, family: str) -> tuple[float, float]:
    """Operations of one row, and bytes of the model."""
    known = coefficients()
    if family in _TREES:
        job = job_columns([task])
        trees, levels, leaves = task.trees * task.outputs, float(grown_levels(job, counts())[0]), float(grown_leaves(job, counts())[0])
        return trees * levels, trees * 2.0 * leaves * rate("node_bytes", task.library, family)
    if family == "kernel":
        vectors = task.rows * known["support_share"]
        return vectors * task.cols, vectors * task.cols * task.element_bytes
    if family == "neighbours":
        return task.rows * task.cols, task.rows * task.cols * task.element_bytes
    weights = task.weights or task.cols * max(task.outputs, 1.0) * (task.k if task.algorithm in _MANY else 1.0)
    return weights, weights * task.element_bytes


_MANY = (Algorithm.KMEANS, Algorithm.MINIBATCH_KMEANS, Algorithm.PCA, Algorithm.RANDOM_SVD)


def one(value: float) -> Array:
    """A column of one row."""
    return np.array([value])


def coefficients() -> Mapping[str, float]:
    """Rates of services of classical models."""
    return facts.coefficients("classical_service")


_UNITS = {"call_us": 1e-6, "tree_us": 1e-6, "operation_ns": 1e-9, "node_bytes": 1.0}


def _rate(name: str, service: ClassicalService) -> float:
    return rate(name, service.library, service.family)


def rate(name: str, library: str, family: str) -> float:
    """One rate in base units, from the special to the general: of the family in this
    library, of the family."""
    known = coefficients()
    special = f"{name}.{family}.{library}"
    return known[special if special in known else f"{name}.{family}"] * _UNITS[name]


def core_seconds(service: ClassicalService, cpu: CpuColumns) -> Array:
    """Core seconds of a request on each processor, shape (N,)."""
    known = coefficients()
    return request_core_s(
        web_s=one(known["web_us"] * 1e-6),
        cell_s=one(known["cell_us"] * 1e-6),
        cols=one(service.cols),
        call_s=one(_rate("call_us", service)),
        tree_s=one(_rate("tree_us", service) if service.trees else 0.0),
        trees=one(service.trees),
        operations=one(service.operations),
        operation_s=one(_rate("operation_ns", service)),
        stream_bytes=one(service.model_bytes if service.family in _READ_WHOLE else 0.0),
        core_bandwidth=np.minimum(cpu.bandwidth / np.maximum(cpu.cores, 1.0), known["core_stream_gbps"] * 1e9),
        speed=cpu.speed,
    )


def core_shares(service: ClassicalService) -> dict[str, float]:
    """Shares of a request's core seconds: the web server, the library's own call, the
    model's operations."""
    known = coefficients()
    parts = {
        "web": (known["web_us"] + known["cell_us"] * service.cols) * 1e-6,
        "call": _rate("call_us", service),
        "scoring": service.operations * _rate("operation_ns", service)
        + (service.trees * _rate("tree_us", service) if service.trees else 0.0),
    }
    return {name: value / sum(parts.values()) for name, value in parts.items()}


def service_passes(service: ClassicalService, cpu: CpuColumns, batches: Array) -> tuple[Array, Array]:
    """Seconds until so many waiting requests are answered, and memory of the workers [bytes], both
    (N, B); one worker a core."""
    workers = np.maximum(np.floor(cpu.cores), 1.0)[:, None]
    seconds = pass_s(core_seconds(service, cpu)[:, None], waiting=batches[None, :], workers=workers)
    runtime = one(coefficients()["runtime_mib"] * 2.0**20)
    memory = worker_bytes(runtime_bytes=runtime, model_bytes=one(service.model_bytes), workers=workers)
    return seconds, np.broadcast_to(memory, seconds.shape)
