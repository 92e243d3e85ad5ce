"""Words of rows."""

from __future__ import annotations

import pytest

from rightfit.estimation.pass_records import ModelWork
from rightfit.estimation.sample_training import STACKS
from rightfit.facts.trainers import sample_stack
from rightfit.physics.columns import MemoryCounter
from rightfit.proof.cases import samples
from rightfit.proof.cases.samples import image_size, samples_cases


@pytest.mark.parametrize(
    ("text", "task", "height", "width", "frames"),
    [
        ("224", "classification", 224, 224, 0),
        ("512x1024", "segmentation", 512, 1024, 0),
        ("832x480, 81f", "diffusion", 832, 480, 81),
        ("49x480x720", "diffusion", 480, 720, 49),
        ("3D 128x128x128", "segmentation", 128, 128, 0),
        ("1024 LSJ", "detection", 1024, 1024, 0),
        ("300 (last stage)", "classification", 300, 300, 0),
        ("", "speech", 0, 0, 0),
        ("16-frame clips", "video_classification", 0, 0, 16),
    ],
)
def test_sizes(text: str, task: str, height: float, width: float, frames: float) -> None:
    size = image_size(text, task)
    assert (size.height, size.width, size.frames) == (height, width, frames)


def test_detection_keeps_the_shape_of_photographs() -> None:
    size = image_size("1333x800", "detection")
    assert size.height == 800
    assert size.width == pytest.approx(1064)
    assert size.peak_pixels == pytest.approx(1333 * 800 * 1.01)


def test_short_side_and_multiple_scales() -> None:
    size = image_size("640-800 short side, max 1333", "detection")
    assert size.height == pytest.approx(((640**2 + 800**2) / 2) ** 0.5)
    assert size.peak_pixels == pytest.approx(800 * 1333 * 1.01)


def test_views() -> None:
    assert image_size("2x224+6x96").views == ((224.0, 2.0), (96.0, 6.0))


@pytest.mark.parametrize(
    ("framework", "precision", "flags", "stack"),
    [
        ("PyTorch 2.1", "amp", "", "eager"),
        ("PyTorch NGC 22.11", "amp", "", "ngc"),
        ("TensorFlow2 NGC", "amp", "xla", "xla"),
        ("TensorFlow2 NGC", "amp", "xla=XLA-OFF", "tensorflow"),
        ("TensorFlow1 NGC", "fp32", "", "tensorflow"),
        ("MXNet NGC 22.10", "amp", "dali", "mxnet"),
        ("NGC MXNet 22.09", "mixed (submitter tuned)", "", "tuned"),
        ("PyTorch detectron2", "fp32", "", "library"),
        ("PyTorch", "amp", "torch.compile", "compiled"),
        ("JAX", "bf16", "", "jax"),
    ],
)
def test_stacks(framework: str, precision: str, flags: str, stack: str) -> None:
    row = {"metric": "images_per_s_total", "model": "resnet50", "gpu": "A100", "n_gpus": "1", "batch_per_gpu": "8", "image_size": "224"}
    read = samples_cases([{**row, "framework": framework, "precision": precision, "extra_flags": flags}])
    assert STACKS[int(read.cases.setup.software[0])] == stack
    assert stack == "tuned" or sample_stack(framework, flags) == stack


def test_precisions() -> None:
    def read(text: str, *, tf32: bool = True, adapters: bool = False) -> str:
        return samples.precision_of(text, has_tf32=tf32, has_bf16=True, convolutions=True, adapters=adapters)[0]

    assert read("fp32") == "tf32"
    assert read("fp32", tf32=False) == "fp32"
    assert read("fp16") == "amp"
    assert read("bf16", adapters=True) == "bf16"
    assert read("int8-torchao", adapters=True) == "bf16"


def test_methods() -> None:
    lora = samples.method_fields("x", "lora;rank=64;checkpointing=layer", "")
    assert (lora["adapter_rank"], lora["recompute"]) == (64.0, 1.0)
    assert samples.method_fields("x", "checkpointing=none;lora", "") == {"recompute": 0.0, "adapter_rank": 16.0}
    assert "adapter_rank" not in samples.method_fields("x", "recipe without lora", "")
    assert samples.method_fields("x", "textual inversion", "")["trainable"] > 0


@pytest.mark.parametrize(
    ("flags", "counter"),
    [("max_memory_allocated", MemoryCounter.ALLOCATED), ("nvidia-smi", MemoryCounter.DRIVER), ("reserved", MemoryCounter.RESERVED)],
)
def test_counters(flags: str, counter: MemoryCounter) -> None:
    assert samples.counter_of(flags, "", "eager") == (float(counter), "")


def test_optimizers() -> None:
    assert samples.optimizer_bytes("opt=adamw_bf16", ModelWork("", "diffusion", "dit"), "") == 4.0
    assert samples.optimizer_bytes("8bit adam", ModelWork("", "diffusion", "unet"), "") == 2.0
    assert samples.optimizer_bytes("opt=sgd", ModelWork("", "classification", "conv"), "") == 4.0
    assert samples.optimizer_bytes("", ModelWork("", "classification", "conv"), "resnet50") == 4.0
    assert samples.optimizer_bytes("", ModelWork("", "detection", "window"), "mask_rcnn_swin-t") == 8.0


def test_layout_of_images() -> None:
    assert samples.channels_last("dali;nhwc_in_amp", "amp")
    assert not samples.channels_last("dali;nhwc_in_amp", "tf32")
    assert samples.channels_last("channels_last", "tf32")
    assert not samples.channels_last("nchw", "amp")


@pytest.mark.parametrize(
    ("words", "told"), [("lora;checkpointing=none", True), ("grad_ckpt", True), ("recompute=full", True), ("lora;rank=16", False)]
)
def test_whether_recomputation_is_told(words: str, told: bool) -> None:
    assert samples.tells_recompute(words) is told


def test_weights_in_host_memory() -> None:
    assert samples.cache_fields("SimpleTuner", "lora;ramtorch", "tuner")["offload"] == 0.97
    assert samples.cache_fields("SimpleTuner", "lora", "tuner")["offload"] == 0.0
