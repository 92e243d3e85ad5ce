"""Which workloads are of this family: classical machine learning and data preparation, told by the
task and the model's name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit.errors import InputError, RightfitError, UnknownNameError
from rightfit.facts import classical
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.search.answer import Layout
from rightfit.search.request_checks import Honours, by_task

if TYPE_CHECKING:
    from rightfit.workload import Workload


# ---- How work on tables runs, as words and exports read it: beside its makers, so that reading
# it loads none of them.

CPU, GPU = "cpu", "gpu"


@dataclass(frozen=True, slots=True)
class HostLayout(Layout):
    """How the job runs: on `device` (cpu or gpu) with `library`; `threads` of the server at work,
    `cards` GPUs in use on it."""

    device: str = CPU
    library: str = ""
    job: str = ""
    threads: int = 1
    cards: int = 0


#: Families with a higher number are asked first.
PRECEDENCE = 20
#: The least wish that this family answers, and its page below docs/.
EXAMPLE = {"model": "xgboost", "task": "train", "data": "1Mrows x 20cols"}
PAGE = "tasks/classical.md"
EMBED = "embed"


def matches(workload: Workload) -> bool:
    """Whether a workload is a job of classical machine learning or data preparation; serving a
    classical model is a service like others."""
    return workload.task == "prepare" or (_is_classical(workload.model) and workload.task != "serve")


def settle(workload: Workload) -> Workload:
    """Embedding is inference of a model over the data: it becomes a batch job,
    of another family."""
    if workload.task == "prepare" and EMBED in (workload.operation or "").casefold():
        return embedding_workload(workload)
    return workload


def embedding_workload(workload: Workload) -> Workload:
    """The batch job that embedding data is."""
    if not workload.model:
        raise InputError(
            Message("families.embed_model"),
            field="model",
        )
    from rightfit import facts

    changed: dict[str, Any] = {"task": "batch", "operation": None}
    if workload.data_bytes is not None and workload.data_unit == "bytes":
        changed["data"] = f"{workload.data_bytes / facts.coefficients('planning')['bytes_per_token']:.0f}tok"
    return workload.with_changes(**changed)


def _is_classical(name: str) -> bool:
    if not name:
        return False
    if classical.classical_model(name) is not None:
        return True
    if library := classical.library_without_algorithm(name):
        raise InputError(
            Message("families.library_alone", library=library),
            field="model",
        )
    if near := classical.nearest_classical(name):
        _refuse_misspelt(name, near)
    return False


def _refuse_misspelt(name: str, near: str) -> None:
    """A name that is almost an algorithm's and that no other model has."""
    from rightfit import facts

    try:
        facts.model(name)
    except RightfitError:
        raise UnknownNameError("model", name, nearest=(near,), field="model") from None


_TABLE = frozenset({"data", "columns", "library", "framework", "trees", "depth", "settings", "precision"})
TRAIN = Honours(_TABLE | {"epochs", "storage", "data_location", "workers"})
SCORE = Honours(_TABLE)
PREPARE = Honours(
    frozenset({"data", "operation", "columns", "library", "framework", "settings", "storage", "data_location", "workers"}), against=by_task
)


def honours(workload: Workload) -> Honours:
    """The options that a job of processors and libraries reads."""
    if workload.task == "prepare":
        return PREPARE
    return SCORE if workload.task == "batch" else TRAIN
