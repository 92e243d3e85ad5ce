"""Which rule of thumb a sentence states, in whatever words.

A sentence and every known wording of every rule are reduced to what they speak about: concepts
(data/concepts.toml) and quantities with their units. The rule whose wording shares most with the
sentence is meant, provided that little of the sentence is left over. A sentence that gives another
quantity of the same kind ("7B needs 48 GB" beside "7B needs 24 GB") states the same rule with that
value, and is judged by it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from rightfit.explain.messages import say
from rightfit.explain.rule_measures import REASONS
from rightfit.explain.rules import RuleOfThumb, all_rules
from rightfit.facts.expressions import Expression, either, expression
from rightfit.messages import LANGS
from rightfit.records import dataclass

_DATA = Path(__file__).with_name("data")

#: How much of a sentence a rule must share, and how much of a rule a sentence must say, by weight.
_LEAST_SHARED = 0.72
_LEAST_SAID = 0.45
_LEFT_LATIN, _LEFT_CHARACTER = 1.2, 0.5
_QUANTITY_WEIGHT = 2.5
#: Rules that say how much is needed.
_OF_AMOUNTS = frozenset({"need", "enough", "at_most", "gpus", "network", "host", "saving"})

#: Concepts that name a thing without saying anything of it.
_THINGS = frozenset({"gpu", "a100", "h100", "t4", "server", "high_end", "every"})

_FOLDED = (
    ("≥", ">="),
    ("≤", "<="),
    ("×", "x"),
    ("＞", ">"),
    ("＜", "<"),
    ("–", "-"),
    ("—", "-"),
    ("～", "-"),
    ("~", "-"),
    ("％", "%"),
    ("，", ","),
    ("（", "("),
    ("）", ")"),
    ("：", ":"),
)
_CHINESE_NUMBERS = {"单": "1", "一": "1", "两": "2", "二": "2", "双": "2", "三": "3", "四": "4", "八": "8", "十": "10"}
_ENGLISH_NUMBERS = {"one": "1", "a single": "1", "single": "1", "two": "2", "four": "4", "eight": "8"}
_COUNTED = re.compile(
    r"([单一两二双三四八十])(?=[块张卡台倍个]|\s?(?:a100|h100|rtx|t4|v100|a10|gpu))|\b(one|a single|single|two|four|eight)(?=[ -](?:[a-z0-9]+ ){0,2}(?:card|gpu|a100|h100))"
)
#: A unit as it is written, the dimension it measures and its size in that dimension's base unit.
_UNITS: tuple[tuple[str, str, float], ...] = (
    (r"gbps|gbit/?s|gb带宽", "bandwidth", 1e9 / 8),
    (r"tb/s", "rate", 1e12),
    (r"gb/s|gib/s", "rate", 1e9),
    (r"mb/s", "rate", 1e6),
    (r"tb|tib|t(?![a-z0-9])", "bytes", 1e12),
    (r"gb|gib|g(?![a-z0-9])", "bytes", 1e9),
    (r"%", "percent", 0.01),
    (r"b(?![a-z])|billion", "parameters", 1e9),
    (r"倍|x(?=\s*(?:the|gpu|total|model|weights|显存|vram|ram|模型|参数))|times", "factor", 1.0),
    (r"核|v?cpus?(?![a-z])|cores?|c(?=\s*(?:cpu|\+))", "cores", 1.0),
    (r"卡|块|张|cards?|gpus?(?![a-z])|x(?=\s*[a-z])", "cards", 1.0),
    (r"bits?|位", "bits", 1.0),
)
_UNIT = "|".join(f"(?P<u{at}>{pattern})" for at, (pattern, _, _) in enumerate(_UNITS))
_NUMBER = r"\d+(?:\.\d+)?"
_QUANTITY = re.compile(
    rf"(?P<less><=?|小于|低于|不到|不足|under|below|less than|up to)?\s*(?<![a-z0-9.])(?<![a-z]-)(?:(?P<first>{_NUMBER})\s*(?:{_UNIT.replace('?P<u', '?P<f')})?\s*(?:-|到|至|to|/)\s*)?(?P<last>{_NUMBER})\s*(?:{_UNIT})"
)
#: Nouns that an amount of bytes may belong to, and the thing that each of them means.
_NOUNS = {
    "vram": "vram",
    "ram": "ram",
    "disk": "disk",
    "nvme": "disk",
    "data": "data",
    "small_data": "data",
    "large_data": "data",
    "gpu": "vram",
    "a100": "vram",
}
_TIMES_LAST = re.compile(rf"[x*]\s*({_NUMBER})(?![\d.]*\s*[a-z])")  # "weights x 1.5"
_DIMENSIONS = {"memory": "bytes", "data": "bytes", "bandwidth": "bandwidth", "percent": "percent", "rate": "rate", "count": "count"}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit in a sentence: `low` to `high` in base units (bytes of 10^9 a GB,
    bytes/s, fractions, counts); `of` is what it is an amount of, where it is one of bytes."""

    dimension: str
    low: float
    high: float
    is_most: bool = False
    of: str = ""

    def agrees(self, other: Quantity) -> bool:
        """Whether two say the same, a GB or a GiB."""
        near = (math.isclose(one, two, rel_tol=0.08) for one, two in ((self.low, other.low), (self.high, other.high)))
        return self.is_like(other) and self.is_most == other.is_most and all(near)

    def is_like(self, other: Quantity) -> bool:
        """Whether two are amounts of the same thing, as far as both say of what."""
        return self.dimension == other.dimension and (self.of == other.of or not self.of or not other.of)


