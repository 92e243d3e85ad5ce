"""The words of claims (data/claims.toml) and what a claim is told with: shared by all that read
what people say of cards, servers, clouds and models."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.explain import quantities as q
from rightfit.explain.messages import topic
from rightfit.facts.expressions import Expression, either, expression
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog

#: What only servers are called: a family with a digit, a dot, a size.
NAMED_SERVER = re.compile(r"(?<![\w.])(?:ecs\.)?[A-Za-z]+\d[\w\-]*\.[\w]*(?:large|medium|small|xlarge|LARGE|MEDIUM)\w*(?![\w.])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict (right, wrong, unknown) with its reason in each language."""

    kind: str
    claim: str
    reason: Mapping[Lang, str]
    facts: Mapping[str, Any]


def table() -> Mapping[str, Any]:
    """The words and texts of claims (data/claims.toml)."""
    return topic("claims")


def text_of(key: str, lang: Lang, **fields: str) -> str:
    text: str = table()["texts"][key][lang]
    return text.format(**fields)


def both(key: str, **fields: Any) -> dict[Lang, str]:
    """A text in each language; a field may be a text in each language itself."""
    return {lang: text_of(key, lang, **{name: _in(value, lang) for name, value in fields.items()}) for lang in LANGS}


def _in(value: Any, lang: Lang) -> str:
    return str(value[lang]) if isinstance(value, Mapping) else str(value)


@functools.cache
def words_of(group: str) -> Expression:
    """All words of a group of data/claims.toml as one pattern whose groups are numbered by word."""
    return any_of(word for words in table()[group].values() for word in words)


@functools.cache
def word_pattern(words: tuple[str, ...]) -> Expression:
    """Any of these words."""
    return any_of(words)


@functools.cache
def no_claim() -> Expression:
    """How a line begins that claims nothing."""
    return expression(rf"(?:{any_of(table()['lines']['no_claims']).pattern})\s*[:：]")


@functools.cache
def verb(name: str) -> Expression:
    """The words of a verb of data/claims.toml."""
    return any_of(table()["verbs"][name])


def any_of(words: Iterable[str]) -> Expression:
    return expression(either(words, lambda word: ("(?<![A-Za-z0-9])", "(?![A-Za-z0-9])") if word.isascii() else ("", "")))


def named(group: str, text: str) -> str:
    """The entry of a group whose word stands in the text, or ""."""
    found = words_of(group).search(text)
    if found is None:
        return ""
    named: str = next(name for name, words in table()[group].items() if found[0].casefold() in map(str.casefold, words))
    return named


def job_text(workload: Mapping[str, Any], method: str = "") -> dict[Lang, str]:
    model = str(workload["model"]).rsplit("/", 1)[-1]
    if workload["task"] == "serve":
        told = str(workload.get("quantization") or "")
        return both("job_serve", model=model, format=both("job_format", format=told.upper()) if told else "")
    told = method or str(workload.get("method", ""))
    if workload["task"] == "batch":
        return both("job_batch", model=model)
    if workload["task"] == "train" and not told:
        return both("job_train", model=model, way=topic("fit_questions")["train"])
    way = {lang: q.method_text(told or "full", lang) for lang in LANGS}
    return both("job_train", model=model, way=way)


_CARD = re.compile(
    r"(?:昇腾|Ascend) ?\d{3}[A-Z]?(?![A-Za-z0-9])|GTX ?\d{4}(?: ?Ti)?(?![A-Za-z0-9])"
    r"|[A-Za-z][A-Za-z0-9-]*\d[A-Za-z0-9-]*(?: ?\d{2,3} ?G(?:i?B)?(?![A-Za-z0-9]))?|(?<![\d.A-Za-z-])[2345]0[5-9]0(?: ?Ti)?(?![\dA-Za-z])",
    re.IGNORECASE,
)


def card_pattern() -> re.Pattern[str]:
    """What may be the name of a card."""
    return _CARD


def cards_of(said: str) -> list[tuple[str, tuple[str, ...]]]:
    """The cards that a sentence names, as they are written; a version alone ("deepseek v3") names
    none."""
    found = (one[0] for one in _CARD.finditer(said) if not re.fullmatch(r"v\d[a-z]?", one[0], re.IGNORECASE))
    return [(spoken, names) for spoken in found if (names := facts.match_accelerators(spoken))]


def faster_text(one: Accelerator, other: Accelerator) -> dict[Lang, str]:
    """How many times the arithmetic and the memory bandwidth of another card one has."""
    speed, memory = best_rate(one) / best_rate(other), one.memory_bandwidth / other.memory_bandwidth
    return both("faster", first=one.name, second=other.name, speed=f"{speed:.2g}", memory=f"{memory:.2g}")


def best_rate(card: Accelerator) -> float:
    """The fastest of the rates of a card in 16 and 32 bits [FLOP/s]."""
    return max(card.bf16_flops, card.fp16_flops, card.fp32_flops)


def usual_card(names: Sequence[str], catalog: Catalog) -> Accelerator:
    """Of the forms of a card the one with links and most memory, of those that somebody rents."""
    records, rented = facts.accelerators(), carried(catalog)
    if not (among := [name for name in names if rented[name]]):
        return records[next((name for name in names if any(rented[label] for label in facts.labelled_as((name,)))), names[0])]
    return max((records[name] for name in among), key=lambda card: (card.form != "pcie", card.nvlink_bandwidth, card.memory_bytes))


def carried(catalog: Catalog) -> Counter[str]:
    """How many servers of the catalog have each card."""
    return Counter(catalog.servers().accelerator_name)
