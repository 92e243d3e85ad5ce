"""Your own prices: a TOML or CSV file of discounts, private and owned servers, credits, taxes,
quotas and exchange rates, each entry checked.

Every mistake is one line with file, line and field; nothing in the file is skipped.
"""

from __future__ import annotations

import csv
import datetime
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from rightfit import units
from rightfit.errors import FileInputError, InputError, UnknownNameError
from rightfit.facts import tables
from rightfit.facts.tables import ExchangeRate, currencies
from rightfit.market import names
from rightfit.messages import Message, did_you_mean, foreign, line_each, system_problem
from rightfit.records import dataclass

LARGEST_BYTES = 4 * 2**20
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def _number(value: Any) -> Any:
    """A number, also as the text that a CSV cell holds."""
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value.strip()) else value


def _percent(value: Any) -> Any:
    return _number(value.strip().removesuffix("%")) if isinstance(value, str) else value


def _bytes(value: Any) -> Any:
    try:
        return units.parse_bytes(value) if isinstance(value, str) else value
    except InputError as error:
        raise ValueError(error.message) from None  # pydantic knows the field


def _listed(value: Any) -> Any:
    return tuple(part.strip() for part in value.replace(";", ",").split(",") if part.strip()) if isinstance(value, str) else value


def _amount(value: Any) -> Any:
    """Money as text: "2.1usd", "15 cny/h", or a number in the book's currency."""
    return f"{value:.12g}" if isinstance(value, int | float) and not isinstance(value, bool) else value


Number = Annotated[float, BeforeValidator(_number)]
Percent = Annotated[float, BeforeValidator(_percent), Field(ge=0, le=100)]
Bytes = Annotated[float, BeforeValidator(_bytes), Field(gt=0)]
Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Amount = Annotated[str, BeforeValidator(_amount)]
Count = Annotated[int, BeforeValidator(_number), Field(ge=1, le=100_000)]


class Entry(BaseModel):
    """One entry; unknown keys are refused. `line`: where it begins."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    line: int = Field(default=0, exclude=True)


class Discount(Entry):
    """A negotiated price: so many percent off, or the price of the whole server an hour, for the
    offers that fit all conditions."""

    provider: Names = ()
    region: Names = ()
    country: Names = ()
    type: Names = ()  # server types; * and ? are wildcards
    family: Names = ()
    gpu: Names = ()
    purchase: Names = ()
    percent: Percent | None = None
    price: Amount | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Discount:
        if (self.percent is None) == (self.price is None):
            raise ValueError(Message("catalog.book_one_way"))
        if self.price is not None and not self.type:
            raise ValueError(Message("catalog.book_price_of_type"))
        return self


class Server(Entry):
    """A server that the catalog does not list, at a price an hour."""

    name: str = Field(min_length=1, max_length=100)
    price: Amount | None = None
    provider: str = "private"
    gpu: str = ""
    gpus: Count | None = None
    vcpus: Count = 64
    memory: Bytes | None = None
    disk: Bytes | None = None
    network_gbps: Annotated[float, BeforeValidator(_number), Field(gt=0)] | None = None
    interconnect: str = ""
    rdma: str = "none"
    site: str = "private"
    country: str = Field(default="", max_length=2)
    servers: Count | None = None  # how many of them there are
    purchase: str = "on-demand"


class Owned(Server):
    """A server that one owns; without a price an hour costs what owning it costs."""

    capex: Amount | None = None
    utilisation: Annotated[float, BeforeValidator(_number), Field(gt=0, le=1)] | None = None
    purchase: str = "owned"


class Credit(Entry):
    """Money that a provider has granted."""

    provider: str
    amount: Amount
    expires: datetime.date | None = None


class Tax(Entry):
    """A tax on what is rented, of a provider or in a country; without either on everything."""

    percent: Percent
    provider: Names = ()
    country: Names = ()
    name: str = ""


class QuotaEntry(Entry):
    """A limit of the account in words: "8 A100 in us-east-1"."""

    limit: str = Field(min_length=1)


class Rate(Entry):
    """How many units of a currency one US dollar buys."""

    currency: str = Field(pattern=r"^[a-zA-Z]{3}$")
    units_per_usd: Annotated[float, BeforeValidator(_number), Field(gt=0)]


class BookFigure(Entry):
    """One of your own figures of owning (see `rightfit own`)."""

    name: str
    value: Number


_KINDS: Mapping[str, type[Entry]] = {
    "discount": Discount,
    "server": Server,
    "owned": Owned,
    "credit": Credit,
    "tax": Tax,
    "quota": QuotaEntry,
    "rate": Rate,
    "ownership": BookFigure,
}
_TOP = ("currency", "as_of", "rates", "ownership", *(name for name in _KINDS if name not in ("rate", "ownership")))


@dataclass(frozen=True, slots=True)
class PriceBook:
    """The entries of one file, in its order. `usd(amount)` turns an amount of the
    book into US dollars."""

    path: str
    as_of: str
    currency: str
    rates: Mapping[str, ExchangeRate]
    ownership: Mapping[str, float]
    entries: tuple[Entry, ...]

    def of(self, kind: type[Any]) -> list[Any]:
        """The entries of one kind."""
        return [entry for entry in self.entries if type(entry) is kind]

    def usd(self, text: str, *, entry: Entry, field: str) -> float:
        """US dollars of an amount: "2.1usd", "15 cny/h", "9.5" in the book's currency."""
        plain = re.sub(r"\s*/\s*(h|hour|小时|时)$", "", text.strip())
        known = {**currencies(), **self.rates}
        try:
            amount = units.Money(float(plain), self.currency) if _NUMBER.fullmatch(plain) else units.parse_money(plain)
        except InputError as error:
            raise self.error(entry, field, error.message) from None
        if not amount.amount > 0 or amount.per_month:
            raise self.error(entry, field, Message(f"catalog.not_positive{'_hour' if amount.per_month else ''}", text=text))
        return amount.amount / known[amount.currency].units_per_usd

    def error(self, entry: Entry, field: str, message: Message | str) -> FileInputError:
        """One line with file, line and field."""
        return FileInputError(_entry_problem(self.path, entry.line, field, message), field=field)

    def source(self, entry: Entry) -> str:
        """Where a price comes from."""
        return f"price book {self.path} line {entry.line}"


