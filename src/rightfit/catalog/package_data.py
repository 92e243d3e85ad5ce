"""The files that travel in the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rightfit.errors import CatalogError

_FOLDER = Path(__file__).with_name("data")


def data_bytes(name: str) -> bytes:
    """A file of the package's catalog data."""
    try:
        return (_FOLDER / name).read_bytes()
    except OSError as error:
        raise CatalogError(f"the installed package lacks catalog/data/{name} ({error}); reinstall rightfit") from None


def manifest() -> dict[str, Any]:
    """Fingerprint, and rows and checksum of each packed table."""
    try:
        result: dict[str, Any] = json.loads(data_bytes("manifest.json"))
    except ValueError:
        raise CatalogError("catalog/data/manifest.json of the installed package is damaged; reinstall rightfit") from None
    return result
