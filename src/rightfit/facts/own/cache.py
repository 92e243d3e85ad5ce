"""Counts kept in the cache folder by the content of what they were counted from. A cache that cannot be used costs time, never an
answer."""

from __future__ import annotations

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any

from rightfit import kept

#: Raised when the way of counting changes, so that old counts are counted again.
VERSION = 1
_CHUNK_BYTES = 1 << 20


def _path_of(key: str) -> Path:
    return kept.cache_folder() / "own-models" / f"{key}.json"


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
    try:
        entry = json.loads(_path_of(key).read_text("utf-8"))
        same = all(file_digest(Path(path)) == digest for path, digest in entry.get("files", {}).items())
        return entry if same and isinstance(entry["result"], dict) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(key: str, result: dict[str, Any], *, files: dict[str, str] | None = None) -> None:
    """Keep an entry, whole or not at all. `files`: digests that must still hold when it is read."""
    with contextlib.suppress(OSError):
        kept.write_whole(_path_of(key), json.dumps({"result": result, "files": files or {}}))
