"""Counts kept in the cache folder by the content of what they were counted from. A cache that cannot be used costs time, never an
answer."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

#: Raised when the way of counting changes, so that old counts are counted again.
VERSION = 1
_CHUNK_BYTES = 1 << 20


def cache_folder() -> Path | None:
    """`own-models` in RIGHTFIT_CACHE_DIR or the platform's cache folder of this user; None where there is no home."""
    if given := os.environ.get("RIGHTFIT_CACHE_DIR"):
        return Path(given).expanduser() / "own-models"
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "rightfit" / "own-models"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "rightfit" / "Cache" / "own-models"
    return home / ("Library/Caches/rightfit" if sys.platform == "darwin" else ".cache/rightfit") / "own-models"


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def key_of(*parts: str) -> str:
    """A name for an entry from what it depends on."""
    return hashlib.sha256("\0".join((str(VERSION), *parts)).encode()).hexdigest()


def read(key: str) -> dict[str, Any] | None:
    """The entry, or None when there is none that can be read, or a file that it was counted from has changed."""
    folder = cache_folder()
    if folder is None:
        return None
    try:
        entry = json.loads((folder / f"{key}.json").read_text("utf-8"))
        same = all(file_digest(Path(path)) == digest for path, digest in entry.get("files", {}).items())
        return entry if same and isinstance(entry["result"], dict) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(key: str, result: dict[str, Any], *, files: dict[str, str] | None = None) -> None:
    """Keep an entry, whole or not at all. `files`: digests that must still hold when it is read."""
    folder = cache_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, suffix=".part", delete=False, encoding="utf-8") as stream:
            draft = Path(stream.name)
            try:
                json.dump({"result": result, "files": files or {}}, stream)
                stream.flush()
                draft.replace(folder / f"{key}.json")
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
