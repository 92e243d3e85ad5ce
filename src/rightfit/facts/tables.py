"""Reading the bundled data files: small tables, calibrated coefficients, and rows
into typed records."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import re
import string
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from rightfit.errors import InputError, UnknownNameError
from rightfit.facts.expressions import FIRST, LAST, Expression, Needs, either, expression, needs, one_of
from rightfit.files import Sections
from rightfit.messages import Message
from rightfit.records import dataclass

# ---- Comparing names as people write them: tokens, keys without noise words, and the
# nearest known names.

# A number keeps its decimals and one size letter ("1.5b", "3.1"); words and numbers part where they
# touch ("llama3" = "llama", "3"). So do number formats ("fp8", "4bit").
_TOKEN = re.compile(
    r"(?<![a-z])(?:(?:mx|nv)?fp\d+|bf16|int\d+|nf4)|\d+bit|\d+(?:\.\d+)+[a-z]?(?![a-z])|\d+[bmkt](?![a-z])|\d+|[a-z]+|[^\x00-\x7f]+"
)
_DECIMAL_UNDERSCORE = re.compile(r"(?<=\d)_(?=\d)")
# How a checkpoint is stored, in words of several parts: files of llama.cpp, widths of
# weights and activations.
_STORED = re.compile(
    r"(?<![a-z0-9])(?:(?:ud[-_])?i?q[1-8]_(?:[01]|nl|k|xxs|xs|s|m|l)(?:_(?:xs|s|m|l|xl))?|(?:quantized[._-])?w[48]a(?:4|8|16)(?:fp8)?|w[-_]mxfp4[-_]a[-_]fp8|fp8[-_](?:dynamic|block|static(?:[-_]pertensor)?)|nvfp4[-_]v2)(?![a-z0-9])"
)
# Words that leave the architecture as it is: training stages, number formats, wrappers.
_NOISE = frozenset(
    ["instruct", "chat", "it", "hf", "pt", "sft", "dpo", "rlhf", "meta", "model", "preview", "the", "v"]  # stages and wrappers
)
_NOISE |= frozenset(
    [
        "bf16",
        "fp16",
        "fp8",
        "fp4",
        "mxfp4",
        "mxfp8",
        "nvfp4",
        "nf4",
        "fp32",
        "int4",
        "int8",
        "4bit",
        "8bit",
        "bnb",
        "bit",
        "awq",
        "gptq",
        "gguf",
        "qat",
        "qad",
        "ct",
    ]
)  # number formats
ANSWERING = frozenset({"instruct", "chat", "it"})
"""Words for the stage in which a model answers people."""
# A word for a size where there is no number ("bert base"), noise where there is one
# ("llama 8b base").
_NOISE_BESIDE_A_SIZE = frozenset({"base", "uncased"})
_SIZE = re.compile(r"\d+(?:\.\d+)?[bm]")
LONGEST_NAME = 200


def tokens(text: str) -> tuple[str, ...]:
    """Lower-case words and numbers of a name: 'Meta-Llama-3-8B' and 'meta llama3
    8b' give the same."""
    return tuple(_TOKEN.findall(_DECIMAL_UNDERSCORE.sub(".", _STORED.sub(" ", text[:LONGEST_NAME].casefold()))))


def base_name(text: str) -> str:
    """A hub id without its organisation."""
    return text.rsplit("/", 1)[-1]


def without_noise(words: Sequence[str]) -> tuple[str, ...]:
    """Words that tell architectures apart: 'instruct', 'chat', 'hf', 'bf16' and the like do not."""
    noise = _NOISE | _NOISE_BESIDE_A_SIZE if any(_SIZE.fullmatch(word) for word in words) else _NOISE
    kept = tuple(word for word in words if word not in noise)
    return kept or tuple(words)


