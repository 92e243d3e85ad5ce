"""Which series of a cloud carry the GPUs that a question names ("which Azure series has A10, which
T4, which H100"), and what the letters of its series mean.

Words, letters and texts are data (data/cloud_series.toml).
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.card_questions import cards_named
from rightfit.explain.market_questions import card_rows, clouds_of
from rightfit.explain.messages import topic, topic_text, topic_words
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_words = functools.partial(topic_words, "cloud_series")
_text = functools.partial(topic_text, "cloud_series")
_MOST_OTHERS = 4


def cloud_series(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to such a question; None of any other sentence."""
    from rightfit import lookup
    from rightfit.market.verdicts import CheckResult

    if not is_question(sentence) or not _words("series").search(sentence) or not _words("which").search(sentence):
        return None
    if _words("other").search(sentence):
        return None
    wishes = _wishes(sentence)
    clouds = lookup.read_names("cloud", str(wishes["cloud"])) if "cloud" in wishes else ()
    if len(clouds) != 1 or "model" in wishes:
        return None
    (cloud,) = clouds
    letters = [row for row in topic("cloud_series")["letters"] if row["cloud"] == cloud and expression(row["words"]).search(sentence)]
    cards = cards_named(sentence, catalog)
    if len(cards) + len(letters) < 2:
        return None
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for lang in LANGS:
        where = q.provider_text(cloud, lang)
        for card in cards:
            names = _forms(card.name)
            rows = card_rows(cloud, names, catalog, lang)
            if not rows:
                others = [q.provider_text(one, lang) for one, _ in clouds_of(names, catalog)[:_MOST_OTHERS]]
                joined = ("、" if lang == "zh" else ", ").join(others)
                rows = [_text("none" if others else "nowhere", lang, card=card.name, cloud=where, others=joined)]
            told[lang] += rows
        told[lang] += [row[lang] for row in letters]
        told[lang].append(_text("catch", lang))
    known = {"cards": [card.name for card in cards], "cloud": cloud}
    return CheckResult(sentence, "market", True, None, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def _forms(name: str) -> tuple[str, ...]:
    """The forms of a card, whatever their links and memory: H100 SXM, PCIe and NVL."""
    from rightfit import facts

    series = name.split("-")[0]
    forms = tuple(one for one in facts.accelerators() if re.fullmatch(rf"{re.escape(series)}(?:-.*)?", one))
    return (name,) if name.startswith(("RTX", "ALI")) else forms


def _wishes(sentence: str) -> dict[str, Any]:
    from rightfit.explain.beside.questions import without_questions
    from rightfit.workload.ask import understand

    try:
        return understand(without_questions(sentence).wish).wishes
    except RightfitError:
        return {}
