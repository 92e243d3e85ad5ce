"""The rules of thumb held against a plan: gathers our figures from search and the catalog, and
judges every rule that speaks about the workload."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.catalog.offers import PURCHASE_CODES, OfferFilter, OfferTable
from rightfit.errors import AmbiguousNameError
from rightfit.explain import quantities as q
from rightfit.explain.rule_match import match_rule, sense
from rightfit.explain.rule_measures import Measures, measures
from rightfit.explain.rules import RuleCheck, RuleOfThumb, Verdict, all_rules, check_measures, example_of, rule_line
from rightfit.explain.trials import SetupOutcome, best_of, need_on_one_card, outcome_of, saving_fractions
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.search.answer import Option, Plan
from rightfit.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.catalog.verdicts import CheckResult


FAST_LINKS = frozenset({"nvlink", "nvswitch", "xgmi", "ici", "neuronlink", "roce"})


def check_rules(plan: Plan, *, option: Option | None = None, catalog: Catalog | None = None, with_setups: bool = False) -> list[RuleCheck]:
    """Every rule of thumb that speaks about this plan's workload, judged by the figures of its best
    option (or of `option`).

    `with_setups` also evaluates the rules that name a model on named servers (a search each). An
    empty list where nothing is feasible.
    """
    chosen = option or plan.best
    if chosen is None:
        return []
    outcomes = (lambda rule: setup_outcomes(rule, catalog=catalog)) if with_setups else None
    return check_measures(measures_of(chosen, plan.workload, catalog=catalog), outcomes=outcomes)


def setup_outcomes(rule: RuleOfThumb, *, catalog: Catalog | None = None) -> tuple[SetupOutcome, ...]:
    """The servers that a rule names, each evaluated with the rule's own workload."""
    servers = (*rule.servers, rule.smaller) if rule.smaller else rule.servers
    return tuple(outcome_of(rule.setup, server, catalog=catalog) for server in servers)


def _parameters(model: str) -> float:
    """Parameters of a model; not known of a name that several have, of which the plan took the
    usual one by its own table."""
    from rightfit import facts

    try:
        return float(getattr(facts.model(model), "params_total", math.nan))
    except AmbiguousNameError:
        return math.nan


def measures_of(option: Option, workload: Any, *, catalog: Catalog | None = None) -> Measures:
    """Our own figures for one option: of the model from facts, of prices and links from the
    catalog, of the bare need from search."""
    from rightfit.search.offers import open_priced

    market = catalog or open_priced()
    row = market.server_rows.get((option.provider, option.instance_type))
    return measures(
        option,
        workload,
        params=_parameters(workload.model),
        savings=saving_fractions(market, provider=option.provider, instance_type=option.instance_type, region=option.region),
        has_nvlink=row is not None and market.servers().gpu_interconnect[row] in FAST_LINKS,
        need_bytes=need_on_one_card(workload, catalog=market),
    )


# ---- What the five posts say about cost, as figures of the whole market with a verdict.

_DATA = Path(__file__).with_name("data")

