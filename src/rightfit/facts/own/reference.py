"""What the user typed for a model of their own: a file, a folder of shards, or module:function,
with the shape of one input in brackets."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rightfit.errors import ContradictionError, InputError, QuantityError, RightfitError
from rightfit.facts.records import TracedModel, TransformerArchitecture
from rightfit.messages import Message
from rightfit.records import dataclass

# ---- What a worker tells the user in one line.


class RefusedError(Exception):
    """Something that the user must know; `kind` is "file" or "input"."""

    def __init__(self, message: Message, kind: str = "input") -> None:
        super().__init__(message)
        self.message, self.kind = message, kind


def one_line(text: str) -> str:
    """The first lines of a message, joined and cut."""
    joined = " ".join(text.split())
    return joined if len(joined) <= 300 else joined[:297] + "..."


FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_TEXT = re.compile(r"(?P<target>.+?)\s*(?:\[(?P<shape>[^\[\]]*)\])?", re.DOTALL)
_SHAPE = re.compile(r"(\d+(?:x\d+)*)\s*(tokens)?")
# The names that hubs are written with before a colon (rightfit.facts.hub) are not modules.
_HUB_PREFIXES = ("ms", "hf", "modelscope")
LARGEST_SIDE, LARGEST_INPUT = 2**24, 2**36
#: Options that say the same in different ways.
_PAIRS = {
    frozenset(("input_shape", "image_size")): Message("facts.shape_and_image"),
    frozenset(("input_shape", "seq_len")): Message("facts.shape_and_tokens"),
    frozenset(("image_size", "seq_len")): Message("facts.image_and_tokens"),
    frozenset(("input_shape", "image_size", "seq_len")): Message("facts.all_shapes"),
}
SHAPE_HINT = Message("facts.shape_hint")


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one sample without its batch: `sides`, and whether it counts token
    ids. Empty: not said."""

    sides: tuple[int, ...] = ()
    is_tokens: bool = False

    @property
    def text(self) -> str:
        """As the user writes it: 3x224x224, or 512tokens."""
        return "x".join(map(str, self.sides)) + ("tokens" if self.is_tokens else "")


@dataclass(frozen=True, slots=True)
class Reference:
    """A model of the user's own. `kind` is onnx, safetensors or function; `target` the path
    or module:function."""

    kind: str
    target: str
    shape: Shape

    @property
    def text(self) -> str:
        """The reference as one text that reads back to an equal one."""
        return f"{self.target}[{self.shape.text}]" if self.shape.sides else self.target


def parse(text: str) -> Reference | None:
    """The reference that `text` is, or None when it names no model of one's own."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        return None
    target = found["target"].strip()
    kind = kind_of(target)
    if not kind:
        return None
    return Reference(kind, target, read_shape(found["shape"] or ""))


def is_own(text: str) -> bool:
    """Whether `text` means a model of one's own."""
    found = _TEXT.fullmatch(text.strip())
    return bool(found and kind_of(found["target"].strip()))


def is_named_so(text: str) -> bool:
    """Whether `text` is written as a model of one's own is, told by its letters alone: no
    file is looked for."""
    found = _TEXT.fullmatch(text.strip())
    return bool(found and _kind_by_name(found["target"].strip()))


def kind_of(target: str) -> str:
    """The kind of a target; empty when it is none."""
    return _kind_by_name(target) or ("safetensors" if _is_folder_of_shards(target) else "")


def _kind_by_name(target: str) -> str:
    """The kind that the letters of a target tell."""
    lower = target.casefold()
    if lower.endswith(".onnx"):
        return "onnx"
    if lower.endswith((".safetensors", ".safetensors.index.json")):
        return "safetensors"
    if FUNCTION.fullmatch(target):
        return "" if target.partition(":")[0].casefold() in _HUB_PREFIXES else "function"
    return ""


def _is_folder_of_shards(target: str) -> bool:
    """A folder with safetensors files and no config.json (with one it is read as
    before, which is exact)."""
    if not target.startswith((".", "/", "~")) and os.sep not in target and not Path(target).is_dir():
        return False
    try:
        path = Path(os.path.expanduser(target))  # noqa: PTH111 - leaves the text as it is where there is no home
        return path.is_dir() and not (path / "config.json").is_file() and any(path.glob("*.safetensors"))
    except (OSError, ValueError):
        return False


