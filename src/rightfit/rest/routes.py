"""The routes as one table: what each is asked, what it answers, and an example of both. The
application and its OpenAPI page come from it."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from rightfit import __version__
from rightfit.records import dataclass
from rightfit.rest import handlers
from rightfit.rest.handlers import Asked, Desk
from rightfit.rest.reading import MEDIA_TYPE, MEDIA_TYPES
from rightfit.workload.fields import LONGEST_NAME, attribute_fields, workload_fields
from rightfit.workload.options import OPTIONS

# ---- What clients may ask, as strict models: the options of a workload from the one table of
# options, and a few more fields for each route.

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


_LLAMA = {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "qlora", "data": "50Mtok", "deadline": "24h"}
_PLAN = {"schema_version": 1, "workload": {"model": "7B"}, "options": []}
_ID = "Zb1kWQ2m3nX4p5Qr"
_QLORA = {"model": "meta-llama/Meta-Llama-3-8B", "method": "qlora", "data": "50Mtok"}
_FLEET = {"schema_version": 1, "kind": "fleet", "placements": [], "purchases": [], "text": [], "chart": "<svg/>"}


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `query` and `body` are what it reads; `example` a body; `found` the name of the
    answer's schema; `statuses` refusals of its own."""

    method: str
    path: str
    answer: Callable[[Desk, Asked], Awaitable[Response]]
    group: str
    query: type[BaseModel] = LangQuery
    body: type[BaseModel] | None = None
    example: Any = None
    shown: Any = None
    found: str = "List"
    status: int = 200
    statuses: tuple[int, ...] = ()
    is_table: bool = False


_SAVED = {"id": _ID, "name": "first try", "saved_at": "2026-01-02T03:04:05.000000+00:00"}
_MEASURED = {"id": _ID, "plan_id": _ID, "option": 1, "figure": "step_s", "value": 27.6, "remark": ""}
_RUN = {
    "kind": "run",
    "id": "399d7d2a8bda",
    "source": {"kind": "probe"},
    "setup": {"model": "7B", "gpu": "A100-SXM-80GB", "method": "lora"},
    "measured": [{"metric": "step_time_s", "value": 1.9, "unit": "s"}],
}
_LISTED: Mapping[str, Any] = {"total": 0, "items": []}

ROUTES: tuple[Route, ...] = (
    Route("POST", "/plan", handlers.plan, "plans", PlanQuery, PlanBody, _LLAMA, _PLAN, "Plan"),
    Route("GET", "/plan", handlers.plan, "plans", PlanAsked, shown=_PLAN, found="Plan"),
    Route(
        *("POST", "/estimate", handlers.estimate, "plans", LangQuery, EstimateBody),
        *({**_LLAMA, "on": "aws/p4d.24xlarge", "nodes": 1}, _PLAN, "Plan"),
    ),
    Route("GET", "/estimate", handlers.estimate, "plans", EstimateAsked, shown=_PLAN, found="Plan"),
    Route(
        *("POST", "/why", handlers.why, "plans", LangQuery, WhyBody),
        *({**_LLAMA, "server": "aws/g5.xlarge"}, {"provider": "aws", "instance_type": "g5.xlarge", "fits": True}, "Verdict"),
    ),
    Route("GET", "/why", handlers.why, "plans", WhyAsked, shown={"provider": "aws", "instance_type": "g5.xlarge"}, found="Verdict"),
    Route(
        *("POST", "/check", handlers.check, "plans", LangQuery, CheckBody),
        *({"claims": ["g5.xlarge=T4"]}, {"total": 1, "items": [{"query": "g5.xlarge=T4", "exists": True, "claim": "wrong"}]}),
    ),
    Route(
        *("POST", "/understand", handlers.understand, "plans", LangQuery, UnderstandBody),
        *(
            {"sentence": "用 QLoRA 微调 Llama-3-8B，10 万条数据，预算 500 元"},
            {"sentence": "...", "wishes": {"method": "qlora"}},
            "Understood",
        ),
    ),
    Route(
        *("POST", "/fleet", handlers.fleet, "plans", LangQuery, FleetBody),
        *({"fleet": {"start": "2026-12-01", "jobs": [{"name": "tune", "workload": _QLORA, "deadline": "3d"}]}}, _FLEET, "FleetPlan"),
    ),
    Route("POST", "/predict", handlers.predict, "plans", PredictQuery, shown=_LISTED, is_table=True, statuses=(413,)),
    Route(
        "POST",
        "/export",
        handlers.export,
        "plans",
        body=ExportBody,
        example={"plan": _PLAN, "to": "skypilot"},
        shown={"target": "skypilot", "files": {}},
        found="Files",
    ),
    Route("GET", "/targets", handlers.targets, "plans", shown=_LISTED),
    Route("GET", "/models", handlers.models, "look around", ModelsQuery, shown=_LISTED),
    Route("GET", "/accelerators", handlers.accelerators, "look around", ListQuery, shown=_LISTED),
    Route("GET", "/datasets", handlers.datasets, "look around", ListQuery, shown=_LISTED),
    Route("GET", "/servers", handlers.servers, "look around", ServersQuery, shown=_LISTED),
    Route("GET", "/prices", handlers.prices, "look around", PricesQuery, shown=_LISTED),
    Route("GET", "/providers", handlers.providers, "look around", ListQuery, shown=_LISTED),
    Route("GET", "/regions", handlers.regions, "look around", RegionsQuery, shown=_LISTED),
    Route(
        *("POST", "/plans", handlers.save_plan, "saved plans", LangQuery, SaveBody),
        *({"plan": _PLAN, "name": "first try"}, _SAVED, "Saved", 201, (409,)),
    ),
    Route("GET", "/plans", handlers.list_plans, "saved plans", PageQuery, shown={"total": 1, "items": [_SAVED]}),
    Route("GET", "/plans/{id}", handlers.read_plan, "saved plans", shown={**_SAVED, "plan": _PLAN}, found="SavedPlan", statuses=(404,)),
    Route("DELETE", "/plans/{id}", handlers.delete_plan, "saved plans", found="", status=204, statuses=(404,)),
    Route(
        "GET",
        "/plans/{id}/export",
        handlers.export_saved,
        "saved plans",
        ExportQuery,
        shown={"target": "skypilot", "files": {}},
        found="Files",
        statuses=(404,),
    ),
    Route(
        *("POST", "/measurements", handlers.save_measurement, "saved plans", LangQuery, MeasureBody),
        *({"plan_id": _ID, "option": 1, "figure": "step_s", "value": 27.6}, _MEASURED, "Measured", 201),
    ),
    Route("GET", "/measurements", handlers.list_measurements, "saved plans", MeasuredQuery, shown={"total": 1, "items": [_MEASURED]}),
    Route("GET", "/runs", handlers.list_runs, "saved plans", MeasuredQuery, shown=_LISTED),
    Route(
        *("POST", "/runs", handlers.save_runs, "saved plans", LangQuery, RunsBody),
        *({"runs": [_RUN]}, {"new": 1, "ids": [_RUN["id"]]}, "RunsKept", 201, (409,)),
    ),
    Route("DELETE", "/runs/{id}", handlers.delete_run, "saved plans", found="", status=204, statuses=(404,)),
    Route("GET", "/health", handlers.health, "the server", shown={"status": "ok", "version": __version__}, found="Health"),
    Route("GET", "/ready", handlers.ready, "the server", shown={"status": "ready", "catalog": True, "store": True}, found="Health"),
    Route("GET", "/metrics", handlers.metrics, "the server", found="text"),
)


