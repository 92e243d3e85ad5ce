"""What clients may ask, as strict models: the options of a workload from the one table of options,
and a few more fields for each route."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from rightfit.workload.fields import LONGEST_NAME, attribute_fields, workload_fields
from rightfit.workload.options import OPTIONS

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
# A query is text: numbers are read from it, unknown names are refused all the same.
_LAX = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())

Model = type[BaseModel]
MOST_FUTURES = 20


class _Body(BaseModel):
    model_config = _STRICT


class _Query(BaseModel):
    model_config = _LAX


def _base_units() -> dict[str, tuple[Any, Any]]:
    """The attributes of a workload in base units, as a plan's `workload` gives them: what one plan
    returns can be asked again."""
    found: dict[str, tuple[Any, Any]] = {}
    for name, (kind, field) in attribute_fields().items():
        if name not in OPTIONS and name != "assumed":
            said = f"{field.description} (base units)" if field.description else "in base units"
            found[name] = (kind, Field(default=None, description=said))
    found["assumed"] = (
        list[str] | None,
        Field(default=None, description="of a plan's workload: attributes that were not given; they are chosen afresh"),
    )
    return found


def _workload_fields(*, as_text: bool) -> dict[str, tuple[Any, Any]]:
    fields = workload_fields(as_text=as_text)
    return fields if as_text else {**fields, **_base_units()}


def _model(name: str, base: Model, *, as_text: bool = False, workload: bool = True, **more: Any) -> Model:
    fields: dict[str, Any] = {**(_workload_fields(as_text=as_text) if workload else {}), **more}
    found: Model = create_model(name, __base__=base, **fields)
    return found


_ask = (
    str | None,
    Field(default=None, min_length=1, max_length=2000, description="the wish in plain words, English or Chinese; options beside it win"),
)
_top = (int, Field(default=10, ge=1, le=50, description="how many options are ranked"))
_lang = (Literal["en", "zh"] | None, Field(default=None, description="language of the sentences; else that of Accept-Language"))
_staged = (bool, Field(default=False, description="with the smallest trial that would confirm the choice, and the step up"))
_simulate = (bool, Field(default=False, description="play the options of a service through by simulation as well"))
_on = (str, Field(min_length=3, max_length=LONGEST_NAME, description="the server", examples=["aws/p4d.24xlarge"]))
_nodes = (int, Field(default=1, ge=1, le=1024, description="how many of them", examples=[1]))

PlanBody = _model("WorkloadQuestion", _Body, ask=_ask)
EstimateBody = _model("EstimateQuestion", _Body, on=_on, nodes=_nodes)
WhyBody = _model("WhyQuestion", _Body, server=_on)
PlanQuery = _model("PlanQuery", _Query, workload=False, top=_top, simulate=_simulate, staged=_staged, lang=_lang)
PlanAsked = _model("PlanAsked", _Query, as_text=True, ask=_ask, top=_top, simulate=_simulate, staged=_staged, lang=_lang)
EstimateAsked = _model("EstimateAsked", _Query, as_text=True, on=_on, nodes=_nodes, lang=_lang)
WhyAsked = _model("WhyAsked", _Query, as_text=True, server=_on, lang=_lang)


class LangQuery(_Query):
    """The language alone."""

    lang: Literal["en", "zh"] | None = Field(default=None, description="language of the sentences; else that of Accept-Language")


class ListQuery(LangQuery):
    """A page of a list."""

    q: str = Field(default="", max_length=LONGEST_NAME, description="words that the name must hold; nothing lists all")
    limit: int = Field(default=100, ge=1, le=1000, description="how many to give")
    offset: int = Field(default=0, ge=0, le=1_000_000, description="how many to leave out")


class ModelsQuery(ListQuery):
    """Models."""

    kind: str | None = Field(
        default=None, max_length=40, description="a family (transformer, vision, diffusion, other) or a kind within one"
    )


class ServersQuery(ListQuery):
    """Servers."""

    cloud: str = Field(default="", max_length=LONGEST_NAME, description="only these clouds", examples=["aws,gcp"])
    gpu: str = Field(default="", max_length=LONGEST_NAME, description="only these accelerators", examples=["A100"])


class PricesQuery(ServersQuery):
    """Prices."""

    region: str = Field(default="", max_length=LONGEST_NAME, description="only these regions")
    country: str = Field(default="", max_length=LONGEST_NAME, description="only these countries", examples=["US,CN"])
    purchase: str = Field(default="", max_length=LONGEST_NAME, description="only these ways to pay", examples=["spot"])


class RegionsQuery(ListQuery):
    """Regions."""

    cloud: str = Field(default="", max_length=LONGEST_NAME, description="only these clouds")
    country: str = Field(default="", max_length=LONGEST_NAME, description="only these countries")
    residency: str = Field(
        default="", max_length=LONGEST_NAME, description="only where this law holds: eu, eea, gdpr, cn-mainland, or countries"
    )
    near: str = Field(default="", max_length=LONGEST_NAME, description="where you are: nearest first", examples=["Berlin"])


class CheckBody(_Body):
    """Claims to check."""

    claims: list[str] = Field(
        min_length=1, max_length=50, description="names, or NAME=CLAIM", examples=[["ecs.gn7i-c2g1.xlarge", "g5.xlarge=T4"]]
    )


class UnderstandBody(_Body):
    """Plain words."""

    sentence: str = Field(
        min_length=1, max_length=2000, description="a wish in plain words", examples=["fine-tune Llama-3-8B on 50k samples, under $200"]
    )


class ExportFields(BaseModel):
    """What an export needs beside the plan."""

    model_config = _STRICT
    to: str = Field(min_length=1, max_length=80, description="target, or all; GET /targets lists them", examples=["skypilot"])
    option: int = Field(default=1, ge=1, le=1000, description="rank of the option to start")
    name: str = Field(default="", max_length=60, description="name of the job's resources; default: model and plan id")
    ssh_cidr: str = Field(default="", max_length=60, description="address range that may reach the servers")
    bucket: str = Field(default="", max_length=300, description="where checkpoints go")
    data_path: str = Field(default="", max_length=300, description="the data set as the job sees it")
    stop_after: float = Field(default=0.0, ge=0, le=8784, description="hours after which servers stop themselves")
    queue: str = Field(default="", max_length=80, description="queue of a cluster: kueue/NAME or volcano/NAME", examples=["kueue/team-a"])
    revision: str = Field(default="", max_length=100, description="commit of the model's repository on the hub")
    data_columns: str = Field(
        default="", max_length=1000, description="names of columns that the data have: prompt=question,completion=answer"
    )
    then: str = Field(default="", max_length=20, description="what follows the run: serve")
    limits: str = Field(
        default="",
        max_length=200,
        description="limits of a server in the place of the plan's: max-model-len=8192,max-num-seqs=64,gpu-memory-utilization=0.85",
    )


class ExportBody(ExportFields):
    """A plan and how to export it."""

    plan: dict[str, Any] = Field(description="the plan as POST /plan gave it")


class ExportQuery(ExportFields):
    """How to export a saved plan."""

    model_config = _LAX


class FleetBody(_Body):
    """A fleet to plan."""

    fleet: dict[str, Any] = Field(description="jobs, services, what is owned and limits: the keys of a fleet file")
    last: dict[str, Any] | None = Field(default=None, description="the last plan as this route gave it: what runs stays")
    futures: int = Field(
        default=0,
        ge=0,
        le=MOST_FUTURES,
        description="judge what to buy by so many draws of prices, demand and stock; fewer where time is up",
    )


class SaveBody(_Body):
    """A plan to keep."""

    plan: dict[str, Any] = Field(description="the plan as POST /plan gave it")
    name: str = Field(default="", max_length=LONGEST_NAME, description="what you call it")


class PageQuery(_Query):
    """A page of what was saved, newest first."""

    limit: int = Field(default=50, ge=1, le=500)
    offset: int = Field(default=0, ge=0, le=10_000_000)


class MeasureBody(_Body):
    """What a real run did."""

    plan_id: str = Field(min_length=1, max_length=40, description="the saved plan that was run")
    option: int = Field(default=1, ge=1, le=1000, description="rank of the option that was run")
    figure: str = Field(min_length=1, max_length=60, description="a figure of the option's estimate", examples=["step_s"])
    value: float = Field(gt=0, le=1e30, description="what was measured, in base units", examples=[27.6])
    remark: str = Field(default="", max_length=LONGEST_NAME)


class MeasuredQuery(PageQuery):
    """Measurements of one plan, or of all."""

    plan_id: str = Field(default="", max_length=40)


class RunsBody(_Body):
    """Records of real runs."""

    runs: list[dict[str, Any]] = Field(
        min_length=1, max_length=200, description="run records as rightfit probe, ingest and GET /runs give them"
    )


class PredictQuery(_Query):
    """How the predictions come back."""

    form: Literal["json", "ndjson", "csv"] | None = Field(
        default=None, description="form of the answer; else that of Accept, else that of the question"
    )
