"""uvicorn's protocol with an end to patience: a client that does not finish its request's head in time, or makes it too long, is let go."""

from __future__ import annotations

import json
import os
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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