@dataclass(frozen=True, slots=True)
class Sense:
    """What a sentence speaks about, and the words that no concept covers."""

    concepts: frozenset[str]
    quantities: tuple[Quantity, ...]
    leftover: frozenset[str]


def match_rule(text: str) -> RuleOfThumb | None:
    """The rule that the sentence states, with the sentence's own value where it gives another one;
    None where it states none that we know."""
    said = sense(text)
    if len(said.concepts) + len(said.quantities) < 2:
        return None
    scored = [(score, rule, heard) for rule, heard in _wordings() if (score := _likeness(said, heard, rule)) > 0.0]
    if not scored:
        return None
    _, rule, heard = max(scored, key=lambda one: one[0])
    return _with_value(rule, said, heard, text)


def sense(text: str) -> Sense:
    """Concepts and quantities of a sentence."""
    folded = _TIMES_LAST.sub(r"\g<1>x the ", _fold(text))
    found = [(one.span(), _quantity(one)) for one in _QUANTITY.finditer(folded)]
    rest = folded
    for (start, end), _ in found:
        rest = rest[:start] + " " * (end - start) + rest[end:]
    words = [(one.span(), _concepts()[one.group()]) for one in _words().finditer(rest)]
    quantities = [dataclasses.replace(one, of=_noun(span, words, found, folded) if one.dimension == "bytes" else "") for span, one in found]
    left = re.findall(r"[a-z][\w.+-]*|[\u4e00-\u9fff]|\d+(?:\.\d+)?", _words().sub(" ", rest))
    return Sense(frozenset(concept for _, concept in words if concept), tuple(quantities), frozenset(left))


@functools.cache
def _directions() -> dict[int, Expression]:
    known = tomllib.loads((_DATA / "concepts.toml").read_text(encoding="utf-8"))["directions"]
    return {sign: expression(known[name]) for name, sign in (("equal", 0), ("less", -1), ("more", 1))}


def _compared(text: str) -> dict[str, int]:
    """How a text that compares two things ranks each concept in it: 1 ahead, -1 behind, 0 equal;
    empty where it compares nothing."""
    sign = next((sign for sign, words in _directions().items() if words.search(text)), None)
    folded = _fold(text)
    named = [
        _concepts()[one.group()] for one in _words().finditer(folded) if not any(d.search(one.group()) for d in _directions().values())
    ]
    named = [concept for concept in named if concept]
    return {} if sign is None or not named else {concept: sign if concept == named[0] else -sign for concept in named}


def contradicts(text: str, rule: RuleOfThumb) -> bool:
    """Whether a sentence compares the things that a rule compares, the other way round or as
    equals."""
    said = _compared(text)
    for words in (*rule.aliases, *rule.statement.values()):
        heard = _compared(words)
        if common := sorted(said.keys() & heard.keys()):
            return said[common[0]] != heard[common[0]]
    return False


_Span = tuple[int, int]


def _noun(span: _Span, words: Sequence[tuple[_Span, str]], quantities: Sequence[tuple[_Span, Quantity]], text: str) -> str:
    """What an amount of bytes is an amount of: the noun right after it ("64 GB of RAM"), else the
    one before it with nothing but "at least" between, else the next before another amount."""
    nouns = [(place, concept) for place, concept in words if concept in _NOUNS]
    at_once = next(
        ((place, concept) for place, concept in nouns if place[0] >= span[1] and re.fullmatch(r"(?: of | |的)?", text[span[1] : place[0]])),
        None,
    )
    if at_once and not re.match(r"\s*[:>=]*\s*\d", text[at_once[0][1] :]):
        return _NOUNS[at_once[1]]
    before = [(place, concept) for place, concept in nouns if place[1] <= span[0]]
    if before and not re.sub(r"[\s:>=<,约需要至少为是在以上大于超过]|at least|of|is", "", text[before[-1][0][1] : span[0]]):
        return _NOUNS[before[-1][1]]
    end = min((start for (start, _), _ in quantities if start >= span[1]), default=len(text))
    clause = re.search(r"[,;。；+]", text[span[1] : end])
    end = span[1] + clause.start() if clause else end
    return next((_NOUNS[concept] for place, concept in nouns if span[1] <= place[0] < end), "")


