"""Work of models by name."""

from __future__ import annotations

import pytest

from rightfit.estimation.forward_models import forward_work
from rightfit.estimation.pass_records import PassInput


def work(model: str, **wish: float) -> object:
    found = forward_work(PassInput(model=model, **wish))  # type: ignore[arg-type]
    assert found is not None
    return found


def main_stage(model: str, **wish: float):  # type: ignore[no-untyped-def]
    return work(model, **wish).stages[0]  # type: ignore[attr-defined]


def test_resnet_50_under_its_many_names() -> None:
    for name in ("ResNet-50 v1.5", "resnet50", "Resnet-50", "timm/resnet50", "resnet50-v1.5-tf"):
        stage = main_stage(name)
        assert (stage.kind, stage.layers) == ("conv", 50)
        assert stage.macs == pytest.approx(4.11e9)
        assert stage.activations == pytest.approx(11.11e6)


def test_image_size_scales_by_pixels() -> None:
    assert main_stage("resnet50", height=448, width=448).macs == pytest.approx(4 * 4.11e9)


def test_counts_stated_in_the_row_win() -> None:
    stage = main_stage("resnet50", macs=2.62e9, activations=6.92e6)
    assert (stage.macs, stage.activations) == (2.62e9, 6.92e6)


@pytest.mark.parametrize(
    ("model", "kind", "pointwise"),
    [
        ("convnext_tiny", "convnext", 1.0),
        ("convnextv2_tiny", "convnext", 2.0),
        ("convmixer_768_32", "convnext", 1.0),
        ("dla60", "conv", 1.0),
        ("dla60x", "grouped", 1.0),
        ("dm_nfnet_f0", "grouped", 1.5),
        ("cait_s24_224", "window", 2.0),
        ("coat_tiny", "window", 1.5),
        ("coatnet_0_rw_224", "window", 1.0),
    ],
)
def test_families_by_their_layouts(model: str, kind: str, pointwise: float) -> None:
    stage = main_stage(model, macs=4e9, activations=1e7)
    assert (stage.kind, stage.pointwise) == (kind, pointwise)


def test_bert_large_by_hand() -> None:
    stage = main_stage("bert-large-uncased", tokens=384)
    assert stage.macs == pytest.approx(24 * 384 * 12 * 1024**2)
    assert stage.score_macs == pytest.approx(24 * 2 * 384**2 * 1024)
    assert stage.weights == pytest.approx(302e6, rel=0.05)


def test_diffusion_has_denoiser_decoder_and_text_encoder() -> None:
    found = work("stable-diffusion-v1-5", steps=30)
    denoiser, decoder, _ = found.stages  # type: ignore[attr-defined]
    assert (denoiser.repeats, denoiser.items) == (30, 2)
    assert denoiser.macs + denoiser.score_macs == pytest.approx(803.3e9 / 2)
    assert decoder.macs == pytest.approx(2514.5e9 / 2)


def test_diffusion_at_768_as_counted_by_a_flop_counter() -> None:
    """torch's counter gives 2148.1 GFLOP a call at 768x768: linear work by pixels, attention
    scores by their square."""
    stage = main_stage("stable-diffusion-v1-5", height=768, width=768)
    assert 2 * (stage.macs + stage.score_macs) == pytest.approx(2148.1e9, rel=1e-6)
    assert stage.score_macs / (stage.macs + stage.score_macs) == pytest.approx(0.285, abs=0.005)  # 2.25 x the share of 15 % at 512


@pytest.mark.parametrize(
    ("model", "size", "gflops"),
    [
        ("FLUX.1-dev", (512, 512, 0), 21502.6),
        ("stable-diffusion-xl-base-1.0", (512, 512, 0), 1588.8),
        ("tencent/HunyuanVideo", (544, 960, 129), 4285311.8),
        ("Wan-AI/Wan2.1-T2V-14B", (480, 832, 81), 1678370.3),
    ],
)
def test_counted_sizes_are_met_exactly(model: str, size: tuple[float, float, float], gflops: float) -> None:
    stage = main_stage(model, height=size[0], width=size[1], frames=size[2])
    assert 2 * (stage.macs + stage.score_macs) == pytest.approx(gflops * 1e9, rel=1e-6)


