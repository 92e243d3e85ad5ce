"""The files that travel in the package."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.errors import CatalogError
from rightfit.messages import Message, cause

if TYPE_CHECKING:
    from rightfit.catalog.pack import PackedColumn

_FOLDER = Path(__file__).with_name("data")


def data_bytes(name: str) -> bytes:
    """A file of the package's catalog data."""
    try:
        return (_FOLDER / name).read_bytes()
    except OSError as error:
        raise CatalogError(Message("catalog.package_lacks", file=name, error=cause(error))) from None


def manifest() -> dict[str, Any]:
    """Fingerprint, and rows and checksum of each packed table."""
    try:
        result: dict[str, Any] = json.loads(data_bytes("manifest.json"))
    except ValueError:
        raise CatalogError(Message("catalog.package_damaged", file="manifest.json")) from None
    return result


def rules() -> dict[str, Any]:
    """The market's rules: ages, note patterns, thresholds of the integrity checks; each with its reason."""
    return tomllib.loads(data_bytes("rules.toml").decode())


def load_unamended(name: str) -> dict[str, PackedColumn]:
    """One table of the wheel as it is packed."""
    import lzma

    from rightfit.catalog.pack import decode_table

    try:
        return decode_table(data_bytes(f"{name}.pack"))
    except (lzma.LZMAError, EOFError, ValueError, KeyError, IndexError):
        raise CatalogError(Message("catalog.package_damaged", file=f"{name}.pack")) from None


def amendment_files() -> dict[str, str]:
    """The text of every table of amendments by "topic/table.csv", sorted; empty where nothing was ever amended."""
    folder = _FOLDER / "amendments"
    try:
        return {f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8") for path in sorted(folder.glob("*/*.csv"))}
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError(Message("catalog.amendments_unread", error=cause(error))) from None


def fingerprint() -> str:
    """What the bundled catalog is known by: a row that is amended makes another one, and with it a new store."""
    packed: str = manifest()["fingerprint"]
    files = amendment_files()
    if not files:
        return packed
    import hashlib

    return hashlib.sha256(json.dumps([packed, files]).encode()).hexdigest()
