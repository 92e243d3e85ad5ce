"""Rows in, values or reasons out: published figures, directions, and bad input."""

from __future__ import annotations

import pytest

from rightfit.estimation.forward import batch_s, case_columns, coefficients, pass_metric_values, usual_batch
from rightfit.proof.cases.forward import forward_rows, is_forward
from rightfit.proof.family_predict import predict_forward


def row(metric: str, model: str, device: str, **cells: str) -> dict[str, str]:
    return {"metric": metric, "model": model, "device": device, "weights_dtype": "fp16", "engine": "TensorRT", **cells}


def value(metric: str, model: str, device: str, **cells: str) -> float:
    found = predict_forward([row(metric, model, device, **cells)])[0]
    assert found.error == ""
    assert found.value is not None
    return found.value


COUNTERS = ("allocator", "reserved", "driver", "process")


def test_a_counter_of_tensors_does_not_see_the_context_of_the_driver() -> None:
    one = {"batch_or_concurrency": "1"}
    seen = {counter: value("peak_mem_gib", "resnet18", "H100-SXM-80GB", counter=counter, **one) for counter in COUNTERS}
    assert seen["driver"] == seen["process"] == value("peak_mem_gib", "resnet18", "H100-SXM-80GB", **one) > 0.5
    assert seen["allocator"] == seen["reserved"] < 0.1  # 11.7 million parameters and one picture


@pytest.mark.parametrize(
    ("measured", "case"),
    [
        # NVIDIA TensorRT demoBERT, bert-large fp16, A100-40GB, 384 tokens, batch 4
        (5.67, row("latency_ms", "bert-large", "A100-40GB", input_tokens="384", batch_or_concurrency="4")),
        # MLPerf Inference v3.0, ResNet-50 offline int8 on one A100-SXM-80GB
        (
            42870.7,
            row(
                "images_per_s",
                "resnet50",
                "A100-SXM4-80GB",
                weights_dtype="int8",
                batch_or_concurrency="offline max",
            ),
        ),
        # timm, ConvNeXt-Base at 256 on an RTX 3090, AMP, channels last
        (
            1004.59,
            row(
                "images_per_s",
                "convnext_base",
                "RTX 3090",
                weights_dtype="amp-fp16",
                engine="PyTorch (timm)",
                batch_or_concurrency="1024",
                image_size="256",
                gmacs="20.09",
                mactivations="37.55",
                flags="channels_last",
            ),
        ),
        # diffusers docs, SD 1.5 on an RTX 4090, batch 16
        (
            3.17,
            row(
                "denoise_steps_per_s",
                "stable-diffusion-v1-5",
                "RTX 4090",
                engine="diffusers (PyTorch 2.0) SDPA",
                batch_or_concurrency="16",
                image_size="512",
            ),
        ),
        # FLUX.1-dev on an L20
        (
            26360.0,
            row(
                "latency_ms",
                "FLUX.1-dev",
                "L20",
                weights_dtype="bf16",
                engine="diffusers",
                batch_or_concurrency="1",
                image_size="1024",
                denoise_steps="28",
            ),
        ),
    ],
)
def test_published_figures_within_a_quarter(measured: float, case: dict[str, str]) -> None:
    found = predict_forward([case])[0]
    assert found.value == pytest.approx(measured, rel=0.25)


def test_rate_and_latency_of_one_batch_agree() -> None:
    rate = value("sequences_per_s", "bert-base", "T4", input_tokens="128", batch_or_concurrency="8")
    latency = value("latency_ms", "bert-base", "T4", input_tokens="128", batch_or_concurrency="8")
    assert rate * latency / 1e3 == pytest.approx(8)


def test_throughput_is_of_the_whole_system_and_latency_of_one_card() -> None:
    cells = {"batch_or_concurrency": "64"}
    assert value("images_per_s", "resnet50", "A30", n_devices="4", **cells) == pytest.approx(
        4 * value("images_per_s", "resnet50", "A30", **cells)
    )
    assert value("latency_ms", "resnet50", "A30", n_devices="4", **cells) == pytest.approx(value("latency_ms", "resnet50", "A30", **cells))


