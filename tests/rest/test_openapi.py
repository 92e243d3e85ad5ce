"""The description is sound, every route has an example that holds, and the words are there
in both languages."""

from __future__ import annotations

import json
import string
from typing import Any

import jsonschema
import pytest

from rightfit.rest import reading, routes
from rightfit.rest.routes import ROUTES
from rightfit.workload.options import OPTIONS

from .conftest import API


@pytest.fixture(scope="module")
def description(client: Any) -> dict[str, Any]:
    return dict(client.get(f"{API}/openapi.json").json())


def resolved(description: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema that can be used alone."""
    return {**schema, "components": description["components"]}


def test_the_routes_of_the_task_are_there(description: dict[str, Any]) -> None:
    paths = {path.removeprefix(API) for path in description["paths"]}
    wanted = "plan estimate predict why fleet check understand models accelerators datasets servers prices regions providers targets export plans measurements runs"
    assert {f"/{name}" for name in wanted.split()} | {
        "/health",
        "/ready",
        "/metrics",
        "/plans/{id}",
        "/plans/{id}/export",
        "/runs/{id}",
    } == paths


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_is_described_with_examples_that_hold(description: dict[str, Any], route: Any) -> None:
    entry = description["paths"][API + route.path][route.method.lower()]
    assert len(entry["summary"]) > 8
    assert entry["tags"] == [route.group]
    for status, answer in entry["responses"].items():
        for media, content in answer.get("content", {}).items():
            if media.endswith("json") and int(status) >= 400:
                jsonschema.validate(content.get("example", {"status": "waiting"}), resolved(description, content["schema"]))
    for media, content in entry.get("requestBody", {}).get("content", {}).items():
        assert content["example"], media
        if media == "application/json":
            jsonschema.validate(content["example"], resolved(description, content["schema"]))


@pytest.mark.parametrize("path", ["/plan", "/estimate", "/why", "/fleet", "/check", "/understand"])
def test_the_examples_of_questions_get_answers(client: Any, description: dict[str, Any], path: str) -> None:
    example = description["paths"][API + path]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert client.post(API + path, json=example).status_code == 200


@pytest.mark.parametrize("media", ["application/json", "application/x-ndjson", "text/csv"])
def test_the_examples_of_tables_are_predicted(client: Any, description: dict[str, Any], media: str) -> None:
    example = description["paths"][f"{API}/predict"]["post"]["requestBody"]["content"][media]["example"]
    body = example if isinstance(example, str) else json.dumps(example)
    (row,) = client.post(f"{API}/predict?form=json", content=body, headers={"Content-Type": media}).json()["items"]
    assert row["predicted"] > 0
    assert not row["error"]


def test_questions_have_every_option_and_nothing_else_is_taken(description: dict[str, Any]) -> None:
    question = description["components"]["schemas"]["WorkloadQuestion"]
    assert set(OPTIONS) <= set(question["properties"])
    assert question["additionalProperties"] is False
    asked = {parameter["name"] for parameter in description["paths"][f"{API}/plan"]["get"]["parameters"]}
    assert asked == {*OPTIONS, "ask", "top", "simulate", "staged", "lang"}


def test_every_reference_leads_somewhere(description: dict[str, Any]) -> None:
    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            return {value["$ref"]} if isinstance(value.get("$ref"), str) else set().union(*map(references, value.values()), set())
        return set().union(*map(references, value), set()) if isinstance(value, list) else set()

    known = {f"#/components/schemas/{name}" for name in description["components"]["schemas"]}
    assert references(description) <= known


def test_an_answer_is_as_described(client: Any, description: dict[str, Any], plan: dict[str, Any]) -> None:
    jsonschema.validate(plan, resolved(description, description["components"]["schemas"]["Plan"]))
    problem = client.post(f"{API}/plan", json={}).json()
    jsonschema.validate(problem, resolved(description, description["components"]["schemas"]["Problem"]))


def test_what_the_server_says_is_there_in_both_languages() -> None:
    for code, entry in reading.words().items():
        assert set(entry) == {"en", "zh", "title_en", "title_zh"}, code
        fields = [{name for _, name, _, _ in string.Formatter().parse(entry[lang]) if name} for lang in ("en", "zh")]
        assert fields[0] == fields[1], code
        assert all(text.strip() for text in entry.values())
    assert set(reading.words()) == set(reading._STATUS)
    assert set(reading._STATUS.values()) <= {*routes._REFUSALS, 500}
