"""The rules of thumb of five blog posts, each held against our own figures: holds, fails or
misleading, and why.

The rules are data (data/rules.toml). `check_rules` judges all that speak about the workload at
hand; nothing is computed here beyond comparing a rule's claim with the figures of an option that
search has evaluated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from rightfit.errors import InputError, UnknownNameError
from rightfit.explain.messages import say, topic
from rightfit.explain.rule_measures import REASONS, Measures, entry_problems, leanest_text, rule_fields
from rightfit.explain.trials import SetupOutcome, outcomes_text
from rightfit.messages import Lang
from rightfit.records import dataclass

Verdict = Literal["holds", "fails", "misleading", "unknown"]

_MUCH_LESS = 2 / 3
_STALL_SHARE = 0.2
_WAITING_SHARE = 0.25
_UNNOTICED_SHARE = 0.05
_SAME_NETWORK = 0.3


@dataclass(frozen=True, slots=True)
class RuleOfThumb:
    """One rule of thumb: what it says, who says it, and how it is judged (see data/rules.toml)."""

    id: str
    post: int
    kind: str
    figure: str
    unit: str
    statement: Mapping[Lang, str]
    reasons: Mapping[str, Mapping[Lang, str]]
    value: float = math.nan
    base: str = ""
    factor: float = 1.0
    low: float = math.nan
    high: float = math.nan
    round_up: bool = False
    verdict: Verdict = "unknown"
    applies: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    setup: Mapping[str, str] = dataclasses.field(default_factory=dict)
    servers: tuple[str, ...] = ()
    smaller: str = ""
    example: str = ""
    asked_only: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """A rule judged for one workload. `claim` is what the rule asks for, `figure` our own figure,
    both in `unit`'s base unit."""

    rule: RuleOfThumb
    verdict: Verdict
    claim: float
    figure: float
    measures: Measures | None = None
    outcomes: tuple[SetupOutcome, ...] = ()

    def statement(self, lang: Lang) -> str:
        """What the rule says."""
        return self.rule.statement[lang]

    def reason(self, lang: Lang, *, currency: str = "usd") -> str:
        """Why the verdict, with our figure."""
        if self.verdict == "unknown":
            return say("rule_words.unknown", lang)
        fields = rule_fields(self.measures, lang, claim=self.claim, figure=self.figure, unit=self.rule.unit, currency=currency)
        if self.rule.figure == "vram_needed_bytes" and self.measures is not None:
            fields["figure"] = leanest_text(fields["figure"], self.measures, lang)
        return self.rule.reasons[self.verdict][lang].format(**fields, outcomes=outcomes_text(self.outcomes, lang))

    def text(self, lang: Lang, *, currency: str = "usd") -> str:
        """Statement, verdict and reason in one line."""
        return rule_line(self.statement(lang), self.rule.post, self.verdict, self.reason(lang, currency=currency), lang)

    def to_dict(self, lang: Lang, *, currency: str = "usd") -> dict[str, Any]:
        """For JSON: id, post, verdict, claim, figure, unit, statement, reason."""
        return {
            "id": self.rule.id,
            "post": self.rule.post,
            "verdict": self.verdict,
            "claim": self.claim,
            "figure": self.figure,
            "unit": self.rule.unit,
            "statement": self.statement(lang),
            "reason": self.reason(lang, currency=currency),
        }


def rule_line(statement: str, post: int, verdict: Verdict, reason: str, lang: Lang) -> str:
    """Statement, verdict and reason in one line; a `post` below zero is no blog post: the asker's
    own words."""
    told = say(f"rule_words.verdict_{verdict}", lang)
    if post < 0:
        return say("rule_words.own_line", lang, statement=statement, verdict=told, reason=reason)
    return say("rule_words.line", lang, statement=statement, post=post + 1, verdict=told, reason=reason)


def _table() -> Mapping[str, Any]:
    return topic("rules")


def rule_names() -> tuple[str, ...]:
    """The id of every rule, in the order of the table."""
    return tuple(name for name in _table() if name not in ("posts", "examples"))


@cache
def all_rules() -> Mapping[str, RuleOfThumb]:
    """Every rule by id, in the order of the table; InputError where an entry is not whole."""
    return {name: _rule(name) for name in rule_names()}


def rule_problems(name: str) -> list[str]:
    """What the entry of a rule lacks or has too much, one line each."""
    known = {field.name for field in dataclasses.fields(RuleOfThumb)} - {"id", "reasons"} | set(REASONS)
    return entry_problems(name, _table()[name], allowed=known, kinds=(*_JUDGES, "setup"), table=_table())


@cache
def _rule(name: str) -> RuleOfThumb:
    if problems := rule_problems(name):
        raise InputError(problems[0])
    entry = _table()[name]
    reasons = {verdict: entry[verdict] for verdict in REASONS}
    plain = {key: value for key, value in entry.items() if key not in reasons}
    lists = {key: tuple(plain.get(key, ())) for key in ("servers", "aliases")}
    return RuleOfThumb(id=name, reasons=reasons, **{**plain, **lists})


def post_title(post: int, lang: Lang) -> str:
    """What the blog post is about."""
    title: str = _table()["posts"][str(post)][lang]
    return title


def example_of(rule: RuleOfThumb) -> Mapping[str, Any]:
    """The workload that a rule is tried on when nothing else is asked for: its own set-up, the
    example it names, or the first."""
    examples: Mapping[str, Mapping[str, Any]] = _table()["examples"]
    return rule.setup or examples[rule.example or next(iter(examples))]