def test_one_picture_on_four_cards_is_two_to_four_times_faster() -> None:
    cells = {"weights_dtype": "bf16", "engine": "xDiT", "image_size": "1024", "denoise_steps": "28"}
    alone, four = (value("latency_ms", "FLUX.1-dev", "L20", n_devices=n, **cells) for n in ("1", "4"))
    assert 2.0 < alone / four < 4.0


def test_neuron_latency_counts_passes_in_flight() -> None:
    cells = {
        "weights_dtype": "fp32",
        "engine": "PyTorch 2.5",
        "batch_or_concurrency": "8",
        "compute_dtype": "bf16",
        "flags": "autocast",
    }
    rate = value("images_per_s", "resnet50", "Inferentia2", **cells)
    latency = value("latency_ms", "resnet50", "Inferentia2", **cells)
    assert rate * latency / 1e3 / 8 == pytest.approx(4)  # published: 4393 images/s x 7.283 ms / 8


def test_directions() -> None:
    small = value("images_per_s", "resnet50", "A100-40GB", batch_or_concurrency="1")
    large = value("images_per_s", "resnet50", "A100-40GB", batch_or_concurrency="128")
    assert 5 < large / small < 128
    cells = {"batch_or_concurrency": "128"}
    assert value("images_per_s", "resnet50", "T4", weights_dtype="fp32", **cells) < value("images_per_s", "resnet50", "T4", **cells)
    assert value("images_per_s", "resnet50", "T4", **cells) < value("images_per_s", "resnet50", "T4", weights_dtype="int8", **cells)
    assert value("images_per_s", "resnet152", "T4", **cells) < value("images_per_s", "resnet50", "T4", **cells)
    eager = value("latency_ms", "bert-base", "A100-40GB", engine="PyTorch", input_tokens="128", batch_or_concurrency="1")
    assert eager > 2 * value("latency_ms", "bert-base", "A100-40GB", input_tokens="128", batch_or_concurrency="1")


def test_a_script_that_feeds_images_is_slower_than_its_passes() -> None:
    """The same network with larger pictures over the same host: TensorFlow scripts lose time by
    pixel, TensorRT does not."""
    values = coefficients()
    assert values["pixel_s.tensorflow"] * 224**2 > 5e-5
    cells = {"batch_or_concurrency": "256", "engine": "TensorFlow 2"}
    with_feed = value("images_per_s", "resnet50", "A100-40GB", **cells)
    assert with_feed < 1.0 / (values["pixel_s.tensorflow"] * 224**2)


def test_idle_cores_leave_their_bandwidth() -> None:
    """Real-time rows of the first Inferentia run on one of four cores, which has
    the memory to itself."""
    cells = {"model": "bert-base", "device": "Inferentia1", "weights_dtype": "fp32", "engine": "PyTorch 1.13"}
    alone = forward_rows([row("sequences_per_s", **cells, flags="real time")]).columns.case
    batch = forward_rows([row("sequences_per_s", **cells, flags="")]).columns.case
    assert alone["bandwidth"][0] == pytest.approx(4 * batch["bandwidth"][0])


def test_memory_of_flux_is_mostly_its_weights() -> None:
    """Published: 37.1 GiB a card on L20, 33.8 on RTX 4090 48 GB, with 16.9 B parameters in bf16."""
    assert 31 < value("peak_mem_gib", "FLUX.1-dev", "L20", weights_dtype="bf16", engine="diffusers", image_size="1024") < 39


