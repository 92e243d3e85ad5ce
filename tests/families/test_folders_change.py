"""A folder of a model is read when it is asked for: what lay in it before decides nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rightfit

_SHAPE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
_SPEECH = {"encoder_layers": 4, "decoder_layers": 4, "encoder_attention_heads": 6, "decoder_attention_heads": 6}
CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "text": ({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, **_SHAPE}, "10Mtok"),
    "pictures": ({"architectures": ["ViTForImageClassification"], "model_type": "vit", "image_size": 224, "patch_size": 16, **_SHAPE}, "10ksamples"),
    "speech": (
        {
            "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "d_model": 384, "vocab_size": 51865, "num_mel_bins": 80,
            "encoder_ffn_dim": 1536, "decoder_ffn_dim": 1536, **_SPEECH,
        },
        "10h",
    ),
}  # fmt: skip


def _written(folder: Path, kind: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIGS[kind][0]))
    return folder


def _choice(folder: Path, data: str) -> tuple[str, str, str]:
    best = rightfit.plan(model=str(folder), task="finetune", data=data, cloud="aws").best
    assert best is not None
    return best.provider, best.instance_type, str(best.estimate)


@pytest.mark.parametrize("order", [("text", "pictures", "speech", "text"), ("speech", "text")])
def test_what_a_folder_held_before_decides_nothing(tmp_path: Path, order: tuple[str, ...]) -> None:
    for kind in order:
        changed, fresh = _written(tmp_path / "changed", kind), _written(tmp_path / f"fresh {kind}", kind)
        assert _choice(changed, CONFIGS[kind][1]) == _choice(fresh, CONFIGS[kind][1]), kind
