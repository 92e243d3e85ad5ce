"""One HTTP server that plays every source of prices, and the faults that they have.

The first word of a path names the source (`/azure/api/retail/prices`); SDKs that take a host only
are told apart by their headers.
"""

from __future__ import annotations

import dataclasses
import email.utils
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclasses.dataclass(frozen=True)
class Request:
    """What a client asked."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(urllib.parse.parse_qsl(self.body.decode()))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclasses.dataclass(frozen=True)
class Reply:
    """What is answered; a dict or list goes out as JSON."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = dataclasses.field(default_factory=dict)


class _Quiet(ThreadingHTTPServer):
    """A client that was killed is no error of the server."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


Answer = Callable[[Request], Reply]
# Faults: a status (with Retry-After: 0 where it is a busy one), "truncated" (half the JSON),
# "broken" (the connection ends half-way), "slow" (no answer for a second), "html" (an error page
# with status 200).
Fault = int | str


class Fake:
    """A running server. `answers` maps a source's name to what it says; `faults` are used up one a
    request, before the answers."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.asked: list[Request] = []
        self.clock_s = 0.0  # how far this server's clock is ahead
        self._server = _Quiet(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self, source: str) -> int:
        """Requests to a source so far."""
        return sum(_source(request) == source for request in self.asked)


@contextmanager
def running() -> Iterator[Fake]:
    fake = Fake()
    fake.start()
    try:
        yield fake
    finally:
        fake.stop()


def _source(request: Request) -> str:
    headers = request.headers
    if "x-tc-action" in headers:
        return "tencent"
    if "x-acs-action" in headers or "Action" in request.query:
        return "alicloud"
    return request.path.split("/")[1]


def _handler(fake: Fake) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def date_time_string(self, timestamp: float | None = None) -> str:
            return email.utils.formatdate(time.time() + fake.clock_s, usegmt=True)

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.casefold(): value for name, value in self.headers.items()}
            request = Request(self.command, parts.path, dict(urllib.parse.parse_qsl(parts.query)), headers, body)
            fake.asked.append(request)
            source = _source(request)
            waiting = fake.faults.get(source, [])
            fault = waiting.pop(0) if waiting else None
            answer = fake.answers.get(source)
            reply = (
                Reply({"error": "nothing here"}, 404)
                if answer is None
                else answer(request)
                if not isinstance(fault, int)
                else Reply({"error": "fault"}, fault, {"Retry-After": "0"})
            )
            self._send(reply, fault)

        do_POST = do_GET  # noqa: N815

        def _send(self, reply: Reply, fault: Fault | None) -> None:
            is_json = isinstance(reply.body, (dict, list))
            body = json.dumps(reply.body).encode() if is_json else reply.body if isinstance(reply.body, bytes) else str(reply.body).encode()
            length = len(body)
            if fault == "slow":
                time.sleep(1.0)
            if fault == "html":
                body = b"<html><body>Service unavailable</body></html>"
                length = len(body)
            if fault in ("truncated", "broken"):
                body = body[: length // 2]
                length = len(body) if fault == "truncated" else length
            try:
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                return
            if fault == "broken":
                self.close_connection = True

    return Handler
