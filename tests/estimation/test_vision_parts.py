"""Backbones counted from their layouts against published totals."""

from __future__ import annotations

import pytest

from rightfit.estimation.vision_backbones import ResidualLayout, backbone, mix_transformer, residual, swin, vit

PIXELS = 224.0**2


@pytest.mark.parametrize(
    ("layout", "gmacs", "mparams"),
    [
        (ResidualLayout(18), 1.81, 11.2),
        (ResidualLayout(34), 3.66, 21.3),
        (ResidualLayout(50), 4.11, 23.5),
        (ResidualLayout(101), 7.83, 42.5),
        (ResidualLayout(101, groups=32, width=4), 8.0, 42.1),
        (ResidualLayout(101, groups=64, width=4), 15.5, 81.4),
    ],
)
def test_residual_networks_without_classifier(layout: ResidualLayout, gmacs: float, mparams: float) -> None:
    part = residual(layout)
    assert part.macs * PIXELS / 1e9 == pytest.approx(gmacs, rel=0.02)
    assert part.params / 1e6 == pytest.approx(mparams, rel=0.02)


def test_activations_of_resnet50() -> None:
    assert residual(ResidualLayout(50)).activations * PIXELS / 1e6 == pytest.approx(11.1, rel=0.01)


def test_dilation_multiplies_late_stages() -> None:
    plain, dilated = residual(ResidualLayout(50)), residual(ResidualLayout(50, stride=8))
    assert dilated.params == plain.params
    # by hand from 0.12, 0.67, 1.04, 1.47, 0.81 GMAC of stem and stages: stage 3 four and stage 4
    # sixteen times, less their first layers
    assert dilated.macs / plain.macs == pytest.approx((0.12 + 0.67 + 1.04 + 4 * 1.47 + 16 * 0.81) / 4.11, rel=0.1)
    assert dilated.activations > 2 * plain.activations


def test_frozen_stem_and_stage_are_set_apart() -> None:
    part, whole = residual(ResidualLayout(50, frozen=2)), residual(ResidualLayout(50))
    assert part.macs + part.frozen_macs == pytest.approx(whole.macs)
    assert part.kept < whole.kept
    assert part.frozen_params == pytest.approx(9.4e3 + 213e3, rel=0.02)


def test_transformers() -> None:
    assert vit("b").params == 12 * 12 * 768**2
    assert vit("b").macs * PIXELS / 1e9 == pytest.approx(16.6, rel=0.02)  # without scores, 196 patches
    assert swin("t").params / 1e6 == pytest.approx(26.4, rel=0.03)
    assert mix_transformer(5).params > mix_transformer(0).params * 15


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mask_rcnn_r50_fpn_1x_coco", "conv"),
        ("faster_rcnn_x101_64x4d_fpn_1x_coco", "grouped"),
        ("mask_rcnn_swin-t_1x", "window"),
        ("cascade_mask_rcnn_vitdet_b_100ep", "transformer"),
        ("upernet_convnext_tiny_fp16", "convnext"),
        ("retinanet-x-101-32x4d-fpn-pytorch-1x", "grouped"),
        ("segformer_mit-b3", "window"),
    ],
)
def test_names(name: str, kind: str) -> None:
    part = backbone(name, detector=True)
    assert part is not None
    assert part.kind == kind


def test_a_name_without_a_backbone() -> None:
    assert backbone("something_else_entirely", detector=True) is None


def test_frozen_normalisation_of_detectron2_keeps_less() -> None:
    theirs = backbone("mask_rcnn_r_50_fpn_1x", detector=True, library="detectron2")
    ours = backbone("mask_rcnn_r_50_fpn_1x", detector=True, library="mmdetection")
    assert theirs is not None
    assert ours is not None
    assert theirs.kept < 0.65 * ours.kept


def test_the_plain_stem_of_torchvision_writes_half_as_much() -> None:
    deep, plain = backbone("fcn_r18-d8_cityscapes", detector=False), backbone("fcn_r18b-d8_cityscapes", detector=False)
    assert deep is not None
    assert plain is not None
    assert deep.activations - plain.activations == pytest.approx(32.0 - 16.0)
