"""Releases of all packages that a set-up line installs, those of packages that it does not name
too, as they went together when scripts/write_locks.py last asked the package index: what an export
installs in half a year is what was resolved then. data/locks.csv has the sets of packages,
data/lock_pins.csv what they are pinned to."""

from __future__ import annotations

import csv
import functools
import io
import re
import shlex
from collections.abc import Iterable, Mapping
from importlib import resources

from rightfit.facts.engine_releases import releases
from rightfit.records import dataclass

CONSTRAINTS, REQUIREMENTS = "constraints.txt", "requirements.txt"
LOCKED = f"pip install -c {CONSTRAINTS} "
BUILD = re.compile(r"(?<=\d)\+[a-z]+[\d.]*")
"""Of a release of PyTorch that lies on an index of its own: packages go with it as with the plain
release."""
VALUED = ("-c", "-r", "--extra-index-url", "--index-url", "--find-links")
"""Options of pip that stand before their value."""
EXTRAS = re.compile(r"\[[^\]]*\]")
OF_THE_IMAGE = re.compile(r"torch|triton")
"""What a set that does not name it finds in its image, whatever release that is."""
NAMED = re.compile(r"[\w.-]+(\[[\w,.-]+\])?(?=[=<>!~]|$)")


@dataclass(frozen=True, slots=True)
class Lock:
    """`packages` as a set-up line names them; `number` is how lock_pins.csv calls it."""

    number: int
    packages: frozenset[str]


def packages_of(words: Iterable[str]) -> frozenset[str]:
    """What words of pip or lines of a file of requirements ask for, without options, their values
    and builds of PyTorch."""
    found, before = set(), ""
    for word in (part for line in words for part in line.split()):
        if before not in VALUED and NAMED.match(word) and not word.startswith("-"):
            found.add(BUILD.sub("", word))
        before = word
    return frozenset(found)


def constraints(packages: frozenset[str]) -> str:
    """The lock of a set of packages as pip reads it, that of a larger set where it holds this one,
    with what that names itself; "" where there is none."""
    able = [lock for lock in _locks() if packages and packages <= lock.packages]
    if not able:
        return ""
    chosen = min(able, key=lambda lock: (len(lock.packages), lock.number))
    direct = {EXTRAS.sub("", word) for word in chosen.packages - packages if "==" in word and not OF_THE_IMAGE.match(word)}
    lines = sorted(direct.union(pin for pin, numbers in _pins().items() if chosen.number in numbers))
    return f"# Releases that went together on {as_of()}, also of what these packages ask for.\n" + "".join(f"{line}\n" for line in lines)


def locked_files(files: Mapping[str, str]) -> Mapping[str, str]:
    """Files with constraints.txt beside each requirements.txt that there is a lock for, which names
    it."""
    found = dict(files)
    for path, text in files.items():
        folder, _, name = path.rpartition("/")
        if name != REQUIREMENTS or f"-c {CONSTRAINTS}\n" in text:
            continue
        if lock := constraints(packages_of(text.splitlines())):
            found[path] = f"-c {CONSTRAINTS}\n{text}"
            found[f"{folder}/{CONSTRAINTS}" if folder else CONSTRAINTS] = lock
    return found


def lock_of(setup: Iterable[str]) -> Mapping[str, str]:
    """constraints.txt of the line of a set-up that takes it; nothing where none does."""
    lines = [line for line in setup if line.startswith(LOCKED)]
    return {CONSTRAINTS: constraints(_asked(lines[0]))} if lines else {}


def _asked(line: str) -> frozenset[str]:
    return packages_of(shlex.split(line.removeprefix(LOCKED).removeprefix("pip install ")))


def locked_line(line: str, files: Mapping[str, str]) -> str:
    """A line of the set-up with its lock; as it is where it has none, or adds to an image."""
    if not line.startswith("pip install ") or line.startswith(LOCKED):
        return line
    asked = _asked(line)
    whole = packages_of(files[REQUIREMENTS].splitlines()) == asked if REQUIREMENTS in files else asked in _engines()
    return line.replace("pip install ", LOCKED, 1) if whole and constraints(asked) else line


@functools.cache
def _engines() -> frozenset[frozenset[str]]:
    return frozenset(packages_of([release.package]) for release in releases() if release.package)


# ---- The tables.


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files("rightfit.exports").joinpath(f"data/{name}").read_text(encoding="utf-8")
    return list(csv.DictReader(io.StringIO(text)))


@functools.cache
def _locks() -> tuple[Lock, ...]:
    return tuple(Lock(int(row["lock"]), frozenset(shlex.split(row["packages"]))) for row in _rows("locks.csv"))


@functools.cache
def as_of() -> str:
    """The day of the last resolution."""
    return max(row["as_of"] for row in _rows("locks.csv"))


@functools.cache
def _pins() -> Mapping[str, frozenset[int]]:
    return {row["pin"]: frozenset(_numbers(row["locks"])) for row in _rows("lock_pins.csv")}


def _numbers(text: str) -> Iterable[int]:
    """Numbers written as "1 4-7"."""
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