_MOST = 0.5  # a statement about the market holds where it holds for at least half of it
_WORTH_SAYING = 0.1  # a choice that costs a tenth more than the least is a bad one
_MODEL = "llama-3-8b"
_CARD, _NUM_CARDS = "A100-SXM-80GB", 8
_COMMITMENTS = ("reserved-1y", "savings-plan-1y", "subscription-1m", "subscription-1y")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a post, our figure for the market, and whether it holds."""

    id: str
    verdict: Verdict
    figures: Mapping[str, float]
    texts: Mapping[str, str]

    @property
    def entry(self) -> Mapping[str, Any]:
        """Its words."""
        entry: Mapping[str, Any] = statements()[self.id]
        return entry

    def reason(self, lang: Lang) -> str:
        """Our figures in one sentence."""
        shown = {name: _shown(name, value, lang) for name, value in self.figures.items()}
        text: str = self.entry["told"][lang].format(**{**shown, **self.texts})
        return text


def _shown(name: str, value: float, lang: Lang) -> str:
    if name in ("server", "least"):
        return q.money_text(value)
    if name in ("count", "over") or (name == "hours" and value > 1):
        return q.plain(value)
    return q.percent_text(value)


@cache
def statements() -> Mapping[str, Any]:
    """Every statement by id."""
    return tomllib.loads((_DATA / "statements.toml").read_text(encoding="utf-8"))


def judge_statement(name: str, catalog: Catalog) -> Statement:
    """A statement held against the market."""
    verdict, figures, texts = _JUDGES[name](catalog)
    return Statement(name, verdict, figures, texts)


_Judged = tuple[Verdict, dict[str, float], dict[str, str]]


def price_ratios(table: OfferTable, modes: tuple[str, ...]) -> Any:
    """Price of these modes over the on-demand price of the same server and region, quoted sound
    prices only: the least of the modes."""
    sound = (
        ~table.is_quarantined
        & ~table.is_estimate
        & np.isfinite(table.price_usd_per_h)
        & (table.servers.num_accelerators >= 1)[table.server_index]
    )
    place = table.server_index * len(table.regions) + table.region_index
    least: list[dict[int, float]] = []
    for wanted in (("on-demand",), modes):
        rows = np.flatnonzero(sound & np.isin(table.purchase_index, [PURCHASE_CODES[mode] for mode in wanted]))
        best: dict[int, float] = {}
        for key, price in zip(place[rows].tolist(), table.price_usd_per_h[rows].tolist(), strict=True):
            best[key] = min(price, best.get(key, np.inf))
        least.append(best)
    return np.array([price / least[0][key] for key, price in least[1].items() if key in least[0]])


def _spot(catalog: Catalog) -> _Judged:
    saved = 1.0 - price_ratios(catalog.all_offers(has_accelerator=True), ("spot",))
    share = float(np.mean((saved >= 0.5) & (saved <= 0.9)))
    low, mid, high = np.percentile(saved, (25, 50, 75))
    verdict: Verdict = "holds" if share >= _MOST and mid >= _MOST else "misleading" if np.any(saved >= _MOST) else "fails"
    return verdict, {"count": len(saved), "share": share, "figure": float(mid), "low": float(low), "high": float(high)}, {}


def _subscription(catalog: Catalog) -> _Judged:
    ratio = price_ratios(catalog.all_offers(has_accelerator=True), _COMMITMENTS)
    low, mid, high = np.percentile(ratio, (25, 50, 75)) * HOURS_PER_MONTH
    share = float(np.mean(ratio < 1))
    figures = {
        "count": len(ratio),
        "figure": float(np.median(ratio)),
        "hours": float(mid),
        "low": float(low),
        "high": float(high),
        "share": share,
    }
    texts = {name: q.plain(figures.pop(name)) for name in ("low", "high")}
    return ("holds" if share >= _MOST else "fails"), figures, texts


def _serverless(catalog: Catalog) -> _Judged:
    from rightfit import facts

    row = next(row for row in facts.table("serverless") if row["accelerator_usd_per_s"] and row["provider"] == "gcp")
    second = (
        float(row["accelerator_usd_per_s"])
        + float(row["vcpu_usd_per_s"]) * float(row["least_vcpus"])
        + float(row["memory_usd_per_gib_s"]) * float(row["least_memory_gib"])
    )
    wanted = OfferFilter(providers=(row["provider"],), gpus=(row["accelerator"],), purchases=("on-demand",))
    server = float(np.nanmin(catalog.offers(wanted).price_usd_per_h))
    awake = server / (second * 3600.0)
    figures = {"server": server, "figure": awake, "hours": awake * HOURS_PER_MONTH, "over": 1.0 / awake}
    return ("holds" if awake < 1 else "misleading"), figures, {"product": row["product"], "accelerator": row["accelerator"]}


def _tflops(catalog: Catalog) -> _Judged:
    from rightfit.planner.cards import value_rows

    rows = value_rows(catalog, OfferFilter(purchases=("on-demand",)), sort="usd_per_pflop", model=_MODEL)
    known = [(row["usd_per_pflop"], row["usd_per_mtok"]) for row in rows if row["usd_per_mtok"]]
    first, second = np.array(known).T
    above = np.triu(np.ones((len(known), len(known)), dtype=np.bool_), 1)
    same = np.sign(first[:, None] - first) * np.sign(second[:, None] - second) > 0
    share = float(same[above].mean())
    dearer = float(second[np.argmin(first)] / second.min())
    return (
        ("holds" if dearer < 1.0 + _WORTH_SAYING else "misleading"),
        {"count": len(known), "share": share, "figure": dearer},
        {"model": _MODEL},
    )


def _own(catalog: Catalog) -> _Judged:
    from rightfit.estimation.ownership import own_server

    offers = catalog.offers(OfferFilter(gpus=(_CARD,), purchases=("on-demand",)))
    prices = offers.price_usd_per_h[(offers.servers.num_accelerators == _NUM_CARDS)[offers.server_index] & ~offers.is_estimate]
    middle, least = float(np.median(prices)), float(prices.min())
    own = own_server(_CARD, _NUM_CARDS)
    figure, low, high = own.break_even(middle)
    figures = {
        "count": _NUM_CARDS,
        "server": middle,
        "figure": figure,
        "low": low,
        "high": high,
        "least": least,
        "hours": own.break_even(least)[0],
    }
    return ("holds" if figure < 1 else "fails"), figures, {"accelerator": _CARD}


_JUDGES: Mapping[str, Callable[[Any], _Judged]] = {
    "market_spot_saves_50_to_90": _spot,
    "market_subscription_for_long_use": _subscription,
    "market_serverless_for_light_inference": _serverless,
    "market_price_per_tflops": _tflops,
    "market_own_for_steady_training": _own,
}


# ---- `rightfit check RULE`: a rule of thumb asked for by its id or in its own words, tried on a
# workload that it speaks about.

_SHORTEST = 6
_CLAIMS = {"holds": "right", "fails": "wrong", "misleading": "wrong", "unknown": "unknown"}


def rule_lookup(query: str, *, catalog: Catalog | None = None) -> CheckResult | None:
    """The answer of `rightfit check` where `query` says something: a rule of thumb by its id or in
    any words, or a claim about a card, a server, a cloud or a model; None where it says nothing
    known, so that other looks go on.

    What is said is judged on a job: that takes a search.
    """
    from rightfit.explain.claims import claim_lookup
    from rightfit.search.offers import open_priced

    market = catalog or open_priced()
    if (meant := term_lookup(query)) is not None:
        return meant
    rule = repeated_rule(query)
    if rule is None and (claimed := claim_lookup(query, market)) is not None:
        return claimed
    rule = rule or match_rule(query)
    if rule is None:
        return None
    return _statement_answer(query, rule, market) if isinstance(rule, str) else _answer(query, rule, market)


# ---- "What is NVLink": words of the field, explained with figures of our own tables.

_ASKED = re.compile(
    r"^(?:what(?:'s| is| are| does)|什么是|啥是|解释一下|explain|define)\s*(?:an?\s+|the\s+)?|\s*(?:是什么(?:意思)?|是啥|什么意思|的含义|mean)?\s*[?？]?$",
    re.IGNORECASE,
)
_CARD_FIGURES: Mapping[str, tuple[str, float, str]] = {
    "memory": ("memory_bytes", 2.0**30, "GiB"),
    "bandwidth": ("memory_bandwidth", 1e9, "GB/s"),
    "nvlink": ("nvlink_bandwidth", 1e9, "GB/s"),
    **{name: (f"{name}_flops", 1e12, "TFLOPS") for name in ("fp16", "bf16", "fp8")},
    "int8": ("int8_ops", 1e12, "TOPS"),
}


@cache
def glossary() -> Mapping[str, Any]:
    """Every term by id: its words, what it means in each language, and a command to ask."""
    return tomllib.loads((_DATA / "glossary.toml").read_text(encoding="utf-8"))


def term_text(name: str, lang: Lang) -> str:
    """What a term means, with the figures of cards filled in from the table of cards."""
    from rightfit import facts

    def figure(found: re.Match[str]) -> str:
        column, unit, shown = _CARD_FIGURES[found["figure"]]
        return f"{getattr(facts.accelerators()[found['card']], column) / unit:,.4g} {shown}"

    told = re.sub(r"\{(?P<card>[\w-]+)\.(?P<figure>\w+)\}", figure, glossary()[name][lang])
    return f"{told} `{glossary()[name]['ask']}`"


def term_lookup(query: str) -> CheckResult | None:
    """The answer to a word of the field, asked for alone or as "what is ..."."""
    from rightfit.catalog.verdicts import CheckResult

    asked = {_folded(query), _folded(_ASKED.sub("", query.strip()))}
    name = next((name for name, entry in glossary().items() if asked & set(map(_folded, entry["words"]))), None)
    if name is None:
        return None
    return CheckResult(
        query, "term", True, None, {"id": name, "ask": glossary()[name]["ask"]}, (), term_text(name, "en"), term_text(name, "zh")
    )


_QUESTION = re.compile(
    r"[?？吗么呢]\s*$|^(?:(?:why|does|do|is|are|can|has|will|should)\b|为什么|为何)|是不是|能不能|有没有|够不够", re.IGNORECASE
)


def question_lookup(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a sentence that asks what a word means, or whether something holds of a card, a
    server, a cloud or a model; None for any other, wishes above all."""
    from rightfit.explain.claims import claim_lookup

    if (meant := term_lookup(sentence)) is not None:
        return meant
    return claim_lookup(sentence, catalog) if _QUESTION.search(sentence.strip()) else None


