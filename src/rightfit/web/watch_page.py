"""The page of a run that is followed, and its metrics for Prometheus, by the standard library
alone: it runs beside a training job and must weigh nothing."""

from __future__ import annotations

import html
import json
import socket
import threading
from collections import deque
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from rightfit.errors import UnavailableError
from rightfit.explain.messages import say
from rightfit.explain.run_text import compared_records, finding_lines, head_line, progress_lines, to_dict
from rightfit.measure.watching.judging import CONTENT_TYPE, exposition
from rightfit.messages import Lang, Message, system_problem
from rightfit.rest.settings import LOCAL_HOSTS, is_local

if TYPE_CHECKING:
    from rightfit.measure.watching.judging import State

_REFRESH_S = 2
_MOST_POINTS = 600
_WIDTH, _HEIGHT = 720.0, 160.0
_STYLE = (
    "body{font:16px/1.5 system-ui,'Noto Sans CJK SC',sans-serif;max-width:48rem;margin:2rem auto;padding:0 1rem;color:#16323a;background:#fff}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:right;padding:.25rem .5rem;border-bottom:1px solid #d5dfe2}"
    "th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}.alert{border-left:4px solid #b3261e;padding-left:.75rem}"
    "progress{width:100%}svg{width:100%;height:auto}@media(prefers-color-scheme:dark){body{color:#dde7ea;background:#11191c}th,td{border-color:#33474e}}"
)

_SAFE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class WatchServer:
    """Serves `/`, `/state.json` and `/metrics` from a thread of its own while the run is followed.
    Raises UnavailableError where the port is taken."""

    def __init__(self, host: str, port: int, name: str, lang: Lang) -> None:
        self._name, self._lang = name, lang
        self._hosts = LOCAL_HOSTS if is_local(host) else ()
        self._state: State | None = None
        self._points: deque[float] = deque(maxlen=_MOST_POINTS)
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_known = page.is_known(self.headers.get("Host", ""))
                status, kind, text = page.answer(self.path) if is_known else (421, "text/plain; charset=utf-8", "another host\n")
                body = text.encode()
                self.send_response(status)
                for header, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *_SAFE.items()):
                    self.send_header(header, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Nothing: the terminal shows the run."""

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        kind = type("Server", (ThreadingHTTPServer,), {"address_family": family, "daemon_threads": True})
        try:
            self._server = kind((host, port), Handler)
        except (OSError, OverflowError) as error:
            raise UnavailableError(Message("faces.cannot_listen", address=f"{host}:{port}", error=system_problem(error))) from None
        shown = f"[{host}]" if ":" in host else host
        self.place = f"{shown}:{self._server.server_address[1]}"

    def __enter__(self) -> WatchServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def show(self, state: State) -> None:
        """What is served from now on."""
        self._state = state
        if state.steps is not None:
            self._points.append(state.steps.mean)

    def is_known(self, host: str) -> bool:
        """Whether the name that a client asks for is this machine's: a page of another name that
        resolves to it must not read what is meant for it alone."""
        host = host.casefold()
        bare = host[: host.rindex("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
        return not self._hosts or bare in self._hosts

    def answer(self, path: str) -> tuple[int, str, str]:
        """Status, content type and body of a path."""
        parts = urlsplit(path)
        state = self._state
        asked = parse_qs(parts.query).get("lang", [""])[0]
        lang: Lang = "zh" if asked == "zh" else "en" if asked == "en" else self._lang
        if parts.path not in ("/", "/metrics", "/state.json"):
            return 404, "text/plain; charset=utf-8", "/, /metrics, /state.json\n"
        if state is None:
            return 503, "text/plain; charset=utf-8", "no look yet\n"
        if parts.path == "/metrics":
            return 200, CONTENT_TYPE, exposition(state)
        if parts.path == "/state.json":
            return 200, "application/json", json.dumps(to_dict(state, self._name), ensure_ascii=False)
        return 200, "text/html; charset=utf-8", page_of(state, self._name, lang, list(self._points))


def page_of(state: State, name: str, lang: Lang, points: Sequence[float]) -> str:
    """The whole page; it loads nothing from elsewhere and asks for itself anew."""
    safe = html.escape
    other = "en" if lang == "zh" else "zh"
    lines = "".join(f"<p>{safe(line)}</p>" for line in progress_lines(state, lang))
    bar = f'<progress max="1" value="{state.share:.4f}"></progress>' if state.share is not None else ""
    alert = ' class="alert"' if state.findings else ""
    found = "".join(f"<p{alert}>{safe(line)}</p>" for line in finding_lines(state, lang))
    title = safe(f"{say('watch.page_title', lang)}: {name}")
    return (
        f'<!doctype html><html lang="{"zh-CN" if lang == "zh" else "en"}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="refresh" content="{_REFRESH_S}"><title>{title}</title><style>{_STYLE}</style></head><body>'
        f'<p><a href="/?lang={other}">{"English" if lang == "zh" else "中文"}</a></p><h1>{title}</h1>'
        f"<p>{safe(head_line(state, name, lang))}</p>{bar}{lines}{found}{_table(state, lang)}{_curve(state, lang, points)}</body></html>\n"
    )


def _table(state: State, lang: Lang) -> str:
    from rightfit.explain.messages import label

    records = compared_records(state, lang)
    if not records:
        return ""
    heads = "".join(f"<th>{html.escape(label('column', key, lang))}</th>" for key in records[0])
    rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row.values()) + "</tr>" for row in records)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


def _curve(state: State, lang: Lang, points: Sequence[float]) -> str:
    """Step time over the looks, with the plan's 95 % interval as a band."""
    planned = state.expected.figure("step_s")
    if len(points) < 2:
        return ""
    top = 1.1 * max(*points, planned.high95 if planned else 0.0)
    band = ""
    if planned:
        low, high = (_HEIGHT * (1.0 - bound / top) for bound in (planned.low95, planned.high95))
        band = f'<rect x="0" y="{high:.1f}" width="{_WIDTH:.0f}" height="{low - high:.1f}" fill="#0d5a6c" opacity="0.15"/>'
    drawn = " ".join(f"{_WIDTH * at / (len(points) - 1):.1f},{_HEIGHT * (1.0 - value / top):.1f}" for at, value in enumerate(points))
    title = html.escape(say("watch.page_steps", lang))
    return (
        f'<h2>{title}</h2><svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{title}">{band}'
        f'<polyline points="{drawn}" fill="none" stroke="#0d5a6c" stroke-width="2"/></svg>'
    )
