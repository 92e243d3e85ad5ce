"""A running server: its address, its processes, its end."""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rightfit.errors import InputError, MissingComponentError
from rightfit.messages import Message, system_problem
from rightfit.rest.app import MISSING, from_environment
from rightfit.rest.settings import TURNS_VARIABLE, Settings, shared_file, taking_turns

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


_BACKLOG = 1024
_IDLE_S, _FINISH_S = 15, 10


def require_web() -> None:
    """MissingComponentError where the extra web is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("fastapi", "fastapi_offline", "uvicorn", "sqlalchemy", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise MissingComponentError(Message("rest.lacks_several", why=MISSING, names=", ".join(missing)))


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; InputError in one line where the address cannot be had."""
    if not 0 <= port <= 65535:
        raise InputError(Message("rest.no_port", port=port), field="port", allowed="0 to 65535")
    listener: socket.socket | None = None
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        if os.name == "posix":  # elsewhere it would let two servers share one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
    except socket.gaierror:
        raise InputError(Message("rest.no_host", host=host[:80]), field="host") from None
    except (OSError, OverflowError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        raise InputError(_refused(host[:80], port, error), field="port") from None
    listener.set_inheritable(True)
    return listener


def _refused(host: str, port: int, error: BaseException) -> Message:
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return Message("rest.port_taken", port=port, host=host)
    if number == errno.EACCES:
        return Message("rest.port_rights", port=port)
    if number == errno.EADDRNOTAVAIL:
        return Message("rest.no_host", host=host)
    return Message("rest.cannot_listen", host=host, port=port, error=system_problem(error))


def address_of(listener: socket.socket, host: str) -> str:
    """The address at which the server answers, for a browser."""
    shown = f"[{host}]" if ":" in host else "127.0.0.1" if host in ("0.0.0.0", "") else host  # noqa: S104  (compared, not bound)
    return f"http://{shown}:{listener.getsockname()[1]}"


def serve(
    settings: Settings,
    listener: socket.socket,
    *,
    application: Callable[[], Any] = from_environment,
    workers: int = 1,
    started: Callable[[], None] = lambda: None,
    proxies: Sequence[str] = (),
) -> None:
    """Run until told to stop (Ctrl-C, SIGTERM); requests under way are finished first.

    `application`: a function of a module, which makes the application of each process from its
    environment. `started` is called once before the first request. `proxies`: addresses and ranges
    that are believed when they say for whom they ask.
    """
    require_web()
    import uvicorn

    gc.enable()  # a command that lives for a second goes without; a server must not
    _allow_many_connections()
    with _environment(settings, workers=workers):
        config = uvicorn.Config(
            application,
            factory=True,
            workers=workers,
            http="rightfit.rest.process:PatientProtocol",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_FINISH_S,
            loop="asyncio" if workers > 1 else "auto",  # the one that lets processes take turns
            h11_max_incomplete_event_size=65536,
            ws_max_size=4_000_000,
        )
        started()
        is_shared = workers > 1 and os.name == "posix"  # other systems hand sockets to processes in a way of their own
        _run(uvicorn, config, taking_turns(listener) if is_shared else listener, workers=workers)


def _run(uvicorn: Any, config: Any, listener: socket.socket, *, workers: int) -> None:
    server = uvicorn.Server(config)
    with contextlib.closing(listener), contextlib.suppress(KeyboardInterrupt):
        if workers == 1:
            # uvicorn sends itself the signal again when it has ended well, which
            # would end us badly.
            signal.signal(signal.SIGTERM, lambda _number, _frame: None)
            server.run(sockets=[listener])
        else:
            _supervisor(config, server, listener).run()


def _supervisor(config: Any, server: Any, listener: socket.socket) -> Any:
    """What starts and watches several processes; older releases of uvicorn want to be
    told what each runs."""
    import inspect

    from uvicorn.supervisors import Multiprocess

    takes_target = "target" in inspect.signature(Multiprocess).parameters
    return Multiprocess(config, **({"target": server.run} if takes_target else {}), sockets=[listener])


@contextlib.contextmanager
def _environment(settings: Settings, *, workers: int) -> Iterator[None]:
    """The variables from which each process reads its settings, and a folder for the
    counts of several."""
    before, folder = dict(os.environ), ""
    os.environ.update(settings.to_environment())
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if workers > 1:
        folder = os.environ["PROMETHEUS_MULTIPROC_DIR"] = tempfile.mkdtemp(prefix="rightfit-metrics-")
        os.environ[TURNS_VARIABLE] = shared_file(folder)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


def _allow_many_connections() -> None:
    """As many open files as the system grants, since each connection is one."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 65536 if most == resource.RLIM_INFINITY else most
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
