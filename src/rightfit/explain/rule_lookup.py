"""`rightfit check RULE`: a rule of thumb asked for by its id or in its own words, tried on a
workload that it speaks about."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.claim_words import NAMED_SERVER, card_pattern, cards_of, no_claim, verb
from rightfit.explain.fit_questions import asked_to_fit, feature_question
from rightfit.explain.glossary import term_lookup
from rightfit.explain.judged_parts import parts_lookup
from rightfit.explain.market_questions import daily_claim, market_question
from rightfit.explain.market_statements import COMMITMENTS, find_statement, judge_statement, saving_of
from rightfit.explain.messages import label
from rightfit.explain.nearest import known_answer
from rightfit.explain.pasted_tables import cells_of, is_cloud, is_row, row_statement
from rightfit.explain.rule_match import contradicts, folded, match_rule, sense
from rightfit.explain.rule_trials import measures_of, setup_outcomes
from rightfit.explain.rules import RuleCheck, RuleOfThumb, Verdict, all_rules, example_of, rule_line
from rightfit.explain.sections import heading_of, job_lookup, section_lookup
from rightfit.explain.statement_parts import clauses, states
from rightfit.explain.time_claims import time_lookup
from rightfit.explain.topic_questions import topic_question
from rightfit.explain.trials import best_of
from rightfit.explain.yes_or_no import answer_word, is_open, is_question
from rightfit.facts.expressions import expression
from rightfit.market.denials import turned
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult


_SHORTEST = 6
#: How near a statement of our table one must be to be judged by it where nothing else judges it.
_SAID = 0.65
#: A sentence that denies what a rule says, and how it stands then: what holds is wrongly denied; of
#: a need that is more than needed the denial is right, of one that is less it is wrong too.
_DENIED = re.compile(
    r"不需要|不用|不必|无需|没必要|用不着|不一定|不能|不会(?!撑?爆|显存溢出|OOM)|无法|不省|没有用|没用|\b(?:not|never|no need|cannot)\b(?! run out)|n't\b(?! run out)",
    re.IGNORECASE,
)
_DENIALS = {
    ("", "holds"): "wrong",
    ("fixed", "fails"): "right",
    ("", "misleading"): "right",
    ("fixed", "misleading"): "unknown",
    ("need", "fails"): "wrong",
}
_CLAIMS = {"holds": "right", "fails": "wrong", "misleading": "wrong", "unknown": "unknown"}


def told_once(found: Sequence[CheckResult]) -> list[CheckResult]:
    """The answers to a text without those that say again what was said: the same rule with the same
    words, a server whose claim is judged elsewhere."""
    claimed = {str(one.facts.get("instance_type")) for one in found if one.kind == "server" and one.claim}
    kept: dict[tuple[str, str], CheckResult] = {}
    for one in found:
        if one.kind == "server" and one.claim is None and str(one.facts.get("instance_type")) in claimed:
            continue
        kept.setdefault((one.kind, one.explanation_en) if one.kind == "rule" else (one.kind, one.query), one)
    return list(kept.values())


def not_judged(found: Sequence[CheckResult]) -> list[CheckResult]:
    """What of a text states something that could not be judged, as one answer that lists it, and
    how many of its lines state nothing."""
    from rightfit.explain.messages import say
    from rightfit.market.verdicts import CheckResult

    lines = list(dict.fromkeys(one.query for one in found))
    spoken: Lang = "zh" if any(re.search(r"[\u4e00-\u9fff]", line) for line in lines) else "en"
    told = []
    if stated := [line for line in lines if states(line)]:
        query, listed = say("rule_words.not_judged", spoken, count=len(stated)), "\n".join(stated)
        told.append(CheckResult(query, "market", True, None, {"not_judged": stated}, (), listed, listed))
    if plain := [line for line in lines if not states(line)]:
        query, why = say("rule_words.no_claim", spoken, count=len(plain)), {lang: say("rule_words.no_claim_why", lang) for lang in LANGS}
        told.append(CheckResult(query, "market", True, None, {"no_claim": plain}, (), why["en"], why["zh"]))
    return told


def rule_lookup(query: str, *, under: str = "", catalog: Catalog | None = None) -> CheckResult | None:
    """The answer of `rightfit check` where `query` says something: a rule of thumb by its id or in
    any words, or a claim about a card, a server, a cloud or a model; None where it says nothing
    known, so that other looks go on.

    What is said is judged on a job: that of the heading that it stands `under`, where one is told.
    That takes a search.
    """
    from rightfit.explain.claims import claim_lookup, needs_answer
    from rightfit.search.offers import open_priced

    market = catalog or open_priced()
    if _WEIGHED.match(query):
        return None
    if under and (found := section_lookup(query, under, market)) is not None:
        return found
    if not is_question(query) and (daily := daily_claim(query, market)) is not None:
        return daily
    rule = repeated_rule(query)
    if rule is None and (told := topic_question(query, market)) is not None:
        return told
    if rule is None and not is_question(query) and (said := known_answer(query)) is not None:
        return said
    parts = None if rule is not None or is_question(query) else parts_lookup(query, market)
    if parts is not None and _is_told_first(query, parts):
        return parts
    is_fit = is_question(query) and bool(asked_to_fit(query)) and bool(cards_of(query))  # the job on the card is asked about
    if not is_fit and (meant := term_lookup(query)) is not None:
        return meant
    if rule is None and is_question(query) and (featured := feature_question(query, market)) is not None:
        return featured
    if rule is None and (priced := market_question(query, market)) is not None:
        return priced
    if rule is None and (timed := time_lookup(query, market)) is not None:
        return timed
    if rule is None and (claimed := claim_lookup(query, market)) is not None:
        return claimed
    if rule is None and (parts := parts or parts_lookup(query, market)) is not None:
        return parts
    rule = rule or find_rule(query)
    if rule is None:
        return (
            needs_answer(query, market)
            or job_lookup(query, market)
            or topic_question(query, market, is_said=True)
            or (None if is_question(query) else known_answer(query, least=_SAID))
        )
    if not isinstance(rule, str) and (rule.kind == "host" or is_question(query)) and (held := job_lookup(query, market)) is not None:
        return held  # on the job that it names
    if isinstance(rule, str) or rule.kind == "term":
        return statement_answer(query, rule, market)
    is_need = rule.kind == "enough" and verb("needs").search(query) and not verb("enough").search(query)
    if is_need and (needed := needs_answer(query, market)) is not None:  # what is enough for a job is not what it needs
        return needed
    return saving_answer(query, rule, market) if rule.kind == "saving" else rule_answer(query, rule, market)


def _is_told_first(query: str, parts: CheckResult) -> bool:
    """Whether what the clauses of a statement say comes before what its words mean and cost: of
    several clauses, or of one that says what holds whatever the job."""
    return bool(parts.facts.get("is_common")) or (len(clauses(query)) > 1 and parts.claim in ("right", "wrong"))


#: What is to be weighed is no claim.
_WEIGHED = expression(r"(?:.{0,20}[:：])?\s*(?:是否|whether\b)")


def statements_in(text: str) -> dict[str, str]:
    """What a text states, one each, and under which heading that says what job it is for ("":
    none): a name or a claim as it stands; of a pasted paragraph or table its lines and sentences,
    with servers that carry a claim apart ("g5.xlarge (1xT4)"); of a sentence with several rules
    each of them."""
    if not is_pasted(text):
        return dict.fromkeys(_rules_of(text), "")
    stated: dict[str, str] = {}
    section = above = ""
    header: list[str] = []
    lines = _SENTENCE_END.split(text)
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if _RULED.match(line):
            continue
        cells = cells_of(line)
        if cells and (_RULED.match(after) or (not header and not is_row(cells))):
            header = cells
            continue
        header = header if cells else []
        if len(cells) > 2 and len(header) == len(cells) and (row := row_statement(header, cells)):
            stated.setdefault(row, section)
            for told in _of_cloud([cells[0], *(cell for cell in cells[1:] if not re.search(r"\d", cell))]) if is_cloud(cells[0]) else ():
                stated.setdefault(told, section)
            continue
        if (words := heading_of(line)) is not None:
            section, above = words, ""
            continue
        found, above = _stated_by(line, "" if section else above)
        for statement in found:
            stated.setdefault(statement, section)
    return dict(list(stated.items())[:_MOST_STATEMENTS]) or {text[:_LONGEST_STATEMENT]: ""}


def _stated_by(line: str, heading: str) -> tuple[list[str], str]:
    """What a line of a pasted text states, and the heading of the list that it is in or begins."""
    bare = re.sub(r"^(?:[^\w<>≥≤]|_)*(?:\d{1,2}[.、)）]\s*)?|[\s|]+$", "", line.replace("×", "x"))
    if row := _SIZED_SERVER.search(bare):  # a row of a table: a server, then its sizes
        sizes = [size[0] for size in _SIZE.finditer(row["rest"])]
        return [f"{row['name']}={', '.join(sizes)}"], heading
    found = [match.group().strip() for match in _SERVER_CLAIM.finditer(bare)]
    found += [match.group() for match in NAMED_SERVER.finditer(_SERVER_CLAIM.sub(" ", bare))]
    cells = [cell.strip() for cell in _SERVER_CLAIM.sub(" ", bare).split("|")]
    if len(cells) > 1 and is_cloud(cells[0]):
        found += [name[0] for cell in cells[1:] for name in _SPACED_SERIES.finditer(cell)]
        return [*found, *_of_cloud(cells)], heading
    rest = (" | " if len(cells) > 1 and cards_of(bare) and not found else " ").join(filter(None, cells)).strip(" (（,，、").lstrip(":： ")
    if rest.endswith((":", "：")):
        heading = rest  # what stands above a list belongs to each of its items
    elif sense(rest).concepts and len(rest) > _SHORTEST and not no_claim().match(rest):
        under = find_rule(f"{heading}{rest}") if heading else None
        found += [f"{heading}{rest}"] if under not in (None, find_rule(rest)) else _rules_of(rest[:_LONGEST_STATEMENT])
    elif not found and len(rest) > _SHORTEST and not no_claim().match(rest):
        found = [rest[:_LONGEST_STATEMENT]]  # what is not judged is listed
    return found, heading


def _of_cloud(cells: Sequence[str]) -> list[str]:
    """What the cells of a row say of the cloud in the first."""
    stated = [part.strip() for cell in cells[1:] for part in re.split(r"[,，;；]", cell) if states(part)]
    return [f"{cells[0].strip(' |')}: {', '.join(stated)}"] if stated else []


def is_pasted(text: str) -> bool:
    """Whether a text is a paragraph or a table rather than one statement. Some sentences of which
    the last asks are one question."""
    if len(text) <= _LONG_QUESTION and "\n" not in text and "|" not in text and is_question(text):
        return False
    return len(text) > _SHORT_TEXT or len([line for line in _SENTENCE_END.split(text) if line.strip()]) > 1


_SENTENCE_END = re.compile(r"[\n。！!；;]+|(?<=[a-z])\.\s")
_RULED = re.compile(r"^\s*\|?\s*:?-{3,}[-:|\s]*$")
_SHORT_TEXT, _LONG_QUESTION = 120, 240
#: The longest text that is read [characters], and the most of its statements that are judged: each
#: may take a search.
LONGEST_TEXT = 12_000
_MOST_STATEMENTS = 120
_LONGEST_STATEMENT = 390
_SIZE = re.compile(r"\d+\s*x\s*[A-Z]+\d\w*|\d+\s*(?:核(?:CPU)?|v?CPUs?)|\d+\s*G(?:i?B)?\s*(?:的?内存|RAM|memory)", re.ASCII | re.IGNORECASE)
_SIZED_SERVER = re.compile(
    rf"{NAMED_SERVER.pattern.replace('(?<![', '(?P<name>(?<![', 1)})(?P<rest>[\s|,，:：]+(?:{_SIZE.pattern}).*)$", re.ASCII | re.IGNORECASE
)
#: A server's or a series' name with a claim about its cards behind it, in brackets or not.
_SERVER_CLAIM = re.compile(
    r"(?<![\w.])(?:[A-Za-z][\w.\-]*\d[\w.\-]*|[A-Za-z]\w*[.\-_][\w.\-]+)(?:\s*instances?)?"
    r"(?:\s*[(（](?:up to\s*|最多\s*)?(?:\d+\s*x\s*)?[A-Z]\w*\d\w*(?:\s*/\s*[A-Z]\w*\d\w*)*[)）]|\s+\d+\s*x\s*[A-Z]+\d\w*)",
    re.ASCII,
)


#: A series whose name has blanks ("NDm A100 v4").
_SPACED_SERIES = re.compile(r"(?<![\w.+/-])N[CDV]\w*[ _]\w+[ _]v\d(?![\w.-])", re.ASCII)
_CUTS = re.compile(r"或(?:者)?|[,，、+(（]|\bor\b")


def _rules_of(text: str) -> list[str]:
    """A sentence, or its parts where it states several rules that are known one by one."""
    if find_rule(text) is not None:
        return [text]
    if NAMED_SERVER.search(text) or card_pattern().match(text):
        return [text]  # what is said of one thing
    for end in reversed([cut.start() for cut in _CUTS.finditer(text)]):  # "choose r servers, or OSS with fast disks"
        if find_rule(text[:end]) is not None:
            rest = text[end:].strip(" ,，、+(（但")
            return [text[:end].strip(), *([rest] if re.search(r"\d\s*[^\W\d]", rest) and len(rest) > _SHORTEST else [])]
    parts = [part.strip() for part in re.split(r"[,，、](?![^(（]*[)）])|\band\b|且|并且", text) if part.strip()]
    return parts if len(parts) > 1 and all(find_rule(part) is not None for part in parts) else [text]


def find_rule(text: str) -> RuleOfThumb | str | None:
    """The rule that the text names by its id, repeats, or states in other words, or the id of the
    statement about the market."""
    if (known := repeated_rule(text)) is not None or len(folded(text)) < _SHORTEST:
        return known
    head, _, rest = re.sub("：", ":", text).partition(":")
    is_labelled = bool(rest) and not re.search(r"\d", head) and bool(sense(rest).quantities)  # "Long use: spot saves 50-90 %"
    if (found := match_rule(text) or _stated_saving(text)) is not None or not is_labelled:
        return found
    labelled = match_rule(rest)
    return labelled if labelled is not None and labelled.kind == "saving" else None  # of other amounts the label says of what


def _stated_saving(text: str) -> RuleOfThumb | None:
    """The rule about what commitments or spot save, where one of them is said to save some share,
    whichever."""
    said = sense(text)
    if not ("saves" in said.concepts and any(one.dimension == "percent" for one in said.quantities)) or len(said.leftover) > _FEW_LEFT:
        return None
    named = next((rule for concept, rule in _SAVING_RULES.items() if concept in said.concepts), "")
    return all_rules()[named] if named else None


_SAVING_RULES = {"subscription": "reserved_saves_50_to_90", "reserved": "reserved_saves_50_to_90", "spot": "spot_saves_50_to_90"}
#: Words beside what is said that leave its sense as it is.
_FEW_LEFT = 3


def repeated_rule(text: str) -> RuleOfThumb | str | None:
    """The rule or statement that has this id or wording, blanks and punctuation aside."""
    wanted = folded(text)
    if len(wanted) < _SHORTEST:
        return None
    known = {folded(words): rule for rule in all_rules().values() for words in (rule.id, *rule.aliases, *rule.statement.values())}
    return find_statement(text) or known.get(wanted)


def is_statement(text: str) -> bool:
    """Whether a query says something (a comparison, a whole clause) and is no name: what is not
    known of it is a rule, not a thing."""
    return bool(re.search(r">=|<=|≥|≤|[<>＞＜]|\d\s?%|至少|必须|需要|at least|needs?\b", text)) or len(text.split()) > 5


#: What is said of long use holds of the market, not of one short job.
_LONG_USE = "market_subscription_for_long_use"
_ALWAYS = expression(r"一定|总是|永远|任何(?:时候|情况)|必然|肯定|无论|\balways\b|\bnecessarily\b|in (?:every|any) case")
_COMMITTED = re.compile(r"预留|包年|包月|节省计划|承诺|reserved?|reservation|subscri|commit|savings plan", re.IGNORECASE)
_SPOT = re.compile(r"竞价|抢占|spot|preemptible", re.IGNORECASE)
#: So far from a span that is stated, the middle of the market still is in it.
_BESIDE = 0.05


def saving_answer(query: str, rule: RuleOfThumb, catalog: Catalog) -> CheckResult:
    """What spot servers or commitments are said to save, by the middle of the market and not by
    one server."""
    from rightfit.explain.messages import say
    from rightfit.market.verdicts import CheckResult

    stated = next((one for one in sense(query).quantities if one.dimension == "percent"), None)
    low, high = (stated.low, stated.high) if stated else (rule.value, rule.high if math.isfinite(rule.high) else 1.0)
    is_bound = low == high and bool(re.search(r"至少|以上|at least|or more", query, re.IGNORECASE))
    is_most = low == high and bool(re.search(r"最多|最高|高达|up to|at most", query, re.IGNORECASE))
    said = rule.statement["zh"] if query == rule.id else query
    modes: dict[str, tuple[str, ...]] = {"committed": COMMITMENTS} if _COMMITTED.search(said) else {}
    modes |= {"spot": ("spot",)} if _SPOT.search(said) or not modes else {}
    found = {name: saving_of(catalog, mode) for name, mode in modes.items()}
    near = 0.1 if low == high else _BESIDE
    holds = all((low - near <= mid or is_most) and (mid <= high + near or is_bound) for _, mid, _, _ in found.values())
    verdict: Verdict = "holds" if holds else "fails"
    texts: dict[Lang, str] = {}
    for lang in ("en", "zh"):
        told = [
            say(
                "rule_words.saving",
                lang,
                mode=say(f"rule_words.saving_{name}", lang),
                count=count,
                **dict(zip(("low", "mid", "high"), map(q.percent_text, (first, mid, third)), strict=True)),
            )
            for name, (first, mid, third, count) in found.items()
        ]
        texts[lang] = rule_line(
            query if query != rule.id else rule.statement[lang], -1, verdict, ("；" if lang == "zh" else "; ").join(told), lang
        )
    facts: dict[str, Any] = {
        "id": rule.id,
        "post": rule.post,
        "verdict": verdict,
        "saving": {name: mid for name, (_, mid, _, _) in found.items()},
    }
    return CheckResult(query, "rule", True, _CLAIMS[verdict], facts, (), texts["en"], texts["zh"])


def statement_answer(query: str, stated: RuleOfThumb | str, catalog: Catalog) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    name = stated if isinstance(stated, str) else _LONG_USE
    found = judge_statement(name, catalog)
    facts = {"id": name, "post": found.entry["post"], "verdict": found.verdict, **found.figures, **found.texts}
    words: dict[Lang, str] = {
        lang: rule_line(
            found.entry[lang] if isinstance(stated, str) else stated.statement[lang],
            found.entry["post"],
            found.verdict,
            found.reason(lang),
            lang,
        )
        for lang in ("en", "zh")
    }
    claim = _CLAIMS[found.verdict]
    if claim == "right" and _ALWAYS.search(query):  # what holds of most does not hold of all
        from rightfit.explain.messages import say

        claim = "wrong"
        words = {lang: say("rule_words.not_always", lang, told=words[lang]) for lang in ("en", "zh")}
    return CheckResult(query, "rule", True, claim, facts, () if query == name else (name,), words["en"], words["zh"])


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


def rule_answer(query: str, rule: RuleOfThumb, catalog: Catalog | None) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    found = _judged(rule, catalog)
    is_denied = bool(_DENIED.search(query)) and not any(_DENIED.search(words) for words in (*rule.aliases, *rule.statement.values()))
    verdicts = {one.verdict for one in found}
    verdict: Verdict = "unknown" if not found else found[0].verdict if len(verdicts) == 1 else "misleading"
    facts: dict[str, Any] = {"id": rule.id, "post": rule.post, "verdict": verdict, "example": dict(example_of(rule)), "unit": rule.unit}
    if found:
        facts |= {"claim": found[0].claim, "figure": found[0].figure}
    texts = {lang: _explanation(rule, found, verdict, lang) for lang in ("en", "zh")}
    claim: str | None = _DENIALS.get((rule.kind, verdict), _DENIALS.get(("", verdict), "unknown")) if is_denied else _CLAIMS[verdict]
    if rule.kind == "fixed" and contradicts(query, rule):
        claim = turned(claim)
    if is_question(query):
        is_partly = rule.kind == "fixed" or len(verdicts) > 1  # it holds in part, or of one way to do it
        is_turned = bool(_DENIED.search(rule.statement["zh"])) and not _DENIED.search(query)
        claim = "unknown" if verdict == "misleading" and is_partly and not is_denied else turned(claim) if is_turned else claim
    return CheckResult(query, "rule", True, claim, facts, () if query == rule.id else (rule.id,), texts["en"], texts["zh"])


def _explanation(rule: RuleOfThumb, found: Sequence[RuleCheck], verdict: Verdict, lang: Lang) -> str:
    from rightfit.explain.messages import say

    if not found:
        return say("rule_words.not_tried", lang, statement=rule.statement[lang])
    measure, example = found[0].measures, example_of(rule)
    told = [_by_method(one, lang) for one in found] if len(found) > 1 else [found[0].reason(lang)]
    line = rule_line(rule.statement[lang], rule.post, verdict, ("；" if lang == "zh" else "; ").join(told), lang)
    if len(found) > 1 or measure is None:
        return say("rule_words.tried_by_methods", lang, told=line, model=example["model"], data=example["data"])
    if rule.kind == "fixed" and (rule.figure == "weights_bytes" or "{" not in rule.reasons[verdict][lang]):
        return line  # it holds, or does not, whatever the job
    method = q.method_text("pretrain" if example["task"] == "train" else str(example.get("method", "full")), lang)
    return say("rule_words.tried_on", lang, told=line, model=example["model"], method=method, data=example["data"])


def _by_method(found: RuleCheck, lang: Lang) -> str:
    from rightfit.explain.messages import say

    method = q.method_text(found.measures.method if found.measures else "full", lang)
    return say(
        "rule_words.by_method", lang, method=method, verdict=say(f"rule_words.verdict_{found.verdict}", lang), reason=found.reason(lang)
    )


# ---- What heads an answer.


def verdict_of(result: CheckResult, lang: Lang) -> str:
    """What heads the answer to a name, a claim or a question, by `verdict_words`."""
    return verdict_words(result.query, kind=result.kind, exists=result.exists, claim=result.claim, known=result.facts, lang=lang)


def headed(query: str, verdict: str, lang: Lang) -> str:
    """What was asked or stated, with its verdict: a question and its answer, or a statement, a
    colon and what it is."""
    if query.rstrip().endswith(("?", "？")) and verdict:
        return f"{query}{verdict}。" if lang == "zh" else f"{query} {verdict[:1].upper()}{verdict[1:]}."
    return ("：" if lang == "zh" else ": ").join(filter(None, [query, verdict]))


def headline(result: CheckResult, lang: Lang) -> str:
    """What heads an answer that says whether something is right; "" of any other."""
    return "" if result.claim is None else verdict_of(result, lang)


def verdict_words(query: str, *, kind: str, exists: bool, claim: str | None, known: Mapping[str, Any], lang: Lang) -> str:
    """What heads the answer to a name, a claim or a question: whether it exists, whether it is
    right, or yes or no; "" where a question asks for an amount or a choice."""
    missing = "not_a_rule" if is_statement(query) else "does_not_exist" if known else "not_known"
    there = label("check", "exists" if exists else missing, lang)
    is_missing = not exists and bool(known)  # what is asked about does not exist, which is the answer
    if claim and is_question(query) and not is_missing:
        if exists and is_open(query):
            return ""
        return answer_word(query, str(known.get("answer") or (claim if exists else "none")), lang)
    said = "" if claim is None or (is_missing and is_question(query)) else label("check", f"claim_{claim}", lang)
    told = [said] if kind in ("rule", "term", "market") and exists else [there, said]
    return ("；" if lang == "zh" else "; ").join(part for part in told if part)
