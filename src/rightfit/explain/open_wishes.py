"""Sentences that leave something open: a wish that names no model is planned with typical ones, or
with three questions and their defaults; a question that only a plan answers is answered by it.

Words and texts are data (data/open_wishes.toml).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.answers import answers
from rightfit.explain.beside.in_words import way_text
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.beside.settled import settle
from rightfit.explain.command_text import command_line
from rightfit.explain.fit_claims import least_bytes, server_with
from rightfit.explain.messages import label, topic, topic_text
from rightfit.explain.trials import UNHURRIED
from rightfit.explain.voices import plan_line, plan_text
from rightfit.explain.yes_or_no import is_question
from rightfit.market.denials import turned
from rightfit.messages import LANGS, Lang
from rightfit.planner.typical import MOST_MODELS, typical_rows, typical_wishes
from rightfit.units import GIB, parse_data
from rightfit.workload.options import read_wish

if TYPE_CHECKING:
    from rightfit.explain.beside.questions import Question
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult
    from rightfit.search.answer import Plan
    from rightfit.workload.ask import Understood


def _says(name: str, sentence: str) -> bool:
    return bool(re.search(topic("open_wishes")["words"][name], sentence, re.IGNORECASE))


_text = functools.partial(topic_text, "open_wishes")


def open_wish(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a sentence that names no model: by the typical ones for its kind of data, else
    by one of each kind with the questions that narrow it. None where it names one, or says what
    no option takes."""
    found = _read(without_questions(sentence).wish)
    if found is not None and (several := several_plans(sentence, found, catalog)) is not None:
        return several
    if found is None or "model" in found.wishes or found.wishes.get("task") == "prepare" or found.weighty or found.unknown_model():
        return None
    rows = typical_rows(sentence, found.kind, str(found.wishes.get("task", "")))
    return _typical(sentence, rows, found, catalog) if rows else vague_wish(sentence, catalog)


def vague_wish(sentence: str, catalog: Catalog, questions: Sequence[Question] = ()) -> CheckResult | None:
    """Three questions with their defaults, each kind of data planned with them: of a wish that says
    neither a model nor what its data are. `questions`: what was asked beside it, where that was
    taken out of the sentence."""
    found = _read(without_questions(sentence).wish)
    asked = tuple(questions) or without_questions(sentence).questions
    is_amount = bool(asked) and "data" in (found.wishes if found else {})  # so much data on such a GPU
    closed = {"model", "operation"} if is_amount else {"model", "gpu", "cloud", "operation"}
    if found is None or closed & set(found.wishes) or found.weighty or found.unknown_model():
        return None
    is_wish = _says("wish", sentence) and _says("asks", sentence)
    if not (is_wish or (asked and "data" in found.wishes)) or _says("other", sentence):
        return None
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    commands, amounts = list[str](), list[str]()
    for row in topic("open_wishes")["defaults"]:
        given = {name: value for name, value in found.wishes.items() if name not in ("task", "method")}
        wishes = {**row["wishes"], **given, "model": row["model"]}
        if (plan := _planned(wishes, catalog)) is None or plan.best is None:
            continue
        commands.append(command_line(wishes))
        amounts.append(str(wishes.get("data", "")))
        for lang in LANGS:
            told[lang].append(
                _text("way", lang, kind=row["kind"][lang], model=row["model"], way=way_text(plan.best, lang), command=commands[-1])
            )
            told[lang] += answers(asked, plan, catalog, lang)
    if not commands:
        return None
    for lang in LANGS:
        head = [_text("head", lang), _text("which", lang), _text("amount", lang, amounts=" / ".join(amounts)), _text("limit", lang)]
        told[lang] = [*head, *told[lang]]
    return _result(sentence, told, {"commands": commands})


#: What is said once of all models of a sentence; a budget is of their sum.
_AMOUNTS = frozenset({"rate", "users", "data"})
_OF_ALL = ("cloud", "region", "country", "residency", "purchase", "avoid", "sellers", "currency")