#: A saving without its figure: half of it, or so many tenths of the price that are left.
_HALVED = re.compile(r"(?<=便宜|节省|节约)(?:了|约|大约)?一半|(?<=省)(?:了|约|大约)?一半|(?<=saves )half|(?<=half)(?= the price)")
_TENTHS = re.compile(r"(?:打|约|大约)?\s*(\d)(?:\.(\d))?\s*折")


def _fold(text: str) -> str:
    text = text.casefold()
    text = _HALVED.sub(" 50%", text)
    text = _TENTHS.sub(lambda found: f" 节省 {100 - 10 * int(found[1]) - int(found[2] or 0)}% ", text)
    for written, meant in _FOLDED:
        text = text.replace(written, meant)
    return _COUNTED.sub(
        lambda found: " " + (_CHINESE_NUMBERS.get(found[1]) or _ENGLISH_NUMBERS[found[2]]),
        re.sub(r"\s+", " ", text.replace(" or more", "").replace("twice", "2x the").replace("double", "2x the")),
    )


def _quantity(found: re.Match[str]) -> Quantity:
    at = next(at for at in range(len(_UNITS)) if found[f"u{at}"])
    _, dimension, size = _UNITS[at]
    high = float(found["last"]) * size
    first_unit = next((_UNITS[other] for other in range(len(_UNITS)) if found[f"f{other}"]), _UNITS[at])
    low = float(found["first"]) * first_unit[2] if found["first"] and first_unit[1] == dimension else high
    return Quantity(dimension, min(low, high), high, bool(found["less"]))


@functools.cache
def _table() -> dict[str, str]:
    """Written form -> concept; "" for words that say nothing."""
    known = tomllib.loads((_DATA / "concepts.toml").read_text(encoding="utf-8"))["concepts"]
    table = dict.fromkeys(known.pop("noise"), "")
    return table | {_fold(word): concept for concept, words in known.items() for word in words}


@functools.cache
def _concepts() -> dict[str, str]:
    return _table() | {f"{word}s": concept for word, concept in _table().items() if word.isascii() and word[-1].isalpha()}


@functools.cache
def _words() -> Expression:
    return Expression(either(_concepts(), lambda word: ("(?<![a-z0-9])", "(?![a-z0-9])") if (word[0] + word[-1]).isascii() else ("", "")))


@functools.cache
def _wordings() -> tuple[tuple[RuleOfThumb, Sense], ...]:
    return tuple((rule, sense(words)) for rule in all_rules().values() for words in (*rule.aliases, *rule.statement.values()))


@functools.cache
def _weights() -> dict[str, float]:
    """How much a concept tells: what stands in few rules tells more."""
    owners = {rule.id: set[str]() for rule, _ in _wordings()}
    for rule, heard in _wordings():
        owners[rule.id] |= heard.concepts
    counts = Counter(concept for concepts in owners.values() for concept in concepts)
    return {concept: math.log(1.0 + len(owners) / count) for concept, count in counts.items()}


def _likeness(said: Sense, heard: Sense, rule: RuleOfThumb) -> float:
    """How alike a sentence and one wording are, 0 where they state different rules."""
    if rule.kind in _OF_AMOUNTS and heard.quantities and not _states_value(said, heard, rule):
        return 0.0  # it states no amount of the kind: what it says is something else
    things = _THINGS | set(_NOUNS)
    if not (said.concepts & heard.concepts) - things and heard.concepts - things:
        return 0.0  # they name the same things and say other things of them
    weigh = _weights()
    if (subjects := heard.concepts - things) and max(subjects, key=lambda one: (weigh[one], one)) not in said.concepts:
        return 0.0  # what the wording is about is not said
    rare = math.log(1.0 + len(all_rules()))
    shared = sum(weigh[concept] for concept in said.concepts & heard.concepts)
    left = sum(_LEFT_LATIN if word.isascii() else _LEFT_CHARACTER for word in said.leftover - heard.leftover)
    of_said = sum(weigh.get(concept, rare) for concept in said.concepts) + left
    of_heard = sum(weigh[concept] for concept in heard.concepts)
    pairs = list(_pairs(said, heard, rule))
    if any(match is None for match in pairs):
        return 0.0
    told = _QUANTITY_WEIGHT * sum(match for match in pairs if match is not None)
    of_said += _QUANTITY_WEIGHT * len(said.quantities)
    of_heard += _QUANTITY_WEIGHT * len(heard.quantities)
    precision, recall = (shared + told) / of_said, (shared + told) / of_heard
    if precision < _LEAST_SHARED or recall < _LEAST_SAID:
        return 0.0
    return 2.0 * precision * recall / (precision + recall)