def rule_by_id(name: str) -> RuleOfThumb:
    """A rule by its id; UnknownNameError with the nearest ids otherwise."""
    if name not in rule_names():
        import difflib

        raise UnknownNameError("rule", name, nearest=difflib.get_close_matches(name, rule_names(), n=3, cutoff=0.4))
    return _rule(name)


def applies(rule: RuleOfThumb, measure: Measures) -> bool:
    """Whether the rule speaks about this workload."""
    return all(_condition(key, wanted, measure) for key, wanted in rule.applies.items())


def _condition(key: str, condition: Any, measure: Measures) -> bool:
    if key == "models":
        name = measure.model.casefold()
        return any(word in name for word in condition)
    if key in {"methods", "tasks"}:
        return getattr(measure, key[:-1]) in condition
    bound, _, name = key.partition("_")
    value = float(getattr(measure, {"gpus": "num_gpus"}.get(name, name)))
    return value >= condition if bound == "min" else value < condition or (name == "gpus" and value == condition)


def judge(rule: RuleOfThumb, measure: Measures, *, outcomes: Sequence[SetupOutcome] = ()) -> RuleCheck:
    """Hold a rule against our figures."""
    figure = float(getattr(measure, rule.figure))
    claim = _claim(rule, measure)
    verdict = _JUDGES[rule.kind](rule, claim, figure, measure) if rule.kind != "setup" else judge_setup(outcomes, smaller=rule.smaller)
    return RuleCheck(rule=rule, verdict=verdict, claim=claim, figure=figure, measures=measure, outcomes=tuple(outcomes))


def check_measures(measure: Measures, *, outcomes: Callable[[RuleOfThumb], Sequence[SetupOutcome]] | None = None) -> list[RuleCheck]:
    """All rules that speak about this workload, judged. `outcomes` evaluates the servers of a
    `setup` rule; without it those are left out."""
    speaking = [rule for rule in all_rules().values() if not rule.asked_only and applies(rule, measure)]
    wanted = [rule for rule in speaking if outcomes or rule.kind != "setup"]
    return [judge(rule, measure, outcomes=outcomes(rule) if outcomes and rule.kind == "setup" else ()) for rule in wanted]


def _claim(rule: RuleOfThumb, measure: Measures) -> float:
    claim = rule.value if not rule.base else rule.factor * float(getattr(measure, rule.base))
    return max(1.0, math.ceil(claim)) if rule.round_up and math.isfinite(claim) else claim


def _need(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(claim) or not math.isfinite(figure):
        return "unknown"
    if figure > claim:
        return "fails"
    least = claim if math.isnan(rule.low) else rule.low
    return "misleading" if figure < _MUCH_LESS * least else "holds"


def _enough(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    return "unknown" if not math.isfinite(figure) else "holds" if figure <= claim else "fails"


def _host(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(figure) or not math.isfinite(measure.stall_share):
        return "unknown"
    if measure.stall_share > _STALL_SHARE:
        return "fails" if figure >= claim else "holds"
    needed = measure.loader_cores / (measure.num_gpus if rule.figure == "vcpus_per_gpu" else 1.0)
    has_less = figure < claim or needed < _MUCH_LESS * claim  # that a server has the cores is no need of them
    return "misleading" if has_less else "holds"


def _utilisation(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(figure) or not math.isfinite(measure.mfu):
        return "unknown"
    return "fails" if figure < claim else "holds" if measure.mfu >= claim else "misleading"


def _gpus(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(claim):
        return "unknown"
    high = rule.high if not math.isnan(rule.high) else claim
    return "misleading" if figure < claim else "fails" if figure > high else "holds"


def _saving(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(figure):
        return "unknown"
    return "fails" if figure < claim else "misleading" if figure > rule.high else "holds"


def _network(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(figure) or not math.isfinite(measure.communication_share):
        return "unknown"
    waits = measure.communication_share > _WAITING_SHARE
    if abs(figure / claim - 1.0) < _SAME_NETWORK:  # tried with the network that the rule asks for
        return "fails" if waits else "misleading" if measure.communication_share < _UNNOTICED_SHARE else "holds"
    if figure >= claim:
        return "fails" if waits else "holds"
    return "holds" if waits else "misleading"


def _interconnect(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(figure):
        return "unknown"
    if measure.has_nvlink:
        return "fails" if figure > claim else "holds"
    return "holds" if figure > claim else "misleading"


def _term(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    if not math.isfinite(figure) or not measure.purchase:
        return "unknown"
    committed = measure.purchase.startswith(("subscription", "reserved", "savings"))
    return "holds" if committed == (figure > claim) else "fails"


def _fixed(rule: RuleOfThumb, claim: float, figure: float, measure: Measures) -> Verdict:
    return rule.verdict


def judge_setup(outcomes: Sequence[SetupOutcome], *, smaller: str = "") -> Verdict:
    """A named model on named servers. Fits without special help on all -> holds (misleading where
    `smaller` holds it too); with help or on some only -> misleading."""
    known = [outcome for outcome in outcomes if outcome.fits is not None]
    if not known:
        return "unknown"
    if not any(outcome.fits for outcome in known):
        return "fails"
    plain = all(outcome.fits and not outcome.helps for outcome in known)
    less_does = any(outcome.fits and outcome.server == smaller for outcome in known)
    return "holds" if plain and not less_does else "misleading"


_JUDGES: Mapping[str, Callable[[RuleOfThumb, float, float, Measures], Verdict]] = {
    "need": _need,
    "enough": _enough,
    "host": _host,
    "at_most": _enough,
    "utilisation": _utilisation,
    "gpus": _gpus,
    "saving": _saving,
    "network": _network,
    "interconnect": _interconnect,
    "term": _term,
    "fixed": _fixed,
}