def read_shape(text: str) -> Shape:
    """A shape as written: "3x224x224", "224", "512tokens"; empty text is an empty shape."""
    plain = text.strip().casefold().replace("\u00d7", "x").replace("*", "x").replace(",", "x").replace(" ", "")
    if not plain:
        return Shape()
    found = _SHAPE.fullmatch(plain)
    if found is None:
        raise QuantityError(Message("facts.no_shape", text=text[:60], hint=Message("facts.shape")), field="input_shape")
    sides = tuple(int(side) for side in found[1].split("x")[:9] if len(side) < 12) if len(found[1]) < 90 else ()
    if not sides or len(sides) > 5 or len(sides) != len(found[1].split("x")):
        raise QuantityError(
            Message("facts.shape_sides", text=text[:60], largest=LARGEST_SIDE, hint=Message("facts.shape")), field="input_shape"
        )
    if min(sides) < 1 or max(sides) > LARGEST_SIDE or math.prod(sides) > LARGEST_INPUT:
        raise QuantityError(
            Message("facts.shape_impossible", text=text[:60], largest=LARGEST_SIDE, hint=Message("facts.shape")), field="input_shape"
        )
    return Shape(sides, bool(found[2]))


def with_input(text: str, *, input_shape: str = "", image_size: str = "", seq_len: int | None = None) -> str:
    """`text` with the shape that the options say. Options that contradict each other or the text
    are refused; no option leaves it as it is."""
    reference = parse(text)
    if reference is None:
        raise InputError(Message("facts.no_own_model", text=text), field="model")
    given: dict[str, Shape] = {}
    if input_shape:
        given["input_shape"] = read_shape(input_shape)
    if image_size:
        sides = read_shape(image_size).sides
        given["image_size"] = Shape((3, *(sides if len(sides) > 1 else sides * 2)))
    if seq_len:
        given["seq_len"] = Shape((seq_len,), is_tokens=True)
    if len(given) > 1 and len(set(given.values())) > 1:
        raise ContradictionError(Message("facts.shapes_contradict", problem=_PAIRS[frozenset(given)]), field=next(iter(given)))
    if not given:
        return reference.text
    name, shape = next(iter(given.items()))
    if reference.shape.sides and reference.shape != shape:
        raise ContradictionError(Message("facts.shape_contradicts", option=name, model=text), field=name)
    return dataclasses.replace(reference, shape=shape).text


# ---- Counts of a traced model, and the record made of them: kind of layers from their mix,
# modality from the input.

#: Where multiply-adds and written elements are counted.
CLASSES = ("conv", "grouped", "depthwise", "conv3d", "linear", "recurrent", "score")


@dataclasses.dataclass(slots=True)
class Tally:
    """Counts of one pass. `macs` and `elements` (written by weighted operators) by CLASSES,
    `layers` weighted operators by class.

    `tokens` most rows that one linear operator sees in a sample, `attended` longest row of
    attention scores, `kernel` of the widest depthwise convolution, `upsamplings`, `blocks` of
    attention, `gathered` elements looked up in tables, `steps` of recurrent layers in sequence;
    `widest` output. `kept_bytes` what autograd keeps (0: not traced), `fixed_bytes` of that
    whatever the batch; `backward_macs` of the backward pass. `inputs` and `outputs`: (name, shape
    of a sample, dtype).
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

    Depthwise convolutions do little arithmetic and much traffic, so written elements tell them;
    what is left goes by multiply-adds.
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


#: A block of attention is eight layers: four products, two normalisations, attention, and
#: what stands between.
_LAYERS_PER_BLOCK = 8.0


def _layers(tally: Tally, kind: str) -> float:
    """Layers in sequence as the rates of forward passes count them
    (facts.networks.vision_layers)."""
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


# ---- Architectures of modules that carry a Hugging Face configuration.

#: Heads and biases that a configuration does not tell.
LARGEST_DIFFERENCE = 0.02


def architecture_of(config: Mapping[str, Any] | None, params: int, *, name: str, source: str) -> TransformerArchitecture | None:
    """The transformer that `config` describes; None where it describes none, or one of another
    size than `params`."""
    if not config:
        return None
    from rightfit.facts.config_json import architecture_from_config

    try:
        found = architecture_from_config(config, name=name, label=f"{name} config", source=source)
    except RightfitError:
        return None
    if not found.vocab_size or abs(found.params_total - params) > LARGEST_DIFFERENCE * params:
        return None
    return dataclasses.replace(found, params_total=params)
