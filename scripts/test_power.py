"""Show that the quick suite catches what everything catches: fixes that are undone, and seeded
mutants over all rooms.

Usage: scripts/test_power.py COVERAGE OUT.csv [--seed N] [--mutants N] [--undo COMMIT ...] [--limit
SECONDS] [--only NAME ...]

COVERAGE is a coverage database of a run of all core tests with a context a test function
(scripts/coverage_contexts.py, see docs/decisions/test-suite.md). Each change is made in a scratch
copy; the tests that touched the changed lines run there, quick ones first, the nearest room first,
until one fails. Where no quick test fails the deep ones that touched the lines run, SECONDS at
most. A row of OUT.csv says what was changed and what caught it: quick, deep (a miss of the quick
suite), or nothing. Rows that are there already are not run again.
"""

from __future__ import annotations

import argparse
import ast
import csv
import dataclasses
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = (
    "src",
    "tests",
    "docs",
    "scripts",
    "validation",
    "changelog.d",
    "benchmarks",
    "README.md",
    "README.zh.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "NOTICE",
)
PARTS += ("LICENSE", "pyproject.toml", "constraints.txt", ".ci", ".gitignore")
#: What a mutant turns into what.
COMPARED = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
REACHED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
FIELDS = ("name", "kind", "place", "change", "caught_by", "test")


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One change of the source: the lines that it touches by file, and how the scratch
    copy is brought to it."""

    name: str
    kind: str
    place: str
    what: str
    lines: dict[str, tuple[int, ...]]
    edit: tuple[str, str] | None = None  # file, its new text
    commit: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Touching:
    """Which test functions ran which lines of which file."""

    database: Path

    def tests(self, file: str, lines: Sequence[int]) -> set[str]:
        """Test functions that ran any of the lines; of a line that runs at import, all
        tests of the file."""
        with sqlite3.connect(self.database) as base:
            found = base.execute(
                "select context.context, line_bits.numbits from line_bits join file on file.id = line_bits.file_id "
                "join context on context.id = line_bits.context_id where file.path like ?",
                (f"%/{file}",),
            ).fetchall()
        named = [(context, _numbers(bits)) for context, bits in found if context]
        touching = {context for context, ran in named if not ran.isdisjoint(lines)}
        return touching or {context for context, _ in named}

    def lines(self, file: str) -> set[int]:
        """Lines of a file that tests ran, those of its import left out."""
        with sqlite3.connect(self.database) as base:
            found = base.execute(
                "select line_bits.numbits from line_bits join file on file.id = line_bits.file_id "
                "join context on context.id = line_bits.context_id where file.path like ? and context.context != ''",
                (f"%/{file}",),
            ).fetchall()
        return {number for (bits,) in found for number in _numbers(bits)}


def _numbers(bits: bytes) -> set[int]:
    """Line numbers of coverage's bit set."""
    return {byte * 8 + bit for byte, value in enumerate(bits) for bit in range(8) if value >> bit & 1}


# ---- changes


def mutants(touching: Touching, seed: int, count: int) -> Iterator[Change]:
    """Seeded mutants: each room of the package in turn, a random file of it by its size, a random
    place that tests ran."""
    draw = random.Random(seed)  # noqa: S311 (a seeded draw)
    package = ROOT / "src" / "rightfit"
    rooms = sorted({path.relative_to(package).parts[0] for path in package.rglob("*.py")} - {"__init__.py", "__main__.py"})
    order = draw.sample(rooms, len(rooms))
    made = 0
    while made < count:
        room = order[made % len(order)]
        home = package / room
        files = [
            path for path in (home.rglob("*.py") if home.is_dir() else [home]) if "scripts" not in path.parts and "agent" not in path.parts
        ]
        path = draw.choices(files, [path.stat().st_size for path in files])[0]
        file = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        ran = touching.lines(file)
        places = [(node, new) for node, new in _mutations(ast.parse(text), text) if node.lineno in ran]
        if not places:
            continue
        node, new = draw.choice(places)
        made += 1
        old = ast.get_source_segment(text, node) or ""
        shown = f"{' '.join(old.split())[:60]} -> {' '.join(new.split())[:60]}"
        lines = tuple(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        yield Change(f"mutant-{made}", "mutant", f"{file}:{node.lineno}", shown, {file: lines}, (file, _replaced(text, node, new)))


def _mutations(tree: ast.AST, text: str) -> Iterator[tuple[ast.expr, str]]:
    """Every node that can be mutated, with its mutated source."""
    quiet = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    quiet |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript | ast.AnnAssign | ast.arg)
        for part in ast.walk(getattr(node, "annotation", None) or ast.Pass())
    }
    for node in ast.walk(tree):
        if id(node) in quiet or not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
            left, right = ast.get_source_segment(text, node.left), ast.get_source_segment(text, node.comparators[0])
            yield node, f"({left} {COMPARED[type(node.ops[0])]} {right})"
        elif isinstance(node, ast.BinOp) and type(node.op) in REACHED:
            left, right = ast.get_source_segment(text, node.left), ast.get_source_segment(text, node.right)
            yield node, f"({left} {REACHED[type(node.op)]} {right})"
        elif isinstance(node, ast.BoolOp):
            word = " or " if isinstance(node.op, ast.And) else " and "
            yield node, "(" + word.join(f"({ast.get_source_segment(text, value)})" for value in node.values) + ")"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, f"({ast.get_source_segment(text, node.operand)})"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, repr(node.value + 1)
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield node, repr(not node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("min", "max"):
            yield node.func, {"min": "max", "max": "min"}[node.func.id]


def _replaced(text: str, node: ast.expr, new: str) -> str:
    lines = text.splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    first, last = lines[node.lineno - 1].encode(), lines[node.end_lineno - 1].encode()
    return "".join(
        (*lines[: node.lineno - 1], first[: node.col_offset].decode(), new, last[node.end_col_offset :].decode(), *lines[node.end_lineno :])
    )


def undone(commits: Sequence[str]) -> Iterator[Change]:
    """The source part of commits, to be undone; the lines are those that it had written."""
    for commit in commits:
        diff = _git("diff", f"{commit}^", commit, "--unified=0", "--", "src")
        lines: dict[str, tuple[int, ...]] = {}
        file = ""
        for line in diff.splitlines():
            if line.startswith("+++ b/"):
                file = line.removeprefix("+++ b/")
            elif (found := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)) and file.endswith(".py"):
                start, length = int(found[1]), int(found[2] or 1)
                lines[file] = (*lines.get(file, ()), *range(start, start + max(length, 1)))
        yield Change(commit, "undone", ", ".join(lines), _git("log", "-1", "--format=%s", commit).strip()[:90], lines, commit=commit)