def nearest(text: str, names: Iterable[str], *, count: int = 3, cutoff: float = 0.5) -> tuple[str, ...]:
    """The `count` names most like `text`, best first; none below the similarity
    `cutoff` (0 to 1)."""
    from difflib import SequenceMatcher

    wanted = _squash(text)
    if not wanted:
        return ()
    pairs = _pairs(text)
    scored = sorted(((_overlap(pairs, _pairs(name)), name) for name in dict.fromkeys(names)), key=lambda item: (-item[0], item[1]))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    ranked = []
    for overlap, name in scored[: 8 * count]:
        matcher.set_seq1(_squash(name))
        ranked.append((0.5 * overlap + 0.5 * matcher.ratio(), name))
    ranked.sort(key=lambda item: (-item[0], len(item[1]), item[1]))
    return tuple(name for score, name in ranked[:count] if score >= cutoff)


def _squash(text: str) -> str:
    return "".join(character for character in text[:LONGEST_NAME].casefold() if character.isalnum())


@functools.lru_cache(maxsize=16384)
def _pairs(name: str) -> frozenset[str]:
    """Pairs of neighbouring letters; kept, because the same few thousand names are
    compared again and again."""
    text = _squash(name)
    return frozenset(text[index : index + 2] for index in range(len(text) - 1)) or frozenset({text})


def _overlap(left: frozenset[str], right: frozenset[str]) -> float:
    return 2 * len(left & right) / (len(left) + len(right))


DATA = Path(__file__).parent / "data"

Record = TypeVar("Record")

_ReadCell = Callable[[str], object]


def read_text(name: str) -> str:
    """Text of the bundled file `name`."""
    return (DATA / name).read_text(encoding="utf-8")


def read_rows(text: str) -> Iterator[dict[str, str]]:
    """Rows of a CSV text as dictionaries."""
    lines = csv.reader(text.splitlines())
    header = next(lines, [])
    for cells in lines:
        yield dict(zip(header, cells, strict=True))


@functools.cache
def _table(name: str) -> tuple[dict[str, str], ...]:
    path = DATA / f"{name}.csv"
    if not path.is_file():
        raise UnknownNameError("table", name, nearest=sorted(file.stem for file in DATA.glob("*.csv")))
    return tuple(read_rows(path.read_text(encoding="utf-8")))


def table(name: str) -> list[dict[str, str]]:
    """Rows of the small data table `data/<name>.csv`, cells as text. The caller owns the
    returned list and rows."""
    return [dict(row) for row in _table(name)]


#: Coefficients that stand in for those of the data files while a source is left out
#: (estimate/folds.py); empty in use.
SUBSTITUTES: dict[str, Mapping[str, float]] = {}


@functools.cache
def coefficients(name: str) -> Mapping[str, float]:
    """Values of `data/coefficients/<name>.toml`: key -> value in the entry's unit.

    Each entry is a table {value, unit, source, ...}; one without a source or with a value that is
    no number is refused, because no figure may enter a prediction that nobody can trace. Where all
    are plain their values are taken without reading the sources, which are most of the text.
    """
    text = _coefficient_text(name)
    plain = {key: _PLAIN_ENTRY.match(section) for key, section in Sections(text).texts.items()}
    if all(plain.values()):
        values = {key: float(found[1]) for key, found in plain.items() if found}
    else:
        values = {key: float(str(entry["value"])) for key, entry in coefficient_entries(name).items()}
    return MappingProxyType(values | dict(SUBSTITUTES.get(name, {})))


_LINES = r"(?:\w+ = [^\n]*\n)*"
#: An entry that has a number, a unit and a source, each in a line.
_PLAIN_ENTRY = re.compile(
    rf"""\[(?:[\w-]+|"[^"\n]+")\]\n(?={_LINES}unit = ")(?={_LINES}source = "\s*[^"\s]){_LINES}?value = (-?\d[\d.]*(?:e[-+]?\d+)?)\n"""
)


def _coefficient_text(name: str) -> str:
    path = DATA / "coefficients" / f"{name}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in path.parent.glob("*.toml"))
        raise UnknownNameError("coefficient file", name, nearest=known)
    return path.read_text(encoding="utf-8")


