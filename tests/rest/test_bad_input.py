"""Everything a client can send that makes no sense: a clear sentence, a status of 4xx, never a 500,
never a trace, and the server goes on."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rightfit.rest import Settings, create_app
from rightfit.rest.routes import ROUTES
from rightfit.workload.options import OPTIONS

from .conftest import API, QLORA

JSON = {"Content-Type": "application/json"}
SCRIPT = "<script>alert(1)</script>"
PATHS = (
    "/etc/passwd",
    "../../../../etc/passwd",
    "~/.ssh/id_rsa",
    "file:///etc/passwd",
    "C:\\Windows\\win.ini",
    "\\\\host\\share\\model.onnx",
    "model.onnx",
    "weights.safetensors",
    "os:system",
    "config.json",
    "./",
    "\x00/etc/passwd",
)


def refused(answer: Any, *statuses: int) -> dict[str, Any]:
    """The problem that a refusal tells."""
    assert answer.status_code in (statuses or (422,)), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["detail"]
    assert problem["title"]
    assert "Traceback" not in answer.text
    assert "/src/rightfit" not in answer.text
    return problem


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"null", 422),
        (b"[]", 422),
        (b"7", 422),
        (b'"7B"', 422),
        (b"\xff\xfe{}", 400),
        (b'{"model": "\xc3\x28"}', 400),
        (b'{"model": "7B", "model": "8B"}', 400),
        (b'{"epochs": NaN}', 400),
        (b'{"epochs": Infinity}', 400),
        (b'{"epochs": ' + b"9" * 5000 + b"}", 400),
        (b"[" * 100_000, 400),
        (b'{"model":' * 500 + b"1" + b"}" * 500, 400),
        (b'{"model": "\\ud800"}', 422),
        (b'{"model": "\\u0000"}', 422),
        (b'{"model": ""}', 422),
        (b'{"\\ud800": 1}', 422),
    ],
)
def test_bodies_that_are_no_question(client: Any, body: bytes, status: int) -> None:
    refused(client.post(f"{API}/plan", content=body, headers=JSON), status)


def test_an_empty_question_says_what_is_missing(client: Any) -> None:
    assert "model" in refused(client.post(f"{API}/plan", json={}))["detail"]


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"modl": "7B"}, "modl", "did you mean model"),
        ({"epochs": -1}, "epochs", "0.001"),
        ({"epochs": True}, "epochs", "for example 3"),
        ({"epochs": 1e308}, "epochs", "allowed"),
        ({"epochs": [3]}, "epochs", "for example 3"),
        ({"method": 7}, "method", "for example qlora"),
        ({"method": "qlor"}, "method", "qlora"),
        ({"model": "Llama-3-8C"}, None, "Meta-Llama-3-8B"),
        ({"model": SCRIPT}, None, "unknown model"),
        ({"model": "x" * 5000}, "model", "at most 4096"),
        ({"cloud": ["aws"] * 500}, "cloud", "at most 100"),
        ({"cloud": {"a": 1}}, "cloud", "for example"),
        ({"deadline": "yesterday"}, "deadline", "for example 24h"),
        ({"deadline_s": -1.0}, "deadline_s", "1s to 10y"),
        ({"gpu": "H1000"}, None, "H100"),
        ({"budget": "5 apples"}, "budget", "budget"),
        ({"ask": "x" * 3000}, "ask", "2000"),
        ({"ask": "0" * 1500}, "ask", "digits"),
    ],
)
def test_wrong_values_name_their_field_and_the_nearest(client: Any, values: dict[str, Any], field: str | None, said: str) -> None:
    problem = refused(client.post(f"{API}/plan", json={**QLORA, **values}))
    if field not in (None, "deadline_s"):
        assert problem["field"] == field
    assert said in problem["detail"] + " ".join(problem["nearest"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_an_option_that_cannot_be_read_lists_what_it_accepts(client: Any, lang: str) -> None:
    """Of every option of a workload: in words for a person, and in `allowed` for a program."""
    silent, foreign = [], []
    for name, option in OPTIONS.items():
        if option.kind not in ("names", "cards", "text"):  # any text may be a name; the catalog is asked
            problem = refused(client.post(f"{API}/plan?lang={lang}", json={"model": "7B", name: "3 parsecs"}))
            silent += [] if problem["allowed"] else [name]
            foreign += [name] if lang == "zh" and re.search(r"for example|\bto\b", problem["allowed"]) else []
    assert (silent, foreign) == ([], [])
    units = refused(client.post(f"{API}/plan?lang={lang}", json={"model": "7B", "deadline": "3 parsecs"}))["allowed"]
    assert {"ms", "min", "h"} <= set(re.findall(r"[a-z]+", units))


def test_several_problems_are_told_at_once(client: Any) -> None:
    problem = refused(client.post(f"{API}/plan?lang=zh", json={**QLORA, "epochs": -1, "deadline": "yesterday"}))
    assert [one["field"] for one in problem["errors"]] == ["epochs", "deadline"]
    assert "不是正数" in problem["errors"][0]["message"]
    assert problem["errors"][0]["nearest"] == ["0.001"]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at any of the files that are named here fails; our own data may be read."""
    names = {str(Path(name).expanduser()) for name in PATHS if "\x00" not in name} | {
        str(Path(name).resolve()) for name in PATHS if "\x00" not in name
    }

    def watch(kind: type, method: str) -> None:
        original = getattr(kind, method)

        def looked(self: Any, *values: Any, **named: Any) -> Any:
            assert str(self) not in names, f"{method} of {self}"
            return original(self, *values, **named)

        monkeypatch.setattr(kind, method, looked)

    for method in ("open", "is_dir", "is_file", "exists", "stat", "read_text", "read_bytes", "glob"):
        watch(Path, method)
    monkeypatch.setattr("subprocess.Popen.__init__", _forbidden)


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("field", ["model", "trace", "profile", "speculative"])
def test_no_file_and_no_code_of_the_server_is_touched(client: Any, field: str, name: str) -> None:
    body = {"model": "7B", "task": "serve", "rate": "1/s", **({"input_tokens": 100} if field == "speculative" else {}), field: name}
    refused(client.post(f"{API}/plan", json=body))
    refused(client.post(f"{API}/estimate", json={**body, "on": "aws/g5.xlarge"}))


