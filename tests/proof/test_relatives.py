"""A model that is not known is timed and sized as what is told of it, else as its nearest relative,
which is said; else it is refused."""

from __future__ import annotations

import pytest

from rightfit.proof.predict import predict

DRAWN = {"metric": "latency_ms", "device": "H100-SXM-80GB", "image_size": "1024", "denoise_steps": "28", "weights_dtype": "bf16"}
RELATIVES = (
    "FLUX.2-klein-77B",
    "flux.9",
    "Wan2.9-30B",
    "Qwen-Image-2.0",
    "LTX-3",
    "nvidia/Cosmos-Predict2-2B-Text2Image",
)
KNOWN = (
    "black-forest-labs/FLUX.1-dev",
    "flux",
    "flux.1 dev",
    "black-forest-labs/FLUX.2-dev",
    "Qwen/Qwen-Image",
    "Wan2.1-T2V-14B",
    "Wan2.2-T2V-A14B",
)


def width(answer: dict[str, object]) -> float:
    return float(answer["high80"]) / float(answer["low80"])  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RELATIVES)
@pytest.mark.parametrize("metric", ["latency_ms", "peak_mem_gib"])
def test_a_relative_is_said_and_doubted(name: str, metric: str) -> None:
    other, known = predict([DRAWN | {"metric": metric, "model": model, "engine": "diffusers"} for model in (name, KNOWN[0])])
    assert f"model {name!r} not known: the nearest relative" in other["assumptions"]
    assert width(other) > 1.3 * width(known)


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_model_is_itself(name: str) -> None:
    (answer,) = predict([DRAWN | {"model": name, "engine": "diffusers"}])
    assert "relative" not in answer["assumptions"]
    assert answer["predicted"] > 0


@pytest.mark.parametrize("metric", ["latency_ms", "peak_mem_gib"])
@pytest.mark.parametrize("name", ["flux.9", "Wan3", "Qwen-Image-2.0", "nobody/drawer"])
def test_parameters_that_are_told_count(name: str, metric: str) -> None:
    small, large = predict([DRAWN | {"metric": metric, "model": name, "params_b": told} for told in ("2", "20")])
    assert large["predicted"] > (3.0 if metric == "latency_ms" else 1.8) * small["predicted"]


@pytest.mark.parametrize("name", ["nvidia/Cosmos-Predict2-2B-Text2Image", "nobody/drawer", *RELATIVES[:3]])
def test_the_engine_decides_no_guard(name: str) -> None:
    answers = predict([DRAWN | {"model": name, "params_b": "2", "engine": engine} for engine in ("PyTorch", "diffusers", "xDiT", "")])
    times = [answer["predicted"] for answer in answers]
    assert all(times)
    assert max(times) < 2.5 * min(times)


def test_without_parameters_or_relative_it_is_refused() -> None:
    (answer,) = predict([DRAWN | {"model": "nobody/drawer"}])
    assert answer["predicted"] is None
    assert "params_b" in answer["error"]


def test_a_large_network_of_one_pass_is_not_made_of_a_denoiser() -> None:
    (answer,) = predict([{"metric": "latency_ms", "model": "nobody/world", "params_b": "14", "image_size": "704x1280", "device": "L40S"}])
    assert answer["predicted"] is None
    assert "denoise_steps" in answer["error"]


@pytest.mark.parametrize(
    "name", ["bert-base-uncased", "bert-99", "BAAI/bge-m3", "microsoft/deberta-v3-base", "nobody/encoder", "Qwen3-Embedding-0.6B"]
)
def test_lengths_of_encoders_count_whatever_their_name(name: str) -> None:
    rows = [{"metric": "latency_ms", "model": name, "params_b": "0.1", "device": "L4", "input_tokens": tokens} for tokens in ("64", "512")]
    short, long = predict([row | {"batch_or_concurrency": "32"} for row in rows])
    assert long["predicted"] > 2.0 * short["predicted"]


@pytest.mark.parametrize("name", ["openai/whisper-large-v3", "wav2vec2-base", "facebook/hubert-large", "nobody/ears"])
def test_seconds_of_sound_count_whatever_the_name(name: str) -> None:
    rows = [{"metric": "latency_ms", "model": name, "params_b": "0.3", "device": "L4", "audio_s": seconds} for seconds in ("30", "600")]
    short, long = predict(rows)
    assert long["predicted"] > 3.0 * short["predicted"]


@pytest.mark.parametrize("name", ["resnet50", "vit-base-patch16-224", "yolov8m", "nobody/net"])
def test_sizes_of_pictures_count_whatever_the_name(name: str) -> None:
    rows = [{"metric": "latency_ms", "model": name, "params_b": "0.03", "device": "L4", "image_size": side} for side in ("224", "896")]
    small, large = predict([row | {"batch_or_concurrency": "32"} for row in rows])
    assert large["predicted"] > 3.0 * small["predicted"]
