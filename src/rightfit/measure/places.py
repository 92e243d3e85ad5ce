"""Whether there is something at a place that a user named: a name that no file system takes is a place where nothing is, not a fault."""

from __future__ import annotations

from pathlib import Path


def is_there(path: str | Path) -> bool:
    """Whether a file or folder is there."""
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there."""
    return is_there(path) and Path(path).is_dir()