# ---- The OpenAPI description: questions from their models, answers from the published schema of a
# plan, refusals the same everywhere.

_REFS = "#/components/schemas/"
_REFUSALS: Mapping[int, str] = {
    400: "the request cannot be read",
    401: "a token is needed",
    404: "there is no such plan or record",
    405: "another method is needed",
    408: "the body did not arrive in time",
    409: "no more plans can be saved",
    413: "the body or the table is too large",
    415: "another content type is needed",
    421: "this server has another name",
    422: "what was given cannot be used; `errors` say which field, what is allowed and what is nearest",
    429: "too many requests of one client",
    503: "the server is busy, what is needed cannot be reached, or the answer took too long",
}
_EVERYWHERE = (400, 401, 421, 422, 429, 503)
_WITH_BODY = (408, 413, 415)
_ANY: Mapping[str, Any] = {"type": "object"}


def _structure(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {**required, **optional}, "required": list(required)}


_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}
_SAVED_PLAN = {"id": _TEXT, "name": _TEXT, "saved_at": {"type": "string", "format": "date-time"}}
_ANSWERS: Mapping[str, Any] = {
    "List": _structure({"total": _COUNT, "items": {"type": "array", "items": _ANY}}),
    "FleetPlan": _structure(
        {
            "schema_version": _COUNT,
            "kind": _TEXT,
            "placements": {"type": "array", "items": _ANY},
            "text": {"type": "array", "items": _TEXT},
            "chart": _TEXT,
        }
    ),
    "Verdict": {"type": "object", "description": "why a server was or was not chosen, and what it would do"},
    "Understood": _structure({"sentence": _TEXT, "wishes": _ANY}),
    "Files": _structure({"target": _TEXT, "files": {"type": "object", "additionalProperties": _TEXT}}),
    "Saved": _structure(_SAVED_PLAN),
    "SavedPlan": _structure({**_SAVED_PLAN, "plan": _ANY}),
    "Measured": _structure(
        {"id": _TEXT, "plan_id": _TEXT, "option": _COUNT, "figure": _TEXT, "value": {"type": "number"}, "remark": _TEXT}
    ),
    "RunsKept": _structure({"new": _COUNT, "ids": {"type": "array", "items": _TEXT}}),
    "Health": _structure({"status": _TEXT}),
    "Problem": _structure(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": _COUNT,
            "detail": _TEXT,
            "field": _TEXT,
            "allowed": _TEXT,
            "nearest": {"type": "array", "items": _TEXT},
            "errors": {"type": "array", "items": _ANY},
        }
    ),
}
_PROBLEM_EXAMPLE = {
    "type": "urn:rightfit:problem:unknown-name",
    "title": "This name is not known",
    "status": 422,
    "detail": "unknown model 'Llama-3-8C'; did you mean meta-llama/Meta-Llama-3-8B?",
    "field": "model",
    "allowed": "",
    "nearest": ["meta-llama/Meta-Llama-3-8B"],
    "errors": [],
}


