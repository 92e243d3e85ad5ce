"""uvicorn's protocol with an end to patience: a client that does not finish its request's head in time, or makes it too long, is let go."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_S = 15.0
MOST_HEAD_BYTES = 65_536
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


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
    },
)
