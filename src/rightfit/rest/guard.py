"""What stands before every route: host, token, rate, size and time of a body, headers of safety,
the log and the counts. Plain ASGI."""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import datetime
import hashlib
import hmac
import json
import logging
import os
import secrets
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Any

import prometheus_client as prometheus
from prometheus_client import multiprocess
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rightfit.messages import Lang
from rightfit.rest.reading import Refused, refusal
from rightfit.rest.settings import Settings
from rightfit.rest.work import RETRY_S

if TYPE_CHECKING:
    from rightfit.rest.work import Workshop


# ---- One JSON line for each request, without anything secret: no body, no query, no header of the
# client but its language and program.

NAME = "rightfit.access"
_LONGEST = 200


class JsonLines(logging.Formatter):
    """Log records as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        values: dict[str, Any] = {
            "at": datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.casefold(),
            "logger": record.name,
            "message": record.getMessage()[:2000],
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            values["trace"] = "".join(traceback.format_exception(*record.exc_info))[-8000:]
        if record.stack_info:
            values["trace"] = record.stack_info[-8000:]
        return json.dumps(values, ensure_ascii=True, default=str)


def set_up() -> None:
    """Send the log of the server to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("rightfit", "uvicorn"):
        logging.getLogger(name).setLevel("INFO")
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers[:] = []
        logging.getLogger(name).propagate = name != "uvicorn.access"


def shown(text: str) -> str:
    """A text of a client as a log may hold it: short, and without anything that a
    terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text[:_LONGEST])


# ---- What Prometheus reads of a server: requests, how long they took, answers
# kept, work that waits.

#: Several processes write their counts into files of this folder, so that any of
#: them can tell the sum.
SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_BOUNDS_S = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The counts of one application."""

    def __init__(self, workshop: Workshop) -> None:
        registry = prometheus.CollectorRegistry()
        self._registry, self._workshop = registry, workshop
        labels = ("method", "route", "status")
        self._requests = prometheus.Counter("rightfit_requests", "Requests answered.", labels, registry=registry)
        self._seconds = prometheus.Histogram(
            "rightfit_request_seconds", "Time from the request to the end of its answer.", ("route",), buckets=_BOUNDS_S, registry=registry
        )
        self._cache = prometheus.Counter(
            "rightfit_answers", "Answers given from memory (hit) or worked out (miss).", ("cache",), registry=registry
        )
        mode: Any = {"multiprocess_mode": "livesum"}
        self._waiting = prometheus.Gauge("rightfit_answers_waiting", "Answers being worked out or waited for.", registry=registry, **mode)
        self._kept = prometheus.Gauge("rightfit_cache_bytes", "Bytes of answers kept in memory.", registry=registry, **mode)
        self._seen = {"hit": 0, "miss": 0}

    def count(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._follow()

    def _follow(self) -> None:
        shop = self._workshop
        for name, now in (("hit", shop.hits), ("miss", shop.misses)):
            self._cache.labels(name).inc(now - self._seen[name])
            self._seen[name] = now
        self._waiting.set(shop.waiting)
        self._kept.set(shop.cache.size_bytes)

    def text(self) -> bytes:
        """Everything in the text format of Prometheus."""
        self._follow()
        if os.environ.get(SHARED_FOLDER_VARIABLE):
            together = prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(together)
            return bytes(prometheus.generate_latest(together))
        return bytes(prometheus.generate_latest(self._registry))


def known_route(path: str, routes: Iterable[str]) -> str:
    """The route of a path as a label: its pattern, so that ids do not become labels."""
    parts = path.split("/")
    for route in routes:
        pattern = route.split("/")
        if len(pattern) == len(parts) and all(one == other or one.startswith("{") for one, other in zip(pattern, parts, strict=True)):
            return route
    return "other"


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

API = "/api/v1"
OPEN_PATHS = frozenset({f"{API}/health", f"{API}/ready"})
DOCS_PATHS = (f"{API}/docs", f"{API}/openapi.json")
COOKIE = "rightfit_session"
_CLIENTS_REMEMBERED = 10_000
_TABLES = frozenset({f"{API}/predict"})
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_NOTHING = "default-src 'none'; frame-ancestors 'none'"
_DOCS = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
)
# The page's framework writes its scripts and styles into the page and compiles its templates; all
# else comes from this server alone.
_PAGE = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: Status of a request whose client hung up before it was whole, as nginx counts it.
_HUNG_UP = 499
_access = logging.getLogger(NAME)


