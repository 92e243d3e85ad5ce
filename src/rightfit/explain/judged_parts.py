"""A sentence judged clause by clause: by figures of cards and by arithmetic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rightfit.explain.arithmetic_claims import READERS
from rightfit.explain.card_claims import card_readers
from rightfit.explain.cloud_claims import cloud_readers
from rightfit.explain.statement_parts import Part, Told, clauses, figures, overall, spaced, states
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult


def parts_of(text: str, catalog: Catalog) -> list[Part]:
    """Every clause of a sentence with its verdict."""
    told, found = Told(), list[Part]()
    for clause in clauses(text):
        read = [part for reader in (*cloud_readers(catalog), *card_readers(catalog), *READERS) for part in reader(clause, told)]
        found += read or ([] if _is_label(clause, text) else [Part(clause, "open")])
    return found


def _is_label(clause: str, text: str) -> bool:
    """What stands before a colon only says what the rest is about."""
    return bool(re.search(rf"{re.escape(clause)}\s*[:：]", spaced(text)))


def parts_lookup(query: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a sentence of which at least one clause can be judged: wrong where one is,
    right where all are (advice and words without a claim aside), else unknown."""
    from rightfit.market.verdicts import CheckResult

    found = parts_of(query, catalog)
    told = [part for part in found if part.word != "open"]
    if not told:
        return None
    texts = {lang: _text(found, lang) for lang in LANGS}
    facts = {"parts": [{"text": part.said, "verdict": part.word} for part in found], "is_common": len(found) == 1 and found[0].is_common}
    return CheckResult(query, "rule", True, overall(found), facts, (), texts["en"], texts["zh"])


def _text(found: Sequence[Part], lang: Lang) -> str:
    if len(found) == 1:
        return found[0].reason[lang] + ("。" if lang == "zh" else ".")
    shown = [part for part in found if part.word != "open" or states(part.said)]
    if len(shown) == 1:
        return shown[0].reason[lang] + ("。" if lang == "zh" else ".")
    told = [figures()["texts"][f"part_{part.word}"][lang].format(said=part.said, reason=part.reason.get(lang, "")) for part in shown]
    return "\n".join(told)
