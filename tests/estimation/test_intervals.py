"""Intervals: ordering, signs, groups, probabilities, and a fit that recovers what was put in."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rightfit.estimation.intervals import (
    METRIC_FAMILY,
    PROBABILITIES,
    IntervalModel,
    RegimeColumns,
    assumption_flags,
    cumulative,
    interval_columns,
    interval_models,
    probability_over,
    regime_columns,
)
from rightfit.physics.columns import DeviceColumns, Dtype, Kind, Method, ModelColumns, SetupColumns

NORMAL = (-2.576, -1.96, -1.645, -1.282, -0.674, 0.0, 0.674, 1.282, 1.645, 1.96, 2.576)
SHIFTED = tuple(value + 1 for value in NORMAL)
SIMPLE = {
    "memory": IntervalModel("memory", {"base": np.log(0.1), "moe": np.log(2)}, {"all": NORMAL, "adapter": SHIFTED}),
    "time": IntervalModel("time", {"base": np.log(0.1), "device_uncalibrated": np.log(3)}, {"all": SHIFTED}, ("hopper",)),
}


def test_an_interval_by_hand() -> None:
    figures = interval_columns("peak_memory_bytes", np.array([100.0]), RegimeColumns.of(), models=SIMPLE)
    assert figures.low80[0] == pytest.approx(100 * np.exp(-0.1282))
    assert figures.high80[0] == pytest.approx(100 * np.exp(0.1282))
    assert figures.low95[0] == pytest.approx(100 * np.exp(-0.196))
    assert figures.high95[0] == pytest.approx(100 * np.exp(0.196))


def test_a_rate_turns_the_error_of_its_time_round() -> None:
    regime = RegimeColumns.of(architecture=8)
    time_s = interval_columns("step_s", np.array([2.0]), regime, models=SIMPLE)
    rate = interval_columns("tokens_per_s", np.array([1000.0]), regime, models=SIMPLE)
    assert rate.low80 * time_s.high80 == pytest.approx(2000.0)
    assert rate.high95 * time_s.low95 == pytest.approx(2000.0)
    assert rate.low80 < rate.high80


def test_groups_and_features_act() -> None:
    regime = RegimeColumns.of(adapter=[0, 1, 0], moe=[0, 0, 1])
    figures = interval_columns("peak_memory_bytes", np.ones(3), regime, models=SIMPLE)
    assert np.log(figures.high80) == pytest.approx([0.1282, 0.2282, 0.2564])


def test_an_accelerator_without_errors_is_wider_and_says_so() -> None:
    known, unknown = (interval_columns("step_s", np.ones(1), RegimeColumns.of(architecture=code), models=SIMPLE) for code in (8.0, 16.0))
    assert np.log(unknown.high80) == pytest.approx(3 * np.log(known.high80))
    assert (known.source, unknown.source) == ("calibrated", "extrapolated")


def test_probability_over_agrees_with_the_interval() -> None:
    regime = RegimeColumns.of(adapter=[0.0, 1.0])
    mid = np.array([100.0, 100.0])
    figures = interval_columns("peak_memory_bytes", mid, regime, models=SIMPLE)
    assert probability_over("peak_memory_bytes", mid, figures.high95, regime, models=SIMPLE) == pytest.approx([0.025, 0.025])
    assert probability_over("peak_memory_bytes", mid, figures.low80, regime, models=SIMPLE) == pytest.approx([0.9, 0.9])
    rate = interval_columns("tokens_per_s", mid, RegimeColumns.of(architecture=8), models=SIMPLE)
    assert probability_over("tokens_per_s", mid, rate.high80, RegimeColumns.of(architecture=8), models=SIMPLE) == pytest.approx([0.1, 0.1])


def test_cumulative_rises_from_zero_to_one() -> None:
    z = np.linspace(-60, 60, 4001)
    values = cumulative(z, np.array(NORMAL))
    assert np.all(np.diff(values) >= 0)
    assert values[0] < 1e-6
    assert values[-1] > 1 - 1e-6
    assert cumulative(np.array([0.0]), np.array(NORMAL))[0] == pytest.approx(0.5)


def test_the_shipped_models_are_whole() -> None:
    models = interval_models()
    assert set(models) == {"memory", "time"}
    for model in models.values():
        assert all(len(values) == len(PROBABILITIES) and list(values) == sorted(values) for values in model.quantiles.values())
        assert "all" in model.quantiles
    assert all(family in models for family, _ in METRIC_FAMILY.values())


def test_a_hundred_thousand_rows_are_one_call() -> None:
    count = 100_000
    setup = SetupColumns.of(micro_batch=np.ones(count), data=np.arange(count) % 64 + 1)
    figures = interval_columns("step_s", np.ones(count), regime_columns(ModelColumns.of(), setup, DeviceColumns.of()))
    assert figures.low80.shape == (count,)


def test_regime_flags_of_a_job() -> None:
    model = ModelColumns.of(kind=Kind.MOE_DECODER, params_total=[5e8, 2e10])
    setup = SetupColumns.of(method=Method.QLORA, data=[1, 16], compute_dtype=Dtype.FP8, shard_stage=3)
    regime = regime_columns(model, setup, DeviceColumns.of(), num_details=3)
    assert regime.moe[0] == 1
    assert regime.small_model.tolist() == [1, 0]
    assert regime.multi_node.tolist() == [0, 1]
    assert regime.quantized[0] == 1
    assert regime.low_precision[0] == 1
    assert regime.fully_sharded[0] == 1
    assert regime.details_unknown[0] == 2.0


def test_assumptions_become_flags() -> None:
    texts = [["micro-batch not stated: 1 assumed", "optimizer not stated: x", "precision not stated: y"], ["gpu not stated: z taken"], []]
    flags = assumption_flags(texts)
    assert flags["batch_unknown"].tolist() == [1, 0, 0]
    assert flags["num_details"].tolist() == [2, 0, 0]
    assert flags["device_unknown"].tolist() == [0, 1, 0]


@pytest.fixture(scope="module")
def interval_fit():
    pytest.importorskip("scipy")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation"))
    import interval_fit

    return interval_fit


def synthetic(interval_fit, *, sources: int = 24, rows: int = 60):
    """Errors whose scale doubles for variable lengths; every source also has a bias of its own."""
    dice = np.random.default_rng(3)
    count = sources * rows
    moe, noise = dice.integers(0, 2, count).astype(float), dice.normal(size=count)
    bias = np.repeat(dice.normal(size=sources), rows)
    log_error = 0.05 * np.where(moe > 0, 2.0, 1.0) * (noise + bias)
    return interval_fit.Residuals(
        "memory", log_error, RegimeColumns.of(variable_length=moe), np.repeat([f"s{i}" for i in range(sources)], rows).astype(object)
    )


def test_the_fit_finds_the_scale_and_covers_sources_it_never_saw(interval_fit) -> None:
    data = synthetic(interval_fit)
    scale = interval_fit.fit_scale(data, ridge=0.001)
    assert scale["variable_length"] == pytest.approx(np.log(2), abs=0.12)
    inside80 = inside95 = 0
    for held, model in interval_fit.nested_models(data):
        part = data.take(held)
        figures = interval_columns("peak_memory_bytes", np.ones(len(held)), part.regime, models={"memory": model})
        ratio = np.exp(part.log_error)
        inside80 += int(np.sum((ratio >= figures.low80) & (ratio <= figures.high80)))
        inside95 += int(np.sum((ratio >= figures.low95) & (ratio <= figures.high95)))
    assert 0.74 < inside80 / len(data.log_error) < 0.86
    assert 0.91 < inside95 / len(data.log_error) < 0.98


def test_the_fit_is_deterministic(interval_fit) -> None:
    data = synthetic(interval_fit, sources=6, rows=20)
    assert interval_fit.fit_model(data) == interval_fit.fit_model(data)


def test_weighted_quantiles_by_hand(interval_fit) -> None:
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0])
    assert interval_fit.weighted_quantiles(values, weights, [0.125, 0.5, 0.875]).tolist() == [1.0, 2.0, 3.0]
