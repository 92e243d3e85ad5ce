"""Every option of a wish is honoured or refused: the frame refuses, in one line each, those that a kind of work does not take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rightfit.errors import ContradictionError, InputError
from rightfit.messages import Message, contradiction, of_kind
from rightfit.records import dataclass
from rightfit.workload.options import OPTIONS, raise_problems

if TYPE_CHECKING:
    from rightfit.workload import Workload

#: What every kind of work takes: the frame reads it, or the workload's own rules have refused it where it makes no sense (a deadline of a
#: service).
#: input_shape is settled, and refused where it says nothing, before any family sees the wish (rightfit.search.own_model).
OF_ALL = frozenset({"model", "task", "deadline", "budget", "confidence", "objective", "currency", "input_shape"})
#: Filters of the market, and ways to pay.
OF_MARKET = frozenset({"cloud", "region", "country", "residency", "sellers", "quota", "purchase", "gpu", "max_nodes", "office_hours"})
#: Words that ask for nothing: they hold where there is nothing to do without.
ASKS_NOTHING: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "method": ("full",),
        "quantization": ("none",),
        "recompute": ("none",),
        "sharding": ("none",),
        "offload": ("none",),
        "fleet": ("single",),
        "tensor_parallel": (1,),
        "pipeline_parallel": (1,),
    }
)
#: What the options are for that only some kinds of work take, by key of the purposes among the messages.
PURPOSES = MappingProxyType({option.name: option.purpose for option in OPTIONS.values() if option.purpose})


def by_model(workload: Workload) -> Message:
    """The model, or the task where none was named."""
    return of_kind("model", workload.model) if workload.model else by_task(workload)


def by_task(workload: Workload) -> Message:
    """The task."""
    return of_kind("task", workload.task)


def leave_out(purpose: str) -> Message:
    """What an option is for, by key of the purposes among the messages, so that it is to be left out."""
    return Message("contradictions.and_leave", why=Message(f"purposes.{purpose}"))


@dataclass(frozen=True, slots=True)
class Honours:
    """The options that a kind of work takes, beside those of all kinds.

    `because`: of options that it does not take, why and what to do, where that says more than what they are for. `against`: what an option
    that is not
    taken contradicts.
    """

    options: frozenset[str]
    because: Mapping[str, Message] = dataclasses.field(default_factory=dict)
    against: Callable[[Workload], Message] = by_model
    of_all: frozenset[str] = OF_ALL | OF_MARKET

    def taken(self) -> frozenset[str]:
        """Every option that is honoured."""
        return self.of_all | self.options


def refuse_unheeded(workload: Workload, honours: Honours) -> None:
    """Raise for every option that the user gave and that this kind of work would not read."""
    taken = honours.taken()
    raise_problems(
        [_refusal(workload, honours, name) for name, value in workload.wishes().items() if name not in taken and _asks(name, value)]
    )


def _asks(name: str, value: Any) -> bool:
    return value not in ASKS_NOTHING.get(name, ())


def _refusal(workload: Workload, honours: Honours, name: str) -> InputError:
    reason = honours.because.get(name) or leave_out(PURPOSES[name])
    return ContradictionError(contradiction(name, honours.against(workload), why=reason), field=name)
