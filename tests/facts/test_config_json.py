"""config.json of real models, of model classes, and of nobody in his right mind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit import facts
from rightfit.errors import FileInputError
from rightfit.facts.config_json import architecture_from_config, parse_config
from rightfit.facts.config_models import read_config
from rightfit.facts.config_reader import families
from rightfit.facts.records import TransformerArchitecture

STEADY = settings(deadline=None, derandomize=True, max_examples=150)
HERE = Path(__file__).parent
KNOWN: dict[str, dict[str, Any]] = json.loads((HERE / "known_configs.json").read_text())
CLASSES: dict[str, dict[str, Any]] = json.loads((HERE / "config_counts.json").read_text())
LLAMA = KNOWN["meta-llama/Meta-Llama-3-8B"]
DIMENSIONS = [
    "kind",
    "num_layers",
    "hidden_size",
    "num_heads",
    "num_kv_heads",
    "head_dim",
    "intermediate_size",
    "vocab_size",
    "max_position",
    "tied_embeddings",
    "attention_kind",
    "mlp_kind",
    "norm",
    "qkv_bias",
    "attention_out_bias",
    "mlp_bias",
    "qk_norm",
    "learned_positions",
    "num_experts",
    "experts_per_token",
    "num_shared_experts",
    "moe_intermediate_size",
    "num_moe_layers",
    "kv_lora_rank",
    "q_lora_rank",
    "num_full_attention_layers",
    "num_sliding_layers",
    "num_encoder_layers",
    "num_decoder_layers",
    "sliding_window",
    "params_embedding",
]
WINDOW = {"attention_kind", "num_full_attention_layers", "num_sliding_layers", "sliding_window"}
# Where file and bundled row differ, and why: the rows leave out windows that the files state;
# falcon-40b's row has a bias that its file switches off; T5 has no limit of positions, though its
# file states 512.
DIFFERENT: dict[str, set[str]] = {
    "microsoft/Phi-3-mini-4k-instruct": WINDOW,
    "bigcode/starcoder2-7b": WINDOW,
    "tiiuae/falcon-40b": {"mlp_bias"},
    "google-t5/t5-base": {"max_position"},
}
FAR_OFF = {
    "mistral3": 0.03,  # the class ties the head in v5 against its own text_config; the checkpoints do not
    "internvl": 0.06,  # the same
    "gemma3": 0.003,  # the default tower has a pooling head that the checkpoints switch off
}


def read(config: object, label: str = "x/config.json") -> TransformerArchitecture:
    parsed = parse_config(json.dumps(config).encode(), label=label)
    return architecture_from_config(parsed, name="x", label=label, source="test")


@pytest.mark.parametrize("name", KNOWN)
def test_real_configs_give_the_bundled_record(name: str) -> None:
    record, bundled = read(KNOWN[name]), facts.model(name)
    assert isinstance(bundled, TransformerArchitecture)
    different = {field for field in DIMENSIONS if getattr(record, field) != getattr(bundled, field)}
    assert different == DIFFERENT.get(name, set())
    assert record.params_total == pytest.approx(bundled.params_total, rel=5e-6)
    assert record.params_active == pytest.approx(bundled.params_active, rel=1e-4)
    assert record.certainty == "config"
    assert record.notes == ""


@pytest.mark.parametrize("model_type", CLASSES)
def test_counts_equal_those_of_the_model_classes(model_type: str) -> None:
    reference = CLASSES[model_type]
    record = read(reference["config"])
    assert record.params_total == pytest.approx(reference["params"], rel=FAR_OFF.get(model_type, 5e-4))


def test_every_family_of_the_brief_is_known() -> None:
    known = set(families()["family"]) | set(families()["text_types"]) | set(families()["refused"])
    for family in [
        "llama",
        "mistral",
        "mixtral",
        "qwen",
        "qwen2",
        "qwen2_moe",
        "qwen3",
        "qwen3_moe",
        "chatglm",
        "glm",
        "glm4",
        "deepseek",
        "deepseek_v2",
        "deepseek_v3",
        "gemma",
        "gemma2",
        "gemma3_text",
        "phi",
        "phi3",
        "gpt2",
        "gpt_neox",
        "gpt_bigcode",
        "falcon",
        "mpt",
        "opt",
        "bloom",
        "baichuan",
        "internlm2",
        "starcoder2",
        "stablelm",
        "olmo",
        "bert",
        "roberta",
        "distilbert",
        "electra",
        "deberta",
        "deberta-v2",
        "t5",
        "mt5",
        "umt5",
        "bart",
        "whisper",
        "mamba",
        "gpt_oss",
        "minicpm",
        "cohere",
        "dbrx",
        "qwen2_vl",
    ]:
        assert family in known, family


def test_unknown_type_with_usual_keys_is_read_and_said() -> None:
    record = read({**LLAMA, "model_type": "brand_new"})
    assert record.params_total == 8_030_261_248
    assert "model type 'brand_new' is not in our table" in record.notes
    assert "names no model type" in read({key: value for key, value in LLAMA.items() if key != "model_type"}).notes


def test_known_but_unreadable_families_are_named() -> None:
    with pytest.raises(FileInputError, match="model_type recurrent_gemma cannot be read from a config file: its recurrent blocks"):
        read({**LLAMA, "model_type": "recurrent_gemma"})


@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size"])
def test_missing_key_is_named(key: str) -> None:
    with pytest.raises(FileInputError, match=rf"^x/config\.json: key {key} is missing$"):
        read({other: value for other, value in LLAMA.items() if other != key})


@pytest.mark.parametrize(
    "key", ["num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size", "num_key_value_heads"]
)
@pytest.mark.parametrize("value", [-1, 0, 1.5, "4096", True, [], {}, 10**30, 1e300, "x" * 10_000])
def test_absurd_dimension_is_named(key: str, value: object) -> None:
    with pytest.raises(FileInputError, match=rf"^x/config\.json: .*{key} ") as caught:
        read({**LLAMA, key: value})
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 4097}, "hidden_size 4097 is not divisible by num_attention_heads 32"),
        ({"num_key_value_heads": 5}, "num_key_value_heads 5 does not divide num_attention_heads 32"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings is 'yes'; it must be true or false"),
        ({"model_type": 3}, "model_type is 3; it must be a string"),
        ({"text_config": [1]}, "text_config is .*; it must be an object"),
        ({"text_config": {"model_type": "llama", "num_hidden_layers": -3}}, r"text_config\.num_hidden_layers is -3"),
        ({"vision_config": {"model_type": "clip_vision_model", "hidden_size": 0}}, r"vision_config\.hidden_size is 0"),
        ({"layer_types": ["full_attention"]}, "layer_types must list one type for each of the 32 layers"),
        ({"layer_types": ["full_attention", "telepathy"] * 16}, "layer_types contains 'telepathy'"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok 9 is more than the 8 experts"),
        ({"num_local_experts": 8}, "key num_experts_per_tok is missing"),
        ({"num_local_experts": "eight"}, "num_local_experts is 'eight'; it must be a whole number"),
    ],
)
def test_contradictions_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(FileInputError, match=message):
        read({**LLAMA, **change})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"  \n ", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"{", "not JSON at line 1, column 2"),
        (b'{"a": 1,}', "not JSON at line 1"),
        (b"hello", "not JSON at line 1, column 1"),
        (b"[1, 2]", "contains a list, not an object"),
        (b"null", "contains null, not an object"),
        (b"3", "contains a number, not an object"),
        (b'"x"', "contains a string, not an object"),
        (b'{"a": 1, "b": {"a": 1, "a": 2}}', "key 'a' is given twice"),
        (b'{"a": "\xff\xfe"}', "not UTF-8 text at byte 7"),
        (b"\x00\x01\x02", "not JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"hidden_size": ' + b"9" * 10_000 + b"}", "a number cannot be read"),
        (b" " * 6_000_000, "larger than 5 MB, so not a model configuration"),
    ],
)
def test_broken_files(data: bytes, message: str) -> None:
    with pytest.raises(FileInputError, match=message) as caught:
        parse_config(data, label="x/config.json")
    assert str(caught.value).startswith("x/config.json: ")
    assert "\n" not in str(caught.value)


def test_other_encodings_that_windows_writes() -> None:
    text = json.dumps(LLAMA)
    for encoding in ("utf-8-sig", "utf-16"):
        parsed = parse_config(text.encode(encoding), label="x")
        assert parsed == LLAMA


@pytest.mark.parametrize("word", ["1e999", "Infinity", "-Infinity", "NaN"])
def test_a_number_beyond_floats_is_refused_where_a_dimension_is_one(word: str) -> None:
    parsed = parse_config(f'{{"hidden_size": {word}, "num_hidden_layers": 2}}'.encode(), label="x")
    with pytest.raises(FileInputError, match=r"hidden_size is (-?inf|nan); it must be a whole number"):
        architecture_from_config(parsed, name="x", label="x", source="t")
    file = json.dumps({**LLAMA, "time_step_limit": [0.0, float("inf")]})  # as real files of Nemotron-H have it
    assert architecture_from_config(parse_config(file.encode(), label="x"), name="x", label="x", source="t").num_layers == 32


def test_files_and_folders(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "_name_or_path": "meta-llama/Meta-Llama-3-8B"}))
    assert read_config(tmp_path).name == str(tmp_path)  # where the file says that it came from tells nothing about it
    found = read_config(file)
    assert isinstance(found, TransformerArchitecture)
    assert found.params_total == 8_030_261_248
    with pytest.raises(FileInputError, match="no such file"):
        read_config(tmp_path / "absent.json")
    with pytest.raises(FileInputError, match="no such file"):
        read_config("a\0b")
    (tmp_path / "folder.json").mkdir()
    with pytest.raises(FileInputError, match=r"a folder without config\.json"):
        read_config(tmp_path / "folder.json")


def test_a_hundred_megabytes_are_not_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as stream:
        stream.truncate(100_000_000)
    with pytest.raises(FileInputError, match="100 MB is too large for a model configuration; the limit is 5 MB"):
        read_config(file)


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
KEYS = sorted({key for config in (*KNOWN.values(), *(one["config"] for one in CLASSES.values())) for key in config})
TYPES = sorted({*families()["family"], *families()["refused"], *families()["text_types"]})


def complaint(config: object) -> str:
    try:
        architecture_from_config(config, name="x", label="x", source="t")  # type: ignore[arg-type]
    except FileInputError as error:
        return str(error)
    return ""


@STEADY
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=10), ODD, max_size=12))
def test_any_object_gives_a_record_or_our_error(config: dict[str, object]) -> None:
    assert "\n" not in complaint(config)


@STEADY
@given(st.sampled_from(sorted(KNOWN)), st.sampled_from(KEYS), ODD, st.sampled_from(TYPES))
def test_any_spoilt_config_gives_a_record_or_our_error(name: str, key: str, value: object, model_type: str) -> None:
    assert "\n" not in complaint({**KNOWN[name], key: value})
    assert "\n" not in complaint({**KNOWN[name], "model_type": model_type, key: value})


@STEADY
@given(st.sampled_from(TYPES), st.integers(-2, 40), st.integers(-2, 40), st.integers(-2, 40))
def test_any_family_with_small_numbers_gives_a_record_or_our_error(model_type: str, one: int, two: int, three: int) -> None:
    numbers = {key: (one, two, three)[index % 3] for index, key in enumerate(KEYS) if not key.endswith("config")}
    assert "\n" not in complaint({**numbers, "model_type": model_type})


@STEADY
@given(st.binary(max_size=200))
def test_any_bytes_give_an_object_or_our_error(data: bytes) -> None:
    try:
        parse_config(data, label="x")
    except FileInputError as error:
        message = str(error)
    else:
        message = ""
    assert "\n" not in message
