"""Questions that ask for no plan: what a word means, what a card costs, whether something holds of
a card, a server, a cloud or a model; answered as `check` answers."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain.apple_questions import apple_question
from rightfit.explain.batch_questions import batch_question
from rightfit.explain.beside.questions import terms_told, without_questions
from rightfit.explain.beside.settled import settle
from rightfit.explain.between_cards import between_cards
from rightfit.explain.card_choice import card_choice
from rightfit.explain.card_questions import card_question
from rightfit.explain.claim_words import NAMED_SERVER, cards_of
from rightfit.explain.claims import as_fast_lookup, claim_lookup
from rightfit.explain.cloud_series import cloud_series
from rightfit.explain.data_questions import data_question
from rightfit.explain.decisions import chart_lookup
from rightfit.explain.fit_claims import LOAD
from rightfit.explain.fit_questions import asked_to_fit, feature_question, fit_question, overflowing
from rightfit.explain.glossary import as_nearest, defined_terms, glossary, term_lookup, terms_in, told_terms
from rightfit.explain.market_questions import market_question, single_price, way_to_pay
from rightfit.explain.model_questions import model_question
from rightfit.explain.nearest import asks_something, general_lines, known_answer, nearest_answer
from rightfit.explain.open_wishes import asked_rule, largest_model, moving_price, open_wish, planned_answer
from rightfit.explain.own_figures import own_question
from rightfit.explain.rule_lookup import find_rule, rule_answer, statement_answer
from rightfit.explain.server_questions import able_question, server_question
from rightfit.explain.statement_parts import clauses
from rightfit.explain.sum_questions import sum_question
from rightfit.explain.topic_questions import topic_question
from rightfit.explain.weight_questions import weight_question
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.market.denials import turned
from rightfit.messages import LANGS

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_QUESTION = re.compile(
    r"[?？吗么呢嘛不没]\s*$|^(?:(?:why|does|do|is|are|can|has|will|should)\b|为什么|为何)|是不是|能不能|有没有|够不够|要不要|需不需要|会不会|行不行|可不可以|能否",
    re.IGNORECASE,
)


#: How near a phrasing of our table a question must be to be answered by it before all readers, and
#: where none of them answers.
_ASKED_SO, _VERY, _ALMOST = 0.97, 0.88, 0.7
_AMOUNT_ASKED = re.compile(
    r"多久|多少|几天|几个小时|几张|几块|几台|多长时间|费用|价格|预算|便宜|最少|how (?:long|much|many)|\bcosts?\b|\bcheapest\b",
    re.IGNORECASE,
)


def question_lookup(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a sentence that asks what a word means, or whether something holds of a card, a
    server, a cloud or a model; None for any other, wishes above all."""
    from rightfit.workload.ask.open_points import is_story
    from rightfit.workload.ask.posts import is_post

    if asks_to_rent(sentence):
        return None
    if is_post(sentence) and (is_whole_wish(sentence) or _is_set_up(sentence)):  # its plan answers, and names in it are no questions
        return None
    if is_post(sentence) and is_story(sentence):  # servers, cards and models that it names are part of what it tells
        return with_general(asked_so(sentence) or topic_question(sentence, catalog))
    return with_general(_answered(sentence, catalog))


def asks_to_rent(sentence: str) -> bool:
    """Whether a sentence about a machine of one's own asks what else to rent: its plan says it."""
    from rightfit.workload.ask import understand
    from rightfit.workload.ask.posts import RENTS

    if not RENTS.search(sentence):
        return False
    try:
        found = understand(without_questions(sentence).wish)
    except RightfitError:
        return False
    return bool(found.own_machine) and "model" in found.wishes


def asked_so(sentence: str) -> CheckResult | None:
    """The answer to a question that stands in our table in the same words; None of any other."""
    return known_answer(sentence, least=_ASKED_SO) if is_question(sentence) else None


