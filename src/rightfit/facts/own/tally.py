"""Counts of a traced model, and the record made of them: kind of layers from their mix, modality from the input."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from rightfit.facts.records import TracedModel

#: Where multiply-adds and written elements are counted.
CLASSES = ("conv", "grouped", "depthwise", "conv3d", "linear", "recurrent", "score")


@dataclasses.dataclass(slots=True)
class Tally:
    """Counts of one pass. `macs` and `elements` (written by weighted operators) by CLASSES, `layers` weighted operators by class.

    `tokens` most rows that one linear operator sees in a sample, `attended` longest row of attention scores, `kernel` of the widest
    depthwise
    convolution, `upsamplings`, `blocks` of attention, `gathered` elements looked up in
    tables, `steps` of recurrent layers in sequence; `widest` output. `kept_bytes` what autograd keeps (0: not traced),
    `fixed_bytes` of that whatever the batch; `backward_macs` of the backward pass. `inputs` and `outputs`: (name, shape of a sample,
    dtype).
    """

    macs: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    elements: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(CLASSES, 0.0))
    layers: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    operators: dict[str, int] = dataclasses.field(default_factory=dict)
    dtypes: dict[str, int] = dataclasses.field(default_factory=dict)
    inputs: list[tuple[str, list[int], str]] = dataclasses.field(default_factory=list)
    outputs: list[tuple[str, list[int], str]] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    params: int = 0
    params_trainable: int = 0
    params_embedding: int = 0
    stored_bytes: float = 0.0
    tokens: float = 0.0
    attended: float = 0.0
    kernel: int = 0
    upsamplings: int = 0
    blocks: float = 0.0
    gathered: float = 0.0
    steps: float = 0.0
    widest: float = 0.0
    kept_bytes: float = 0.0
    fixed_bytes: float = 0.0
    backward_macs: float = 0.0

    def add(self, kind: str, macs: float, written: float) -> None:
        """One weighted operator."""
        self.macs[kind] += macs
        self.elements[kind] += written
        if kind != "score":
            self.widest = max(self.widest, written)
        self.layers[kind] += 1

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Tally:
        """From JSON."""
        return cls(**{field.name: values[field.name] for field in dataclasses.fields(cls) if field.name in values})

    @property
    def weighted_elements(self) -> float:
        """Elements that operators with weights write."""
        return sum(count for kind, count in self.elements.items() if kind != "score")

    @property
    def weighted_macs(self) -> float:
        """Multiply-adds of all operators with weights."""
        return sum(count for kind, count in self.macs.items() if kind != "score")


def layer_kind(tally: Tally, modality: str) -> str:
    """The kind of layers (estimate.forward_models.KINDS) that the mix of operators shows.

    Depthwise convolutions do little arithmetic and much traffic, so written elements tell them; what is left goes by multiply-adds.
    """
    macs, total = tally.macs, max(tally.weighted_macs, 1.0)
    written = max(tally.weighted_elements, 1.0)
    convolutions = macs["conv"] + macs["grouped"] + macs["depthwise"] + macs["conv3d"]
    depthwise = tally.elements["depthwise"] / written
    if macs["recurrent"] > 0.3 * total:
        return "recurrent"
    if macs["conv3d"] > 0.3 * total:
        return "conv3d"
    if depthwise >= 0.08 and modality == "vision" and macs["score"] < 0.05 * total:
        return "convnext" if depthwise < 0.25 and tally.kernel >= 7 else "depthwise"
    if convolutions > 0.5 * total:
        return _convolutional(tally, total)
    if macs["score"]:
        return "window" if modality == "vision" and 0 < tally.attended * 2 <= tally.tokens else "transformer"
    return (
        "recommender" if modality == "tabular" or tally.params_embedding > 10 * (tally.params - tally.params_embedding) else "transformer"
    )


def _convolutional(tally: Tally, total: float) -> str:
    if tally.macs["grouped"] > 0.1 * total:
        return "grouped"
    return "unet" if tally.upsamplings >= 2 and _is_dense_output(tally) else "conv"


def _is_dense_output(tally: Tally) -> bool:
    """Whether an output is a map at an eighth of the input's side or finer."""
    sides = max((shape for _, shape, _ in tally.inputs), key=math.prod, default=[])
    return any(len(shape) >= 3 and len(sides) >= 3 and shape[-1] * 8 >= sides[-1] for _, shape, _ in tally.outputs)


