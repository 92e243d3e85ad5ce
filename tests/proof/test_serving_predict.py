"""Batch prediction of inference rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rightfit.estimation.figures import GROUPS, KINDS, MEMORY_KIND, SERVING_PARENT, serving_interval, serving_interval_group
from rightfit.proof.predict import predict
from rightfit.proof.serving_predict import INFERENCE_METRICS, TOKEN_METRICS, is_generation
from rightfit.proof.tables import read_truth

TRUTH = Path(__file__).resolve().parents[2] / "validation" / "truth"
ROW = {
    "id": "x",
    "metric": "tpot_ms",
    "model": "meta-llama/Meta-Llama-3-8B",
    "weights_dtype": "bf16",
    "engine": "vLLM",
    "device": "A100-SXM-80GB",
    "n_devices": "1",
    "input_tokens": "1024",
    "output_tokens": "256",
    "batch_or_concurrency": "16",
}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return read_truth(TRUTH).select(["inference"]).rows


def test_one_row() -> None:
    (answer,) = predict([ROW])
    assert answer["error"] == ""
    assert answer["low95"] <= answer["low80"] <= answer["predicted"] <= answer["high80"] <= answer["high95"]
    assert sum(answer["terms"].values()) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("metric", [*TOKEN_METRICS, "latency_ms", "req_per_s", "peak_mem_gib"])
def test_every_metric_is_answered(metric: str) -> None:
    (answer,) = predict([ROW | {"metric": metric}])
    assert answer["error"] == ""
    assert answer["predicted"] > 0


def test_every_row_of_language_models_is_answered(rows: list[dict[str, str]]) -> None:
    generation = [row for row in rows if is_generation(row)]
    answers = predict(generation)
    answered = [answer for answer in answers if answer["predicted"]]
    assert len(generation) > 4000
    assert len(answered) >= 0.97 * len(generation)


@pytest.mark.parametrize(
    ("metrics", "limit"), [(("tpot_ms", "decode_tok_per_s_single"), 0.15), (("output_tok_per_s_total", "total_tok_per_s"), 0.15)]
)
def test_errors_on_the_shared_rows(rows: list[dict[str, str]], metrics: tuple[str, ...], limit: float) -> None:
    chosen = [row for row in rows if row["metric"] in metrics and is_generation(row)]
    errors = [
        abs(answer["predicted"] / float(row["measured"]) - 1)
        for row, answer in zip(chosen, predict(chosen), strict=True)
        if answer["predicted"]
    ]
    assert np.median(errors) < limit


def test_ten_thousand_rows_are_all_answered(rows: list[dict[str, str]]) -> None:
    generation = [row for row in rows if is_generation(row)]
    many = (generation * 3)[:10_000]
    assert len(predict(many)) == 10_000


def test_order_and_unknown_columns_are_kept() -> None:
    answers = predict([ROW | {"id": "a", "colour": "red"}, {"id": "b", "metric": "tpot_ms", "engine": "vLLM"}, ROW | {"id": "c"}])
    assert [answer["id"] for answer in answers] == ["a", "b", "c"]
    assert answers[0]["colour"] == "red"
    assert answers[1]["error"]
    assert answers[1]["predicted"] is None


def test_a_row_without_metric_says_so() -> None:
    (answer,) = predict([{key: value for key, value in ROW.items() if key != "metric"}])
    assert "metric" in answer["error"]


def test_unknown_device_is_one_line() -> None:
    (answer,) = predict([ROW | {"device": "H900"}])
    assert "H900" in answer["error"]
    assert "\n" not in answer["error"]


def test_encoders_and_images_are_not_generation() -> None:
    assert not is_generation({"metric": "latency_ms", "model": "bert-base-uncased"})
    assert not is_generation({"metric": "images_per_s", "model": "resnet50"})
    assert is_generation({"metric": "latency_ms", "model": "Llama-2-7b"})
    assert is_generation({"metric": "tpot_ms", "model": "nobody/knows-13b", "params_b": "13"})


@pytest.mark.parametrize("metric", INFERENCE_METRICS)
def test_every_metric_has_an_interval(metric: str) -> None:
    assert metric in GROUPS
    figures = serving_interval(metric, np.array([10.0, 10.0]), doubts=np.array([0.0, 3.0]))
    assert figures.low95[0] < figures.low80[0] < figures.high80[0] < figures.high95[0]
    assert figures.high95[1] > figures.high95[0]


@pytest.mark.parametrize("modality", [*KINDS, "other"])
@pytest.mark.parametrize("metric", ["images_per_s", "latency_ms", "peak_mem_gib"])
def test_every_kind_of_forward_pass_has_an_interval(metric: str, modality: str) -> None:
    figures = serving_interval(metric, np.array([10.0]), doubts=np.array([0.0]), modality=modality)
    assert figures.low95[0] < figures.low80[0] < 10.0 < figures.high80[0] < figures.high95[0]


def test_groups_of_forward_passes() -> None:
    assert serving_interval_group("latency_ms") == "latency"
    assert serving_interval_group("latency_ms", modality="video") == "forward-diffusion"
    assert serving_interval_group("latency_ms", modality="other") == SERVING_PARENT
    assert serving_interval_group("peak_mem_gib", modality="vision") == MEMORY_KIND


def test_diffusion_is_known_better_than_vision_and_few_rows_take_the_wider() -> None:
    widths = {}
    for modality in ("image", "vision", "audio", "other"):
        figures = serving_interval("latency_ms", np.array([1.0]), doubts=np.array([0.0]), modality=modality)
        widths[modality] = float(figures.high80[0] / figures.low80[0])
    assert widths["image"] < 2.0 < widths["vision"] < 4.0
    assert widths["audio"] > widths["other"]


def test_intervals_of_forward_passes_hold_the_shared_rows(rows: list[dict[str, str]]) -> None:
    chosen = [row for row in rows if not is_generation(row)]
    pairs = [(answer, float(row["measured"])) for row, answer in zip(chosen, predict(chosen), strict=True) if answer["predicted"]]
    assert len(pairs) > 2000
    # More than on the average source: most of these rows are of sources that the
    # coefficients were fitted on.
    assert np.mean([answer["low80"] <= measured <= answer["high80"] for answer, measured in pairs]) > 0.8
    assert np.mean([answer["low95"] <= measured <= answer["high95"] for answer, measured in pairs]) > 0.95