def test_reasons_in_place_of_guesses() -> None:
    rows = [
        row("images_per_s", "", "T4"),
        row("images_per_s", "resnet50", ""),
        row("images_per_s", "resnet50", "Abacus 9000"),
        row("images_per_s", "no-such-network-xyz", "T4"),
        row("ttft_ms", "resnet50", "T4"),
        {},
        row("images_per_s", "resnet50", "T4"),
    ]
    answers = predict_forward(rows)
    assert [answer.value is None for answer in answers] == [True] * 6 + [False]
    for answer, word in zip(answers, ("no model", "no device", "Abacus 9000", "no-such-network-xyz", "ttft_ms", "no model"), strict=False):
        assert word in answer.error
    assert (answers[-1].regime["kind"], answers[-1].regime["engine"], answers[-1].regime["doubts"]) == ("conv", "tensorrt", 0)
    assert predict_forward([]) == []


def test_which_rows_are_ours() -> None:
    assert is_forward({"metric": "images_per_s", "model": "anything"})
    assert is_forward({"metric": "latency_ms", "model": "bert-base"})
    assert is_forward({"metric": "peak_mem_gib", "model": "FLUX.1-dev"})
    assert is_forward({"metric": "latency_ms", "model": "whisper-small"})
    assert not is_forward({"metric": "latency_ms", "model": "meta-llama/Llama-2-7b-hf"})
    assert not is_forward({"metric": "ttft_ms", "model": ""})


def test_usual_batch_is_large_for_small_models() -> None:
    cases = forward_rows([row("images_per_s", name, "T4") for name in ("mobilenetv2_100", "resnet50", "3d-unet")]).cases
    mobile, resnet, volume = (usual_batch(case.work) for case in cases)
    assert mobile > resnet > volume >= 1


def test_every_coefficient_is_positive_and_used_prefixes_exist() -> None:
    values = coefficients()
    assert min(values.values()) > 0
    assert values["mixing"] >= 1


def test_no_cases_take_no_time() -> None:
    assert batch_s(case_columns([])).shape == (0,)


def test_ten_thousand_rows_are_all_answered() -> None:
    rows = [
        row("images_per_s", "resnet50", "T4", batch_or_concurrency=str(1 + i % 500), image_size=str(200 + i % 97)) for i in range(10_000)
    ]
    assert all(answer.value for answer in predict_forward(rows))


def test_a_table_of_no_rows_has_the_columns_of_any_other() -> None:
    one, none = forward_rows([row("req_per_s", "resnet50", "T4", batch_or_concurrency="8")]).columns, case_columns([])
    assert {name: column.shape for name, column in none.case.items()} == dict.fromkeys(one.case, (0,))
    assert {name: column.shape for name, column in pass_metric_values(none).items()} == dict.fromkeys(pass_metric_values(one), (0,))


@pytest.mark.parametrize("model", ["whisper-large-v3-turbo", "whisper-large-v3", "whisper-small", "distil-whisper-large-v3"])
@pytest.mark.parametrize("device", ["H100-SXM-80GB", "B200-SXM-180GB", "A100-SXM-80GB"])
def test_speech_is_heard_by_the_host_however_fast_the_card(model: str, device: str) -> None:
    cells = {"engine": "HF transformers", "audio_s": "3600"}
    speeds = [3600e3 / value("latency_ms", model, device, batch_or_concurrency=str(batch), **cells) for batch in (1, 16, 64, 256)]
    assert speeds == sorted(speeds)
    # Published H100 measurements peak near 600 times real time.
    assert speeds[-1] < 900


@pytest.mark.parametrize("engine", ["PyTorch", "TensorRT", "FasterTransformer", "TensorFlow", "ONNX Runtime", "OpenVINO"])
@pytest.mark.parametrize(("device", "peak"), [("V100-32GB", 15.7e12), ("T4", 8.1e12)])
def test_no_transformer_in_fp32_passes_the_peak_of_the_card(engine: str, device: str, peak: float) -> None:
    batch, tokens = 32, 384
    seconds = (
        value(
            "latency_ms",
            "bert-base",
            device,
            engine=engine,
            weights_dtype="fp32",
            input_tokens=str(tokens),
            batch_or_concurrency=str(batch),
        )
        / 1e3
    )
    assert 2 * 12 * tokens * 12 * 768**2 * batch / seconds < 1.05 * peak
