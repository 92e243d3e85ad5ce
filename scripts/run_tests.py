"""Run the tests: the quick suite with every change, the deep groups before an issue is closed.

Usage: scripts/test [PYTEST OPTIONS]                    quick: set up, lint, and every test that is
                                                        not marked deep
       scripts/test deep [GROUP ...]                    every deep group, or those named; says how
                                                        long each took
       scripts/test touched [--commits N] [--minutes M] the deep groups whose rooms the last N
                                                        commits touched, most touched first, while
                                                        their usual minutes fit into M; says which
                                                        were left out
       scripts/test newest                              the quick suite with the newest releases
                                                        that pyproject.toml allows, which is what
                                                        users get: weekly, see .ci/weekly
       scripts/test groups                              the groups of tests/groups.toml, with what
                                                        they need

Each environment is made from nothing in a temporary folder; RIGHTFIT_TEST_FOLDER names a folder
that is kept and used again. A group whose packages cannot be had here is skipped loudly.
RIGHTFIT_TEST_PROCESSES is the number of test processes (2).
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "groups.toml"
#: Programs outside the core wait for other programs: a test of theirs that fails is run once more,
#: and its first failure is printed.
AGAIN = ("--reruns", "1", "-rfER")


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Tests that run together in one environment; `rooms` are the paths whose
    changes ask for them."""

    name: str
    tests: tuple[str, ...]
    rooms: tuple[str, ...]
    minutes: float  # of wall time on two cores, environment included, when it was last measured
    packages: tuple[str, ...] = ()  # empty: the environment of the quick suite
    bare: tuple[str, ...] = ()  # packages that are installed without what they ask for
    system: tuple[str, ...] = ()  # programs and the packages of Debian that bring them, "program=package package"
    marked: str = ""  # pytest's -m
    only: str = ""  # pytest's -k
    parallel: bool = False
    asked_by: str = ""  # a variable without which the group is left out
    python: str = ""  # a program, where the group needs another than the usual one


#: What `scripts/test newest` installs: no list of releases, so the newest that are allowed.
NEWEST = Group("newest_quick", ("tests",), (), 12.0, packages=("--upgrade", "-e", ".[dev]", "pytest-rerunfailures"))


def read_groups(table: dict[str, Any]) -> tuple[Group, ...]:
    """The groups of tests/groups.toml, in its order."""
    shared, groups = table["packages"], []
    for name, entry in table.items():
        if name in ("quick", "packages"):
            continue
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
        packages = tuple(one for word in values.pop("packages", ()) for one in shared.get(word, (word,)))
        groups.append(Group(name=name, packages=packages, **values))
    return tuple(groups)


def read_table() -> dict[str, Any]:
    """tests/groups.toml as it stands."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """How a step ended: `code` is pytest's, None where it was skipped."""

    name: str
    code: int | None
    seconds: float


