"""rightfit finds the cloud server to rent for a training, fine-tuning or serving job: setup, cost,
time, and how sure the prediction is.

>>> import rightfit
>>> rightfit.plan("meta-llama/Meta-Llama-3-8B", method="qlora", data="50Mtok", deadline="24h")

plan        rank servers for a workload
estimate    predict a workload on one server
why         explain why a server was or was not chosen
fleet       plan many jobs and services together
export      write the files that start a plan; launch starts them
check       check a server, an accelerator or a claim
fit, own    what fits your own GPU; buy or rent
models, servers, prices, accelerators, datasets, providers, regions    look around
probe, watch, ingest, runs, resize    measure real runs and learn from them

Each command has a function of the same name, except for the two servers (serve and mcp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from rightfit.api import (
        accelerators,
        catalog,
        check,
        datasets,
        estimate,
        export,
        fit,
        fleet,
        launch,
        models,
        own,
        plan,
        plan_table,
        predict,
        predict_table,
        prices,
        providers,
        regions,
        resize,
        servers,
        understand,
        validate,
        why,
    )
    from rightfit.errors import (
        AmbiguousNameError,
        CatalogError,
        ContradictionError,
        FileInputError,
        InputError,
        MissingComponentError,
        NetworkError,
        NoAnswerError,
        QuantityError,
        RightfitError,
        UnavailableError,
        UnknownNameError,
    )
    from rightfit.running import ingest, probe, runs, watch
    from rightfit.workload.model import Workload

__all__ = [
    "AmbiguousNameError",
    "CatalogError",
    "ContradictionError",
    "FileInputError",
    "InputError",
    "MissingComponentError",
    "NetworkError",
    "NoAnswerError",
    "OutOfTimeError",
    "QuantityError",
    "RightfitError",
    "UnavailableError",
    "UnknownNameError",
    "Workload",
    "__version__",
    "accelerators",
    "catalog",
    "check",
    "datasets",
    "estimate",
    "export",
    "fit",
    "fleet",
    "ingest",
    "launch",
    "models",
    "own",
    "plan",
    "plan_table",
    "predict",
    "predict_table",
    "prices",
    "probe",
    "providers",
    "regions",
    "resize",
    "runs",
    "servers",
    "understand",
    "validate",
    "watch",
    "why",
]


#: Public names that live neither in rightfit.api nor in rightfit.errors.
_HOMES = {"Workload": "rightfit.workload.model"} | dict.fromkeys(("ingest", "probe", "runs", "watch"), "rightfit.running")


def __getattr__(name: str) -> Any:
    """Find a public name where it lives, on first use: importing rightfit loads nothing else."""
    if name not in __all__:
        raise AttributeError(f"module 'rightfit' has no attribute {name!r}")
    from importlib import import_module

    home = "rightfit.errors" if name.endswith("Error") else _HOMES.get(name, "rightfit.api")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public list."""
    return sorted(__all__)
