"""The catalog: what is in it, and whether it is sound."""

from __future__ import annotations

from rightfit.cli.output import Answer, View, emit


def status(*, view: View) -> None:
    """What the catalog holds: servers and prices per provider, and the dates of the prices.

    Example: rightfit catalog status
    """
    from rightfit.catalog import open_catalog

    emit(Answer(open_catalog(), [], []), view)


def verify(*, view: View) -> None:
    """Run the integrity checks and list what is quarantined.

    Example: rightfit catalog verify
    """
    from rightfit.catalog import open_catalog

    emit(Answer(open_catalog(), [], []), view)
