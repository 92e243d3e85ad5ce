"""Configurations of every kind: what they say decides, never the name of their folder; what is
filled in or guessed is told; what cannot be read says why."""

from __future__ import annotations

import dataclasses
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from rightfit import facts
from rightfit.errors import FileInputError
from rightfit.estimation.forward_models import forward_work
from rightfit.estimation.pass_records import PassInput
from rightfit.facts import bundled
from rightfit.facts.config_classes import config_class, count, known_types
from rightfit.facts.config_models import model_from_config
from rightfit.facts.records import DiffusionModel, TracedModel, TransformerArchitecture

DENOISED = [
    one
    for entry in bundled.index()
    if entry.family == "diffusion" and isinstance(one := bundled.load(entry), DiffusionModel) and one.denoiser_class
]
#: Names that mean another model, another kind of model, and nothing.
FOLDERS = ("whisper-large-v3", "resnet50", "llama-3-70b", "deberta-v3", "my-model")
KINDS = (
    *("llama", "qwen3_moe", "deepseek_v3", "nemotron_h", "gemma3", "bert", "deberta-v2", "t5", "bart", "whisper"),
    *("vit", "resnet", "swin", "detr", "segformer", "wav2vec2", "llava", "clip"),
)


def written(model_type: str) -> dict[str, Any]:
    """A configuration of a class with its usual dimensions, as its keys are written."""
    known = config_class(model_type)
    assert known is not None, model_type
    config: dict[str, Any] = {"model_type": model_type}
    for key, value in known.defaults.items():
        place, parts = config, key.split(".")
        for part in parts[:-1]:
            place = place.setdefault(part, {"model_type": known.subtypes.get(part, "")})
        place[parts[-1]] = [word for word, times in value.items() for _ in range(times)] if isinstance(value, dict) else value
    return config


@pytest.mark.parametrize("model_type", [kind for kind in KINDS if kind in known_types()])
def test_the_name_of_a_folder_decides_nothing(model_type: str, tmp_path: Path) -> None:
    found = []
    for name in FOLDERS:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(written(model_type)))
        record = facts.model(str(folder), network=False)
        work = forward_work(PassInput(record.name)) if not _writes(record) else None
        found.append((dataclasses.replace(record, name="", source="", notes=""), work and dataclasses.replace(work, assumptions=())))
    assert all(one == found[0] for one in found), model_type


def _writes(record: object) -> bool:
    return isinstance(record, TransformerArchitecture) and record.kind in ("decoder", "moe-decoder")


def test_most_kinds_of_the_walk_are_in_the_table() -> None:
    assert {kind for kind in KINDS if kind not in known_types()} == set()


def read(config: dict[str, Any]) -> Any:
    return model_from_config(config, name="x", label="x/config.json", source="test")


def test_what_the_class_fills_in_is_told() -> None:
    config = {**written("deepseek_v3"), "num_hidden_layers": 61}
    del config["n_routed_experts"]
    record = read(config)
    assert record.params_total == pytest.approx(671e9, rel=0.001)
    assert record.fields_without_source == "n_routed_experts=256"


def test_a_mixture_without_its_number_of_experts_is_refused_by_the_key() -> None:
    llama = written("llama")
    with pytest.raises(FileInputError, match="num_experts is missing: moe_intermediate_size is present"):
        read({**llama, "model_type": "new_moe", "moe_intermediate_size": 512})
    with pytest.raises(FileInputError, match="its key expand_k indicates a mixer other than attention"):
        read({**llama, "model_type": "new_mixer", "expand_k": 0.5})


def test_linear_attention_keeps_no_keys() -> None:
    record = read(
        {
            "model_type": "gla",
            "hidden_size": 4096,
            "num_hidden_layers": 32,
            "num_heads": 16,
            "intermediate_size": 11008,
            "vocab_size": 32000,
        }
    )
    assert (record.num_linear_layers, record.num_full_attention_layers, record.attention_kind) == (32, 0, "ssm")
    assert "layers keep a state" in record.notes
    assert record.params_total == pytest.approx(6.74e9, rel=0.02)


def test_a_nested_model_of_another_type_is_counted_by_its_own_class() -> None:
    plain, other = written("llava"), written("llava")
    other["text_config"] = {**written("qwen2"), "model_type": "qwen2"}
    told, text, usual = count(other, "llava"), count(other["text_config"], "qwen2"), count(plain, "llava")
    inner = count(plain["text_config"], "llama")
    assert told
    assert text
    assert usual
    assert inner
    assert told.total - usual.total == pytest.approx(text.total - inner.total, abs=10)


