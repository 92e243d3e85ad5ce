"""Answer others: the REST API with the web page, and the tools of an assistant."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rightfit.cli.declared import option
from rightfit.cli.output import View, note
from rightfit.errors import ContradictionError, InputError
from rightfit.explain.messages import label
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.rest.settings import Settings


def serve(
    host: Annotated[str, option("--host", help="Address to listen on.", metavar="HOST")] = "127.0.0.1",
    port: Annotated[int, option("--port", help="Port to listen on; 0 picks a free port.", metavar="PORT")] = 8000,
    workers: Annotated[
        int, option("--workers", help="Worker processes; with more than one, only the API is served.", metavar="N", min=1, max=64)
    ] = 1,
    token_file: Annotated[
        Path | None,
        option("--token-file", help="File with the token clients must send (default: RIGHTFIT_TOKEN).", metavar="FILE", show_default=False),
    ] = None,
    database: Annotated[
        str | None,
        option(
            "--database",
            help="Database for saved plans (default: RIGHTFIT_DATABASE_URL, else SQLite in the data folder).",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    cors: Annotated[
        list[str] | None,
        option("--cors", help="Allowed CORS origin, e.g. https://tools.example.com.", metavar="ORIGIN", show_default=False),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        option(
            "--proxy",
            help="Trusted reverse proxy (address or range) for X-Forwarded-For.",
            metavar="ADDRESS",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[float, option("--rate", help="Rate limit per client, requests per second.", metavar="N")] = 200.0,
    page: Annotated[bool, option("--page/--no-page", help="Also serve the web page.")] = True,
    open_: Annotated[bool, option("--open", help="Open the page in a browser.")] = False,
    allow_anonymous: Annotated[bool, option("--allow-anonymous", help="Allow unauthenticated access from other machines.")] = False,
    *,
    view: View,
) -> None:
    """Serve the web page and REST API.

    Examples:

    rightfit serve --open

    rightfit serve --host 0.0.0.0 --token-file token.txt --workers 4 --database
    postgresql://rightfit@db/rightfit
    """
    from rightfit.rest import process
    from rightfit.web import asgi

    settings = _settings(host, token_file, database, cors or [], rate=rate, page=page and workers == 1, allow_anonymous=allow_anonymous)
    proxies = tuple(_proxy(text) for text in proxy or [])
    process.require_web()
    if view.price_book:
        os.environ["RIGHTFIT_PRICE_BOOK"] = view.price_book
    settings = _with_place(settings, view)
    _check_store(settings)
    listener = process.listen(host, port)
    address = process.address_of(listener, host)

    def started() -> None:
        if page and workers > 1:
            note(label("serve", "no_page", view.lang), view)
        note(label("serve", "at", view.lang, address=address, docs=f"{address}/api/v1/docs"), view)
        if open_:
            import webbrowser

            webbrowser.open(address if settings.page else f"{address}/api/v1/docs")

    process.serve(settings, listener, application=asgi.from_environment, workers=workers, started=started, proxies=proxies)


def _settings(
    host: str, token_file: Path | None, database: str | None, cors: list[str], *, rate: float, page: bool, allow_anonymous: bool
) -> Settings:
    from rightfit.rest import settings as settings_module

    token = settings_module.read_token(token_file) if token_file else os.environ.get(settings_module.TOKEN_VARIABLE, "").strip()
    is_local = settings_module.is_local(host)
    if not is_local and not token and not allow_anonymous:
        raise ContradictionError(
            Message("cli.open_host", host=host),
            field="host",
        )
    for origin in cors:
        _check_origin(origin)
    return settings_module.Settings(
        token=token,
        database_url=database or os.environ.get(settings_module.DATABASE_VARIABLE, "").strip(),
        allowed_hosts=(*settings_module.LOCAL_HOSTS, host) if is_local and not token else (),
        cors_origins=tuple(cors),
        page=page,
        rate_per_s=rate,
        burst=max(1, round(2 * rate)),
    )


def _check_origin(origin: str) -> None:
    scheme, _, rest = origin.partition("://")
    if scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest:
        raise InputError(Message("cli.no_origin", origin=origin[:80]), field="cors")


def _proxy(text: str) -> str:
    import ipaddress

    try:
        return str(ipaddress.ip_network(text.strip()))
    except ValueError:
        raise InputError(Message("cli.no_proxy", address=text[:80]), field="proxy") from None


def _with_place(settings: Settings, view: View) -> Settings:
    """The settings with a place for saved plans: where the data folder cannot be written, a
    temporary one, which is said."""
    import dataclasses
    import tempfile

    from rightfit.market.packed_tables import data_folder

    if settings.database_url:
        return settings
    folder = data_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return settings
    except OSError as error:
        place = tempfile.mkdtemp(prefix="rightfit-")
        note(label("serve", "read_only", view.lang, folder=folder, reason=error.strerror or error, place=place), view)
        return dataclasses.replace(settings, database_url=f"sqlite:///{place}/plans.sqlite")


def _check_store(settings: Settings) -> None:
    """An address of a database that makes no sense is refused before anything is started."""
    from rightfit.rest.store import Store

    Store(settings.database_url).close()


def mcp(*, view: View) -> None:
    """Run the MCP server for AI assistants on standard input and output.

    Example: rightfit mcp
    """
    from rightfit.mcp.server import run

    run(lang=view.lang)
