"""Commands that look around in the knowledge base."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rightfit.cli.output import text_width


def test_accelerators(run: Any) -> None:
    result = run("accelerators", "A100")
    lines = result.out.splitlines()
    assert lines[0].split() == [
        "name",
        "vendor",
        "architecture",
        "memory",
        "GB/s",
        "fp16",
        "TFLOP/s",
        "bf16",
        "TFLOP/s",
        "fp8",
        "TFLOP/s",
        "link",
        "GB/s",
        "W",
        "year",
    ]
    assert [line.split()[0] for line in lines[2:]] == ["A100-PCIe-40GB", "A100-SXM-40GB", "A100-PCIe-80GB", "A100-SXM-80GB"]


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("accelerators",),
        ("datasets",),
        ("servers", "gn7i"),
        ("prices", "--gpu", "A10"),
        ("prices", "H100", "--verbose"),
        ("catalog", "status"),
        ("catalog", "verify", "--verbose"),
    ],
    ids=" ".join,
)
def test_tables_fit_and_are_plain(run: Any, arguments: tuple[str, ...], lang: str, width: int) -> None:
    result = run(*arguments, "--lang", lang, width=width)
    assert result.code == 0
    assert max(text_width(line) for line in result.out.splitlines()) <= width
    assert "\x1b" not in result.out
    assert all(line == line.rstrip() for line in result.out.splitlines())


def test_every_format_says_the_same(run: Any) -> None:
    records = json.loads(run("accelerators", "A100", "--format", "json").out)
    assert yaml.safe_load(run("accelerators", "A100", "--format", "yaml").out) == records
    rows = list(csv.DictReader(io.StringIO(run("accelerators", "A100", "-f", "csv").out)))
    assert [row["name"] for row in rows] == [record["name"] for record in records]
    assert float(rows[0]["memory_bytes"]) == records[0]["memory_bytes"] == 40 * 2**30
    table = run("accelerators", "A100", "--format", "md").out.splitlines()
    assert table[0].startswith("| name | vendor |")
    assert len(table) == 2 + len(records)


def test_prices_have_dates_and_come_cheapest_first(run: Any) -> None:
    records = json.loads(run("prices", "p5.48xlarge", "us-east-1", "--format", "json").out)
    amounts = [record["price_usd_per_h"] for record in records]
    assert amounts == sorted(amounts)
    assert all(record["as_of"] and record["source"] and record["instance_type"] == "p5.48xlarge" for record in records)
    assert {"on-demand"} < {record["purchase"] for record in records}


def test_prices_compare_providers_per_gpu(run: Any) -> None:
    """Who asks for a GPU compares providers: each has one line a pricing model, by the price of one
    GPU, which is the server's over its GPUs; whole lists keep the order."""
    told = run("prices", "H100")
    heading, _, *rows = told.out.splitlines()
    assert "per GPU" in heading
    offered = [tuple(re.split(r" {2,}", row)[place] for place in (0, 3)) for row in rows]
    assert len(set(offered)) == len(offered)
    assert len({cloud for cloud, _ in offered}) > 8
    assert "cheapest of each provider" in told.err
    records = json.loads(run("prices", "--gpu", "H100", "-f", "json").out)
    each = [record["price_per_gpu_usd_per_h"] for record in records]
    assert each == sorted(each)
    assert all(one == record["price_usd_per_h"] / record["num_accelerators"] for one, record in zip(each, records, strict=True))
    assert {record["accelerator_name"] for record in records} >= {"H100-SXM-80GB", "H100-PCIe-80GB"}
    assert "per GPU" not in run("prices", "c7i.large").out
    chinese = run("prices", "H100", "--lang", "zh").out
    assert "竞价实例" in chinese
    assert "spot" not in chinese


