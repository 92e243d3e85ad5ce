"""The FastAPI application: the routes of the table, the guard around them, and the page that shows
the description without the network."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from rightfit import __version__
from rightfit.errors import MissingComponentError, RightfitError
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.rest.handlers import Desk
    from rightfit.rest.routes import Route
    from rightfit.rest.settings import Settings

MISSING = Message("rest.web_needs")
_LOOK_S = 0.5  # how often one of several processes looks for its parent
_ABOUT = (
    "From a machine-learning workload to the cloud server to rent, how to set it up, what it costs, and how sure that is. "
    "Field names are those of `rightfit plan --format json`; numbers are in base units (bytes, seconds, US dollars)."
)


def create_app(settings: Settings | None = None, *, page: Callable[[Any, Settings], None] | None = None) -> Any:
    """The application with its API; `app.state.desk` holds what it works with.
    MissingComponentError without the extra web.

    `page`: adds the web page to the application, after all routes of the API; not called where the
    settings leave the page out.
    """
    from rightfit.rest import settings as settings_module

    chosen = settings or settings_module.Settings()
    try:
        from fastapi_offline import FastAPIOffline

        from rightfit.rest.guard import API, Guard
        from rightfit.rest.handlers import Desk
        from rightfit.rest.routes import ROUTES
    except ModuleNotFoundError as error:
        raise MissingComponentError(Message("rest.lacks", why=MISSING, word=error.name)) from None
    desk = Desk(chosen)
    app = FastAPIOffline(
        docs_url=f"{API}/docs",
        redoc_url=None,
        static_url=f"{API}/docs-assets",
        title="rightfit",
        version=__version__,
        description=_ABOUT,
        openapi_url=f"{API}/openapi.json",
        swagger_ui_oauth2_redirect_url=f"{API}/docs/oauth2-redirect",
        lifespan=_lifespan(desk),
        redirect_slashes=False,
    )
    app.state.desk = desk
    for route in ROUTES:
        _add(app, desk, route, prefix=API)
    _add_end(app, prefix=API)
    _add_handlers(app)
    _describe(app)
    if page is not None and chosen.page:
        page(app, chosen)
    app.add_middleware(Guard, settings=chosen, metrics=desk.metrics, routes=tuple(API + route.path for route in ROUTES))
    if chosen.cors_origins:
        _allow_origins(app, chosen)
    return app


def from_environment() -> Any:
    """The application of one process of a server, whose settings are in the environment."""
    from rightfit.rest import guard, settings

    guard.set_up()
    return create_app(settings.from_environment())


def _lifespan(desk: Desk) -> Callable[[Any], Any]:
    @contextlib.asynccontextmanager
    async def lifespan(_app: Any) -> AsyncIterator[None]:
        await desk.workshop.run(lambda: desk.workshop.market.catalog().location)
        watching = asyncio.ensure_future(_end_with_parent())
        yield
        watching.cancel()
        desk.close()

    return lifespan


async def _end_with_parent() -> None:
    """One of several processes ends when the one that started it is gone (kill -9): nobody else
    would end it, and it would hold the address for ever."""
    from rightfit.rest.settings import PARENT_VARIABLE

    parent = os.environ.get(PARENT_VARIABLE, "")
    while parent and os.getppid() == int(parent):
        await asyncio.sleep(_LOOK_S)
    if parent and os.getpid() != int(parent):
        signal.raise_signal(signal.SIGTERM)


def _add(app: Any, desk: Desk, route: Route, *, prefix: str) -> None:
    from rightfit.rest import routes

    app.add_api_route(
        prefix + route.path,
        _endpoint(desk, route),
        methods=[route.method],
        name=f"{route.method} {route.path}",
        operation_id=f"{route.method.lower()}_{route.path.strip('/').replace('/', '_').replace('{', '').replace('}', '')}",
        summary=" ".join((route.answer.__doc__ or "").split()).rstrip("."),
        tags=[route.group],
        status_code=route.status,
        response_class=_plain_response(),
        responses=routes.responses(route),
        openapi_extra=routes.beyond(route),
    )


def _add_end(app: Any, *, prefix: str) -> None:
    """What no route takes under /api, by whatever method, ends here and not at the page, which
    would answer in HTML."""
    from starlette.routing import Route as Anything

    from rightfit.rest.reading import Refused

    class End:
        """An endpoint that is a class takes every method, also those that nobody has thought of."""

        def __init__(self, scope: Any, *_: Any) -> None:
            self.path = scope["path"]

        def __await__(self) -> Any:
            allowed = _methods_of(self.path)
            raise Refused("method", {"allowed": allowed}, headers={"Allow": allowed}) if allowed else Refused("not_found")

    root = "/" + prefix.split("/")[1]
    for path in (root, root + "/{rest:path}"):
        app.router.routes.append(Anything(path, End, include_in_schema=False))


def _plain_response() -> Any:
    from starlette.responses import Response

    return Response


def _endpoint(desk: Desk, route: Route) -> Any:
    """The function of a route: read the question strictly, then hand it to the desk."""
    from starlette.requests import Request

    from rightfit.rest.guard import lang_of
    from rightfit.rest.handlers import Asked
    from rightfit.rest.reading import json_of, query_of
    from rightfit.workload.fields import settled

    async def endpoint(request: Request) -> Any:
        query = query_of(route.query, request.query_params.multi_items())
        body = {}
        if route.body is not None:
            _check_media_type(request.headers.get("content-type", ""))
            model, content = route.body, await request.body()
            body = await desk.apart(lambda: settled(model, json_of(content)), size=len(content))
        return await route.answer(desk, Asked(query, body, lang_of(request.scope, request.headers), request))

    endpoint.__annotations__ = {"request": Request}  # FastAPI reads the type itself, not its name
    return endpoint


def _check_media_type(text: str) -> None:
    from rightfit.rest.reading import Refused

    kind = text.partition(";")[0].strip().casefold()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Refused("media_type", {"allowed": "application/json"})


def _add_handlers(app: Any) -> None:
    """Every refusal is problem+json."""
    from starlette.exceptions import HTTPException

    from rightfit.rest.guard import lang_of
    from rightfit.rest.reading import Refused, problem, refusal

    def request_id(request: Any) -> str:
        return str(request.scope.get("state", {}).get("request_id", ""))

    async def refused(request: Any, error: Any) -> Any:
        return refusal(error, lang_of(request.scope, request.headers), request_id=request_id(request))

    async def ours(request: Any, error: Any) -> Any:
        return problem(error, lang_of(request.scope, request.headers), request_id=request_id(request))

    async def http(request: Any, error: Any) -> Any:
        if error.status_code != 405:
            return await refused(request, Refused("not_found"))
        allowed = _methods_of(request.scope["path"]) or dict(error.headers or {}).get("Allow", "")
        return await refused(request, Refused("method", {"allowed": allowed}, headers={"Allow": allowed}))

    app.add_exception_handler(Refused, refused)
    app.add_exception_handler(RightfitError, ours)
    app.add_exception_handler(HTTPException, http)


def _methods_of(path: str) -> str:
    """The methods that the API takes at a path."""
    from rightfit.rest.guard import API, known_route
    from rightfit.rest.routes import ROUTES

    pattern = known_route(path, (API + route.path for route in ROUTES))
    return ", ".join(sorted(route.method for route in ROUTES if API + route.path == pattern))


def _describe(app: Any) -> None:
    """The OpenAPI description with our schemas, and the token where one is used."""
    from rightfit.rest import routes

    made = app.openapi

    def description() -> Any:
        if app.openapi_schema is None:
            schema = made()
            parts = schema.setdefault("components", {})
            parts["schemas"] = routes.components()
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{}, {"token": []}]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = description


def _allow_origins(app: Any, settings: Settings) -> None:
    from starlette.middleware.cors import CORSMiddleware

    app.add_middleware(
        CORSMiddleware,
        allow_origins=list(settings.cors_origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["Authorization", "Content-Type", "Accept-Language"],
        max_age=600,
    )