@functools.cache
def coefficient_entries(name: str) -> Mapping[str, Mapping[str, object]]:
    """The whole entries of a coefficient file: value, unit, source and whatever else they say."""
    entries = tomllib.loads(_coefficient_text(name))
    for key, entry in entries.items():
        _check_entry(f"{name}.toml", key, entry)
    return MappingProxyType(entries)


def _check_entry(file: str, key: str, entry: object) -> None:
    if not isinstance(entry, dict):
        raise InputError(Message("facts.entry_no_table", file=file, entry=key))
    value = entry.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(Message("facts.entry_no_value", file=file, entry=key))
    for needed in ("unit", "source"):
        if not isinstance(entry.get(needed), str) or (needed == "source" and not entry[needed].strip()):
            raise InputError(Message(f"facts.entry_no_{needed}", file=file, entry=key))


def _integer(text: str) -> int:
    if not text:
        return 0
    return int(text) if text.isdigit() else int(float(text))


def _real(text: str) -> float:
    return float(text) if text else 0.0


def _flag(text: str) -> bool:
    return text == "1"


def _names(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(";")))


_READERS: Mapping[str, _ReadCell] = {
    "int": _integer,
    "float": _real,
    "bool": _flag,
    "str": str,
    "tuple[str, ...]": _names,
}


@functools.cache
def _field_readers(record: type[Any]) -> tuple[tuple[str, _ReadCell, bool], ...]:
    """Fields that a cell can hold; others (a record of another table) are given."""
    fields = [field for field in dataclasses.fields(record) if str(field.type) in _READERS]
    return tuple((field.name, _READERS[str(field.type)], field.default is dataclasses.MISSING) for field in fields)


def to_record(record: type[Record], row: Mapping[str, str]) -> Record:
    """One row as a `record`; cells absent or empty give the field's zero or default. A row without
    a source is refused."""
    if not row.get("source"):
        raise InputError(Message("facts.record_no_source", kind=record.__name__, record=row.get("name", "?")))
    values: dict[str, object] = {}
    for name, read, required in _field_readers(record):  # type: ignore[arg-type]
        text = row.get(name, "")
        if text or required:
            values[name] = read(text)
    return record(**values)


def filled(
    record: type[Record], row: Mapping[str, str], scaled: Mapping[str, tuple[str, float]] = MappingProxyType({}), **own: Any
) -> Record:
    """A row as a `record`: each field from the column of its name, or in the record's unit from a
    `scaled` {field: (column, factor)}, or as given (`own`); cells absent or empty are zeros of the
    field's kind."""
    values = {name: float(row.get(column) or 0.0) * factor for name, (column, factor) in scaled.items()} | own
    for name, read, _ in _field_readers(record):  # type: ignore[arg-type]
        if name not in values:
            values[name] = read(row.get(name, ""))
    return record(**values)


def to_records(record: type[Record], rows: Iterable[Mapping[str, str]]) -> Mapping[str, Record]:
    """Rows as records by name, in file order."""
    return MappingProxyType({row["name"]: to_record(record, row) for row in rows})


# ---- Figures that composition takes as given, each with unit and source:
# facts/data/constants/<room>.csv, one figure a line.
#
# A figure that nobody measured and no publication states says so: its source begins with
# "judgement, rightfit" and tells the reason.


@functools.cache
def constants(room: str) -> Mapping[str, float]:
    """Every figure of a room by name. A figure without unit or source is refused."""
    rows = table(f"constants/{room}")
    for row in rows:
        if not (row["unit"].strip() and row["source"].strip()):
            raise InputError(Message("facts.constant_bare", room=room, constant=row["name"]))
    return MappingProxyType({row["name"]: float(row["value"]) for row in rows})


@functools.cache
def constant_group(room: str, group: str) -> Mapping[str, float]:
    """The figures of a room whose names begin with the group's, by the rest of the name
    ("usual_batch.speech")."""
    start = f"{group}."
    return MappingProxyType({name.removeprefix(start): value for name, value in constants(room).items() if name.startswith(start)})


