"""What is computed once and kept in the cache folder of this user. A folder that cannot be used costs time, never an answer."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Raised when the form of what is kept changes.
_FORM = 2
#: Results that are kept; the package has some sixty files, and each of its versions may have changed some.
_MOST = 400


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
    """The tables of a TOML text that the package brings. Parsing takes thirty times as long as reading them as JSON."""
    return derived(text, lambda: _parsed(text))


def derived(text: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `make` works out of a text, kept as JSON beside that text: one that changed is another one, whatever its file is called. (The file is
    named by a checksum, because loading what makes digests takes longer than reading all that a plan needs.)"""
    folder = _folder()
    if folder is None:
        return make()
    path = folder / f"{zlib.crc32(text.encode()):08x}-{len(text)}.json"
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and found.get("text") == text and isinstance(found.get("result"), dict):
            return dict(found["result"])
    result = make()
    with contextlib.suppress(OSError, TypeError):  # a date is none of JSON's values
        write_whole(path, json.dumps({"text": text, "result": result}))
        _make_room(folder)
    return result


def toml_file(path: Path) -> dict[str, Any]:
    """The tables of a TOML file that the package brings; an OSError where it cannot be read."""
    return toml(path.read_text(encoding="utf-8"))


def _parsed(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _folder() -> Path | None:
    try:
        return cache_folder() / f"derived-{_FORM}"
    except OSError:
        return None


def _make_room(folder: Path) -> None:
    """Forget the oldest files where there are too many."""
    files = list(folder.glob("*.json"))
    if len(files) > _MOST:
        for _, old in sorted((file.stat().st_mtime, file) for file in files)[: len(files) - _MOST // 2]:
            old.unlink(missing_ok=True)
