"""From records of facts to the columns that physics reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from rightfit.estimate.hardware import pcie_bandwidth
from rightfit.facts.devices import architecture_code
from rightfit.facts.records import Accelerator, TransformerArchitecture
from rightfit.facts.word_tables import shape
from rightfit.physics.columns import AttentionKind, Columns, DeviceColumns, Kind, Mlp, ModelColumns, Norm

# Codes of DeviceColumns.vendor and .form: positions in these tuples; append only.
VENDORS = ("undisclosed", "NVIDIA", "AMD", "Intel", "Google", "AWS", "Huawei", "Qualcomm")
FORMS = ("", "pcie", "sxm", "oam")

_KINDS = {
    "decoder": Kind.DECODER,
    "encoder": Kind.ENCODER,
    "embedding": Kind.ENCODER,
    "encoder-decoder": Kind.ENCODER_DECODER,
    "moe-decoder": Kind.MOE_DECODER,
    "vlm": Kind.VISION_LANGUAGE,
}
_MLPS = {"swiglu": Mlp.SWIGLU, "geglu": Mlp.GEGLU, "gelu": Mlp.GELU, "relu": Mlp.RELU, "relu2": Mlp.RELU_SQUARED}
_ATTENTIONS = {
    "mha": AttentionKind.MHA,
    "gqa": AttentionKind.GQA,
    "mqa": AttentionKind.MQA,
    "mla": AttentionKind.MLA,
    "sliding": AttentionKind.SLIDING,
    "ssm": AttentionKind.SSM,
    "hybrid-ssm": AttentionKind.HYBRID_SSM,
}
_NORMS = {"rmsnorm": Norm.RMSNORM, "layernorm": Norm.LAYERNORM}


def _same(record: type[Any], columns: type[Columns], *, apart: tuple[str, ...]) -> tuple[str, ...]:
    """Numbers that a record of facts and the columns of physics have by the same name, but for those that are converted."""
    held = {field.name for field in dataclasses.fields(record)}
    return tuple(field.name for field in dataclasses.fields(columns) if field.name in held and field.name not in apart)


_OF_MODELS = _same(TransformerArchitecture, ModelColumns, apart=("kind", "attention_kind", "norm", "num_layers", "params_vision"))
_OF_DEVICES = _same(Accelerator, DeviceColumns, apart=("architecture", "vendor", "form"))


def model_columns(archs: Sequence[TransformerArchitecture]) -> ModelColumns:
    """One row per architecture. Encoder-decoder models get both stacks in `num_layers`."""
    values: dict[str, list[float]] = {name: [float(getattr(arch, name)) for arch in archs] for name in _OF_MODELS}
    values["kind"] = [float(_KINDS.get(arch.kind, Kind.DECODER)) for arch in archs]
    values["mlp"] = [float(_MLPS.get(arch.mlp_kind, Mlp.SWIGLU)) for arch in archs]
    values["attention_kind"] = [float(_ATTENTIONS.get(arch.attention_kind, AttentionKind.MHA)) for arch in archs]
    values["norm"] = [float(_NORMS.get(arch.norm, Norm.RMSNORM)) for arch in archs]
    values["num_layers"] = [float(_total_layers(arch)) for arch in archs]
    values["num_index_layers"] = [float(arch.num_layers * ("DSA" in arch.notes)) for arch in archs]
    values["has_lm_head"] = [float(arch.kind != "embedding") for arch in archs]
    values["params_vision"] = [float(arch.params_vision + arch.params_audio) for arch in archs]
    values["image_tokens"] = [_image_tokens(arch) for arch in archs]
    return ModelColumns.of(**values)


def device_columns(accelerators: Iterable[Accelerator]) -> DeviceColumns:
    """One row per accelerator."""
    rows = list(accelerators)
    values: dict[str, list[float]] = {name: [float(getattr(row, name)) for row in rows] for name in _OF_DEVICES}
    values["host_bandwidth"] = [pcie_bandwidth(row) for row in rows]
    values["architecture"] = [float(architecture_code(row.vendor, row.architecture, row.compute_capability)) for row in rows]
    values["vendor"] = [_code(VENDORS, row.vendor) for row in rows]
    values["form"] = [_code(FORMS, row.form) for row in rows]
    values["price_class"] = [float(is_consumer(row.name)) for row in rows]
    return DeviceColumns.of(**values)


def _total_layers(arch: TransformerArchitecture) -> int:
    both = arch.num_encoder_layers + arch.num_decoder_layers
    return both if arch.kind == "encoder-decoder" and both else arch.num_layers


def _image_tokens(arch: TransformerArchitecture) -> float:
    """Vision-tower tokens of one image at its native resolution."""
    if not arch.vision_patch or not arch.vision_image_size:
        return 0.0
    return float((arch.vision_image_size // arch.vision_patch) ** 2)


def _code(names: tuple[str, ...], name: str) -> float:
    return float(names.index(name)) if name in names else 0.0


def is_consumer(name: str) -> bool:
    """GeForce and Titan cards: tensor cores at half rate when they accumulate in fp32, no ECC, no NVLink in recent generations."""
    return shape("setup", "{consumer}", ignore_case=True).match(name) is not None