def test_networks_that_see_have_their_arithmetic() -> None:
    """ViT-B/16 at 224: 86.6 million parameters with 1,000 classes, 17.6 thousand million multiply-
    adds (timm)."""
    config = {**written("vit"), "num_labels": None, "id2label": {str(at): "x" for at in range(1000)}}
    record = read(config)
    assert isinstance(record, TracedModel)
    assert record.params_total == 86_567_656
    assert record.macs + record.score_macs == pytest.approx(17.6e9, rel=0.03)
    finer = read({**config, "image_size": 384})
    assert finer.macs == pytest.approx(record.macs * (384 / 224) ** 2, rel=0.01)


def test_a_class_whose_arithmetic_is_not_counted_says_so() -> None:
    named = ((kind, config_class(kind)) for kind in known_types())
    unknown = next(kind for kind, one in named if one and not one.work and one.task in ("detection", "segmentation", "base", "series"))
    record = read(written(unknown))
    assert isinstance(record, TracedModel)
    assert record.kind == ""
    assert "its arithmetic is not counted" in record.notes


def test_an_encoder_and_a_decoder_of_their_own() -> None:
    """TrOCR: a ViT and a decoder; the parts add up."""
    encoder, decoder = written("vit"), written("trocr")
    record = read({"model_type": "vision-encoder-decoder", "encoder": encoder, "decoder": decoder})
    seen, told = count(encoder, "vit"), count(decoder, "trocr")
    assert seen
    assert told
    assert record.params_total == seen.total + told.total
    assert (record.kind, record.vision_layers) == ("vlm", 12)


def test_an_adapter_is_its_base(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen2.5-7B", "peft_type": "LORA"}))
    assert facts.model(str(tmp_path), network=False).name == "Qwen/Qwen2.5-7B"
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "./not-there"}))
    with pytest.raises(FileInputError, match=r"it is an adapter of \./not-there, which cannot be read"):
        facts.model(str(tmp_path), network=False)


@pytest.mark.parametrize(
    ("denoiser", "name"),
    [
        ({"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768}, "stable-diffusion-v1-5/stable-diffusion-v1-5"),
        ({"_class_name": "UNet2DConditionModel", "cross_attention_dim": 2048}, "stabilityai/stable-diffusion-xl-base-1.0"),
        (
            {"_class_name": "WanTransformer3DModel", "num_attention_heads": 12, "attention_head_dim": 128, "num_layers": 30},
            "Wan-AI/Wan2.1-T2V-1.3B",
        ),
        (
            {"_class_name": "WanTransformer3DModel", "num_attention_heads": 40, "attention_head_dim": 128, "num_layers": 40},
            "Wan-AI/Wan2.1-T2V-14B",
        ),
    ],
)
def test_a_pipeline_is_told_by_its_denoiser(denoiser: dict[str, Any], name: str, tmp_path: Path) -> None:
    part = "unet" if "UNet" in denoiser["_class_name"] else "transformer"
    (tmp_path / part).mkdir()
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "AnyPipeline", part: ["diffusers", denoiser["_class_name"]]}))
    (tmp_path / part / "config.json").write_text(json.dumps(denoiser))
    for place in (tmp_path, tmp_path / part):
        record = facts.model(str(place), network=False)
        assert isinstance(record, DiffusionModel)
        assert record.name == name
        assert "read as" in record.source


def gguf(entries: dict[str, int | str], tensors: dict[str, tuple[int, ...]]) -> bytes:
    """A header as llama.cpp writes it."""

    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word.encode())) + word.encode()

    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    for key, value in entries.items():
        data += text(key) + (struct.pack("<I", 8) + text(value) if isinstance(value, str) else struct.pack("<II", 4, value))
    for name, shape in tensors.items():
        data += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", 0, 0)
    return data


def test_the_header_of_a_gguf_file(tmp_path: Path) -> None:
    entries: dict[str, int | str] = {
        "general.architecture": "llama", "llama.block_count": 2, "llama.embedding_length": 256, "llama.feed_forward_length": 512,
        "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2, "llama.context_length": 4096, "llama.vocab_size": 1000,
    }  # fmt: skip
    file = tmp_path / "whisper-tiny.Q4_K_M.gguf"
    file.write_bytes(gguf(entries, {"token_embd.weight": (256, 1000), "output.weight": (256, 1000)}))
    record = facts.model(str(file), network=False)
    assert isinstance(record, TransformerArchitecture)
    assert (record.num_layers, record.num_kv_heads, record.max_position, record.params_total) == (2, 2, 4096, 512_000)
    for data in (b"GGUF", b"PK..", gguf(entries, {})[:90]):
        file.write_bytes(data)
        with pytest.raises(FileInputError, match="not a complete GGUF file"):
            facts.model(str(file), network=False)


@pytest.mark.parametrize("model_type", known_types())
def test_every_recorded_class_gives_a_record_or_one_line(model_type: str) -> None:
    known = config_class(model_type)
    assert known is not None
    found = count(written(model_type), model_type)
    assert found is not None
    assert found.total > 0
    try:
        assert read(written(model_type)).params_total > 0
    except FileInputError as refused:
        problem = str(refused)
    else:
        problem = ""
    assert "\n" not in problem


