"""A client that openapi-python-client makes of the API's own description: it is made without a
warning that matters, and it talks to a running server."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faces.conftest import serving

pytest.importorskip("openapi_python_client", reason="openapi-python-client makes the client")

#: What the generator says it leaves out: bodies that are no JSON. The operation is there
#: with its JSON body.
LEFT_OUT = {"Unsupported content type application/x-ndjson", "Unsupported content type text/csv"}
#: Beginnings of lines that are no warning of their own.
FRAME = (
    "Generating ",
    "Warning(s) encountered",
    "WARNING parsing POST /api/v1/predict",
    "If you believe this was a mistake",
    " ",
    "{",
    "}",
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server"), "--no-page") as (found, _):
        yield found


@pytest.fixture(scope="module")
def made(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The package of the client, importable; what the generator printed."""
    folder = tmp_path_factory.mktemp("client")
    with urllib.request.urlopen(f"{address}/api/v1/openapi.json", timeout=60) as answer:
        (folder / "openapi.json").write_bytes(answer.read())
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json", "--output-path", "made"]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # it calls ruff by name
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sys.path.insert(0, str(folder / "made"))
    yield done.stdout
    sys.path.remove(str(folder / "made"))


@pytest.fixture(scope="module")
def client(made: str, address: str) -> Iterator[Any]:
    with importlib.import_module("rightfit_client").Client(base_url=address, timeout=120.0) as found:
        yield found


def call(route: str) -> Callable[..., Any]:
    """The generated function of a route, synchronous."""
    return importlib.import_module(f"rightfit_client.api.{route}").sync


def models() -> Any:
    return importlib.import_module("rightfit_client.models")


def test_nothing_but_bodies_that_are_no_json_is_left_out(made: str) -> None:
    told = {line for line in made.splitlines() if line and not line.startswith(FRAME)}
    assert told <= LEFT_OUT


def test_every_operation_of_the_description_is_a_function(made: str, address: str) -> None:
    with urllib.request.urlopen(f"{address}/api/v1/openapi.json", timeout=60) as answer:
        paths = json.load(answer)["paths"]
    count = sum(len(set(item) & {"get", "post", "put", "delete"}) for item in paths.values())
    folder = Path(importlib.import_module("rightfit_client.api").__file__ or "").parent
    assert count == len([path for path in folder.glob("*/*.py") if path.name != "__init__.py"]) > 20


def test_a_plan_is_typed(client: Any) -> None:
    question = models().WorkloadQuestion.from_dict({"model": "Llama-3-8B", "method": "qlora", "data": "5Mtok"})
    plan = call("plans.post_plan")(client=client, body=question, top=3)
    assert type(plan).__name__ == "RightfitPlan"
    best = plan.options[0]
    assert best.rank == 1
    assert best.cost.total_usd > 0
    assert best.cost.total_usd == pytest.approx(sum(best.cost.terms.additional_properties.values()))
    assert plan.to_dict()["options"][0]["instance_type"] == best.instance_type


def test_a_refusal_is_typed(client: Any) -> None:
    wrong = call("plans.post_plan")(client=client, body=models().WorkloadQuestion.from_dict({"model": "Llama-3-8C", "method": "qlora"}))
    assert type(wrong).__name__ == "Problem"
    assert (wrong.status, wrong.field) == (422, "model")
    assert wrong.nearest
