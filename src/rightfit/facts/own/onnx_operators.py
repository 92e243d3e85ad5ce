"""Multiply-adds of ONNX operators from the shapes of their tensors, by the operators' definitions (onnx/docs/Operators.md, opset 1 to 24).

Each counter takes the shapes of inputs and outputs, the attributes, and which inputs are constant; it returns the class of work
(tally.CLASSES),
multiply-adds, and elements written. Shapes hold the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rightfit.records import dataclass

Dims = tuple[int, ...]
Work = tuple[str, float, float]


@dataclass(frozen=True, slots=True)
class Call:
    """One operator: shapes of its inputs (None where absent) and outputs, attributes, and which inputs are constant."""

    name: str
    inputs: Sequence[Dims | None]
    outputs: Sequence[Dims | None]
    attributes: Mapping[str, Any]
    constant: Sequence[bool]

    def input(self, position: int) -> Dims:
        """Shape of an input; ValueError when it is not known."""
        found = self.inputs[position] if position < len(self.inputs) else None
        if found is None:
            raise ValueError(f"input {position}")
        return found

    def output(self) -> Dims:
        """Shape of the first output; ValueError when it is not known."""
        if not self.outputs or self.outputs[0] is None:
            raise ValueError("output")
        return self.outputs[0]


def _size(shape: Dims) -> float:
    return float(math.prod(shape))


def _convolution(call: Call, *, weight_at: int = 1) -> Work:
    """Conv: every output element sums over (input channels / groups) x kernel."""
    weight, written = call.input(weight_at), _size(call.output())
    groups = int(call.attributes.get("group", 1))
    macs = written * math.prod(weight[1:])
    return _convolution_class(groups, weight[1] * groups, weight), macs, written


def _transposed(call: Call) -> Work:
    """ConvTranspose: every input element is spread over (output channels / groups) x kernel."""
    weight = call.input(1)
    groups = int(call.attributes.get("group", 1))
    return _convolution_class(groups, weight[0], weight), _size(call.input(0)) * math.prod(weight[1:]), _size(call.output())


def _convolution_class(groups: int, channels: int, weight: Dims) -> str:
    if groups > 1:
        return "depthwise" if groups == channels or groups == weight[0] else "grouped"
    return "conv3d" if len(weight) == 5 else "conv"


def _product(call: Call, *, second: int = 1) -> Work:
    """MatMul: output elements times the common dimension; without a constant operand it is attention or the like."""
    left, written = call.input(0), _size(call.output())
    has_weight = call.constant[0] or (second < len(call.constant) and call.constant[second])
    return ("linear" if has_weight else "score"), written * left[-1], written


def _gemm(call: Call) -> Work:
    left, written = call.input(0), _size(call.output())
    inner = left[0] if call.attributes.get("transA", 0) else left[-1]
    has_weight = any(call.constant[:2])
    return ("linear" if has_weight else "score"), written * inner, written


def _einsum(call: Call) -> Work:
    """Einsum: the product of the sizes of all its letters, operand by operand where it has more than two."""
    equation = call.attributes.get("equation", b"")
    text = (equation.decode("ascii", "replace") if isinstance(equation, bytes) else str(equation)).replace(" ", "").split("->")[0]
    sizes: dict[str, int] = {}
    rest = 1.0
    for position, term in enumerate(text.split(",")):
        shape = call.input(position)
        letters = term.replace("...", "")
        extra = len(shape) - len(letters)
        if extra < 0 or (extra and "..." not in term):
            raise ValueError("equation")
        rest = max(rest, _size(shape[:extra]) if extra else 1.0)
        sizes.update(zip(letters, shape[extra:], strict=True))
    has_weight = any(call.constant)
    return ("linear" if has_weight else "score"), rest * math.prod(sizes.values()), _size(call.output())


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(call: Call) -> Work:
    """LSTM, GRU, RNN: for each step, sample and direction, gates x hidden x (input + hidden)."""
    data, weight = call.input(0), call.input(1)
    hidden = int(call.attributes.get("hidden_size", weight[1] // _GATES[call.name]))
    steps_and_batch = data[0] * data[1]
    macs = steps_and_batch * weight[0] * _GATES[call.name] * hidden * (weight[2] + hidden)
    return "recurrent", float(macs), float(steps_and_batch * weight[0] * hidden)


def _attention(call: Call) -> Work:
    """Attention of opset 23 (queries, keys, values): both products; 3-D inputs hold their heads in the last dimension."""
    query, key = call.input(0), call.input(1)
    value = call.input(2)
    if len(query) == 4:
        width = query[1] * (query[3] + value[3])
        return "score", float(query[0] * query[2] * key[2] * width), _size(call.output())
    heads = int(call.attributes.get("q_num_heads", 1))
    shared = int(call.attributes.get("kv_num_heads", heads))
    width = query[2] + value[2] * heads // max(shared, 1)
    return "score", float(query[0] * query[1] * key[1] * width), _size(call.output())


def _few_bits(call: Call) -> Work:
    """MatMulNBits of ONNX Runtime: weights are packed, their sizes are attributes."""
    inner = int(call.attributes["K"])
    rows = _size(call.input(0)) / inner
    written = rows * int(call.attributes["N"])
    return "linear", written * inner, written


COUNTERS: Mapping[str, Callable[[Call], Work]] = {
    "Conv": _convolution,
    "FusedConv": _convolution,
    "ConvInteger": _convolution,
    "DeformConv": _convolution,
    "QLinearConv": lambda call: _convolution(call, weight_at=3),
    "ConvTranspose": _transposed,
    "MatMul": _product,
    "MatMulInteger": _product,
    "FusedMatMul": _product,
    "QLinearMatMul": lambda call: _product(call, second=3),
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "Einsum": _einsum,
    "LSTM": _recurrent,
    "GRU": _recurrent,
    "RNN": _recurrent,
    "Attention": _attention,
    "MatMulNBits": _few_bits,
}
#: Operators that do no products: element-wise, moves, reductions. What is in neither list is named to the user.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")
#: Operators whose body runs a number of times that the file does not say.
LOOPS = ("Loop", "Scan", "SequenceMap")
RESIZES = ("Resize", "Upsample", "ConvTranspose")
#: What hands a constant on as a constant (a stored weight, unpacked or turned).
KEEPS_CONSTANT = frozenset({
    "Constant", "ConstantOfShape", "Identity", "Cast", "CastLike", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "DequantizeLinear",
    "QuantizeLinear", "Slice", "Concat", "Split", "Expand", "Mul", "Add", "Sub", "Div", "Tile", "Gather", "Pad",
})  # fmt: skip
