"""The routes as one table: what each is asked, what it answers, and an example of both. The
application and its OpenAPI page come from it."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from rightfit import __version__
from rightfit.records import dataclass
from rightfit.rest import handlers, questions
from rightfit.rest.handlers import Asked, Desk
from rightfit.rest.reading import MEDIA_TYPE, MEDIA_TYPES

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
    query: type[BaseModel] = questions.LangQuery
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
    Route("POST", "/plan", handlers.plan, "plans", questions.PlanQuery, questions.PlanBody, _LLAMA, _PLAN, "Plan"),
    Route("GET", "/plan", handlers.plan, "plans", questions.PlanAsked, shown=_PLAN, found="Plan"),
    Route(
        *("POST", "/estimate", handlers.estimate, "plans", questions.LangQuery, questions.EstimateBody),
        *({**_LLAMA, "on": "aws/p4d.24xlarge", "nodes": 1}, _PLAN, "Plan"),
    ),
    Route("GET", "/estimate", handlers.estimate, "plans", questions.EstimateAsked, shown=_PLAN, found="Plan"),
    Route(
        *("POST", "/why", handlers.why, "plans", questions.LangQuery, questions.WhyBody),
        *({**_LLAMA, "server": "aws/g5.xlarge"}, {"provider": "aws", "instance_type": "g5.xlarge", "fits": True}, "Verdict"),
    ),
    Route(
        "GET", "/why", handlers.why, "plans", questions.WhyAsked, shown={"provider": "aws", "instance_type": "g5.xlarge"}, found="Verdict"
    ),
    Route(
        *("POST", "/check", handlers.check, "plans", questions.LangQuery, questions.CheckBody),
        *({"claims": ["g5.xlarge=T4"]}, {"total": 1, "items": [{"query": "g5.xlarge=T4", "exists": True, "claim": "wrong"}]}),
    ),
    Route(
        *("POST", "/understand", handlers.understand, "plans", questions.LangQuery, questions.UnderstandBody),
        *(
            {"sentence": "用 QLoRA 微调 Llama-3-8B，10 万条数据，预算 500 元"},
            {"sentence": "...", "wishes": {"method": "qlora"}},
            "Understood",
        ),
    ),
    Route(
        *("POST", "/fleet", handlers.fleet, "plans", questions.LangQuery, questions.FleetBody),
        *({"fleet": {"start": "2026-12-01", "jobs": [{"name": "tune", "workload": _QLORA, "deadline": "3d"}]}}, _FLEET, "FleetPlan"),
    ),
    Route("POST", "/predict", handlers.predict, "plans", questions.PredictQuery, shown=_LISTED, is_table=True, statuses=(413,)),
    Route(
        "POST",
        "/export",
        handlers.export,
        "plans",
        body=questions.ExportBody,
        example={"plan": _PLAN, "to": "skypilot"},
        shown={"target": "skypilot", "files": {}},
        found="Files",
    ),
    Route("GET", "/targets", handlers.targets, "plans", shown=_LISTED),
    Route("GET", "/models", handlers.models, "look around", questions.ModelsQuery, shown=_LISTED),
    Route("GET", "/accelerators", handlers.accelerators, "look around", questions.ListQuery, shown=_LISTED),
    Route("GET", "/datasets", handlers.datasets, "look around", questions.ListQuery, shown=_LISTED),
    Route("GET", "/servers", handlers.servers, "look around", questions.ServersQuery, shown=_LISTED),
    Route("GET", "/prices", handlers.prices, "look around", questions.PricesQuery, shown=_LISTED),
    Route("GET", "/providers", handlers.providers, "look around", questions.ListQuery, shown=_LISTED),
    Route("GET", "/regions", handlers.regions, "look around", questions.RegionsQuery, shown=_LISTED),
    Route(
        *("POST", "/plans", handlers.save_plan, "saved plans", questions.LangQuery, questions.SaveBody),
        *({"plan": _PLAN, "name": "first try"}, _SAVED, "Saved", 201, (409,)),
    ),
    Route("GET", "/plans", handlers.list_plans, "saved plans", questions.PageQuery, shown={"total": 1, "items": [_SAVED]}),
    Route("GET", "/plans/{id}", handlers.read_plan, "saved plans", shown={**_SAVED, "plan": _PLAN}, found="SavedPlan", statuses=(404,)),
    Route("DELETE", "/plans/{id}", handlers.delete_plan, "saved plans", found="", status=204, statuses=(404,)),
    Route(
        "GET",
        "/plans/{id}/export",
        handlers.export_saved,
        "saved plans",
        questions.ExportQuery,
        shown={"target": "skypilot", "files": {}},
        found="Files",
        statuses=(404,),
    ),
    Route(
        *("POST", "/measurements", handlers.save_measurement, "saved plans", questions.LangQuery, questions.MeasureBody),
        *({"plan_id": _ID, "option": 1, "figure": "step_s", "value": 27.6}, _MEASURED, "Measured", 201),
    ),
    Route(
        "GET", "/measurements", handlers.list_measurements, "saved plans", questions.MeasuredQuery, shown={"total": 1, "items": [_MEASURED]}
    ),
    Route("GET", "/runs", handlers.list_runs, "saved plans", questions.MeasuredQuery, shown=_LISTED),
    Route(
        *("POST", "/runs", handlers.save_runs, "saved plans", questions.LangQuery, questions.RunsBody),
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
