"""An ONNX file counted by shape inference of the onnx package: parameters, multiply-adds,
activations, layer mix of one sample.

Runs in a process of its own with limits (see `process`). Weights outside the file are never opened:
their sizes stand in it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from rightfit.facts.own.reference import SHAPE_HINT, RefusedError, Shape, Tally, one_line, read_shape
from rightfit.messages import Message, foreign, system_problem
from rightfit.records import dataclass

# ---- Multiply-adds of ONNX operators from the shapes of their tensors, by the operators'
# definitions (onnx/docs/Operators.md, opset 1 to 24).
#
# Each counter takes the shapes of inputs and outputs, the attributes, and which inputs are
# constant; it returns the class of work (tally.CLASSES), multiply-adds, and elements written.
# Shapes hold the batch.

Dims = tuple[int, ...]
Work = tuple[str, float, float]


@dataclass(frozen=True, slots=True)
class Call:
    """One operator: shapes of its inputs (None where absent) and outputs, attributes, and which
    inputs are constant."""

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
    """MatMul: output elements times the common dimension; without a constant operand it is
    attention or the like."""
    left, written = call.input(0), _size(call.output())
    has_weight = call.constant[0] or (second < len(call.constant) and call.constant[second])
    return ("linear" if has_weight else "score"), written * left[-1], written


def _gemm(call: Call) -> Work:
    left, written = call.input(0), _size(call.output())
    inner = left[0] if call.attributes.get("transA", 0) else left[-1]
    has_weight = any(call.constant[:2])
    return ("linear" if has_weight else "score"), written * inner, written


def _einsum(call: Call) -> Work:
    """Einsum: the product of the sizes of all its letters, operand by operand where it
    has more than two."""
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
    """Attention of opset 23 (queries, keys, values): both products; 3-D inputs hold their heads in
    the last dimension."""
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
#: Operators that do no products: element-wise, moves, reductions. What is in neither list is
#: named to the user.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")
#: Operators whose body runs a number of times that the file does not say.
LOOPS = ("Loop", "Scan", "SequenceMap")
RESIZES = ("Resize", "Upsample", "ConvTranspose")
#: What hands a constant on as a constant (a stored weight, unpacked or turned).
KEEPS_CONSTANT = frozenset({
    "Constant", "ConstantOfShape", "Identity", "Cast", "CastLike", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "DequantizeLinear",
    "QuantizeLinear", "Slice", "Concat", "Split", "Expand", "Mul", "Add", "Sub", "Div", "Tile", "Gather", "Pad",
})  # fmt: skip


LARGEST_NODES, DEEPEST, LARGEST_PARAMETERS, LARGEST_ELEMENTS = 500_000, 8, 10**14, 10**15

#: Tensors that tell shapes are small; what is larger is a weight.
_LARGEST_SHAPE_TENSOR = 4096


def count_file(path: str, shape: str) -> dict[str, Any]:
    """Counts of the graph in the file at `path` for one sample of `shape`."""
    model = _read(Path(path))
    check_tensors(model, Path(path).resolve().parent)
    batch = settle_inputs(model.graph, read_shape(shape))
    model = inferred(model)
    return {"tally": tally_of(model, batch).as_dict()}


def _read(path: Path) -> Any:
    """The model in a file, its own functions written out in place."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        with path.open("rb") as stream:
            model = onnx.load_model(stream, load_external_data=False)
    except OSError as error:
        raise RefusedError(Message("facts.own_unreadable", problem=system_problem(error)), "file") from None
    except (DecodeError, ValueError, RecursionError, SystemError) as error:
        raise RefusedError(
            Message("facts.own_no_onnx", problem=foreign(one_line(str(error))[:100]) or type(error).__name__), "file"
        ) from None
    if not model.graph.node:
        raise RefusedError(Message("facts.own_no_operators"), "file")
    return _without_functions(model)


def _without_functions(model: Any) -> Any:
    if not model.functions:
        return model
    _refuse_recursion(model)
    from onnx import inliner

    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError, IndexError) as error:
        raise RefusedError(Message("facts.own_functions", problem=foreign(one_line(str(error))[:120])), "file") from None


def _refuse_recursion(model: Any) -> None:
    """Functions must not call themselves, nor multiply by calling each other many times."""
    calls = {(one.domain, one.name): [(node.domain, node.op_type) for node in one.node] for one in model.functions}
    weights: dict[tuple[str, str], int] = {}

    def weigh(key: tuple[str, str], above: tuple[tuple[str, str], ...]) -> int:
        if key in above or len(above) > 64:
            raise RefusedError(Message("facts.own_recursion", word=key[1][:60]), "file")
        if key not in weights:
            weights[key] = sum(weigh(inner, (*above, key)) if inner in calls else 1 for inner in calls[key])
        return weights[key]

    total = sum(weigh((node.domain, node.op_type), ()) if (node.domain, node.op_type) in calls else 1 for node in model.graph.node)
    if total > LARGEST_NODES:
        raise RefusedError(Message("facts.own_unfold", most=LARGEST_NODES), "file")


