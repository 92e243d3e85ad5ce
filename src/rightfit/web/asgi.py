"""The whole server: the REST API with the web page on it, where the page's library is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightfit.rest.settings import Settings


def create_app(settings: Settings | None = None) -> Any:
    """The FastAPI application of the API and, unless the settings leave it out, the pages.
    MissingComponentError without the extra web."""
    from rightfit.rest.app import create_app as create_api

    return create_api(settings, page=_mount)


def from_environment() -> Any:
    """The application of one process of a server, whose settings are in the environment."""
    from rightfit.rest import guard, settings

    guard.set_up()
    return create_app(settings.from_environment())


def _mount(app: Any, settings: Settings) -> None:
    try:
        from rightfit.web import page
    except ModuleNotFoundError:  # the API does without the library that draws pages
        return
    page.mount(app, settings)
