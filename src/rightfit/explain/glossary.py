"""Words of the field and symptoms, explained in both languages with figures of our own tables
(data/glossary.toml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rightfit.explain.messages import topic
from rightfit.explain.rule_match import folded
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market.verdicts import CheckResult

_ASKED = re.compile(
    r"^(?:what(?:'s| is| are| does)|什么是|啥是|解释一下|为(?:什么|何)要?(?:选择?|用|推荐)|why (?:use|choose)|explain|define)\s*(?:an?\s+|the\s+)?|\s*(?:是什么(?:意思)?|是啥|什么意思|的含义|mean)?\s*[?？]?$",
    re.IGNORECASE,
)
_CARD_FIGURES: Mapping[str, tuple[str, float, str]] = {
    "memory": ("memory_bytes", 2.0**30, "GiB"),
    "bandwidth": ("memory_bandwidth", 1e9, "GB/s"),
    "nvlink": ("nvlink_bandwidth", 1e9, "GB/s"),
    **{name: (f"{name}_flops", 1e12, "TFLOPS") for name in ("fp16", "bf16", "fp8")},
    "int8": ("int8_ops", 1e12, "TOPS"),
}


def glossary() -> Mapping[str, Any]:
    """Every term by id: its words, what it means in each language, and a command to ask."""
    return topic("glossary")


def term_text(name: str, lang: Lang) -> str:
    """What a term means, with the figures of cards filled in from the table of cards."""
    from rightfit import facts

    def figure(found: re.Match[str]) -> str:
        column, unit, shown = _CARD_FIGURES[found["figure"]]
        return f"{getattr(facts.accelerators()[found['card']], column) / unit:,.4g} {shown}"

    told = re.sub(r"\{(?P<card>[\w-]+)\.(?P<figure>\w+)\}", figure, glossary()[name][lang])
    return f"{told} `{glossary()[name]['ask']}`"


def term_lookup(query: str) -> CheckResult | None:
    """The answer to a word of the field, asked for alone or as "what is ..."; to two of them whose
    difference is asked; and to a symptom in a longer sentence that asks for help."""
    names = _asked_terms(query)
    if not names:
        return None
    from rightfit.market.verdicts import CheckResult

    texts = ["\n".join(term_text(name, lang) for name in names) for lang in LANGS]
    told = {"id": names[0], "ask": glossary()[names[0]]["ask"]}
    return CheckResult(query, "term", True, None, told, (), texts[0], texts[1])


def _asked_terms(query: str) -> list[str]:
    asked = {folded(query), folded(_ASKED.sub("", query.strip()))}
    whole = next((name for name, entry in glossary().items() if asked & set(map(folded, entry["words"]))), None)
    if whole is not None:
        return [whole]
    said = folded(query)
    if _DIFFERENCE.search(query) and len(held := _held(query)) in (1, 2) and _JOINED.search(query):
        return held
    if _TROUBLE.search(query):
        found = (
            name for name, entry in glossary().items() if entry.get("is_symptom") and any(folded(word) in said for word in entry["words"])
        )
        return [name] if (name := next(found, None)) else []
    return []


def _held(query: str) -> list[str]:
    """The terms that a question is about; [] where it is about more than terms, as a wish is."""
    found, rest = list[str](), query
    words = ((word, name) for name, entry in glossary().items() for word in entry["words"])
    for word, name in sorted(words, key=lambda one: -len(one[0])):
        bound = r"(?<![A-Za-z0-9]){}(?![A-Za-z0-9])" if word.isascii() else "{}"
        rest, count = re.subn(bound.format(re.escape(word)), " ", rest, flags=re.IGNORECASE)
        if count and name not in found:
            found.append(name)
    return [] if _FILLER.sub("", _DIFFERENCE.sub("", rest)) else sorted(found, key=lambda name: _place(name, query))


def _place(name: str, query: str) -> int:
    folded_query = query.casefold()
    return min((at for word in glossary()[name]["words"] if (at := folded_query.find(word)) >= 0), default=len(query))


_DIFFERENCE = re.compile(
    r"区别|差别|差异|不同|对比|还是|哪个更?好|怎么选|选哪个|differences?|\bvs\b|\bversus\b|\bor\b|compared?", re.IGNORECASE
)
#: Two of a kind may be one term ("ZeRO-2 or ZeRO-3").
_JOINED = re.compile(r"和|与|跟|还是|或|、|\bor\b|\bvs\b|\bversus\b|\band\b|\bto\b", re.IGNORECASE)
_FILLER = re.compile(
    r"\b(?:what(?:'s)?|is|are|the|between|and|with|to|which|better|should|i|use|for)\b|[\s?？,，。.、和与跟同]|有什么|有何|是什么|什么|的|用|选|应该|好|呢|吗",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"怎么|怎么样|如何|会.*[吗么]|为什么|报错|是不是|原因|卡在|why|what happens|what if|\bhow (?:do|can|to)|what (?:do|can|should) i|fix|error|help",
    re.IGNORECASE,
)
