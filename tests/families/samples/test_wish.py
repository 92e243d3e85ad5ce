"""Wishes to train models that are not language models, as numbers: samples, passes, batch, recipe;
and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit import facts
from rightfit.errors import ContradictionError, InputError, QuantityError, UnknownNameError
from rightfit.facts.resolve import usual_model
from rightfit.facts.trained_networks import sides_in
from rightfit.families.samples.models import trains_samples
from rightfit.families.samples.wish import SampleRequest, read_sample_wish
from rightfit.planner.plan import search
from rightfit.workload import Workload

GIB = 2.0**30


def wish(model: str, **options: Any) -> SampleRequest:
    found = read_sample_wish(Workload(model=model, **options))
    assert isinstance(found, SampleRequest)
    return found


def assumed(found: SampleRequest) -> dict[str, Any]:
    return {assumption.field: assumption.value for assumption in found.assumptions}


def test_imagenet_is_counted_in_images_and_passes() -> None:
    found = wish("resnet50", task="train", data="imagenet-1k", epochs=90)
    assert found.load.samples == 1_281_167
    assert found.amount.samples == found.amount.tokens == 90 * 1_281_167
    assert (found.seq_len, found.global_batch) == (1, 256)
    assert found.load.decode == "pillow"
    assert found.recipe.optimizer_bytes == 4.0  # SGD with momentum
    assert assumed(found)["image_size"] == "224x224"


@pytest.mark.parametrize("name", sorted({row["name"] for row in facts.table("usual_models")}))
def test_a_name_of_several_models_is_counted_as_the_one_that_is_said(name: str) -> None:
    usual = Workload(model=usual_model(name), task="finetune")
    if not trains_samples(usual):
        return  # a language model
    meant = read_sample_wish(usual)
    assert isinstance(meant, SampleRequest)
    spoken = wish(name, task="finetune")
    assert (spoken.work.macs, spoken.work.params, spoken.work.kept) == (meant.work.macs, meant.work.params, meant.work.kept)


@pytest.mark.parametrize("images", [5, 30, 199, 200, 5000])
@pytest.mark.parametrize("model", ["FLUX.1-dev", "SDXL", "sd1.5"])
def test_an_adapter_of_few_pictures_sees_each_of_them_often(model: str, images: int) -> None:
    found = wish(model, method="lora", data=f"{images} images")
    assert found.amount.samples >= 0.9 * 2000
    assert assumed(found)["epochs"] == max(10, round(2000 / images))


def test_given_values_are_not_assumed() -> None:
    found = wish(
        "resnet50", task="train", data="imagenet-1k", epochs=3, image_size=128, global_batch=512, optimizer="adamw", framework="NGC"
    )
    assert not {"epochs", "image_size", "global_batch", "optimizer", "framework", "data_samples"} & set(assumed(found))
    assert (found.recipe.software, found.recipe.optimizer_bytes, found.global_batch) == ("ngc", 8.0, 512)


def test_work_grows_with_the_area_of_an_image() -> None:
    small, large = (wish("resnet50", task="train", image_size=side).work for side in (224, 448))
    assert large.macs == pytest.approx(4 * small.macs, rel=0.05)
    assert large.kept == pytest.approx(4 * small.kept, rel=0.05)
    assert large.params == small.params


def test_hours_of_speech_become_pieces() -> None:
    found = wish("whisper-small", data="500hours")
    assert found.load.samples == pytest.approx(500 * 3600 / facts.coefficients("planning")["utterance_s"])  # each padded to 30 s
    assert wish("whisper-small", data="500hours", audio_length="10s").load.samples == 500 * 360


def test_work_grows_with_the_length_of_a_recording_unless_it_is_padded() -> None:
    short, long = (wish("wav2vec2-base", data="100hours", audio_length=f"{seconds}s").work for seconds in (10, 20))
    assert long.macs == pytest.approx(2 * short.macs)
    assert wish("wav2vec2-base", data="100hours").work.macs == pytest.approx(1.23 * short.macs)
    padded = [wish("whisper-small", data="100hours", audio_length=f"{seconds}s").work.macs for seconds in (10, 30)]
    assert padded[0] == padded[1]


def test_bytes_become_images_of_the_usual_size() -> None:
    found = wish("resnet50", task="train", data="107.7GB")
    assert found.load.samples == pytest.approx(1e6)
    assert found.load.dataset_bytes == 107.7e9


def test_of_a_graph_the_labelled_nodes_are_trained_on_and_the_features_lie_in_ram() -> None:
    found = wish("graphsage", task="train", data="ogbn-papers100M")
    assert found.load.samples == 1_207_179
    assert found.recipe.host_bytes == pytest.approx(1.3 * max(53 * GIB, 66e9))


def test_latents_made_beforehand_cost_their_encoders_once() -> None:
    live = wish("stable-diffusion-xl", method="lora", data="5kimages", epochs=10, latents="live")
    cached = wish("stable-diffusion-xl", method="lora", data="5kimages", epochs=10)
    assert cached.recipe.latents == "cached"
    assert cached.work.frozen_macs == pytest.approx(live.work.side_macs / 10)
    assert cached.load.core_s < live.load.core_s / 10


def test_dreambooth_and_textual_inversion_take_their_usual_steps() -> None:
    found = wish("stable-diffusion-xl", method="dreambooth", data="5images")
    assert found.amount.samples == 800
    assert (found.global_batch, found.recipe.latents) == (2, "live")
    inverted = wish("stable-diffusion-1.5", method="textual-inversion", data="5images")
    assert inverted.amount.samples / inverted.global_batch == 3000
    assert inverted.recipe.trainable == 4 * 768


def test_a_frozen_backbone_runs_forward_only() -> None:
    whole, frozen = (wish("resnet50", data="10kimages", method=method).work for method in ("full", "freeze"))
    assert frozen.macs + frozen.frozen_macs == pytest.approx(whole.macs)
    assert frozen.kept < 0.05 * whole.kept
    assert frozen.trained < 0.05 * whole.trained


def test_the_usual_method_follows_from_the_model() -> None:
    assert wish("resnet50", data="10kimages").workload.method == "full"
    assert wish("stable-diffusion-xl", data="1kimages").workload.method == "lora"
    assert wish("stable-diffusion-xl", task="train").workload.method == "full"


def test_adapters_of_a_vision_transformer_are_small() -> None:
    found = wish("timm/vit_base_patch16_224", method="lora", lora_rank=16, data="10kimages")
    trained = found.recipe.adapter_rank * found.work.adapter_params_per_rank
    assert trained == pytest.approx(16 * 12 * 4 * 768, rel=0.1)  # query and value of 12 blocks


def test_the_owner_of_a_hub_id_does_not_matter() -> None:
    whole, bare = (
        wish(name, method="lora", data="100clips").work for name in ("ai-forever/Kandinsky-5.0-T2V-Lite", "Kandinsky-5.0-T2V-Lite")
    )
    assert (whole.kind, whole.macs, whole.kept) == (bare.kind, bare.macs, bare.kept)


def test_few_data_get_a_small_batch() -> None:
    assert wish("resnet50", task="train", data="1000images").global_batch == 16


def test_what_sees_and_writes_is_a_language_model_however_large_its_eye() -> None:
    seeing = [record for record in facts.models().values() if getattr(record, "kind", "") == "vlm"]
    left = {record.name for record in seeing if trains_samples(Workload(model=record.name, task="finetune"))}
    assert {record.family for record in seeing if record.name in left} == {"clip", "siglip"}
    assert {"PaddlePaddle/PaddleOCR-VL", "zai-org/GLM-OCR"} <= {record.name for record in seeing} - left


@pytest.mark.parametrize("name", ["7B", "bert-base", "llava-1.5-7b", "xgboost", "google-t5/t5-base"])
def test_language_models_and_trees_are_left_alone(name: str) -> None:
    assert not trains_samples(Workload(model=name))


@pytest.mark.parametrize(
    "name", ["resnet50", "clip-vit-b-32", "whisper-small", "i3d", "lstm", "dlrm", "gcn", "flux.1-dev", "yolov8m", "stylegan2"]
)
def test_models_of_every_field_are_known(name: str) -> None:
    found = read_sample_wish(Workload(model=name, task="train"))
    assert found.work.macs > 0
    assert found.amount.samples >= 1
    assert found.global_batch >= 1


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"model": "resnet50", "method": "qlora"}, ContradictionError, "method qlora contradicts model resnet50"),
        ({"model": "resnet50", "quantization": "int8", "method": "freeze"}, ContradictionError, "quantized weights need adapters"),
        ({"model": "resnet50", "seq_len": 128}, ContradictionError, "seq_len contradicts model resnet50"),
        ({"model": "resnet50", "tensor_parallel": 2}, ContradictionError, "tensor_parallel contradicts"),
        ({"model": "resnet50", "latents": "live"}, ContradictionError, "only diffusion models have them"),
        ({"model": "resnet50", "precision": "fp8"}, ContradictionError, "allowed are fp32, tf32, fp16 and bf16"),
        ({"model": "resnet50", "offload": "params"}, ContradictionError, "offload params contradicts"),
        ({"model": "resnet50", "sharding": "zero1"}, ContradictionError, "allowed are none, zero3 and fsdp"),
        ({"model": "resnet50", "audio_length": "10s"}, ContradictionError, "takes no audio"),
        ({"model": "dlrm", "image_size": 224}, ContradictionError, "takes no images"),
        ({"model": "resnet50", "decode": "text"}, ContradictionError, "allowed: pillow"),
        ({"model": "resnet50", "data": "10Mtok"}, InputError, "data in tokens does not fit resnet50"),
        ({"model": "whisper-small", "data": "100images"}, InputError, "data in images does not fit"),
        ({"model": "resnet50", "data": "librispeech"}, InputError, "contains speech"),
        ({"model": "resnet50", "data": "imagnet-1k"}, UnknownNameError, "did you mean"),
        ({"model": "resnet9999"}, UnknownNameError, "did you mean"),
        ({"model": "resnet50", "image_size": "3"}, QuantityError, "allowed 8 to"),
        ({"model": "resnet50", "image_size": "1x2x3"}, QuantityError, "is not a size"),
        ({"model": "resnet50", "image_size": "224.5"}, QuantityError, "whole number of pixels"),
        ({"model": "resnet50", "epochs": 0}, QuantityError, "is not positive"),
        ({"model": "stable-diffusion-xl", "method": "dreambooth", "latents": "cached"}, ContradictionError, "use latents live"),
        ({"model": "7B", "method": "dreambooth"}, ContradictionError, "it applies to diffusion models"),
        ({"model": "7B", "image_size": 512}, ContradictionError, "it is a language model"),
        ({"model": "resnet50", "task": "serve", "images": 2}, ContradictionError, "images contradicts"),
    ],
)
def test_what_does_not_go_is_refused_in_one_line(options: dict[str, Any], kind: type[InputError], words: str) -> None:
    with pytest.raises(kind, match=words) as refused:
        search(Workload(**options))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("text", "sides"), [("512", (512, 512)), ("512x768", (512, 768)), ("", (0, 0))])
def test_sizes(text: str, sides: tuple[float, float]) -> None:
    assert sides_in(text) == sides


@pytest.mark.parametrize(
    ("given", "kept"), [("512", "512"), ("512x512", "512"), ("512 X 768", "512x768"), ("1024px", "1024"), (224, "224")]
)
def test_sizes_are_kept_in_one_form(given: Any, kept: str) -> None:
    workload = Workload(model="resnet50", image_size=given)
    assert workload.image_size == kept
    assert Workload(**workload.wishes()) == workload
