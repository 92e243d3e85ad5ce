"""Sentences that leave something open: a wish that names no model is planned with typical ones, or
with three questions and their defaults; a question that only a plan answers is answered by it.

Words and texts are data (data/open_wishes.toml).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain.beside import answers, command_line, settle, way_text, without_questions
from rightfit.explain.messages import topic
from rightfit.messages import LANGS, Lang
from rightfit.planner.typical import MOST_MODELS, typical_rows, typical_wishes

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult
    from rightfit.search.answer import Plan
    from rightfit.workload.ask import Understood


def _says(name: str, sentence: str) -> bool:
    return bool(re.search(topic("open_wishes")["words"][name], sentence, re.IGNORECASE))


def _text(key: str, lang: Lang, **fields: Any) -> str:
    text: str = topic("open_wishes")["texts"][key][lang]
    return text.format(**fields)


def open_wish(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a sentence that names no model: by the typical ones for its kind of data, else
    by one of each kind with the questions that narrow it. None where it names one, or says what
    no option takes."""
    found = _read(without_questions(sentence).wish)
    if found is None or "model" in found.wishes or found.wishes.get("task") == "prepare" or found.weighty or found.unknown_model():
        return None
    rows = typical_rows(sentence, found.kind, str(found.wishes.get("task", "")))
    return _typical(sentence, rows, found, catalog) if rows else vague_wish(sentence, catalog)


def vague_wish(sentence: str, catalog: Catalog) -> CheckResult | None:
    """Three questions with their defaults, each kind of data planned with them: of a wish that says
    neither a model nor what its data are."""
    found = _read(without_questions(sentence).wish)
    if found is None or {"model", "gpu", "cloud", "operation"} & set(found.wishes) or found.weighty or found.unknown_model():
        return None
    if not (_says("wish", sentence) and _says("asks", sentence)) or _says("other", sentence):
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
    if not commands:
        return None
    for lang in LANGS:
        asked = [_text("head", lang), _text("which", lang), _text("amount", lang, amounts=" / ".join(amounts)), _text("limit", lang)]
        told[lang] = [*asked, *told[lang]]
    return _result(sentence, told, {"commands": commands})


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
    if found is None or "model" not in found.wishes or found.weighty:
        return None
    wishes = {**found.settled(), **asked.chosen}
    plan = _planned(wishes, catalog)
    if plan is None:
        return None
    told = {lang: asked.lines(plan, catalog, lang) for lang in LANGS}
    command = command_line(wishes)
    if plan.best is not None:
        for lang in LANGS:
            told[lang].append(_text("planned", lang, way=way_text(plan.best, lang), command=command))
    return _result(sentence, told, {"commands": [command]}) if all(told.values()) else None


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
