"""Requests over time: drawn from a law, or read from a trace (CSV, JSON, JSON lines).

A trace has one request per row with a time (seconds, milliseconds where the name ends in _ms, or an
ISO date), prompt tokens and generated tokens. Names of the columns used by published traces are
understood: Azure LLM inference (TIMESTAMP, ContextTokens, GeneratedTokens), Mooncake (timestamp in
ms, input_length, output_length), BurstGPT (Timestamp, Request tokens, Response tokens).
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rightfit import reach
from rightfit.errors import FileInputError, QuantityError, UnknownNameError
from rightfit.facts.tables import shape
from rightfit.messages import Message, cause, foreign, system_problem
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_HOUR
from rightfit.workload.vocabulary import DATA, nearest_words

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

MAX_TRACE_BYTES = 500_000_000
LARGEST_TOKENS = 100_000_000
_COLUMNS: Mapping[str, list[str]] = tomllib.loads((DATA / "trace_columns.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in order of arrival: `arrival_s` [s] from the first moment on,
    `input_tokens`, `output_tokens`."""

    arrival_s: Array
    input_tokens: Counts
    output_tokens: Counts

    def __len__(self) -> int:
        return int(self.arrival_s.size)

    @property
    def rate_per_s(self) -> float:
        """Mean rate between the first and the last arrival."""
        span = float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) > 1 else 0.0
        return (len(self) - 1) / span if span > 0 else math.inf

    def at_rate(self, rate_per_s: float) -> Requests:
        """The same requests with their times stretched to another mean rate."""
        _check_positive(rate_per_s, "rate")
        if not 0 < self.rate_per_s < math.inf:
            raise QuantityError(Message("workload.all_at_once"))
        return dataclasses.replace(self, arrival_s=self.arrival_s * (self.rate_per_s / rate_per_s))


@dataclass(frozen=True, slots=True)
class Lengths:
    """A law of token counts: fixed (`variation` 0), else log-normal with that coefficient of
    variation, within [smallest, largest]; or `even`, all lengths from smallest to largest alike."""

    mean: float
    variation: float = 0.0
    smallest: int = 1
    largest: int = LARGEST_TOKENS
    even: bool = False

    def __post_init__(self) -> None:
        _check_positive(self.mean, "mean_length")
        if not 0 <= self.variation < 100:
            raise QuantityError(Message("workload.variation", variation=self.variation))
        if not 1 <= self.smallest <= self.largest:
            raise QuantityError(Message("workload.length_limits", smallest=self.smallest, largest=self.largest))

    def quantiles(self, shares: Array) -> Array:
        """Length at each share of the requests, before rounding."""
        if self.even:
            return np.asarray(self.smallest + (self.largest - self.smallest) * shares)
        if self.variation == 0:
            return np.full(shares.shape, self.mean)
        spread = math.log1p(self.variation**2)
        normal = NormalDist()
        scores = np.array([normal.inv_cdf(float(share)) for share in shares.ravel()]).reshape(shares.shape)
        return np.clip(self.mean * np.exp(math.sqrt(spread) * scores - spread / 2.0), self.smallest, self.largest)

    def draw(self, count: int, *, dice: np.random.Generator) -> Counts:
        """`count` lengths."""
        if self.even:
            return dice.integers(self.smallest, self.largest + 1, count).astype(np.int64)
        if self.variation == 0:
            return np.full(count, max(round(self.mean), 1), dtype=np.int64)
        spread = math.log1p(self.variation**2)
        drawn = dice.lognormal(math.log(self.mean) - spread / 2.0, math.sqrt(spread), count)
        return np.clip(np.rint(drawn), self.smallest, self.largest).astype(np.int64)

    def capped(self, largest: int) -> Lengths:
        """The same law with nothing longer than `largest` (what a model's context leaves)."""
        if self.even:
            top = min(self.largest, largest)
            return dataclasses.replace(self, largest=top, mean=(self.smallest + top) / 2.0)
        return dataclasses.replace(self, largest=max(min(self.largest, largest), self.smallest))


_LENGTHS_EXAMPLE = Message("workload.lengths")
_EVEN = re.compile(r"^([0-9][0-9,_.]*k?)\s*(?:\.\.|-|~|to)\s*([0-9][0-9,_.]*k?)$")
_NAMED = r"({statistic})\s*[=:]\s*([0-9]+(?:\.[0-9]+)?)(k?)"


