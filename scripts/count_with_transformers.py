#!/usr/bin/env python
"""Count parameters with the model classes themselves: the reference for
tests/facts/test_config_json.py.

    pip install transformers torch
    python scripts/count_with_transformers.py > tests/facts/config_counts.json

Each model type's default configuration is built on the meta device (no memory), every tensor
counted once. Types whose default cannot be built, or has no parameters of its own to compare, are
left out and named on standard error. Made with transformers 5.23.0.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

CAUSAL = [
    "llama",
    "mistral",
    "mixtral",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "glm",
    "glm4",
    "glm4_moe",
    "deepseek_v2",
    "deepseek_v3",
    "gemma",
    "gemma2",
    "gemma3_text",
    "phi",
    "phi3",
    "gpt2",
    "gpt_neo",
    "gptj",
    "gpt_neox",
    "gpt_bigcode",
    "falcon",
    "mpt",
    "opt",
    "bloom",
    "starcoder2",
    "stablelm",
    "olmo",
    "olmo2",
    "olmo3",
    "olmoe",
    "mamba",
    "gpt_oss",
    "cohere",
    "cohere2",
    "granite",
    "granitemoe",
    "codegen",
    "phimoe",
    "smollm3",
    "ernie4_5",
    "ernie4_5_moe",
    "jamba",
    "exaone4",
    "seed_oss",
    "arcee",
    "minicpm3",
]
BASE = [
    "bert",
    "roberta",
    "xlm-roberta",
    "distilbert",
    "electra",
    "albert",
    "deberta",
    "deberta-v2",
    "modernbert",
    "mpnet",
    "camembert",
    "ernie",
    "bart",
    "mbart",
    "pegasus",
    "marian",
    "m2m_100",
    "whisper",
]
SEQ2SEQ = ["t5", "mt5", "umt5"]
VISION = [
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_vl",
    "llava",
    "gemma3",
    "mistral3",
    "paligemma",
    "internvl",
    "glm4v",
    "qwen3_5",
    "qwen3_5_moe",
    "llama4",
    "idefics2",
]
# Defaults that leave out what the published checkpoints use.
CHANGED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"num_experts_per_tok": 6},
    "bloom": {"hidden_size": 1024, "n_layer": 24, "n_head": 16},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False},
    "deberta-v2": {
        "relative_attention": True,
        "position_buckets": 256,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
}
NOISE = ("_token_id", "_token_index", "dropout", "_pdrop", "id2label", "label2id", "_eps", "_epsilon", "rope_parameters", "initializer")


def without_noise(value: Any) -> Any:
    """A configuration without the keys that say nothing about its size."""
    if not isinstance(value, dict):
        return value
    return {key: without_noise(inner) for key, inner in value.items() if inner is not None and not any(word in key for word in NOISE)}


def count(model_type: str, loader: Any) -> dict[str, Any]:
    """Class, parameters and configuration of one model type."""
    import torch
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[model_type](**CHANGED.get(model_type, {}))
    with torch.device("meta"):
        model = loader.from_config(config)
        model.tie_weights()
    total = sum(parameter.numel() for parameter in model.parameters())
    written = without_noise(json.loads(config.to_json_string(use_diff=False)))
    return {"class": type(model).__name__, "params": total, "config": written}


def main() -> None:
    """Write one JSON object, a line a model type."""
    import transformers

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    groups = [
        (CAUSAL, transformers.AutoModelForCausalLM),
        (BASE, transformers.AutoModel),
        (SEQ2SEQ, transformers.AutoModelForSeq2SeqLM),
        (VISION, transformers.AutoModelForImageTextToText),
    ]
    lines = []
    for types, loader in groups:
        for model_type in types:
            try:
                lines.append(f"{json.dumps(model_type)}: {json.dumps(count(model_type, loader), separators=(',', ':'))}")
            except Exception as error:
                print(f"{model_type} left out: {type(error).__name__}: {str(error)[:100]}", file=sys.stderr)
    print("{\n" + ",\n".join(sorted(lines)) + "\n}")


if __name__ == "__main__":
    main()