def graphs(graph: Any, depth: int = 0) -> Iterable[Any]:
    """A graph and those inside its operators."""
    if depth > DEEPEST:
        raise RefusedError(Message("facts.own_deep", most=DEEPEST), "file")
    if len(graph.node) > LARGEST_NODES:
        raise RefusedError(Message("facts.own_operators", count=len(graph.node), most=LARGEST_NODES), "file")
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from graphs(inner, depth + 1)


def check_tensors(model: Any, folder: Path) -> None:
    """Refuse shapes that cannot be, and weights that lie outside the model's folder.
    Nothing is opened."""
    import onnx

    total, nodes = 0, 0
    for graph in graphs(model.graph):
        nodes += len(graph.node)
        stored = [tensor for node in graph.node for attribute in node.attribute for tensor in (attribute.t, *attribute.tensors)]
        for tensor in (*graph.initializer, *stored):
            if any(side < 0 for side in tensor.dims):
                raise RefusedError(Message("facts.own_tensor_negative", word=tensor.name[:60]), "file")
            total += math.prod(tensor.dims)
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                _check_location(tensor, folder)
            elif math.prod(tensor.dims) > _LARGEST_SHAPE_TENSOR:
                tensor.ClearField("raw_data")  # its sizes are wanted, its numbers are not
    if nodes > LARGEST_NODES:
        raise RefusedError(Message("facts.own_operators", count=nodes, most=LARGEST_NODES), "file")
    if total > LARGEST_PARAMETERS:
        raise RefusedError(Message("facts.own_declares", count=total), "file")


def _check_location(tensor: Any, folder: Path) -> None:
    location = next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
    windows, posix = PureWindowsPath(location), PurePosixPath(location)
    outside = (
        not location
        or "\x00" in location
        or posix.is_absolute()
        or windows.is_absolute()
        or bool(windows.drive)
        or ".." in (*posix.parts, *windows.parts)
    )
    if not outside:
        resolved = Path(os.path.realpath(folder / location))
        outside = not resolved.is_relative_to(folder)
    if outside:
        raise RefusedError(Message("facts.own_outside", word=tensor.name[:60], folder=location[:80]), "file")


def settle_inputs(graph: Any, shape: Shape) -> int:
    """Give every free size of the inputs a number and return the batch that the
    graph is counted at.

    The first dimension is the batch where it is free or 1, or where an image or a clip has it.
    """
    import onnx

    stored = {tensor.name for tensor in (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))}
    inputs = [one for one in graph.input if one.name not in stored]
    if not inputs:
        raise RefusedError(Message("facts.own_no_inputs"))
    batch, names = 0, dict[str, int]()
    main = _main_input(inputs, shape)
    for one in inputs:
        kind = one.type.tensor_type
        if not one.type.HasField("tensor_type") or not kind.HasField("shape"):
            raise RefusedError(Message("facts.own_rank", word=one.name[:60], line=SHAPE_HINT))
        sides = list(kind.shape.dim)
        whole = kind.elem_type in (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
        first = _is_batch(sides)
        wanted = shape.sides if one.name == main.name or (whole and len(sides) == len(shape.sides) + first) else ()
        if wanted and len(wanted) != len(sides) - first:
            raise RefusedError(
                Message("facts.own_sides", word=one.name[:60], sizes=_shown(sides), given=shape.text, count=len(wanted), line=SHAPE_HINT)
            )
        for position, side in enumerate(sides):
            if position == 0 and first:
                batch = max(batch, side.dim_value or 1)
                number = side.dim_value or 1
            else:
                number = _side(one.name, sides, position, wanted[position - first] if wanted else 0, names)
            if side.dim_param:
                names.setdefault(side.dim_param, number)
            side.dim_value = number
        if math.prod(side.dim_value for side in sides) > LARGEST_ELEMENTS:
            raise RefusedError(Message("facts.own_holds", word=one.name[:60], count=math.prod(side.dim_value for side in sides)), "file")
    _keep_only(graph, inputs, stored)
    return batch or 1


def _keep_only(graph: Any, inputs: list[Any], stored: set[str]) -> None:
    """Leave what outputs say of their free sizes to inference: they would contradict
    the numbers chosen."""
    del inputs, stored
    for one in graph.output:
        if one.type.HasField("tensor_type"):
            one.type.tensor_type.ClearField("shape")
    del graph.value_info[:]


def _main_input(inputs: list[Any], shape: Shape) -> Any:
    """The input that a given shape is for: the first of that rank."""
    for one in inputs:
        sides = list(one.type.tensor_type.shape.dim)
        if shape.sides and len(sides) - _is_batch(sides) == len(shape.sides):
            return one
    return inputs[0]


def _is_batch(sides: list[Any]) -> bool:
    """Whether the first dimension counts samples."""
    if not sides:
        return False
    return sides[0].dim_value in (0, 1) or len(sides) in (4, 5)


def _side(name: str, sides: list[Any], position: int, target: int, names: dict[str, int]) -> int:
    """A size of an input: what is fixed, what was asked for, or what the same letter had before."""
    fixed = sides[position].dim_value
    if fixed < 0:
        raise RefusedError(Message("facts.own_input_negative", word=name[:60]), "file")
    if fixed:
        if target and target != fixed:
            raise RefusedError(Message("facts.own_fixed", word=name[:60], sizes=_shown(sides)))
        return int(fixed)
    number = target or names.get(sides[position].dim_param, 0)
    if not number:
        raise RefusedError(Message("facts.own_free_sizes", word=name[:60], sizes=_shown(sides), line=SHAPE_HINT))
    return number


def _shown(sides: list[Any]) -> str:
    return " x ".join(str(side.dim_value) if side.dim_value else (side.dim_param[:20] or "?") for side in sides[:8]) or "a single number"


def inferred(model: Any) -> Any:
    """The model with the shape of every tensor that onnx can tell."""
    import onnx

    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError, MemoryError) as error:
        raise RefusedError(Message("facts.own_contradict", problem=foreign(one_line(str(error))[:160])), "file") from None