def read_price_book(path: str | Path) -> PriceBook:
    """Read and check a price book. Raises FileInputError, one line per problem."""
    file = Path(path).expanduser()
    text, day = _text(file), datetime.datetime.fromtimestamp(file.stat().st_mtime, tz=datetime.UTC).date()
    return parse_price_book(text, str(path), is_csv=file.suffix.casefold() == ".csv", usual_date=str(day))


def parse_price_book(text: str, path: str, *, is_csv: bool, usual_date: str) -> PriceBook:
    """The text of a price book; `path` stands in its problems, `usual_date` (ISO) holds where the
    text has none. Raises FileInputError."""
    raw, top = (_from_csv if is_csv else _from_toml)(text, path)
    problems: list[Message] = []
    entries = [entry for kind, line, values, lines in raw if (entry := _entry(kind, line, values, lines, path, problems)) is not None]
    currency = units.currency_code(str(top.get("currency", "usd")))
    rates = {entry.currency.casefold(): _rate(entry, path, top) for entry in entries if isinstance(entry, Rate)}
    if currency not in currencies() and currency not in rates:
        known = ", ".join({**currencies(), **rates})
        problems.append(Message("catalog.book_currency", file=path, word=str(top.get("currency")), names=known))
    if problems:
        raise FileInputError(line_each(problems))
    own = {entry.name: entry.value for entry in entries if isinstance(entry, BookFigure)}
    return PriceBook(path, str(top.get("as_of") or usual_date), currency, rates, own, tuple(entries))


