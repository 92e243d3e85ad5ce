"""Compiles the catalogs of messages, `locale/<language>/LC_MESSAGES/<room>.po`, into the `.mo`
files that the package brings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CatalogHook(BuildHookInterface[Any]):
    """Runs before a wheel, also an editable one, is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write each catalog beside its source."""
        for source in sorted((Path(self.root) / "src" / "rightfit" / "messages" / "locale").rglob("*.po")):
            with source.open("rb") as text, source.with_suffix(".mo").open("wb") as compiled:
                write_mo(compiled, read_po(text, abort_invalid=True))