def tally_of(model: Any, batch: int) -> Tally:
    """Counts per sample."""
    tally = Tally()
    _count_parameters(model.graph, tally)
    shapes = _shapes(model.graph)
    unknown: list[str] = []
    _count_graph(model.graph, shapes, {}, tally, unknown)
    if unknown:
        raise RefusedError(Message("facts.own_untold", count=len(unknown), word=unknown[0]))
    _describe_ends(model.graph, tally, batch)
    if not sum(tally.macs.values()):
        raise RefusedError(Message("facts.own_nothing"))
    for values in (tally.macs, tally.elements):
        for kind in values:
            values[kind] /= batch
    tally.widest /= batch
    tally.tokens /= batch
    tally.gathered /= batch
    if not math.isfinite(sum(tally.macs.values())) or sum(tally.macs.values()) > LARGEST_ELEMENTS * 1e6:
        raise RefusedError(Message("facts.own_arithmetic"), "file")
    return tally


def _describe_ends(graph: Any, tally: Tally, batch: int) -> None:
    stored = {tensor.name for tensor in graph.initializer}
    for target, ends in ((tally.inputs, graph.input), (tally.outputs, graph.output)):
        for one in ends:
            if one.name in stored or not one.type.HasField("tensor_type"):
                continue
            sides = list(one.type.tensor_type.shape.dim)
            kept = sides[1:] if sides and (_is_batch(sides) or sides[0].dim_value == batch) else sides
            target.append((one.name[:100], [int(side.dim_value) for side in kept], _dtype(one.type.tensor_type.elem_type)))


def _dtype(code: int) -> str:
    import onnx

    try:
        return str(onnx.TensorProto.DataType.Name(code)).casefold()
    except ValueError:
        return "unknown"


_BYTES = {"float": 4.0, "float16": 2.0, "bfloat16": 2.0, "double": 8.0, "int8": 1.0, "uint8": 1.0, "int4": 0.5, "uint4": 0.5, "float8e4m3fn": 1.0, "float8e5m2": 1.0, "float4e2m1": 0.5}  # fmt: skip


def _count_parameters(graph: Any, tally: Tally) -> None:
    """Stored numbers that are weights: floating point, and integers of at most eight bits; indices
    and shapes are not. Shared ones count once."""
    tables = {
        node.input[0] for inner in graphs(graph) for node in inner.node if node.op_type in ("Gather", "GatherBlockQuantized") and node.input
    }
    for inner in graphs(graph):
        constants = [
            (node.output[0], attribute.t)
            for node in inner.node
            if node.op_type == "Constant" and node.output
            for attribute in node.attribute
            if attribute.name == "value"
        ]
        for name, tensor in (*((one.name, one) for one in inner.initializer), *constants):
            dtype, count = _dtype(tensor.data_type), math.prod(tensor.dims)
            if dtype not in _BYTES or count <= 1:
                continue
            tally.params += count
            tally.dtypes[dtype] = tally.dtypes.get(dtype, 0) + count
            tally.stored_bytes += count * _BYTES[dtype]
            tally.params_embedding += count if name in tables and len(tensor.dims) == 2 else 0
    tally.params_trainable = tally.params


