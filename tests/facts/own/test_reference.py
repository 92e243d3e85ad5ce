"""What means a model of one's own, and how its input is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightfit import facts
from rightfit.errors import ContradictionError, QuantityError, RightfitError
from rightfit.facts.own.reference import is_own, parse, read_shape, with_input


@pytest.mark.parametrize(
    ("text", "kind", "target", "sides"),
    [
        ("./net.onnx", "onnx", "./net.onnx", ()),
        ("NET.ONNX[3x224x224]", "onnx", "NET.ONNX", (3, 224, 224)),
        ("a/model.safetensors", "safetensors", "a/model.safetensors", ()),
        ("a/model.safetensors.index.json", "safetensors", "a/model.safetensors.index.json", ()),
        ("my_pkg.models:build_net [512tokens]", "function", "my_pkg.models:build_net", (512,)),
    ],
)
def test_models_of_ones_own(text: str, kind: str, target: str, sides: tuple[int, ...]) -> None:
    found = parse(text)
    assert found is not None
    assert (found.kind, found.target, found.shape.sides) == (kind, target, sides)
    assert facts.own_reference(text)
    assert parse(found.text) == found


@pytest.mark.parametrize(
    "text",
    [
        "resnet50",
        "7B",
        "gpt2",
        "meta-llama/Meta-Llama-3-8B",
        "hf:org",
        "ms:org/name",
        "layers=2,hidden=64",
        "config.json",
        "./config.json",
        "",
        "C:\\net",
    ],
)
def test_what_is_none(text: str) -> None:
    assert not is_own(text)
    assert not facts.own_reference(text)


def test_options_say_the_input() -> None:
    assert with_input("a:b", image_size="224") == "a:b[3x224x224]"
    assert with_input("a:b", image_size="224x320") == "a:b[3x224x320]"
    assert with_input("a:b", seq_len=512) == "a:b[512tokens]"
    assert with_input("a:b", input_shape="1 x 80 × 3000") == "a:b[1x80x3000]"
    assert with_input("a:b[3x224x224]", image_size="224") == "a:b[3x224x224]"
    assert with_input("a:b[3x224x224]") == "a:b[3x224x224]"
    assert with_input("a:b", input_shape="3x32x32", image_size="32") == "a:b[3x32x32]"


def test_options_that_contradict_each_other() -> None:
    with pytest.raises(ContradictionError, match="input_shape and image_size contradict"):
        with_input("a:b", input_shape="1x28x28", image_size="28")
    with pytest.raises(ContradictionError, match="brackets"):
        with_input("a:b[3x224x224]", image_size="384")


@pytest.mark.parametrize("text", ["0", "3x0x3", "axb", "3x-1", "9" * 40, "1x1x1x1x1x1", "3.5", "16777217", "16777216x16777216"])
def test_shapes_that_cannot_be(text: str) -> None:
    with pytest.raises(QuantityError, match="input_shape") as caught:
        read_shape(text)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=60))
def test_any_text_is_a_shape_or_a_line(text: str) -> None:
    try:
        answer = read_shape(text).text
    except RightfitError as error:
        answer = str(error)
    assert "\n" not in answer


@given(st.text(max_size=60))
def test_any_text_can_be_asked(text: str) -> None:
    assert facts.own_reference(text) == (facts.own_reference(text) and is_own(text))


def test_code_runs_for_plans_alone(tmp_path, monkeypatch) -> None:
    (tmp_path / "evil_rows.py").write_text("import pathlib\npathlib.Path('ran').touch()\ndef build(): ...\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RightfitError, match="runs your code"):
        facts.model("evil_rows:build")
    from rightfit import predict

    row = predict([{"id": "1", "metric": "images_per_s", "model": "evil_rows:build", "device": "T4"}])[0]
    assert row["error"]
    assert not (tmp_path / "ran").exists()
