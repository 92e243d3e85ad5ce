"""What of a configuration was read by guess is said in the answer, in both languages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rightfit import facts
from rightfit.search.request_checks import Notes, note_own

LLAMA: dict[str, Any] = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008, "vocab_size": 32000, "num_heads": 16,
}  # fmt: skip
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "num_experts_per_tok": 8, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({**LLAMA, "model_type": "brand_new"}, "assumed_config_relative"),
        ({**LLAMA, "model_type": "gla"}, "assumed_config_state"),
        (DEEPSEEK, "assumed_config_defaults"),
        ({"_class_name": "UNet2DConditionModel", "cross_attention_dim": 768}, "assumed_config_pipeline"),
    ],
)
def test_a_guess_is_said(config: dict[str, Any], key: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    notes = Notes()
    note_own(facts.model(str(tmp_path), network=False), notes)
    assert [one.why.key for one in notes.taken if one.why.key == key] == [key]


def test_a_file_that_says_all_has_no_such_line(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "model_type": "llama"}))
    notes = Notes()
    note_own(facts.model(str(tmp_path), network=False), notes)
    assert notes.taken == []
