"""The scripts for speech, images and segmentation train tiny models to the end; killed, they go on
from the last whole checkpoint, with the losses of a run that nobody disturbed."""

from __future__ import annotations

import json
import math
import re
import struct
import wave
from pathlib import Path
from typing import Any

import pytest
from killed import COMMAND, alone, half_copy, kill_at, lines, losses, undisturbed
from tiny import run

from rightfit.exports import find_target, job_of, plan_document
from rightfit.exports.stack import stack_name

HEADS = ("classifier", "head", "proj_out", "linear_c")
for needed in ("torch", "transformers", "datasets", "soundfile", "scipy", "PIL"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the targets speech and segmentation")

STEPS = 6


def put(folder: Path, name: str, **changed: Any) -> None:
    """The exported files of a plan, its settings made small."""
    from typical_plans import plan_values

    planned = job_of(plan_document(plan_values(name)))
    assert stack_name(planned) in ("speech", "segmentation", "vision")
    found = find_target(stack_name(planned)).files(planned)
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    small = {
        "output": str(folder / "out"),
        "precision": "fp32",
        "micro_batch": 2,
        "grad_accum": 1,
        "workers": 0,
        "optimizer": "adamw_torch",
    }
    settings = json.loads(found["train.json"])
    changed = {**small, "steps": STEPS, "save_every_s": 0, "data": str(folder / "data"), "learning_rate": 1e-3, **changed}
    assert set(changed) <= set(settings), set(changed) - set(settings)
    (folder / "train.json").write_text(json.dumps(settings | changed), encoding="utf-8")


def make_recordings(folder: Path, *, count: int = 6) -> None:
    """Half a second of a tone each, with a word; one of three seconds."""
    folder.mkdir()
    rows = []
    for number in range(count + 1):
        length = 48_000 if number == count else 8_000
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(8_000 if number == 1 else 16_000)
            values = (int(9000 * math.sin(moment * (number + 2) / 40)) for moment in range(length))
            file.writeframes(b"".join(struct.pack("<h", value) for value in values))
        rows.append({"audio": f"{number}.wav", "text": ["one", "two", "three"][number % 3]})
    (folder / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def make_whisper(folder: Path) -> Path:
    """A Whisper of a few thousand parameters that hears two seconds."""
    from tiny import make_tokenizer
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    words = make_tokenizer(folder)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    special = {"decoder_start_token_id": words - 1, "pad_token_id": words - 1, "bos_token_id": words - 1, "eos_token_id": words - 1}
    config = WhisperConfig(
        vocab_size=words,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_source_positions=100,
        max_target_positions=32,
        num_mel_bins=80,
        **sizes,
        **special,
    )
    WhisperForConditionalGeneration(config).save_pretrained(folder)
    WhisperFeatureExtractor(chunk_length=2).save_pretrained(folder)
    return folder


def make_wav2vec(folder: Path) -> Path:
    """A wav2vec 2.0 of a few thousand parameters, without a tokenizer, as the trained encoders have
    none. Dropout stays on."""
    from transformers import Wav2Vec2Config, Wav2Vec2FeatureExtractor, Wav2Vec2Model

    folder.mkdir(exist_ok=True)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "num_conv_pos_embedding_groups": 2,
    }
    # A mask of ten frames in a row would be longer than half a second's frames allow.
    config = Wav2Vec2Config(conv_dim=(16,) * 7, num_conv_pos_embeddings=16, mask_time_length=2, **sizes)
    Wav2Vec2Model(config).save_pretrained(folder)
    Wav2Vec2FeatureExtractor(return_attention_mask=True).save_pretrained(folder)
    return folder


def make_pictures(folder: Path, *, count: int = 8) -> None:
    """Squares on a ground, and which pixels are theirs."""
    from PIL import Image

    folder.mkdir()
    rows = []
    for number in range(count):
        image, mask = Image.new("RGB", (40, 40), (20 * number, 50, 90)), Image.new("L", (40, 40))
        image.paste((200, 200, 10), (number, 4, number + 16, 30))
        mask.paste(1, (number, 4, number + 16, 30))
        image.save(folder / f"{number}.png")
        mask.save(folder / f"{number}-mask.png")
        place = ["left", "middle", "right"][number % 3]
        rows.append({"image": f"{number}.png", "mask": f"{number}-mask.png", "label": place, "text": f"a square to the {place}"})
    (folder / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def make_segformer(folder: Path) -> Path:
    """A SegFormer of a few thousand parameters."""
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    sizes = {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 8, 16, 16], "decoder_hidden_size": 16, "num_attention_heads": [1, 1, 2, 2]}
    SegformerForSemanticSegmentation(SegformerConfig(**sizes)).save_pretrained(folder)
    return folder


def make_vit(folder: Path) -> Path:
    """A ViT of a few thousand parameters, for other classes than ours."""
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor

    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "image_size": 32,
        "patch_size": 8,
    }
    ViTForImageClassification(ViTConfig(num_labels=7, **sizes)).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def make_resnet(folder: Path) -> Path:
    """A ResNet of a few thousand parameters, whose norms keep statistics."""
    from transformers import ResNetConfig, ResNetForImageClassification, ViTImageProcessor

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_labels=7)
    ResNetForImageClassification(config).save_pretrained(folder)
    ViTImageProcessor(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


def make_both(folder: Path, kind: str) -> Path:
    """A CLIP or a SigLIP of a few thousand parameters."""
    import transformers
    from tiny import make_tokenizer

    words = make_tokenizer(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    text = {
        "vocab_size": words,
        "max_position_embeddings": 32,
        "eos_token_id": words - 1,
        "pad_token_id": words - 1,
        "bos_token_id": words - 1,
    }
    shares = {"projection_dim": 16} if kind == "CLIP" else {}
    config = getattr(transformers, f"{kind}Config")(
        text_config={**sizes, **text, **({} if shares else {"projection_size": 16})},
        vision_config={**sizes, "image_size": 32, "patch_size": 8},
        **shares,
    )
    getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)
    told = (
        {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
        if kind == "CLIP"
        else {"size": {"height": 32, "width": 32}}
    )
    getattr(transformers, f"{kind}ImageProcessor")(**told).save_pretrained(folder)
    return folder


CASES: dict[str, dict[str, Any]] = {
    "whisper-train-aws": {"longest_s": 2.0},
    "wav2vec-train": {"longest_s": 2.0},
    "speech-lora": {"longest_s": 2.0, "lora_rank": 2, "learning_rate": 1e-2},
    "segformer-train": {"height": 32, "width": 32},
    "segmentation-lora": {"height": 32, "width": 32, "lora_rank": 2},
    "vision-full": {"height": 32, "width": 32},
    "vision-lora": {"height": 32, "width": 32, "lora_rank": 2, "gradient_checkpointing": True},
    "vision-dora": {"lora_rank": 2, "height": 0, "width": 0, "model": "timm/test_vit", "from_scratch": True},
    "vision-frozen": {"height": 32, "width": 32},
    "clip-frozen": {},
    "segmentation-frozen": {"height": 32, "width": 32},
    "speech-frozen": {"longest_s": 2.0},
    "clip": {},
    "clip-lora": {"lora_rank": 2},
    "siglip-lora": {"lora_rank": 2},
}
MAKES = {
    "whisper-train-aws": make_whisper,
    "wav2vec-train": make_wav2vec,
    "speech-lora": make_whisper,
    "segformer-train": make_segformer,
    "segmentation-lora": make_segformer,
    "vision-full": make_vit,
    "vision-frozen": make_resnet,
    "clip-frozen": lambda folder: make_both(folder, "CLIP"),
    "segmentation-frozen": make_segformer,
    "speech-frozen": make_wav2vec,
    "vision-lora": make_vit,
    "clip": lambda folder: make_both(folder, "CLIP"),
    "clip-lora": lambda folder: make_both(folder, "CLIP"),
    "siglip-lora": lambda folder: make_both(folder, "Siglip"),
}
LEARNING = {
    "vision-frozen": "classifier",
    "clip-frozen": "(visual|text)_projection|logit_scale",
    "segmentation-frozen": "decode_head",
    "speech-frozen": "lm_head",
}
"""Of a model whose backbone is frozen, what learns all the same."""
OF_SOUND = ("whisper", "wav2vec", "speech")
NEEDED = {"vision-dora": ("timm", "peft")}


@pytest.mark.parametrize("name", list(CASES))
def test_killed_it_goes_on_as_if_nothing_had_happened(name: str, tmp_path: Path) -> None:
    for needed in NEEDED.get(name, ("peft",) if name.endswith("-lora") else ()):
        pytest.importorskip(needed)
    of_model = {"model": str(MAKES[name](tmp_path / "model"))} if name in MAKES else {}
    (make_recordings if name.startswith(OF_SOUND) else make_pictures)(tmp_path / "data")
    put(tmp_path, name, **{**of_model, **CASES[name]})
    whole = undisturbed(tmp_path)
    assert list(whole) == list(range(1, STEPS + 1))
    assert all(math.isfinite(loss) for loss in whole.values())
    first = kill_at(tmp_path, 4)
    assert not (tmp_path / "out/model").exists()
    cut = half_copy(tmp_path / "out", "step-", 5)
    told = run(COMMAND, tmp_path, further=alone())
    begun = next(line["start"] for line in lines(told) if "start" in line)
    assert 3 <= begun <= 4
    assert not cut.exists() or json.loads((cut / "complete.json").read_text(encoding="utf-8"))
    second = losses(told)
    assert min(second) == begun + 1
    assert {**first, **second} == pytest.approx(whole, rel=1e-4)
    adapted = name.endswith(("-lora", "-dora"))
    made = next((tmp_path / "out/model").glob("adapter_model*" if adapted else "model*"))
    assert made.stat().st_size > 1_000
    if adapted and made.suffix == ".safetensors":
        from safetensors import safe_open

        kept = sorted(safe_open(str(made), "pt").keys())
        assert any("lora_A" in part for part in kept)
        assert any(part.split(".")[-2] in HEADS for part in kept) == (name not in ("speech-lora", "clip-lora", "siglip-lora")), kept
        assert name == "siglip-lora" or not any("lora" in part and part.split(".")[-3] in HEADS for part in kept), kept
    if name in LEARNING:
        assert_frozen(tmp_path, LEARNING[name])
    if name.startswith(OF_SOUND):
        assert next(line for line in lines(told) if "left_out" in line)["left_out"] == 1


def assert_frozen(folder: Path, learning: str) -> None:
    """The model that was kept is whole; what does not learn in it is as it was, to the last
    statistic of its norms."""
    import torch
    from safetensors.torch import load_file

    before, after = (load_file(str(folder / place / "model.safetensors")) for place in ("model", "out/model"))
    old = {name: before.get(name, before.get(name.removeprefix("wav2vec2."))) for name in after}  # the encoder alone has no prefix
    same = {
        name for name, part in after.items() if old[name] is not None and part.shape == old[name].shape and torch.equal(part, old[name])
    }
    learnt = {name for name in after if re.search(learning, name)}
    assert learnt
    assert set(after) - learnt == same
