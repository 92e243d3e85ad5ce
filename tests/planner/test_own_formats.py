"""What one's own cards do not hold with 16-bit weights is planned with weights that they hold,
where nobody named the weights."""

from __future__ import annotations

import pytest

import rightfit

#: Cards that people own, a model too large for them in 16 bits, and how many use it.
OWN = (("2x4090", "72B", 5), ("2x3090", "70B", 2), ("1x4090", "32B", 3), ("1x3090", "14B", 2), ("1x4090", "Qwen2.5-14B", 4))


@pytest.mark.parametrize(("have", "model", "users"), OWN)
def test_own_cards_are_planned_with_weights_that_they_hold(have: str, model: str, users: int) -> None:
    found = rightfit.plan(model, task="serve", users=users, have=have)
    assert found.best is not None
    assert found.best.provider == "private"
    assert found.best.layout.weight_format != "bf16"
    told = [one.params["change"] for section in found.sections for one in section.reasons if one.key == "own_with_less"]
    assert any("--quantization" in change for change in told) or "quantization" in {one.field for one in found.assumptions}


def test_a_format_that_was_named_is_kept_and_the_one_that_fits_is_said() -> None:
    found = rightfit.plan("72B", task="serve", users=1, input_tokens=512, ttft="20s", quantization="awq", have="2x4090")
    assert found.best is not None
    assert found.best.provider != "private"
    [why] = [one for one in found.advice if one.key == "own_too_few_unless"]
    change = why.params["change"].removeprefix("--quantization ")
    again = rightfit.plan("72B", task="serve", users=1, input_tokens=512, ttft="20s", quantization=change, have="2x4090")
    assert again.best is not None
    assert again.best.provider == "private"
