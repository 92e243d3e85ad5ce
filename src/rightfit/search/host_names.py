"""Whether a workload is classical machine learning or data preparation, told by its task and its model's name alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.errors import InputError, RightfitError, UnknownNameError
from rightfit.facts import classical

if TYPE_CHECKING:
    from rightfit.workload import Workload


def is_host_work(workload: Workload) -> bool:
    """Whether a workload is a job of classical machine learning or data preparation; serving a classical model is a service like others."""
    return workload.task == "prepare" or (_is_classical(workload.model) and workload.task != "serve")


def _is_classical(name: str) -> bool:
    if not name:
        return False
    if classical.classical_model(name) is not None:
        return True
    if library := classical.library_without_algorithm(name):
        raise InputError(
            f"model: {library} is a library; name the algorithm too, for example random-forest or {library} logistic-regression",
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
