"""What the configuration of a quantised checkpoint says of its weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rightfit.facts.config_json import stated_quantization
from rightfit.facts.engines import published_format
from rightfit.search.service.stacks import format_rows

NAMES = {
    "Qwen/Qwen2.5-7B-Instruct-AWQ": "int4-awq",
    "TheBloke/Llama-2-7B-GPTQ": "int4-gptq",
    "RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8": "fp8",
    "nvidia/DeepSeek-R1-FP4": "nvfp4",
    "nvidia/Llama-3.1-8B-Instruct-NVFP4": "nvfp4",
    "openai/gpt-oss-20b": "mxfp4",
    "someone/model-MXFP4": "mxfp4",
    "unsloth/Llama-3.2-3B-Instruct-GGUF": "gguf-q4_k_m",
    "Meta-Llama-3.1-8B-Instruct-Q6_K.gguf": "gguf-q6_k",
    "neuralmagic/Llama-3-8B-quantized.w8a8": "int8",
    "bartowski/Qwen2.5-32B-Instruct-IQ4_XS.gguf": "gguf-q4_0",
    "Qwen2.5-32B-Instruct-UD-Q4_K_XL": "gguf-q4_k_m",
    "unsloth/llama-3-8b-bnb-4bit": "nf4",
    "deepseek-ai/DeepSeek-V3": "fp8",
    "Qwen/Qwen2.5-7B-Instruct": "",
    "meta-llama/Meta-Llama-3-8B": "",
    "google/gemma-3-4b-it": "",
}
CONFIGS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"quant_method": "awq", "bits": 4}, "int4-awq"),
    ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4-gptq"),
    ({"quant_method": "gptq", "bits": 8}, "int8"),
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
    ({"quant_method": "mxfp4"}, "mxfp4"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4"),
    ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
    ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int"}}}}, "int4-gptq"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
)


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_names_tell_the_format(name: str, expected: str) -> None:
    assert published_format(name) == expected
    assert not expected or expected in format_rows()


@pytest.mark.parametrize(("stated", "expected"), CONFIGS)
def test_configurations_tell_the_format(stated: dict[str, Any], expected: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", "quantization_config": stated}))
    for place in (tmp_path, tmp_path / "config.json"):
        assert published_format(f"x {stated_quantization(str(place))} y") == expected


@pytest.mark.parametrize("text", ["", "meta-llama/Meta-Llama-3-8B", "/no/such/folder"])
def test_names_have_no_configuration(text: str) -> None:
    assert stated_quantization(text) == ""


def test_broken_files_tell_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("not json")
    assert stated_quantization(str(tmp_path)) == ""


@pytest.mark.parametrize(("bits", "expected"), [(4, "int4-gptq"), (8, "int8"), (0, ""), (None, ""), ("x", "")])
def test_a_width_that_stands_alone_tells_the_format(bits: Any, expected: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "chatglm", "quantization_bit": bits}))
    assert published_format(f"x {stated_quantization(str(tmp_path))} y") == expected
