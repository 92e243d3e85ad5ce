"""A task is understood however its words are joined."""

from __future__ import annotations

import pytest

import rightfit

ROW = {"metric": "peak_mem_gib_per_gpu", "batch_per_gpu": "2", "precision": "fp32", "gpu": "V100-SXM2-32GB", "extra_flags": ""}
SAME = {
    "mask_rcnn_r50_fpn_1x_coco": (
        "instance_segmentation",
        "instance segmentation",
        "Instance-Segmentation",
        "object_detection",
        "detection3d",
        "training",
    ),
    "deeplabv3_r50-d8_512x1024_40k_cityscapes": ("segmentation", "semantic segmentation", "image-segmentation", "Semantic_Segmentation"),
    "vit_base_patch16_224_mine": ("classification", "image classification", "Image-Classification", "vision"),
    "flux.1-dev": ("diffusion", "image generation", "text-to-image", "image_generation"),
    "resnet50": ("classification", "imagenet", "image_classification", ""),
}


@pytest.mark.parametrize("model", SAME)
def test_all_spellings_of_a_task_give_one_answer(model: str) -> None:
    answers = rightfit.predict([{**ROW, "model": model, "task": task} for task in SAME[model]])
    assert not any(answer["error"] for answer in answers)
    assert len({answer["predicted"] for answer in answers}) == 1


@pytest.mark.parametrize(
    "model", ["caffenet", "torchvision/alexnet", "squeezenet", "squeezenet1_1", "nin_imagenet", "mask-rcnn_r101_fpn_1x_nuim"]
)
@pytest.mark.parametrize("metric", ["peak_mem_gib_per_gpu", "images_per_s_total"])
def test_networks_that_were_refused_are_answered(model: str, metric: str) -> None:
    task = "detection3d" if "rcnn" in model else "classification"
    (answer,) = rightfit.predict([{**ROW, "model": model, "task": task, "metric": metric}])
    assert not answer["error"]
    assert 0.0 < float(answer["low80"]) < float(answer["predicted"]) < float(answer["high80"])


def test_versions_of_a_network_are_told_apart() -> None:
    rows = [
        {**ROW, "model": model, "task": "classification", "metric": "images_per_s_total", "batch_per_gpu": "64"}
        for model in ("squeezenet1_0", "squeezenet1_1")
    ]
    old, new = (float(answer["predicted"]) for answer in rightfit.predict(rows))
    assert new > 1.1 * old
