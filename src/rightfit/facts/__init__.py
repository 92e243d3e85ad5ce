"""What is known: accelerators, model architectures, datasets, coefficients; each with its source.

Nothing is read when this package is imported; each table is read when it is first asked for.
"""

from __future__ import annotations

from rightfit.facts.bundled import dataset, datasets, models
from rightfit.facts.devices import (
    accelerator,
    accelerators,
    accelerators_at_least,
    accelerators_of_memory,
    labelled_as,
    match_accelerators,
    named_accelerators,
    nearest_accelerators,
    smallest_accelerator,
)
from rightfit.facts.records import (
    Accelerator,
    Dataset,
    DiffusionModel,
    Model,
    TransformerArchitecture,
    VisionModel,
)
from rightfit.facts.resolve import (
    Resolution,
    chat_template,
    has_program,
    hub_repository,
    model,
    own_reference,
    read_record,
    resolve_model,
    resolve_offline,
    search_models,
    spoken,
)
from rightfit.facts.tables import coefficient_entries, coefficients, table

__all__ = [
    "Accelerator",
    "Dataset",
    "DiffusionModel",
    "Model",
    "Resolution",
    "TransformerArchitecture",
    "VisionModel",
    "accelerator",
    "accelerators",
    "accelerators_at_least",
    "accelerators_of_memory",
    "chat_template",
    "coefficient_entries",
    "coefficients",
    "dataset",
    "datasets",
    "has_program",
    "hub_repository",
    "labelled_as",
    "match_accelerators",
    "model",
    "models",
    "named_accelerators",
    "nearest_accelerators",
    "own_reference",
    "read_record",
    "resolve_model",
    "resolve_offline",
    "search_models",
    "smallest_accelerator",
    "spoken",
    "table",
]
