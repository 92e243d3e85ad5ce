"""Host, token, rate, size and time of a body, headers of safety, and what the log tells."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import InputError
from rightfit.exports import ExportSettings
from rightfit.rest import Settings, answers, create_app

from .conftest import API, QLORA, client_of

TOKEN = "a-secret-of-some-length"


def settings(folder: Path, **values: Any) -> Settings:
    return Settings(page=False, database_url=f"sqlite:///{folder / 'plans.sqlite'}", **values)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Any]:
    """A server with a token."""
    with client_of(settings(tmp_path, token=TOKEN)) as found:
        yield found


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Token {TOKEN}"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic eA=="},
        {"Cookie": "rightfit_session=wrong"},
        {"Cookie": f"rightfit_session={TOKEN}"},
    ],
)
def test_nobody_gets_in_without_the_token(guarded: Any, headers: dict[str, str]) -> None:
    for answer in (guarded.get(f"{API}/models", headers=headers), guarded.post(f"{API}/plan", json=QLORA, headers=headers)):
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "Authorization: Bearer" in answer.json()["detail"]
    assert guarded.get("/", headers=headers).headers["www-authenticate"].startswith("Basic")


def test_the_token_opens_and_a_browser_gets_a_session(guarded: Any) -> None:
    import base64

    assert guarded.get(f"{API}/targets", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    basic = base64.b64encode(f"me:{TOKEN}".encode()).decode()
    answer = guarded.get(f"{API}/targets", headers={"Authorization": f"Basic {basic}"})
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert guarded.get(f"{API}/targets").status_code == 200  # the session


@pytest.mark.parametrize("path", [f"{API}/health", f"{API}/ready", f"{API}/docs", f"{API}/openapi.json"])
def test_health_and_the_description_are_open(guarded: Any, path: str) -> None:
    assert guarded.get(path).status_code == 200


def test_a_client_that_asks_too_often_waits(tmp_path: Path) -> None:
    with client_of(settings(tmp_path, rate_per_s=0.5, burst=3)) as client:
        codes = [client.get(f"{API}/targets").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        refused = client.get(f"{API}/targets?lang=zh")
        assert refused.headers["retry-after"] == "2"
        assert refused.json()["detail"] == "请在 2 秒后重试。"
        assert client.get(f"{API}/health").status_code == 200


def test_other_host_names_are_refused_where_they_are_named(tmp_path: Path) -> None:
    with client_of(settings(tmp_path, allowed_hosts=("localhost", "127.0.0.1", "[::1]"))) as client:
        assert client.get(f"{API}/health", headers={"Host": "rebound.example.com"}).status_code == 421
        for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:9", "[::1]:8000"):
            assert client.get(f"{API}/health", headers={"Host": host}).status_code == 200


def test_another_page_cannot_change_anything(client: Any, plan: dict[str, Any]) -> None:
    body = {"plan": plan}
    assert client.post(f"{API}/plans", json=body, headers={"Origin": "https://evil.example.com"}).status_code == 421
    assert client.post(f"{API}/plans", json=body, headers={"Origin": "http://testserver"}).status_code == 201
    answer = client.options(f"{API}/plan", headers={"Origin": "https://evil.example.com", "Access-Control-Request-Method": "POST"})
    assert "access-control-allow-origin" not in answer.headers


def test_pages_that_are_allowed_may_ask(tmp_path: Path) -> None:
    with client_of(settings(tmp_path, cors_origins=("https://tools.example.com",))) as client:
        asked = {"Origin": "https://tools.example.com", "Access-Control-Request-Method": "POST"}
        assert client.options(f"{API}/plan", headers=asked).headers["access-control-allow-origin"] == "https://tools.example.com"
        answer = client.get(f"{API}/targets", headers={"Origin": "https://tools.example.com"})
        assert answer.headers["access-control-allow-origin"] == "https://tools.example.com"
        assert "access-control-allow-origin" not in client.get(f"{API}/targets", headers={"Origin": "https://evil.example.com"}).headers


def test_bodies_have_a_size(tmp_path: Path) -> None:
    with client_of(settings(tmp_path, most_body_bytes=1000, most_table_bytes=2000, most_rows=3)) as client:
        told = client.post(f"{API}/plan", content=b" " * 1001, headers={"Content-Type": "application/json"})
        assert (told.status_code, told.json()["detail"]) == (413, "The limit is 0.001 MB.")
        untold = client.post(f"{API}/plan", content=iter([b" " * 600, b" " * 600]), headers={"Content-Type": "application/json"})
        assert untold.status_code == 413
        assert client.post(f"{API}/predict", json=[{}] * 4).status_code == 413
        assert client.post(f"{API}/plan?top=1", json=QLORA).status_code == 200


def test_bodies_together_have_a_size(tmp_path: Path) -> None:
    with client_of(settings(tmp_path, most_held_bytes=3000)) as client:
        refused = client.post(f"{API}/plan", content=iter([b" " * 2000, b" " * 2000]), headers={"Content-Type": "application/json"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        for _ in range(5):  # what was held is let go
            assert (
                client.post(
                    f"{API}/plan?top=1", content=b" " * 1500 + json.dumps(QLORA).encode(), headers={"Content-Type": "application/json"}
                ).status_code
                == 200
            )


def test_a_body_that_does_not_arrive_is_not_waited_for(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path, body_s=0.05))
    sent: list[Any] = []

    async def receive() -> Any:
        if not sent:
            sent.append(None)
            return {"type": "http.request", "body": b'{"model"', "more_body": True}
        return await asyncio.sleep(60)

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": f"{API}/plan",
        "raw_path": b"",
        "root_path": "",
    }
    scope |= {
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "client": ("1.2.3.4", 5),
        "server": ("x", 80),
    }
    asyncio.run(asyncio.wait_for(app(scope, receive, send), 5))
    assert sent[1]["status"] == 408
    assert json.loads(sent[2]["body"])["detail"] == "A request must be complete within 0.05 s."


def test_every_answer_has_the_headers_of_safety(client: Any) -> None:
    for path in (f"{API}/health", f"{API}/nothing", f"{API}/plan", f"{API}/docs", "/nothing"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert len(headers["x-request-id"]) == 16
        assert "server" not in headers


def test_the_log_tells_requests_and_no_secret(guarded: Any, caplog: pytest.LogCaptureFixture) -> None:
    from rightfit.rest.guard import JsonLines

    caplog.set_level(logging.INFO)
    answer = guarded.post(
        f"{API}/plan?model=private-name%1b%5b31m", json={"model": "private-name"}, headers={"Authorization": f"Bearer {TOKEN}"}
    )
    lines = [JsonLines().format(record) for record in caplog.records if record.name == "rightfit.access"]
    (line,) = [json.loads(text) for text in lines]
    assert (line["status"], line["path"], line["id"]) == (answer.status_code, f"{API}/plan", answer.headers["x-request-id"])
    text = "\n".join(JsonLines().format(record) for record in caplog.records if record.name.startswith("rightfit"))
    assert TOKEN not in text
    assert "private-name" not in text


def test_a_fault_of_ours_shows_no_trace_to_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answers, "targets", lambda: 1 / 0)
    with client_of(settings(tmp_path)) as client:
        answer = client.get(f"{API}/targets?lang=zh")
    assert answer.status_code == 500
    assert "ZeroDivisionError" not in answer.text
    assert answer.headers["x-request-id"] in answer.json()["detail"]
    assert "ZeroDivisionError" in caplog.text


def test_metrics_have_no_labels_of_clients(client: Any) -> None:
    client.get(f"{API}/plans/secret-id")
    client.request("BREW", f"{API}/plan")
    text = client.get(f"{API}/metrics").text
    assert "secret-id" not in text
    assert "BREW" not in text
    assert 'route="/api/v1/plans/{id}"' in text


@pytest.mark.parametrize(
    "values",
    [
        {"token": "short"},
        {"token": "with a blank in the text \n"},
        {"token": "ünïcödé-ünïcödé-x"},
        {"rate_per_s": 0.0},
        {"body_s": float("inf")},
    ],
)
def test_settings_that_make_no_sense(values: dict[str, Any]) -> None:
    from rightfit.errors import InputError

    with pytest.raises(InputError):
        Settings(**values)


def test_settings_travel_to_the_processes_and_secrets_are_not_shown(tmp_path: Path) -> None:
    from rightfit.rest.settings import VARIABLE, from_environment

    given = settings(tmp_path, token=TOKEN, cors_origins=("https://a.example",), most_rows=7)
    variables = given.to_environment()
    assert from_environment(variables) == given
    assert TOKEN not in variables[VARIABLE]
    assert TOKEN not in repr(given)


@pytest.mark.parametrize("path", ["plan", "runs", "predict", "fleet"])
def test_a_client_that_hangs_up_is_no_fault_of_ours(path: str, client: Any, caplog: pytest.LogCaptureFixture) -> None:
    """In the middle of its body: counted as 499, without a trace in the log."""
    import asyncio

    messages = iter([{"type": "http.request", "body": b'{"model', "more_body": True}, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"100")]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": f"{API}/{path}",
        "raw_path": b"",
        "root_path": "",
        "scheme": "http",
    }
    scope |= {
        "query_string": b"",
        "headers": headers,
        "client": ("1.2.3.4", 1),
        "server": ("localhost", 80),
        "state": {},
        "app": client.app,
    }
    asyncio.run(client.app(scope, receive, send))
    assert not [record for record in caplog.records if record.exc_info or "internal" in record.getMessage()]
    counted = [
        line for line in client.get(f"{API}/metrics").text.splitlines() if line.startswith("rightfit_requests_total") and f"/{path}" in line
    ]
    assert [line for line in counted if 'status="499"' in line]
    assert not [line for line in counted if 'status="500"' in line]


@pytest.mark.parametrize("revision", ["a/../../x", "../x", "a//b", "/a", "a/..", "a..b", ".hidden", "a b", "a\n", "a%2fb", "a?b"])
def test_a_revision_has_no_step_upwards(revision: str, client: Any, plan: dict[str, Any]) -> None:
    answer = client.post(f"{API}/export", json={"plan": plan, "to": "skypilot", "revision": revision})
    assert (answer.status_code, answer.json()["field"]) == (422, "revision")
    with pytest.raises(InputError):
        ExportSettings(revision=revision)


@pytest.mark.parametrize("revision", ["", "main", "refs/pr/1", "v1.0.2-rc", "0123456789abcdef0123456789abcdef01234567"])
def test_a_revision_that_is_one_is_taken(revision: str, client: Any, plan: dict[str, Any]) -> None:
    assert client.post(f"{API}/export", json={"plan": plan, "to": "skypilot", "revision": revision}).status_code == 200


@pytest.mark.parametrize("part", ["1e-308", "1e-5", "0.000001%", "1/1e300", "1/101"])
def test_a_part_of_a_card_on_which_nothing_stands_is_refused(part: str, client: Any) -> None:
    answer = client.post(f"{API}/plan", json={"model": "7B", "task": "serve", "rate": "1/s", "slice": part})
    assert (answer.status_code, answer.json()["field"]) == (422, "slice")