def _shapes(graph: Any) -> dict[str, Dims | None]:
    """Shape of every tensor that is known; None where some of its sizes are not."""
    found: dict[str, Dims | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for one in (*graph.input, *graph.value_info, *graph.output):
        kind = one.type.tensor_type
        if one.type.HasField("tensor_type") and kind.HasField("shape"):
            sides = tuple(side.dim_value for side in kind.shape.dim)
            known = all(side.HasField("dim_value") and side.dim_value >= 0 for side in kind.shape.dim)
            found.setdefault(one.name, sides if known else None)
    return found


def _count_graph(graph: Any, shapes: dict[str, Dims | None], constants: dict[str, bool], tally: Tally, unknown: list[str]) -> None:
    """Add every operator of a graph; of a branch the dearer side counts."""
    constants = {**constants, **{tensor.name: True for tensor in graph.initializer}}
    for node in graph.node:
        inputs = [name for name in node.input if name]
        if node.op_type in KEEPS_CONSTANT and all(constants.get(name, False) for name in inputs):
            constants.update(dict.fromkeys(node.output, True))
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.name == "value":
                    shapes.setdefault(node.output[0], tuple(attribute.t.dims))
        if node.op_type in LOOPS:
            if any(
                inner.op_type in COUNTERS
                for attribute in node.attribute
                if attribute.HasField("g")
                for g in graphs(attribute.g)
                for inner in g.node
            ):
                raise RefusedError(Message("facts.own_loop", word=node.op_type))
            continue
        if node.op_type == "If":
            _count_dearer(node, shapes, constants, tally, unknown)
            continue
        if node.domain not in DOMAINS:
            raise RefusedError(Message("facts.own_operator", word=f"{node.domain[:60]}.{node.op_type[:60]}"))
        _count_node(node, shapes, constants, tally, unknown)


def _count_dearer(node: Any, shapes: dict[str, Dims | None], constants: dict[str, bool], tally: Tally, unknown: list[str]) -> None:
    branches: list[tuple[float, int, Tally, list[str]]] = []
    for attribute in node.attribute:
        if attribute.HasField("g"):
            one, missing = Tally(), list[str]()
            _count_graph(attribute.g, {**shapes, **_shapes(attribute.g)}, constants, one, missing)
            branches.append((sum(one.macs.values()), len(branches), one, missing))
    if not branches:
        return
    _, _, one, missing = max(branches)
    unknown += missing
    for kind in tally.macs:
        tally.macs[kind] += one.macs[kind]
        tally.elements[kind] += one.elements[kind]
        tally.layers[kind] += one.layers[kind]
    for name, count in one.operators.items():
        tally.operators[name] = tally.operators.get(name, 0) + count


def _count_node(node: Any, shapes: dict[str, Dims | None], constants: dict[str, bool], tally: Tally, unknown: list[str]) -> None:
    import onnx

    if node.op_type in RESIZES:
        tally.upsamplings += 1
    counter = COUNTERS.get(node.op_type)
    if node.op_type == "Gather" and node.input and constants.get(node.input[0]) and len(shapes.get(node.input[0]) or ()) == 2:
        tally.gathered += math.prod(shapes.get(node.output[0]) or (0,))
    if counter is None:
        if node.domain == "com.microsoft" and "Attention" in node.op_type:
            unknown.append(f"{node.op_type} (fused by ONNX Runtime; export without that optimisation)")
        return
    if node.domain == "com.microsoft" and node.op_type == "Attention":
        unknown.append("Attention (fused by ONNX Runtime; export without that optimisation)")
        return
    attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    call = Call(
        node.op_type,
        [shapes.get(name) if name else None for name in node.input],
        [shapes.get(name) for name in node.output],
        attributes,
        [constants.get(name, False) for name in node.input],
    )
    try:
        kind, macs, written = counter(call)
    except (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError) as error:
        unknown.append(f"{node.op_type} {(node.name or node.output[0] if node.output else node.name)[:60]!r} ({one_line(str(error))[:40]})")
        return
    tally.operators[node.op_type] = tally.operators.get(node.op_type, 0) + 1
    tally.add(kind, macs, written)
    _note_sizes(call, kind, written, tally)


def _note_sizes(call: Call, kind: str, written: float, tally: Tally) -> None:
    if kind == "linear":
        tally.tokens = max(tally.tokens, written / max(call.output()[-1], 1) if call.output() else 0.0)
    elif kind == "score":
        tally.blocks += 1.0 if call.name == "Attention" else 0.5
        tally.attended = max(tally.attended, float(call.output()[-1]) if call.name != "Attention" else float(call.input(1)[-2]))
    elif kind == "depthwise":
        tally.kernel = max(tally.kernel, int(call.input(3 if call.name == "QLinearConv" else 1)[-1]))
    elif kind == "recurrent":
        tally.steps += float(call.input(0)[0])