def _forbidden(*values: Any, **named: Any) -> Any:
    raise AssertionError(f"touched: {values[:2]}")


@pytest.mark.usefixtures("watched")
def test_rows_of_tables_touch_no_file_either(client: Any) -> None:
    rows = [{"metric": "peak_mem_gib_per_gpu", "model": name, "gpu": "A100"} for name in PATHS]
    answer = client.post(f"{API}/predict", json=rows)
    assert answer.status_code == 200
    assert len(answer.json()["items"]) == len(PATHS)


def test_a_hub_id_asks_no_hub(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket.connect", _forbidden)
    refused(client.post(f"{API}/plan", json={"model": "nobody/nothing-7b"}))


@pytest.mark.parametrize(
    "path",
    [
        "/models?limit=0",
        "/models?limit=1001",
        "/models?limit=x",
        "/models?limit=1&limit=2",
        "/models?nothing=1",
        "/models?kind=transformr",
        "/models?q=" + "x" * 300,
        "/prices?cloud=awz",
        "/prices?country=Narnia",
        "/regions?near=Atlantis",
        "/plan?model=7B&top=0",
        "/plan?model=7B&top=51",
        "/plan?model=7B&simulate=maybe",
        "/plan?model=%FF%FE",
        "/estimate?model=7B",
        "/estimate?model=7B&on=aws/p9.huge",
        "/estimate?model=7B&on=aws/p4d.24xlarge&nodes=100000",
        "/why?model=7B&server=../..",
        "/measurements?limit=501",
    ],
)
def test_bad_queries(client: Any, path: str) -> None:
    refused(client.get(API + path))


@pytest.mark.parametrize(
    "path",
    [
        "/plans/..%2F..%2Fetc%2Fpasswd",
        "/plans/%00",
        "/plans/%ff",
        "/plans/" + "x" * 3000,
        "/nothing",
        "/../../etc/passwd",
        "/plans/x/export?to=skypilot",
    ],
)
def test_addresses_that_lead_nowhere(client: Any, path: str) -> None:
    refused(client.get(API + path), 404)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "TRACE", "QUERY", "PROPFIND", "BREW"])
def test_what_the_api_does_not_know_never_ends_at_the_page(tmp_path: Path, method: str) -> None:
    from starlette.responses import PlainTextResponse
    from starlette.testclient import TestClient

    app = create_app(Settings(page=False, database_url=f"sqlite:///{tmp_path / 'plans.sqlite'}"))
    app.mount("/", PlainTextResponse("the page"))
    client = TestClient(app)
    for path in (f"{API}/nothing", "/api/nothing", "/api", "/api/v2/plan"):
        refused(client.request(method, path), 404)
    refused(client.request("QUERY", f"{API}/plan"), 405)
    refused(client.request("PATCH", f"{API}/plan"), 405)
    assert client.request(method, "/elsewhere").text == "the page"


