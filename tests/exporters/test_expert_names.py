"""The names by which programs are told what gets an adapter (attention of any model, axolotl of a
mixture of experts) are names that the models have: architectures of our records, tiny and without
weights, under PEFT."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit.exports.learning import ADAPTER_LETTERS, OTHER_NAMES
from rightfit.exports.targets.finetuning import ATTENTION, EXPERTS, LINEAR_ATTENTION, OTHER_EXPERTS

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", minversion="5.0")
peft = pytest.importorskip("peft")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, about each other

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 64, "head_dim": 8}
EXPERT = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MODELS: dict[str, dict[str, Any]] = {
    "mixtral": {"intermediate_size": 16},
    "qwen3_moe": {"decoder_sparse_step": 1, "mlp_only_layers": []},
    "qwen3_next": {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    "gpt_oss": {"intermediate_size": 16},
    "glm4_moe": {"first_k_dense_replace": 0},
    "deepseek_v3": {"first_k_dense_replace": 0, "n_group": 1, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16},
    "granitemoe": {"intermediate_size": 16},
    "llama4_text": {"intermediate_size": 16, "intermediate_size_mlp": 16, "interleave_moe_layer_step": 1, "moe_layers": [0, 1]},
    "nemotron_h": {"layers_block_type": ["attention", "moe"], "n_groups": 1, "mamba_num_heads": 4, "mamba_head_dim": 8},
}
FAMILIES = {"nemotron_h": "nemotron-3"}


@pytest.mark.parametrize("kind", list(MODELS))
def test_adapters_find_attention_and_all_experts(kind: str) -> None:
    experts = OTHER_EXPERTS.get(FAMILIES.get(kind, ""), EXPERTS)
    config = transformers.AutoConfig.for_model(kind, **{**SMALL, **EXPERT, **MODELS[kind]})
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    targets = {"target_modules": [*ATTENTION, *LINEAR_ATTENTION], "target_parameters": sorted(set(experts.values()))}
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, **targets), low_cpu_mem_usage=True)
    names = {name for name, part in adapted.named_parameters() if part.requires_grad}
    assert any("experts" in name for name in names), sorted(names)
    assert any("_proj" in name and "experts" not in name for name in names), sorted(names)
    found = adapted.base_model.targeted_parameter_names
    assert {name.rpartition(".")[2] for name in found} == {name.rpartition(".")[2] for name in experts.values()}


ALIKE = {"xlm-roberta": "xlm-roberta", "minilm": "bert", "byt5": "t5", "deberta-v3": "deberta-v2"}
"""Family of the records -> its type in Transformers, where they differ."""
SIZES = {"num_decoder_layers": 2, "d_model": 32, "dim": 32, "n_heads": 4, "n_layers": 2, "hidden_dim": 64, "embedding_size": 32, "d_kv": 8}
OPEN = (
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "gemma2",
    "gemma3_text",
    "phi",
    "olmo2",
    "cohere",
    "stablelm",
    "starcoder2",
    "mixtral",
    "gpt_oss",
)


@pytest.mark.parametrize("family", [*OTHER_NAMES, *OPEN])
def test_letters_of_attention_are_names_that_the_model_has(family: str) -> None:
    """Each of q, k, v and o that a family has is found in every layer."""
    names = OTHER_NAMES.get(family) or {letter: ADAPTER_LETTERS[letter] for letter in "qkv"}
    config = transformers.AutoConfig.for_model(ALIKE.get(family, family), **{**SMALL, **SIZES, "num_layers": 2, "intermediate_size": 64})
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config)
    for name in names.values():
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=[name]), low_cpu_mem_usage=True)
        found = {part.rpartition(".lora_A")[0] for part, _ in adapted.named_parameters() if ".lora_A" in part}
        assert len(found) >= (1 if family == "albert" else 2), name
        model = adapted.unload()
