"""One configuration is one plan, whatever its folder is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rightfit import api
from rightfit.workload import Workload

FOLDERS = ("whisper-large-v3", "resnet50", "stylegan2", "my-model")
BERT = {
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
WHISPER = {
    "model_type": "whisper", "d_model": 768, "encoder_layers": 12, "decoder_layers": 12, "encoder_attention_heads": 12, "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072, "decoder_ffn_dim": 3072, "vocab_size": 51865,
}  # fmt: skip
VIT = {
    "model_type": "vit",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "image_size": 224,
    "patch_size": 16,
}
SERVE = {"task": "serve", "rate": "5/s"}


@pytest.mark.parametrize(
    ("config", "wish"),
    [
        (BERT, SERVE),
        (WHISPER, SERVE),
        (VIT, SERVE),
        (VIT, {"task": "train", "data": "100kimages", "epochs": 10}),
        (WHISPER, {"task": "finetune", "data": "100h"}),
        (BERT, {"task": "finetune", "data": "10Mtok"}),
    ],
    ids=["bert-serve", "whisper-serve", "vit-serve", "vit-train", "whisper-finetune", "bert-finetune"],
)
def test_a_configuration_is_planned_alike_in_every_folder(config: dict[str, Any], wish: dict[str, Any], tmp_path: Path) -> None:
    found = set()
    for name in FOLDERS:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({**config, "_name_or_path": "openai/whisper-tiny"}))
        plan = api.plan(Workload(model=str(folder), **wish))
        assert plan.best is not None
        found.add((plan.best.provider, plan.best.instance_type, plan.best.cost.total_usd))
    assert len(found) == 1
