"""The cache folder of this user, and files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """RIGHTFIT_CACHE_DIR, else the platform's cache folder of this user; a FileNotFoundError
    where there is no home."""
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
    """Write a file whole or not at all; its folder is made where there is none. An OSError where it
    cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
