"""Reasons of search become sentences in both languages; every code that search can say has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rightfit.search
from rightfit.explain.messages import fields_of, has, topic
from rightfit.explain.reasons import change_text, criterion_text, field_text, render, renderer, term_text
from rightfit.messages import LANGS, Lang
from rightfit.physics import memory_peak, step
from rightfit.search.answer import Reason
from rightfit.search.criteria import CRITERIA

SOURCES = [path.read_text("utf-8") for path in Path(rightfit.search.__file__).parent.glob("*.py")]
SAID = sorted({key for text in SOURCES for key in re.findall(r'Reason\(\s*"([a-z_0-9]+)"', text)})
NOTED = sorted({key for text in SOURCES for key in re.findall(r'notes\.take\([^"]*"[a-z_]+",[^"]*"([a-z_0-9]+)"', text)})


@pytest.mark.parametrize("key", SAID)
def test_every_reason_that_search_gives_has_a_sentence(key: str) -> None:
    assert has(f"reasons.{key}") or has(f"serving.{key}") or has(f"host.{key}")


@pytest.mark.parametrize("key", NOTED)
def test_every_assumption_that_search_takes_has_a_sentence(key: str) -> None:
    assert has(f"reasons.assumed_{key}") or has(f"serving.assumed_{key}") or has(f"host.assumed_{key}")


@pytest.mark.parametrize("criterion", CRITERIA)
def test_every_criterion_has_words(criterion: str) -> None:
    for lang in LANGS:
        assert criterion_text(criterion, lang) != criterion
    assert has(f"rejections.name_{criterion}")


@pytest.mark.parametrize("term", memory_peak.TERMS)
def test_every_memory_term_has_a_name(term: str) -> None:
    assert has(f"terms.{term}")


@pytest.mark.parametrize("term", step.TERMS)
def test_every_time_term_has_a_name(term: str) -> None:
    assert has(f"terms.time_{term.removesuffix('_s')}")


@pytest.mark.parametrize("key", topic("reasons"))
def test_every_sentence_can_be_said_with_numbers(key: str) -> None:
    message = topic("reasons")[key]
    values = dict.fromkeys(fields_of(message["en"]) - {"where", "runner_up_change", "monthly"}, 1234.5)
    values |= {"instance_type": "x", "provider": "aws"}
    values |= {"monthly_low": 0.05, "monthly_high": 0.1}
    for lang in LANGS:
        assert "{" not in render(Reason(key, values), lang)


def test_interruptions_are_told_as_a_range_or_a_bound() -> None:
    params = {"monthly_low": 0.0, "monthly_high": 0.05, "expected_interruptions": 0.0009}
    assert "up to 5% of these servers are interrupted per month (expected interruptions during this job: less than 0.001)" in render(
        Reason("spot_interruption", params), "en"
    )
    known = {**params, "monthly_low": 0.1, "monthly_high": 0.15}
    assert render(Reason("spot_interruption", known), "zh").startswith(
        "竞价实例可能被回收：该机型每月 10% 至 15% 会被中断（本任务期间预计不到 0.001 次）"
    )


def test_money_follows_the_currency() -> None:
    reason = Reason("budget_met", {"total_usd": 10.0, "budget_usd": 20.0, "probability": 0.95})
    assert renderer("zh", currency="cny")(reason) == "费用 ¥72.00，在 ¥144.00 预算之内的概率为 95%。"
    assert renderer("en")(reason) == "It costs $10.00, within the $20.00 budget, with 95% probability."


def test_a_runner_up_is_named_with_its_price() -> None:
    params = {
        "total_usd": 12.3,
        "total_time_s": 18720.0,
        "runner_up": "g6.xlarge (aws)",
        "runner_up_usd": 14.0,
        "runner_up_time_s": 15000.0,
    }
    assert "next is g6.xlarge (aws) at $14.00 (14% more expensive) in 4 h 10 min" in render(Reason("cheapest", params), "en")


def test_an_unknown_code_is_shown_and_not_hidden() -> None:
    assert render(Reason("brand_new", {"peak_bytes": 2**30}), "en") == "brand new: peak_bytes 1 GiB"
    assert render(Reason("budget_met", {}), "en") == "budget met"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("peak_bytes", 2**34, "16 GiB"),
        ("disk_bytes", 5e10, "50 GB"),
        ("deadline_s", 86400.0, "24 h"),
        ("term_h", 730.0, "30.4 days"),
        ("saving_usd", 0.5, "$0.5"),
        ("probability", 0.97, "97%"),
        ("share", 0.62, "62%"),
        ("method", "qlora", "QLoRA"),
        ("purchase", "spot", "spot"),
        ("sharding", "zero3", "ZeRO-3 (everything sharded)"),
        ("nodes", 4, "4"),
        ("seq_len", 2048, "2,048"),
        ("anything", None, "-"),
    ],
)
def test_parameters_are_formatted_by_their_name(name: str, value: object, text: str) -> None:
    assert field_text(name, value, "en") == text


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.12, "12% more expensive"), (0.7, "30% cheaper"), (1.001, "same cost"), (4.2, "4.2 times the cost")]
)
def test_changes_in_words(ratio: float, text: str) -> None:
    assert change_text(ratio, "en") == text


def test_terms_of_time_and_memory_with_one_name_differ() -> None:
    assert term_text("context", "en") == "CUDA context and NCCL"
    assert term_text("context_s", "en", kind="time") == "context-parallel communication"


@pytest.mark.parametrize("lang", LANGS)
def test_lengths_are_written_out(lang: Lang) -> None:
    """A model's limit is read digit by digit; large and broken counts are not."""
    assert field_text("limit", 131_072, lang) == "131,072"
    assert field_text("samples", 5e7, lang) == {"en": "50 M", "zh": "5,000 万"}[lang]
    assert field_text("samples", 123_456.7, lang) == {"en": "123.5 k", "zh": "12.35 万"}[lang]
    assert field_text("samples", float("inf"), lang)
