"""Options by the names that other programs, or people, give them (data/option_names.csv): each is
read as ours, and that is said."""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from rightfit.facts.tables import read_rows

_DATA = Path(__file__).with_name("data")
MODEL = "MODEL"


@functools.cache
def names() -> Mapping[str, Mapping[str, str]]:
    """Name -> its line: `option` as ours is called (MODEL: the argument), `value` that a flag sets
    or that the value given is put into, `otherwise` the option where the value is no number."""
    text = (_DATA / "option_names.csv").read_text(encoding="utf-8")
    return {row["name"]: row for row in read_rows(text)}


def as_ours(arguments: Sequence[str], known: Container[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """(arguments with our names, (as it was written, as it is read) of each that was another).
    `known`: the flags of the command, MODEL where it takes one; what it knows stays as it is."""
    ours: list[str] = []
    said: list[tuple[str, str]] = []
    waiting = iter(arguments)
    for word in waiting:
        if word == "--":
            return [*ours, word, *waiting], said
        flag, has_value, value = word.partition("=")
        row = names().get(flag.removeprefix("--").replace("_", "-")) if flag.startswith("--") and flag not in known else None
        if row is None or (row["option"] if row["option"] == MODEL else f"--{row['option']}") not in known:
            ours.append(word)
            continue
        if not row["value"] or "{}" in row["value"]:
            given = value if has_value else next(waiting, None)
            if given is None:
                ours.append(word)
                continue
            read = _read(row, given)
        else:
            read = [f"--{row['option']}", row["value"]]
        ours += read
        said.append((flag, " ".join(read[:1] if len(read) > 1 and not row["value"] else read) if row["option"] != MODEL else MODEL))
    return ours, said


def _read(row: Mapping[str, str], given: str) -> list[str]:
    if row["option"] == MODEL:
        return [given]
    option = row["otherwise"] if row["otherwise"] and not given.isdigit() else row["option"]
    return [f"--{option}", row["value"].format(given) if row["value"] else given]