def read_lengths(text: str) -> Lengths:
    """A law of lengths as typed: "1024", "200..4000" (all alike), "p50=500,p95=3000",
    "mean=512,cv=1" or "mean=512,p99=4000" (log-normal; min= and max= cut it)."""
    folded = text.strip().casefold().removesuffix("tokens").strip()
    between = _EVEN.match(folded.replace(" ", "")) if ".." in folded or "~" in folded else None
    if between:
        low, high = (_length(part, text) for part in between.groups())
        if low > high:
            raise QuantityError(Message("workload.lengths_swapped", value=text, low=high, high=low))
        return Lengths((low + high) / 2.0, 0.0, low, high, even=low < high)
    parts = shape("amounts", _NAMED)
    named = {name: float(value) * (1024.0 if kilo else 1.0) for name, value, kilo in parts.findall(folded)}
    if parts.sub("", folded).strip(" ,;/") or not named:
        raise QuantityError(Message("workload.no_lengths", value=text, why=_LENGTHS_EXAMPLE))
    return _log_normal(named, text)


def _length(part: str, text: str) -> int:
    plain = part.replace(",", "").replace("_", "").rstrip(".")
    number = (
        float(plain.removesuffix("k")) * (1024.0 if plain.endswith("k") else 1.0)
        if plain.removesuffix("k").replace(".", "", 1).isdigit()
        else 0.0
    )
    if not 1 <= number <= LARGEST_TOKENS or number != int(number):
        raise QuantityError(Message("workload.no_length", value=text, word=part, why=_LENGTHS_EXAMPLE))
    return int(number)


def _log_normal(named: Mapping[str, float], text: str) -> Lengths:
    """A log-normal law from two percentiles, or from its mean (or median) and coefficient of
    variation, or from its mean and a percentile above it."""
    shares = sorted((float(name[1:]) / 100.0, value) for name, value in named.items() if name[0] == "p")
    if len(shares) == 2 and "mean" not in named and "cv" not in named:
        (low_share, low), (high_share, high) = shares
        if not 0 < low <= high or not 0 < low_share < high_share < 1:
            raise QuantityError(Message("workload.percentiles", value=text, why=_LENGTHS_EXAMPLE))
        scores = [NormalDist().inv_cdf(share) for share in (low_share, high_share)]
        spread = math.log(high / low) / (scores[1] - scores[0])
        mean, variation = low * math.exp(spread**2 / 2.0 - spread * scores[0]), math.sqrt(math.expm1(spread**2))
    elif len(shares) == 1 and "mean" in named and "cv" not in named:
        mean, ((share, high),) = named["mean"], shares
        score = NormalDist().inv_cdf(share) if 0.5 < share < 1 else 0.0
        # ln(high / mean) = score * spread - spread^2 / 2, of which the smaller root is the law: no
        # spread lifts the percentile higher than exp(score^2 / 2) times the mean.
        rest = score**2 - 2.0 * math.log(max(high, mean) / mean) if mean > 0 else -1.0
        if high < mean or rest < 0:
            raise QuantityError(Message("workload.percentiles", value=text, why=_LENGTHS_EXAMPLE))
        variation = math.sqrt(math.expm1((score - math.sqrt(rest)) ** 2))
    elif "mean" in named and not shares:
        mean, variation = named["mean"], named.get("cv", 0.0)
    elif len(shares) == 1 and shares[0][0] == 0.5 and "cv" in named and "mean" not in named:
        mean, variation = shares[0][1] * math.sqrt(1.0 + named["cv"] ** 2), named["cv"]
    else:
        raise QuantityError(Message("workload.no_law", value=text, why=_LENGTHS_EXAMPLE))
    return Lengths(mean, variation, int(max(named.get("min", 1.0), 1.0)), int(named.get("max", LARGEST_TOKENS)))


def draw_requests(count: int, *, rate_per_s: float, inputs: Lengths, outputs: Lengths, variation: float = 1.0, seed: int = 0) -> Requests:
    """`count` requests at a mean rate: Poisson, or bursty with gamma gaps whose coefficient of
    variation is not 1 (0 = one every 1/rate)."""
    _check_positive(rate_per_s, "rate")
    if count < 1:
        raise QuantityError(Message("workload.few_requests", count=count))
    if not 0 <= variation <= 100:
        raise QuantityError(Message("workload.gaps", variation=variation))
    dice = np.random.default_rng(seed)
    shape = 1.0 / variation**2 if variation else math.inf
    gaps = np.full(count, 1.0 / rate_per_s) if math.isinf(shape) else dice.gamma(shape, 1.0 / (shape * rate_per_s), count)
    return Requests(np.cumsum(gaps), inputs.draw(count, dice=dice), outputs.draw(count, dice=dice))


def _check_positive(value: float, name: str) -> None:
    if not 0 < value < math.inf:
        raise QuantityError(Message("workload.nothing_positive", problem=Message(f"workload.positive_{name}"), value=value))


