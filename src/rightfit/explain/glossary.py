"""Words of the field and symptoms, explained in both languages with figures of our own tables
(data/glossary.toml)."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain.messages import topic
from rightfit.explain.rule_match import folded
from rightfit.facts.expressions import Expression, either, expression
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
    return f"{with_figures(glossary()[name][lang])} `{glossary()[name]['ask']}`"


def with_figures(text: str) -> str:
    """A text with the figures of cards ({T4.memory}) from the table of cards."""
    from rightfit import facts

    def figure(found: re.Match[str]) -> str:
        column, unit, shown = _CARD_FIGURES[found["figure"]]
        return f"{getattr(facts.accelerators()[found['card']], column) / unit:,.4g} {shown}"

    return re.sub(r"\{(?P<card>[\w-]+)\.(?P<figure>\w+)\}", figure, text)


def term_lookup(query: str) -> CheckResult | None:
    """The answer to a word of the field, asked for alone or as "what is ..."; to two of them whose
    difference is asked; and to a symptom in a longer sentence that asks for help."""
    names = _asked_terms(query)
    if not names:
        return None
    return told_terms(names, query)


def told_terms(names: Sequence[str], query: str) -> CheckResult:
    """What these terms mean, as the answer to a question."""
    from rightfit.market.verdicts import CheckResult

    texts = ["\n".join(term_text(name, lang) for name in names) for lang in LANGS]
    told = {"id": names[0], "ask": glossary()[names[0]]["ask"]}
    return CheckResult(query, "term", True, None, told, (), texts[0], texts[1])


def as_nearest(told: CheckResult, query: str) -> CheckResult:
    """What a word means as the nearest to a question that asks more than that; a symptom answers
    it."""
    from rightfit.explain.yes_or_no import is_open

    if glossary()[str(told.facts["id"])].get("is_symptom") or defined_terms(query) or is_open(query):
        return told
    heads = topic("nearest")["texts"]["head"]
    en, zh = f"{heads['en']}\n{told.explanation_en}", f"{heads['zh']}\n{told.explanation_zh}"
    return dataclasses.replace(told, explanation_en=en, explanation_zh=zh)


def terms_in(query: str) -> list[str]:
    """The terms that a question is about, where nothing else answers it: its symptom, else the
    other words of the field in the order in which they stand, without those that every question
    about servers has."""
    found = list(dict.fromkeys(_name_of(one[0]) for one in _words().finditer(query)))
    if symptom := next((name for name in glossary() if name in found and glossary()[name].get("is_symptom")), ""):
        return [symptom]
    return [name for name in found if not glossary()[name].get("is_general")]


_MOST_SYMPTOMS = 2
#: Said of its own with figures (memory_out).
_WORKED_OUT = "out_of_memory"


def symptoms_in(post: str) -> list[str]:
    """The faults whose signs stand in a post, the longest sign first."""
    signs = {_name_of(one[0]): len(one[0]) for one in sorted(_words().finditer(post), key=lambda one: len(one[0]))}
    found = [name for name in signs if glossary()[name].get("is_symptom") and name != _WORKED_OUT]
    return sorted(found, key=lambda name: -signs[name])[:_MOST_SYMPTOMS]


def defined_terms(query: str) -> list[str]:
    """The term that a sentence asks the meaning of, whatever else it asks ("什么是 NVLink，微调 7B
    需要吗")."""
    for asked in _MEANING.finditer(query):
        if asked["before"]:
            found = _words().match(query, asked.end())
        else:
            found = next((one for one in _words().finditer(query[: asked.start()]) if not query[one.end() : asked.start()].strip()), None)
        if found is not None:
            return [_name_of(found[0])]
    return []


#: The words that ask for the meaning of what stands right behind or right before them.
_MEANING = re.compile(
    r"(?P<before>(?:什么是|啥是|何为|解释一下|\bwhat(?:'s| is| are)(?: an?| the)?(?![a-z])|\bexplain(?: an?| the)?(?![a-z]))\s*)"
    r"|(?:是什么意思|是啥意思|什么意思|是什么东西|是什么(?=\s*(?:[?？,，。]|$)))",
    re.IGNORECASE,
)


@functools.cache
def _words() -> Expression:
    """Every word of every term, the longest first."""
    return expression(either((word for entry in glossary().values() for word in entry["words"]), _edges, _spaced))


def _name_of(spoken: str) -> str:
    """The term of a word as it stands in a sentence."""
    return _names()["".join(spoken.split()).casefold()]


@functools.cache
def _names() -> Mapping[str, str]:
    return {"".join(word.split()).casefold(): name for name, entry in glossary().items() for word in entry["words"]}


def _edges(word: str) -> tuple[str, str]:
    """A word stands alone."""
    return r"(?<![A-Za-z0-9])" if word[0].isascii() else "", r"(?![A-Za-z0-9])" if word[-1].isascii() else ""


def _spaced(word: str) -> str:
    """Between Latin and Chinese letters there may be a blank."""
    return r"\s*".join(re.escape(part.strip()) for part in re.findall("[一-鿿]+|[^一-鿿]+", word))


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
    found = list(dict.fromkeys(_name_of(one[0]) for one in _words().finditer(query)))
    return [] if _FILLER.sub("", _DIFFERENCE.sub("", _words().sub(" ", query))) else found


_DIFFERENCE = re.compile(
    r"区别|差别|差异|不同|对比|还是|哪个更?好|怎么选|选哪个|differences?|\bvs\b|\bversus\b|\bor\b|compared?", re.IGNORECASE
)
#: Two of a kind may be one term ("ZeRO-2 or ZeRO-3").
_JOINED = expression(r"和|与|跟|还是|或|、|\bor\b|\bvs\b|\bversus\b|\band\b|\bto\b")
_FILLER = re.compile(
    r"\b(?:what(?:'s)?|is|are|the|between|and|with|to|which|better|should|i|use|for)\b|[\s?？,，。.、和与跟同]|有什么|有何|是什么|什么|的|用|选|应该|好|呢|吗",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"怎么|怎么样|如何|会.*[吗么]|正常|为什么|报错|是不是|原因|卡在|why|what happens|what if|\bhow (?:do|can|to)|what (?:do|can|should) i|fix|error|help",
    re.IGNORECASE,
)