@dataclasses.dataclass(slots=True)
class _LimitedBody:
    """How much of a request's body has arrived [bytes]."""

    size: int = 0


class Guard:
    """The application with everything around it that protects it."""

    def __init__(self, app: App, *, settings: Settings, metrics: Metrics, routes: Iterable[str]) -> None:
        self._app, self._settings, self._metrics, self._routes = app, settings, metrics, tuple(routes)
        self._held_bytes = 0  # of bodies of all requests under way
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left and when [s], by client
        self._session = hmac.new(settings.token.encode(), b"rightfit session", hashlib.sha256).hexdigest() if settings.token else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._web_socket(scope, receive, send)
        else:
            await self._request(scope, receive, send)

    async def _web_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        if self._is_host_known(headers) and self._is_own_page(headers) and self._is_allowed(headers):
            await self._app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s, request_id, status = time.perf_counter(), secrets.token_hex(8), 500
        headers = Headers(scope=scope)
        scope.setdefault("state", {})["request_id"] = request_id
        has_begun, body = False, _LimitedBody()

        async def answer(message: Message) -> None:
            nonlocal status, has_begun
            if message["type"] == "http.response.start":
                status, has_begun = message["status"], True
                self._add_headers(scope, headers, message, request_id)
            await send(message)

        try:
            self._admit(scope, headers)
            await self._app(scope, self._limited(scope, headers, receive, body), answer)
        except Refused as refused:
            if not has_begun:
                await refusal(refused, lang_of(scope, headers), request_id=request_id)(scope, receive, answer)
        except ClientDisconnect:
            status = _HUNG_UP
        except Exception:
            _access.exception("internal error", extra={"fields": {"id": request_id}})
            if not has_begun:
                fault = Refused("internal", {"id": request_id})
                await refusal(fault, lang_of(scope, headers), request_id=request_id)(scope, receive, answer)
        finally:
            self._held_bytes -= body.size
            self._record(scope, status, time.perf_counter() - began_s, request_id)

    def _admit(self, scope: Scope, headers: Headers) -> None:
        if not self._is_host_known(headers):
            raise Refused("host")
        path = scope["path"]
        if path in OPEN_PATHS:
            return
        self._take_turn(scope)
        if not self._is_allowed(headers) and not path.startswith(DOCS_PATHS):
            challenge = "Bearer" if path.startswith(API) else 'Basic realm="rightfit", charset="UTF-8"'
            raise Refused("token", headers={"WWW-Authenticate": challenge})
        if scope["method"] not in ("GET", "HEAD", "OPTIONS") and not self._is_own_page(headers):
            raise Refused("host")

    # ---- who may ask -----------------------------------------------------------------------------

    def _is_host_known(self, headers: Headers) -> bool:
        """A page of another name that resolves to this machine must not reach a server
        meant for it alone."""
        allowed = self._settings.allowed_hosts
        if not allowed:
            return True
        host = headers.get("host", "").casefold()
        bare = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        return bare in allowed

    def _is_own_page(self, headers: Headers) -> bool:
        """Requests that change something or keep a connection come from no page of another origin
        (a program sends no origin)."""
        origin = headers.get("origin")
        if not origin or origin in self._settings.cors_origins:
            return True
        return str(origin).partition("://")[2].casefold() == str(headers.get("host", "")).casefold()

    def _is_allowed(self, headers: Headers) -> bool:
        """Whether the client shows the token: as a bearer, as the password of a browser's dialogue,
        or in the session that followed it."""
        token = self._settings.token
        if not token:
            return True
        given = _shown_token(headers.get("authorization", ""))
        if given is not None:
            return hmac.compare_digest(given, token.encode())
        return hmac.compare_digest(_cookie(headers).encode("utf-8", "replace"), self._session.encode())

    # ---- how much --------------------------------------------------------------------------------

    def _take_turn(self, scope: Scope) -> None:
        """A bucket of turns for each client that fills at a steady rate."""
        client, now_s = (scope.get("client") or ("", 0))[0], time.monotonic()
        left, seen_s = self._clients.pop(client, (float(self._settings.burst), now_s))
        left = min(left + (now_s - seen_s) * self._settings.rate_per_s, float(self._settings.burst))
        self._clients[client] = (max(left - 1.0, 0.0), now_s)
        if len(self._clients) > _CLIENTS_REMEMBERED:
            self._clients.popitem(last=False)
        if left < 1.0:
            wait_s = max(1, round((1.0 - left) / self._settings.rate_per_s))
            raise Refused("rate", {"seconds": wait_s}, headers={"Retry-After": str(wait_s)})

    def _limited(self, scope: Scope, headers: Headers, receive: Receive, body: _LimitedBody) -> Receive:
        """The body in pieces, up to the size and within the time allowed, and while all bodies
        together have room."""
        most = self._settings.most_table_bytes if scope["path"] in _TABLES else self._settings.most_body_bytes
        told = headers.get("content-length", "")
        too_large = Refused("too_large", {"most": f"{most / 1e6:g} MB"}, headers={"Connection": "close"})
        if told.isdigit() and int(told[:20]) > most:
            raise too_large
        deadline_s, is_whole = time.monotonic() + self._settings.body_s, False

        async def limited() -> Message:
            nonlocal is_whole
            if is_whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), max(deadline_s - time.monotonic(), 0.01))
            except TimeoutError:
                raise Refused("too_slow", {"seconds": f"{self._settings.body_s:g}"}, headers={"Connection": "close"}) from None
            size = len(message.get("body", b""))
            body.size += size
            self._held_bytes += size
            is_whole = not message.get("more_body", False)
            if body.size > most:
                raise too_large
            if self._held_bytes > self._settings.most_held_bytes:
                raise Refused("busy", {"seconds": RETRY_S}, headers={"Retry-After": str(RETRY_S), "Connection": "close"})
            return message

        return limited

    # ---- afterwards ------------------------------------------------------------------------------

    def _add_headers(self, scope: Scope, headers: Headers, message: Message, request_id: str) -> None:
        added = MutableHeaders(scope=message)
        for name, value in _HEADERS.items():
            added.setdefault(name, value)
        path = scope["path"]
        if path.startswith(API):
            added.setdefault("content-security-policy", _DOCS if path.startswith(DOCS_PATHS) else _NOTHING)
            if not path.startswith(DOCS_PATHS):
                added.setdefault("cache-control", "no-store")
        else:
            added.setdefault("content-security-policy", _PAGE)
        added["x-request-id"] = request_id
        if self._session and headers.get("authorization", "").startswith("Basic ") and message["status"] < 400:
            added.append(
                "set-cookie", f"{COOKIE}={self._session}; HttpOnly; SameSite=Strict; Path=/" + "; Secure" * (scope["scheme"] == "https")
            )

    def _record(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = known_route(scope["path"], self._routes)
        self._metrics.count(method=_method(scope), route=route, status=status, seconds=seconds)
        fields = {
            "id": request_id,
            "method": _method(scope),
            "path": shown(scope["path"]),
            "status": status,
            "ms": round(seconds * 1e3, 1),
            "client": (scope.get("client") or ("", 0))[0],
        }
        _access.info("request", extra={"fields": fields})


def _method(scope: Scope) -> str:
    known = ("GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH")
    return str(scope["method"]) if scope["method"] in known else "other"


def _shown_token(authorization: str) -> bytes | None:
    """The token in a header; None where there is none, so that the cookie counts."""
    scheme, _, value = authorization.partition(" ")
    if scheme.casefold() == "bearer":
        return value.strip().encode("utf-8", "replace")
    if scheme.casefold() == "basic":
        try:
            return base64.b64decode(value.strip(), validate=True).partition(b":")[2]
        except (binascii.Error, ValueError):
            return b""
    return b"" if authorization else None


def _cookie(headers: Headers) -> str:
    for part in headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return str(value)
    return ""


def lang_of(scope: Scope, headers: Headers) -> Lang:
    """The language that a client asks for: lang= in the query, else the first of Accept-Language
    that we speak, else English."""
    for pair in scope.get("query_string", b"").split(b"&"):
        if pair in (b"lang=zh", b"lang=en"):
            return "zh" if pair == b"lang=zh" else "en"
    for choice in headers.get("accept-language", "")[:200].casefold().split(","):
        word = choice.strip()[:2]
        if word in ("zh", "en"):
            return "zh" if word == "zh" else "en"
    return "en"


# ---- uvicorn's protocol with an end to patience: a client that does not finish its request's head
# in time, or makes it too long, is let go.

HEAD_S = float(os.environ.get("RIGHTFIT_HEAD_S", "15"))
MOST_HEAD_BYTES = 65_536


def _farewell(status: int, code: str, title: str, detail: str) -> bytes:
    """A refusal for a request that could not even be read, in the form of all others."""
    problem = {"type": f"urn:rightfit:problem:{code}", "title": title, "status": status, "detail": detail}
    body = json.dumps({**problem, "field": "", "allowed": "", "nearest": [], "errors": []}).encode()
    head = (
        f"HTTP/1.1 {status} {title}\r\ncontent-type: application/problem+json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body


_TOO_SLOW = _farewell(408, "too-slow", "Request Timeout", f"A request must begin within {HEAD_S:g} s.")
_TOO_LONG = _farewell(431, "too-long-head", "Request Header Fields Too Large", f"Address and headers may have {MOST_HEAD_BYTES} bytes.")
_NO_HTTP = _farewell(400, "no-http", "Bad Request", "This is not a request of HTTP/1.1, or its address is too long.")


def _is_between(protocol: Any) -> bool:
    """Whether no request is under way: the next head is awaited or arriving."""
    return protocol.cycle is None or protocol.cycle.response_complete


def _wait(protocol: Any) -> None:
    protocol.head_bytes = 0
    protocol.head_timer = protocol.loop.call_later(HEAD_S, _let_go, protocol, _TOO_SLOW)


def _stop_waiting(protocol: Any) -> None:
    timer, protocol.head_timer = getattr(protocol, "head_timer", None), None
    if timer is not None:
        timer.cancel()


def _let_go(protocol: Any, farewell: bytes) -> None:
    _stop_waiting(protocol)
    if not protocol.transport.is_closing():
        protocol.transport.write(farewell)
        protocol.transport.close()


def _connection_made(self: Any, transport: Any) -> None:
    HttpToolsProtocol.connection_made(self, transport)
    _wait(self)


def _connection_lost(self: Any, error: Any) -> None:
    _stop_waiting(self)
    HttpToolsProtocol.connection_lost(self, error)


def _data_received(self: Any, data: bytes) -> None:
    if self.head_timer is None and _is_between(self):
        _wait(self)
    if self.head_timer is not None:
        self.head_bytes += len(data)
        if self.head_bytes > MOST_HEAD_BYTES and b"\r\n\r\n" not in data:
            _let_go(self, _TOO_LONG)
            return
    HttpToolsProtocol.data_received(self, data)


def _send_400_response(self: Any, _message: str) -> None:
    _let_go(self, _NO_HTTP)


def _on_headers_complete(self: Any) -> None:
    _stop_waiting(self)
    HttpToolsProtocol.on_headers_complete(self)


#: Made from its parts, because a class cannot be checked whose base is not installed.
PatientProtocol: Any = type(
    "PatientProtocol",
    (HttpToolsProtocol,),
    {
        "head_timer": None,
        "head_bytes": 0,
        "connection_made": _connection_made,
        "connection_lost": _connection_lost,
        "data_received": _data_received,
        "on_headers_complete": _on_headers_complete,
        "send_400_response": _send_400_response,
    },
)
