"""`rightfit check RULE`: a rule of thumb asked for by its id or in its own words, tried on a workload that it speaks about."""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.explain.rules import RuleCheck, RuleOfThumb, all_rules, example_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.catalog.check_answers import CheckResult
    from rightfit.explain.messages import Lang

_DATA = Path(__file__).with_name("data")

_LIKENESS = 0.84
_SHORTEST = 6
_CLAIMS = {"holds": "right", "fails": "wrong", "misleading": "wrong", "unknown": "unknown"}


def rule_lookup(query: str, *, catalog: Catalog | None = None) -> CheckResult | None:
    """The answer of `rightfit check` where `query` is a rule of thumb; None where it is none, so that other looks go on.

    The rule is judged on the example that data/rules.toml gives it: that takes a search.
    """
    if (name := find_statement(query)) is not None:
        return _statement_answer(query, name, catalog)
    rule = find_rule(query)
    return None if rule is None else _answer(query, rule, catalog)


def find_rule(text: str) -> RuleOfThumb | None:
    """The rule with this id, alias or statement (small differences of spelling allowed)."""
    wanted = _folded(text)
    if len(wanted) < _SHORTEST:
        return None
    known = {_folded(words): rule for rule in all_rules().values() for words in (rule.id, *rule.aliases, *rule.statement.values())}
    if wanted in known:
        return known[wanted]
    close = difflib.get_close_matches(wanted, known, n=1, cutoff=_LIKENESS)
    if close and _numbers(close[0]) == _numbers(wanted):
        return known[close[0]]
    by_gist = {gist(words): rule for words, rule in known.items()}
    if (said := gist(wanted)) in by_gist:
        return by_gist[said]
    close = difflib.get_close_matches(said, by_gist, n=1, cutoff=_LIKENESS)
    return by_gist[close[0]] if close and _numbers(close[0]) == _numbers(said) else None


def gist(folded: str) -> str:
    """A folded statement in the words that rules share: "GPU memory" and 显存 are vram, 至少 and "at least" are >=."""
    for written, meant in _gist_words():
        folded = folded.replace(written, meant)
    return folded.replace(">=", ">")


@functools.cache
def _gist_words() -> tuple[tuple[str, str], ...]:
    return tuple((written, meant) for written, meant in tomllib.loads((_DATA / "rule_gist.toml").read_text(encoding="utf-8"))["words"])


def is_statement(text: str) -> bool:
    """Whether a query says something (a comparison, a whole clause) and is no name: what is not known of it is a rule, not a thing."""
    return bool(re.search(r">=|<=|≥|≤|[<>＞＜]|\d\s?%|至少|必须|需要|at least|needs?\b", text)) or len(text.split()) > 5


def find_statement(text: str) -> str | None:
    """The statement about the whole market with this id or alias."""
    from rightfit.explain.statements import statements

    wanted = _folded(text)
    return next((name for name, entry in statements().items() if wanted in map(_folded, (name, *entry["aliases"]))), None)


def _statement_answer(query: str, name: str, catalog: Catalog | None) -> CheckResult:
    from rightfit.catalog.check_answers import CheckResult
    from rightfit.explain.messages import say
    from rightfit.explain.statements import judge_statement
    from rightfit.search.priced import open_priced

    found = judge_statement(name, catalog or open_priced())
    facts = {"id": name, "post": found.entry["post"], "verdict": found.verdict, **found.figures, **found.texts}
    words: dict[Lang, str] = {
        lang: say(
            "rule_words.line",
            lang,
            statement=found.entry[lang],
            post=found.entry["post"] + 1,
            verdict=say(f"rule_words.verdict_{found.verdict}", lang),
            reason=found.reason(lang),
        )
        for lang in ("en", "zh")
    }
    return CheckResult(query, "rule", True, _CLAIMS[found.verdict], facts, () if query == name else (name,), words["en"], words["zh"])


def judge_example(rule: RuleOfThumb, *, catalog: Catalog | None = None) -> RuleCheck | None:
    """The rule judged on its example; None where the example has no plan or the rule does not speak about it."""
    from rightfit.explain.checks import measures_of, setup_outcomes
    from rightfit.explain.rules import applies, judge
    from rightfit.planner.plan import plan
    from rightfit.workload import Workload

    workload = Workload(**example_of(rule))
    best = plan(workload, catalog=catalog, top=1).best
    if best is None:
        return None
    outcomes = setup_outcomes(rule, catalog=catalog) if rule.kind == "setup" else ()
    measure = measures_of(best, workload, catalog=catalog)
    return judge(rule, measure, outcomes=outcomes) if applies(rule, measure) else None


def _answer(query: str, rule: RuleOfThumb, catalog: Catalog | None) -> CheckResult:
    from rightfit.catalog.check_answers import CheckResult

    found = judge_example(rule, catalog=catalog)
    verdict = found.verdict if found else "unknown"
    facts: dict[str, Any] = {"id": rule.id, "post": rule.post, "verdict": verdict, "example": dict(example_of(rule)), "unit": rule.unit}
    if found:
        facts |= {"claim": found.claim, "figure": found.figure}
    texts = {lang: _explanation(rule, found, lang) for lang in ("en", "zh")}
    return CheckResult(query, "rule", True, _CLAIMS[verdict], facts, () if query == rule.id else (rule.id,), texts["en"], texts["zh"])


def _explanation(rule: RuleOfThumb, check: RuleCheck | None, lang: Lang) -> str:
    from rightfit.explain import quantities as q
    from rightfit.explain.messages import say

    example = example_of(rule)
    method = q.method_text("pretrain" if example["task"] == "train" else str(example.get("method", "full")), lang)
    fields = {"model": example["model"], "method": method, "data": example["data"]}
    told = check.text(lang) if check else say("rule_words.not_tried", lang, statement=rule.statement[lang])
    return say("rule_words.tried_on", lang, told=told, **fields)


def _folded(text: str) -> str:
    """Without case, blanks and punctuation that people write in different ways."""
    for written, meant in (("≥", ">="), ("×", "x"), ("–", "-"), ("＞", ">"), ("＜", "<"), ("gib", "gb")):
        text = text.casefold().replace(written, meant)
    return re.sub(r"[\s_,，。、;；:：()（）%％~-]+", "", text)


def _numbers(text: str) -> list[str]:
    """The numbers in a text: a rule with other numbers is another rule."""
    return re.findall(r"\d+(?:\.\d+)?", text)
