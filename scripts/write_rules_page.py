"""Write docs/rules-of-thumb.md: every rule of thumb, tried on its example and on a few usual jobs.
Run from the repository root.

Usage: python scripts/write_rules_page.py [RULE ...]     (with names only the words of those rules
                                                         are written anew)
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rightfit.explain.rule_lookup import judge_example
from rightfit.explain.rule_trials import check_rules
from rightfit.explain.rules import RuleCheck, RuleOfThumb, all_rules, example_of, post_title, rule_by_id
from rightfit.planner.plan import plan
from rightfit.workload import Workload

os.environ.setdefault(
    "RIGHTFIT_TODAY", (Path(__file__).resolve().parents[1] / "tests/data/day.txt").read_text().strip()
)  # prices age by the clock

PAGE = Path("docs/rules-of-thumb.md")
JOBS = {
    "BERT-base, full": {"model": "bert-base", "task": "finetune", "method": "full", "data": "20Mtok", "seq_len": 256},
    "Llama-3-8B, QLoRA": {"model": "llama-3-8b", "task": "finetune", "method": "qlora", "data": "50Mtok"},
    "Llama-3-8B, full": {"model": "llama-3-8b", "task": "finetune", "method": "full", "data": "50Mtok"},
    "Llama-3-70B, QLoRA": {"model": "llama-3-70b", "task": "finetune", "method": "qlora", "data": "50Mtok"},
    "Pythia-160M from scratch, 500 GB": {
        "model": "pythia-160m",
        "task": "train",
        "data": "500GB",
        "seq_len": 2048,
        "gpu": "A100,H100,L40S",
    },
}
INTRO = """# Rules of thumb

Five widely copied blog posts give rules for choosing a cloud server. rightfit holds each against its own figures for the job at hand:
`rightfit plan ... --verbose` lists those that speak about the job, `rightfit check "RAM >= 4x VRAM"` tries one on an example. A rule
*holds*, *fails* (who follows it runs out of memory, waits or overpays), or is *misleading* (true by chance, or far more than the job
needs). What a job *needs* is one copy of it, one sequence at a time, with gradient checkpointing and nothing offloaded.

下面把五篇常被转载的选型文章中的经验法则逐条与我们自己的计算对照：成立、不成立，或误导（碰巧成立，或远超实际需要）。

This page is written by `scripts/write_rules_page.py`; the rules are data (`src/rightfit/explain/data/rules.toml`).
"""
SIGNS = {"holds": "holds", "fails": "**fails**", "misleading": "misleading", "unknown": "?"}


def page(names: Sequence[str] = (), before: str = "") -> str:
    """The whole page; with names the sections of all other rules are those of the page before."""
    kept = sections_of(before) if names else {}
    anew = {name: section(rule, judge_example(rule)) for name, rule in all_rules().items() if name in names or name not in kept}
    posts = "\n".join(f"{number + 1}. {post_title(number, 'en')}（{post_title(number, 'zh')}）" for number in range(5))
    rules = "\n".join(anew.get(name) or kept[name] for name in all_rules())
    return f"{INTRO}\n## The posts\n\n{posts}\n\n## At a glance\n\n{table()}\n\n## One by one\n{rules}"


def sections_of(text: str) -> dict[str, str]:
    """What a page says of each rule, by its id."""
    parts = text.split("\n### ")[1:]
    return {part.split("\n", 1)[0]: f"\n### {part}".rstrip("\n") for part in parts}


def table() -> str:
    """Verdicts of every rule on the usual jobs; a dash where a rule does not
    speak about the job."""
    verdicts = {job: {check.rule.id: check.verdict for check in check_rules(plan(Workload(**wish), top=1))} for job, wish in JOBS.items()}
    head = f"| rule | post | {' | '.join(JOBS)} |\n|---|---:|{'---|' * len(JOBS)}"
    rows = [
        f"| [`{name}`](#{name}) | {rule.post + 1} | {' | '.join(SIGNS.get(verdicts[job].get(name, ''), '–') for job in JOBS)} |"
        for name, rule in all_rules().items()
        if any(name in found for found in verdicts.values())
    ]
    return "\n".join([head, *rows])


def section(rule: RuleOfThumb, found: RuleCheck | None) -> str:
    """One rule with its verdict on its example."""
    wish = ", ".join(str(value) for value in example_of(rule).values())
    told = [found.text("en"), found.text("zh")] if found else ["Cannot be judged: the example has no feasible plan."]
    lines = [
        f"\n### {rule.id}\n",
        f"- {rule.statement['en']}",
        f"- {rule.statement['zh']}",
        f"- Example: {wish}",
        *(f"- {line}" for line in told),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    wanted = [rule_by_id(name).id for name in sys.argv[1:]]
    text = page(wanted, PAGE.read_text("utf-8"))
    PAGE.write_text(text + "\n", "utf-8")
    sys.stderr.write(f"{PAGE}: {len(all_rules())} rules\n")
