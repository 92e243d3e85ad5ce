"""The answer to each question beside a wish, from the plan of the wish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rightfit.explain.beside.cost_answers import COSTS
from rightfit.explain.beside.figure_answers import FIGURES
from rightfit.explain.beside.hardware_answers import HARDWARE
from rightfit.explain.beside.questions import Question, line, words_table
from rightfit.explain.glossary import term_text
from rightfit.explain.rule_trials import measures_of
from rightfit.explain.rules import all_rules, judge
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Plan


_ANSWERS: Mapping[str, Callable[[Question, Plan, Catalog, Lang], str]] = {**HARDWARE, **COSTS, **FIGURES}


def _rule(name: str, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    assert plan.best is not None
    return judge(all_rules()[name], measures_of(plan.best, plan.workload, catalog=catalog)).reason(lang)


def answers(questions: Sequence[Question], plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
    """A line for each question, answered from the plan; none where nothing can be rented."""
    told: dict[str, str] = {}
    for question in questions:
        if plan.best is None and not words_table()["questions"][question.key].get("always"):
            continue
        entry, words = words_table()["questions"][question.key], question.words
        parts = [_ANSWERS[entry["answer"]](question, plan, catalog, lang)] if "answer" in entry else []
        parts += [_rule(entry["rule"], plan, catalog, lang)] if "rule" in entry else []
        parts += [term_text(entry["term"], lang)] if "term" in entry else []
        if answer := ("" if lang == "zh" else " ").join(part for part in parts if part):
            told.setdefault(answer, words)
    end = "。" if lang == "zh" else "."
    return [line(words, answer.rstrip(".。") + ("" if answer.endswith("`") else end), lang) for answer, words in told.items()]
