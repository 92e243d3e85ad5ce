"""How people write quantities in a sentence, in English and Chinese: shapes of numbers, times,
money, amounts of data and what stands around them.

The words are in facts/data/words/quantities.csv, one a line; a shape names a list of them in
braces. Every rule has a shape with a group `value` (what the option takes, in its own friendly
form) and says which option it gives. The rules are in ../data/quantities.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping

from rightfit.errors import QuantityError
from rightfit.facts import tables
from rightfit.facts.expressions import Expression
from rightfit.records import dataclass
from rightfit.units import parse_count, parse_data
from rightfit.workload.vocabulary import CLOUDS, COUNTRIES, DATA

TABLE = "quantities"
BLANK = "\u241f"
"""Stands where something was read."""


@dataclass(frozen=True, slots=True)
class GrammarRule:
    """One way to say one option. `read` makes of the match what the option takes."""

    option: str
    pattern: Expression
    read: Callable[[re.Match[str]], str]


def shape(text: str) -> Expression:
    """A shape of the words of quantities, capitals or not."""
    return tables.shape(TABLE, text, ignore_case=True)


def value(match: re.Match[str]) -> str:
    """What the pattern calls its value."""
    return match["value"].strip()


def _rule(option: str, *shapes: str, read: Callable[[re.Match[str]], str] = value) -> list[GrammarRule]:
    return [GrammarRule(option, shape(text), read) for text in shapes]


def _money(match: re.Match[str]) -> str:
    text = shape("{pounds_spoken}").sub("gbp", shape("{dollars_spoken}").sub("usd", match["value"]))
    return text.strip() + ("/month" if match["month"] or match["before"] else "")


def _yuan(match: re.Match[str]) -> str:
    """A budget in Chinese without its currency."""
    return f"{value(match)}元" + ("/month" if match["before"] else "")


def _unit_rate(match: re.Match[str]) -> str:
    period = next((name for word, name in _EACH_OF_THOSE.items() if match[0].casefold().endswith(word)), "s")
    return f"{value(match)}/{period}"


_EACH_OF_THOSE = {"daily": "day", "hourly": "hour", "weekly": "week", "monthly": "month"}


def _office_hours(match: re.Match[str]) -> str:
    """Hours a month [h] of an office day, or of the clock hours that are told on working days."""
    planning = tables.coefficients("planning")
    if "from" not in match.re.groupindex:
        return f"{planning['office_hours_per_month']:g}"
    first, last = (parse_count(match[name]) for name in ("from", "to"))
    return (
        f"{(last - first) % 12 * planning['working_days_per_month']:.4g}"
        if last <= 12
        else f"{(last - first) * planning['working_days_per_month']:.4g}"
    )


def _words_as_tokens(match: re.Match[str]) -> str:
    """A length in English words as tokens."""
    return f"{parse_count(value(match)) * tables.coefficients('planning')['tokens_per_word']:.0f}"


def _rate(match: re.Match[str]) -> str:
    period = match["period"].casefold().replace("秒钟", "秒").removeprefix("个")
    short = {"m": "min"}.get(period, period)
    return f"{match['value'].strip()}/{short.rstrip('s') if short.isascii() and len(short) > 3 else short}"


def _tokens_a_period(match: re.Match[str]) -> str:
    """Tokens of a day or another period as requests of the length that is assumed of one."""
    usual = tables.coefficients("serving_planning")
    each = usual["input_tokens"] + usual["output_tokens"]
    period = match["period"].casefold().removeprefix("个")
    return f"{parse_count(match['value'].replace(' ', '')) / each:.4g}/{period.rstrip('s') if period.isascii() and len(period) > 3 else period}"


_NO_SIZE = tables.spelled(TABLE, r"(?!\s+{no_size})")


def _percentile(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def _audio(match: re.Match[str]) -> str:
    english = shape(r"{hour_en}(?: of .*)?$").sub("hours", match["value"])
    return shape("小时的?[一-鿿]{0,4}?{sound_zh}").sub("hours", english).strip()


def _data(match: re.Match[str]) -> str:
    """An amount with a unit that `--data` knows. Nobody counts pictures by 10^9: "500G图片" is so
    many bytes of them."""
    text = _counted(match)
    found = re.match(r"(\d[\d.,]*\s?[gt])(?!i?b)", text, re.IGNORECASE)
    try:
        return f"{found[1]}B" if found and parse_data(text).samples else text
    except QuantityError:
        return text


def _counted(match: re.Match[str]) -> str:
    text = shape(r"\s*{interaction}$").sub(" interactions", re.sub(rf"[\s{BLANK}]+", " ", _audio(match)))
    if text.endswith(" interactions"):
        return text
    text = shape(r"\s*{clip_kind}?(?:video )?clips?$").sub("clips", text)
    text = re.sub(r"^(\d[\d.,]*\s?[gtm])$", r"\1B", text, flags=re.IGNORECASE)  # "100G数据"
    samples, images = shape(r"\s*{sample}$"), shape(r"\s*{image}$")
    if text.isascii():
        return images.sub(" images", samples.sub(" samples", text))
    text = re.sub("[个段条]?[短长]?视频$", "段视频", text)
    text = re.sub("个?偏好对$", "对", text)
    return shape(r"\s*{document_counted_zh}文档$").sub("篇", images.sub("张", samples.sub("条", text)))


def data_of(text: str) -> str:
    """An amount of data as people write it, with a unit that `--data` knows."""
    found = re.compile("(?P<value>.*)", re.DOTALL).fullmatch(text)
    assert found is not None
    return _data(found)


def _table(match: re.Match[str]) -> str:
    return f"{match['rows'].strip()}rows x {match['cols'].strip()}cols".replace(" rows", "rows").replace(" cols", "cols")


def _tokens_a_second(match: re.Match[str]) -> str:
    """Tokens a second of one user as the time between two tokens."""
    return f"{1000.0 / float(match['value'].replace(',', '')):.4g}ms"


def _lines(match: re.Match[str]) -> str:
    """The lines of a film as height x width of the models that draw films."""
    return tables.meaning(TABLE, "video_lines", match["value"])


def _sides(match: re.Match[str]) -> str:
    """Two sides of an image, "448 by 448"."""
    return shape(r"\s*{by}\s*").sub("x", match["value"])


def _storage(match: re.Match[str]) -> str:
    return "memory" if shape("{storage_memory}").search(match["value"]) else "local"


_READERS: Mapping[str, Callable[[re.Match[str]], str]] = {
    "money": _money,
    "rate_of_period": lambda match: _rate(match) if match["period"] else f"{value(match)}/天",
    "rate_of_unit": _unit_rate,
    "yuan": _yuan,
    "office_hours": _office_hours,
    "words": _words_as_tokens,
    "percentile": _percentile,
    "data": _data,
    "table": _table,
    "tokens_a_second": _tokens_a_second,
    "tokens_a_period": _tokens_a_period,
    "lines": _lines,
    "sides": _sides,
    "storage": _storage,
}
_RULES = tomllib.loads((DATA / "quantities.toml").read_text(encoding="utf-8"))["rule"]
QUANTITIES: tuple[GrammarRule, ...] = tuple(
    rule for one in _RULES for rule in _rule(one["option"], *one["shapes"], read=_READERS[one["read"]] if "read" in one else value)
)

COUNTED_NOUN = shape(
    r"(?<![\w.,/$€¥-])(?P<amount>{amount})[\s\u241f]+(?P<thing>(?:(?:\d[a-z]|[a-z])[a-z-]+\s+){0,2}(?:[a-z]{2,}s|{plural_en}))(?![\w-])"
)
"""A number with the noun that it counts, and up to two words before the noun."""
COUNTED_NOUN_ZH = shape(r"(?P<amount>{amount})\s*{thing_zh}\s*(?P<thing>(?:[A-Za-z]{2,}\s?)?[一-鿿]{0,8})")
FOR_WHOM = shape(r"(?<![A-Za-z])for\s(?:the\s|our\s|my\s|a\s)?$|[给为]\s*$")
NO_THING = shape(r"(?:^|\s){no_thing}$|^{no_thing}\s|^(?:{no_thing_zh}|$)|{no_thing_last_zh}$")
"""Nouns that are no data, where a number stands before them."""
DESCRIBED = shape(r"(?<![\w.,-])(?P<amount>{amount})\s+(?P<between>[a-z][a-z-]+(?:\s+[a-z][a-z-]{2,})?)\s+(?P<unit>{data_unit})(?![a-z])")
"""An amount of data with one or two words before its unit."""
COUNTED_DATA = shape(r"(?<![\w.,-])(?P<amount>{amount})\s*{data_unit}(?![a-z])")
HYPERPARAMETER = shape(
    r"(?<![A-Za-z_]){hyperparameter}{is}\d[\d.,]*(?:e[+-]?\d+)?%?(?![\w%])|(?<![\w.])\d[\d.]*(?:e[+-]?\d+)?%?\s(?:of\s)?{hyperparameter}(?![A-Za-z])"
)
"""Settings that change no figure."""
DEADLINE_WORDS: tuple[tuple[Expression, str], ...] = tuple(
    (Expression(rf"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])", ignore_case=True), value)
    for pattern, value in tables.spelled_meanings(TABLE, "deadline")
)
WEEKDAYS = {word.word: int(word.meaning) for days in ("weekday_en", "weekday_zh") for word in tables.words(TABLE, days)}
BY_WEEKDAY = shape(r"{by_day}\s(?:next\s)?(?P<en>{weekday_en})(?![a-z])|(?:下)?(?P<zh>{weekday_zh}){by_day_zh}")
DEADLINES: tuple[GrammarRule, ...] = tuple(
    _rule(
        "deadline",
        r"{deadline_head}?{is}(?<!每[天日周月])(?<!第)(?P<value>{long_time})(?!-[a-z]|\s+{no_deadline}\s|\s?(?:[a-z]+\s)?{vector_name}|\s*{about_zh}*{price_question_zh}|\s*(?:要|得|大概)*多少钱)\s*{deadline_tail}?{done_zh}?",
    ),
)

DURATION = shape(r"(?<!第)(?<![\w.,-]){long_time}(?!-[a-z]|\s?(?:[a-z]+\s)?{vector_name})")
LIMITED = shape(
    r"(?<![a-z])(?:in\s)?{limit_head}\s(?P<within>{long_time})(?!\s+{no_deadline}\s)|(?<!第)(?P<value>{long_time}){limit_tail_zh}"
)
"""A time with a word that makes it the limit."""
HOURS = shape(r"{amount}\s*(?:{hour_en}|个?小时)")
TURNS_SOUND = shape("{turns_sound}")
ENGLISH_NUMBERS = {word.word: word.meaning for word in tables.words(TABLE, "english_number")}
NUMBER_WORDS = Expression(rf"(?<![\w-])({'|'.join(sorted(ENGLISH_NUMBERS, key=len, reverse=True))})(?![\w-])", ignore_case=True)
HYPHENED_NUMBER = shape(rf"(?<![\w-])({'|'.join(sorted(ENGLISH_NUMBERS, key=len, reverse=True))})-({{hyphened_unit}})(?![\w])")
HALF_SECOND = Expression(r"(?<![A-Za-z])half a second(?![a-z])|半秒钟?", ignore_case=True)
A_WHILE = shape(r"(?<![A-Za-z])({second_limit}\s)an?\s(?={whole_time}(?![a-z]))")
"""A day or another whole time as a limit: "under a day"."""
A_SECOND = shape(r"(?<![A-Za-z])({second_limit}\s)an?\s(?=second(?![a-z]))second")
"""A second as a limit: "under a second"."""
KIND_OF_CARDS = shape(r"(?<![\w.,])(\d{1,3}|{english_number})\s(?:{card_condition}\s)+(?={card_maker}?[A-Za-z]?\d{2,4})")
"""Cards are the same, bought new or used."""


# ---- Words that name a choice (task, method, purchase mode, cloud, precision ...) in a sentence:
# facts/data/words/{choices,fillers}.csv as patterns.

WORDS_TABLE = "choices"


def pattern(names: Iterable[str]) -> Expression:
    """Any of the names, the longest first."""
    return Expression(tables.any_name(names), ignore_case=True)


def listed(chosen: str, table: str = WORDS_TABLE) -> list[str]:
    """The words of one list."""
    return [word.word for word in tables.words(table, chosen)]


def _spelled(chosen: str, *, inflected: bool = False) -> dict[str, Expression]:
    """Value -> pattern of its names; of verbs also their -ing."""
    names: dict[str, list[str]] = {}
    for word in tables.words(WORDS_TABLE, chosen):
        names.setdefault(word.meaning, []).append(word.word)
        is_verb = word.word in _SHORT_VERBS or (re.fullmatch(r"[a-z-]{5,}(?<!ing)(?<!ed)", word.word) and word.word not in _NO_VERBS)
        if inflected and is_verb:
            names[word.meaning].append(word.word.removesuffix("e") + "ing")
    return {value: pattern(spellings) for value, spellings in names.items()}


_SHORT_VERBS, _NO_VERBS = frozenset(listed("verb_short")), frozenset(listed("no_verb"))
METHODS = _spelled("method")
UPDATES = {value: spelled for value, spelled in METHODS.items() if value in ("qlora", "dora", "lora", "full")}
TUNING_METHODS = _spelled("tuning_method")
TUNING_KINDS = _spelled("tuning_kind")
ROLLOUTS = _spelled("rollout")
PURCHASES = _spelled("purchase")
PRECISIONS = _spelled("precision")
QUANTIZATIONS = _spelled("quantization")
OPTIMIZERS = _spelled("optimizer")
SHARDINGS = _spelled("sharding")
FRAMEWORKS = _spelled("framework")
OBJECTIVES = _spelled("objective")
MAX_NODES = _spelled("max_nodes")
UNPLANNED = _spelled("unplanned_method")
RESIDENCIES = _spelled("residency")
SELLERS = _spelled("sellers")
OWN_PLACES = _spelled("own_place")
TASKS = _spelled("task", inflected=True)
"""Words that hint at a task, the most telling task first."""
STRONG = _spelled("strong", inflected=True)
"""Words that say it."""
_NOT_ALONE = frozenset(listed("cloud_not_alone"))
CLOUD_NAMES = {
    **{name: name for name in listed("cloud") if name not in _NOT_ALONE},
    **{alias.replace("-", " "): cloud for alias, cloud in CLOUDS.items() if alias not in _NOT_ALONE},
    **tables.senses(WORDS_TABLE, "cloud_name"),
}
CLOUD = pattern(CLOUD_NAMES)
COUNTRY_NAMES = {
    **{alias.replace("-", " "): code for alias, code in COUNTRIES.items() if len(alias) > 2 or not alias.isascii()},
    **tables.senses(WORDS_TABLE, "continent"),
}
COUNTRY = pattern(COUNTRY_NAMES)
COUNTRY_ADJECTIVES = tables.senses(WORDS_TABLE, "country_adjective")
COUNTRY_ADJECTIVE = tables.shape(WORDS_TABLE, r"(?P<adjective>{country_adjective})\s{of_a_country}(?![a-z])")
COUNTRY_CODES = tables.senses(WORDS_TABLE, "country_code")
_BEFORE_CODE = "|".join(f"(?<=(?i:{word}))" for word in listed("before_country_code"))
COUNTRY_CODE = tables.shape(
    WORDS_TABLE,
    rf"(?<![A-Za-z-])(?:(?:{_BEFORE_CODE})(?={{country_code}}(?![A-Za-z]))|(?={{country_code}}\s(?i:{{after_country_code}})(?![A-Za-z])))(?P<code>{{country_code}})",
)
SMALL_CODES = tables.senses(WORDS_TABLE, "small_country_code")
SMALL_CODE = tables.shape(
    WORDS_TABLE,
    r"(?:(?<=^)|(?<=[,;:(])\s?|(?i:(?<=\sin )|(?<=\sa )|(?<=\san )|(?<=\sthe )|(?<=\sany )))(?P<code>{small_country_code})(?=[\s-]{small_code_place}(?![a-z]))",
)
"""A code in small letters, which is an everyday word too: "..., us region"."""
_REGION_NAME = r"(?<![A-Za-z0-9_-])(?!{region_start}-{small_code_place}(?![a-z0-9]))(?:{region_start}-[a-z]+(?:-?[a-z]+)?-?\d?[a-z]?|{region_start_whole}-[a-z]+\d)(?![A-Za-z0-9_-])"
REGION = tables.shape(WORDS_TABLE, _REGION_NAME)
CITY = tables.shape(WORDS_TABLE, rf"(?i:(?<!of )(?<!on )(?<!AMD )(?<!EPYC )(?:{pattern(listed('city')).pattern}))(?!{{city_no_place}})")
CLOUD_ALONE = tables.senses(WORDS_TABLE, "company")
COMPANY = pattern(CLOUD_ALONE)
"""Companies that sell a cloud among other things."""
OBJECT_STORES = {name.casefold(): cloud for name, cloud in tables.senses(WORDS_TABLE, "object_store").items()}
NO_ADJECTIVES = frozenset(listed("no_adjective", "fillers"))
"""Words that say nothing of the thing after them: what stands before them counts something else."""
KIND_OF_WORK = pattern(listed("kind_of_work", "names"))
"""Kinds of models: none of them is a checkpoint."""
NOTHING_ASKED = tables.shape("names", r"(?<![A-Za-z]){nothing_asked}(?:(?<=[一-鿿])|(?![a-z]))", ignore_case=True)
PERSONAL_TOOL = shape(r"{personal_tool}|{picture_tool}")
PICTURE_TOOL = shape(r"{picture_tool}")
NO_SERVICE = tables.shape("names", r"{no_service}")
KINDS_OF_DOMAIN = tables.senses("names", "domain")
KINDS_OF_DATA = {word.word: word.meaning for word in tables.words("names", "kind_of_work")}


def named_words() -> tuple[Expression, ...]:
    """The words for choices, which a name of a model must be longer than."""
    spelled = (METHODS, TUNING_METHODS, FRAMEWORKS, OPTIMIZERS, SHARDINGS, QUANTIZATIONS, PRECISIONS)
    return tuple(pattern for one in spelled for pattern in one.values())


WORK_WORDS = frozenset(word.casefold() for name in ("task", "strong", "method", "tuning_method") for word in listed(name))
"""What is done with a model: none of them names one."""
HUB_ID = re.compile(r"(?<![A-Za-z0-9_./-])[A-Za-z0-9][\w.-]{1,60}/[A-Za-z0-9][\w.-]{1,90}(?<![.,])(?![\w/-])", re.ASCII)
PATH = re.compile(r"(?<![\w])(?:\.{0,2}/|~/)[\w./-]+")
BARE_SIZE = tables.shape(
    "names",
    r"(?<![A-Za-z0-9.])(?<!带宽)(?<!带宽\s)(?<!网速)(?P<latin>\d+(?:\.\d+)?\s?[BM])(?!-?\s?A\d+(?:\.\d+)?B)"
    + _NO_SIZE
    + r"(?:[- ]?{size_after})?(?![A-Za-z0-9])"
    r"|(?P<han>\d+(?:\.\d+)?|[一二三四五六七八九十百]+|(?<!\d))\s?(?P<unit>{size_unit_zh})\s?{size_after_zh}",
    ignore_case=True,
)


GENERIC_FAMILY = pattern(listed("generic_family", "names"))
SIZE_UNITS = {"billion": "B", "million": "M", "trillion": "T"}
SIZED_FAMILY = Expression(rf"(?P<size>\d+(?:\.\d+)?\s?[BM])[\s-]?(?:param(?:eter)?s?[\s-])?(?:{GENERIC_FAMILY.pattern})", ignore_case=True)
RESTATED_SIZE = tables.shape(
    "names",
    r"(?<![A-Za-z0-9.,])(?P<size>\d+(?:\.\d+)?)\s?(?P<unit>{size_unit_en}|{size_unit_zh})(?:[\s-]?(?P<said>{size_after}))?(?![A-Za-z0-9]|\s?{not_a_size})",
    ignore_case=True,
)


# ---- How far a word reaches that denies, compares, counts or owns what stands behind it.

DENIED = "\u2421"
"""Stands where something was denied: "or" behind it goes on denying."""
NEGATED = shape(rf"(?<![A-Za-z])(?:{{negation}}|{DENIED}+\s*{{both_denied}})(?:\s*{{negation_glue}})*\s*$")
LIST_JOINT, LIST_COMMA = shape("{list_joint}"), shape("{list_comma}")
DENIES_ALL = shape(r"(?<![A-Za-z]){denies_all}")
NEGATED_AFTER = shape(r"\s*(?:{negated_after}|{negated_at_end}\s*(?=[,;.!?]|$))")
KEPT_IN = shape(r"(?:(?<![A-Za-z]){kept_in}|{kept_in_zh}\s*)$")
"""That data stay in the place that follows."""
SOFT_BEFORE = shape(r"(?:(?<![A-Za-z]){if_possible}\s+(?:{stands_in}\s+)?(?:an?\s+|the\s+)?|{if_possible_zh}{stands_in_zh}?\s*)$")
SOFT_AFTER = shape(r"(?P<others>(?:\s*{or_also}\s*(?-i:[A-Z])[\w.-]+){0,3})\s*\(?{if_possible}\)?(?![A-Za-z])")
SOFT_HEAD = shape(r"(?<![A-Za-z]){stands_in}\s+(?:the\s+)?$")
"""What somebody would like and need not have."""
KEPT_HOME = shape(r"(?:{kept_in_zh}\s*{home_zh}|{not_abroad_zh})")
_STORE = rf"(?P<store>{tables.any_name(OBJECT_STORES)})"
_PLACE = rf"(?P<place>{tables.spelled(WORDS_TABLE, _REGION_NAME + '|(?<![A-Za-z0-9_-]){azure_region}(?![A-Za-z0-9_-])')}|{CITY.pattern})"
_UNCOUNTED = r"(?<![A-Za-z])(?<!\d )(?<!hours of )(?<!\d[kKmMbB] )(?<!million )(?<!thousand )(?<!billion )"
_SELLER = rf"(?P<cloud>{CLOUD.pattern})"
DATA_AT = tuple(
    shape(text)
    for text in (
        rf"(?:{_UNCOUNTED}{{data_thing}}(?:\s{{data_stands}})+\s|(?<![A-Za-z])(?:{{data_stands}}\s)+|{{data_in_zh}}\s*)?{_STORE}{{store_after}}{_PLACE}",
        rf"(?:{_UNCOUNTED}{{data_thing}}(?:\s{{data_stands}})+|(?<![A-Za-z])(?:{{data_stored}})(?:\s{{data_stands}})*)\s(?:{_SELLER}(?:\s{{data_stands}})*[\s,]+)?{_PLACE}",
        rf"{{data_in_zh}}\s*(?:{_SELLER}\s*)?(?:的)?{_PLACE}{{store_after}}",
    )
)
"""Data that sit in a region."""
DATA_ON = shape(rf"\s*{{stands_on}}\s*{_SELLER}\)?")
DATA_IN_STORE = shape(rf"(?:{_UNCOUNTED}{{data_thing}}(?:\s{{data_stands}})+\s|{{data_in_zh}}\s*){_STORE}(?![A-Za-z0-9])\s*{{within_zh}}?")
"""Data in the object store of a cloud, wherever it is."""
DATA_AT_HOME = shape(rf"(?:{_UNCOUNTED}{{data_thing}}(?:\s{{data_stands}})+\s|{{data_in_zh}}\s*){{data_home}}")
FROM_SCRATCH = shape(r"{from_scratch}")
ONE_PERSON = shape(r"(?<![A-Za-z0-9])(?:{one_person})")
RATED = shape(
    r"(?P<users>(?<![A-Za-z0-9.]){amount}\s*(?:[a-z]+\s)?{raters}(?![a-z-]))|(?P<things>(?<![A-Za-z0-9.]){amount}\s*(?:[a-z]+\s)?{rated_counter}?{things_rated}(?![a-z-]))"
    r"|(?P<width>\d+)[\s-]?(?:dim(?:ension(?:al|s)?)?|d(?![a-z])|维|(?=(?:latent )?factors))(?:的)?(?:\s*{vector_name})?"
)
"""Users, things and numbers of each in the tables of a recommender."""
RECOMMENDER = shape("{recommender_name}")
INTERACTIONS = shape("{interaction}(?![a-z])")
IN_BRACKETS = shape(r"[(（](?:about\s|around\s|约|共)?(?P<value>{size})[^()（）]{0,12}[)）]")
HOSTED_MODEL = tables.shape(WORDS_TABLE, "{hosted_model}", ignore_case=True)
OF_DATA_SET = shape(
    rf"(?P<amount>(?<![\w.,-]){{amount}})(?:\s+(?P<unit>[a-z-]+)(?:\s[a-z-]+){{0,2}}|\s*(?P<zh>个?小时))?\s*{{part_of}}\s*(?:the\s)?{BLANK}"
)
"""A part of a named data set: "5k problems from GSM8K"."""
NAME_DESCRIBES = tables.shape("names", r"[\s-]*{name_describes}", ignore_case=True)
COMPARED = shape(r"(?<![A-Za-z]){comparing}\s*$")
COUNT_BEFORE = shape(r"(?<![A-Za-z0-9.])(?<!\d,)(?P<count>{card_count})\s?{times}?\s?{card}?\s?(?:的|of\sthe\s|of\s)?$")
RUNS_ON_ZH = shape(r"\s?{runs_on_zh}(?![一-鿿])")
COUNT_AFTER = shape(r"\s?(?:[x×*]\s?(?P<times>\d{1,3})(?![\w.])|(?P<cards>{card_count})\s?{card}(?![a-z]))")
NODES_BEFORE = shape(r"(?<![A-Za-z0-9.])(?<!\d,)(?P<nodes>{card_count})\s*{node_name}\s*(?:{holds_cards}\s*)?$")
CARD_RANGE = shape(r"(?<![A-Za-z0-9.])\d+\s*{range_word}\s*\d+\s*{card}(?![a-z])")
UNNAMED_CARDS = shape(
    r"(?<![A-Za-z0-9_.-])(?<!gtx )(?<!rtx )(?<! gt )(?<!mx )(?<! rx )(?<!titan )(?<!quadro )(?<!geforce )(?<!radeon )(?<!tesla )(?<!arc )(?!\d{4})(?P<count>{card_count})[\s-]?{card_counter}?\s?{card_name}(?![a-z])(?!\s*的?(?:批|batch))"
)
CARD_MEMORY = shape(
    r"(?<![A-Za-z0-9.])(?P<value>\d+(?:\.\d+)?)\s?{gigabyte}(?P<more>\s*{or_more})?\s*(?:of\s|的)?{card_memory_after}(?![a-z])(?:\s*的?{card_name}(?![a-z]))?"
    r"|{card_memory_head}\s*{at_least}?\s*(?P<size>\d+(?:\.\d+)?)\s?{gigabyte}(?P<up>\s*{or_more})?(?![a-z])"
)
PROCESSOR = shape(r"(?<![A-Za-z0-9])(?:{processor})(?![A-Za-z0-9])(?:\s{processor_word})?")
"""A processor of a computer at home, by its name."""
HOST_MEMORY = shape(
    r"(?:\d+(?:\.\d+)?\s?(?:{gigabyte}|ti?b)\s*(?:of\s)?(?:的)?{host_memory}|{memory_head}\s*(?:{is_word}\s)?{at_least}?\s*(?:only\s)?\d+(?:\.\d+)?\s?(?:{gigabyte}|ti?b))(?![a-z])"
)
USER_RATES = tuple(rule for rule in QUANTITIES if rule.option == "tpot")
"""Tokens a second of one user, which a service's own are not."""
TOKEN_RATE = shape(
    r"\d[\d,.]*\s?[kmb]?\s*{token_spoken_latin}\s*{each_second}\s*{token_period}(?![a-z])(?!\s*{each_again}\s*{token_receiver})"
)
WORKS_THROUGH = shape(
    r"(?<![A-Za-z]){works_through}\s+(?:all\s|the\s|(?:[a-z-]+\s){1,2}{among_en}\s(?:all\s|the\s)?)?[\d␟]"
    r"|(?<![A-Za-z]){run_verb}\s␟+\s{through_en}\s(?:all\s|the\s)?[\d␟]|(?<![标像本义感常])(?:{works_through_zh})\s*(?:大约|约)?[\d␟]"
)
"""A verb with the amount behind it: "classify 3 million reviews"."""
TOPIC = tables.shape(
    TABLE, r"\s*of\s+(?:{whose}\s+)?(?P<en>[A-Z]?[a-z]+(?:\s(?!{after_topic}\s)[A-Z]?[a-z]+)?)(?![\w-])|(?P<zh>[一-鿿]{1,4})(?![一-鿿])"
)
"""What data are about, directly behind their amount; `TOPIC_BAR` says that it is more."""
CAMERAS = shape(
    r"(?P<en>{digits}|single)\s*(?:[a-z][a-z-]*\s){0,2}?{camera}(?![a-z])|(?P<zh>{digits}|{han}|单)\s*(?:[路个台支]\s*(?:的)?[一-鿿]{0,3}?{camera_zh}|路(?=\s*[,，、]?\s*每路))"
)
FRAME_RATE = shape(
    r"(?:at\s)?(?P<en>{digits})\s*{frame_rate}(?![a-z])(?:\s*{of_each_camera}(?![a-z]))?"
    r"|(?:{of_each_camera_zh})?\s*每秒\s*(?P<zh>{digits})\s*帧|(?:{of_each_camera_zh})?\s*(?P<tail>{digits})\s*{frame_rate_zh}|{of_each_camera_zh}\s*(?P<each>{digits})\s*帧"
)
DRAWING = shape(r"(?<![A-Za-z]){drawing}")
CLASSES = shape(r"(?:into\s)?(?P<en>{digits})\s*(?:[a-z]+\s)?{class_name}(?![a-z])|{into_zh}?(?P<zh>{digits}|{han})\s*{class_zh}")
"""How many classes are told apart: the last layer grows by nothing that counts."""
LONG_PROMPTS = shape(r"(?P<value>\d+(?:\.\d+)?k)\s*{input_after}s?")
OR_BETTER = shape(r"\s*[,，(（]?\s*(?:{or_better}(?![a-z])|{or_better}(?<=[一-鿿+]))\s*[)）]?")
"""Behind a card: as good a one will do."""
RERANKS = shape("{scores_pairs}")
EPOCHS = shape(r"{digits}\s*{epoch}|epochs?\s*(?:=|:|of)\s*\d")
EMBEDS = shape("(?<![A-Za-z]){makes_vectors}")
CANDIDATES = shape(
    r"[\s,]*{candidates_before}\s(?P<en>{amount})\s(?:[a-z]+\s)?{candidates}(?![a-z])(?:\s{each_query})?|[\s,]*(?:top[\s-])?(?P<each>{amount})\s(?:[a-z]+\s)?{candidates}\s{each_query}(?![a-z])"
    r"|[,，]?\s*{candidates_before_zh}\s*(?P<zh>{amount})\s*{candidates_zh}"
)
"""What a reranker scores with each query."""
HOW_MANY = shape(r"{how_many_servers}\s*$")
ONE_OF_THEM = shape(r"(?<![A-Za-z]){one_of_them}\s$")
WORKS_ON = shape(
    r"(?:^|[.!?;:,]\s*|(?<![A-Za-z]){imperative_head}\s)(?P<verb>[a-z][a-z-]{2,})\s+(?:{text_before}\s)*$|{works_on_zh}[一-鿿]{0,4}$"
)
"""A verb that the amount of data follows: "segment 90k photos", 给100万条."""
OPERATION_VERB = tables.shape(WORDS_TABLE, "{operation_verb}", ignore_case=True)
OPERATION_MEANS = tables.shape(WORDS_TABLE, "{operation_means}", ignore_case=True)
"""How data are made free of what is there twice."""
PREPARING = tables.shape(WORDS_TABLE, "{operation_verb}|{operation_means}", ignore_case=True)
BEFORE_TRAINING = shape(r"(?<![A-Za-z]){before_training}")
VECTORS = shape(
    r"(?<![\w.,-]){amount}\s(?:[a-z]+\s)?\d{2,5}[\s-]?(?:d|dim(?:ension(?:al|s)?)?)\s?(?:[a-z]+\s)?{vector_name}(?![a-z])|{amount}\s*[个条]?\s*\d{2,5}\s*维(?:的)?{vector_name}"
)
"""Vectors to be searched, of so many numbers each: no plan holds their index."""
COUNTED_STEPS = shape(r"(?:max[\s_-]?steps.*|{amount}\s?(?:{step_kind}\s)?{step_name}|{amount}\s*步)")
"""So many steps, without a batch that says how much each takes."""
CLUSTERING = shape("{clustering}")
RENTING = shape(r"(?<![A-Za-z])(?:{renting_for}\s*(?:{long_time}|an?\s{calendar_unit}(?![a-z]))(?:的)?|{leased})")
PLACE_OF = shape(r"(?:{place_of_somebody}|\s?{place_of_somebody_en}(?![a-z]))")
PLACED_BEFORE = shape(r"(?<![A-Za-z]){based_in}\s+(?:the\s)?$")
TOPIC_BAR = shape("{topic_bar}")
UNPRICED = shape(
    r"(?P<only>(?<![A-Za-z])only\s{stands_in_en}\s|只[能用在]{0,2})?(?<![A-Za-z.])(?P<seller>{unpriced_seller})(?![A-Za-z]){platform_zh}?"
)
"""Sellers of whom no price is known here."""
RUNNING = shape("{running}")
SPEED_TALK = shape(r"(?<![A-Za-z]){speed_talk}(?![a-z])|{speed_talk_zh}")
"""Words of how fast a model answers."""
GLUE_PHRASE = shape(r"(?<![A-Za-z]){glue_phrase}")
QUANTIZED = shape(r"(?<![A-Za-z]){quantized}(?![a-z])")
OWNED = tables.shape(
    WORDS_TABLE, rf"(?:{{owning}})\s*(?:{{own_between}}\s*|{BLANK}++\s*(?:[,，、+/]\s*)?(?:{{own_beside}}\s*)*)*$", ignore_case=True
)
OWNED_AFTER = shape(r"\s*(?:的)?{owned_thing_zh}?\s*[,，]?\s*(?:是)?(?:我们?)?{owned_after}")
ALTERNATIVE = shape(r"\s*[,，]?\s*(?:or|{or_zh}|/)\s*(?:with\s|the\s|用)?")
"""Between two names that stand for one another."""
UNKNOWN_BEFORE = tables.shape(
    TABLE, r"(?P<name>(?<![A-Za-z0-9_.-])(?:[A-Z][A-Za-z0-9_.+-]+|[A-Za-z][A-Za-z_.+-]*\d[A-Za-z0-9_.+-]*))\s*(?:{or_zh}|\bor)\s*$"
)
UNKNOWN_AFTER = tables.shape(
    TABLE,
    r"\s*{or_zh}\s*(?:用)?(?P<name>[A-Za-z][A-Za-z0-9_.+-]{2,})|\s+or\s(?P<en>[A-Z][A-Za-z0-9_.+-]+|[a-z][a-z_.+-]*\d[A-Za-z0-9_.+-]*)(?![A-Za-z])",
)
MEMORY_BEHIND = shape(
    r"\s*(?:{apple_chip}\s*)?[,，(（/-]?\s*(?:{with_en}\s)?(?:{memory_of_card}\s*(?:{is_word}\s*)*)?(?:each\s|各\s*)?(?P<size>\d{1,3})\s?G(?:i?B)?(?:\s?(?:的)?{memory_of_card}|{memory_each})?\s*[)）]?(?![A-Za-z0-9])(?!\s*(?:of\s|的)?(?:{host_memory}|{data_named}))"
)
MEMORY_AHEAD = shape(
    r"(?<![A-Za-z0-9.])(?P<size>\d{1,3})\s?G(?:i?B)?\s?(?:{memory_of_card})?\s?(?:的)?\s*(?:nvidia\s|geforce\s|英伟达\s?)?$"
)
"""The memory of a card beside its name: "24G 3090", "V100 (16G)"."""
HARD_DENIAL = shape(r"(?<![A-Za-z]){hard_denial}(?![A-Za-z])|{hard_denial_zh}")
CONTRACTED = shape(r"(?<![A-Za-z])(?P<verb>{contracted})n['’]?t(?![A-Za-z])")
"""A denial that is drawn together, "don't"; the words of lists have it in two."""
MINUS = re.compile(r"(?:^|[^\w.,])-$")
"""A dash with a blank behind it begins a line of a list."""
OPPOSITES = {("purchase", "spot"): "on-demand", ("method", "lora"): "full", ("method", "full"): "lora"}
"""What is meant where a word of a choice is denied."""
CARD_COUNTS = {"单": 1, "双": 2, "single": 1, "dual": 2}
COMPOUND_ZH = Expression(
    r"[一二两三四五六七八九十百]+万[一二两三四五六七八九]千(?:[一二两三四五六七八九]百)?|[一二两三四五六七八九]千[一二两三四五六七八九]百(?:[一二两三四五六七八九]十)?"
    r"|[一二两三四五六七八九]百[一二两三四五六七八九]十[一二三四五六七八九]?"
)
"""Chinese numbers of several parts: 一万五千."""
SOLID = shape(r"(?<![A-Za-z0-9_.])(?:(?-i:[2-4]D)(?=\s[A-Za-z]|[\u4e00-\u9fff])|[2-4]d(?=[\s-]{solid_thing}(?![a-z])))")
"""Two, three or four dimensions, "3D U-Net", "3d fullres": no days."""
SOLID_BEHIND = Expression(r"(?<![A-Za-z0-9_.])(?:[2-4]D(?![A-Za-z0-9])|[2-4]d_[a-z]\w*)")
"""The same behind a name, "nnU-Net 3D", where no word for a limit stands before it."""
VECTOR_TABLES = shape(
    r"(?P<size>{size})\s*{vector_tables}|(?<![A-Za-z]){vector_tables}\s*[(（]?\s*(?:(?:{is_word}|{about_en})\s|{around_zh}|[共有占])*(?P<behind>{size})(?![A-Za-z0-9])\s*[)）]?"
)
SPOKEN_ZH = Expression(r"([一二两三四五六七八九])([万千百])([一二三四五六七八九])(?=[^一-鿿\w]|[元块以之左]|$)")
"""一万五 as people say 15,000."""
ABOUT_SO_MANY = Expression(r"(?<=[\d十百千万])[来多](?=[次条张个篇份页天]|[分小][钟时])")


def chinese_number(text: str) -> str:
    """The digits of a Chinese number of several parts."""
    total = part = digit = 0
    for char in text:
        if char in "一二三四五六七八九":
            digit = "一二三四五六七八九".index(char) + 1
        elif char == "两":
            digit = 2
        elif char == "万":
            total, part, digit = (total + part + digit) * 10_000, 0, 0
        else:
            part, digit = part + max(digit, 1) * {"十": 10, "百": 100, "千": 1000}[char], 0
    return str(total + part + digit)
