"""The families of work. Each is one folder of rightfit.families with a match and a FAMILY;
nothing else lists them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rightfit.errors import UnavailableError
from rightfit.facts.resolve import refuse_kind_of_work
from rightfit.messages import Message
from rightfit.search.family import Family
from rightfit.search.request_checks import refuse_unheeded

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.constraints import SearchResult
    from rightfit.search.request_checks import Honours
    from rightfit.workload import Workload


def folders() -> tuple[str, ...]:
    """Every folder of a family."""
    from rightfit import families as package

    return tuple(module.name for module in pkgutil.iter_modules(package.__path__) if module.ispkg)


@functools.cache
def names() -> tuple[str, ...]:
    """Every family, in the order in which they are asked."""
    return tuple(sorted(folders(), key=lambda name: -_match(name).PRECEDENCE))


def _match(name: str) -> ModuleType:
    return importlib.import_module(f"rightfit.families.{name}.match")


@functools.cache
def family(name: str) -> Family[Any]:
    """A family by name; loading it costs its imports, so it happens on use."""
    found: Family[Any] = importlib.import_module(f"rightfit.families.{name}.kind").FAMILY
    return found


def name_of(workload: Workload) -> str:
    """The family that a workload belongs to as it stands."""
    for name in names():
        if _match(name).matches(workload):
            return name
    raise UnavailableError(Message("families.no_family", task=workload.task))


def honours_of(workload: Workload) -> Honours:
    """The options that the kind of work of a workload takes."""
    found: Honours = _match(name_of(workload)).honours(workload)
    return found


def settled(workload: Workload) -> tuple[Family[Any], Workload]:
    """The family of a workload, and the workload as that family plans it: some wishes become
    another one first (embedding is a batch of inference).

    Every verb comes through here, so that all of them refuse the same wishes in the same words: an
    option that the family would not read is refused.
    """
    refuse_kind_of_work(workload.model)
    name = name_of(workload)
    settle = getattr(_match(name), "settle", None)
    changed = settle(workload) if settle else workload
    if changed is not workload:
        return settled(changed)
    refuse_unheeded(workload, _match(name).honours(workload))
    return family(name), workload


def explored(workload: Workload, catalog: Catalog) -> SearchResult:
    """What the family of a workload finds for it. Families ask here for one another's work, since
    none may import another."""
    found, asked = settled(workload)
    search_result: SearchResult = found.explore(asked, catalog)
    return search_result
