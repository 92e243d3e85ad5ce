"""Load in serving plans: laws, traces, profiles, the queue model's last word, saturation,
autoscaling, simulation."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

import rightfit
from rightfit.errors import ContradictionError, FileInputError
from rightfit.families.serving.explore import explore
from rightfit.market import open_catalog
from rightfit.physics import waiting
from rightfit.search.answer import Plan, Section
from rightfit.search.refusals import rounded_up
from rightfit.search.service.found import ServingResult
from rightfit.search.service.refine import confirm, groups_of, queued, refined, replica_columns, with_confirmed
from rightfit.search.service.wish import busiest_rate_per_s
from rightfit.workload import Workload
from rightfit.workload.traces import Requests

LLAMA = "meta-llama/Meta-Llama-3-8B"
CHAT = {"task": "serve", "rate": "30/s", "input_tokens": 1024, "output_tokens": 256, "ttft": "300ms", "tpot": "30ms"}


def _section(plan: Plan, name: str) -> Section:
    return next(section for section in plan.sections if section.name == name)


def _trace(path: Path, *, seconds: float, rate: float) -> str:
    times = np.arange(0.0, seconds, 1.0 / rate)
    rows = [f"{time:.3f},{200 + 100 * (number % 9)},{50 + number % 100}" for number, time in enumerate(times)]
    path.write_text("\n".join(["arrival_s,input_tokens,output_tokens", *rows]))
    return str(path)


@pytest.fixture(scope="module")
def quick() -> ServingResult:
    return explore(Workload(model=LLAMA, **CHAT), open_catalog())


@pytest.fixture(scope="module")
def day() -> Plan:
    return rightfit.plan(LLAMA, **CHAT, profile="office", simulate=True, top=3)


def test_what_is_shown_is_what_the_queue_model_says_and_keeps_the_limits(quick: ServingResult) -> None:
    found, ranking = refined(quick, top=5)
    for row in ranking.top:
        at = found.candidate(row.offer, row.node)
        replicas = found.sizing_of(at)
        columns = replica_columns(found.space.take(np.array([at])))
        assert found.wish.load is not None
        law = waiting.latency(columns, found.wish.load.columns(np.array([30.0 / replicas])))
        known = found.confirmed.kept[at]
        assert known.values["ttft_s@0.95"] == pytest.approx(law.ttft_s[0, 1])
        assert law.ttft_s[0, 1] <= 0.3
        assert law.tpot_s[0, 1] <= 0.03
        assert 30.0 / replicas <= 0.8 * law.steady.capacity_per_s[0] * (1 + 1e-9)


def test_replicas_are_the_fewest_that_keep_the_limits(quick: ServingResult) -> None:
    found, ranking = refined(quick, top=5)
    for row in ranking.top:
        at = found.candidate(row.offer, row.node)
        replicas = found.sizing_of(at)
        if replicas > 1 and found.confirmed.kept[at].excess > 0.85:
            columns = replica_columns(found.space.take(np.array([at])))
            assert queued(found.wish, columns, replicas=replicas - 1.0).excess > 1.0


def test_a_candidate_that_nothing_helps_is_dropped(quick: ServingResult) -> None:
    found, ranking = refined(quick, top=1)
    at = found.candidate(ranking.top[0].offer, ranking.top[0].node)
    columns = replica_columns(found.space.take(np.array([at])))
    impossible = dataclasses.replace(found.wish, limits=dataclasses.replace(found.wish.limits, ttft_s=1e-3))
    known = confirm(impossible, columns, replicas=2.0)
    assert math.isinf(known.replicas)
    group = groups_of(quick)
    without = with_confirmed(quick, group, {int(group[at]): known})
    assert without.candidate(ranking.top[0].offer, ranking.top[0].node) != at
    assert without.capacity.alone_ttft_s[at] == pytest.approx(known.values["ttft_s@0.95"])


def test_more_replicas_where_the_quick_law_was_too_kind() -> None:
    wish = {**CHAT, "rate": "100/s", "gpu": "A100-SXM-80GB", "tensor_parallel": 1}
    quick = explore(Workload(model=LLAMA, **wish), open_catalog())
    found, ranking = refined(quick, top=1)
    at = found.candidate(ranking.top[0].offer, ranking.top[0].node)
    columns = replica_columns(found.space.take(np.array([at])))
    kept = found.confirmed.kept[at]
    assert kept.excess <= 1.0
    per_server = int(found.fleet.gpus_per_node[found.space.machine[at]])
    assert queued(found.wish, columns, replicas=kept.replicas - per_server).excess > 1.0
    assert kept.replicas == found.sizing_of(at) >= quick.sizing_of(at)


def test_what_is_not_confirmed_says_so() -> None:
    plan = rightfit.plan(LLAMA, **CHAT, top=60)
    laws = [option.facts["latency_law"] for option in plan.options]
    assert laws[:10] == ["queue"] * 10
    assert "quick" in {option.facts["latency_law"] for option in rightfit.plan(LLAMA, task="serve", users=20, think="0s", top=1).options}


def test_percentile_asked_for_is_the_queue_models_too() -> None:
    plan = rightfit.plan(LLAMA, **CHAT, percentile=90, top=1)
    assert plan.best is not None
    values = [plan.best.estimate[name].mid for name in ("ttft_p50_s", "ttft_s", "ttft_p95_s")]
    assert values == sorted(values)
    assert values[0] < values[1] < values[2]


def test_longer_tails_wait_longer() -> None:
    same, spread = (
        rightfit.plan(LLAMA, **{**CHAT, "input_tokens": tokens, "ttft": "2s"}, gpu="H100", max_nodes=1, top=1).best
        for tokens in ("1024", "mean=1024,cv=1.5")
    )
    assert same is not None
    assert spread is not None
    assert spread.estimate["ttft_p99_s"].mid > 1.3 * same.estimate["ttft_p99_s"].mid


def test_simulation_stands_beside_the_queue_model(day: Plan) -> None:
    for option in day.options:
        seen = option.facts["simulated"]
        assert seen["requests"] >= 20_000
        assert not seen["saturated"]
        for name in ("ttft_p50_s", "ttft_p95_s", "tpot_p50_s", "latency_p50_s", "latency_p95_s"):
            assert option.estimate[name].mid == pytest.approx(seen[name], rel=0.1)


def test_saturation_by_hand(day: Plan) -> None:
    content = _section(day, "saturation").content
    assert day.best is not None
    assert content["all_per_s"] == pytest.approx(day.best.estimate["requests_per_s"].mid)
    assert content["grows_per_s"] == pytest.approx(0.2 * content["all_per_s"])
    # Ten minutes of a fifth too much: 120 s of work wait before a newcomer.
    assert content["wait_s"] == pytest.approx(120.0 + day.best.estimate["ttft_p50_s"].mid)


def test_fleet_follows_the_day(day: Plan) -> None:
    content = _section(day, "autoscaling").content
    counts, rates = np.array(content["hourly_replicas"]), np.array(content["hourly_per_s"])
    assert rates.max() == pytest.approx(30.0)
    assert day.best is not None
    assert counts.max() == content["max_replicas"] == day.best.layout.data
    assert (counts * content["replica_rate_per_s"] * (1 + 1e-6) >= rates).all()
    cold = content["cold_start"]
    assert sum(cold[name] for name in ("provision_s", "image_s", "weights_s", "warm_up_s")) == pytest.approx(cold["total_s"])
    assert cold["weights_s"] == pytest.approx(16.06e9 / 547e6, rel=0.01)  # bytes of the weights at the rate of a local disk
    assert content["cooldown_s"] >= 300
    assert content["saving_usd"] == pytest.approx(content["fixed_usd"] - content["autoscaled_usd"])


def test_without_a_profile_only_thresholds_are_given() -> None:
    content = _section(rightfit.plan(LLAMA, **CHAT, top=1), "autoscaling").content
    assert "autoscaled_usd" not in content
    assert content["target_in_flight"] >= 1


def test_profile_of_24_rates_needs_no_rate() -> None:
    rates = ",".join(["2"] * 12 + ["8"] * 12)
    plan = rightfit.plan(LLAMA, task="serve", profile=rates, top=1)
    assert plan.best is not None
    assert plan.best.facts["rate_per_s"] == pytest.approx(8.0)


def test_trace_drives_lengths_rate_and_simulation(tmp_path: Path) -> None:
    path = _trace(tmp_path / "trace.csv", seconds=600, rate=5.0)
    plan = rightfit.plan(LLAMA, task="serve", trace=path, simulate=True, top=1)
    assert plan.best is not None
    assert plan.best.facts["rate_per_s"] == pytest.approx(5.0, rel=0.01)
    assert plan.best.facts["simulated"]["requests"] == 3000
    assert plan.best.facts["simulated"]["arrivals"] == "trace"
    faster = rightfit.plan(LLAMA, task="serve", trace=path, rate="50/s", top=1)
    assert faster.best is not None
    assert faster.best.facts["rate_per_s"] == pytest.approx(50.0, rel=0.01)


def test_malformed_trace_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n1,lots,10\n")
    with pytest.raises(FileInputError, match="line 3"):
        rightfit.plan(LLAMA, task="serve", trace=str(path))


def test_request_of_a_trace_beyond_the_model(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,100,10\n1,90000,10\n")
    with pytest.raises(ContradictionError, match="model's limit"):
        rightfit.plan(LLAMA, task="serve", trace=str(path))


@pytest.mark.parametrize("wishes", [{}, {"rate": "5/s"}])
def test_trace_without_a_span_says_no_rate(tmp_path: Path, wishes: dict[str, str]) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n5,100,10\n5,100,10\n")
    with pytest.raises(FileInputError, match="same timestamp"):
        rightfit.plan(LLAMA, task="serve", trace=str(path), **wishes)


def test_one_pass_models_take_one_length(tmp_path: Path) -> None:
    with pytest.raises(ContradictionError, match="in one pass"):
        rightfit.plan("bert-base-uncased", task="serve", rate="5/s", input_tokens="50..100")
    with pytest.raises(ContradictionError, match="one forward pass"):
        rightfit.plan("bert-base-uncased", task="serve", trace=_trace(tmp_path / "trace.csv", seconds=10, rate=1.0))


def test_one_pass_models_follow_the_day_too() -> None:
    plan = rightfit.plan("bert-base-uncased", task="serve", rate="4000/s", profile="office", top=1)
    content = _section(plan, "autoscaling").content
    assert content["min_replicas"] <= content["max_replicas"]
    assert max(content["hourly_per_s"]) == pytest.approx(4000.0)


def test_busiest_hour_of_a_trace() -> None:
    times = np.concatenate([np.linspace(0, 3599, 360), np.linspace(3600, 7199, 3600), np.linspace(7200, 10800, 360)])
    assert busiest_rate_per_s(Requests(times, np.ones_like(times, dtype=int), np.ones_like(times, dtype=int))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        ({"task": "batch", "data": "1ksamples", "simulate": True}, "simulate contradicts task batch"),
        ({"task": "finetune", "data": "1ksamples", "simulate": True}, "simulate contradicts task finetune"),
        ({"task": "serve", "users": 5, "profile": "office"}, "profile contradicts users"),
        ({"task": "serve", "trace": "x.csv", "input_tokens": 5}, "input_tokens contradicts trace"),
        ({"task": "batch", "data": "1ksamples", "profile": "office"}, "profile contradicts task batch"),
    ],
)
def test_contradictions(wishes: dict[str, object], says: str) -> None:
    with pytest.raises(ContradictionError, match=says):
        rightfit.plan(LLAMA, **wishes)


def test_users_are_simulated_in_a_closed_loop() -> None:
    plan = rightfit.plan(LLAMA, task="serve", users=40, think="0s", gpu="A100-SXM-80GB", simulate=True, top=1)
    assert plan.best is not None
    seen = plan.best.facts["simulated"]
    assert seen["arrivals"] == "closed"
    assert seen["requests_per_s"] == pytest.approx(plan.best.facts["rate_per_s"] / plan.best.layout.data, rel=0.15)


def test_limits_are_rounded_up_so_that_they_do() -> None:
    assert rounded_up(0.030041) == pytest.approx(0.0301)
    assert rounded_up(0.03) == pytest.approx(0.03)
    assert all(rounded_up(value) >= value for value in (0.0299999, 1.2345, 59.99, math.pi))