def _git(*words: str) -> str:
    return subprocess.run(("git", "-C", str(ROOT), *words), capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


# ---- runs


def tried(change: Change, touching: Touching, copy: Path, limit: float) -> tuple[str, str]:
    """What catches a change, quick, deep or nothing, and the test that did."""
    tests = sorted({test for file, lines in change.lines.items() for test in touching.tests(file, lines)})
    room = next(iter(change.lines), "").removeprefix("src/rightfit/").partition("/")[0].removesuffix(".py")
    tests.sort(key=lambda test: (f"tests/{room}/" not in test, f"test_{room}" not in test, test))
    there = [test for test in tests if (copy / test.partition("::")[0]).exists()]
    for kind, marked in (("quick", "not deep"), ("deep", "deep")):
        if failing := _failing(there, copy, marked, limit if kind == "deep" else 4 * limit):
            return kind, failing
    return "nothing", f"{len(there)} test functions ran"


def _failing(tests: Sequence[str], copy: Path, marked: str, limit: float) -> str:
    """The first test that fails; empty where none does."""
    names = copy / "names.txt"
    names.write_text("\n".join(tests), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-m",
        marked,
        "-n",
        "2",
        "--dist",
        "worksteal",
        f"@{names}",
    ]
    environment = {**_environment(), "PYTHONPATH": str(copy / "src"), "RIGHTFIT_CACHE_DIR": str(copy / "cache")}
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, env=environment, timeout=limit)  # noqa: S603
    except subprocess.TimeoutExpired:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode in (0, 5):
        return ""
    return found[1] if found else f"pytest ends with {done.returncode}"


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def brought(change: Change, copy: Path) -> bool:
    """Bring the scratch copy to the change; False where a commit can no longer be undone."""
    if change.edit:
        (copy / change.edit[0]).write_text(change.edit[1], encoding="utf-8")
        return True
    diff = _git("diff", change.commit + "^", change.commit, "--", "src")
    return subprocess.run(("git", "apply", "-R", "-"), cwd=copy, input=diff, text=True, check=False).returncode == 0  # noqa: S607


def main(words: Sequence[str]) -> int:
    """Run the changes that OUT.csv does not have."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("coverage", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=30)
    parser.add_argument("--undo", nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--limit", type=float, default=240.0)
    asked = parser.parse_args(words)
    touching = Touching(asked.coverage)
    rows = list(csv.DictReader(asked.out.open(encoding="utf-8"))) if asked.out.exists() else []
    known = {row["name"] for row in rows}
    for change in (*undone(asked.undo), *mutants(touching, asked.seed, asked.mutants)):
        if change.name in known or (asked.only and change.name not in asked.only):
            continue
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder)
            for part in PARTS:
                source = ROOT / part
                (shutil.copytree if source.is_dir() else shutil.copy)(source, copy / part)
            caught, test = tried(change, touching, copy, asked.limit) if brought(change, copy) else ("not undone", "")
        rows.append(dict(zip(FIELDS, (change.name, change.kind, change.place, change.what, caught, test), strict=True)))
        print(f"{change.name}: {change.place}: {change.what}: {caught} {test}", flush=True)
        with asked.out.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
    quick, deep = (sum(row["caught_by"] == kind for row in rows) for kind in ("quick", "deep"))
    print(f"caught by the quick suite {quick}, by deep tests alone {deep}, by nothing {len(rows) - quick - deep}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
