"""Every option of a workload as data (data/options.csv): its kind, its words or limits, and the
attributes that it sets.

`read_wishes` turns what a user gave (friendly strings by option name, or base-unit numbers by
attribute name) into the attributes of a Workload, and reports every problem in one line each.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rightfit import units
from rightfit.errors import InputError, QuantityError, UnknownNameError
from rightfit.facts.tables import read_rows
from rightfit.messages import Message, at_place, either, line_each
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_YEAR
from rightfit.workload import vocabulary
from rightfit.workload.amounts import exchange_rates, is_table, parse_table_size, to_usd
from rightfit.workload.attributes import Attributes
from rightfit.workload.data_files import counted, is_data_path
from rightfit.workload.vocabulary import Vocabulary

_MOST_OPTIONS = 2  # of other kinds that a word may be meant for


@dataclass(frozen=True, slots=True)
class RequestOption:
    """One option. `attributes` are the fields it sets, the one that carries the limits first;
    `low`..`high` in base units; `purpose`: key of what an option is for that only some kinds
    of work take."""

    name: str
    kind: str
    attributes: tuple[str, ...]
    vocabulary: Vocabulary | None = None
    low: float = 0.0
    high: float = math.inf
    help: str = ""
    example: str = ""
    purpose: str = ""


def _number(text: str) -> float:
    return int(text) if text.isdigit() else float(text)


def _option_of(row: Mapping[str, str]) -> RequestOption:
    """One line of data/options.csv; empty cells mean what the record's defaults do, and the
    attribute of the option's own name."""
    return RequestOption(
        row["name"],
        row["kind"],
        tuple((row["attributes"] or row["name"]).split(";")),
        vocabulary.VOCABULARIES[row["vocabulary"]] if row["vocabulary"] else None,
        _number(row["low"] or "0.0"),
        _number(row["high"] or "inf"),
        row["help"],
        row["example"],
        row["purpose"],
    )


_ROWS = read_rows((vocabulary.DATA / "options.csv").read_text(encoding="utf-8"))
OPTIONS: Mapping[str, RequestOption] = {row["name"]: _option_of(row) for row in _ROWS}
_OPTION_OF_ATTRIBUTE = {attribute: option for option in OPTIONS.values() for attribute in option.attributes}