def _states_value(said: Sense, heard: Sense, rule: RuleOfThumb) -> bool:
    """Whether a sentence gives an amount of what the wording gives one of."""
    own = [other for other in heard.quantities if _measures(rule, other) and math.isclose(_claimed(rule, other), other.high, rel_tol=0.08)]
    named = (heard.concepts & _THINGS) - {"gpu", "server"}
    if not own and named and not named & said.concepts:
        return False  # its amount is that of a thing that is not named
    if not own:
        said_of = {other.dimension for other in heard.quantities for quantity in said.quantities if quantity.is_like(other)}
        return bool(said_of) and len(said_of) >= min(2, len({other.dimension for other in heard.quantities}))
    beside = [other for other in heard.quantities if other not in own]
    stated = [
        quantity
        for quantity in said.quantities
        if not any(
            quantity.is_like(other) and quantity.is_most == other.is_most and other.low <= quantity.low <= other.high for other in beside
        )
        or any(quantity.agrees(other) for other in own)
    ]
    return any(quantity.is_like(other) for quantity in stated for other in own)


def _pairs(said: Sense, heard: Sense, rule: RuleOfThumb) -> Iterator[float | None]:
    """For each quantity of the sentence: 1 where the wording has it, less where it takes the place
    of the rule's own value, None where the wording contradicts it."""
    for quantity in said.quantities:
        if any(quantity.agrees(other) for other in heard.quantities):
            yield 1.0
        elif any(
            quantity.is_like(other) and other.is_most == quantity.is_most and other.low <= quantity.low <= other.high
            for other in heard.quantities
        ):
            yield 0.9
        elif _is_value_of(rule, quantity, heard):
            yield 0.6
        else:
            yield None


def _is_value_of(rule: RuleOfThumb, quantity: Quantity, heard: Sense) -> bool:
    """Whether the quantity is of the kind that the rule claims, and the wording gives one of its
    own for it: a condition of the rule ("over 1 TB of data") is no value."""
    own = [other for other in heard.quantities if _measures(rule, other) and math.isclose(_claimed(rule, other), other.high, rel_tol=0.08)]
    return bool(own) and own[0].is_like(quantity) and rule.kind in ("need", "enough", "host", "at_most", "gpus") and not quantity.is_most


def _measures(rule: RuleOfThumb, quantity: Quantity) -> bool:
    wanted = "factor" if rule.base else _DIMENSIONS.get(rule.unit, "")
    return quantity.dimension == wanted or (wanted == "count" and quantity.dimension in ("cores", "cards"))


def _claimed(rule: RuleOfThumb, quantity: Quantity) -> float:
    return rule.value if not rule.base else rule.factor if quantity.dimension == "factor" else math.nan


def _with_value(rule: RuleOfThumb, said: Sense, heard: Sense, text: str) -> RuleOfThumb:
    """The rule with the value that the sentence gives instead of its own; what it gives beside that
    ("at least 640 GB, 1 TB recommended") is no other."""
    own_values = [own for own in heard.quantities if _measures(rule, own) and math.isclose(_claimed(rule, own), own.high, rel_tol=0.08)]
    if any(quantity.agrees(own) for quantity in said.quantities for own in own_values):
        return rule
    other = [quantity for quantity in said.quantities if not any(quantity.agrees(own) for own in heard.quantities)]
    other = [quantity for quantity in other if _is_value_of(rule, quantity, heard)]
    if not other:
        return rule
    value = other[0].high * (1.024**3 if rule.unit == "memory" and other[0].dimension == "bytes" else 1.0)
    if rule.base:
        changed: dict[str, float] = {"factor": other[0].high}
    else:
        changed = {"value": value, "low": math.nan, "high": math.nan}
    stated = text.strip()
    own = (
        rule.reasons
        if rule.kind == "host"
        else {verdict: {lang: say(f"rule_words.own_{verdict}", lang) for lang in LANGS} for verdict in REASONS}
    )
    return dataclasses.replace(rule, **changed, statement=dict.fromkeys(LANGS, stated), reasons=own, post=-1)  # type: ignore[arg-type]


def folded(text: str) -> str:
    """Without case, blanks and punctuation that people write in different ways."""
    for written, meant in (("≥", ">="), ("×", "x"), ("–", "-"), ("＞", ">"), ("＜", "<"), ("gib", "gb")):
        text = text.casefold().replace(written, meant)
    return re.sub(r"[\s_,，。、;；:：()（）%％~-]+", "", text)
