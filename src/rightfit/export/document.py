"""A plan as it comes back from a file: what exporters read, checked once. Anything a person may have edited by hand is doubted here and
nowhere else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rightfit.errors import FileInputError, InputError
from rightfit.messages import Message, at_place, foreign, system_problem

SCHEMA_VERSION = 1
LARGEST_FILE_BYTES = 20_000_000

MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Version of a plan -> function that makes it a plan of the next version. Empty while there has been one version only."""


class _Part(BaseModel):
    """Plans grow new keys; those that no exporter reads are let through."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class FigurePart(_Part):
    """A predicted number with its intervals."""

    mid: float
    low80: float
    high80: float
    low95: float
    high95: float


class AcceleratorPart(_Part):
    """The accelerator of an option; the name is empty on servers without one."""

    name: str = Field(max_length=80)
    count_per_node: int = Field(ge=0, le=1024)
    memory_bytes: float = Field(ge=0)


class LayoutPart(_Part):
    """How the job is spread and run. Serving plans add engine, formats and replicas; plans of tables what works on how much of the server
    (kept out of what identifies a plan, which was there before them)."""

    data: int = Field(1, ge=1)
    tensor: int = Field(1, ge=1)
    pipeline: int = Field(1, ge=1)
    expert: int = Field(1, ge=1)
    context: int = Field(1, ge=1)
    sharding: str = "none"
    shard_degree: int = Field(1, ge=1)
    micro_batch: int = Field(1, ge=1)
    grad_accum: int = Field(1, ge=1)
    recompute: str = "none"
    precision: str = "bf16"
    attention: str = "flash"
    offload: str = "none"
    method: str = "full"
    update: str = ""
    rollout: str = ""
    engine: str = ""
    weight_format: str = ""
    kv_format: str = ""
    replicas: int = Field(1, ge=1)
    replicas_per_node: int = Field(1, ge=1)
    max_batch: int = Field(0, ge=0)
    device: str = Field("", exclude=True)
    library: str = Field("", exclude=True)
    job: str = Field("", exclude=True)
    threads: int = Field(0, ge=0, exclude=True)
    cards: int = Field(0, ge=0, exclude=True)

    @property
    def moves_states(self) -> bool:
        """Whether the optimizer's state, or weights, lie in host memory."""
        return self.offload not in ("none", "", "activations")

    @property
    def moves_activations(self) -> bool:
        """Whether the inputs of layers lie in host memory between forward and backward pass."""
        return self.offload == "activations"


class CostPart(_Part):
    """Money of an option: `total_usd` of a run or `monthly_usd` of a service."""

    hourly_usd: float = Field(ge=0)
    total_usd: float | None = Field(None, ge=0)
    monthly_usd: float | None = Field(None, ge=0)


class AlternativePart(_Part):
    """Nearly the same thing elsewhere."""

    region: str = Field(max_length=80)
    instance_type: str = Field(max_length=120)
    purchase: str = Field(max_length=40)


class OptionPart(_Part):
    """One option of a plan."""

    rank: int = Field(ge=1)
    provider: str = Field(max_length=40)
    region: str = Field(max_length=80)
    instance_type: str = Field(max_length=120)
    nodes: int = Field(ge=1, le=100_000)
    purchase: str = Field(max_length=40)
    vcpus: float | None = None
    memory_bytes: float | None = None
    accelerator: AcceleratorPart
    layout: LayoutPart
    estimate: Mapping[str, FigurePart]
    cost: CostPart
    alternatives: tuple[AlternativePart, ...] = ()
    facts: Mapping[str, Any] = {}
    data_path: Mapping[str, Any] = {}


class PlanDocument(_Part):
    """A plan file."""

    schema_version: int
    workload: Mapping[str, Any]
    options: tuple[OptionPart, ...]
    sections: Mapping[str, Any] = {}

    def option(self, rank: int) -> OptionPart:
        """The option of a rank; InputError naming the ranks there are."""
        for option in self.options:
            if option.rank == rank:
                return option
        if not self.options:
            raise InputError(Message("export.nothing_to_export"), field="option")
        raise InputError(Message("export.no_rank", number=rank, count=len(self.options)), field="option")


def read_plan(path: str | Path) -> PlanDocument:
    """The plan of a file written by `rightfit plan --format json`."""
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileInputError(Message("problems.cannot_read", name=name, error=system_problem(error, lower=True))) from None
    if len(data) > LARGEST_FILE_BYTES:
        raise FileInputError(Message("export.too_large", file=name, size=len(data) / 1000000.0, most=LARGEST_FILE_BYTES / 1000000.0))
    try:
        values = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise FileInputError(Message("export.not_text", file=name)) from None
    except (json.JSONDecodeError, RecursionError) as error:
        place = Message("export.part_at_line", file=name, number=error.lineno) if isinstance(error, json.JSONDecodeError) else name
        raise FileInputError(Message("export.not_json", line=place)) from None
    return plan_document(values, name=name)


def plan_document(values: Any, *, name: str = "plan") -> PlanDocument:
    """A plan from the dictionary that `Plan.to_dict` gives; older versions are migrated."""
    if not isinstance(values, dict) or "options" not in values or "schema_version" not in values:
        raise FileInputError(Message("export.not_a_plan", file=name))
    version = values["schema_version"]
    while version in MIGRATIONS:
        values = MIGRATIONS[version](values)
        version = values["schema_version"]
    if version != SCHEMA_VERSION:
        raise FileInputError(Message("export.version", file=name, version=version, known=SCHEMA_VERSION))
    try:
        return PlanDocument.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise FileInputError(at_place(name, at_place(place, foreign(first["msg"][:1].lower() + first["msg"][1:])))) from None