def test_prices_say_what_to_expect_today(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older a price by the clock, the wider what to expect of it; beyond what is known of such
    prices one has to ask."""
    monkeypatch.setenv("RIGHTFIT_TODAY", "2026-11-27")
    fresh, *_ = json.loads(run("prices", "p5.48xlarge", "us-east-1", "--purchase", "on-demand", "-f", "json").out)
    assert fresh["expected_low80_usd_per_h"] <= fresh["expected_usd_per_h"] <= fresh["expected_high80_usd_per_h"]
    monkeypatch.setenv("RIGHTFIT_TODAY", "2027-06-27")
    older, *_ = json.loads(run("prices", "p5.48xlarge", "us-east-1", "--purchase", "on-demand", "-f", "json").out)
    assert older["price_usd_per_h"] == fresh["price_usd_per_h"]
    spreads = [one["expected_high80_usd_per_h"] / one["expected_low80_usd_per_h"] for one in (fresh, older)]
    assert spreads[0] < spreads[1]
    told = run("prices", "GN10Xp.2XLARGE40", "--cloud", "tencent", "--top", "3")
    assert "too old to rely on: 3" in told.err
    assert run("prices", "GN10Xp.2XLARGE40", "--cloud", "tencent", "--top", "3", width=140).out.count("ask first") == 3
    (agreed, *_) = json.loads(run("prices", "GN10Xp.2XLARGE40", "--cloud", "tencent", "-f", "json").out)
    assert agreed["is_beyond_knowledge"] is True


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "The newest price is from 2026-11-09, {days} days ago"),
        (("--cloud", "huaweicloud"), "The newest price is from 2026-11-09, {days} days ago"),
        (("--verbose",), "The newest price is from 2026-11-09, {days} days ago"),
        (("--lang", "zh"), "价格库中最新的价格是 2026-11-09 的，已过 {days} 天"),
    ],
)
def test_a_catalog_that_nobody_refreshed_for_long_says_its_age_first(
    run: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    wish = ("plan", "Qwen/Qwen3-8B", "--task", "serve", "--rate", "10/s", *arguments)
    for today, days in (("2026-12-09", 30), ("2026-12-10", 31)):
        monkeypatch.setenv("RIGHTFIT_TODAY", today)
        first = run(*wish).out.splitlines()[0]
        assert first.startswith(said.format(days=days)) is (days > 30)


def test_a_whole_name_means_that_server_only(run: Any) -> None:
    names = {record["instance_type"] for record in json.loads(run("prices", "g5.xlarge", "-f", "json").out)}
    assert names == {"g5.xlarge"}


def test_filters_take_other_names(run: Any) -> None:
    records = json.loads(run("servers", "--cloud", "阿里云", "--gpu", "a10", "-f", "json").out)
    assert {record["provider"] for record in records} == {"alicloud"}
    assert {record["accelerator_name"] for record in records} == {"A10"}


def test_nothing_found_is_an_empty_answer(run: Any) -> None:
    assert run("servers", "xyzzy", "-f", "json").out == "[]\n"
    result = run("servers", "xyzzy")
    assert (result.code, result.out, result.err) == (0, "", "nothing found\n")


def test_top(run: Any) -> None:
    assert len(run("accelerators", "--top", "3").out.splitlines()) == 5
    assert len(json.loads(run("accelerators", "--top", "3", "-f", "json").out)) == 3
    assert len(json.loads(run("accelerators", "-f", "json").out)) > 100


def test_chinese_from_the_locale(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert run("datasets", "alpaca").out.startswith("名称")
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    assert run("datasets", "alpaca").out.startswith("name")


def test_models_by_name(run: Any) -> None:
    records = json.loads(run("models", "llama-3-8b", "-f", "json").out)
    assert "meta-llama/Meta-Llama-3-8B" in [record["name"] for record in records]
    assert records[0]["params_total"] > 1e9


def test_check_answers_in_the_contract_s_form(run: Any) -> None:
    answers = json.loads(run("check", "ecs.gn7i-c2g1.xlarge", "g5.xlarge=T4", "g5.xlarge=A10G", "-f", "json").out)
    assert [answer["exists"] for answer in answers] == [False, True, True]
    assert [answer["claim"] for answer in answers[1:]] == ["wrong", "right"]
    assert all({"query", "kind", "exists", "claim", "facts", "nearest", "explanation"} <= set(answer) for answer in answers)
    assert answers[0]["nearest"]


def test_check_reads_a_file_and_standard_input(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    post = tmp_path / "post.md"
    post.write_text("g5.xlarge (1xT4)\nT4 supports BF16\n", encoding="utf-8")
    queries = [answer["query"] for answer in json.loads(run("check", str(post), "-f", "json").out)]
    assert queries == ["g5.xlarge (1xT4)", "T4 supports BF16"]
    monkeypatch.setattr("sys.stdin", io.StringIO(post.read_text(encoding="utf-8")))
    assert [answer["query"] for answer in json.loads(run("check", "-", "-f", "json").out)] == queries
    for content, said in ((b"\xff\xfe\x00bad", "not text in UTF-8"), (b" \n", "contains no text")):
        post.write_bytes(content)
        result = run("check", str(post))
        assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
        assert said in result.err


def test_catalog_status_as_json(run: Any) -> None:
    status = json.loads(run("catalog", "status", "-f", "json").out)
    assert status["prices"] > 170_000
    assert status["newest"] >= "2026-10"


@pytest.mark.parametrize("command", ["servers", "prices"])
def test_a_gpu_finds_every_server_that_has_it(run: Any, command: str) -> None:
    rows = json.loads(run(command, "H100", "--format", "json").out)
    assert len({row["provider"] for row in rows}) >= 5
    assert len({row["instance_type"] for row in rows}) >= 40


def test_a_gpu_is_not_part_of_another(run: Any) -> None:
    names = {row["accelerator_name"] for row in json.loads(run("servers", "a10", "--format", "json").out)}
    assert names == {"A10"}
    types = {row["instance_type"] for row in json.loads(run("servers", "aws", "p4", "--format", "json").out)}
    assert "p4d.24xlarge" in types  # also a card, P4


def test_models_of_a_kind_without_a_query(run: Any) -> None:
    kinds = {row["kind"] for row in json.loads(run("models", "--kind", "encoder", "--format", "json").out)}
    assert kinds == {"encoder"}
    families = {row["family"] for row in json.loads(run("models", "--kind", "diffusion", "--format", "json").out)}
    assert families == {"diffusion"}


@pytest.mark.parametrize("query", [["H100 in Frankfurt"], ["L4", "in", "Germany", "spot"], ["阿里云 A10 北京"]], ids=str)
def test_prices_of_words_are_those_of_the_filters_that_they_say(query: list[str], run: Any) -> None:
    found = run("prices", *query)
    assert found.code == 0
    assert "rightfit prices --" in found.err
    assert len(found.out.splitlines()) > 3
