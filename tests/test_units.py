"""Quantities as people write them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit import units
from rightfit.errors import QuantityError
from rightfit.units import DataSize, Money


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("24h", 86400.0),
        ("300ms", 0.3),
        ("3d", 259200.0),
        ("1h30m", 5400.0),
        ("1h 30 min", 5400.0),
        ("1小时30分钟", 5400.0),
        ("2 days and 3 hours", 183600.0),
        ("２４ｈ", 86400.0),
        ("24H", 86400.0),
        ("半天", 43200.0),
        ("十天", 864000.0),
        ("三天", 259200.0),
        ("0.5s", 0.5),
        ("1e3 s", 1000.0),
        ("2周", 1209600.0),
        ("10us", 1e-5),
    ],
)
def test_parse_duration(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("10GB", 1e10),
        ("10GiB", 10 * 2**30),
        ("500 MB", 5e8),
        ("1.5TB", 1.5e12),
        ("10 gb", 1e10),
        ("7B", 7.0),
        ("2KiB", 2048.0),
        ("１ＧＢ", 1e9),
    ],
)
def test_parse_bytes(text: str, size: float) -> None:
    assert units.parse_bytes(text) == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "money"),
    [
        ("200usd", Money(200.0, "usd")),
        ("$200", Money(200.0, "usd")),
        ("US$1,200", Money(1200.0, "usd")),
        ("200 美元", Money(200.0, "usd")),
        ("¥500", Money(500.0, "cny")),
        ("￥５００", Money(500.0, "cny")),
        ("500元", Money(500.0, "cny")),
        ("500块", Money(500.0, "cny")),
        ("1.5万元", Money(15000.0, "cny")),
        ("$1.5k", Money(1500.0, "usd")),
        ("1k usd", Money(1000.0, "usd")),
        ("1500cny/month", Money(1500.0, "cny", per_month=True)),
        ("200usd per month", Money(200.0, "usd", per_month=True)),
        ("每月500元", Money(500.0, "cny", per_month=True)),
        ("500元/月", Money(500.0, "cny", per_month=True)),
        ("€99", Money(99.0, "eur")),
    ],
)
def test_parse_money(text: str, money: Money) -> None:
    assert units.parse_money(text) == money


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("50Mtok", DataSize("tokens", tokens=5e7)),
        ("50M tokens", DataSize("tokens", tokens=5e7)),
        ("5B tokens", DataSize("tokens", tokens=5e9)),
        ("2亿 tokens", DataSize("tokens", tokens=2e8)),
        ("1.28Mimages", DataSize("images", samples=1.28e6)),
        ("100ksamples", DataSize("samples", samples=1e5)),
        ("10万条", DataSize("samples", samples=1e5)),
        ("１０万条", DataSize("samples", samples=1e5)),
        ("十万条", DataSize("samples", samples=1e5)),
        ("百万张图片", DataSize("images", samples=1e6)),
        ("5000行", DataSize("rows", samples=5000.0)),
        ("10GB", DataSize("bytes", bytes=1e10)),
        ("10MB", DataSize("bytes", bytes=1e7)),
    ],
)
def test_parse_data(text: str, size: DataSize) -> None:
    assert units.parse_data(text) == size


@pytest.mark.parametrize(
    ("text", "per_second"),
    [
        ("10/s", 10.0),
        ("600/min", 10.0),
        ("36000/h", 10.0),
        ("10qps", 10.0),
        ("10 req/s", 10.0),
        ("10 requests per second", 10.0),
        ("0.864M requests/day", 10.0),
        ("10次/秒", 10.0),
        ("每天86.4万次", 10.0),
        ("每秒10次", 10.0),
    ],
)
def test_parse_rate(text: str, per_second: float) -> None:
    assert units.parse_rate(text) == pytest.approx(per_second, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "number"), [("1.28M", 1.28e6), ("8k", 8000.0), ("10万", 1e5), ("1,000", 1000.0), ("1_000", 1000.0), (3, 3.0), ("8", 8.0)]
)
def test_parse_count(text: str | float, number: float) -> None:
    assert units.parse_count(text) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (units.parse_duration, "24", "24h?"),
        (units.parse_duration, "", "24h"),
        (units.parse_duration, "3M", "3min or 3months?"),
        (units.parse_duration, "5 parsecs", "ms, s, min, h, d, w"),
        (units.parse_duration, "nan", "not a quantity"),
        (units.parse_duration, "h", "no number"),
        (units.parse_bytes, "10", "10GB?"),
        (units.parse_bytes, "10Gb", "GB"),
        (units.parse_bytes, "5Q", "units: B"),
        (units.parse_money, "200", "200usd or 200cny?"),
        (units.parse_money, "200xyz", "usd, cny, eur, gbp"),
        (units.parse_money, "5usd/h", "5usd/month?"),
        (units.parse_data, "50", "'50 samples', 50Mtok or 50GB?"),
        (units.parse_data, "50M", "50Mtok, 50Msamples or 50MB?"),
        (units.parse_data, "3 blobs", "tok, samples, images"),
        (units.parse_rate, "10", "10/s?"),
        (units.parse_rate, "10/fortnight", "10/s?"),
        (units.parse_count, "inf", "not a quantity"),
        (units.parse_count, "1e999", "as a number"),
        (units.parse_count, "1,00", "as a number"),
        (units.parse_count, "1.2.3", "as a number"),
        (units.parse_count, math.nan, "not a quantity"),
        (units.parse_count, "8x", "suffix"),
    ],
)
def test_refuses_with_a_proposal(parse: object, text: str, hint: str) -> None:
    assert callable(parse)
    with pytest.raises(QuantityError) as caught:
        parse(text)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=30))
def test_any_text_parses_or_is_refused_in_one_line(text: str) -> None:
    for parse in (units.parse_duration, units.parse_bytes, units.parse_money, units.parse_data, units.parse_rate, units.parse_count):
        try:
            parse(text)
        except QuantityError as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017


@settings(max_examples=200, deadline=None)
@given(st.floats(min_value=1e-6, max_value=1e9, allow_nan=False))
def test_exact_duration_reads_back(seconds: float) -> None:
    assert units.parse_duration(units.exact_duration(seconds)) == seconds


@settings(max_examples=200, deadline=None)
@given(st.floats(min_value=1e-7, max_value=1e17, allow_nan=False))
def test_exact_number_reads_back(number: float) -> None:
    assert units.parse_count(units.exact_number(number)) == number


@given(
    st.integers(min_value=1, max_value=10**6), st.sampled_from([("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86400.0), ("小时", 3600.0)])
)
def test_durations_scale_with_their_unit(number: int, unit: tuple[str, float]) -> None:
    assert units.parse_duration(f"{number}{unit[0]}") == number * unit[1]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.format_duration(0.3), "300 ms"),
        (units.format_duration(45), "45 s"),
        (units.format_duration(5400), "1h 30min"),
        (units.format_duration(3599.9), "1h"),
        (units.format_duration(100000), "1d 4h"),
        (units.format_duration(math.inf), "-"),
        (units.format_bytes(80e9), "80 GB"),
        (units.format_bytes(1.5e9), "1.5 GB"),
        (units.format_bytes(0), "0 B"),
        (units.format_count(8030261248), "8.03B"),
        (units.format_count(1.28e6), "1.28M"),
        (units.format_count(950), "950"),
        (units.format_usd(12.3), "$12.30"),
        (units.format_usd(1234.5), "$1,234"),
        (units.format_usd(0.0042), "$0.0042"),
        (units.format_money(500, "cny"), "¥500.00"),
        (units.exact_duration(86400), "24h"),
        (units.exact_duration(5400), "90min"),
        (units.exact_duration(259200), "3d"),
    ],
)
def test_format(shown: str, expected: str) -> None:
    assert shown == expected
