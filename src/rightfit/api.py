"""The public functions of rightfit: one for each command, typed, returning values and never printing.

Every function is thin: it reads the wish, calls the room that does the work, and hands back its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.catalog.check_answers import CheckResult
    from rightfit.facts import Accelerator, Dataset, Model
    from rightfit.search.answer import Plan
    from rightfit.search.single import Verdict
    from rightfit.workload.model import Workload

Names = str | Sequence[str]
_FILE_ENDINGS = (".yaml", ".yml", ".toml")


def plan(
    workload: Workload | str | Path | None = None,
    /,
    *,
    catalog: Catalog | None = None,
    top: int | None = None,
    simulate: bool = False,
    **wishes: Any,
) -> Plan:
    """Rank servers for a workload; `simulate`: play the options of a service through by simulation as well.

    Give a `Workload`, a workload file (a `Path`, or text ending in .yaml, .yml or .toml), or a model's name; then the options of `rightfit plan`:
    `plan("7B", method="qlora", data="50Mtok")` is `plan(model="7B", method="qlora", data="50Mtok")`.
    The result has `.best`, `.options`, `.pareto`, `.rejected`, `.advice`, `.to_dict()` and `.to_json()`; `.best` is None when nothing is feasible.
    """
    from rightfit.search import plan as search_plan

    return search_plan(read_workload(workload, wishes), catalog=catalog, simulate=simulate, **({} if top is None else {"top": top}))


def estimate(
    workload: Workload | str | Path | None = None, /, *, on: str, nodes: int = 1, catalog: Catalog | None = None, **wishes: Any
) -> Plan:
    """What a workload does on one given server ("aws/p4d.24xlarge"), without a search over servers."""
    from rightfit.search import estimate_one

    return estimate_one(read_workload(workload, wishes), on=on, nodes=nodes, catalog=catalog)


def why(server: str, workload: Workload | str | Path | None = None, /, *, catalog: Catalog | None = None, **wishes: Any) -> Verdict:
    """Why a server ("aws/g5.xlarge") was or was not chosen, and the least change that would alter it."""
    from rightfit.search import why as why_server

    return why_server(read_workload(workload, wishes), server, catalog=catalog)


def read_workload(workload: Workload | str | Path | None, wishes: Mapping[str, Any]) -> Workload:
    """A Workload from any of the forms that `plan` takes."""
    from rightfit.workload.model import Workload

    if isinstance(workload, Workload):
        return workload.with_changes(**wishes) if wishes else workload
    if isinstance(workload, Path) or (isinstance(workload, str) and workload.casefold().endswith(_FILE_ENDINGS)):
        return Workload.from_file(workload, **wishes)
    return Workload(**wishes) if workload is None else Workload(**{"model": workload, **wishes})


def predict(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Predict measured quantities row by row (columns as in `rightfit predict`); a row that cannot be predicted says why in `error`."""
    from rightfit.estimate.predict import predict as predict_rows

    return predict_rows(list(rows))


def check(claims: Names, *, catalog: Catalog | None = None) -> list[CheckResult]:
    """Does this server, accelerator, claim ("g5.xlarge=T4") or rule of thumb ("RAM >= 4x VRAM") hold, and what is right or nearest?"""
    from rightfit.catalog.check import check as check_claims
    from rightfit.explain.lookup import rule_lookup

    asked = [claims] if isinstance(claims, str) else list(claims)
    return check_claims(asked, catalog=catalog, rule=lambda query: rule_lookup(query, catalog=catalog))


def models(query: str = "", *, kind: str | None = None) -> list[Model]:
    """Models whose name or alias fits `query`, best first; all of them without a query. `kind`: a family (transformer, vision, diffusion, other)
    or a kind within one (decoder, encoder, ...)."""
    from rightfit import lookup

    return lookup.models(query, kind=kind)


def accelerators(query: str = "") -> list[Accelerator]:
    """Accelerators that a loose name covers ("A100"), or whose name, vendor or architecture holds all words of `query`."""
    from rightfit import lookup

    return lookup.accelerators(query)


def datasets(query: str = "") -> list[Dataset]:
    """Data sets whose name or domain holds all words of `query`."""
    from rightfit import lookup

    return lookup.datasets(query)


def servers(query: str = "", *, cloud: Names = (), gpu: Names = (), catalog: Catalog | None = None) -> list[dict[str, Any]]:
    """Server types, as dictionaries, whose provider, name, family or accelerator holds all words of `query`."""
    from rightfit import lookup

    return lookup.servers(query, cloud=cloud, gpu=gpu, catalog=catalog).rows()


def prices(
    query: str = "",
    *,
    cloud: Names = (),
    region: Names = (),
    country: Names = (),
    gpu: Names = (),
    purchase: Names = (),
    catalog: Catalog | None = None,
) -> list[dict[str, Any]]:
    """Prices, as dictionaries and cheapest first, of the servers that `servers` would find; each with date and source."""
    from rightfit import lookup

    return lookup.prices(query, cloud=cloud, region=region, country=country, gpu=gpu, purchase=purchase, catalog=catalog).rows()
