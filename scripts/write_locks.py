"""Write the locks of exported set-up lines: src/rightfit/exports/data/locks.csv and lock_pins.csv.

Usage: python scripts/write_locks.py [--uv PROGRAM] [--kept FILE]     asks the package index for
    every set of packages that the exports of the typical plans and the releases of engines install

uv resolves each set once for all machines and for every Python from the oldest on which it goes
together; what is for Linux stays. Direct packages are pinned by their lines already, and what
PyTorch pins itself (NVIDIA's libraries, Triton) differs by its build: neither is in a lock. A set
that a larger one holds has no lock of its own. tests/exporters/test_resolves.py (deep) resolves
every line with its lock, for the machine and the Python that it is for.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), *(str(ROOT / "tests" / name) for name in ("exporters", "export", "support"))]

from packaging.markers import Marker

from rightfit.exports.afterwards import MERGER
from rightfit.exports.locks import packages_of
from rightfit.exports.preferences import FIRST_ROLLOUT, LAST_ROLLOUT, ROLLOUT_PACKAGES
from rightfit.exports.targets.data_jobs import BATCH_PACKAGES
from rightfit.exports.training_words import STORES
from rightfit.facts.engine_releases import numbers, releases

DATA = ROOT / "src" / "rightfit" / "exports" / "data"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
OF_THE_BUILD = re.compile(r"(nvidia-|cuda-|triton|pytorch-triton)[\w-]*==")
OF_ITS_RELEASE = ("torchaudio",)
"""Packages of PyTorch's own release that ask for it without naming which: another of them replaces
that of an image, and does not load beside it."""
TOGETHER = ("s3", "gs")  # readers of buckets that stand on one fsspec


def sets() -> list[frozenset[str]]:
    """Every set of packages: those of exported files, of engines with what a batch, the merge of an
    adapter or TRL puts beside them; each with what reads data from buckets, where it reads data."""
    from test_resolves import lines

    found = {packages_of([packages]) for packages, _, _ in lines()}
    deepspeed = {word for each in found for word in each if word.startswith("deepspeed==")}
    for release in releases():
        if release.package and release.engine == "vllm":
            engine = packages_of([release.package])
            found.add(engine | packages_of((*BATCH_PACKAGES["generate"], MERGER)))
            if numbers(FIRST_ROLLOUT) <= numbers(release.version) <= numbers(LAST_ROLLOUT):
                found.add(engine | packages_of(ROLLOUT_PACKAGES) | deepspeed)
    return [each for each in sorted(found, key=sorted) if not any(each < other for other in found)]


def resolved(uv: str, packages: frozenset[str]) -> tuple[str, ...]:
    """Pins of a set on Linux, from the oldest Python on which it goes together; empty where on
    none."""
    beside = [f"{name}=={word.partition('==')[2]}" for word in packages if word.startswith("torch==") for name in OF_ITS_RELEASE]
    for least in PYTHONS:
        words = [uv, "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate", "--universal", "--python-version", least]
        environment = dict(os.environ)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("\n".join(beside))
            file.flush()
            environment["UV_CONSTRAINT"] = file.name
            done = subprocess.run(words, input="\n".join(sorted(packages)), capture_output=True, text=True, check=False, env=environment)  # noqa: S603
        if done.returncode == 0:
            return pins(done.stdout.splitlines(), packages)
    return ()


def with_readers(uv: str, packages: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """A set that reads data with the readers of buckets, or without where they do not go with it;
    and its pins."""
    reads = any(word.startswith(("datasets==", "fsspec==")) for word in packages)
    larger = packages | {STORES[name] for name in TOGETHER} if reads else packages
    return (larger, found) if (found := resolved(uv, larger)) else (packages, resolved(uv, packages))


def pins(lines: Iterable[str], packages: frozenset[str]) -> tuple[str, ...]:
    """Lines of a lock. A marker stays where it tells two releases of a package apart."""
    direct = {re.split(r"[\[=<>]", word)[0].replace("_", "-").casefold() for word in packages}
    has_build = any(word.startswith("torch==") for word in packages)
    kept = []
    for line in lines:
        pin, _, marker = line.partition(" ; ")
        name = pin.partition("==")[0]
        if name in direct or name == "torch" or (has_build and OF_THE_BUILD.match(pin)) or not is_of_linux(marker):
            continue
        kept.append((name, pin, marker))
    names = [name for name, _, _ in kept]
    return tuple(f"{pin} ; {marker}" if marker and names.count(name) > 1 else pin for name, pin, marker in kept)


def is_of_linux(marker: str) -> bool:
    """Whether a marker holds somewhere on Linux."""
    grounds = itertools.product(MACHINES, (*PYTHONS, "3.14"))
    common = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    return not marker or any(
        Marker(marker).evaluate({**common, "platform_machine": machine, "python_version": python, "python_full_version": f"{python}.1"})
        for machine, python in grounds
    )


def spans(numbers_: Iterable[int]) -> str:
    """Numbers as "1 4-7"."""
    found: list[list[int]] = []
    for number in sorted(numbers_):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def write(found: Iterable[tuple[frozenset[str], tuple[str, ...]]], day: str) -> None:
    """Both tables."""
    locks: dict[str, list[int]] = {}
    rows = []
    for number, (packages, lines) in enumerate(found, 1):
        rows.append((number, day, " ".join(shlex.quote(word) for word in sorted(packages))))
        for line in lines:
            locks.setdefault(line, []).append(number)
    for name, head, body in (
        ("locks.csv", ("lock", "as_of", "packages"), rows),
        ("lock_pins.csv", ("pin", "locks"), [(line, spans(of)) for line, of in sorted(locks.items())]),
    ):
        with (DATA / name).open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows((head, *body))


def main() -> int:
    """Resolve every set, eight at a time: uv waits for the index."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--uv", default="uv")
    asked.add_argument("--kept", type=Path, help="a file with answers of an earlier call, which go on from there")
    told = asked.parse_args()
    kept: dict[str, list[list[str]]] = json.loads(told.kept.read_text()) if told.kept and told.kept.exists() else {}
    wanted = sets()

    def answer(packages: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
        key = " ".join(sorted(packages))
        if key not in kept:
            whole, lines = with_readers(told.uv, packages)
            kept[key] = [sorted(whole), list(lines)]
            if told.kept:
                told.kept.write_text(json.dumps(kept))
            print(f"{len(kept)} of {len(wanted)}: {len(lines)} pins for {key}", flush=True)
        return frozenset(kept[key][0]), tuple(kept[key][1])

    with ThreadPoolExecutor(int(os.environ.get("RIGHTFIT_RESOLVES", "8"))) as pool:
        found = list(pool.map(answer, wanted))
    if without := [" ".join(sorted(packages)) for packages, lines in found if not lines and len(packages) > 1]:
        print("no lock for:", *without, sep="\n  ", file=sys.stderr)
    write([each for each in found if each[1]], datetime.datetime.now(tz=datetime.UTC).date().isoformat())
    return 0


if __name__ == "__main__":
    sys.exit(main())