# ---- Tables whose rows are found by a pattern of a name.


@functools.cache
def _patterns(name: str) -> tuple[tuple[Expression, Mapping[str, str]], ...]:
    """The rows of a pattern table, each with its pattern."""
    return tuple((expression(row["pattern"]), row) for row in table(name))


def matches(table: str, text: str, *, whole: bool) -> Iterator[tuple[re.Match[str], Mapping[str, str]]]:
    """Every row that matches."""
    for pattern, row in _patterns(table):
        if match := pattern.fullmatch(text) if whole else pattern.search(text):
            yield match, row


def first_match(table: str, text: str, *, whole: bool = False) -> Mapping[str, str] | None:
    """The first row of a pattern table that matches `text`."""
    return next((row for _, row in matches(table, text, whole=whole)), None)


@functools.cache
def alias(name: str) -> str:
    """The record that a usual spelling of a model means; the spelling itself when none is known."""
    text = name.strip()
    return next((match.expand(row["name"]) for match, row in matches("forward_aliases", text, whole=True)), text)


# ---- The words that people write, as tables with one line a word (facts/data/words/*.csv), and the
# patterns made of them.
#
# A line has the `list` that the word belongs to, the `word`, its `edges`, its `language`, the
# `meaning` that it has in its list, and a `note` (where it is seen, or why it is there). The edges
# say where a word may stand:
#
# both, start, end   these ends of the word must be ends of a word in the text
# open               it may be a part of a longer word; the shape that names its list may close it.
#                    Chinese words are always open: Chinese has no spaces
# name               plain letters, a word of its own; a blank of it may be a hyphen or nothing in
#                    the text
# whole              plain letters, compared with whole words and never searched for
#
# Save for names and whole words, a word may leave letters out (`seconds?`), stand for kinds of
# letters (`\d` is a digit), and name a list (`{digits}`). The order of lines counts: the first word
# that fits is taken.
#
# Code writes shapes, in which {list} stands for any word of a list:
# `shape("training", r"(\d+) ?{frames}")`. A table is read, and a shape compiled, when it is
# first asked for.

_NAMED = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_EDGES = {"both": (r"\b", r"\b"), "start": (r"\b", ""), "end": ("", r"\b"), "open": ("", "")}
_NAME_EDGES = r"(?<![A-Za-z0-9_./-])", r"(?![A-Za-z0-9_/])"


class Word(NamedTuple):
    """One line of a table."""

    word: str
    edges: str
    language: str
    meaning: str

    @property
    def pattern(self) -> str:
        """The word with the ends that its edges ask for."""
        if self.edges in ("name", "whole"):
            return name_pattern(self.word)
        before, after = _EDGES[self.edges]
        return f"{before}{self.word}{after}"


def name_pattern(name: str) -> str:
    """A name as a whole word, where a blank or hyphen stands for either or nothing; a
    Chinese one anywhere."""
    return f"{_NAME_EDGES[0]}{_name(name)}{_NAME_EDGES[1]}" if name.isascii() else _name(name)


def _name(name: str) -> str:
    return re.escape(name).replace(r"\ ", r"[\s-]?").replace(r"\-", r"[\s-]?")


def any_name(names: Iterable[str]) -> str:
    """Any of the names, the longest first."""
    return either(names, lambda name: _NAME_EDGES if name.isascii() else ("", ""), _name)


@functools.cache
def lists(name: str) -> Mapping[str, tuple[Word, ...]]:
    """Every list of a table, words in order."""
    found: dict[str, list[Word]] = {}
    for row in table(f"words/{name}"):
        found.setdefault(row["list"], []).append(Word(row["word"], row["edges"], row["language"], row["meaning"]))
    return {key: tuple(words) for key, words in found.items()}


def words(name: str, chosen: str) -> tuple[Word, ...]:
    """The words of one list."""
    found = lists(name)
    if chosen not in found:
        raise UnknownNameError("list of words", chosen, nearest=sorted(found))
    return found[chosen]


