"""What the user typed for a model of their own: a file, a folder of shards, or module:function, with the shape of one input in brackets."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from pathlib import Path

from rightfit.errors import ContradictionError, InputError, QuantityError
from rightfit.messages import Message
from rightfit.records import dataclass

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_TEXT = re.compile(r"(?P<target>.+?)\s*(?:\[(?P<shape>[^\[\]]*)\])?", re.DOTALL)
_SHAPE = re.compile(r"(\d+(?:x\d+)*)\s*(tokens)?")
# The names that hubs are written with before a colon (rightfit.facts.hub) are not modules.
_HUB_PREFIXES = ("ms", "hf", "modelscope")
LARGEST_SIDE, LARGEST_INPUT = 2**24, 2**36
#: Options that say the same in different ways.
_PAIRS = {
    frozenset(("input_shape", "image_size")): Message("facts.part_shape_and_image"),
    frozenset(("input_shape", "seq_len")): Message("facts.part_shape_and_tokens"),
    frozenset(("image_size", "seq_len")): Message("facts.part_image_and_tokens"),
    frozenset(("input_shape", "image_size", "seq_len")): Message("facts.part_all_shapes"),
}
SHAPE_HINT = Message("facts.part_shape_hint")


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one sample without its batch: `sides`, and whether it counts token ids. Empty: not said."""

    sides: tuple[int, ...] = ()
    is_tokens: bool = False

    @property
    def text(self) -> str:
        """As the user writes it: 3x224x224, or 512tokens."""
        return "x".join(map(str, self.sides)) + ("tokens" if self.is_tokens else "")


@dataclass(frozen=True, slots=True)
class Reference:
    """A model of the user's own. `kind` is onnx, safetensors or function; `target` the path or module:function."""

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
    """Whether `text` is written as a model of one's own is, told by its letters alone: no file is looked for."""
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
    """A folder with safetensors files and no config.json (with one it is read as before, which is exact)."""
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
        raise QuantityError(Message("facts.no_shape", text=text[:60], hint=Message("facts.part_shape")), field="input_shape")
    sides = tuple(int(side) for side in found[1].split("x")[:9] if len(side) < 12) if len(found[1]) < 90 else ()
    if not sides or len(sides) > 5 or len(sides) != len(found[1].split("x")):
        raise QuantityError(
            Message("facts.shape_sides", text=text[:60], largest=LARGEST_SIDE, hint=Message("facts.part_shape")), field="input_shape"
        )
    if min(sides) < 1 or max(sides) > LARGEST_SIDE or math.prod(sides) > LARGEST_INPUT:
        raise QuantityError(
            Message("facts.shape_impossible", text=text[:60], largest=LARGEST_SIDE, hint=Message("facts.part_shape")), field="input_shape"
        )
    return Shape(sides, bool(found[2]))


def with_input(text: str, *, input_shape: str = "", image_size: str = "", seq_len: int | None = None) -> str:
    """`text` with the shape that the options say. Options that contradict each other or the text are refused; no option leaves it as it
    is."""
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