def statements_in(text: str) -> list[str]:
    """What a text states, one each: a name or a claim as it stands; of a pasted paragraph or table
    its lines and sentences, with servers that carry a claim apart ("g5.xlarge (1xT4)"); of a
    sentence with several rules each of them."""
    if not is_pasted(text):
        return _rules_of(text)
    found: list[str] = []
    heading = ""
    for line in _SENTENCE_END.split(text):
        bare = re.sub(r"^[\W_]*(?:\d{1,2}[.、)）]\s*)?|[\s|]+$", "", line.replace("×", "x"))
        claimed = [match.group().strip() for match in _SERVER_CLAIM.finditer(bare)]
        found += claimed
        rest = " ".join(cell.strip() for cell in _SERVER_CLAIM.sub(" ", bare).split("|")).strip()
        if rest.endswith((":", "：")):
            heading = rest  # what stands above a list belongs to each of its items
        elif sense(rest).concepts and len(rest) > _SHORTEST:
            under = find_rule(f"{heading}{rest}") if heading else None
            found += [f"{heading}{rest}"] if under not in (None, find_rule(rest)) else _rules_of(rest[:_LONGEST_STATEMENT])
    return list(dict.fromkeys(found))[:_MOST_STATEMENTS] or [text[:_LONGEST_STATEMENT]]


