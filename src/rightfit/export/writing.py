"""Files onto the disk: never over something that is there, never outside the folder, never half. All are drafted first, so that a full disk or a kill leaves none
of them behind under its own name."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rightfit.errors import FileInputError
from rightfit.messages import Message, system_problem

#: Where files wait until all are written: beside a new folder, within one that is there. What a kill leaves in it is thrown away by the next try.
DRAFTS = ".rightfit-part"


def write_files(files: Mapping[str, str], folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write the files below `folder`, which must be new or empty unless `force`, or hold an export that was cut off. A new folder appears whole; in one that is
    there the files appear when all of them are written. Returns the paths."""
    root = Path(folder)
    names = [_within(name) for name in files]
    try:
        if root.exists() and not root.is_dir():
            raise FileInputError(Message("export.file_no_folder", path=root), field="out")
        if root.is_dir() and not force and not _is_free(root, {name.as_posix() for name in names}):
            raise FileInputError(Message("export.folder_not_empty", path=root), field="out")
        is_new = not root.exists()
        drafts = root.absolute().with_name(f".{root.absolute().name}{DRAFTS}") if is_new else root / DRAFTS
        try:
            _draft(drafts, dict(zip(names, files.values(), strict=True)))
            _put(drafts, root, names, is_new=is_new)
        except BaseException:  # a full disk, Ctrl-C: leave no litter behind
            with contextlib.suppress(OSError):
                shutil.rmtree(drafts)
            raise
    except OSError as error:
        raise FileInputError(Message("problems.cannot_write", name=root, error=system_problem(error, lower=True)), field="out") from None
    return tuple(root / name for name in names)


def _within(name: str) -> PurePosixPath:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise FileInputError(Message("export.outside_the_folder", file=name), field="out")
    return relative


def _is_free(root: Path, names: set[str]) -> bool:
    """Whether nothing of anybody's lies there: no file at all, or those of an export that was cut off while its files were put in place."""
    if not (root / DRAFTS).is_dir():
        return not any(root.iterdir())
    found = (path.relative_to(root) for path in root.rglob("*") if not path.is_dir())
    return all(path.parts[0] == DRAFTS or path.as_posix() in names for path in found)


def _draft(drafts: Path, files: Mapping[PurePosixPath, str]) -> None:
    if drafts.is_dir():
        shutil.rmtree(drafts)
    drafts.mkdir(parents=True)
    for name, text in files.items():
        path = drafts / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        if text.startswith("#!"):
            path.chmod(0o755)


def _put(drafts: Path, root: Path, names: list[PurePosixPath], *, is_new: bool) -> None:
    """Drafts into their places: a new folder at once, else file by file; the folder of drafts goes last, so that what is cut off here is known as such."""
    if is_new:
        drafts.replace(root)
        return
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (drafts / name).replace(root / name)
    shutil.rmtree(drafts)
