"""What a machine lacks for a job that it is far too small for, and the lightest way to do the job
on what can be rented."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.errors import RightfitError
from rightfit.families.registry import honours_of
from rightfit.search.answer import Option, Plan, Reason
from rightfit.search.criteria import CRITERIA
from rightfit.search.ownership import Machine, with_machine

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload import Workload

#: What a way to fine-tune can be given up for where a machine is too small, the nearest first.
LIGHTER = {"full": ("lora", "qlora"), "lora": ("qlora",)}


def lighter_rented(workload: Workload, plan: Callable[[Workload], Plan]) -> tuple[Reason, ...]:
    """The lightest way to fine-tune on the least that can be rented, where the machine does none of
    them and one is named that needs more."""
    for method in reversed(LIGHTER.get(workload.method or "", ()) if workload.task == "finetune" else ()):
        try:
            best = plan(workload.with_changes(method=method)).best
        except RightfitError:  # not a way to train this model
            continue
        if best is not None:
            count = best.nodes * (best.accelerator.count_per_node or 1)
            card = {"accelerator": best.accelerator.name, "count": count}
            return (Reason("rent_by_lighter", {"method": method, "change": f"--method {method}", **card, **beside(best)}),)
    return ()


def lacking_memory(
    machine: Machine, workload: Workload, catalog: Catalog, search: Callable[..., Any], *, key: str = "named_does_not_gap"
) -> Reason | None:
    """What a training job needs of GPU memory on the machine where nobody said that part of it may
    lie in RAM: told before RAM, which is assumed. None where it fits."""
    mine = workload.with_changes(gpu=(machine.gpu,), cloud=("private",), purchase=("owned",), num_gpus=None)
    if "offload" not in honours_of(mine).options or mine.offload not in (None, "", "none"):
        return None
    try:
        found = search(mine.with_changes(offload="none"), catalog=with_machine(catalog, machine, alone=True))
    except RightfitError:
        return None
    bit = 1 << CRITERIA.index("gpu_memory")
    if not found.bits.size or not bool(np.all(found.bits[:, 0] & bit)):
        return None
    rows = found.failures.needed["gpu_memory"], found.failures.had["gpu_memory"]  # of one such machine: the first column
    needed, had = (float(np.min(np.broadcast_to(one, found.bits.shape)[:, 0])) for one in rows)
    return Reason(key, {"machine": machine.title, "criterion": "gpu_memory", "needed": needed, "had": had})


def beside(best: Option) -> dict[str, Any]:
    """A rental in the fields of a sentence."""
    time = best.estimate.get("total_time_s")
    return {
        **{name: getattr(best, name) for name in ("provider", "instance_type", "region", "purchase", "nodes")},
        "total_usd": best.cost.total_usd,
        **({"total_time_s": time.mid} if time else {}),
    }
