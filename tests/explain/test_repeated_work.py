"""Work that is done many times is told as a whole: each of so many jobs, each day of a month."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rightfit.explain.beside.settled import repeated_lines, repeats_of
from rightfit.workload.ask import understand

OPTION = cast("Any", SimpleNamespace(estimate={"total_time_s": SimpleNamespace(mid=720.0)}, cost=SimpleNamespace(total_usd=0.5)))


@pytest.mark.parametrize(
    ("said", "key", "count"),
    [
        ("Train LightGBM on 80 million rows and 150 features, 100 trials with 5-fold cross-validation", "repeated_jobs", 500),
        ("LoRA of FLUX.1-dev on 25 pictures, maybe four times in total", "repeated_jobs", 4),
        ("用 Wan2.1 14B 每天生成200条视频", "repeated_days", 30),
        ("LoRA Llama-3-8B on 10M tokens", "", 1),
    ],
)
def test_how_often_it_is_done(said: str, key: str, count: float) -> None:
    assert repeats_of(understand(said)) == (key, count)


def test_the_whole_is_multiplied() -> None:
    assert repeated_lines(("repeated_jobs", 500.0), OPTION, "en") == ["All 500, one after the other: 4.17 days, $250.00."]
    assert "$15.00" in repeated_lines(("repeated_days", 30.0), OPTION, "zh")[0]
    assert repeated_lines(("", 1.0), OPTION, "en") == []


@pytest.mark.parametrize(
    ("sentence", "budget", "deadline"),
    [
        ("LightGBM on 1M rows, 50 columns, 20 trials, at most $10 and 2 days", "0.5usd", "8640s"),
        ("用 LightGBM 训练 100 万行 50 列，搜索 20 组超参数，预算 200 元", "10cny", None),
        ("LightGBM on 1M rows, 50 columns, 20 trials, at most $1 each", "$1", None),
        ("LightGBM on 1M rows, 50 columns, at most $10", "$10", None),
    ],
)
def test_limits_are_those_of_all_the_work(sentence: str, budget: str, deadline: str | None) -> None:
    found = understand(sentence)
    assert (found.wishes["budget"], found.wishes.get("deadline")) == (budget, deadline)
    assert any(one.key == "workload.assumed_share" for one in found.assumed) == (budget.endswith(("usd", "cny")))
