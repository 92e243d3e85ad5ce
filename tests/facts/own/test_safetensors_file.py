"""Safetensors: parameters from headers, the configuration beside them, and files that are
broken or mean harm."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("safetensors")

from safetensors import numpy as numpy_files

from rightfit.errors import FileInputError, RightfitError
from rightfit.facts.own.models import own_model
from rightfit.facts.own.safetensors_file import missing_text
from rightfit.facts.records import TracedModel, TransformerArchitecture, VisionModel

HIDDEN, LAYERS, VOCAB, INNER = 64, 2, 1000, 128
CONFIG = {
    "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": 4, "vocab_size": VOCAB, "intermediate_size": INNER,
    "max_position_embeddings": 512, "tie_word_embeddings": False,
}  # fmt: skip


def llama() -> dict[str, np.ndarray]:
    shapes = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "lm_head.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}self_attn.{name}_proj.weight": (HIDDEN, HIDDEN) for name in "qkvo"}
        shapes |= {f"{prefix}mlp.{name}_proj.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        shapes |= {
            f"{prefix}mlp.down_proj.weight": (HIDDEN, INNER),
            f"{prefix}input_layernorm.weight": (HIDDEN,),
            f"{prefix}post_attention_layernorm.weight": (HIDDEN,),
        }
    return {name: np.zeros(shape, np.float16) for name, shape in shapes.items()}


PARAMETERS = 2 * VOCAB * HIDDEN + HIDDEN + LAYERS * (4 * HIDDEN**2 + 3 * HIDDEN * INNER + 2 * HIDDEN)


def test_parameters_alone_say_what_is_missing(tmp_path) -> None:
    numpy_files.save_file(llama(), tmp_path / "net.safetensors")
    found = own_model(str(tmp_path / "net.safetensors"))
    assert isinstance(found, TracedModel)
    assert (found.params_total, found.stored_bytes, found.params_embedding) == (PARAMETERS, 2 * PARAMETERS, VOCAB * HIDDEN)
    assert "Llama-like" in found.notes
    assert "2 layers" in found.notes
    assert "config.json" in str(missing_text(found))


def test_a_configuration_beside_it_makes_a_language_model(tmp_path) -> None:
    numpy_files.save_file(llama(), tmp_path / "net.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    found = own_model(str(tmp_path / "net.safetensors"))
    assert isinstance(found, TransformerArchitecture)
    assert (found.params_total, found.num_layers, found.params_stored) == (PARAMETERS, LAYERS, PARAMETERS)


def test_a_configuration_of_another_model_is_refused(tmp_path) -> None:
    numpy_files.save_file(llama(), tmp_path / "net.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 20}))
    with pytest.raises(FileInputError, match="belong together"):
        own_model(str(tmp_path / "net.safetensors"))


def test_a_vision_model_named_by_its_configuration(tmp_path) -> None:
    numpy_files.save_file({"conv1.weight": np.zeros((25_557_032,), np.float16)}, tmp_path / "net.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"architecture": "resnet50", "num_classes": 1000}))
    found = own_model(str(tmp_path / "net.safetensors"))
    assert isinstance(found, VisionModel)
    assert found.name == "timm/resnet50"


def test_shards_and_their_index(tmp_path) -> None:
    tensors = llama()
    names = list(tensors)
    files = ["net-00001-of-00002.safetensors", "net-00002-of-00002.safetensors"]
    numpy_files.save_file({name: tensors[name] for name in names[:7]}, tmp_path / files[0])
    numpy_files.save_file({name: tensors[name] for name in names[7:]}, tmp_path / files[1])
    index = {"weight_map": {name: files[int(at >= 7)] for at, name in enumerate(names)}}
    (tmp_path / "net.safetensors.index.json").write_text(json.dumps(index))
    assert own_model(str(tmp_path)).params_total == PARAMETERS
    assert own_model(str(tmp_path / "net.safetensors.index.json")).params_total == PARAMETERS
    (tmp_path / files[1]).unlink()
    with pytest.raises(FileInputError, match="no such file"):
        own_model(str(tmp_path / "net.safetensors.index.json"))


def test_packed_weights_count_what_they_stand_for(tmp_path) -> None:
    gptq = {"a.qweight": np.zeros((16, 64), np.int32), "a.scales": np.zeros((4, 64), np.float16), "a.g_idx": np.zeros((128,), np.int32)}
    numpy_files.save_file(gptq, tmp_path / "gptq.safetensors")
    assert own_model(str(tmp_path / "gptq.safetensors")).params_total == 128 * 64


@pytest.mark.parametrize("name", ["../net.safetensors", "/etc/net.safetensors", "a/b.safetensors", "..", "secret.txt", 5])
def test_an_index_that_points_elsewhere(tmp_path, name) -> None:
    (tmp_path / "net.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(FileInputError) as caught:
        own_model(str(tmp_path / "net.safetensors.index.json"))
    assert "\n" not in str(caught.value)


def headed(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"0000"


HOSTILE = {
    "header too long": struct.pack("<Q", 2**62) + b"{}",
    "sizes that cannot be": headed({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}),
    "offsets beyond the file": headed({"a": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}),
    "list": headed([1, 2]),
    "no tensors": struct.pack("<Q", 2) + b"{}",
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_one_line(name, tmp_path) -> None:
    (tmp_path / "net.safetensors").write_bytes(HOSTILE[name])
    with pytest.raises(FileInputError) as caught:
        own_model(str(tmp_path / "net.safetensors"))
    assert "\n" not in str(caught.value)


def test_an_adapter_is_no_model(tmp_path) -> None:
    numpy_files.save_file({"q.lora_A.weight": np.zeros((4, 4), np.float32)}, tmp_path / "net.safetensors")
    with pytest.raises(FileInputError, match="adapter"):
        own_model(str(tmp_path / "net.safetensors"))


SMALL = numpy_files.save({"a.weight": np.zeros((2, 3), np.float32), "b.bias": np.zeros((3,), np.float16)})


@given(position=st.integers(0, len(SMALL) - 1), byte=st.integers(0, 255), cut=st.integers(1, len(SMALL)))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_any_change_of_a_file_gives_counts_or_a_line(tmp_path_factory, position: int, byte: int, cut: int) -> None:
    path = tmp_path_factory.mktemp("tensors") / "net.safetensors"
    path.write_bytes((SMALL[:position] + bytes([byte]) + SMALL[position + 1 :])[: max(cut, position + 1)])
    try:
        answer = str(own_model(str(path)).params_total)
    except RightfitError as error:
        answer = str(error)
    assert "\n" not in answer