class Runner:
    """Makes environments in a folder and runs steps in them, one after the other, each timed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = os.environ.get("PYTHON", "python3")
        #: What is compiled is kept in the folder: 20 s less for each test process, and a tenth to a
        #: half less for each command that a test starts.
        kept = {"PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": ""}
        self.variables = dict(os.environ, **kept)
        self.processes = os.environ.get("RIGHTFIT_TEST_PROCESSES", "2")
        self.outcomes: list[Outcome] = []

    def say(self, text: str) -> None:
        print(text, flush=True)

    def call(self, *command: str, log: Path | None = None) -> int:
        """Run a program in the checkout; its output goes to the log where there is one."""
        if log is None:
            return subprocess.run(command, cwd=ROOT, env=self.variables, check=False).returncode  # noqa: S603
        with log.open("ab") as out:
            return subprocess.run(command, cwd=ROOT, env=self.variables, check=False, stdout=out, stderr=out).returncode  # noqa: S603

    # ---- environments

    def core(self) -> Path | None:
        """The environment of the quick suite."""
        home = self.folder / "core"
        if not (home / "ready").exists():
            if self.call(str(ROOT / "scripts" / "setup"), str(home)):
                return None
            (home / "ready").touch()
        return home

    def environment(self, group: Group) -> Path | None:
        """A fresh environment with rightfit and the packages of a group; None where they cannot be
        had. With uv, where there is one and it finds them, else with pip."""
        home, log = self.folder / group.name, self.folder / f"{group.name}.log"
        if (home / "ready").exists():
            return home
        uv = self.uv()
        for tool in (uv, "") if uv else ("",):
            if self._made(tool, home, group, log):
                (home / "ready").touch()
                return home
        return None

    def uv(self) -> str:
        """The program uv: that of the path, or one brought by pip; empty where it cannot be had."""
        if found := shutil.which("uv"):
            return found
        home, log = self.folder / "uv", self.folder / "uv.log"
        if not home.exists():
            self.call(self.python, "-m", "venv", str(home), log=log)
            self.call(str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "uv", log=log)
        return str(home / "bin" / "uv") if (home / "bin" / "uv").exists() else ""

    def _made(self, uv: str, home: Path, group: Group, log: Path) -> bool:
        """Whether an environment could be made with uv (with pip where it is empty)."""
        python = str(home / "bin" / "python")
        if group.python and not shutil.which(group.python):
            log.write_text(f"there is no {group.python}\n", encoding="utf-8")
            return False
        if uv:
            links = os.environ.get("PIP_FIND_LINKS", "").split()  # uv reads none of the settings of pip
            found = [word for link in links for word in ("--find-links", link)]
            install = (uv, "pip", "install", "--quiet", "--index-strategy", "unsafe-best-match", *found, "--python", python)
        else:
            install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
        wanted = (*group.packages, "pytest", "pytest-rerunfailures", *(() if "-e" in group.packages else ("-e", ".")))
        steps = [(group.python or self.python, "-m", "venv", "--clear", str(home)), (*install, *wanted)]
        if group.bare:
            steps.append((*install, "--no-deps", *group.bare))
        return not any(self.call(*step, log=log) for step in steps)

    def bring(self, programs: Sequence[str]) -> None:
        """Install programs of the system where that is allowed; tests that need them skip
        where they are not."""
        wanted = [words.split() for program, words in (entry.split("=", 1) for entry in programs) if not _has(program)]
        packages = [package for words in wanted for package in words]
        if not packages:
            return
        log = self.folder / "apt.log"
        install = ("apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages)
        if os.geteuid() != 0 or self.call("apt-get", "update", "-qq", log=log) or self.call(*install, log=log):
            self.say(f"SKIPPED LOUDLY: {' '.join(packages)} cannot be had here")

    # ---- steps

    def step(self, name: str, *command: str) -> int:
        """Run one command as a step of its own."""
        self.say(f"== {name}")
        start = time.monotonic()
        code = self.call(*command)
        self.outcomes.append(Outcome(name, code, time.monotonic() - start))
        return code

    def quick(self, options: Sequence[str]) -> int:
        """The quick suite; it stops at what fails first."""
        start = time.monotonic()
        self.say("== set up")
        home = self.core()
        self.outcomes.append(Outcome("set up", 0 if home else 1, time.monotonic() - start))
        if home is None:
            return 1
        if code := self.step("lint", str(ROOT / "scripts" / "lint"), str(home)):
            return code
        return self.step("quick tests", *self._quick(home), *options)

    def newest(self, options: Sequence[str]) -> int:
        """The quick suite in an environment without constraints.txt. It goes on after a failure:
        each says what a release broke."""
        home = self.environment(NEWEST)
        if home is None:
            self.say(f"SKIPPED LOUDLY: what {NEWEST.name} needs cannot be had here; see {self.folder / NEWEST.name}.log")
            self.outcomes.append(Outcome(NEWEST.name, 1, 0.0))
            return 1
        return self.step("quick, newest", *self._quick(home), "-W", "ignore", *options)

    def _quick(self, home: Path) -> tuple[str, ...]:
        leaves = [word for path in read_table()["quick"]["leaves"] for word in ("--ignore", path)]
        spread = ("-n", self.processes, "--dist", "worksteal")
        return (str(home / "bin" / "python"), "-m", "pytest", *spread, "-m", "not deep", *leaves)

    def group(self, group: Group) -> None:
        """One deep group."""
        self.say(f"== {group.name}")
        start = time.monotonic()
        if group.asked_by and not os.environ.get(group.asked_by):
            self.say(f"SKIPPED LOUDLY: {group.name} did not run, because {group.asked_by} does not ask for it")
            self.outcomes.append(Outcome(group.name, None, 0.0))
            return
        self.bring(group.system)
        home = self.environment(group) if group.packages or group.python else self.core()
        code: int | None = None
        if home is None:
            log = self.folder / f"{group.name}.log"
            last = log.read_text(encoding="utf-8", errors="replace").splitlines()[-2:] if log.exists() else []
            self.say("\n".join((f"SKIPPED LOUDLY: {group.name} did not run, because what it needs cannot be had here:", *last)))
        else:
            code = self.call(str(home / "bin" / "python"), "-m", "pytest", *self._options(group), *group.tests)
        self.outcomes.append(Outcome(group.name, code, time.monotonic() - start))

    def _options(self, group: Group) -> tuple[str, ...]:
        own = () if not (group.packages or group.python) else ("-W", "ignore", *AGAIN)
        spread = ("-n", self.processes, "--dist", "loadfile" if group.packages else "worksteal") if group.parallel else ()
        return (*own, *spread, *(("-m", group.marked) if group.marked else ()), *(("-k", group.only) if group.only else ()))

    def told(self) -> int:
        """Say how each step ended; the exit code."""
        self.say("== times")
        words = {None: "skipped", 0: "passed"}
        for one in self.outcomes:
            self.say(f"{one.name:<16}{one.seconds / 60:6.1f} min  {words.get(one.code, 'FAILED')}")
        self.say(f"{'together':<16}{sum(one.seconds for one in self.outcomes) / 60:6.1f} min")
        return int(any(one.code for one in self.outcomes))


def _has(program: str) -> bool:
    """Whether a program is on the path, or a file of this pattern is there."""
    return bool(shutil.which(program)) or (program.startswith("/") and any(Path("/").glob(program[1:])))


def touched(groups: Sequence[Group], files: Sequence[str], minutes: float) -> tuple[list[Group], list[Group]]:
    """The groups whose rooms hold changed files, most files first, that fit into the minutes; and
    those that do not."""
    counts = {group.name: sum(file.startswith(group.rooms) for file in files) for group in groups}
    asked = sorted((group for group in groups if counts[group.name]), key=lambda group: -counts[group.name])
    chosen, left, used = [], [], 0.0
    for group in asked:
        fits = used + group.minutes <= minutes
        (chosen if fits else left).append(group)
        used += group.minutes if fits else 0.0
    return chosen, left


def changed_files(commits: int) -> list[str]:
    """Files that the last commits changed; every file where there are fewer commits."""
    git = ("git", "-C", str(ROOT))
    found = subprocess.run((*git, "diff", "--name-only", f"HEAD~{commits}"), capture_output=True, text=True, check=False)  # noqa: S603
    if found.returncode:
        found = subprocess.run((*git, "ls-files"), capture_output=True, text=True, check=True)  # noqa: S603
    return found.stdout.splitlines()


def described(groups: Sequence[Group]) -> str:
    """One line a group."""
    return "\n".join(f"{group.name:<16}{group.minutes:4.0f} min  {' '.join(group.tests)}" for group in groups)


def _value(words: Sequence[str], name: str, default: str) -> str:
    return words[words.index(name) + 1] if name in words else default


def run(words: Sequence[str], runner: Runner, groups: Mapping[str, Group]) -> int:
    """One call of the script; the exit code."""
    match list(words):
        case ["deep", *names]:
            if unknown := [name for name in names if name not in groups]:
                print(f"no group {', '.join(unknown)}; there are {', '.join(groups)}", file=sys.stderr)
                return 2
            for name in names or groups:
                runner.group(groups[name])
        case ["touched", *options]:
            files = changed_files(int(_value(options, "--commits", "30")))
            chosen, left = touched(tuple(groups.values()), files, float(_value(options, "--minutes", "1000")))
            for group in chosen:
                runner.group(group)
            if left:
                runner.say("NOT RUN for want of time, though their rooms changed: " + ", ".join(group.name for group in left))
        case ["newest", *options]:
            runner.newest(options)
        case options:
            runner.quick(options)
    return runner.told()


def main(words: Sequence[str]) -> int:
    """Read the command line."""
    if words[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    groups = {group.name: group for group in read_groups(read_table())}
    if words[:1] == ["groups"]:
        print(described(tuple(groups.values())))
        return 0
    kept = os.environ.get("RIGHTFIT_TEST_FOLDER")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
        return run(words, Runner(Path(kept).resolve()), groups)
    with tempfile.TemporaryDirectory(prefix="rightfit-test-") as folder:
        return run(words, Runner(Path(folder)), groups)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
