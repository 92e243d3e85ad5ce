"""A few own rows sharpen the prediction of others, and say how far that goes."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rightfit.measure.evidence import (
    MOST_ROWS,
    Case,
    Correction,
    Law,
    as_cases,
    case_of,
    corrections,
    evidence_of,
    laws,
    moved,
    posterior_of,
    settled,
    truncated,
    useful,
    width,
)
from rightfit.measure.record import Run, Source, measured, sealed

OWN_RUNS = Path(__file__).parents[2] / "validation" / "own_runs.csv"
LAW = Law(0.16, 0.19, 0.05, 0.05, 0.09)
ROW = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "method": "lora",
    "framework": "trl",
    "precision": "bf16",
    "micro_batch": "4",
    "seq_len": "2048",
}


def case(job: str = "a", card: str = "x", count: str = "1", batch: float = 2.0) -> Case:
    return Case("training-step", (job,), card, count, "", batch, 11.0)


def mean_of(known: Sequence[Case], residual: Sequence[float], target: Case, law: Law = LAW) -> float:
    cases = as_cases([*known, target])
    index = np.arange(len(known))
    return float(posterior_of(law, cases.take(index), np.array(residual), cases.take(np.array([len(known)]))).mean[0])


def test_the_posterior_of_one_row_is_the_formula() -> None:
    found = mean_of([case()], [0.3], case())
    kept = LAW.e**2 + LAW.b**2 + LAW.s**2 + LAW.n**2
    assert found == pytest.approx(0.3 * kept / (kept + LAW.v**2))


def test_what_is_more_alike_is_corrected_more_and_never_beyond_what_was_seen() -> None:
    order = [case("b"), case(card="y"), case(count="2"), case(batch=6.0), case()]
    moves = [mean_of([case()], [0.3], target) for target in order]
    assert moves == sorted(moves)
    assert 0 < moves[0] < moves[-1] < 0.3


def test_more_rows_are_trusted_more() -> None:
    moves = [mean_of([case()] * count, [0.3] * count, case(card="y")) for count in (1, 2, 4, 16)]
    assert moves == sorted(moves)


def test_rows_that_contradict_each_other_move_nothing() -> None:
    assert mean_of([case(), case()], [0.3, -0.3], case()) == pytest.approx(0.0, abs=1e-9)


def test_an_absurd_row_is_cut() -> None:
    assert mean_of([case()], [50.0], case()) == mean_of([case()], [1.5], case())


def test_a_cut_normal_has_the_known_moments() -> None:
    draws = np.random.default_rng(0).normal(0.1, 0.5, 400_000)
    for limit in (-0.4, 0.1, 0.8):
        kept = draws[draws > limit]
        assert truncated(0.1, 0.25, limit, above=True) == (pytest.approx(kept.mean(), abs=0.01), pytest.approx(kept.var(), rel=0.03))
        rest = draws[draws < limit]
        assert truncated(0.1, 0.25, limit, above=False) == (pytest.approx(rest.mean(), abs=0.01), pytest.approx(rest.var(), rel=0.03))


def test_a_bound_moves_one_way_only_and_only_where_it_says_something() -> None:
    cases = as_cases([case(), case()])
    one, target = cases.take(np.array([0])), cases.take(np.array([1]))

    def move(limit: float, side: str) -> float:
        values, noise = settled(LAW, one, np.array([limit]), [side])
        return float(posterior_of(LAW, one, values, target, noise=noise).mean[0])

    assert move(0.3, ">=") > move(0.0, ">=") > move(-0.8, ">=") > -1e-6
    assert move(-0.8, ">=") == pytest.approx(0.0, abs=0.01)
    assert move(-0.3, "<=") < -0.1


# ---- what published sources say ------------------------------------------------------------------


def table() -> dict[tuple[str, int], dict[str, float]]:
    with OWN_RUNS.open(encoding="utf-8") as stream:
        return {
            (row["figure"], int(row["rows"])): {name: float(value) for name, value in row.items() if name != "figure"}
            for row in csv.DictReader(stream)
        }


@pytest.mark.parametrize("figure", ["training-memory", "training-step", "time-per-token", "serving-throughput"])
def test_the_bars_hold_on_sources_left_out(figure: str) -> None:
    found = table()
    assert found[figure, 3]["cut"] >= 0.25
    assert found[figure, 1]["worse_corrected"] <= 0.45
    assert all(0.75 <= found[figure, rows]["inside80"] <= 0.85 for rows in (1, 2, 3))
    assert all(found[figure, rows]["worse_corrected"] <= found[figure, rows]["worse_plain"] for rows in (1, 2, 3))


def test_a_figure_that_own_rows_did_not_help_is_not_corrected() -> None:
    found = table()
    for figure in laws():
        shares = [found[figure, rows]["worse_corrected"] for rows in range(1, MOST_ROWS + 1)]
        assert useful(figure, MOST_ROWS) == (min(shares) <= 0.5), figure
    assert not useful("serving-memory", 1)
    assert useful("training-step", 1)


def test_every_figure_has_positive_numbers_and_factors_that_grow_with_the_level() -> None:
    for figure, law in laws().items():
        assert min(law) > 0, figure
        for rows in range(1, MOST_ROWS + 1):
            narrow, wide = width(figure, rows, "card")
            assert 0 < narrow < wide


# ---- runs as evidence ----------------------------------------------------------------------------


def a_run(value: float, metric: str = "step_time_s", **setup: str) -> Run:
    return sealed(Run(source=Source(kind="probe"), setup={**ROW, **setup}, measured=[measured(metric, value)]))


def fixed(rows: list[dict[str, str]]) -> list[Mapping[str, Any]]:
    return [{"predicted": 1.0, "error": ""} for _ in rows]


def asked(metric: str = "step_time_s", **cells: str) -> Case:
    return case_of({**ROW, **cells}, metric)


def one(runs: Sequence[Run], target: Case) -> Correction:
    found = corrections(evidence_of(runs, fixed), [target])[0]
    assert found is not None
    return found


def test_a_slow_run_makes_the_same_job_slower_on_every_server() -> None:
    runs = [a_run(1.3)]
    same, other = one(runs, asked()), one(runs, asked(gpu="H100-SXM-80GB"))
    assert (same.source, other.source) == ("measured", "calibrated")
    assert 1.0 < other.factor < same.factor < 1.3
    assert same.half80 < other.half80 < other.half95
    assert same.runs == (runs[0].id,)
    assert same.factor == pytest.approx(same.stack * same.job * same.server)


def test_a_rate_says_the_same_as_its_time() -> None:
    fast = a_run(1 / 1.3, "samples_per_s")
    assert one([fast], asked()).factor == pytest.approx(one([a_run(1.3)], asked()).factor)
    figures = moved(one([fast], asked()), 10.0, is_cost=False)
    assert figures["predicted"] < 10.0
    assert figures["low95"] < figures["low80"] < figures["predicted"] < figures["high80"] < figures["high95"]


def test_spellings_of_one_card_and_model_are_one() -> None:
    run = a_run(1.3, model="llama-3-8b", gpu="A100-SXM4-80GB")
    assert one([run], asked()).source == "measured"


def test_what_is_left_open_fits_the_run() -> None:
    assert one([a_run(1.3)], asked(framework="", precision="")).source == "measured"
    assert one([a_run(1.3)], asked(framework="axolotl")).source == "calibrated"


def test_memory_is_compared_with_memory_of_its_counter() -> None:
    run = sealed(Run(source=Source(kind="probe"), setup=ROW, measured=[measured("peak_mem_gib_per_gpu", 1.3, counter="reserved")]))
    own, other = (
        one([run], asked("peak_mem_gib_per_gpu", mem_kind="reserved")),
        one([run], asked("peak_mem_gib_per_gpu", mem_kind="allocated")),
    )
    assert own.source == "measured"
    assert other.source == "calibrated"
    assert other.factor < own.factor


def test_preallocated_memory_and_rows_without_prediction_are_not_evidence() -> None:
    filled = sealed(Run(source=Source(kind="probe"), setup=ROW, measured=[measured("peak_mem_gib_per_gpu", 70.0, counter="preallocated")]))
    assert evidence_of([filled], fixed).rows == ()
    found = evidence_of([a_run(1.0)], lambda rows: [{"predicted": None, "error": "unknown model"} for _ in rows])
    assert found.rows == ()
    assert found.unused[0][2] == "unknown model"


def test_runs_of_another_figure_say_nothing() -> None:
    assert corrections(evidence_of([a_run(1.3)], fixed), [asked("peak_mem_gib_per_gpu")]) == [None]
    assert math.isclose(corrections(evidence_of([a_run(1.0)], fixed), [asked()])[0].factor, 1.0)  # type: ignore[union-attr]


# ---- what physics forbids

SERVED = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "engine": "vllm",
    "device": "H100",
    "n_devices": "1",
    "input_tokens": "512",
    "output_tokens": "128",
    "batch_or_concurrency": "8",
}
#: Metric -> set-up, figures that cannot be, figures that can.
FORBIDDEN: Mapping[str, tuple[dict[str, str], list[float], list[float]]] = {
    "step_time_s": (ROW, [1e-300, 1e-9, 0.1, 1e300], [1.5, 3.0, 30.0]),
    "tokens_per_s_per_gpu": (ROW, [1e300, 1e5, 1e-300], [2_000.0, 5_000.0]),
    "mfu": (ROW, [5.0, 1e300, 1e-300], [0.2, 0.6, 0.9]),
    "peak_mem_gib_per_gpu": (ROW, [1e-300, 96.0, 1e300], [20.0, 70.0]),
    "tpot_ms": (SERVED, [1e-300, 0.1, 1e300], [2.0, 9.0, 40.0]),
    "ttft_ms": (SERVED, [1e-300, 0.01, 1e300], [20.0, 200.0]),
    "output_tok_per_s_total": (SERVED, [1e-300, 1e300, 1e7], [500.0, 3_000.0]),
}


@pytest.mark.parametrize("metric", FORBIDDEN)
def test_what_physics_forbids_is_no_evidence(metric: str) -> None:
    from rightfit.proof.predict import evidence

    setup, wrong, right = FORBIDDEN[metric]
    for value in [*wrong, *right]:
        counter = {"counter": "allocated"} if metric.startswith("peak") else {}
        run = sealed(Run(source=Source(kind="probe"), setup=setup, measured=[measured(metric, value, **counter)]))
        found = evidence([run])
        assert bool(found.rows) is (value in right), (value, found.unused)
        if value in wrong:
            assert [(one[0], one[2].metric) for one in found.impossible] == [(run.id, metric)]
            assert not any(corrections(found, [case_of({**setup, "metric": metric}, metric)]))


@pytest.mark.parametrize(("asked", "holds"), [(100.0, True), (150.0, True), (1e300, False)])
def test_a_failure_asks_for_no_more_than_two_cards(asked: float, holds: bool) -> None:
    from rightfit.proof.predict import evidence

    failed = measured("peak_mem_gib_per_gpu", asked, bound=">=", counter="allocated")
    found = evidence([sealed(Run(source=Source(kind="probe"), setup=ROW, measured=[failed], oom=True))])
    assert bool(found.rows) is holds
