"""Files onto the disk: never over something that is there, never outside the folder, never half."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rightfit.errors import FileInputError


def write_files(files: Mapping[str, str], folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write the files below `folder`, which must be new or empty unless `force`. Each goes through a temporary neighbour. Returns the
    paths."""
    root = Path(folder)
    try:
        if root.exists() and not root.is_dir():
            raise FileInputError(f"{root} is a file; give a folder", field="out")
        if root.is_dir() and any(root.iterdir()) and not force:
            raise FileInputError(f"{root} is not empty; choose another folder or overwrite with --force", field="out")
        return tuple(_write(root, name, text) for name, text in files.items())
    except OSError as error:
        raise FileInputError(f"cannot write {root}: {(error.strerror or str(error)).lower()}", field="out") from None


def _write(root: Path, name: str, text: str) -> Path:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise FileInputError(f"{name!r} would lie outside the folder", field="out")
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        if text.startswith("#!"):
            draft.chmod(0o755)
        draft.replace(path)
    except BaseException:  # a full disk, Ctrl-C: leave no litter behind
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    return path
