"""Where time counts, little of it is not bought for several times the money, and what is faster is
said."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit import facts
from rightfit.explain.sheets import short_sheet
from rightfit.search import rank

JOBS: list[dict[str, Any]] = [
    {"model": "3B", "avoid": "aws,gcp", "data": "10B tokens", "method": "full", "task": "finetune"},
    {"model": "7B", "data": "1B tokens", "method": "lora", "task": "finetune"},
    {"model": "resnet50", "data": "1M images", "task": "train"},
]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: str(job["model"]))
def test_the_first_of_the_fastest_is_no_hasty_one(job: dict[str, Any]) -> None:
    usual = facts.coefficients("planning")
    found = rightfit.plan(**job, objective="time")
    best, least = found.options[0], 2.0 * usual["haste_times"] / (1.0 - usual["unmeasured_saves"])
    for other in found.options[1:]:
        if other.estimate["total_time_s"].mid > best.estimate["total_time_s"].mid * (1.0 + usual["equal_share"]):
            continue
        saved = best.cost.total_usd - other.cost.total_usd
        assert saved < usual["unmeasured_saves_usd"] or other.cost.total_usd * least > best.cost.total_usd, other.instance_type


def test_the_faster_one_that_was_passed_over_is_said() -> None:
    found = rightfit.plan(**JOBS[0], objective="time")
    [told] = [one for one in found.options[0].why if one.key == "decided_haste"]
    assert told.params["total_time_s"] < found.options[0].estimate["total_time_s"].mid
    assert told.params["times"] > facts.coefficients("planning")["haste_times"]
    assert told.params["total_usd"] > found.options[0].cost.total_usd
    for lang in ("en", "zh"):
        assert str(told.params["server"]) in "\n".join(map(str, short_sheet(found, lang)))
    assert rank.SAME_TIME * told.params["total_time_s"] < found.options[0].estimate["total_time_s"].mid