def read_wishes(wishes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a Workload from options (friendly) and attributes (base units). Raises
    InputError, one line per problem."""
    attributes: dict[str, Any] = {}
    problems: list[InputError] = []
    for key, value in _friendly_first(wishes):
        try:
            attributes.update(read_wish(key, value))
        except InputError as error:
            problems.append(error)
    raise_problems(problems)
    return attributes


def raise_problems(problems: list[InputError]) -> None:
    """One problem is raised as it is; several become one InputError with one line each."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InputError(line_each(problem.message for problem in problems), field=problems[0].field, problems=problems)


def read_wish(key: str, value: Any) -> dict[str, Any]:
    """The attributes that one option or attribute sets; an unset value (None,
    empty list) sets none."""
    if value is None or (isinstance(value, (list, tuple, set, frozenset)) and not value):
        return {}
    name = key.replace("-", "_")
    if name in OPTIONS:
        return _read_option(OPTIONS[name], value)
    if name in _OPTION_OF_ATTRIBUTE:
        return _read_attribute(name, value)
    nearest = vocabulary.nearest_words(name, OPTIONS, count=2)
    raise UnknownNameError(
        "option", key, nearest=nearest, allowed="" if nearest else Message("names.allowed_words", names=", ".join(OPTIONS)), field=key
    )


def overrules(key: str) -> tuple[str, ...]:
    """The attributes that no longer hold when the option or attribute `key` gets another value."""
    option = OPTIONS.get(key) or _OPTION_OF_ATTRIBUTE.get(key)
    if option is None:
        return (key,)
    return tuple(name for name in option.attributes if key == option.name or name != "budget_per_month")


def _friendly_first(wishes: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Leave out attributes whose option is given too: the option is what the user wrote, the
    attribute follows from it."""
    given = {key.replace("-", "_") for key, value in wishes.items() if value is not None}
    for key, value in wishes.items():
        option = _OPTION_OF_ATTRIBUTE.get(key)
        if option is None or option.name == key or option.name not in given:
            yield key, value


def _read_option(option: RequestOption, value: Any) -> dict[str, Any]:
    try:
        return _READERS[option.kind](option, value)
    except InputError as error:
        if isinstance(error, UnknownNameError) and (meant := option_of_word(error.name, but=option.name)):
            error = UnknownNameError(error.kind, error.name, nearest=meant)
        error.message = at_place(option.name, error.message)
        error.field = option.name
        error.allowed = error.allowed or _accepted(option)
        raise error from None


def option_of_word(text: str, *, but: str) -> tuple[str, ...]:
    """The other options with this word, each with it as it is written there: "method lora"."""
    word = vocabulary.fold(text)
    others = [(option.name, option.vocabulary) for option in OPTIONS.values() if option.name != but and option.vocabulary]
    exact = [f"{name} {word}" for name, words in others if word in words.words]
    meant = [f"{name} {words.aliases[word]}" for name, words in others if word in words.aliases]
    return tuple((exact or meant)[:_MOST_OPTIONS])


def _accepted(option: RequestOption) -> Message:
    """What an option accepts, for an error that does not list it: units, range, or an example."""
    if option.kind in units.ACCEPTED:
        return units.ACCEPTED[option.kind](option.example)
    if math.isfinite(option.high) and option.attributes and option.kind in _PLAIN_NUMBERS:
        return Message("workload.range", low=_limit_text(option, option.low), high=_limit_text(option, option.high))
    return Message("units.such_as", example=option.example)


def _read_attribute(name: str, value: Any) -> dict[str, Any]:
    """A base-unit attribute, e.g. deadline_s=3600.0; the option's limits hold when it is the
    attribute they are for."""
    option = _OPTION_OF_ATTRIBUTE[name]
    kind = Attributes.__annotations__[name].partition(" ")[0]
    if kind == "str":
        try:
            return {name: _text(option, value)}
        except InputError as error:
            raise InputError(at_place(name, error.message), field=name) from None
    if isinstance(value, bool) != (kind == "bool") or not isinstance(value, numbers.Real):
        wrong = Message("workload.no_flag" if kind == "bool" else "workload.no_plain_number", value=value)
        raise QuantityError(at_place(name, wrong), field=name)
    if kind == "bool":
        return {name: bool(value)}
    number = _float(value)
    if name == option.attributes[0]:
        _within(option, number, shown=_number_text(value))
    elif not math.isfinite(number):
        raise QuantityError(at_place(name, Message("workload.no_finite_attribute", value=number)), field=name)
    if kind == "int" and not number.is_integer():
        raise QuantityError(at_place(name, Message("workload.no_whole_attribute", value=value)), field=name)
    return {name: int(number) if kind == "int" else number}


def _text(option: RequestOption, value: Any) -> str:
    """Text from a string or a plain number."""
    if isinstance(value, bool) or not isinstance(value, (str, numbers.Real)):
        raise InputError(Message("workload.no_value_of_kind", why=_kind_name(value), example=option.example))
    text = units.normalize(value if isinstance(value, str) else _number_text(value))
    if not text:
        raise InputError(Message("workload.empty", example=option.example))
    if len(text) > 4096 or not text.isprintable():
        raise InputError(Message("workload.no_plain_text", example=option.example))
    return text


def _number_text(value: numbers.Real) -> str:
    number = _float(value)
    return units.exact_number(number) if math.isfinite(number) else str(number)


def _float(value: numbers.Real) -> float:
    """As a float; what is beyond all floats (a whole number of 400 digits, from a
    file) is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if abs(value) == value else -math.inf


def _kind_name(value: Any) -> Message | str:
    kind = type(value).__name__
    key = {"bool": "flag", "list": "list", "dict": "mapping", "tuple": "list"}.get(kind)
    return Message(f"workload.kind_{key}") if key else kind


def _within(option: RequestOption, number: float, *, shown: str) -> float:
    """Refuse what is outside the limits and name the nearest valid value."""
    if option.low <= number <= option.high:
        return number
    low, high = _limit_text(option, option.low), _limit_text(option, option.high)
    nearest = low if not number > option.low else high
    wrong = "not_positive" if number <= 0 else "no_sense" if math.isfinite(number) else "not_finite"
    message = Message(f"workload.limit_{wrong}", value=shown, low=low, high=high, nearest=nearest)
    raise QuantityError(message, field=option.name, allowed=Message("workload.range", low=low, high=high), nearest=(nearest,))


def _limit_text(option: RequestOption, number: float) -> str:
    if option.kind == "duration":
        return (
            f"{number / SECONDS_PER_YEAR:g}y"
            if number >= SECONDS_PER_YEAR
            else units.format_duration(number).replace(" ", "")
            if number >= 1e-3
            else f"{number * 1e6:g}us"
        )
    if option.kind == "money":
        return f"{number:,.10g}usd"
    return f"{number:,.0f}" if number >= 1 else f"{number:g}" + ("/s" if option.kind == "rate" else "")


def _read_text(option: RequestOption, value: Any) -> dict[str, Any]:
    return {option.name: _text(option, value)}


def _read_word(option: RequestOption, value: Any) -> dict[str, Any]:
    assert option.vocabulary is not None
    text = {True: "on", False: "off"}[value] if isinstance(value, bool) else _text(option, value)
    return {option.name: option.vocabulary.find(text, kind=option.name, field=option.name)}


def _read_currency(option: RequestOption, value: Any) -> dict[str, Any]:
    """A currency whose rate is known: the bundled ones, and those that a price book adds."""
    code = units.currency_code(_text(option, value))
    if code not in exchange_rates():
        nearest = vocabulary.nearest_words(code, tuple(exchange_rates()))
        allowed = Message("names.own_price_book", names=", ".join(exchange_rates()))
        raise UnknownNameError("currency", str(value), nearest=nearest, allowed=allowed, field=option.name)
    return {option.name: code}


def _listed(option: RequestOption, value: Any) -> list[str]:
    """The entries of "a,b", ["a", "b"] or ("a,b", "c")."""
    parts = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
    joined = ",".join(_text(option, part) for part in parts).replace("、", ",").replace(";", ",")
    entries = [entry.strip() for entry in vocabulary.JOINTS.sub(",", joined).split(",")]
    return list(dict.fromkeys(entry for entry in entries if entry))


def _read_words(option: RequestOption, value: Any) -> dict[str, Any]:
    assert option.vocabulary is not None
    entries = _listed(option, value)
    return {option.name: tuple(dict.fromkeys(option.vocabulary.find(entry, kind=option.name, field=option.name) for entry in entries))}


def _read_names(option: RequestOption, value: Any) -> dict[str, Any]:
    """Names that the catalog or the facts know; only other spellings are settled here."""
    spell = {"cloud": _cloud, "country": _country}.get(option.name, str)
    entries = tuple(dict.fromkeys(spell(entry) for entry in _listed(option, value)))
    if not entries:
        raise InputError(Message("workload.empty", example=option.example))
    return {option.name: entries}


def _cloud(text: str) -> str:
    folded = vocabulary.fold(text)
    return vocabulary.CLOUDS.get(folded, folded)


def _country(text: str) -> str:
    """An ISO code; a name that is not in the vocabulary (a continent, say) is
    left to the catalog."""
    folded = vocabulary.fold(text)
    is_code = len(folded) == 2 and folded.isascii() and folded.isalpha()
    return vocabulary.COUNTRIES.get(folded) or (folded.upper() if is_code else text)


def _read_cards(option: RequestOption, value: Any) -> dict[str, Any]:
    """Accelerators by name; of one alone also how many: "8xH100", "2x 4090"."""
    entries = _listed(option, value)
    if len(entries) == 1 and entries[0].isdigit() and len(entries[0]) < 4:
        return _read_count(OPTIONS["num_gpus"], entries[0])
    said = [one for entry in entries if (one := _counted(entry))]
    if not said:
        return _read_names(option, value)
    if len(entries) > 1:
        raise InputError(Message("workload.several_counts", value=", ".join(entries), example="8xH100"))
    count, name = said[0]
    return {"gpu": (name,), "num_gpus": int(_within(OPTIONS["num_gpus"], count, shown=repr(entries[0])))}


def _counted(entry: str) -> tuple[int, str] | None:
    """ "8xH100" as (8, "H100"); None for a name alone, for a number that is one (4090), and for
    memory (24GB)."""
    from rightfit.facts import accelerators_of_memory  # only a number before a name needs the table

    said = vocabulary.read_cards(entry) if entry[:1].isdigit() else None
    if said is None or said[2] is not None or said[1] == entry.strip() or accelerators_of_memory(entry):
        return None
    return said[0], said[1]


def _read_number(option: RequestOption, value: Any) -> dict[str, Any]:
    text = _text(option, value)
    return {option.name: _within(option, units.parse_count(text, example=option.example), shown=repr(text))}


def _read_count(option: RequestOption, value: Any) -> dict[str, Any]:
    """A whole number."""
    text = _text(option, value)
    number = _within(option, units.parse_count(text, example=option.example), shown=repr(text))
    if number != int(number):
        raise QuantityError(Message("workload.no_whole_number", value=text, number=max(1, round(number))))
    return {option.name: int(number)}


def _read_length(option: RequestOption, value: Any) -> dict[str, Any]:
    """Tokens. As everybody means it, "8k" is 8192 and "128k" is 131072; "1M" is a million."""
    text = _text(option, value)
    plain = text.casefold().removesuffix("tokens").removesuffix("token").removesuffix("tok").strip()
    if plain.endswith("k") and plain[:-1].isdigit() and len(plain) < 8:
        plain = str(int(plain[:-1]) * 1024)
    return _read_count(option, plain or text)


def _read_lengths(option: RequestOption, value: Any) -> dict[str, Any]:
    """Tokens of every request, or the law of them: the mean is kept as the
    number, the law as typed."""
    text = _text(option, value)
    if not any(mark in text for mark in ("..", "~", "=", ":")):
        return _read_length(option, value)
    from rightfit.workload.traces import read_lengths  # only a law needs it

    law = read_lengths(text)
    _within(option, law.mean, shown=f"a mean of {law.mean:.0f}")
    return {option.name: max(round(law.mean), 1), option.attributes[1]: text}


def _read_size(option: RequestOption, value: Any) -> dict[str, Any]:
    """A side ("512") or height x width ("512x768"), in pixels; kept as text in that form."""
    text = _text(option, value)
    sides = text.casefold().removesuffix("px").replace("\u00d7", "x").replace("*", "x").split("x")
    if len(sides) > 2:
        raise QuantityError(Message("workload.no_size", value=text, example=either((option.example, "512x768"))))
    numbers = [_within(option, units.parse_count(side.strip() or text, example=option.example), shown=repr(text)) for side in sides]
    if any(number != int(number) for number in numbers):
        raise QuantityError(Message("workload.no_pixels", value=text, number=max(8, round(numbers[0]))))
    return {option.name: "x".join(str(int(number)) for number in dict.fromkeys(numbers) or numbers)}


def _read_percent(option: RequestOption, value: Any) -> dict[str, Any]:
    text = _text(option, value)
    number = units.parse_count(text.casefold().removeprefix("p").removesuffix("%").strip() or text, example=option.example)
    return {option.name: _within(option, number, shown=repr(text))}


def _read_slice(option: RequestOption, value: Any) -> dict[str, Any]:
    """A MIG profile or a fraction of a card, as it is kept."""
    from rightfit.facts.devices import read_slice  # only a slice needs the table

    return {option.name: read_slice(_text(option, value))}


def _read_share(option: RequestOption, value: Any) -> dict[str, Any]:
    """A part of one: "0.6" or "60%"."""
    text = _text(option, value)
    number = units.parse_count(text.removesuffix("%").strip() or text, example=option.example) / (100.0 if text.endswith("%") else 1.0)
    if number < 0 or number > 1:
        raise QuantityError(Message("workload.no_share", value=text, low=option.low, high=option.high), field=option.name)
    return {option.name: _within(option, number, shown=repr(text))}


def _read_price_pair(option: RequestOption, value: Any) -> dict[str, Any]:
    """Prices of a million tokens in and out: "0.15/0.60" (USD), "1/4cny", "$0.2" for both."""
    text = _text(option, value)
    parts = [part.strip() for part in text.split("/")]
    if len(parts) > 2 or not all(parts):
        raise QuantityError(Message("workload.no_prices", value=text, example=option.example))
    amounts = [_amount(part, option) for part in parts]
    currency = next((money_.currency for money_ in amounts if money_.currency), "usd")
    prices = [_within(option, to_usd(units.Money(one.amount, one.currency or currency, False)), shown=repr(text)) for one in amounts]
    return {"api_price": text, "api_input_usd_per_million": prices[0], "api_output_usd_per_million": prices[-1]}


def _amount(part: str, option: RequestOption) -> units.Money:
    """An amount of money whose currency may be left out (then empty)."""
    if part.replace(".", "", 1).isdigit():
        return units.Money(float(part), "", False)
    if part.lstrip("-+").replace(".", "", 1).isdigit():
        raise QuantityError(Message("workload.not_positive", value=part, example=option.example))
    try:
        return units.parse_money(part)
    except InputError:
        raise QuantityError(Message("workload.no_price", value=part, example=option.example)) from None


def _read_duration(option: RequestOption, value: Any) -> dict[str, Any]:
    text = _text(option, value)
    return {option.attributes[0]: _within(option, units.parse_duration(text), shown=repr(text))}


def _read_rate(option: RequestOption, value: Any) -> dict[str, Any]:
    text = _text(option, value)
    return {option.attributes[0]: _within(option, units.parse_rate(text), shown=repr(text))}


def _read_money(option: RequestOption, value: Any) -> dict[str, Any]:
    text = _text(option, value)
    amount = units.parse_money(text)
    return {"budget": text, "budget_usd": _within(option, to_usd(amount), shown=repr(text)), "budget_per_month": amount.per_month}


def _read_data(option: RequestOption, value: Any) -> dict[str, Any]:
    """An amount with a unit, a file or folder of one's own, or the name of a dataset in the
    facts."""
    text = _text(option, value)
    if is_data_path(text):
        text = counted(text).text
    if not (text[0].isdigit() or text[0] in "+-.半一二三四五六七八九十百千万两" or text.casefold() in ("nan", "inf")):
        return {"data": text, **_dataset_size(text)}
    if is_table(text):
        return {"data": text, **_table_size(text)}
    size = units.parse_data(text)
    limits = {"tokens": 1e16, "samples": 1e14, "bytes": 1e18}
    for attribute, high in limits.items():
        amount = getattr(size, attribute)
        if amount is not None and not 1 <= amount <= high:
            wrong = "not_positive" if amount <= 0 else "no_sense"
            raise QuantityError(Message(f"workload.amount_{wrong}", value=text, high=high, unit=attribute))
    sizes = {"data_tokens": size.tokens, "data_samples": size.samples, "data_bytes": size.bytes}
    return {"data": text, "data_unit": size.unit, **{name: amount for name, amount in sizes.items() if amount is not None}}


def _table_size(text: str) -> dict[str, Any]:
    """Rows and columns; a size in bytes stays one, because how wide its cells are is for the
    reader of the wish."""
    size = parse_table_size(text)
    for number, side, high in ((size.rows, "rows", 1e14), (size.cols, "columns", 1e7)):
        if not number <= high:
            raise QuantityError(Message("workload.amount_no_sense", value=text, high=high, unit=side))
    if size.cols != int(size.cols):
        raise QuantityError(Message("workload.no_columns", value=text, number=max(1, round(size.cols))))
    amount = {"data_bytes": size.size_bytes} if size.size_bytes else {"data_samples": size.rows}
    return {**amount, "data_unit": "bytes" if size.size_bytes else "rows", "data_columns": int(size.cols)}


def _dataset_size(name: str) -> dict[str, Any]:
    from rightfit import facts  # only a named dataset needs the facts

    record = facts.dataset(name)
    sizes = {"data_tokens": record.tokens, "data_samples": record.samples, "data_bytes": record.size_bytes}
    return {"data_unit": "dataset", **{attribute: float(amount) for attribute, amount in sizes.items() if amount}}


_PLAIN_NUMBERS = ("number", "count", "length", "percent", "share")

_READERS: Mapping[str, Callable[[RequestOption, Any], dict[str, Any]]] = {
    "text": _read_text,
    "word": _read_word,
    "words": _read_words,
    "currency": _read_currency,
    "names": _read_names,
    "cards": _read_cards,
    "number": _read_number,
    "count": _read_count,
    "length": _read_length,
    "lengths": _read_lengths,
    "percent": _read_percent,
    "share": _read_share,
    "slice": _read_slice,
    "price_pair": _read_price_pair,
    "size": _read_size,
    "duration": _read_duration,
    "rate": _read_rate,
    "money": _read_money,
    "data": _read_data,
}