def asked_first(sentence: str, *, catalog: Catalog | None = None) -> CheckResult | None:
    """The answer to a question that is answered before anything in it is checked as a statement: it
    stands in our table, or asks whether a server does a job; and to what went wrong, which is told
    rather than asked."""
    from rightfit.search.offers import open_priced

    market = catalog or open_priced()
    if not is_question(sentence):
        return topic_question(sentence, market)
    return _parts_answered(sentence, market) or _first(sentence, market)


def _first(sentence: str, market: Catalog) -> CheckResult | None:
    return (
        asked_so(sentence)
        or own_question(sentence, market)
        or apple_question(sentence, market)
        or batch_question(sentence, market)
        or sum_question(sentence, market)
        or card_question(sentence, market)
        or cloud_series(sentence, market)
        or card_choice(sentence, market)
        or single_price(sentence, market)
        or model_question(sentence, market, is_checked=True)
        or weight_question(sentence, market)
        or between_cards(sentence, market)
        or data_question(sentence, market)
        or able_question(sentence, market)
    )


def _parts_answered(sentence: str, market: Catalog) -> CheckResult | None:
    """The answers to two questions in one sentence, each from its own room; the second is about
    what the first names, where it names nothing itself. None where one of them has no answer of
    its own, or both have the same."""
    parts = [part.strip() for part in _PARTS.split(sentence) if is_question(part) and len(part.strip()) > _SHORTEST]
    if len(parts) != 2:
        return None
    first, second = parts
    named = _wishes_of(first)
    if {"model", "gpu"} & set(named) and not {"model", "gpu"} & set(_wishes_of(second)):
        count = f"{named['num_gpus']} x " if "num_gpus" in named else ""
        subject = f"{named.get('model', '')} {count}{named.get('gpu', '')}".strip()
        second = f"{second} {subject}" if second.isascii() else f"{subject} {second}"
    one, other = (topic_question(part, market) or _first(part, market) for part in (first, second))
    if one is None or other is None or one.facts == other.facts:
        return None
    en, zh = f"{one.explanation_en}\n{other.explanation_en}", f"{one.explanation_zh}\n{other.explanation_zh}"
    return dataclasses.replace(one, query=sentence, explanation_en=en, explanation_zh=zh)


def with_general(found: CheckResult | None) -> CheckResult | None:
    """An answer to a question with what our table says of its subject, where that is near and not
    the answer itself."""
    if found is None or found.claim not in (None, "unknown") or {"known", "nearest"} & set(found.facts):
        return found
    if (told := general_lines(found.query)) is None:
        return found
    en, zh = f"{found.explanation_en}\n{told['en']}", f"{found.explanation_zh}\n{told['zh']}"
    return dataclasses.replace(found, explanation_en=en, explanation_zh=zh)


def _answered(sentence: str, catalog: Catalog) -> CheckResult | None:
    """`question_lookup` without what is said in general."""
    return (
        largest_model(sentence, catalog)
        or asked_so(sentence)
        or own_question(sentence, catalog)
        or apple_question(sentence, catalog)
        or batch_question(sentence, catalog)
        or sum_question(sentence, catalog)
        or card_question(sentence, catalog)
        or cloud_series(sentence, catalog)
        or card_choice(sentence, catalog)
        or single_price(sentence, catalog)
        or model_question(sentence, catalog)
        or weight_question(sentence, catalog)
        or moving_price(sentence, catalog)
        or data_question(sentence, catalog)
        or topic_question(sentence, catalog)
        or _looked_up(sentence, catalog)
        or (None if "model" in _wishes_of(sentence) else known_answer(sentence, least=_ALMOST))
        or _terms_of_question(sentence)
    )


