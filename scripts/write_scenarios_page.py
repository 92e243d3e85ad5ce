"""Write docs/scenarios.md and its Chinese twin: every recommendation of five blog posts, the
servers that they name tried on it, and our answer.

Usage: python scripts/write_scenarios_page.py [--check]     (--check writes nothing and exits 1 when
                                                            a page is behind)
The recommendations are tests/data/scenarios.toml; what is said of them here is computed, and
tests/test_scenarios_of_posts.py holds it to what is right.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
os.environ.setdefault("RIGHTFIT_TODAY", (ROOT / "tests/data/day.txt").read_text().strip())  # prices age by the clock
sys.path.insert(0, str(ROOT / "src"))

from rightfit.explain import quantities as q
from rightfit.explain.messages import sentences
from rightfit.explain.rule_trials import check_rules
from rightfit.explain.rules import post_title
from rightfit.explain.voices import plan_text
from rightfit.market import open_catalog
from rightfit.market.check import check
from rightfit.messages import LANGS, Lang
from rightfit.planner.given import estimate_one
from rightfit.planner.plan import plan
from rightfit.search.answer import Option, Plan
from rightfit.workload import Workload

PAGES: dict[Lang, str] = {"en": "docs/scenarios.md", "zh": "docs/scenarios.zh.md"}
WORDS: dict[str, dict[Lang, str]] = {
    "intro": {
        "en": "# What the posts recommend, and what we say\n\n"
        "Five widely copied blog posts tell how to choose a cloud server for machine learning. Here is each of their recommendations, in their words, with the servers\n"
        "that they name tried on the job that it is about, and our own answer for the same wish. Where a post leaves something open (how many samples, how long a sequence),\n"
        "the wish says what was taken. Prices are those of the bundled catalog. Rules of thumb have [a page of their own](rules-of-thumb.md).\n\n"
        "This page is written by `scripts/write_scenarios_page.py`; `tests/test_scenarios_of_posts.py` holds it to what is right.\n",
        "zh": "# 选型文章的推荐，与我们的结论\n\n"
        "五篇广为转载的文章教人怎样为机器学习选云服务器。下面逐条列出原文的推荐，把它点名的机型放到对应任务上试算，再给出我们对同一需求的答案。\n"
        "原文没说清的（样本数、序列长度等），以“需求”一行为准。价格取自内置价格库。经验法则[另有一页](rules-of-thumb.md)。\n\n"
        "本页由 `scripts/write_scenarios_page.py` 生成，`tests/test_scenarios_of_posts.py` 保证其正确。\n",
    },
    "glance": {
        "en": "## At a glance\n\nOf {total} recommendations {named} name servers, {picks} in all: {refused} do not do the job, {dearer} do it at over 1.1 times our price, {right} are as cheap as ours or nearly so.\n",
        "zh": "## 概览\n\n{total} 条推荐中有 {named} 条点名了机型，共 {picks} 处：{refused} 处做不了该任务，{dearer} 处能做但比我们的方案贵一成以上，{right} 处与我们的方案价格相当。\n",
    },
    "post": {"en": "## Post {number}: {title}", "zh": "## 文章 {number}：{title}"},
    "says": {"en": "The post", "zh": "原文"},
    "wish": {"en": "The wish", "zh": "需求"},
    "pick": {"en": "Its server", "zh": "原文机型"},
    "ours": {"en": "Our answer", "zh": "我们的方案"},
    "claim": {"en": "Name or claim", "zh": "名称或说法"},
    "rule": {"en": "Rule of thumb", "zh": "经验法则"},
    "refused": {"en": "does not do it", "zh": "做不了"},
    "does": {"en": "{price} in {time}, {factor} times ours", "zh": "{price}，耗时 {time}，是我们方案的 {factor} 倍"},
    "month": {"en": "{price} a month, {factor} times ours", "zh": "每月 {price}，是我们方案的 {factor} 倍"},
}


def word(key: str, lang: Lang, **fields: Any) -> str:
    """A text of this page."""
    return WORDS[key][lang].format(**fields)


def price_of(option: Option) -> float:
    """What is compared: the month of a service, the total of anything else."""
    return float(getattr(option.cost, "monthly_usd", None) or option.cost.total_usd)


class Trial:
    """One scenario with its plan and its picks, evaluated once for both languages."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.scenario = scenario
        self.ours = plan(Workload(**scenario["want"]))
        nodes = scenario.get("pick_nodes", 1)
        self.picks = {pick: estimate_one(Workload(**scenario["want"]), on=pick, nodes=nodes) for pick in scenario.get("pick", ())}

    def verdict(self, pick: str) -> str:
        """refused, dearer or right."""
        theirs, ours = self.picks[pick].best, self.ours.best
        assert ours is not None
        if theirs is None:
            return "refused"
        return "right" if price_of(theirs) <= 1.1 * price_of(ours) else "dearer"

    def lines(self, lang: Lang) -> list[str]:
        """The section of this scenario."""
        scenario, text = self.scenario, plan_text(self.ours, lang)
        assert text.best is not None
        colon = ": " if lang == "en" else "："
        wish = " ".join(f"{name}={value}" for name, value in scenario["want"].items())
        found = [f"\n### {scenario['id']}\n", f"- {word('says', lang)}{colon}{scenario['says']}", f"- {word('wish', lang)}{colon}`{wish}`"]
        found += [f"- {word('pick', lang)} `{pick}`{colon}{self.pick_text(pick, theirs, lang)}" for pick, theirs in self.picks.items()]
        found.append(f"- {word('ours', lang)}{colon}{sentences([text.best.headline, text.best.outcome], lang)}")
        for query in scenario.get("claims", {}):
            [result] = check([query], catalog=open_catalog())
            said = result.explanation_en if lang == "en" else result.explanation_zh
            found.append(f"- {word('claim', lang)} `{query}`{colon}{said}")
        if scenario.get("rules"):
            judged = {result.rule.id: result for result in check_rules(self.ours, with_setups=True)}
            found += [
                f"- {word('rule', lang)} [{name}](rules-of-thumb.md#{name}){colon}{judged[name].text(lang)}" for name in scenario["rules"]
            ]
        return found

    def pick_text(self, pick: str, theirs: Plan, lang: Lang) -> str:
        """What the post's own server does."""
        ours = self.ours.best
        assert ours is not None
        if theirs.best is None:
            return word("refused", lang) + (". " if lang == "en" else "。") + plan_text(theirs, lang).headline
        price, factor = q.money_text(price_of(theirs.best)), q.plain(price_of(theirs.best) / price_of(ours), 2)
        if "total_time_s" not in theirs.best.estimate:
            return word("month", lang, price=price, factor=factor) + ("." if lang == "en" else "。")
        time = q.duration_text(theirs.best.estimate["total_time_s"].mid, lang)
        return word("does", lang, price=price, time=time, factor=factor) + ("." if lang == "en" else "。")


def page(trials: list[Trial], lang: Lang) -> str:
    """The whole page."""
    verdicts = [trial.verdict(pick) for trial in trials for pick in trial.picks]
    counts = {name: verdicts.count(name) for name in ("refused", "dearer", "right")}
    named = sum(bool(trial.picks) for trial in trials)
    parts = [WORDS["intro"][lang], word("glance", lang, total=len(trials), named=named, picks=len(verdicts), **counts)]
    for post in sorted({trial.scenario["post"] for trial in trials}):
        parts.append(word("post", lang, number=post + 1, title=post_title(post, lang)))
        parts += [line for trial in trials if trial.scenario["post"] == post for line in trial.lines(lang)]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    trials = [Trial(scenario) for scenario in tomllib.loads((ROOT / "tests/data/scenarios.toml").read_text("utf-8"))["scenario"]]
    texts = {ROOT / path: page(trials, lang) for lang, path in PAGES.items()}
    assert set(PAGES) == set(LANGS)
    behind = [str(path.relative_to(ROOT)) for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    if options.check and behind:
        raise SystemExit("behind the program, run scripts/docs: " + ", ".join(behind))
    for path, text in texts.items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