def test_joined_inputs_of_densenet_count() -> None:
    """9.1 M normalised elements beside the 6.9 M that the convolutions write, summed over
    the blocks by hand."""
    joined = sum(
        pixels * sum(start + 32 * layer for layer in range(layers))
        for pixels, start, layers in ((3136, 64, 6), (784, 128, 12), (196, 256, 24), (49, 512, 16))
    )
    assert main_stage("densenet121").activations == pytest.approx(6.9e6 + joined, rel=0.02)


def test_modalities_of_listed_models() -> None:
    assert [work(name).modality for name in ("RNN-T", "wav2vec2-base", "dlrm", "retinanet")] == ["audio", "audio", "other", "vision"]  # type: ignore[attr-defined]


def test_disentangled_attention_has_more_small_kernels() -> None:
    assert main_stage("microsoft/deberta-v3-base", tokens=128).loose == 4
    assert main_stage("bert-base-uncased", tokens=128).loose == 1


def test_controlnet_adds_the_encoder_half() -> None:
    plain, guided = main_stage("stable-diffusion-v1-5"), main_stage("stable-diffusion-v1-5 + ControlNet canny")
    assert guided.macs / plain.macs == pytest.approx(1.36)


def test_whisper_encodes_windows_and_decodes_tokens() -> None:
    encode, decode = work("whisper-large-v2", audio_s=780.0, beams=5.0).stages  # type: ignore[attr-defined]
    assert encode.repeats == 26
    assert decode.items == 5
    assert 1500 < decode.repeats < 4000
    assert encode.macs == pytest.approx(32 * 1500 * 12 * 1280**2)


def test_unknown_model_needs_parameters() -> None:
    assert forward_work(PassInput(model="no-such-network-xyz")) is None
    found = work("no-such-network-xyz", params=25e6)
    assert "guessed" in found.assumptions[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("model", "side"),
    [
        ("ViT-B/16-384", 384),
        ("google/vit-base-patch16-384", 384),
        ("ViT-L/16-512", 512),
        ("Swin-B-384", 384),
        ("resnet50-288", 288),
        ("resnet50_176px", 176),
        ("vit-base-patch16-384", 384),
        ("resnet-101", 224),
        ("densenet-121", 224),
        ("YOLOv5s6", 1280),
        ("yolov5s-cls", 224),
        ("yolov5s-seg", 640),
        ("yolo11m-pose", 640),
    ],
)
def test_a_size_at_the_end_of_a_name_is_the_picture(model: str, side: int) -> None:
    assert work(model).pixels == pytest.approx(side**2)  # type: ignore[attr-defined]


def test_every_size_of_a_family_costs_its_pixels() -> None:
    for model in ("ViT-B/16", "Swin-B", "resnet50", "ConvNeXt-B"):
        if (base := forward_work(PassInput(model=model))) is None:
            continue
        for side in (256, 384, 448, 512):
            assert main_stage(f"{model}-{side}").macs / base.stages[0].macs == pytest.approx((side / base.pixels**0.5) ** 2, rel=0.05)


def test_a_stated_size_wins_over_the_name() -> None:
    assert work("ViT-B/16-384", height=224.0, width=224.0).pixels == 224**2  # type: ignore[attr-defined]


def test_denoisers_named_by_their_pictures() -> None:
    assert main_stage("Sana_1600M_4Kpx").macs > 10 * main_stage("Sana_1600M_1024px").macs


def test_only_detectors_that_suppress_class_by_class_keep_the_host() -> None:
    shares = {name: main_stage(name).host for name in ("YOLOv5s", "yolov8n", "ssd320 resnet50 fpn", "retinanet")}
    assert shares["retinanet"] == 1.0 > shares["YOLOv5s"] == shares["yolov8n"]


def test_unknown_detectors_are_sized_as_detectors_at_their_picture() -> None:
    small, large = (main_stage("somedetector-x", params=7e6, height=side, width=side) for side in (640.0, 1280.0))
    assert large.macs == pytest.approx(4 * small.macs)
    assert small.macs == pytest.approx(7e6 * 1435)


def test_questions_of_mlperf_are_shorter_than_the_longest() -> None:
    assert main_stage("bert-99", tokens=384).macs == pytest.approx(main_stage("bert-large-uncased", tokens=180).macs)
    assert main_stage("bert-99.9", tokens=100).macs == pytest.approx(main_stage("bert-large-uncased", tokens=100).macs)