def question_or_open_wish(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a sentence that is planned by no options of its own: a question, or a wish that
    names no model. Every face but the command line, which draws such plans, asks this first."""
    return question_lookup(sentence, catalog) or open_wish(sentence, catalog) or _nearest(sentence, catalog)


def _nearest(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The nearest to a question that makes no plan; None of a wish that does."""
    from rightfit.workload.ask import understand

    if not asks_something(sentence):
        return None
    try:
        if "model" in understand(settle(sentence, catalog).wish).settled():
            return None
    except RightfitError:
        pass
    return nearest_answer(sentence, catalog)


def asked_answer(sentence: str, *, catalog: Catalog | None = None) -> CheckResult | None:
    """The answer of `rightfit check` to a question that says nothing to be checked: as if it were
    asked of a plan. None of any other sentence."""
    from rightfit.search.offers import open_priced

    if not is_question(sentence):
        return None
    market = catalog or open_priced()
    return question_lookup(sentence, market) or planned_answer(sentence, market) or open_wish(sentence, market)


def nearest_of(result: CheckResult, *, catalog: Catalog | None = None) -> CheckResult:
    """An answer of `rightfit check` that says that nothing is known of a sentence, with the nearest
    in its place; any other as it is."""
    from rightfit.search.offers import open_priced

    if result.exists and result.claim == "unknown" and result.kind == "server" and (told := general_lines(result.query)) is not None:
        en, zh = f"{result.explanation_en}\n{told['en']}", f"{result.explanation_zh}\n{told['zh']}"
        return dataclasses.replace(result, explanation_en=en, explanation_zh=zh)
    if _only_exists(result):
        near = nearest_answer(result.query, catalog or open_priced())
        return result if near is None else near
    if result.exists or result.facts or result.claim is None:
        return result
    near = nearest_answer(result.query, catalog or open_priced())
    return result if near is None else near


def _only_exists(result: CheckResult) -> bool:
    """Whether an answer says that a thing exists, to a sentence that asks or tells something else
    of it."""
    if not result.exists or result.claim is not None or result.kind not in ("accelerator", "server", "provider", "model"):
        return False
    rest = result.query
    for spoken, _ in cards_of(rest):
        rest = rest.replace(spoken, " ")
    is_long = len(re.findall(r"[A-Za-z]{2,}", rest)) >= _MANY_WORDS or len(re.findall(r"[\u4e00-\u9fff]", rest)) >= _MANY_SIGNS
    return is_long and _EXISTS.search(rest) is None


#: That two words are to be told apart.
_APART = re.compile(r"区别|差别|差异|有什么不同|\b(?:vs|versus|differences?|differ)\b", re.IGNORECASE)
#: Words beside a name from which on a sentence is about more than the thing.
_MANY_WORDS, _MANY_SIGNS = 5, 8
_EXISTS = re.compile(
    r"存在|有没有|有.{0,6}吗|是什么|是啥|是不是|哪些|什么(?:显?卡|配置|机型)|\b(?:exists?|is there|are there|available|rentable|what(?:'s| is| are)|real|which|called|specs?)\b",
    re.IGNORECASE,
)
#: What parts two questions in one sentence, and a question is at least so long.
_PARTS = re.compile(r"[,，;；?？]\s*(?:(?:and|also|另外|还有|顺便|那)\s*)?|\s+and (?=how|what|which|why|is|does|do|can)|。", re.IGNORECASE)
_SHORTEST = 3


def _looked_up(sentence: str, catalog: Catalog) -> CheckResult | None:
    from rightfit.workload.ask.names import SERVER

    if (found := way_to_pay(sentence, catalog)) is not None:  # before the terms that it names
        return found
    if (alike := as_fast_lookup(sentence, catalog)) is not None:
        return alike
    if is_question(sentence) and (asked := asked_to_fit(sentence)) and "model" in _wishes_of(asked):
        found = _looked_up(asked, catalog)
        if found is not None and found.claim is not None:
            return overflowing(sentence, found)
    if _APART.search(sentence) and not cards_of(sentence) and len(between := terms_in(sentence)) == 2:
        return told_terms(between, sentence)
    if (meant := term_lookup(sentence)) is not None:
        return meant
    if defined := defined_terms(sentence):
        return told_terms(defined, sentence)
    if (ruled := asked_rule(sentence, catalog)) is not None:
        return ruled
    is_load = LOAD & set(_wishes_of(sentence))  # so many users or requests: a plan says whether they are served
    is_between = len({one.casefold() for one in SERVER.findall(sentence)}) > 1 and is_whole_wish(sentence)  # each is planned
    for reader in (server_question, feature_question) if is_load else (server_question, fit_question, feature_question):
        if not is_between and (found := reader(sentence, catalog)) is not None:
            return found
    is_free = "model" not in _wishes_of(sentence) and find_rule(_QUESTION.sub("", sentence)) is None
    if is_free and (known := known_answer(sentence, least=_VERY)) is not None:
        return known
    if (priced := market_question(sentence, catalog) or chart_lookup(sentence, catalog)) is not None:
        return priced
    is_compared = bool(_COMPARED.search(sentence))
    if is_whole_wish(sentence):  # a model with amounts: its plan says it, and of no other model
        return None
    if _AMOUNT_ASKED.search(sentence) and not is_compared:  # how long, how much, how many: a plan says it
        return _without_model(sentence, catalog, is_question=False)
    asks = is_compared or bool(_QUESTION.search(sentence.strip()))
    if asks and not _is_planned(sentence) and (claimed := claim_lookup(sentence, catalog)) is not None:
        return claimed
    return _without_model(sentence, catalog, is_question=asks)


#: Options that are amounts of the work, or limits of it: a model with one of them is a whole wish.
_AMOUNTS = frozenset(
    {"data", "epochs", "steps", "rate", "users", "concurrency", "deadline", "budget", "seq_len", "input_tokens", "output_tokens"}
)


def _wishes_of(sentence: str) -> dict[str, Any]:
    from rightfit.workload.ask import understand

    try:
        return understand(without_questions(sentence).wish).wishes
    except RightfitError:
        return {}


def is_whole_wish(sentence: str) -> bool:
    """Whether a sentence names a model and amounts of its work, so that it can be planned."""
    wishes = _wishes_of(sentence)
    return "model" in wishes and bool(_AMOUNTS & set(wishes))


#: Options that say how a job runs that is there already.
_SETUP = frozenset({"micro_batch", "global_batch", "recompute", "method", "sharding"})


def _is_set_up(sentence: str) -> bool:
    """Whether a sentence names a model and how it runs."""
    wishes = _wishes_of(sentence)
    return "model" in wishes and bool(_SETUP & set(wishes))


def _is_planned(sentence: str) -> bool:
    """Whether a plan answers what is asked: between cards, or of a network or link for a model."""
    from rightfit.workload.ask import understand

    beside = without_questions(sentence)
    is_choice = _EITHER.search(sentence) is not None and len({names for _, names in cards_of(sentence)}) > 1
    if not is_choice and not {"network", "link"} & {one.key for one in beside.questions}:
        return False
    try:
        found = understand(beside.wish)
    except RightfitError:
        return False
    return "model" in found.wishes and not found.weighty and (not is_choice or "gpu" in found.wishes)


def _without_model(sentence: str, catalog: Catalog, *, is_question: bool) -> CheckResult | None:
    """The answer to a question that is about no model: what a server is, whether a rule holds."""
    from rightfit.market.check import check_one
    from rightfit.workload.ask import understand

    try:
        if "model" in understand(sentence).wishes:
            return None
    except RightfitError:
        return None
    named = NAMED_SERVER.findall(sentence)
    if len(named) == 1 and (is_question or _WHAT.search(sentence)):
        cards = cards_of(sentence.replace(named[0], " "))
        if len(cards) == 1 and _IS.search(sentence):  # "g5.xlarge 是 T4 吗"
            return dataclasses.replace(
                check_one(f"{named[0]}={_said_of(named[0], cards[0][0], sentence)}", catalog=catalog), query=sentence
            )
        return dataclasses.replace(check_one(named[0], catalog=catalog), query=sentence)
    is_choice = "还是" in sentence or re.search(r"\bor\b", sentence) is not None
    rule = find_rule(_QUESTION.sub("", sentence)) if is_question or is_choice else None
    if rule is None:
        return _terms_beside(sentence)
    found = statement_answer(sentence, rule, catalog) if isinstance(rule, str) else rule_answer(sentence, rule, catalog)
    is_lacking = bool(_LACKING.search(sentence)) and not isinstance(rule, str) and rule.kind in ("fixed", "interconnect", "network")
    # whether it can be done without what a rule asks for: where the rule is wrong it can
    return dataclasses.replace(found, claim=turned(found.claim)) if is_lacking and found.claim in ("right", "wrong") else found


def _said_of(name: str, card: str, sentence: str) -> str:
    """What a question says of a server in the clause that names its card: "1张A100加128G内存"."""
    clause = next((one for one in clauses(sentence) if card in one), card)
    told = clause.partition(name)[2] if name in clause else clause
    told = re.sub(r"^\s*(?:是|为|有)\s*|[吗么呢嘛]\s*$", "", told)
    return told if re.search(r"\d", told.replace(card, "")) else card


#: "没有 NVLink 能 ... 吗", "can I ... without InfiniBand?"
_LACKING = re.compile(
    r"(?<!有)没有?(?=\s*[A-Za-z\u4e00-\u9fff]).*(?:能|可以|行)|(?:\bcan\b|\bcould\b).*\b(?:without|with no)\b", re.IGNORECASE
)


def _terms_beside(sentence: str) -> CheckResult | None:
    """What the words of the field mean that a sentence asks about beside a wish that cannot be
    planned, not even for usual models."""
    from rightfit.market.verdicts import CheckResult
    from rightfit.planner.typical import typical_rows
    from rightfit.workload.ask import understand

    beside = without_questions(sentence)
    told = {lang: terms_told(beside.questions, lang) for lang in LANGS}
    if not told["en"]:
        return None
    found = understand(beside.wish)
    if not found.weighty and "data" in found.wishes and typical_rows(beside.wish, found.kind):
        return None  # usual models are planned, and their plans answer
    return CheckResult(
        sentence, "term", True, None, {"asked": [one.key for one in beside.questions]}, (), "\n".join(told["en"]), "\n".join(told["zh"])
    )


def _terms_of_question(sentence: str) -> CheckResult | None:
    """What the words of the field in a question mean, or what its symptom comes from, where it
    would be refused: it names no model, and no usual models are planned for it."""
    from rightfit.planner.typical import typical_rows
    from rightfit.workload.ask import understand

    if not (_ASKS.search(sentence) or is_question(sentence)) or not (names := terms_in(sentence)):
        return None
    is_symptom = bool(glossary()[names[0]].get("is_symptom"))
    try:
        found = understand(without_questions(sentence).wish)
    except RightfitError:
        return told_terms(names, sentence) if is_symptom else None
    if "model" in found.wishes and not (is_symptom and found.weighty):
        return None
    if "model" not in found.wishes and (found.unknown_model() or (_AMOUNTS & set(found.wishes) and not is_symptom)):
        return None
    is_planned = not found.weighty and typical_rows(sentence, found.kind, str(found.wishes.get("task", "")))
    return None if is_planned else as_nearest(told_terms(names[:_MOST_TERMS], sentence), sentence)


_MOST_TERMS = 3
_ASKS = expression(r"怎么|如何|什么|哪|为何|报错|原因|最后|一直|总是|越来越|\bhow\b|\bwhy\b|\bwhat\b|\bwhich\b|\bshould\b")
_EITHER = expression(r"还是|或者?|\bor\b|\bvs\b")
_IS = expression(r"是|用的|配的|\b(?:is|are|has|have|use[sd]?|come)\b")
_WHAT = re.compile(
    r"(?:内存|显存|带宽)(?:是|有)?多[大少]|多[大少]的?(?:内存|显存|带宽)|几核|多少核|是什么|什么卡|什么配置|多少钱|几张卡|哪种卡|哪款卡|what (?:is|gpu|card)|which (?:gpu|card)|specs?|how much",
    re.IGNORECASE,
)
_COMPARED = re.compile(r"比.+(?:快|慢|便宜|贵)|(?:faster|slower|cheaper|more expensive|dearer) than", re.IGNORECASE)
