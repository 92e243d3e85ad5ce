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
