"""What names of networks that are trained on samples spell out."""

from __future__ import annotations

import dataclasses

import pytest

from rightfit import facts
from rightfit.facts.trained_networks import (
    Backbone,
    backbone_named,
    clip_frames,
    data_set_samples,
    is_listed,
    listed_training,
    looser_names,
    patch_of,
    style_generation,
    tables_bytes,
    trained_denoiser,
    trained_graph,
    vision_head,
    vision_recipe,
    without_note,
    without_recipe,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mask_rcnn_r50_fpn_1x_coco", Backbone("residual", depth=50)),
        ("faster_rcnn_x101_64x4d_fpn_1x_coco", Backbone("grouped", depth=101, groups=64, width=4)),
        ("fcn_r18b-d8_cityscapes", Backbone("residual", depth=18, has_old_stem=True)),
        ("retinanet_r2-101_fpn", Backbone("res2", depth=101)),
        ("cascade_rcnn_s50_fpn", Backbone("split", depth=50)),
        ("mask_rcnn_swin-t_1x", Backbone("swin", "t")),
        ("cascade_mask_rcnn_vitdet_b_100ep", Backbone("vit", "b", is_windowed=True)),
        ("segformer_mit-b3", Backbone("mit", "3")),
        ("fcn_hr18s_512x1024", Backbone("hrnet", width=18, is_small=True)),
        ("mask_rcnn_regnetx-4gf_fpn", Backbone("regnet", "timm/regnetx_040")),
        ("fcn_m-v2-d8", Backbone("mobilenet-v2")),
        ("yolov3_d53", Backbone("counted", "darknet53")),
        ("something_else_entirely", None),
    ],
)
def test_backbones(name: str, expected: Backbone | None) -> None:
    assert backbone_named(name) == expected


def test_recipes() -> None:
    plain = vision_recipe("mask_rcnn_r50_fpn_1x_coco")
    assert (plain.stride, plain.is_c4, plain.trains_all) == (32, False, False)
    assert vision_recipe("deeplabv3_r101-d8_512x1024").stride == 8
    assert vision_recipe("faster_rcnn_r_50_c4_1x").is_c4
    assert vision_recipe("mask_rcnn_r_50_fpn_gn_scratch").trains_all


def test_every_line_is_read_as_numbers() -> None:
    """No column of the tables is without a field, and every line gives sizes above zero."""
    tables = {
        "train_graphs": trained_graph,
        "train_denoisers": trained_denoiser,
        "train_heads": vision_head,
        "train_models": listed_training,
    }
    for table, read in tables.items():
        for row in facts.table(table):
            plain = row["pattern"].split("|")[0]
            if plain.replace("-", "").replace("_", "").isalnum() and (found := read(plain)) is not None:
                numbers = [value for value in dataclasses.asdict(found).values() if isinstance(value, float)]
                assert max(numbers) > 0, (table, plain)
                assert min(numbers) >= 0, (table, plain)


def test_names() -> None:
    assert without_note("yolov8m (COCO)") == "yolov8m"
    assert tables_bytes("dlrm 90 GB total") == 90e9
    assert (clip_frames("slowfast_8x8x1"), clip_frames("tsn_1x1x16"), clip_frames("resnext101_32x8d")) == (8.0, 16.0, 0.0)
    assert (style_generation("StyleGAN3-R"), style_generation("stylegan"), style_generation("biggan")) == ("3", "2", "")
    assert "timm/vit_large_patch14_224" in looser_names("ViT-L/14")
    assert without_recipe("tf_efficientnet_b0_ns") == without_recipe("efficientnet_b0")
    assert (patch_of("vit_base_patch32_224"), patch_of("vit_base")) == (32.0, 16.0)
    assert data_set_samples("imagenet") == 1281167
    assert is_listed("jasper")
    assert not is_listed("no-such-network")
