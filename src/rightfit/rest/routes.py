"""The routes as one table: what each is asked, what it answers, and an example of both. The application and its OpenAPI page come from
it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from rightfit import __version__
from rightfit.records import dataclass
from rightfit.rest import desk, questions
from rightfit.rest.desk import Asked, Desk

_LLAMA = {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "qlora", "data": "50Mtok", "deadline": "24h"}
_PLAN = {"schema_version": 1, "workload": {"model": "7B"}, "options": []}
_ID = "Zb1kWQ2m3nX4p5Qr"
_QLORA = {"model": "meta-llama/Meta-Llama-3-8B", "method": "qlora", "data": "50Mtok"}
_FLEET = {"schema_version": 1, "kind": "fleet", "placements": [], "purchases": [], "text": [], "chart": "<svg/>"}


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `query` and `body` are what it reads; `example` a body; `found` the name of the answer's schema; `statuses` refusals of
    its own."""

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
    Route("POST", "/plan", desk.plan, "plans", questions.PlanQuery, questions.PlanBody, _LLAMA, _PLAN, "Plan"),
    Route("GET", "/plan", desk.plan, "plans", questions.PlanAsked, shown=_PLAN, found="Plan"),
    Route(
        *("POST", "/estimate", desk.estimate, "plans", questions.LangQuery, questions.EstimateBody),
        *({**_LLAMA, "on": "aws/p4d.24xlarge", "nodes": 1}, _PLAN, "Plan"),
    ),
    Route("GET", "/estimate", desk.estimate, "plans", questions.EstimateAsked, shown=_PLAN, found="Plan"),
    Route(
        *("POST", "/why", desk.why, "plans", questions.LangQuery, questions.WhyBody),
        *({**_LLAMA, "server": "aws/g5.xlarge"}, {"provider": "aws", "instance_type": "g5.xlarge", "fits": True}, "Verdict"),
    ),
    Route("GET", "/why", desk.why, "plans", questions.WhyAsked, shown={"provider": "aws", "instance_type": "g5.xlarge"}, found="Verdict"),
    Route(
        *("POST", "/check", desk.check, "plans", questions.LangQuery, questions.CheckBody),
        *({"claims": ["g5.xlarge=T4"]}, {"total": 1, "items": [{"query": "g5.xlarge=T4", "exists": True, "claim": "wrong"}]}),
    ),
    Route(
        *("POST", "/understand", desk.understand, "plans", questions.LangQuery, questions.UnderstandBody),
        *(
            {"sentence": "用 QLoRA 微调 Llama-3-8B，10 万条数据，预算 500 元"},
            {"sentence": "...", "wishes": {"method": "qlora"}},
            "Understood",
        ),
    ),
    Route(
        *("POST", "/fleet", desk.fleet, "plans", questions.LangQuery, questions.FleetBody),
        *({"fleet": {"start": "2026-12-01", "jobs": [{"name": "tune", "workload": _QLORA, "deadline": "3d"}]}}, _FLEET, "FleetPlan"),
    ),
    Route("POST", "/predict", desk.predict, "plans", questions.PredictQuery, shown=_LISTED, is_table=True, statuses=(413,)),
    Route(
        "POST",
        "/export",
        desk.export,
        "plans",
        body=questions.ExportBody,
        example={"plan": _PLAN, "to": "skypilot"},
        shown={"target": "skypilot", "files": {}},
        found="Files",
    ),
    Route("GET", "/targets", desk.targets, "plans", shown=_LISTED),
    Route("GET", "/models", desk.models, "look around", questions.ModelsQuery, shown=_LISTED),
    Route("GET", "/accelerators", desk.accelerators, "look around", questions.ListQuery, shown=_LISTED),
    Route("GET", "/datasets", desk.datasets, "look around", questions.ListQuery, shown=_LISTED),
    Route("GET", "/servers", desk.servers, "look around", questions.ServersQuery, shown=_LISTED),
    Route("GET", "/prices", desk.prices, "look around", questions.PricesQuery, shown=_LISTED),
    Route("GET", "/providers", desk.providers, "look around", questions.ListQuery, shown=_LISTED),
    Route("GET", "/regions", desk.regions, "look around", questions.RegionsQuery, shown=_LISTED),
    Route(
        *("POST", "/plans", desk.save_plan, "saved plans", questions.LangQuery, questions.SaveBody),
        *({"plan": _PLAN, "name": "first try"}, _SAVED, "Saved", 201, (409,)),
    ),
    Route("GET", "/plans", desk.list_plans, "saved plans", questions.PageQuery, shown={"total": 1, "items": [_SAVED]}),
    Route("GET", "/plans/{id}", desk.read_plan, "saved plans", shown={**_SAVED, "plan": _PLAN}, found="SavedPlan", statuses=(404,)),
    Route("DELETE", "/plans/{id}", desk.delete_plan, "saved plans", found="", status=204, statuses=(404,)),
    Route(
        "GET",
        "/plans/{id}/export",
        desk.export_saved,
        "saved plans",
        questions.ExportQuery,
        shown={"target": "skypilot", "files": {}},
        found="Files",
        statuses=(404,),
    ),
    Route(
        *("POST", "/measurements", desk.save_measurement, "saved plans", questions.LangQuery, questions.MeasureBody),
        *({"plan_id": _ID, "option": 1, "figure": "step_s", "value": 27.6}, _MEASURED, "Measured", 201),
    ),
    Route("GET", "/measurements", desk.list_measurements, "saved plans", questions.MeasuredQuery, shown={"total": 1, "items": [_MEASURED]}),
    Route("GET", "/runs", desk.list_runs, "saved plans", questions.MeasuredQuery, shown=_LISTED),
    Route(
        *("POST", "/runs", desk.save_runs, "saved plans", questions.LangQuery, questions.RunsBody),
        *({"runs": [_RUN]}, {"new": 1, "ids": [_RUN["id"]]}, "RunsKept", 201, (409,)),
    ),
    Route("DELETE", "/runs/{id}", desk.delete_run, "saved plans", found="", status=204, statuses=(404,)),
    Route("GET", "/health", desk.health, "the server", shown={"status": "ok", "version": __version__}, found="Health"),
    Route("GET", "/ready", desk.ready, "the server", shown={"status": "ready", "catalog": True, "store": True}, found="Health"),
    Route("GET", "/metrics", desk.metrics, "the server", found="text"),
)