def _rate(entry: Rate, path: str, top: Mapping[str, Any]) -> ExchangeRate:
    return ExchangeRate(entry.currency.casefold(), entry.units_per_usd, str(top.get("as_of", "")), f"price book {path} line {entry.line}")


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST_BYTES:
            raise FileInputError(Message("catalog.book_too_large", file=file, size=LARGEST_BYTES // 2**20))
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise FileInputError(Message("catalog.book_unread", file=file, error=system_problem(error))) from None
    except UnicodeDecodeError:
        raise FileInputError(Message("catalog.book_not_text", file=file)) from None


_Raw = list[tuple[str, int, Mapping[str, Any], Mapping[str, int]]]


def _from_toml(text: str, path: str) -> tuple[_Raw, Mapping[str, Any]]:
    """Entries as (kind, line, values, line of each key), and the keys outside entries."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"line (\d+)", str(error))
        raise FileInputError(Message("catalog.book_not_toml", file=path, row=where[1] if where else 1, error=foreign(str(error)))) from None
    lines = _toml_lines(text)
    raw: _Raw = []
    for kind, value in data.items():
        if kind not in _TOP:
            raise FileInputError(
                Message(
                    "catalog.book_key",
                    file=path,
                    row=lines.get((kind, 0, ""), lines.get(("", 0, kind), 1)),
                    word=repr(kind),
                    hint=_near(kind, _TOP),
                )
            )
        if kind in ("rates", "ownership"):
            raw += _pairs(kind, value, lines, path)
        elif kind not in ("currency", "as_of"):
            raw += _tables(kind, value, lines, path)
    return raw, data


def _pairs(kind: str, value: Any, lines: Mapping[tuple[str, int, str], int], path: str) -> _Raw:
    if not isinstance(value, dict):
        raise FileInputError(Message("catalog.book_no_table", file=path, row=lines.get(("", 0, kind), 1), kind=kind))
    fields = ("currency", "units_per_usd") if kind == "rates" else ("name", "value")
    return [
        ("rate" if kind == "rates" else kind, line, dict(zip(fields, pair, strict=True)), dict.fromkeys(fields, line))
        for pair in value.items()
        for line in [lines.get((kind, 0, pair[0]), 1)]
    ]


def _tables(kind: str, value: Any, lines: Mapping[tuple[str, int, str], int], path: str) -> _Raw:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise FileInputError(
            Message("catalog.book_no_tables", file=path, row=lines.get((kind, 0, ""), lines.get(("", 0, kind), 1)), kind=kind)
        )
    return [
        (kind, lines.get((kind, at, ""), 1), item, {key: lines.get((kind, at, key), lines.get((kind, at, ""), 1)) for key in item})
        for at, item in enumerate(value)
    ]


def _toml_lines(text: str) -> dict[tuple[str, int, str], int]:
    """The line of each table header (key "") and of each key: (table, number of the table, key)."""
    found: dict[tuple[str, int, str], int] = {}
    table, counts = ("", 0), dict[str, int]()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?", line):
            counts[header[1]] = counts.get(header[1], -1) + 1
            table = (header[1], counts[header[1]])
            found.setdefault((*table, ""), number)
        elif key := re.match(r"\s*\"?([\w-]+)\"?\s*=", line):
            found.setdefault((*table, key[1]), number)
    return found


def _from_csv(text: str, path: str) -> tuple[_Raw, Mapping[str, Any]]:
    """One entry a row; the column "entry" says of what kind. Empty cells are not given."""
    reader = csv.DictReader(text.splitlines())
    if "entry" not in (reader.fieldnames or ()):
        raise FileInputError(Message("catalog.book_no_entry_column", file=path, kinds=", ".join(_KINDS)))
    raw: _Raw = []
    for row in reader:
        values = {key: value.strip() for key, value in row.items() if key and isinstance(value, str) and value.strip()}
        if None in row:
            raise FileInputError(Message("catalog.book_cells", file=path, row=reader.line_num))
        if values:
            raw.append((values.pop("entry", ""), reader.line_num, values, dict.fromkeys(values, reader.line_num)))
    return raw, {}


def _entry(kind: str, line: int, values: Mapping[str, Any], lines: Mapping[str, int], path: str, problems: list[Message]) -> Entry | None:
    model = _KINDS.get(kind)
    if model is None:
        word = Message("catalog.book_kind", kind=kind, hint=_near(kind, _KINDS), kinds=", ".join(_KINDS))
        problems.append(_entry_problem(path, line, "entry", word))
        return None
    try:
        entry = model(**{**values, "line": line})
        _check_names(entry)
    except ValidationError as error:
        problems += [_problem(item, kind, model, line, lines, path) for item in error.errors()]
    except InputError as error:
        field = "provider" if error.field == "cloud" else error.field or ""
        problems.append(_entry_problem(path, lines.get(field, line), f"{kind}.{field}", error.message))
    else:
        return entry
    return None


def _problem(item: Any, kind: str, model: type[Entry], line: int, lines: Mapping[str, int], path: str) -> Message:
    """One problem of pydantic in one line of ours."""
    field = str(item["loc"][0]) if item["loc"] else ""
    place = (path, lines.get(field, line), kind + (f".{field}" if field else ""))
    if item["type"] == "extra_forbidden":
        known = [name for name in model.model_fields if name != "line"]
        return _entry_problem(*place, Message("catalog.book_key_hint", hint=_near(field, known), words=", ".join(known)))
    if item["type"] == "missing":
        return _entry_problem(*place, Message("catalog.book_missing"))
    raised = item.get("ctx", {}).get("error")
    problem = raised.args[0] if isinstance(raised, ValueError) else foreign(item["msg"][:1].lower() + item["msg"][1:])
    if field and not isinstance(item["input"], dict):
        problem = Message("catalog.book_value", given=repr(item["input"]), problem=problem)
    return _entry_problem(*place, problem)


def _entry_problem(path: str, line: int, field: str, problem: Message | str) -> Message:
    """What is wrong with one field of an entry."""
    return Message("catalog.book_entry", file=path, row=line, field=field, error=problem)


def _check_names(entry: Entry) -> None:
    """Clouds, purchase modes and cards, so that a typing error is never a discount on nothing."""
    from rightfit import facts

    providers = getattr(entry, "provider", ())
    for name in (providers,) if isinstance(providers, str) else providers:
        names.resolve_provider(name)
    modes = getattr(entry, "purchase", ())
    names.resolve_purchases((modes,) if isinstance(modes, str) else modes)
    cards = getattr(entry, "gpu", ())
    for name in (cards,) if isinstance(cards, str) and cards else cards:
        if not facts.match_accelerators(name):
            raise UnknownNameError("accelerator", name, nearest=facts.nearest_accelerators(name), field="gpu")


def _near(word: str, names: Iterable[str]) -> Message | str:
    near = tables.nearest(word.casefold(), tuple(names), count=1)
    return did_you_mean(near[:1])
