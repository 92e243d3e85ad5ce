"""The defaults that are taken while a wish is read, in the order in which they were taken."""

from __future__ import annotations

from rightfit.search.answer import Assumption, Reason


class Notes:
    """Collects the defaults that are taken while a workload is read."""

    def __init__(self) -> None:
        self.taken: list[Assumption] = []

    def take(self, field: str, value: float | str, key: str, **params: object) -> None:
        """Record a default."""
        self.taken.append(Assumption(field, value, Reason(f"assumed_{key}", {"value": value, **params})))
