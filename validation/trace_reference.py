"""Trace small models of many families with PyTorch's MemTracker and write what their forward pass
saves for the backward pass.

Usage: python validation/trace_reference.py [--out validation/traced_reference.csv]
        (needs the extra `trace`; a minute, no GPU)
The table is the oracle of tests/physics/test_memory_traced.py: analytic saved-activation bytes must
agree with it. Everything is bf16, dropout 0, AdamW, micro-batch and sequence as in the row; the
CPU's SDPA kernel saves what FlashAttention saves (q, k, v, output, log-sum-exp).
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from rightfit.estimation.traced import trace_config

SHARED = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral": {},
    "qwen2": {},
    "qwen3": {"head_dim": 64},
    "gemma": {"head_dim": 64},
    "gemma2": {"head_dim": 64},
    "phi3": {},
    "gpt2": {"n_embd": 1024, "n_head": 16, "n_positions": 1024, "n_inner": 4096, "intermediate_size": 4096, "num_key_value_heads": 16},
    "gpt_neox": {"num_key_value_heads": 16, "intermediate_size": 4096},
    "opt": {"ffn_dim": 4096, "word_embed_proj_dim": 1024, "intermediate_size": 4096, "num_key_value_heads": 16},
    "bloom": {"n_head": 16, "num_key_value_heads": 16, "intermediate_size": 4096},
    "falcon": {"new_decoder_architecture": False, "multi_query": True, "num_key_value_heads": 1, "intermediate_size": 4096},
    "bert": {"num_key_value_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 1024},
    "roberta": {"num_key_value_heads": 16, "intermediate_size": 4096, "max_position_embeddings": 1030},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "starcoder2": {"intermediate_size": 4096},
    "stablelm": {"num_key_value_heads": 16},
    "cohere": {},
    "olmo": {},
    "glm": {"head_dim": 64},
    "deepseek_v3": {
        "num_key_value_heads": 16,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "head_dim": 64,
        "n_routed_experts": 8,
        "moe_intermediate_size": 512,
        "first_k_dense_replace": 0,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
    },
    "t5": {"d_model": 1024, "d_ff": 2816, "num_heads": 16, "d_kv": 64, "decoder_start_token_id": 0, "num_key_value_heads": 16},
}
LAYER_KEYS = {"gpt2": ["n_layer"], "bloom": ["n_layer"], "t5": ["num_layers", "num_decoder_layers"]}


def trace_row(family: str, *, num_layers: int, micro_batch: int, seq_len: int, recompute: bool, attention: str) -> dict[str, Any]:
    """One traced row; sizes in bytes."""
    values = {"model_type": family, **SHARED, **FAMILIES[family]}
    values |= dict.fromkeys(LAYER_KEYS.get(family, ["num_hidden_layers"]), num_layers)
    traced = trace_config(values, micro_batch=micro_batch, seq_len=seq_len, recompute=recompute, attention=attention, dropout=False)
    return {
        "family": family,
        "num_layers": num_layers,
        "micro_batch": micro_batch,
        "seq_len": seq_len,
        "recompute": "full" if recompute else "none",
        "attention": attention,
        "num_parameters": traced.num_parameters,
        "parameters_bytes": int(traced.parameters_bytes),
        "saved_activations_bytes": int(traced.saved_activations_bytes),
        "peak_bytes": int(traced.peak_bytes),
        **{
            key: values.get(key, "")
            for key in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "vocab_size")
        },
    }


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "traced_reference.csv")
    options = parser.parse_args()
    rows = []
    for family in FAMILIES:
        for attention in ("sdpa", "eager"):
            for recompute in (False, True):
                for num_layers, micro_batch, seq_len in ((2, 2, 512), (4, 2, 512), (2, 1, 1024)):
                    if recompute and (seq_len != 512 or attention == "eager"):
                        continue
                    rows.append(
                        trace_row(
                            family,
                            num_layers=num_layers,
                            micro_batch=micro_batch,
                            seq_len=seq_len,
                            recompute=recompute,
                            attention=attention,
                        )
                    )
                    print(family, attention, recompute, num_layers, rows[-1]["saved_activations_bytes"], file=sys.stderr)
    with options.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
