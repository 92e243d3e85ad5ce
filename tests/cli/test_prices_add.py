"""`rightfit prices add`: a quote goes into the price book and plans use it; what is wrong is one
line, and the book stays as it was."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

H20 = "tencent/PNV6.32XLARGE1280"
KNOWN = "aws/p5.48xlarge"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RIGHTFIT_PRICE_BOOK", raising=False)


def _book(path: str = "prices.toml") -> dict[str, Any]:
    return tomllib.loads(Path(path).read_text("utf-8"))


def test_a_quote_for_eight_h20_leads_the_plan(run: Any) -> None:
    wish = ("plan", "Qwen/Qwen2.5-32B-Instruct", "--task", "serve", "--rate", "2/s", "--gpu", "H20", "--cloud", "alicloud")
    labelled = json.loads(run(*wish, "--format", "json").out)["options"]  # no price by that name: only by the label of the cloud
    assert labelled[0]["accelerator"]["name"] != "H20-96GB"
    kept = run("prices", "add", "alicloud/h20-quoted", "200cny", "--gpu", "H20-96GB", "--count", "8", "--region", "cn-beijing")
    assert kept.code == 0, kept.err
    assert "--price-book prices.toml" in kept.out
    planned = run(*wish, "--price-book", "prices.toml", "--format", "json")
    assert planned.code == 0, planned.err
    best = json.loads(planned.out)["options"][0]
    assert (best["instance_type"], best["region"], best["accelerator"]["name"]) == ("h20-quoted", "cn-beijing", "H20-96GB")
    assert best["price_kind"] == "quote"
    assert best["accelerator"]["count_per_node"] == 8
    assert 20 < best["cost"]["hourly_usd"] < 40


def test_a_server_without_a_price_takes_what_the_catalog_knows(run: Any) -> None:
    assert run("prices", "add", "tencent/PNV6.16XLARGE640", "250cny/h", "--region", "ap-beijing").code == 0
    entry = _book()["server"][0]
    assert (entry["gpu"], entry["gpus"], entry["site"]) == ("H20-96GB", 4, "ap-beijing")
    shown = json.loads(run("prices", "PNV6.16XLARGE640", "--price-book", "prices.toml", "--format", "json").out)
    assert [row["region"] for row in shown] == ["ap-beijing"]


def test_another_price_of_a_listed_server_holds_for_its_way_and_region_alone(run: Any) -> None:
    assert run("prices", "add", KNOWN, "12.5usd", "--region", "us-east-1").code == 0
    assert _book()["discount"] == [
        {"provider": ["aws"], "type": ["p5.48xlarge"], "region": ["us-east-1"], "purchase": ["on-demand"], "price": "12.5usd"}
    ]
    rows = json.loads(run("prices", "p5.48xlarge", "--cloud", "aws", "--price-book", "prices.toml", "--format", "json", "--top", "0").out)
    priced = {(row["region"], row["purchase"]) for row in rows if row["price_usd_per_h"] == 12.5}
    assert priced == {("us-east-1", "on-demand")}


def test_a_book_is_begun_where_it_is_named_and_grown_in_order(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("prices", "add", KNOWN, "40usd", "--price-book", "mine.toml").code == 0
    monkeypatch.setenv("RIGHTFIT_PRICE_BOOK", "mine.toml")
    assert run("prices", "add", KNOWN, "41usd").code == 0
    assert [entry["price"] for entry in _book("mine.toml")["discount"]] == ["40usd", "41usd"]
    assert not Path("prices.toml").exists()


def test_chinese(run: Any) -> None:
    result = run("prices", "add", KNOWN, "300cny", "--lang", "zh")
    assert result.code == 0
    assert "已写入 prices.toml" in result.out


WRONG = {
    "nothing": ([], "tencent/"),
    "no price": ([KNOWN], "for example"),
    "no cloud": (["p5.48xlarge", "40usd"], "for example"),
    "empty server": (["aws/", "40usd"], "for example"),
    "cloud": (["tencnt/X", "3usd"], "tencent"),
    "server": (["aws/p5.48xlage", "40usd"], "aws/p5.48xlarge"),
    "price is a word": ([KNOWN, "abc"], "250cny"),
    "price is nothing": ([KNOWN, "0"], "250cny"),
    "price is not a number": ([KNOWN, "nan"], "250cny"),
    "price a month": ([KNOWN, "40usd/month"], "per hour"),
    "price in no money": ([KNOWN, "40xyz"], "250cny"),
    "region": ([KNOWN, "40usd", "--region", "us-east-9"], "us-east-1"),
    "region without it": ([KNOWN, "40usd", "--region", "ap-southeast-1"], "ap-southeast-2"),
    "two regions": ([KNOWN, "40usd", "--region", "us-east-1", "--region", "us-east-2"], "--region"),
    "purchase": ([KNOWN, "40usd", "--purchase", "spto"], "spot"),
    "card": (["aws/new", "40usd", "--gpu", "H2O"], "H20-141GB"),
    "several cards": (["aws/new", "40usd", "--gpu", "H20"], "H20-96GB"),
    "another card than it has": ([KNOWN, "40usd", "--gpu", "A100"], "H100"),
    "another count than it has": ([KNOWN, "40usd", "--count", "4"], "8 x"),
    "cloud option": ([KNOWN, "40usd", "--cloud", "gcp"], "--cloud"),
    "country": ([KNOWN, "40usd", "--country", "US"], "--country"),
    "history": ([KNOWN, "40usd", "--history"], "--history"),
    "break even": ([KNOWN, "40usd", "--break-even"], "--break-even"),
    "csv": ([KNOWN, "40usd", "--price-book", "x.csv"], "TOML"),
    "no folder": ([KNOWN, "40usd", "--price-book", "missing/x.toml"], "missing/x.toml"),
    "a folder": ([KNOWN, "40usd", "--price-book", "."], "irectory"),
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line_and_nothing_is_written(run: Any, name: str, lang: str) -> None:
    words, told = WRONG[name]
    result = run("prices", "add", *words, "--lang", lang)
    assert result.code == 2, result
    assert result.out == ""
    assert len(result.err.strip().splitlines()) == 1
    assert not list(Path().iterdir())
    if lang == "en" or told not in ("for example", "per hour", "irectory"):
        assert told in result.err
    if lang == "zh":
        assert any("\u4e00" <= letter <= "\u9fff" for letter in result.err.replace("错误", ""))


def test_a_second_quote_for_a_server_is_refused_with_the_line_of_the_first(run: Any) -> None:
    words = ("prices", "add", "tencent/X", "30usd", "--gpu", "H20-96GB")
    assert run(*words).code == 0
    before = Path("prices.toml").read_text()
    again = run(*words)
    assert again.code == 2
    assert "line 3" in again.err
    assert Path("prices.toml").read_text() == before


def test_a_book_that_was_wrong_before_says_its_own_line_and_stays(run: Any) -> None:
    text = "[[discount]]\nprovder = 'aws'\npercent = 3\n"
    Path("prices.toml").write_text(text)
    result = run("prices", "add", KNOWN, "40usd")
    assert result.code == 2
    assert "prices.toml:2" in result.err
    assert Path("prices.toml").read_text() == text
