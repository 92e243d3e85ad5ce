"""Reading a price book: both forms say the same, and every mistake is one line with
file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from rightfit.errors import FileInputError
from rightfit.market.price_book import Credit, Discount, Owned, QuotaEntry, Server, Tax, read_price_book

TOML = """currency = "cny"
as_of = "2026-11-01"
[rates]
nzd = 1.7
[[discount]]
provider = ["aws", "阿里云"]
type = "p4d*"
percent = 40
[[server]]
name = "rack"
gpu = "A100-SXM-80GB"
gpus = 8
memory = "1TB"
price = 72
[[owned]]
name = "ours"
gpu = "RTX-4090"
price = "1.5 usd/h"
[[credit]]
provider = "gcp"
amount = "2000usd"
expires = 2027-01-31
[[tax]]
percent = 6
country = "CN"
[[quota]]
limit = "8 A100 in us-east-1"
"""
CSV = """entry,name,provider,type,percent,price,gpu,gpus,memory,amount,expires,country,limit,currency,units_per_usd
discount,,"aws,阿里云",p4d*,40%,,,,,,,,,,
server,rack,,,,72cny,A100-SXM-80GB,8,1TB,,,,,,
owned,ours,,,,1.5 usd/h,RTX-4090,,,,,,,,
credit,,gcp,,,,,,,2000usd,2027-01-31,,,,
tax,,,,6,,,,,,,CN,,,
quota,,,,,,,,,,,,8 A100 in us-east-1,,
rate,,,,,,,,,,,,,NZD,1.7
"""


def written(folder: Path, text: str, name: str = "book.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    toml, table = read_price_book(written(tmp_path, TOML)), read_price_book(written(tmp_path, CSV, "book.csv"))
    for kind in (Discount, Server, Owned, Credit, Tax, QuotaEntry):
        first, second = toml.of(kind), table.of(kind)
        assert len(first) == len(second) == 1
        skipped = {"line", "price"}
        assert first[0].model_dump(exclude=skipped) == second[0].model_dump(exclude=skipped)
    assert toml.rates["nzd"].units_per_usd == table.rates["nzd"].units_per_usd == 1.7


def test_amounts_are_read_in_the_book_s_currency(tmp_path: Path) -> None:
    book = read_price_book(written(tmp_path, TOML))
    rack, ours = book.of(Server)[0], book.of(Owned)[0]
    assert book.usd(rack.price, entry=rack, field="price") == pytest.approx(10.0)  # 72 yuan at 7.2
    assert book.usd(ours.price, entry=ours, field="price") == 1.5
    assert rack.memory == 1e12
    assert (rack.line, ours.line) == (9, 15)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ('[[discount]]\nprovider = "aws"\npercent = -5\n', 3, "discount.percent: -5: input should be greater than or equal to 0"),
        ('[[discount]]\nprovider = "aws"\npercent = 120\n', 3, "discount.percent: 120: input should be less than or equal to 100"),
        ('[[discount]]\nprovider = "aws"\npercnt = 5\n', 3, "discount.percnt: unknown key; did you mean percent?; allowed: provider"),
        ('\n[[discount]]\nprovider = "asw"\npercent = 5\n', 3, "discount.provider: unknown cloud 'asw'"),
        ('[[discount]]\nprovider = "aws"\n', 1, "discount: give either percent or price"),
        ('[[discount]]\npurchase = "prepaid-7y"\npercent = 5\n', 2, "discount.purchase: unknown purchase mode 'prepaid-7y'"),
        ('[[discount]]\ngpu = "A1000"\npercent = 5\n', 2, "discount.gpu: unknown accelerator 'A1000'"),
        ('[[server]]\nname = "x"\ngpus = 0\nprice = 1\n', 3, "server.gpus: 0: input should be greater than or equal to 1"),
        ("[[server]]\nprice = 1\n", 1, "server.name: is missing"),
        ('[[server]]\nname = "x"\nmemory = "lots"\nprice = 1\n', 3, "server.memory"),
        ('[[credit]]\nprovider = "gcp"\namount = "5usd"\nexpires = "soon"\n', 4, "credit.expires: 'soon'"),
        ("[rates]\nxx = 2\n", 2, "rate.currency: 'xx'"),
        ("[rates]\nnzd = 0\n", 2, "rate.units_per_usd: 0: input should be greater than 0"),
        ("[[discont]]\npercent = 5\n", 1, "unknown key 'discont'; did you mean discount?"),
        ("[discount]\npercent = 5\n", 1, "discount: write [[discount]] before each entry"),
        ("a = = 1\n", 1, "not TOML"),
    ],
)
def test_a_mistake_is_one_line_with_line_and_field(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FileInputError) as caught:
        read_price_book(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert message in str(caught.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = "[[discount]]\npercent = -1\n[[tax]]\npercent = 200\n"
    with pytest.raises(FileInputError) as caught:
        read_price_book(written(tmp_path, text))
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,price\nx,1\n", ":1: no column 'entry'"),
        ("entry,percent\ndiscont,5\n", ":2: entry: unknown kind 'discont'; did you mean discount?"),
        ("entry,percent\ntax,5\ntax,abc\n", ":3: tax.percent: 'abc'"),
        ("entry,percent\ntax,5,9\n", ":2: more cells than columns"),
    ],
)
def test_mistakes_in_csv(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileInputError) as caught:
        read_price_book(written(tmp_path, text, "book.csv"))
    assert message in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match="No such file"):
        read_price_book(tmp_path / "nowhere.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileInputError, match="not UTF-8"):
        read_price_book(tmp_path / "bytes.toml")
    with pytest.raises(FileInputError, match="unknown currency 'xyz'"):
        read_price_book(written(tmp_path, 'currency = "xyz"\n'))


@pytest.mark.parametrize("amount", ["-3usd", "0usd", "5usd/month", "5 florins"])
def test_amounts_that_make_no_sense(tmp_path: Path, amount: str) -> None:
    book = read_price_book(written(tmp_path, f'[[server]]\nname = "x"\nprice = "{amount}"\n'))
    with pytest.raises(FileInputError, match=r"book.toml:1: price: "):
        book.usd(book.of(Server)[0].price, entry=book.of(Server)[0], field="price")