def inside(model_type: str) -> list[str]:
    """The nested configurations of a class that it counts by classes of their own."""
    known = config_class(model_type)
    assert known is not None
    return [part for part, usual in known.subtypes.items() if "." not in part and config_class(usual) and usual != model_type]


@pytest.mark.parametrize("model_type", [kind for kind in known_types() if inside(kind)])
def test_a_part_that_is_called_as_the_whole_is_the_usual_part(model_type: str) -> None:
    """Files of the first releases of a class give the tower the name of the whole model."""
    config = written(model_type)
    usual = count(config, model_type)
    for part in inside(model_type):
        if isinstance(config.get(part), dict):
            older = {**config, part: {**config[part], "model_type": model_type}}
            assert count(older, model_type) == usual, part


#: A letter of the pattern, and the kind of layer that it stands for.
LETTERS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}


@pytest.mark.parametrize("pattern", ["M*-E", "MEMEM*EMEM*E", "M-M-M*-M-", "*-*-", "MM**"])
def test_layers_that_are_spelled_are_layers_that_are_listed(pattern: str) -> None:
    config = {key: value for key, value in written("nemotron_h").items() if key != "layers_block_type"}
    spelled = read({**config, "hybrid_override_pattern": pattern, "num_hidden_layers": len(pattern)})
    listed = read({**config, "layers_block_type": [LETTERS[one] for one in pattern], "num_hidden_layers": len(pattern)})
    assert dataclasses.replace(spelled, notes="") == dataclasses.replace(listed, notes="")
    assert spelled.num_full_attention_layers == pattern.count("*")
    assert spelled.num_layers == len(pattern)


@pytest.mark.parametrize("attending", [0, 1, 3, 6])
@pytest.mark.parametrize("inner_type", ["lfm2", "lfm2_vl"])
def test_layers_of_short_convolutions_have_their_own_matrices(inner_type: str, attending: int) -> None:
    """A convolution's layer: three products in, one out and three taps a channel; in the place of
    an attention of 32 heads, 8 of them with keys."""
    text = {"model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192, "vocab_size": 65536, "block_auto_adjust_ff_dim": False}  # fmt: skip
    text["layer_types"] = ["full_attention"] * attending + ["conv"] * (6 - attending)
    config = text if inner_type == "lfm2" else {**written("lfm2_vl"), "text_config": text}
    found, all_full = count(config, inner_type), count({**config, **({"text_config": {**text, "layer_types": ["full_attention"] * 6}} if inner_type == "lfm2_vl" else {"layer_types": ["full_attention"] * 6})}, inner_type)  # fmt: skip
    assert found
    assert all_full
    h = 2048
    attention, convolution = 2 * h * h + 2 * h * 512 + 2 * 64, 4 * h * h + 3 * h
    assert found.total - all_full.total == (6 - attending) * (convolution - attention)


@pytest.mark.parametrize("config", [{}, {"Unet": [64, 128]}, {"model": "glow_tts", "epochs": 100, "audio": {"num_mels": 80}}, {"lr": 0.1}])
def test_a_file_that_describes_no_model_says_so(config: dict[str, Any]) -> None:
    with pytest.raises(FileInputError, match="no configuration of a model"):
        read(config)


@pytest.mark.parametrize("layers", [2, 12])
def test_a_bert_of_gated_layers_is_no_plain_bert(layers: int) -> None:
    """MosaicBERT is called bert: its first product makes two widths, and no position is learned."""
    plain = {**written("bert"), "num_hidden_layers": layers}
    record, usual = read({**plain, "alibi_starting_size": 512}), read(plain)
    width, inner = usual.hidden_size, usual.intermediate_size
    assert record.kind == "encoder"
    difference = record.params_total - usual.params_total
    assert difference == pytest.approx(layers * width * inner - usual.max_position * width, rel=0.02)


@pytest.mark.parametrize("kind", sorted({one.denoiser_class for one in DENOISED}))
def test_a_class_of_several_sizes_is_not_taken_for_one(kind: str, tmp_path: Path) -> None:
    """A pipeline whose parts are not there names a class alone: of one size it is that model, of
    several it is asked which."""
    part = "unet" if "UNet" in kind else "transformer"
    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "AnyPipeline", part: ["diffusers", kind]}))
    sizes = [one.denoiser_params for one in DENOISED if one.denoiser_class == kind]
    if max(sizes) > 1.05 * min(sizes):
        with pytest.raises(FileInputError, match=f"configuration of {kind} is missing"):
            facts.model(str(tmp_path), network=False)
    else:
        assert isinstance(facts.model(str(tmp_path), network=False), DiffusionModel)