def is_pasted(text: str) -> bool:
    """Whether a text is a paragraph or a table rather than one statement."""
    return len(text) > _SHORT_TEXT or len([line for line in _SENTENCE_END.split(text) if line.strip()]) > 1


_SENTENCE_END = re.compile(r"[\n。！!；;]+|(?<=[a-z])\.\s")
_SHORT_TEXT = 120
#: The longest text that is read [characters], and the most of its statements that are judged: each
#: may take a search.
LONGEST_TEXT = 12_000
_MOST_STATEMENTS = 120
_LONGEST_STATEMENT = 390
#: A server's or a series' name with a claim about its cards behind it, in brackets or not.
_SERVER_CLAIM = re.compile(
    r"(?<![\w.])(?:[A-Za-z][\w.\-]*\d[\w.\-]*|[A-Za-z]\w*[.\-_][\w.\-]+)(?:\s*instances?)?"
    r"(?:\s*[(（](?:\d+\s*x\s*)?[A-Z]\w*\d\w*(?:\s*/\s*[A-Z]\w*\d\w*)*[)）]|\s+\d+\s*x\s*[A-Z]+\d\w*)",
    re.ASCII,
)


def _rules_of(text: str) -> list[str]:
    """A sentence, or its parts where it states several rules that are known one by one."""
    if find_rule(text) is not None:
        return [text]
    parts = [part.strip() for part in re.split(r"[,，、]|\band\b|且|并且", text) if part.strip()]
    return parts if len(parts) > 1 and all(find_rule(part) is not None for part in parts) else [text]


def find_rule(text: str) -> RuleOfThumb | str | None:
    """The rule that the text names by its id, repeats, or states in other words, or the id of the
    statement about the market."""
    return repeated_rule(text) or (match_rule(text) if len(_folded(text)) >= _SHORTEST else None)


def repeated_rule(text: str) -> RuleOfThumb | str | None:
    """The rule or statement that has this id or wording, blanks and punctuation aside."""
    wanted = _folded(text)
    if len(wanted) < _SHORTEST:
        return None
    known = {_folded(words): rule for rule in all_rules().values() for words in (rule.id, *rule.aliases, *rule.statement.values())}
    return find_statement(text) or known.get(wanted)


def is_statement(text: str) -> bool:
    """Whether a query says something (a comparison, a whole clause) and is no name: what is not
    known of it is a rule, not a thing."""
    return bool(re.search(r">=|<=|≥|≤|[<>＞＜]|\d\s?%|至少|必须|需要|at least|needs?\b", text)) or len(text.split()) > 5


def find_statement(text: str) -> str | None:
    """The statement about the whole market with this id or alias."""

    wanted = _folded(text)
    return next((name for name, entry in statements().items() if wanted in map(_folded, (name, *entry["aliases"]))), None)


def _statement_answer(query: str, name: str, catalog: Catalog) -> CheckResult:
    from rightfit.catalog.verdicts import CheckResult

    found = judge_statement(name, catalog)
    facts = {"id": name, "post": found.entry["post"], "verdict": found.verdict, **found.figures, **found.texts}
    words: dict[Lang, str] = {
        lang: rule_line(found.entry[lang], found.entry["post"], found.verdict, found.reason(lang), lang) for lang in ("en", "zh")
    }
    return CheckResult(query, "rule", True, _CLAIMS[found.verdict], facts, () if query == name else (name,), words["en"], words["zh"])


