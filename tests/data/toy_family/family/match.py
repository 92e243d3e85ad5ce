"""Which workloads are of this family: sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.search.request_checks import Honours, by_task

if TYPE_CHECKING:
    from rightfit.workload import Workload

#: Families with a higher number are asked first.
PRECEDENCE = 30
#: The least wish that this family answers, and its page below docs/.
EXAMPLE = {"task": "prepare", "operation": "sort", "data": "1TB"}
PAGE = "tasks/sorting.md"


def matches(workload: Workload) -> bool:
    """Whether data are sorted."""
    return workload.task == "prepare" and workload.operation == "sort"


def honours(_workload: Workload) -> Honours:
    """The options that sorting reads."""
    return Honours(frozenset({"data", "operation"}), against=by_task)
