"""What is computed once and kept in the cache folder of this user. A folder that cannot be used costs time, never an answer."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

#: Raised when the form of what is kept changes.
_FORM = 1
#: Parsed files that are kept; the package has some sixty, and each of its versions may have changed some.
_MOST_PARSED = 400


def cache_folder() -> Path:
    """RIGHTFIT_CACHE_DIR, else the platform's cache folder of this user; a FileNotFoundError where there is no home."""
    given = os.environ.get("RIGHTFIT_CACHE_DIR")
    if given:
        return Path(given).expanduser()
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "rightfit"
    try:
        home = Path.home()
    except RuntimeError:
        raise FileNotFoundError("this user has no home folder") from None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "rightfit" / "Cache"
    return home / ("Library/Caches/rightfit" if sys.platform == "darwin" else ".cache/rightfit")


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; its folder is made where there is none. An OSError where it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text that the package brings. Parsing takes thirty times as long as reading them as JSON, so that is kept by what the
    text holds: a text that changed is another one."""
    folder = _parsed_folder()
    if folder is None:
        return _parsed(text)
    path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:40]}.json"
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    tables = _parsed(text)
    with contextlib.suppress(OSError, TypeError):  # a date is none of JSON's values
        write_whole(path, json.dumps(tables))
        _make_room(folder)
    return tables


def toml_file(path: Path) -> dict[str, Any]:
    """The tables of a TOML file that the package brings; an OSError where it cannot be read."""
    return toml(path.read_text(encoding="utf-8"))


def _parsed(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _parsed_folder() -> Path | None:
    try:
        return cache_folder() / f"parsed-{_FORM}"
    except OSError:
        return None


def _make_room(folder: Path) -> None:
    """Forget the oldest files where there are too many."""
    files = list(folder.glob("*.json"))
    if len(files) > _MOST_PARSED:
        for _, old in sorted((file.stat().st_mtime, file) for file in files)[: len(files) - _MOST_PARSED // 2]:
            old.unlink(missing_ok=True)