@functools.cache
def question_schemas() -> Mapping[type[BaseModel], dict[str, Any]]:
    """The schema of each question model, its references resolved to components."""
    models = {model for route in ROUTES for model in (route.query, route.body) if model is not None}
    pairs = [(model, "validation") for model in sorted(models, key=lambda model: model.__name__)]
    found, shared = models_json_schema(pairs, ref_template=_REFS + "{model}")  # type: ignore[arg-type]
    assert not set(shared.get("$defs", {})) - {model.__name__ for model in models}
    assert len(found) == len(models)
    return {model: shared["$defs"][model.__name__] for model in models}


def components() -> dict[str, Any]:
    """All schemas by name."""
    published = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text(encoding="utf-8"))
    text = json.dumps(published).replace("#/$defs/", f"{_REFS}plan_")
    plan = json.loads(text)
    parts = {f"plan_{name}": schema for name, schema in plan.pop("$defs").items()}
    plan.pop("$schema", None)
    bodies = {route.body.__name__: question_schemas()[route.body] for route in ROUTES if route.body is not None}
    return {"Plan": plan, **parts, **bodies, **_ANSWERS}


def beyond(route: Route) -> dict[str, Any]:
    """What the description says of a route beyond its name: parameters and body."""
    found: dict[str, Any] = {"parameters": [*_path_parameters(route), *_parameters(route.query)]}
    if route.body is not None:
        schema = {"$ref": _REFS + route.body.__name__}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema, "example": route.example}}}
    if route.is_table:
        found["requestBody"] = {"required": True, "content": _table_content()}
    return found


def _table_content() -> dict[str, Any]:
    row = {"metric": "peak_mem_gib_per_gpu", "model": "7B", "gpu": "A100-SXM-80GB", "method": "lora"}
    cells = {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"], "maxLength": 10_000},
        "maxProperties": 200,
    }
    rows = {"type": "array", "items": cells, "minItems": 1}
    body = {"type": "object", "properties": {"rows": rows}, "required": ["rows"], "additionalProperties": False}
    line = ",".join(row) + "\n" + ",".join(row.values()) + "\n"
    return {
        MEDIA_TYPES["json"]: {"schema": {"anyOf": [body, rows]}, "example": {"rows": [row]}},
        MEDIA_TYPES["ndjson"]: {"schema": {**cells, "description": "one such object a line"}, "example": row},
        MEDIA_TYPES["csv"]: {"schema": {"type": "string"}, "example": line},
    }


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    if "{id}" not in route.path:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": 40}
    return [
        {"name": "id", "in": "path", "required": True, "schema": schema, "example": "Zb1kWQ2m3nX4p5Qr", "description": "of a saved plan"}
    ]


def _parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    schema = question_schemas()[model]
    required = set(schema.get("required", ()))
    found = []
    for name, field in schema["properties"].items():
        plain = {key: value for key, value in field.items() if key not in ("title", "description", "examples", "default")}
        kinds = [kind for kind in plain.pop("anyOf", ()) if kind.get("type") != "null"]
        entry = {"name": name, "in": "query", "required": name in required, "description": field.get("description", name)}
        example = {"example": field["examples"][0]} if field.get("examples") else {}
        found.append({**entry, "schema": {**plain, **(kinds[0] if kinds else {})}, **example})
    return found


def responses(route: Route) -> dict[int | str, Any]:
    """The answer and the refusals of a route."""
    statuses = sorted({*_EVERYWHERE, *route.statuses, *(_WITH_BODY if route.body is not None or route.is_table else ())})
    return {
        route.status: _answer(route),
        **{status: _refusal(status) for status in statuses if not (status == 503 and route.path == "/ready")},
    } | (
        {503: {"description": "not ready", "content": {"application/json": {"schema": {"$ref": _REFS + "Health"}}}}}
        if route.path == "/ready"
        else {}
    )


def _answer(route: Route) -> dict[str, Any]:
    if not route.found:
        return {"description": "done"}
    if route.found == "text":
        return {"description": "counts", "content": {"text/plain": {"schema": {"type": "string"}}}}
    schema = {"$ref": _REFS + route.found}
    content: dict[str, Any] = {"application/json": {"schema": schema, "example": route.shown}}
    if route.is_table:
        content |= {MEDIA_TYPES[form]: {"schema": {"type": "string"}} for form in ("ndjson", "csv")}
    if route.found == "Files":
        content["application/zip"] = {"schema": {"type": "string", "format": "binary"}}
    return {"description": "the answer", "content": content}


def _refusal(status: int) -> dict[str, Any]:
    content = {MEDIA_TYPE: {"schema": {"$ref": _REFS + "Problem"}, "example": {**_PROBLEM_EXAMPLE, "status": status}}}
    return {"description": _REFUSALS[status], "content": content}