#: Signs that mean themselves in an expression.
_PLAIN = frozenset(string.ascii_letters + string.digits + " _-,:=/%")


@functools.cache
def spelled(name: str, text: str) -> str:
    """A shape as a regular expression: every {list} is any of its words."""
    return _NAMED.sub(lambda match: f"(?:{'|'.join(spelled(name, word.pattern) for word in words(name, match[1]))})", text)


@functools.cache
def shape(name: str, text: str, *, ignore_case: bool = False) -> Expression:
    """A shape as an expression."""
    return Expression(
        functools.partial(spelled, name, text),
        ignore_case=ignore_case,
        needs=functools.partial(needs, text, functools.partial(_any_of, name), ignore_case=ignore_case),
    )


@functools.cache
def _any_of(name: str, chosen: str) -> Needs:
    """What a word of a list needs."""
    return one_of(needs(word.pattern, functools.partial(_any_of, name), before=FIRST, behind=LAST) for word in words(name, chosen))


def occurs(pattern: str, text: str) -> bool:
    """Whether an expression is found in a text. Most of a table's are plain words, which are looked
    for as they are: compiling one takes longer than all its searches in a plan."""
    return pattern in text if _PLAIN.issuperset(pattern) else re.search(pattern, text) is not None


def says(name: str, chosen: str, text: str, *, ignore_case: bool = False) -> bool:
    """Whether a text holds a word of a list."""
    return shape(name, f"{{{chosen}}}", ignore_case=ignore_case).search(text) is not None


def number_in(name: str, text: str, said: str, *, ignore_case: bool = False) -> float:
    """The number that the first group of a shape (`text`) holds where it is found in what was said;
    0 where it is not."""
    found = shape(name, text, ignore_case=ignore_case).search(said)
    digits = next((group for group in found.groups() if group), "") if found else ""
    return float(digits.replace(",", "")) if digits else 0.0


def words_in(text: str) -> list[str]:
    """Runs of letters and digits of a text, small."""
    return re.findall(r"\w+", text.casefold())


@functools.cache
def spelled_meanings(name: str, chosen: str) -> tuple[tuple[str, str], ...]:
    """(any of its words, meaning) for each run of lines of one meaning, in order."""
    runs = itertools.groupby(words(name, chosen), key=lambda word: word.meaning)
    return tuple(("|".join(spelled(name, word.pattern) for word in run), meaning) for meaning, run in runs)


@functools.cache
def meanings(name: str, chosen: str, *, ignore_case: bool = False) -> tuple[tuple[Expression, str], ...]:
    """The same as expressions."""
    return tuple((Expression(pattern, ignore_case=ignore_case), meaning) for pattern, meaning in spelled_meanings(name, chosen))


def meaning(name: str, chosen: str, text: str, *, ignore_case: bool = False) -> str:
    """The first meaning of a list whose words a text holds; "" where it holds none."""
    return next((found for pattern, found in meanings(name, chosen, ignore_case=ignore_case) if pattern.search(text)), "")


@functools.cache
def senses(name: str, chosen: str) -> Mapping[str, str]:
    """Word -> what it means, for lists whose words are plain letters."""
    return {word.word: word.meaning for word in words(name, chosen)}


# ---- Exchange rates, dated and with source, from data/currencies.csv.


@dataclass(frozen=True, slots=True)
class ExchangeRate:
    """How many units of `currency` one US dollar buys, from when and where. `lang` and `country`:
    whose readers take it for what is sold there."""

    currency: str
    units_per_usd: float
    as_of: str
    source: str
    en: str = ""
    zh: str = ""
    lang: str = ""
    country: str = ""


@functools.cache
def currencies() -> Mapping[str, ExchangeRate]:
    """All known rates by currency code, US dollars first."""
    rows = (dict(row) for row in table("currencies"))
    return MappingProxyType(
        {row["currency"]: ExchangeRate(**{**row, "units_per_usd": float(row["units_per_usd"])}) for row in rows}  # type: ignore[arg-type]
    )