#: Rules about a link are tried on a server that has just what they ask for: how many of it.
_ON_ITS_SERVER = {"network": 2, "interconnect": 1}


def judge_example(rule: RuleOfThumb, *, method: str = "", catalog: Catalog | None = None) -> RuleCheck | None:
    """The rule judged on its example, or on the same job by another method; None where the example
    has no plan or the rule does not speak about it."""
    from rightfit.explain.rules import applies, judge
    from rightfit.planner.given import estimate_one
    from rightfit.workload import Workload

    workload = Workload(**{**example_of(rule), **({"method": method} if method else {})})
    if rule.kind in _ON_ITS_SERVER and rule.servers:
        tried = estimate_one(workload, on=rule.servers[0], nodes=_ON_ITS_SERVER[rule.kind], catalog=catalog)
        best = tried.best or tried.unfit
    else:
        best = best_of(workload, catalog)
    if best is None:
        return None
    outcomes = setup_outcomes(rule, catalog=catalog) if rule.kind == "setup" else ()
    measure = measures_of(best, workload, catalog=catalog)
    return judge(rule, measure, outcomes=outcomes) if applies(rule, measure) else None


#: Ways to fine-tune that a rule is tried by where it names none: what a job needs differs tenfold.
_METHODS = ("full", "lora", "qlora")


def _judged(rule: RuleOfThumb, catalog: Catalog | None) -> list[RuleCheck]:
    """The rule on its example; a need of memory that names no method, by each of them."""
    is_open = rule.figure == "vram_needed_bytes" and rule.kind in ("need", "enough") and "methods" not in rule.applies
    example = example_of(rule)
    if not is_open or example["task"] != "finetune" or {"lora", "qlora"} & sense(rule.statement["en"]).concepts:
        return [found] if (found := judge_example(rule, catalog=catalog)) else []
    tried = [judge_example(rule, method=method, catalog=catalog) for method in _METHODS]
    return [found for found in tried if found]


def _answer(query: str, rule: RuleOfThumb, catalog: Catalog | None) -> CheckResult:
    from rightfit.catalog.verdicts import CheckResult

    found = _judged(rule, catalog)
    verdicts = {one.verdict for one in found}
    verdict: Verdict = "unknown" if not found else found[0].verdict if len(verdicts) == 1 else "misleading"
    facts: dict[str, Any] = {"id": rule.id, "post": rule.post, "verdict": verdict, "example": dict(example_of(rule)), "unit": rule.unit}
    if found:
        facts |= {"claim": found[0].claim, "figure": found[0].figure}
    texts = {lang: _explanation(rule, found, verdict, lang) for lang in ("en", "zh")}
    return CheckResult(query, "rule", True, _CLAIMS[verdict], facts, () if query == rule.id else (rule.id,), texts["en"], texts["zh"])


def _explanation(rule: RuleOfThumb, found: Sequence[RuleCheck], verdict: Verdict, lang: Lang) -> str:
    from rightfit.explain.messages import say

    if not found:
        return say("rule_words.not_tried", lang, statement=rule.statement[lang])
    measure, example = found[0].measures, example_of(rule)
    told = [_by_method(one, lang) for one in found] if len(found) > 1 else [found[0].reason(lang)]
    line = rule_line(rule.statement[lang], rule.post, verdict, ("；" if lang == "zh" else "; ").join(told), lang)
    if len(found) > 1 or measure is None:
        return say("rule_words.tried_by_methods", lang, told=line, model=example["model"], data=example["data"])
    method = q.method_text("pretrain" if example["task"] == "train" else str(example.get("method", "full")), lang)
    return say("rule_words.tried_on", lang, told=line, model=example["model"], method=method, data=example["data"])


def _by_method(found: RuleCheck, lang: Lang) -> str:
    from rightfit.explain.messages import say

    method = q.method_text(found.measures.method if found.measures else "full", lang)
    return say(
        "rule_words.by_method", lang, method=method, verdict=say(f"rule_words.verdict_{found.verdict}", lang), reason=found.reason(lang)
    )


def _folded(text: str) -> str:
    """Without case, blanks and punctuation that people write in different ways."""
    for written, meant in (("≥", ">="), ("×", "x"), ("–", "-"), ("＞", ">"), ("＜", "<"), ("gib", "gb")):
        text = text.casefold().replace(written, meant)
    return re.sub(r"[\s_,，。、;；:：()（）%％~-]+", "", text)
