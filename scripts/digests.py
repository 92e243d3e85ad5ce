"""Take digests of answers over every family of work, so that a change that should move nothing can
be shown to move nothing.

Usage: scripts/digests.py take FOLDER [NAME ...]   write each answer (JSON, and its words in both
                                                   languages) as a file of FOLDER
       scripts/digests.py compare BEFORE AFTER    name what differs, and how; exits 1 where anything
                                                  does

The wishes are those of tests/data/wishes.toml.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import multiprocessing
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import rightfit
from rightfit.explain.messages import json_bytes
from rightfit.explain.sheets import Breakdown, estimate_sheet, plan_sheet, verdict_sheet
from rightfit.explain.voices import plan_document, verdict_document

WISHES = Path(__file__).parents[1] / "tests" / "data" / "wishes.toml"
LANGS = ("en", "zh")
MOST_LINES = 12
Answers = Iterator[tuple[str, str]]


def read_wishes() -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
    """Every wish by the name family/wish, and the servers that are asked about by name."""
    table = tomllib.loads(WISHES.read_text(encoding="utf-8"))
    servers = tuple(table.pop("servers")["why"])
    return {f"{family}/{name}": wish for family, wishes in table.items() for name, wish in wishes.items()}, servers


def answers_of(wish: Mapping[str, Any], servers: tuple[str, ...]) -> Answers:
    """Every answer to one wish, by verb: JSON and words."""
    best = None
    for answer in _asked(lambda: rightfit.plan(**wish)):
        yield from _told("plan", answer, plan_document, plan_sheet)
        best = getattr(answer, "best", None)
    named = ((f"{best.provider}/{best.instance_type}", best.nodes),) if best else ((servers[0], 1),)
    for server, nodes in named:
        for answer in _asked(lambda server=server, nodes=nodes: rightfit.estimate(**wish, on=server, nodes=nodes)):
            yield from _told("estimate", answer, plan_document, estimate_sheet)
    for server in (*(name for name, _ in named if best), *servers):
        for answer in _asked(lambda server=server: rightfit.why(server, **wish)):
            yield from _told(f"why_{server.replace('/', '_')}", answer, verdict_document, verdict_sheet)


def _asked(question: Callable[[], Any]) -> Iterator[Any]:
    """The answer, or the line in which it was refused; an error that is not ours is an answer too,
    and a fault to mend."""
    try:
        yield question()
    except Exception as error:
        yield f"{type(error).__name__}: {error}"


def _told(verb: str, answer: Any, document: Callable[..., Any], sheet: Callable[..., Any]) -> Answers:
    if isinstance(answer, str):
        yield f"{verb}.refused.txt", answer
        return
    for lang in LANGS:
        yield f"{verb}.{lang}.json", json_bytes(document(answer, lang), indent=1).decode()
        yield f"{verb}.{lang}.txt", "\n".join(_lines(sheet(answer, lang, everything=True)))


def _lines(value: Any) -> Iterator[str]:
    """The text of a sheet, part by part."""
    if isinstance(value, Breakdown):
        yield value.heading
        yield from (f"  {term.label}: {value.show(term.value)}" for term in value.terms)
    elif dataclasses.is_dataclass(value):
        yield from (line for field in dataclasses.fields(value) for line in _lines(getattr(value, field.name)))
    elif isinstance(value, (list, tuple)):
        yield from (line for item in value for line in _lines(item))
    elif not callable(value):
        yield str(value)


def take(folder: Path, chosen: list[str]) -> None:
    """Write the answers to every wish, or to the chosen ones."""
    wishes, _ = read_wishes()
    names = [name for name in wishes if not chosen or name in chosen or name.split("/")[0] in chosen]
    with multiprocessing.Pool(2, maxtasksperchild=20) as pool:
        for name in pool.imap_unordered(_Taker(folder), names, chunksize=1):
            print(name, flush=True)


@dataclasses.dataclass(frozen=True)
class _Taker:
    folder: Path

    def __call__(self, name: str) -> str:
        wishes, servers = read_wishes()
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        lines = []
        for file, text in answers_of(wishes[name], servers):
            (home / file).write_text(text, encoding="utf-8", errors="backslashreplace")
            lines.append(f"{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:16]}  {file}")
        (home / "digests").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return name


def compare(before: Path, after: Path) -> int:
    """Print every answer that differs, with its first differing lines; the number of them."""
    files = sorted({path.relative_to(root) for root in (before, after) for path in root.rglob("*.*") if path.is_file()})
    differing = 0
    for file in files:
        old, new = (root / file for root in (before, after))
        texts = [path.read_text(encoding="utf-8").splitlines() if path.exists() else [] for path in (old, new)]
        if texts[0] != texts[1]:
            differing += 1
            print(f"== {file}")
            changed = [line for line in difflib.unified_diff(*texts, lineterm="", n=0) if not line.startswith(("---", "+++", "@@"))]
            print("\n".join(changed[:MOST_LINES]))
    print(f"{len(files)} answers, {differing} differ")
    return differing


def main(words: list[str]) -> int:
    """Run one command."""
    match words:
        case ["take", folder, *chosen]:
            take(Path(folder), chosen)
            return 0
        case ["compare", before, after]:
            return int(compare(Path(before), Path(after)) > 0)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
