"""Parts of the evaluation: dominated levels, host tiers, batches."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from toy import NODE_COUNTS, ToyPhysics, random_market, random_wish

from rightfit.families.language.kind import CRAFT
from rightfit.search.training import evaluate
from rightfit.search.training.evaluate import Leaders, chunks, first_level, host_tiers, work_steps
from rightfit.search.training.explore import TrainingResult, explore


def test_only_the_first_level_that_fits_is_kept() -> None:
    fits = np.array([[True, True, True, False, True, True, False, False, False, False, False, True]])
    assert first_level(fits, 3).tolist() == [
        [True, False, False, False, True, False, False, False, False, False, False, True],
    ]
    assert (first_level(fits, 1) == fits).all()


def test_host_tiers_hold_what_servers_have() -> None:
    tiers, tier = host_tiers(np.array([10.0, 60.0, 64.0, 5000.0]), np.array([64.0, 256.0, 16.0, np.nan]))
    assert tiers.tolist() == [16.0, 64.0, np.inf]
    assert tier.tolist() == [0, 1, 1, 2]


def test_best_of_groups_takes_the_first_of_equals() -> None:
    leaders = Leaders.none((3,))
    weighed, run_s = np.array([3.0, 2.0, 5.0, 2.0]), np.array([2.5, 1.9, 4.9, 1.8])
    leaders.enter(place=np.array([0, 0, 2, 0]), weighed=weighed, run_s=run_s, setup=np.array([7, 8, 9, 10]))
    assert leaders.weighed.tolist() == [2.0, np.inf, 5.0]
    assert leaders.run_s.tolist() == [1.9, np.inf, 4.9]
    assert leaders.setup.tolist() == [8, -1, 9]


def test_a_larger_host_can_use_what_a_smaller_one_can() -> None:
    weighed = np.array([[[5.0, 9.0, np.inf]], [[np.inf, 4.0, 2.0]]])
    setup = np.array([[[1, 2, -1]], [[-1, 3, 4]]], dtype=np.intp)
    leaders = Leaders(*(np.moveaxis(values, -1, 0).copy() for values in (weighed, weighed * 0.9, setup)))
    leaders.share_tiers()
    assert np.moveaxis(leaders.weighed, 0, -1).tolist() == [[[5.0, 5.0, 5.0]], [[np.inf, 4.0, 2.0]]]
    assert np.moveaxis(leaders.run_s, 0, -1).tolist() == [[[4.5, 4.5, 4.5]], [[np.inf, 3.6, 1.8]]]
    assert np.moveaxis(leaders.setup, 0, -1).tolist() == [[[1, 1, 1]], [[-1, 3, 4]]]


def test_chunks_cover_all_rows() -> None:
    assert [(piece.start, piece.stop) for piece in chunks(10, 4)] == [(0, 4), (4, 8), (8, 10)]
    assert list(chunks(0)) == []


def _search(seed: int) -> TrainingResult:
    dice = random.Random(seed)
    wish, wanted = random_wish(dice)
    market = random_market(dice, servers=8, offers=20)
    return explore(wish, market, wanted, CRAFT, node_counts=NODE_COUNTS, engine=ToyPhysics(float(wish.model.params_total)))


@pytest.mark.parametrize("seed", range(5))
def test_small_batches_and_chunks_give_the_same_answer(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _search(seed).best
    monkeypatch.setattr(evaluate, "LARGEST_BATCH", 50)
    monkeypatch.setattr(evaluate, "CHUNK_ROWS", 7)
    monkeypatch.setattr(evaluate.chunks, "__defaults__", (7,))
    parts = _search(seed).best
    for field in dataclasses.fields(whole):
        assert np.array_equal(getattr(whole, field.name), getattr(parts, field.name)), field.name


def test_steps_follow_the_real_batch() -> None:
    found = _search(1)
    setups = found.space.setups
    steps = work_steps(setups, tokens=1e6, seq_len=512)
    batch = setups.data * setups.micro_batch * setups.grad_accum
    assert steps == pytest.approx(np.ceil(1e6 / (batch * 512.0)))
    assert work_steps(setups, tokens=1.0, seq_len=512).max() == 1.0
