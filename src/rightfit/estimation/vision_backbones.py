"""Backbones of detectors and segmenters from the words of a name: work and kept elements per input
pixel, stage by stage, by counting layers.

Detection libraries name a model by its parts (mask_rcnn_r50_fpn_1x_coco,
deeplabv3_r101-d8_512x1024_40k_cityscapes). Nothing measured enters here: residual networks, window
and plain transformers are counted from their published layouts, others come from the bundled
classification records.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts.networks import network_family, vision_layers
from rightfit.facts.records import VisionModel
from rightfit.facts.tables import constant_group, constants
from rightfit.facts.trained_networks import Backbone, VisionRecipe, backbone_named, vision_recipe
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class VisionPart:
    """Counts per input pixel: `macs`, `activations` written, `kept` for the backward pass; the same
    of a frozen stem; `params` in all, `layers`.

    `attention` multiplies (pixels / 2^20)^2 for scores that grow with the square of the image;
    `per_image` elements kept whatever the size; `block_inputs` per pixel with recomputation;
    `head_scale` of a segmentation head on this backbone over one on 2048 channels.
    """

    kind: str
    macs: float
    activations: float
    kept: float
    params: float
    layers: float
    frozen_macs: float = 0.0
    frozen_activations: float = 0.0
    frozen_params: float = 0.0
    attention: float = 0.0
    block_inputs: float = 0.0
    block: float = 0.0
    head_scale: float = 1.0


_FIGURES = constants("training_work")
Layout = tuple[tuple[int, ...], tuple[int, ...]]


@functools.cache
def _layouts() -> Mapping[tuple[str, str], Layout]:
    """Widths and blocks of the stages by family and size: facts/data/vision_layouts.csv."""
    return {(row["family"], row["size"]): (_whole(row["widths"]), _whole(row["blocks"])) for row in facts.table("vision_layouts")}


def _whole(cell: str) -> tuple[int, ...]:
    return tuple(int(number) for number in cell.split())


def _layout(family: str, size: object) -> Layout:
    return _layouts()[family, str(size)]


#: Tensors kept per written convolution output: what the normalisation and the next layer need.
_KEPT_NORM, _KEPT_FROZEN_NORM, _KEPT_GROUP_NORM = (_FIGURES[name] for name in ("kept_norm", "kept_frozen_norm", "kept_group_norm"))


@dataclass(frozen=True, slots=True)
class ResidualLayout:
    """A residual network: depth, groups and width of its 3x3 layers, output stride, stages in use
    and how many of the first are frozen."""

    depth: int
    groups: int = 1
    width: int = 64
    stride: int = 32
    stages: int = 4
    frozen: int = 0
    deep_stem: bool = False
    kept_per_output: float = _KEPT_NORM
    extra: float = 1.0


def residual(layout: ResidualLayout) -> VisionPart:
    """Counts of a residual network with bottlenecks (plain blocks for depth 18 and 34)."""
    bottleneck = layout.depth >= 50
    depths = _layout("residual", layout.depth)[1][: layout.stages]
    stem_out = 128.0 if layout.deep_stem else 64.0
    stem_macs = (27 * 32 + 9 * 32 * 32 + 9 * 32 * 64) / 4.0 if layout.deep_stem else 147.0 * 64.0 / 4.0
    stages = [(stem_macs, stem_out / 4.0, 9.4e3)]
    channels, at = 64.0, 4.0
    for index, blocks in enumerate(depths):
        macs = outputs = params = 0.0
        output = 64.0 * 2**index * (4 if bottleneck else 1)
        wide = layout.width * layout.groups * 2**index if layout.groups > 1 else layout.width * 2**index
        step = 2.0 if index and at * 2 <= layout.stride else 1.0
        for block in range(blocks):
            before = at
            at = at * step if block == 0 else at
            weights = (
                (channels * wide, 9 * wide * wide / layout.groups, wide * output)
                if bottleneck
                else (9 * channels * output, 9 * output * output)
            )
            written = (wide, wide, output) if bottleneck else (output, output)
            for layer, (weight, elements) in enumerate(zip(weights, written, strict=True)):
                side = before if bottleneck and layer == 0 else at
                macs, outputs, params = macs + weight / side**2, outputs + elements / side**2, params + weight
            if block == 0 and (channels != output or step > 1):
                macs, outputs, params = macs + channels * output / at**2, outputs + output / at**2, params + channels * output
            channels = output
        stages.append((macs * layout.extra, outputs * layout.extra, params * layout.extra))
    cold, warm = stages[: layout.frozen], stages[layout.frozen :]
    layers = 3.0 * sum(depths) + 4.0
    return VisionPart(
        "grouped" if layout.groups > 1 else "conv",
        macs=sum(stage[0] for stage in warm),
        activations=sum(stage[1] for stage in warm),
        kept=layout.kept_per_output * sum(stage[1] for stage in warm),
        params=sum(stage[2] for stage in stages),
        layers=layers,
        frozen_macs=sum(stage[0] for stage in cold),
        frozen_activations=sum(stage[1] for stage in cold),
        frozen_params=sum(stage[2] for stage in cold),
        block_inputs=64.0,
        head_scale=1.0 if bottleneck else 0.25,
    )


_WINDOW = _FIGURES["window_tokens"]


def _counts(family: str) -> dict[str, float]:
    """What one block of a family computes, writes and keeps for each token, in
    units of its width."""
    return dict(constant_group("training_work", family))


def swin(size: str) -> VisionPart:
    """A window transformer: four stages at strides 4-32, windows of 7x7; per token and block 9 C
    written, about 21 C kept, heads of 32 channels."""
    (width,), depths = _layout("swin", size)
    return _staged("window", [width * 2**i for i in range(4)], depths, scores=3.0 * _WINDOW / 32.0, **_counts("swin"))


def mvit(size: str) -> VisionPart:
    """A multi-scale transformer whose attention pools keys and values."""
    (width,), depths = _layout("mvit", size)
    return _staged("window", [width * 2**i for i in range(4)], depths, **_counts("mvit"))


def convnext(size: str) -> VisionPart:
    """Depthwise 7x7, two linear layers of four times the width; per token and block 6 C
    written, about 13 C kept."""
    (width,), depths = _layout("convnext", size)
    return _staged("convnext", [width * 2**i for i in range(4)], depths, **_counts("convnext"))


def _staged(
    kind: str, widths: list[int], depths: tuple[int, ...], *, kept: float, scores: float, linear: float, written: float
) -> VisionPart:
    macs = activations = held = params = inputs = 0.0
    for index, (width, blocks) in enumerate(zip(widths, depths, strict=True)):
        tokens = 1.0 / (4.0 * 2**index) ** 2
        macs += blocks * tokens * (linear * width**2 + 2 * scores / 3.0 * 32.0 * width)
        activations += blocks * tokens * (written + scores) * width
        held += blocks * tokens * (kept + scores) * width
        inputs += blocks * tokens * width
        params += blocks * linear * width**2
    return VisionPart(kind, macs, activations, held, params, 8.0 * sum(depths), block_inputs=inputs, block=held / max(sum(depths), 1) * 2.0)


def vit(size: str, patch: float = 16.0, *, windowed: bool = False) -> VisionPart:
    """A plain transformer over patches; `windowed`: attention in windows of 14x14 but for
    four blocks (ViTDet)."""
    (width,), (blocks,) = _layout("vit", size)
    tokens = 1.0 / patch**2
    heads = max(width / 64.0, 1.0)
    block, window = constant_group("training_work", "vit"), _FIGURES["vitdet_tokens"]
    whole = _FIGURES["vitdet_whole_blocks"] if windowed else float(blocks)
    scores = heads * window * 3.0 / width if windowed else 0.0
    return VisionPart(
        "transformer",
        macs=blocks * tokens * (block["linear"] * width**2 + (2 * window * width if windowed else 0.0)),
        activations=blocks * tokens * (block["written"] + scores / 3.0) * width,
        kept=blocks * tokens * (block["kept"] + scores) * width,
        params=blocks * block["linear"] * width**2,
        layers=8.0 * blocks,
        attention=3.0 * whole * heads * (2.0**20 * tokens) ** 2,
        block_inputs=blocks * tokens * width,
        block=tokens * (block["kept"] + scores) * width,
    )


def mix_transformer(size: int) -> VisionPart:
    """SegFormer's encoder: keys reduced 64, 16, 4 and 1 times; a depthwise layer inside the
    feed-forward part."""
    widths, depths = _layout("mit", size)
    block = constant_group("training_work", "mit")
    macs = activations = kept = params = attention = 0.0
    for index, (width, blocks) in enumerate(zip(widths, depths, strict=True)):
        tokens = 1.0 / (4.0 * 2**index) ** 2
        heads, reduced = (1, 2, 5, 8)[index], (64.0, 16.0, 4.0, 1.0)[index]
        macs += blocks * tokens * block["linear"] * width**2
        activations += blocks * tokens * block["written"] * width
        kept += blocks * tokens * block["kept"] * width
        attention += block["scores"] * blocks * heads * (2.0**20 * tokens) ** 2 / reduced
        params += blocks * block["params"] * width**2
    return VisionPart("window", macs, activations, kept, params, 10.0 * sum(depths), attention=attention)


def _counted(name: str) -> VisionPart | None:
    """A backbone of facts/data/vision_backbones.csv, counted by hand."""
    row = next((row for row in facts.table("vision_backbones") if row["name"] == name), None)
    if row is None:
        return None
    return VisionPart(
        row["kind"], **{field: float(row[field]) for field in ("macs", "activations", "kept", "params", "layers", "head_scale")}
    )


def from_record(name: str, *, dilated: float = 1.0, kept_per_output: float = 2.0) -> VisionPart | None:
    """A bundled classification record as a backbone; `dilated` multiplies its counts where
    strides are taken out."""
    try:
        record = facts.model(name, network=False)
    except RightfitError:
        return None
    if not isinstance(record, VisionModel) or not record.macs:
        return None
    family = network_family(record.name)
    pixels = float(record.image_size) ** 2
    activations = (record.activations or record.macs / family.macs_per_activation) / pixels * dilated
    layers = vision_layers(record.name, family.layers)
    return VisionPart(
        family.kind, record.macs / pixels * dilated, activations, activations * kept_per_output, float(record.params_total), layers
    )


def _kept(recipe: VisionRecipe, library: str, *, detector: bool) -> float:
    if recipe.has_batch_norm:
        return _KEPT_NORM
    if recipe.has_group_norm:
        return _KEPT_GROUP_NORM
    return _KEPT_FROZEN_NORM if detector and library == "detectron2" else _KEPT_NORM


def backbone(name: str, *, detector: bool, library: str = "") -> VisionPart | None:
    """The backbone that a name in small letters spells out; None when it names none."""
    found, recipe = backbone_named(name), vision_recipe(name)
    if found is None:
        return None
    if not found.depth:
        return _other_backbone(found, recipe.stride)
    layout = ResidualLayout(
        found.depth,
        groups=found.groups,
        width=found.width,
        stride=recipe.stride,
        stages=3 if recipe.is_c4 else 4,
        frozen=0 if not detector or recipe.trains_all else 2,
        kept_per_output=_kept(recipe, library, detector=detector),
    )
    if found.family == "res2":
        return residual(dataclasses.replace(layout, extra=_FIGURES["res2_extra"]))
    if found.family == "split":
        return residual(dataclasses.replace(layout, deep_stem=True, extra=_FIGURES["split_extra"], kept_per_output=_FIGURES["split_kept"]))
    deep = found.family == "residual" and not detector and not found.has_old_stem
    return residual(dataclasses.replace(layout, deep_stem=deep))


def _other_backbone(found: Backbone, stride: int) -> VisionPart | None:
    match found.family:
        case "mvit":
            return mvit(found.size)
        case "swin":
            return swin(found.size)
        case "convnext":
            return convnext(found.size)
        case "mit":
            return mix_transformer(int(found.size))
        case "vit":
            return vit(found.size, windowed=found.is_windowed)
        case "regnet":
            # the first stage counts as frozen like a residual network's would
            part = from_record(found.size)
            return dataclasses.replace(part, kept=part.kept * _FIGURES["regnet_frozen"]) if part else None
        case "hrnet":
            return _hrnet(float(found.width), small=found.is_small)
        case "mobilenet-v2":
            dilated = _FIGURES["mobile2_dilated"] if stride == 8 else 1.0
            return from_record("timm/mobilenetv2_100", dilated=dilated, kept_per_output=_FIGURES["mobile2_kept"])
        case "mobilenet-v3-small" | "mobilenet-v3-large":
            record = "timm/mobilenetv3_small_100" if found.family.endswith("small") else "timm/mobilenetv3_large_100"
            return from_record(record, dilated=_FIGURES["mobile3_dilated"], kept_per_output=_FIGURES["mobile3_kept"])
    return _counted(found.size)


def _hrnet(width: float, *, small: bool) -> VisionPart | None:
    """A high-resolution network; the small variant has half its modules, widths between records
    scale the nearest."""
    part = from_record("timm/hrnet_w18") if width < 25 else from_record("timm/hrnet_w32") if width < 38 else from_record("timm/hrnet_w48")
    if part is None:
        return None
    nearest = 18.0 if width < 25 else 32.0 if width < 38 else 48.0
    wider, deeper = width / nearest, 0.5 if small else 1.0
    return dataclasses.replace(
        part, macs=part.macs * wider**2 * deeper, activations=part.activations * wider * deeper, kept=part.kept * wider * deeper, params=part.params * wider**2 * deeper, head_scale=0.5
    )  # fmt: skip
