"""Work of one training sample by the name of a model."""

from __future__ import annotations

import pytest

from rightfit.errors import UnknownNameError
from rightfit.estimation.pass_records import NetworkInput
from rightfit.estimation.sample_work import train_work


def test_a_bundled_classifier() -> None:
    work = train_work(NetworkInput("resnet50", task="classification", height=224))
    assert work.macs == pytest.approx(4.11e9)
    assert work.kept == pytest.approx(2 * 11.11e6)  # outputs for the normalisation and for the next layer
    assert (work.epoch_samples, work.epochs) == (1281167, 90)


def test_size_scales_with_pixels() -> None:
    small, large = (train_work(NetworkInput("resnet50", task="classification", height=side)) for side in (224, 448))
    assert large.macs == pytest.approx(4 * small.macs)
    assert large.kept == pytest.approx(4 * small.kept)


def test_a_detector_by_its_parts() -> None:
    work = train_work(
        NetworkInput("mask_rcnn_r50_fpn_1x_coco", task="instance_segmentation", height=800, width=1066, peak_pixels=1344 * 800)
    )
    assert work.kind == "detection"
    assert work.params == pytest.approx(44.4e6, rel=0.06)  # torchvision/maskrcnn_resnet50_fpn
    assert work.macs + work.frozen_macs == pytest.approx(134.4e9 * 1.3, rel=0.25)


@pytest.mark.parametrize(
    ("model", "wide"),
    [
        ("yolov5m", 0),
        ("ultralytics/yolov8m", 0),
        ("yolo11x", 0),
        ("YOLOX-s", 0),
        ("mask-rcnn-r50-fpn", 1),
        ("torchvision/fasterrcnn_resnet50_fpn", 1),
    ],
)
def test_only_detectors_that_pool_regions_or_freeze_normalisation_stay_wide(model: str, wide: float) -> None:
    assert train_work(NetworkInput(model, task="detection", height=640)).wide == wide


def test_a_head_on_a_quarter_of_the_channels_has_a_sixteenth_of_the_weights() -> None:
    # DeepLabv3 of mmsegmentation: 512 channels on the 2048 of ResNet-50, 128 on the 512 of
    # ResNet-18 (11.2 M without its classifier)
    wide, narrow = (
        train_work(NetworkInput(f"deeplabv3_{name}-d8_512x1024_80k_cityscapes", task="segmentation", height=512, width=1024))
        for name in ("r50", "r18")
    )
    assert wide.params == pytest.approx(23.5e6 + 40e6, rel=0.01)
    assert narrow.params == pytest.approx(11.2e6 + 40e6 / 16, rel=0.01)


def test_a_vocabulary_of_1203_classes_fills_the_mask_head() -> None:
    coco, lvis = (
        train_work(NetworkInput(f"mask_rcnn_r50_fpn_1x_{data}", task="instance_segmentation", height=800, width=1066))
        for data in ("coco", "lvis")
    )
    assert lvis.kept - coco.kept == pytest.approx(3 * 128 * 1123 * 784 + 64 * 0.65e6)


def test_kept_elements_follow_the_largest_image_and_work_the_mean() -> None:
    wish = NetworkInput("faster_rcnn_r50_fpn_1x_coco", task="detection", height=800, width=1066)
    one, two = (
        train_work(wish),
        train_work(NetworkInput(model=wish.model, task=wish.task, height=800, width=1066, peak_pixels=2e6)),
    )
    assert two.macs == one.macs
    assert two.kept > 1.8 * one.kept


def test_classes_of_a_data_set_enlarge_a_segmenter() -> None:
    city, ade = (
        train_work(NetworkInput(f"fcn_r50-d8_{name}", task="segmentation", height=512, width=512)) for name in ("cityscapes", "ade20k")
    )
    # two maps at full size, twice each, of 150 and 19 classes
    assert ade.kept - city.kept == pytest.approx(2 * 2 * (150 - 19) * 512**2)


