"""Times kept between questions: they are the ones that would be found anew, for every family of
methods, and take a bounded room."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit.search.training import evaluate
from rightfit.search.training.machines import KeptTimes, Piece, Timed

Question = dict[str, Any]
JOB: Question = {"model": "7B", "method": "qlora", "data": "50Mtok"}
METHODS = ("full", "lora", "qlora", "dora", "freeze", "galore", "ptuning", "prefix", "dpo", "grpo")
#: What changes neither memory nor the time of a step, and what changes either.
SAME_TIMES: tuple[Question, ...] = (
    {"data": "80Mtok"},
    {"budget": "300usd"},
    {"deadline": "10h"},
    {"purchase": "on-demand"},
    {"cloud": "aws"},
    {"gpu": "A100"},
    {"objective": "time"},
    {"office_hours": 100},
)
OTHER_TIMES: tuple[Question, ...] = (
    {"model": "8B"},
    {"method": "lora"},
    {"seq_len": 4096},
    {"global_batch": 32},
    {"optimizer": "sgd"},
    {"lora_rank": 64},
    {"micro_batch": 2},
    {"recompute": "full"},
    {"framework": "unsloth"},
    {"sharding": "zero3"},
    {"attention": "eager"},
    {"max_nodes": 1},
)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptTimes:
    """An empty store of times in place of the one of the process, so that tests do
    not help each other."""
    fresh = KeptTimes(most_bytes=64_000_000)
    monkeypatch.setattr(evaluate, "KEPT", fresh)
    return fresh


def answer(question: Question) -> dict[str, Any]:
    """The whole plan."""
    return rightfit.plan(**question).to_dict()


@pytest.mark.parametrize("change", [*SAME_TIMES, *OTHER_TIMES], ids=str)
def test_an_answer_does_not_depend_on_what_was_asked_before(kept: KeptTimes, change: Question) -> None:
    alone = answer({**JOB, **change})
    kept.cache_clear()
    answer(JOB)
    assert answer({**JOB, **change}) == alone


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gets_the_same_answer_again(kept: KeptTimes, method: str) -> None:
    question = {**JOB, "method": method}
    alone = answer({**question, "data": "80Mtok"})
    kept.cache_clear()
    answer(question)
    assert answer({**question, "data": "80Mtok"}) == alone


#: What changes the times of a job that learns from rewards.
REWARDS: tuple[Question, ...] = (
    {"rollout": "separate"},
    {"rollout": "async"},
    {"reward_model": "Qwen/Qwen2.5-1.5B"},
    {"reward_model": "Qwen/Qwen2.5-14B"},
    {"method": "ppo"},
    {"output_tokens": 4096},
    {"model": "8B"},
)


@pytest.mark.parametrize("change", REWARDS, ids=str)
def test_jobs_that_learn_from_rewards_are_kept_and_told_apart(kept: KeptTimes, monkeypatch: pytest.MonkeyPatch, change: Question) -> None:
    job = {"model": "7B", "method": "grpo", "data": "10ksamples", "cloud": "aws"}
    alone = answer({**job, **change})
    kept.cache_clear()
    first = answer(job)
    assert answer({**job, **change}) == alone
    assert first["options"] != alone["options"]
    built: list[int] = []
    whole = evaluate.build_timer
    monkeypatch.setattr(evaluate, "build_timer", lambda *given, **named: built.append(1) or whole(*given, **named))
    answer({**job, **change, "data": "20ksamples"})
    assert not built


@pytest.mark.parametrize("change", SAME_TIMES, ids=str)
def test_a_question_about_the_same_job_times_nothing_anew(kept: KeptTimes, monkeypatch: pytest.MonkeyPatch, change: Question) -> None:
    answer({**JOB, **change})
    kept.cache_clear()
    answer(JOB)
    known = len(kept)
    built: list[int] = []
    whole = evaluate.build_timer
    monkeypatch.setattr(evaluate, "build_timer", lambda *given, **named: built.append(1) or whole(*given, **named))
    answer({**JOB, **change})
    assert known > 0
    assert not built


def rows(number: int) -> Timed:
    """Times of so many candidates."""
    index = np.arange(number, dtype=np.intp)
    return Timed(np.zeros(0), np.zeros((0, 3)), np.ones(2), iter([Piece(index, index + 1, index * 0.5, index * 0.0 + 1.0, number)]))


def test_times_come_back_as_they_were_and_the_longest_unused_make_room() -> None:
    store, machines, others = KeptTimes(most_bytes=24 * 16 + 160), object(), object()
    for key in ("a", "b", "c", "d"):
        list(store.kept(key, machines, rows(5)).pieces)  # type: ignore[arg-type]
    assert len(store) == 4
    found = store.get("a", machines)  # type: ignore[arg-type]
    assert found is not None
    ((machine, setup, step_s, _, _),) = found.pieces
    assert machine.dtype == setup.dtype == np.intp
    assert (setup.tolist(), step_s.tolist()) == ([1, 2, 3, 4, 5], [0.0, 0.5, 1.0, 1.5, 2.0])
    assert store.get("a", others) is None  # type: ignore[arg-type]
    list(store.kept("e", machines, rows(5)).pieces)  # type: ignore[arg-type]
    assert [store.get(key, machines) is not None for key in "abcde"] == [True, False, True, True, True]  # type: ignore[arg-type]


def test_what_is_too_large_or_was_not_taken_to_the_end_is_not_kept() -> None:
    store, machines = KeptTimes(most_bytes=24 * 16 + 160), object()
    list(store.kept("large", machines, rows(6)).pieces)  # type: ignore[arg-type]
    large = np.ones(30)
    list(store.kept("wide", machines, Timed(large, large, large, rows(1).pieces)).pieces)  # type: ignore[arg-type]
    next(iter(store.kept("half", machines, rows(5)).pieces))  # type: ignore[arg-type]
    assert len(store) == 0


@pytest.mark.parametrize("seed", range(20))
def test_contenders_are_all_that_can_be_chosen(seed: int) -> None:
    """Whatever the work and the hosts, taking the best of the contenders is taking the best of all:
    the same setup at every place, ties included."""
    draw = np.random.default_rng(seed)
    many, setups, machines = int(draw.integers(0, 400)), 60, 7
    alike, steps_of, host_of, node_of = (draw.integers(0, high, setups) for high in (12, 4, 3, 3))
    leader = {code: int(np.flatnonzero(alike == code)[0]) for code in set(alike.tolist())}
    first = np.array([leader[int(code)] for code in alike])  # what is alike takes as many steps, as much of a host, and as many servers
    steps, host, node = 1.0 + steps_of[first], host_of[first], node_of[first]
    chosen = np.sort(draw.choice(machines * setups, many, replace=False))
    machine, setup = np.divmod(chosen, setups)
    step_s, factor = draw.integers(1, 5, many) / 4.0, 1.0 + draw.integers(0, 3, setups) / 8.0
    rows = evaluate.contenders(alike, machine=machine, setup=setup, weighed=step_s * factor[setup])

    def best(taken: Any) -> list[Any]:
        leaders = evaluate.Leaders.none((3, machines, 3))
        seconds = step_s[taken] * steps[setup[taken]]
        place = (host[setup[taken]] * machines + machine[taken]) * 3 + node[setup[taken]]
        leaders.enter(place=place, weighed=seconds * factor[setup[taken]], run_s=seconds, setup=setup[taken])
        leaders.share_tiers()
        return [leaders.setup.tolist(), leaders.run_s.tolist()]

    assert best(rows) == best(np.arange(many))
    assert np.unique(machine[rows] * 12 + alike[setup[rows]]).shape[0] == rows.shape[0] == np.unique(machine * 12 + alike[setup]).shape[0]


def test_what_is_alike_takes_as_many_steps_and_hosts(kept: KeptTimes, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    alike_setups = evaluate.alike_setups

    def watched(space: Any, host_bytes: Any) -> Any:
        found = alike_setups(space, host_bytes)
        seen.append((space.setups, host_bytes, found))
        return found

    monkeypatch.setattr(evaluate, "alike_setups", watched)
    answer(JOB)
    assert seen
    assert len(kept) > 0
    for setups, host_bytes, alike in seen:
        for tokens in (1e3, 1e7, 1e12):
            told = np.stack([evaluate.work_steps(setups, tokens=tokens, seq_len=512), host_bytes, setups.nodes], axis=1)
            assert np.unique(np.column_stack([alike, told]), axis=0).shape[0] == alike.max() + 1
