"""Levers for a smaller card: each tried for real, ordered by what it saves."""

from __future__ import annotations

import pytest

from rightfit.explain.trials import Effect, advise, card_sizes
from rightfit.planner.given import estimate_one
from rightfit.planner.plan import plan
from rightfit.search.answer import Plan
from rightfit.workload import Workload

GIB = 2**30


@pytest.fixture(scope="module")
def full() -> Plan:
    return plan(Workload(model="meta-llama/Meta-Llama-3-8B", task="finetune", method="full", data="10Mtok", gpu="H100"), top=1)


@pytest.fixture(scope="module")
def effects(full: Plan) -> list[Effect]:
    return advise(full)


def test_every_lever_saves_and_the_largest_saving_comes_first(effects: list[Effect]) -> None:
    peaks = [effect.peak_bytes for effect in effects]
    assert peaks == sorted(peaks)
    assert all(effect.peak_bytes < effect.old_peak_bytes for effect in effects)
    # the plan takes one sequence at a time, so that half of one saves little
    assert {"lora", "qlora", "shard", "offload", "optimizer_8bit"} <= {effect.action for effect in effects}


def test_effects_are_of_the_expected_size(effects: list[Effect]) -> None:
    by_action = {effect.action: effect for effect in effects}
    full_bytes = 16 * 8.03e9
    assert all(effect.old_peak_bytes > full_bytes for effect in effects)
    saved_by_8_bit = by_action["optimizer_8bit"].old_peak_bytes - by_action["optimizer_8bit"].peak_bytes
    assert saved_by_8_bit == pytest.approx(6 * 8.03e9, rel=0.15)
    assert by_action["together"].peak_bytes < 13 * GIB
    assert by_action["qlora"].peak_bytes < by_action["lora"].peak_bytes < by_action["optimizer_8bit"].peak_bytes


def test_the_smallest_card_that_would_do_is_named(effects: list[Effect]) -> None:
    sizes = card_sizes()
    assert sizes == tuple(sorted(sizes))
    for effect in effects:
        assert effect.card_bytes in sizes
        assert effect.card_bytes * 0.95 >= effect.peak_bytes
        smaller = [size for size in sizes if size < effect.card_bytes]
        assert all(size * 0.95 < effect.peak_bytes for size in smaller)


def test_text_in_both_languages() -> None:
    effect = Effect("qlora", 10 * GIB, 40 * GIB, 1.25, 16 * GIB, 1, {"old": "full"})
    assert effect.text("en") == (
        "QLoRA (4-bit weights) instead of full fine-tuning: 10 GiB per GPU instead of 40 GiB (75% less), 1.25 times slower per GPU; "
        "1 x 16 GiB is enough."
    )
    assert (
        effect.text("zh")
        == "全参数微调改为 QLoRA（4 位权重）：每卡 10 GiB，原为 40 GiB（少 75%），每卡耗时变为 1.25 倍；1 张 16 GiB 显存的卡即可。"
    )
    assert "no rentable GPU" in Effect("shorter", 900 * GIB, 1000 * GIB, 1.0, 0.0, 1, {"seq_len": 1, "old_seq_len": 2}).text("en")


def test_a_given_server_that_is_too_small_gets_advice() -> None:
    workload = Workload(model="meta-llama/Meta-Llama-3-8B", task="finetune", method="full", data="10Mtok")
    small = estimate_one(workload, on="gcp/a2-highgpu-1g")
    assert small.best is None
    assert any(effect.action == "qlora" for effect in advise(small))