def read_trace(path: str | Path) -> Requests:
    """Requests of a trace file, sorted by time and counted from the first. A malformed row is
    refused with its line."""
    name = str(path)
    rows = _rows(name, _read_text(path))
    times: list[float] = []
    inputs: list[int] = []
    outputs: list[int] = []
    keys: tuple[str, str, str] | None = None
    for line, row in rows:
        keys = keys or _columns(name, line, row)
        times.append(_time(name, line, keys, row.get(keys[0])))
        inputs.append(_tokens(name, line, keys[1], row.get(keys[1])))
        outputs.append(_tokens(name, line, keys[2], row.get(keys[2])))
    if not times:
        raise FileInputError(Message("workload.empty_trace", name=name))
    order = np.argsort(np.asarray(times), kind="stable")
    arrival = np.asarray(times)[order]
    return Requests(arrival - arrival[0], np.asarray(inputs, dtype=np.int64)[order], np.asarray(outputs, dtype=np.int64)[order])


def _read_text(path: str | Path) -> str:
    reach.refuse_file(repr(str(path)[:80]), field="trace")
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise FileInputError(Message("problems.no_file", name=path, hint="")) from None
    except (OSError, ValueError) as error:
        raise FileInputError(Message("problems.cannot_read", name=path, error=system_problem(error))) from None
    if len(data) > MAX_TRACE_BYTES:
        raise FileInputError(Message("workload.trace_too_large", name=path, megabytes=MAX_TRACE_BYTES // 1000000))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileInputError(Message("workload.not_utf8", name=path, line=line, byte=data[error.start])) from None


def _rows(name: str, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    start = text.lstrip()[:1]
    if start == "[":
        return _json_rows(name, text)
    if start == "{":
        return _json_lines(name, text)
    return _csv_rows(name, text)


def _csv_rows(name: str, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    if "\x00" in text:
        raise FileInputError(Message("workload.zero_byte", name=name, line=text.count(chr(10), 0, text.index(chr(0))) + 1))
    reader = csv.reader(text.splitlines(), delimiter="\t" if "\t" in text.partition("\n")[0] else ",")
    header: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip().casefold() for cell in cells]
            elif len(cells) != len(header):
                raise FileInputError(Message("workload.cells", name=name, line=reader.line_num, count=len(cells), wanted=len(header)))
            else:
                yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise FileInputError(Message("workload.line", name=name, line=reader.line_num, error=cause(error))) from None


def _json_lines(name: str, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    for line, content in enumerate(text.splitlines(), start=1):
        if content.strip():
            try:
                yield line, _json_row(name, line, json.loads(content))
            except json.JSONDecodeError as error:
                raise FileInputError(Message("workload.not_json_lines", name=name, line=line, error=foreign(error.msg))) from None
            except RecursionError:
                raise FileInputError(Message("workload.nested", name=name, line=line)) from None


def _json_rows(name: str, text: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    """Objects of one JSON list, read one after the other so that each knows its line."""
    decoder = json.JSONDecoder()
    position = text.index("[") + 1
    line, counted = 1, 0
    while True:
        while position < len(text) and text[position] in " \t\r\n,":
            position += 1
        line, counted = line + text.count("\n", counted, position), position
        if position >= len(text):
            raise FileInputError(Message("workload.list_open", name=name, line=line))
        if text[position] == "]":
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise FileInputError(Message("workload.not_json", name=name, line=error.lineno, error=foreign(error.msg))) from None
        except RecursionError:
            raise FileInputError(Message("workload.nested", name=name, line=line)) from None
        yield line, _json_row(name, line, value)


def _json_row(name: str, line: int, value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise FileInputError(Message("workload.no_request", name=name, line=line, value=str(value)[:40]))
    return {str(key).strip().casefold(): content for key, content in value.items()}


def _columns(name: str, line: int, row: Mapping[str, object]) -> tuple[str, str, str]:
    found = []
    for what, known in _COLUMNS.items():
        key = next((key for key in known if key in row), None)
        if key is None:
            raise FileInputError(
                Message(
                    "workload.no_column",
                    name=name,
                    line=line,
                    problem=Message(f"workload.column_{what}"),
                    elsewhere=", ".join(row)[:120] or "none",
                    word=known[0],
                )
            )
        found.append(key)
    return found[0], found[1], found[2]


#: Columns of traces whose times are milliseconds though no name says so: Mooncake
#: (kvcache-ai/Mooncake, FAST25-release/traces).
_IN_MS = (("timestamp", "input_length", "output_length"),)


def _time(name: str, line: int, keys: tuple[str, str, str], value: object) -> float:
    key = keys[0]
    number = _number(value)
    if number is None and isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip()[:26]).timestamp()
        except (ValueError, OverflowError, OSError):
            number = None
    if number is None or not math.isfinite(number):
        raise FileInputError(Message("workload.no_time", name=name, line=line, column=key, value=str(value)[:40]))
    return number / 1000.0 if key.endswith("_ms") or keys in _IN_MS else number


def _tokens(name: str, line: int, key: str, value: object) -> int:
    number = _number(value)
    if number is None or not math.isfinite(number) or number != int(number) or not 1 <= number <= LARGEST_TOKENS:
        raise FileInputError(
            Message("workload.no_token_count", name=name, line=line, column=key, value=str(value)[:40], most=LARGEST_TOKENS)
        )
    return int(number)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


# ---- Hourly load profiles: how the rate of requests moves over a day, named, typed by hand, or
# counted in a trace.

HOURS = 24

_SHAPES = tomllib.loads((DATA / "profiles.toml").read_text(encoding="utf-8"))
#: Shapes by assumption, not by measurement: relative load of each hour from midnight. A user's own
#: profile or trace is always better.
SHAPES: dict[str, tuple[float, ...]] = {name: tuple(hours) for name, hours in _SHAPES.items()}


def hourly_rates(profile: str, *, peak_per_s: float) -> Array:
    """Rates of 24 hours (24,) [1/s] whose busiest is `peak_per_s`: the name of a shape, or 24
    numbers separated by commas (relative or in requests/s)."""
    if not 0 < peak_per_s < math.inf:
        raise QuantityError(Message("workload.no_rate", value=peak_per_s), field="rate")
    shape = shape_of(profile)
    return np.asarray(shape / shape.max() * peak_per_s)


def shape_of(profile: str) -> Array:
    """The 24 numbers (24,) that a profile says: those of a named shape, typed with commas, or in a
    file (one a line or with commas)."""
    name = profile.strip().casefold()
    if "," in name:
        shape = _typed(profile)
    elif _is_file(profile):
        shape = _typed(_file_text(profile), where=Message("workload.before", place=profile))
    elif name in SHAPES:
        shape = np.array(SHAPES[name])
    else:
        raise UnknownNameError(
            "load profile",
            profile,
            nearest=nearest_words(name, list(SHAPES), count=1),
            allowed=Message("workload.profiles", names=", ".join(SHAPES)),
        )
    return shape


def _is_file(profile: str) -> bool:
    if reach.is_closed():
        return any(mark in profile for mark in "./\\")
    return any(mark in profile for mark in "./\\") or Path(profile).is_file()


def _file_text(path: str) -> str:
    """The numbers of a file with commas: one a line, the last cell where a line has several
    (hour,rate), a heading left out."""
    reach.refuse_file(repr(path[:80]), field="profile")
    try:
        text = Path(path).read_text("utf-8-sig")
    except FileNotFoundError:
        raise FileInputError(Message("problems.no_file", name=path, hint="")) from None
    except UnicodeDecodeError:
        raise FileInputError(Message("workload.profile_not_text", path=path, hours=HOURS)) from None
    except (OSError, ValueError) as error:
        raise FileInputError(Message("problems.cannot_read", name=path, error=system_problem(error))) from None
    lines = [line.strip().strip("[]") for line in text[:100_000].splitlines() if line.strip().strip("[]")]
    if len(lines) == 1:
        return lines[0]
    if lines and not any(mark.isdigit() for mark in lines[0]):
        lines = lines[1:]
    return ",".join(line.rstrip(",").rpartition(",")[2] for line in lines)


def _typed(profile: str, *, where: Message | str = "") -> Array:
    cells = [cell.strip() for cell in profile.rstrip(", ").split(",")]
    if len(cells) != HOURS:
        raise QuantityError(Message("workload.profile_hours", line=where, hours=HOURS, count=len(cells)))
    values = np.zeros(HOURS)
    for hour, cell in enumerate(cells):
        try:
            values[hour] = float(cell)
        except ValueError:
            raise QuantityError(Message("workload.profile_no_number", line=where, hour=hour, cell=cell[:40])) from None
        if not 0 <= values[hour] < math.inf:
            raise QuantityError(Message("workload.profile_negative", line=where, hour=hour, cell=cell[:40]))
    if values.max() <= 0:
        raise QuantityError(Message("workload.profile_zero", line=where))
    return values


def profile_of(requests: Requests) -> Array:
    """Mean rate in each hour of the day (24,) [1/s] of a trace, days laid over one another; hour 0
    is the first of the trace.

    Hours that the trace does not reach get its mean rate.
    """
    hours = np.asarray(requests.arrival_s // SECONDS_PER_HOUR, dtype=np.intp)
    counted = np.bincount(hours % HOURS, minlength=HOURS).astype(np.float64)
    end = float(requests.arrival_s[-1])
    starts = np.arange(hours[-1] + 1) * SECONDS_PER_HOUR
    covered = np.bincount(np.arange(starts.size) % HOURS, np.minimum(end - starts, SECONDS_PER_HOUR), HOURS)
    mean = counted.sum() / max(covered.sum(), 1.0)
    return np.where(covered > 60.0, counted / np.maximum(covered, 1.0), mean)
