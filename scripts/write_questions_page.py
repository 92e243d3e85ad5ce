"""Write docs/questions.md: sixty questions of an engineer who rents servers and forty of a red
team, with the first lines of each answer and an expert's verdict.

Usage: python scripts/write_questions_page.py [--check] [ID ...]     (--check writes nothing and
    exits 1 when the page is behind) Questions, what is expected of their answers and the verdicts
    are tests/data/questions/*.toml; tests/test_questions.py holds the program to what is expected.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import os
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parent.parent
os.environ.setdefault("RIGHTFIT_TODAY", (ROOT / "tests/data/day.txt").read_text().strip())  # prices age by the clock
sys.path.insert(0, str(ROOT / "src"))

from rightfit import api
from rightfit.cli import main as command_line
from rightfit.search.answer import Plan

PAGE = ROOT / "docs/questions.md"
SETS = ("sixty", "forty")
FIRST_LINES = 6
WIDTH = "100"
INTRO = """# A hundred questions, and an expert's verdict on each answer

How good is an answer by its first lines? Here are sixty questions of an engineer who rents servers every week (every case that earlier versions answered wrongly, and ordinary wishes
of every kind of work), then forty of a red team, which were written down before any of their answers was looked at. Each has the first lines of its answer and a verdict:
**signed** (an expert would sign it), **with a remark**, or **not signed**. What the red team found is told with each question, mended or not.

The questions and the properties that their answers must have (one placement, host memory, seller, price and its date, probability, length, what a person who has done it expects to pay) are
data, and `tests/test_questions.py` holds the program to them. This page is written by `scripts/write_questions_page.py`; prices are those of the bundled catalog.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """One question with all that the program said."""

    question: dict[str, Any]
    code: int
    out: str
    err: str
    plans: tuple[Plan, ...]

    @property
    def text(self) -> str:
        """Everything printed, with single blanks."""
        return " ".join((self.out + self.err).split())

    def first_lines(self) -> str:
        """The beginning of the answer, as a reader sees it."""
        lines = (self.out or self.err).rstrip("\n").splitlines()
        kept = lines[:FIRST_LINES]
        return "\n".join([*kept, *(["..."] if len(lines) > FIRST_LINES else [])])


def questions(name: str) -> list[dict[str, Any]]:
    """The questions of a set."""
    found: list[dict[str, Any]] = tomllib.loads((ROOT / f"tests/data/questions/{name}.toml").read_text("utf-8"))["question"]
    return found


def ask(question: dict[str, Any]) -> Asked:
    """Type a question into the command line of this process, as somebody with an English terminal
    of a hundred columns."""
    plans: list[Plan] = []
    plan = api.plan

    def kept(*arguments: Any, **named: Any) -> Plan:
        plans.append(plan(*arguments, **named))
        return plans[-1]

    out, err = io.StringIO(), io.StringIO()
    settings = {"COLUMNS": WIDTH, "LANG": "C.UTF-8", "LC_ALL": "", "LC_MESSAGES": ""}
    patched = mock.patch.dict(os.environ, settings), mock.patch.object(api, "plan", kept)
    with patched[0], patched[1], contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = command_line(shlex.split(question["command"]))
    return Asked(question, code, out.getvalue(), err.getvalue(), tuple(plans))


def section(asked: Asked) -> str:
    """A question, what an expert looks at, the first lines, the verdict; of the red team
    also what was found."""
    question = asked.question
    lines = [f"### {question['id']}", "", f"*{question['why']}.*", "", "```text", f"$ rightfit {question['command']}"]
    lines += [asked.first_lines(), "```", "", f"**{question['signed'].capitalize()}.** {question['verdict']}"]
    lines += ["", f"Found: {question['found']}"] if "found" in question else []
    return "\n".join(lines) + "\n"


def glance(sets: dict[str, list[dict[str, Any]]]) -> str:
    """How many of each verdict."""
    rows = ["| | signed | with a remark | not signed |", "|---|---|---|---|"]
    for name, title in (("sixty", "sixty questions"), ("forty", "red team")):
        said = [question["signed"] for question in sets[name]]
        rows.append(f"| {title} | " + " | ".join(str(said.count(word)) for word in ("signed", "with a remark", "not signed")) + " |")
    return "\n".join(rows)


def page() -> str:
    """The whole page."""
    sets = {name: questions(name) for name in SETS}
    parts = [INTRO, "## At a glance\n", glance(sets), "", "## Sixty questions\n", *(section(ask(one)) for one in sets["sixty"])]
    parts += ["## Forty questions of a red team\n", *(section(ask(one)) for one in sets["forty"])]
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    """Write or check; with names, print what those questions are answered."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("ids", nargs="*")
    options = parser.parse_args()
    if options.ids:
        for question in (one for name in SETS for one in questions(name) if one["id"] in options.ids):
            asked = ask(question)
            print(f"{question['id']}: exit {asked.code}\n$ rightfit {question['command']}\n{asked.out}{asked.err}")
        return
    text = page()
    if options.check and (not PAGE.exists() or PAGE.read_text("utf-8") != text):
        raise SystemExit(f"behind the program, run scripts/docs: {PAGE.relative_to(ROOT)}")
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
