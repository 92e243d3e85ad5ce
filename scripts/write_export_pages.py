"""Write what the pages of export targets show of the targets themselves: docs/exports/TARGET.md,
and the tables of edits, of ways and of what is executed in docs/commands/export.md.

Usage: python scripts/write_export_pages.py [--check] [TARGET ...]     (--check writes nothing and
    exits 1 when a page is behind)

The prose of a page is written by hand; two kinds of marks in it are filled in from the typical
plans (tests/export/typical_plans.py):

    <!-- plans -->                                 up to <!-- end -->: which typical plans the
                                                   target takes, and why it refuses the others
    <!-- example: qlora-8b task.yaml 1-30 -->      up to <!-- end -->: these lines of that file for
                                                   that plan (or "text" 12: from the line that holds
                                                   the text; or all), as an excerpt of
                                                   docs_examples.py

A target without a page gets one to start from. The page's text before the marks says what the files
are, how to start them and what stays to do by hand.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
os.environ.setdefault("RIGHTFIT_TODAY", (ROOT / "tests/data/day.txt").read_text().strip())  # prices age by the clock
FOLDER = ROOT / "docs" / "exports"
INDEX = ROOT / "docs" / "commands" / "export.md"
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "export"), str(ROOT / "tests" / "support"), str(ROOT / "scripts")]

from docs_examples import excerpt
from kinds import STARTED
from typical_plans import COMMON, FURTHER, OTHER_KINDS, WISHES, plan_values
from walked import EVERY_WAY, FIRST_WAY, NAMED_BY_HAND, OWN_PROGRAM

from rightfit.exports import Job, Target, all_targets, job_of, plan_document
from rightfit.exports.recipes import edits, has_recipe, launcher_of, recipe_of
from rightfit.exports.stack import stack_name

MARK = re.compile(
    r"(?P<mark><!-- (?P<kind>plans|example: (?P<plan>\S+) (?P<path>\S+) (?P<lines>.+?)) -->\n)(?P<body>.*?)(?P<end><!-- end -->\n)",
    re.DOTALL,
)
LANGUAGES = {
    "yaml": "yaml",
    "yml": "yaml",
    "json": "json",
    "sh": "sh",
    "tf": "hcl",
    "toml": "toml",
    "py": "python",
    "sbatch": "sh",
    "ini": "ini",
    "md": "markdown",
}
SHORTEST_FENCE = 3


def page_of(target: Target) -> Path:
    """The page of a target."""
    return FOLDER / f"{target.name}.md"


@functools.cache
def job(name: str) -> Job:
    """The job of a typical plan with a bucket, as most are started."""
    return job_of(plan_document(plan_values(name)))


def refreshed(text: str, target: Target) -> str:
    """A page with its marks filled in."""

    def filled(found: re.Match[str]) -> str:
        body = plans_of(target) if found["kind"] == "plans" else example(target, found["plan"], found["path"], found["lines"])
        return found["mark"] + body + found["end"]

    return MARK.sub(filled, text)


def plans_of(target: Target) -> str:
    """Which typical plans the target takes, and what it says to the others."""
    answers = {name: target.problem(job(name)) for name in WISHES}
    taken = [f"`{name}`" for name, problem in answers.items() if not problem]
    reasons: dict[str, list[str]] = {}
    for name, problem in answers.items():
        if problem:
            reasons.setdefault(problem, []).append(f"`{name}`")
    more = FURTHER if any(not target.problem(job(name)) for name in (*WISHES, *FURTHER)) else (*OTHER_KINDS, *STARTED)
    further = [f"`{name}`" for name in more if not target.problem(job(name))]
    lines = [f"Takes {len(taken)} of our {len(answers)} typical plans: {', '.join(taken) or 'none'}."]
    lines[0] += f" Of the further plans (server programs by name, images, a split model): {', '.join(further)}." if further else ""
    lines += [f"- refused: {problem} ({', '.join(names)})" for problem, names in reasons.items()]
    return "\n".join([lines[0], "", *lines[1:]] if reasons else lines) + "\n"


def example(target: Target, plan: str, path: str, lines: str) -> str:
    """Lines of one file for one typical plan, in a fence longer than any in the file."""
    files = target.files(job(plan))
    if path not in files:
        raise SystemExit(f"{target.name} writes no {path} for {plan}; it writes {', '.join(files)}")
    body = "\n".join(line.rstrip() for line in excerpt(files[path], lines))
    longest = max([SHORTEST_FENCE - 1, *(len(fence) for fence in re.findall(r"`{3,}", body))])
    fence = "`" * (longest + 1)
    language = LANGUAGES.get(PurePosixPath(path).suffix.lstrip("."), "text")
    return f"{fence}{language}\n{body}\n{fence}\n"


EDITS = re.compile(r"(<!-- edits -->\n).*?(<!-- end -->\n)", re.DOTALL)
CLOUDS = ("aws", "gcp", "azure", "alicloud", "tencent", "runpod", "verda")
KINDS = ("bucket", "token", "data", "else")


def edits_table() -> str:
    """What a user gives by hand for each way of starting a fine-tuning, its own export told
    nothing."""
    rows: dict[str, dict[str, tuple[str, ...]]] = {}
    values = plan_values("lora-8b-aws")
    for cloud in CLOUDS:
        option = {**values["options"][0], "provider": cloud, "nodes": 1, "purchase": "on-demand"}
        option = plan_values("lora-8b-runpod")["options"][0] if cloud == "runpod" else option
        found = job_of(plan_document({**values, "options": [option]}))
        for target in filter(has_recipe, all_targets()):
            if not all_targets()[target].problem(found):
                name = f"{target} ({cloud})" if target == "provider-cli" else target
                rows.setdefault(name, edits(found, recipe_of(found, target)))
    lines = ["| way | bucket | token | data | else | edits |", "|---|---|---|---|---|---|"]
    for name, found_edits in sorted(rows.items()):
        cells = [", ".join(f"`{word}`" for word in found_edits[kind]) for kind in KINDS]
        lines.append(f"| {name} | {' | '.join(cells)} | {sum(map(len, found_edits.values()))} |")
    return "\n".join(lines) + "\n"


WAYS = re.compile(r"(<!-- ways -->\n).*?(<!-- end -->\n)", re.DOTALL)


def ways_table() -> str:
    """Which ways start each of the commonest plans, on its own cloud."""
    plans = {name: job(name) for name in COMMON}
    launches = [target for target in all_targets().values() if target.group in ("launch", "kubernetes") and has_recipe(target.name)]
    lines = [f"| way | {' | '.join(f'`{name}`' for name in plans)} |", f"|---|{'---|' * len(plans)}"]
    for target in launches:
        cells = ["" if target.problem(found) else "yes" for found in plans.values()]
        lines += [f"| [{target.name}](../exports/{target.name}.md) | {' | '.join(cells)} |"] if any(cells) else []
    return "\n".join(lines) + "\n"


EXECUTED = re.compile(r"(<!-- executed -->\n).*?(<!-- end -->\n)", re.DOTALL)


def executed_table() -> str:
    """How the README of each plan is executed by the tests: its first way, the program on the
    server, and its other ways."""
    lines = ["| plan | program | way named first | program on the server | other ways |", "|---|---|---|---|---|"]
    for name in dict.fromkeys((*FIRST_WAY, *EVERY_WAY, *OWN_PROGRAM)):
        found = job(name)
        able = [target for target in all_targets() if has_recipe(target) and not all_targets()[target].problem(found)]
        first = launcher_of(found, able)
        others = [target for target in able if name in EVERY_WAY and target not in (first, *NAMED_BY_HAND)]
        program = "its own" if name in OWN_PROGRAM else "a stand-in"
        lines.append(f"| `{name}` | {stack_name(found).replace('_', '-')} | {first} | {program} | {', '.join(others) or '-'} |")
    return "\n".join(lines) + "\n"


def current_index() -> tuple[str, str]:
    """docs/commands/export.md as it is, and with its tables of edits and of ways."""
    before = INDEX.read_text(encoding="utf-8")
    after = EDITS.sub(lambda found: found[1] + edits_table() + found[2], before)
    after = WAYS.sub(lambda found: found[1] + ways_table() + found[2], after)
    return before, EXECUTED.sub(lambda found: found[1] + executed_table() + found[2], after)


def skeleton(target: Target) -> str:
    """A page to start from."""
    plan = next(name for name in (*WISHES, *FURTHER, *OTHER_KINDS, *STARTED) if not target.problem(job(name)))
    path = next(iter(target.files(job(plan))))
    return (
        f"# {target.name}\n\n{target.summary}.\n\n    rightfit export plan.json --to {target.name} --out job\n\n"
        f"<!-- plans -->\n<!-- end -->\n\nFrom the plan `{plan}`, `{path}`:\n\n<!-- example: {plan} {path} 1-30 -->\n<!-- end -->\n\nChecked by: {target.checked_by}.\n"
    )


def current(target: Target) -> tuple[str, str]:
    """A page as it is ("" where there is none), and as it should be."""
    page = page_of(target)
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    return before, refreshed(before or skeleton(target), target)


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    behind = []
    for target in [target for target in all_targets().values() if not options.targets or target.name in options.targets]:
        before, after = current(target)
        if before != after:
            behind.append(target.name)
            if not options.check:
                FOLDER.mkdir(exist_ok=True)
                page_of(target).write_text(after, encoding="utf-8")
    before, after = current_index() if not options.targets else ("", "")
    if before != after:
        behind.append(INDEX.name)
        if not options.check:
            INDEX.write_text(after, encoding="utf-8")
    if options.check and behind:
        raise SystemExit("pages of targets are behind, run scripts/write_export_pages.py: " + ", ".join(behind))


if __name__ == "__main__":
    main()