#: Peak memory of one image of 1024 x 1024 in fp32 on a card [GiB]: configs/segformer/README.md of
#: open-mmlab/mmsegmentation@02e04cc2.
_MEASURED_GIB = {0: 3.64, 1: 4.49, 2: 7.42, 3: 10.86, 4: 15.07, 5: 18.0}


@pytest.mark.parametrize("size", _MEASURED_GIB)
@pytest.mark.parametrize("spelled", ["SegFormer-B{}", "segformer_b{}", "nvidia/segformer-b{}-finetuned-ade-512-512"])
def test_a_segmenter_of_one_backbone_is_put_together_however_it_is_spelled(size: int, spelled: str) -> None:
    alone, parts = (
        train_work(NetworkInput(name, task=task, height=1024, width=1024))
        for name, task in ((spelled.format(size), ""), (f"segformer_mit-b{size}", "segmentation"))
    )
    assert (alone.kind, alone.modality) == ("window", "segmentation")
    assert parts.kept <= alone.kept <= 1.8 * parts.kept  # the authors' head is three times as wide from B2 up
    states = 16.0 * alone.params
    assert (4.0 * alone.kept + states) / 2.0**30 == pytest.approx(_MEASURED_GIB[size], rel=0.5)


def test_a_diffusion_transformer() -> None:
    work = train_work(NetworkInput("flux.1-dev", task="diffusion_finetune", height=1024, width=1024))
    tokens = 64 * 64 + 512
    # 74.3847 TFLOP were counted at this size, half of that in multiply-adds, scores among them
    assert work.macs + work.score_macs == pytest.approx(74.3847e12 / 2, rel=1e-4)
    assert work.score_macs == pytest.approx(2 * tokens**2 * 3072 * 57)
    assert work.block_inputs == 57 * tokens * 3072


def test_a_count_at_one_size_holds_at_another() -> None:
    work = train_work(NetworkInput("flux.1-dev", task="diffusion_finetune", height=512, width=512))
    assert work.macs + work.score_macs == pytest.approx(21.5026e12 / 2, rel=0.01)  # counted there too


def test_two_streams_use_half_of_the_weights_on_the_picture() -> None:
    work = train_work(NetworkInput("qwen_image", task="diffusion_finetune", height=1024, width=1024))
    assert 0.25 < work.macs / (20.43e9 * (64**2 + 256)) < 0.45


def test_video_tokens_grow_with_frames() -> None:
    still, clip = (
        train_work(NetworkInput("wan2.1-t2v-1.3b", task="diffusion", height=480, width=832, frames=frames)) for frames in (1, 81)
    )
    assert clip.kept / still.kept == pytest.approx((21 * 1560 + 512) / (1560 + 512))


def test_tables_of_a_recommender() -> None:
    work = train_work(NetworkInput("dlrm", task="recommendation"))
    assert work.tables == pytest.approx(22.777e9)
    assert work.gathered == 26 * 128


def test_stated_size_of_tables() -> None:
    assert train_work(NetworkInput("dlrm criteo (20.5 GB total)", task="recommendation")).tables == pytest.approx(20.5e9 / 4)


def test_a_sampled_graph() -> None:
    work = train_work(NetworkInput("graphsage-3layer-ogbn-papers100M", task="gnn"))
    assert work.epoch_samples == 1207179
    assert work.host_s > 0


def test_clips_are_read_from_names_of_video_libraries() -> None:
    three, eight = (train_work(NetworkInput(f"tsn_r50_1x1x{n}_100e", task="video_classification")) for n in (3, 8))
    assert eight.macs / three.macs == pytest.approx(8 / 3)


def test_a_stranger_of_a_known_family_is_taken_like_its_neighbour() -> None:
    work = train_work(NetworkInput("vit_base_patch16_224_sam", task="classification", height=224, params=86.6e6))
    assert work.macs == pytest.approx(17e9, rel=0.1)
    assert any("taken like" in text for text in work.assumptions)


def test_nobody_knows_it() -> None:
    with pytest.raises(UnknownNameError, match="no-such-net"):
        train_work(NetworkInput("no-such-net", task="speech"))
