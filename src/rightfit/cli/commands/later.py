"""Commands of the contract that this version does not have: they say so in one line and exit with 3."""

from __future__ import annotations

from typing import Any

import typer

from rightfit.errors import UnavailableError

_LATER = {
    "probe": "measuring a real run",
    "watch": "following a real run",
    "ingest": "reading a real run's records",
    "resize": "re-sizing from a real run",
}


def register(app: typer.Typer) -> None:
    """Add the commands, hidden from help."""
    anything = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    for name, what in _LATER.items():
        app.command(name, hidden=True, context_settings=anything)(_refusal(name, what))


def _refusal(name: str, what: str) -> Any:
    def refuse(context: typer.Context) -> None:
        raise UnavailableError(f"rightfit {name} ({what}) is not in this version")

    refuse.__doc__ = f"Not in this version: {what}."
    return refuse
