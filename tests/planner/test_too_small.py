"""What is asked of cards that are far too small says first what it needs of them and what they
have."""

from __future__ import annotations

import pytest

import rightfit
from rightfit.explain.sheets import short_sheet
from rightfit.messages import LANGS

#: Model, its parameters and the card, with its memory [GiB].
TOO_SMALL = [("70B", 70e9, "RTX 3060", 12.0), ("32B", 32e9, "RTX 3090", 24.0), ("Qwen/Qwen2.5-14B", 14e9, "RTX 4090", 24.0)]


@pytest.mark.parametrize(("model", "parameters", "gpu", "memory_gib"), TOO_SMALL)
def test_the_memory_that_lacks_is_said_first(model: str, parameters: float, gpu: str, memory_gib: float) -> None:
    """Full fine-tuning needs 16 bytes a parameter and more; that the rest could lie in RAM is no
    answer to somebody who did not ask for it. The same figure for a machine and for cards that are
    named, and a lighter way beside it."""
    own = rightfit.plan(model, method="full", have=f"1x {gpu}")
    named = rightfit.plan(model, method="full", gpu=gpu, num_gpus=1, sellers="all", max_nodes=1)
    for plan, key in ((own, "own_does_not_gap"), (named, "named_does_not_gap")):
        first = plan.advice[0]
        assert (first.key, first.params["criterion"]) == (key, "gpu_memory")
        assert 0.85 * memory_gib <= first.params["had"] / 2**30 <= memory_gib
        assert 16.0 * parameters <= first.params["needed"] <= 36.0 * parameters
        assert {"rent_by_lighter", "own_by_lighter"} & {reason.key for reason in plan.advice}
    assert own.advice[0].params["needed"] == named.advice[0].params["needed"]
    for lang in LANGS:
        parts = [str(part) for part in short_sheet(own, lang)]
        said = next(at for at, part in enumerate(parts) if "GiB" in part)
        assert "RTX" in parts[said]
        assert said < next(at for at, part in enumerate(parts) if "$" in part and "RTX-" not in part.split("\n")[0])
