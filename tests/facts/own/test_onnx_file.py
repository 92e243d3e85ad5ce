"""ONNX files: counts by hand and against the bundled records; files that are
broken or mean harm."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")
from onnx import TensorProto, helper

from rightfit import facts
from rightfit.errors import FileInputError, RightfitError
from rightfit.facts.own.models import own_model
from rightfit.facts.own.worker import answer_of
from rightfit.facts.records import TracedModel


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RIGHTFIT_CACHE_DIR", str(tmp_path / "cache"))


def weight(name: str, dims: list[int], *, data_type: int = TensorProto.FLOAT, external: str | None = None):
    """A stored tensor without its numbers: only sizes are read."""
    tensor = TensorProto(name=name, data_type=data_type, dims=dims)
    if external is not None:
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=external)
    return tensor


def value(name: str, dims, data_type: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, data_type, dims)


def model_bytes(nodes, inputs, outputs, weights=(), functions=()) -> bytes:
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), list(weights))
    domains = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=domains, functions=list(functions)).SerializeToString()


def counted(tmp_path, data: bytes, shape: str = "") -> TracedModel:
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    found = own_model(f"{path}[{shape}]" if shape else str(path))
    assert isinstance(found, TracedModel)
    return found


def resnet50() -> bytes:
    """ResNet-50 (arXiv 1512.03385, stride in the 3 x 3 layer), batch normalisation
    folded into biases."""
    nodes, weights = [], []

    def conv(source: str, channels: int, output: int, kernel: int, stride: int) -> str:
        name = f"t{len(nodes)}"
        weights.extend((weight(f"{name}.w", [output, channels, kernel, kernel]), weight(f"{name}.b", [output])))
        pads = [kernel // 2] * 4
        nodes.append(
            helper.make_node("Conv", [source, f"{name}.w", f"{name}.b"], [name], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        )
        return name

    def then(operator: str, sources: list[str], **attributes) -> str:
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(operator, sources, [name], **attributes))
        return name

    at = then("Relu", [conv("x", 3, 64, 7, 2)])
    at, channels = then("MaxPool", [at], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            inner = then("Relu", [conv(at, channels, width, 1, 1)])
            inner = then("Relu", [conv(inner, width, width, 3, stride)])
            inner = conv(inner, width, 4 * width, 1, 1)
            short = at if block else conv(at, channels, 4 * width, 1, stride)
            at, channels = then("Relu", [then("Add", [inner, short])]), 4 * width
    at = then("Flatten", [then("GlobalAveragePool", [at])])
    weights.extend((weight("fc.w", [1000, 2048]), weight("fc.b", [1000])))
    nodes.append(helper.make_node("Gemm", [at, "fc.w", "fc.b"], ["y"], transB=1))
    return model_bytes(nodes, [value("x", ["n", 3, "h", "w"])], [value("y", ["n", 1000])], weights)


def test_resnet50_agrees_with_the_bundled_record(tmp_path) -> None:
    found = counted(tmp_path, resnet50(), "3x224x224")
    record = facts.model("timm/resnet50")
    assert found.params_total == pytest.approx(record.params_total, rel=0.01)
    assert found.macs == 4_089_184_256  # published by torchvision as 4.09 GMACs
    assert found.macs == pytest.approx(record.macs, rel=0.01)
    assert found.activations == pytest.approx(record.activations, rel=0.01)
    assert (found.kind, found.modality, found.image_size) == ("conv", "vision", 224)
    assert found.layers == 54
    assert found.source.startswith("traced from net.onnx")


def test_arithmetic_grows_with_the_image(tmp_path) -> None:
    small, large = (counted(tmp_path, resnet50(), shape) for shape in ("3x224x224", "3x448x448"))
    head = 2048 * 1000
    assert large.macs - head == pytest.approx(4 * (small.macs - head))
    assert large.params_total == small.params_total


@pytest.mark.parametrize(
    ("nodes", "inputs", "weights", "macs", "written"),
    [
        ([("Gemm", ["x", "w"], {"transB": 1})], [("x", [1, 16])], [("w", [8, 16])], 128, 8),
        ([("MatMul", ["x", "w"], {})], [("x", [1, 10, 16])], [("w", [16, 8])], 10 * 16 * 8, 80),
        (
            [("Conv", ["x", "w"], {"group": 8, "kernel_shape": [3, 3], "pads": [1] * 4})],
            [("x", [1, 8, 6, 6])],
            [("w", [8, 1, 3, 3])],
            36 * 8 * 9,
            288,
        ),
        (
            [("ConvTranspose", ["x", "w"], {"strides": [2, 2], "kernel_shape": [2, 2]})],
            [("x", [1, 4, 5, 5])],
            [("w", [4, 6, 2, 2])],
            100 * 24,
            600,
        ),
        ([("LSTM", ["x", "w", "r"], {"hidden_size": 5})], [("x", [7, 1, 3])], [("w", [1, 20, 3]), ("r", [1, 20, 5])], 7 * 4 * 5 * 8, 35),
        ([("Einsum", ["x", "w"], {"equation": "bij,jk->bik"})], [("x", [1, 4, 6])], [("w", [6, 3])], 72, 12),
    ],
)
def test_operators_by_hand(tmp_path, nodes, inputs, weights, macs, written) -> None:
    made = [helper.make_node(name, sources, ["y"], **attributes) for name, sources, attributes in nodes]
    data = model_bytes(made, [value(*one) for one in inputs], [value("y", None)], [weight(*one) for one in weights])
    found = counted(tmp_path, data)
    assert found.macs == macs
    assert found.activations == written
    assert found.params_total == sum(math.prod(dims) for _, dims in weights)


def test_products_of_two_results_are_attention(tmp_path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("Softmax", ["s"], ["p"]),
        helper.make_node("MatMul", ["p", "x"], ["y"]),
    ]
    found = counted(tmp_path, model_bytes(nodes, [value("x", ["n", 10, 16])], [value("y", None)], [weight("w", [16, 16])]))
    assert found.macs == 10 * 16 * 16
    assert found.score_macs == 2 * 10 * 10 * 16
    assert found.kind == "transformer"


def test_a_fixed_batch_counts_as_samples(tmp_path) -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[1, 1])]
    found = counted(tmp_path, model_bytes(nodes, [value("x", [8, 3, 4, 4])], [value("y", None)], [weight("w", [2, 3, 1, 1])]))
    assert found.macs == 16 * 2 * 3


def test_quantised_weights_are_parameters_and_shapes_are_not(tmp_path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]),
        helper.make_node("MatMul", ["x", "d"], ["m"]),
        helper.make_node("Reshape", ["m", "shape"], ["y"]),
    ]
    weights = [
        weight("w", [16, 8], data_type=TensorProto.INT8),
        helper.make_tensor("scale", TensorProto.FLOAT, [], [0.1]),
        helper.make_tensor("shape", TensorProto.INT64, [2], [-1, 8]),
    ]
    found = counted(tmp_path, model_bytes(nodes, [value("x", [1, 16])], [value("y", None)], weights))
    assert (found.params_total, found.stored_bytes, found.macs) == (128, 128, 128)


PRODUCT = [helper.make_node("MatMul", ["x", "w"], ["y"])]
INPUT, OUTPUT = value("x", ["n", 4]), value("y", None)


def calling(name: str, *inner: str):
    """A function of the file that calls others."""
    nodes = [
        helper.make_node(one, ["x" if not at else f"t{at - 1}"], [f"t{at}" if at < len(inner) - 1 else "y"], domain="own")
        for at, one in enumerate(inner)
    ]
    return helper.make_function("own", name, ["x"], ["y"], nodes, [helper.make_opsetid("own", 1)])


def nested_branches(depth: int):
    inner = helper.make_graph(PRODUCT, "inner", [], [OUTPUT])
    other = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "other", [], [OUTPUT])
    for _ in range(depth):
        inner = helper.make_graph([helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=other)], "outer", [], [OUTPUT])
    return list(inner.node)


LOOP_BODY = helper.make_graph(
    [helper.make_node("MatMul", ["s", "w"], ["o"]), helper.make_node("Identity", ["c"], ["d"])],
    "body",
    [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", None)],
    [value("d", [], TensorProto.BOOL), value("o", None)],
)
HOSTILE = {
    "negative": (model_bytes(PRODUCT, [INPUT], [OUTPUT], [weight("w", [-1, 8])]), "negative size"),
    "huge": (model_bytes(PRODUCT, [INPUT], [OUTPUT], [weight("w", [2**62, 2**62])]), "which is impossible"),
    "huge input": (
        model_bytes(PRODUCT, [value("x", [1, 2**40, 2**40, 4])], [OUTPUT], [weight("w", [4, 8])]),
        "more than any machine can store",
    ),
    "calls itself": (
        model_bytes([helper.make_node("F", ["x"], ["y"], domain="own")], [INPUT], [OUTPUT], functions=[calling("F", "F")]),
        "calls itself",
    ),
    "bomb": (
        model_bytes(
            [helper.make_node("F0", ["x"], ["y"], domain="own")],
            [INPUT],
            [OUTPUT],
            functions=[calling(f"F{at}", f"F{at + 1}", f"F{at + 1}") for at in range(40)],
        ),
        "expand to over",
    ),
    "loop": (
        model_bytes([helper.make_node("Loop", ["", "", "x"], ["y"], body=LOOP_BODY)], [INPUT], [OUTPUT], [weight("w", [4, 4])]),
        "unknown iteration count",
    ),
    "branches": (
        model_bytes(nested_branches(12), [INPUT, value("c", [], TensorProto.BOOL)], [OUTPUT], [weight("w", [4, 8])]),
        "over 8 deep",
    ),
    "unknown operator": (
        model_bytes([helper.make_node("F", ["x"], ["y"], domain="own")], [INPUT], [OUTPUT]),
        "not a standard ONNX operator",
    ),
    "no product": (model_bytes([helper.make_node("Relu", ["x"], ["y"])], [INPUT], [OUTPUT]), "nothing to size"),
    "no input": (model_bytes([helper.make_node("Relu", ["w"], ["y"])], [], [OUTPUT], [weight("w", [4, 8])]), "no inputs"),
    "dynamic sizes": (model_bytes(PRODUCT, [value("x", ["n", "t", 4])], [OUTPUT], [weight("w", [4, 8])]), "dynamic sizes"),
    "text": (b"hello world", "not an ONNX file"),
    "truncated": (resnet50()[:-700], "truncated"),
    "nothing": (b"", "empty"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_line(name, tmp_path) -> None:
    data, words = HOSTILE[name]
    with pytest.raises(RightfitError, match=words) as caught:
        counted(tmp_path, data)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("location", ["../w.bin", "/etc/passwd", "a/../../w", "C:\\w", "..\\w", "", "link/passwd"])
def test_data_outside_the_folder_are_refused(location, tmp_path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with pytest.raises(FileInputError, match="outside its folder"):
        counted(tmp_path, model_bytes(PRODUCT, [INPUT], [OUTPUT], [weight("w", [4, 8], external=location)]))


def test_data_beside_the_file_are_counted_and_not_opened(tmp_path) -> None:
    found = counted(tmp_path, model_bytes(PRODUCT, [INPUT], [OUTPUT], [weight("w", [4, 8], external="weights.bin")]))
    assert found.params_total == 32


def test_a_shape_that_the_file_does_not_take(tmp_path) -> None:
    data = model_bytes(PRODUCT, [value("x", [1, 4])], [OUTPUT], [weight("w", [4, 8])])
    with pytest.raises(RightfitError, match="is fixed at"):
        counted(tmp_path, data, "5")
    with pytest.raises(RightfitError, match="has 3 sides"):
        counted(tmp_path, data, "3x4x4")


def test_a_flood_of_empty_operators_ends_at_the_limit(tmp_path) -> None:
    payload, length = b"\x0a\x00" * 1_000_000, b""
    size = len(payload)
    while size:
        length += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
    with pytest.raises(FileInputError, match="1,000,000 operators") as caught:
        counted(tmp_path, b"\x3a" + length + payload)
    assert "\n" not in str(caught.value)


SMALL = model_bytes(PRODUCT, [INPUT], [OUTPUT], [weight("w", [4, 8])])


@given(position=st.integers(0, len(SMALL) - 1), byte=st.integers(0, 255), cut=st.integers(0, len(SMALL)))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_change_of_a_file_gives_counts_or_a_line(tmp_path_factory, position: int, byte: int, cut: int) -> None:
    path = tmp_path_factory.mktemp("onnx") / "net.onnx"
    path.write_bytes((SMALL[:position] + bytes([byte]) + SMALL[position + 1 :])[: max(cut, position + 1)])
    answer = answer_of("onnx", str(path), "")
    if "error" in answer:
        assert "\n" not in answer["error"]
    else:
        assert answer["tally"]["params"] >= 0


def test_counts_are_kept_by_content(tmp_path, monkeypatch) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(SMALL)
    first = own_model(str(path))
    from rightfit.facts.own import models

    models._onnx_record.cache_clear()
    monkeypatch.setattr(models, "run_worker", lambda *_, **__: pytest.fail("counted again"))
    assert own_model(str(path)) == first
    monkeypatch.undo()
    monkeypatch.setenv("RIGHTFIT_CACHE_DIR", str(tmp_path / "cache"))
    path.write_bytes(model_bytes(PRODUCT, [INPUT], [OUTPUT], [weight("w", [4, 16])]))
    assert own_model(str(path)).params_total == 64
