"""Which refreshed prices count: looked up by every command, so this module is light."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """Where fetched prices live: RIGHTFIT_DATA_DIR, else RIGHTFIT_CACHE_DIR, else the platform's folder for this user's data."""
    for name in ("RIGHTFIT_DATA_DIR", "RIGHTFIT_CACHE_DIR"):
        if os.environ.get(name):
            return Path(os.environ[name]).expanduser()
    if os.environ.get("XDG_DATA_HOME"):
        return Path(os.environ["XDG_DATA_HOME"]) / "rightfit"
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "rightfit" / "Data"
    return home / ("Library/Application Support/rightfit" if sys.platform == "darwin" else ".local/share/rightfit")


def folder() -> Path:
    """The folder of generations."""
    return data_folder() / "refreshed"


def current() -> str:
    """The fingerprint of the generation that counts; empty without one."""
    try:
        pointer = json.loads((folder() / "current.json").read_text(encoding="utf-8"))
        name = str(pointer["generation"])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError):
        return ""
    return name if name.isalnum() and (folder() / name / "manifest.json").is_file() else ""