def main_input(tally: Tally) -> tuple[list[int], str]:
    """Shape and dtype of the largest input."""
    _, shape, dtype = max(tally.inputs, key=lambda one: math.prod(one[1]), default=("", [], ""))
    return list(shape), dtype


def modality_of(shape: list[int], dtype: str) -> str:
    """What an input of this shape (without the batch) holds."""
    if dtype.startswith(("int", "uint")) and "8" not in dtype:
        return "text" if shape and math.prod(shape) > 1 else "tabular"
    if len(shape) == 4:
        return "video"
    if len(shape) == 3:
        return "vision"
    if len(shape) == 2:
        return "audio" if min(shape) >= 16 else "time-series"
    return "audio" if shape and shape[0] >= 4000 else "tabular"


def image_side(shape: list[int], modality: str) -> float:
    """Side of a square of as many pixels."""
    if modality not in ("vision", "video"):
        return 0.0
    height, width = (shape[0], shape[1]) if len(shape) == 3 and shape[2] <= 4 < shape[0] else (shape[-2], shape[-1])
    return math.sqrt(height * width)


#: A block of attention is eight layers: four products, two normalisations, attention, and what stands between.
_LAYERS_PER_BLOCK = 8.0


def _layers(tally: Tally, kind: str) -> float:
    """Layers in sequence as the rates of forward passes count them (facts.networks.vision_layers)."""
    weighted = float(sum(count for name, count in tally.layers.items() if name not in ("score", "recurrent")))
    if kind == "recurrent":
        return max(tally.steps, weighted, 1.0)
    if kind in ("transformer", "window") and tally.blocks:
        return max(_LAYERS_PER_BLOCK * tally.blocks, 1.0)
    return max(weighted, 1.0)


def record_of(tally: Tally, *, name: str, source: str) -> TracedModel:
    """The record of a traced model."""
    shape, dtype = main_input(tally)
    modality = modality_of(shape, dtype)
    kind = layer_kind(tally, modality)
    if kind == "recommender" and tally.params_embedding > 10 * (tally.params - tally.params_embedding):
        modality = "tabular"
    return TracedModel(
        name=name,
        kind=kind if tally.weighted_macs else "",
        modality=modality if tally.weighted_macs else "",
        output="map" if modality == "vision" and _is_dense_output(tally) else "",
        params_total=tally.params,
        params_trainable=tally.params_trainable,
        params_embedding=tally.params_embedding,
        macs=tally.weighted_macs,
        score_macs=tally.macs["score"],
        backward_macs=tally.backward_macs,
        activations=tally.weighted_elements,
        score_elements=tally.elements["score"],
        widest=tally.widest,
        kept_bytes=tally.kept_bytes,
        fixed_bytes=tally.fixed_bytes,
        layers=_layers(tally, kind),
        input_shape="x".join(map(str, shape)),
        image_size=image_side(shape, modality),
        gathered=tally.gathered,
        tokens=float(shape[0]) if modality == "text" and shape else 0.0,
        stored_bytes=tally.stored_bytes,
        dtypes=" ".join(f"{dtype}:{count}" for dtype, count in sorted(tally.dtypes.items(), key=lambda item: -item[1])),
        operators=" ".join(f"{operator}:{count}" for operator, count in sorted(tally.operators.items(), key=lambda item: -item[1])),
        source=source,
        notes="; ".join(tally.notes),
    )