@pytest.mark.parametrize("route", [route for route in ROUTES if route.body is not None], ids=lambda route: route.path)
def test_bodies_of_another_kind_are_refused(client: Any, route: Any) -> None:
    refused(client.post(API + route.path, content=b"<a/>", headers={"Content-Type": "application/xml"}), 415)
    refused(client.post(API + route.path, content=b"a=1", headers={"Content-Type": "application/x-www-form-urlencoded"}), 415)
    refused(client.post(API + route.path, content=b"{}"), 415)


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_other_methods_are_refused_with_those_allowed(client: Any, path: str) -> None:
    answer = client.request("PATCH", API + path.replace("{id}", "x"))
    assert refused(answer, 405)
    assert set(answer.headers["allow"].split(", ")) == {route.method for route in ROUTES if route.path == path}


@pytest.mark.parametrize(
    ("kind", "body", "statuses"),
    [
        ("text/csv", b"", (422,)),
        ("text/csv", b"id,metric\n", (422,)),
        ("text/csv", b"id\n\xff\xfe\n", (400,)),
        ("application/x-ndjson", b"{}\n[1]\n", (422,)),
        ("application/x-ndjson", b"{}\n{broken\n", (400,)),
        ("application/json", b'{"rows": 7}', (422,)),
        ("application/json", b'{"rows": []}', (422,)),
        ("application/json", b'{"rows": [{"model": {"a": 1}}]}', (422,)),
        ("application/json", json.dumps({"rows": [{"model": "x" * 20_000}]}).encode(), (422,)),
        ("application/pdf", b"%PDF", (415,)),
    ],
)
def test_tables_that_are_none(client: Any, kind: str, body: bytes, statuses: tuple[int, ...]) -> None:
    refused(client.post(f"{API}/predict", content=body, headers={"Content-Type": kind}), *statuses)


def test_cells_that_make_no_sense_are_said_in_their_row(client: Any) -> None:
    rows = [{"metric": SCRIPT, "model": "7B"}, {"metric": "step_time_s", "model": "7B", "gpu": "A100", "n_gpus": "-3"}, {"\ud800": "x"}]
    found = client.post(f"{API}/predict", content=json.dumps(rows), headers=JSON)
    assert found.status_code == 200
    assert all(row["error"] or row["predicted"] for row in found.json()["items"])
    assert found.json()["items"][0]["predicted"] is None


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"to": "nothing"}, "to"),
        ({"to": "skypilot", "option": 99}, "option"),
        ({"to": "skypilot", "name": "$(reboot)"}, "name"),
        ({"to": "terraform", "ssh_cidr": "0.0.0.0/0"}, "ssh_cidr"),
        ({"to": "skypilot", "plan": {}}, None),
        ({"to": "skypilot", "plan": {"schema_version": 99, "options": []}}, None),
        ({"to": "skypilot", "plan": {"schema_version": 1, "options": [{"rank": "x"}], "workload": {}}}, None),
    ],
)
def test_exports_that_cannot_be(client: Any, plan: dict[str, Any], values: dict[str, Any], field: str | None) -> None:
    problem = refused(client.post(f"{API}/export", json={"plan": plan, **values}))
    assert field is None or problem["field"] == field


def test_what_is_saved_must_be_a_plan(client: Any, plan: dict[str, Any]) -> None:
    refused(client.post(f"{API}/plans", json={"plan": {"a": 1}}))
    refused(client.post(f"{API}/plans", json={"plan": plan, "name": "x" * 201}))
    refused(client.post(f"{API}/plans", json={"plan": plan, "name": "a\u0000b"}))
    kept = client.post(f"{API}/plans", json={"plan": {**plan, "note": "\u0000" + SCRIPT}, "name": SCRIPT}).json()
    again = client.get(f"{API}/plans/{kept['id']}")
    assert again.json()["plan"]["note"] == "\u0000" + SCRIPT
    assert again.headers["content-type"] == "application/json"
    assert again.headers["x-content-type-options"] == "nosniff"


def test_after_all_this_the_server_answers(client: Any) -> None:
    assert client.post(f"{API}/plan?top=1", json=QLORA).status_code == 200
    assert 'status="500"' not in client.get(f"{API}/metrics").text