def wishes_by_model(found: Understood) -> list[dict[str, Any]]:
    """The wishes of each model of a sentence that names several: of a list each with all of the
    rest, else each from its own clause; one without an amount serves the requests of the others.
    Empty where that leaves a word unused, and of a choice between models."""
    sentence = _voice().sub(lambda told: " " * len(told[0]), found.sentence)
    seconds, weighty = _second_models(found)
    if "model" not in found.wishes or any(one.key == "workload.assumed_alternative" for one in found.assumed):
        return []
    if not seconds:  # one that speaks is on the same GPU
        beside = bool(_voice().search(found.sentence)) and found.wishes.get("task") == "serve" and not weighty
        return [dict(found.wishes)] if beside else []
    names = sorted((found.wishes["model"], *seconds), key=lambda name: sentence.casefold().find(name.casefold()))
    is_used = not weighty
    if is_used and all(_joins(sentence, one, other) for one, other in itertools.pairwise(names)):
        shared = {key: value for key, value in found.wishes.items() if key != "budget"}
        shared = shared if "data" in shared else {"task": "serve", **shared}
        return [_of_model({**shared, "model": _bare(name)}) for name in names]
    if not any(one in words for words in found.weighty for one in seconds):  # named in a story
        return []
    places = sorted(sentence.casefold().find(name.casefold()) for name in (found.wishes["model"], *seconds))
    cuts = [0]
    for place, following in itertools.pairwise(places):
        between = list(re.finditer(topic("open_wishes")["words"]["clause"], sentence[place:following], re.IGNORECASE))
        if place < 0 or not between:
            return []
        cuts.append(place + between[-1].end())
    clauses = [_read(sentence[start:end].strip(" ,;.，；。")) for start, end in itertools.pairwise([*cuts, len(sentence)])]
    if not all(clause and "model" in clause.wishes and not clause.weighty for clause in clauses):
        return []
    told = [{**{name: found.wishes[name] for name in _OF_ALL if name in found.wishes}, **clause.wishes} for clause in clauses if clause]
    whole = next((one for one in told if _AMOUNTS & set(one)), {})
    if "data" in whole:
        load = {name: value for name, value in whole.items() if name not in ("model", *_OF_ALL)}
    else:
        # A user asks once in the time that one reads an answer, each model of the chain as often.
        pause_s = facts.coefficients("serving_planning")["think_s"]
        rate = whole.get("rate") or f"{read_wish('users', whole['users'])['users'] / pause_s:.3g}/s"
        load = {"task": "serve", "rate": rate}
    return [one if _AMOUNTS & set(one) else {**one, **load} for one in told] if whole else []


def _voice() -> Any:
    from rightfit.workload.ask.voices import VOICE

    return VOICE


def _second_models(found: Understood) -> tuple[list[str], list[str]]:
    """(Models that a sentence names beside the planned one, weighty words that name none)."""
    from rightfit.workload.ask.grammar import BARE_SIZE
    from rightfit.workload.ask.leftover import left_over
    from rightfit.workload.ask.names import is_model, names_in, relative

    is_sized = bool(BARE_SIZE.fullmatch(str(found.wishes.get("model", ""))))  # two sizes are a choice or one model and its draft
    seconds, left = list[str](), list[str]()
    for word in dict.fromkeys((*found.weighty, *found.unused)):
        rest = _voice().sub(" ", word)
        if is_model(word) or (word in found.weighty and not is_sized and BARE_SIZE.match(word)):  # "bge-m3 and an 8B LLM"
            seconds.append(word)
            continue
        known, near = relative(word)
        if near:  # its nearest relative is planned
            seconds.append(known)
            continue
        named = [name for name in names_in(rest) if name.kind == "model"] if word in found.weighty else []
        for name in reversed(named):
            rest = f"{rest[: name.start]} {rest[name.end :]}"
        seconds += [name.value for name in named]
        if word in found.weighty and left_over(rest)[0]:
            left.append(word)
    return seconds, left


def _of_model(wishes: dict[str, Any]) -> dict[str, Any]:
    """The wishes of one of several models, without what only those that write take."""
    is_plain = writes_text(str(wishes["model"]))
    return wishes if is_plain else {key: value for key, value in wishes.items() if key not in _OF_WRITERS}


def writes_text(model: str) -> bool:
    """Whether a model is one that writes."""
    try:
        return str(getattr(facts.model(model, network=False), "kind", "")) in ("decoder", "moe-decoder", "vlm")
    except RightfitError:
        return False


