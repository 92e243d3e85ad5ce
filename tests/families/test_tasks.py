"""Which task is taken where none was given: training from the start where that is meant,
fine-tuning elsewhere, and it is said."""

from __future__ import annotations

import pytest

import rightfit


@pytest.mark.parametrize(
    ("model", "data", "task"),
    [
        ("resnet50", "imagenet", "train"),
        ("yolov8m", "coco", "train"),
        ("wav2vec2-base", "librispeech", "train"),
        ("dlrm", "criteo-kaggle", "train"),
        ("deepfm", "10Msamples", "train"),
        ("graphsage", "1Msamples", "train"),
        ("resnet50", "cifar-10", "finetune"),
        ("resnet50", "20kimages", "finetune"),
        ("vit_base_patch16_224", "200GB", "finetune"),
        ("whisper-small", "100h", "finetune"),
        ("gpt2", "10Mtok", "finetune"),
    ],
)
def test_the_task_that_is_meant_is_taken_and_said(model: str, data: str, task: str) -> None:
    plan = rightfit.plan(model=model, data=data, cloud="aws", top=1)
    assert plan.workload.task == task
    assert [(one.field, one.value) for one in plan.assumptions if one.field == "task"] == [("task", task)]
    same = rightfit.plan(model=model, data=data, task=task, method=plan.workload.method, cloud="aws", top=1)
    assert plan.best is not None
    assert same.best is not None
    assert plan.best.cost.total_usd == pytest.approx(same.best.cost.total_usd)


@pytest.mark.parametrize("task", ["train", "finetune"])
def test_a_task_that_was_given_stays(task: str) -> None:
    assert rightfit.plan(model="resnet50", data="imagenet", task=task, cloud="aws", top=1).workload.task == task


@pytest.mark.parametrize(("data", "side"), [("MNIST", 28), ("CIFAR-10", 32), ("imagenet", 224)])
def test_small_pictures_are_trained_at_their_own_size(data: str, side: int) -> None:
    found = rightfit.plan("resnet50", data=data, task="train", top=1)
    taken = {one.field: one.value for one in found.assumptions}
    assert taken["image_size"] == f"{side}x{side}"
