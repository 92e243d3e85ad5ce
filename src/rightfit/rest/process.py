"""A running server: its address, its processes, its end."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rightfit.errors import InputError, MissingComponentError
from rightfit.messages import Message, system_problem
from rightfit.rest.app import MISSING, from_environment
from rightfit.rest.settings import PARENT_VARIABLE, TURNS_VARIABLE, Settings, shared_file, taking_turns

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
            http="rightfit.rest.guard:PatientProtocol",
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
        os.environ[PARENT_VARIABLE] = str(os.getpid())
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