_OF_WRITERS = frozenset({"think", "quantization", "input_tokens", "output_tokens", "ttft", "tpot"})


def _bare(name: str) -> str:
    """A model by its name, or by its size alone: "8B LLM"."""
    from rightfit.workload.ask.grammar import BARE_SIZE
    from rightfit.workload.ask.names import is_model

    sized = None if is_model(name) else BARE_SIZE.match(name)
    return (sized["latin"] or name) if sized else name


def _joins(sentence: str, one: str, other: str) -> bool:
    """Whether two names stand in a list, one behind the other."""
    text = sentence.casefold()
    return (
        re.search(rf"{re.escape(one.casefold())}\s*{topic('open_wishes')['words']['listed']}\s*{re.escape(other.casefold())}", text)
        is not None
    )


def several_plans(sentence: str, found: Understood, catalog: Catalog) -> CheckResult | None:
    """The plans of each model or step of a sentence, a line each, and what all cost."""
    parts = [] if found.own_machine else wishes_by_model(found) or wishes_by_step(found)
    plans = [plan for wishes in parts if (plan := _planned(wishes, catalog)) is not None]
    if not parts or len(plans) < len(parts):
        return None
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for lang in LANGS:
        for wishes, plan in zip(parts, plans, strict=True):
            name, command = wishes.get("model") or wishes["operation"], command_line(wishes)
            key, way = ("each", way_text(plan.best, lang)) if plan.best else ("each_none", "")
            told[lang].append(_text(key, lang, name=name, way=way, command=command))
        told[lang].append(several_sum(plans, lang))
    return _result(sentence, told, {"commands": [command_line(wishes) for wishes in parts]})


def several_sum(plans: Sequence[Plan], lang: Lang) -> str:
    """What the plans of several models or steps cost together."""
    done = [(plan.workload, plan.best.cost.total_usd) for plan in plans if plan.best is not None]
    month = sum(cost for workload, cost in done if workload.task == "serve")
    once = sum(cost for workload, cost in done if workload.task != "serve")
    currency = done[-1][0].currency if done else "usd"
    sums = {"total": q.money_text(month, currency), "once": q.money_text(once, currency)}
    if not month:
        return label("several", "sum", lang, **sums)
    return "\n".join((label("several", "once" if once else "together", lang, **sums), label("several", "shared", lang)))


def wishes_by_step(found: Understood) -> list[dict[str, Any]]:
    """The wishes of each step of a sentence that names several things to do with its data, in its
    order; empty where it does not, or does not read them one by one."""
    told = next((one.fields for one in found.assumed if one.key == "workload.assumed_heaviest"), None)
    if told is None or found.weighty:
        return []
    verbs = sorted((str(told["verb"]), *str(told["others"]).split(", ")), key=found.sentence.find)
    steps = []
    for verb in verbs:
        alone = functools.reduce(lambda rest, other: rest.replace(other, " "), [one for one in verbs if one != verb], found.sentence)
        read = _read(alone)
        if read is None or "operation" not in read.wishes or "data" not in read.wishes:
            return []
        steps.append(read.wishes)
    return steps


def _typical(sentence: str, rows: Iterable[Mapping[str, str]], found: Understood, catalog: Catalog) -> CheckResult | None:
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    commands = list[str]()
    questions = without_questions(sentence).questions
    for row, wishes in typical_wishes(list(rows), found.wishes):
        if (plan := _planned(wishes, catalog)) is None or plan.best is None:
            continue
        commands.append(command_line(wishes))
        for lang in LANGS:
            way = way_text(plan.best, lang)
            told[lang].append(_text("typical", lang, model=row["model"], why=row[f"why_{lang}"], way=way, command=commands[-1]))
            told[lang] += answers(questions, plan, catalog, lang)
        if len(commands) == MOST_MODELS:
            break
    if not commands:
        return None
    for lang in LANGS:
        told[lang].append(_text("question", lang))
    return _result(sentence, told, {"commands": commands})


