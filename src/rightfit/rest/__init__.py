"""The REST API: `create_app(settings)` gives the FastAPI application, `serve(settings, ...)` runs
it. Needs the extra web."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rightfit.rest.app import create_app
    from rightfit.rest.process import serve
    from rightfit.rest.settings import Settings

_HOMES = {"Settings": "settings", "create_app": "app", "serve": "process"}

__all__ = ["Settings", "create_app", "serve"]


def __getattr__(name: str) -> Any:
    """Find a public name where it lives, on first use: the settings need no server."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rightfit.rest' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"rightfit.rest.{_HOMES[name]}"), name)