def planned_answer(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a question about a job, from its plan: what it asks beside the wish, then the
    server that leads. None where it is no whole wish."""
    asked = settle(sentence, catalog)
    found = _read(asked.wish)
    if found is None or "model" not in found.wishes or found.weighty or wishes_by_model(found):
        return None
    wishes = {**found.settled(), **asked.chosen}
    plan = _planned(wishes, catalog)
    if plan is None:
        return None
    told = {lang: asked.lines(plan, catalog, lang) for lang in LANGS}
    command = command_line(wishes)
    if plan.best is not None:
        for lang in LANGS:
            told[lang].append(plan_line(plan, command, lang))
    elif is_question(sentence):
        for lang in LANGS:
            shown = plan_text(plan, lang)
            told[lang] += [shown.headline, *shown.advice[:1], f"`{command}`"]
    return _result(sentence, told, {"commands": [command]}) if all(told.values()) else None


def asked_rule(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a question about hardware alone, by a rule of thumb; None of any other
    sentence."""
    from rightfit.explain.rule_lookup import rule_answer
    from rightfit.explain.rules import all_rules

    row = next((row for row in topic("open_wishes")["alone"] if re.search(row["words"], sentence, re.IGNORECASE)), None)
    if row is None:
        return None
    verdict = row.get("verdict", "")
    if verdict and (not is_question(sentence) or (found := _read(sentence)) is None or {"model", "data"} & set(found.wishes)):
        return None
    answer = rule_answer(sentence, all_rules()[row["rule"]], catalog)
    return dataclasses.replace(answer, claim={"need": answer.claim, "without": turned(answer.claim)}.get(verdict))


def moving_price(sentence: str, catalog: Catalog) -> CheckResult | None:
    """What it costs to move so many bytes out of a region, cloud by cloud; None of any other
    question."""
    found = _read(without_questions(sentence).wish)
    if not _says("moving", sentence) or found is None or "model" in found.wishes:
        return None
    place = str(found.wishes.get("data_location") or found.wishes.get("region") or "").rpartition("/")[2]
    try:
        size = parse_data(str(found.wishes["data"])).bytes if "data" in found.wishes else math.nan
        regions = catalog.find_regions(place) if place else ()
    except RightfitError:
        return None
    stores: Mapping[str, str] = topic("open_wishes")["words"]["stores"]
    named = {cloud for store, cloud in stores.items() if re.search(rf"(?<![A-Za-z]){store}(?![A-Za-z])", sentence)}
    named |= {one for one in str(found.wishes.get("cloud", "")).split(",") if one}
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for region in [one for one in regions if not named or one.provider in named][:_MOST_CLOUDS]:
        prices = [catalog.egress_price(region.provider, region.region, destination=where) for where in ("other_region", "internet")]
        if not any(prices) or not size or not math.isfinite(size):
            continue
        for lang in LANGS:
            other, internet = (q.money_text(one.cost_usd(size / 1e9)) if one else _text("moved_unknown", lang) for one in prices)
            cloud, amount = q.provider_text(region.provider, lang), q.data_text(size)
            date = next(one.as_of for one in prices if one)
            told[lang].append(
                _text("moved", lang, cloud=cloud, amount=amount, region=region.region, other=other, internet=internet, date=date)
            )
    return _result(sentence, told, {"place": place, "bytes": size}) if told["en"] else None


_MOST_CLOUDS = 3


_MEMORY = re.compile(r"(?<![A-Za-z0-9.])(?P<amount>\d+(?:\.\d+)?)\s*G(?:i?B)?(?![A-Za-z0-9/])", re.IGNORECASE)


def largest_model(sentence: str, catalog: Catalog) -> CheckResult | None:
    """How large a model some hardware, memory or money takes; None of any other question."""
    words = re.search(topic("open_wishes")["words"]["largest"], sentence, re.IGNORECASE)
    if words is None:
        return None
    rest = f"{sentence[: words.start()]} {sentence[words.end() :]}"
    memory = _MEMORY.search(rest)
    found = _read(rest) if memory is None else _read(_MEMORY.sub(" ", rest))
    if found is None or "model" in found.wishes:
        return None
    given = {name: value for name, value in found.wishes.items() if name in _OF_LARGEST}
    if found.own_machine and memory is None:
        number, _, card = found.own_machine.partition("@")[0].partition("x")
        given |= {"gpu": card, "num_gpus": number}
    if {"gpu", "budget"}.isdisjoint(given) and memory is None:
        return None
    sized = _read(rest) if memory is not None else None
    if sized is not None and "gpu" in sized.wishes:  # "A100 40G": the memory is the card's name
        given["gpu"], memory = sized.wishes["gpu"], None
    if _says("tuned", sentence):
        ways = [
            {"task": "finetune", "method": str(given.get("method", method)), "data": "10Mtok", "offload": "none"}
            for method in ("full", "lora", "qlora")
        ]
        ways = [way for at, way in enumerate(ways) if way not in ways[:at]]
    else:
        load = {} if {"rate", "users"} & set(given) else UNHURRIED
        formats = [given["quantization"]] if "quantization" in given else ["none", "int4"]
        ways = [{"task": "serve", **load, "quantization": one} for one in formats]
    had = float(memory["amount"]) * GIB if memory else 0.0
    if "gpu" in given:
        cards, count = facts.match_accelerators(given["gpu"]), int(given.setdefault("num_gpus", "1"))
        if cards and "budget" not in given and server_with(catalog, cards, count) is None:  # nobody rents one: by the memory of each
            had = float(facts.accelerators()[cards[-1]].memory_bytes)
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for way in ways:
        for lang, line in _largest_line({**given, **way}, had, catalog).items():
            told[lang].append(line)
    return _result(sentence, told, {"wishes": given})


_OF_LARGEST = frozenset({"gpu", "num_gpus", "budget", "cloud", "method", "quantization", "users", "rate", "region", "purchase"})


def _largest_line(wishes: Mapping[str, Any], had: float, catalog: Catalog) -> dict[Lang, str]:
    """The largest size that is done by one way, in each language."""
    sizes, above = topic("open_wishes")["words"]["sizes"].split(), ""
    for size in sizes:
        fields: dict[str, Any] = {"size": size}
        if had:
            need = _need({**wishes, "model": size}, catalog)
            key, is_done = "largest_memory", need <= 0.95 * had
            fields |= {"need": q.memory_text(need), "had": q.memory_text(had)}
        else:
            plan = _planned({**wishes, "model": size}, catalog)
            key, is_done = "largest", plan is not None and plan.best is not None
            fields |= {"plan": plan, "command": command_line({"model": size, **wishes})}
        if is_done:
            break
        above = size
    told: dict[Lang, str] = {}
    for lang in LANGS:
        if not is_done:
            told[lang] = _text("largest_none", lang, size=sizes[-1])
            continue
        way = way_text(fields["plan"].best, lang) if "plan" in fields else ""
        line = _text(key, lang, how=_how(wishes, lang), **{**fields, "way": way})
        told[lang] = line + (("" if lang == "zh" else " ") + _text("largest_not", lang, size=above) if above else "")
    return told


def _how(wishes: Mapping[str, Any], lang: Lang) -> str:
    if wishes["task"] == "finetune":
        return _text("how_tune", lang, method=q.method_text(str(wishes["method"]), lang))
    weights = str(wishes.get("quantization", ""))
    return _text("how_serve" if weights == "none" else "how_served_in", lang, format=weights)


def _need(wishes: Mapping[str, Any], catalog: Catalog) -> float:
    """Memory of one GPU that a job takes at least; of a service its weights and some cache."""
    return least_bytes(
        {name: value for name, value in wishes.items() if name not in ("gpu", "num_gpus", "budget", "latency", "rate")}, catalog
    )


def _read(sentence: str) -> Understood | None:
    from rightfit.workload.ask import understand

    try:
        return understand(sentence)
    except RightfitError:
        return None


def _planned(wishes: Mapping[str, Any], catalog: Catalog) -> Plan | None:
    from rightfit.planner.plan import plan
    from rightfit.workload.model import Workload

    try:
        return plan(Workload(**wishes), catalog=catalog, top=1)
    except RightfitError:
        return None


def _result(sentence: str, told: Mapping[Lang, list[str]], known: Mapping[str, Any]) -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    return CheckResult(sentence, "market", True, None, dict(known), (), "\n".join(told["en"]), "\n".join(told["zh"]))
