"""Detectors, YOLO and adapters of diffusion models train on the processor: tiny models with random
weights, judged by held-out rows, stopped and gone on."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from killed import COMMAND, alone, kill_at, lines, losses, undisturbed
from kinds import kind_plan
from tiny import run, torchrun

from rightfit.exports import find_target, job_of, plan_document

for needed in ("torch", "torchvision", "transformers", "datasets", "PIL"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target detection")

STEPS = 4


def put(folder: Path, target: str, kind: str, **changed: Any) -> None:
    """The exported files of a plan, its settings made small."""
    found = find_target(target).files(job_of(plan_document(kind_plan(kind))))
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = json.loads(found["train.json"])
    small = {"precision": "fp32", "micro_batch": 2, "grad_accum": 1, "workers": 0, "steps": STEPS, "save_every_s": 0, "held_out": 0.2}
    small |= {
        "optimizer": "adamw_torch",
        "parallel": "ddp",
        "data": str(folder / "data"),
        "output": str(folder / "out"),
        "gpus_per_node": 1,
    }
    changed = {**{name: value for name, value in small.items() if name in settings}, **changed}
    assert set(changed) <= set(settings), set(changed) - set(settings)
    (folder / "train.json").write_text(json.dumps(settings | changed), encoding="utf-8")


def make_scenes(folder: Path, count: int = 10) -> None:
    """A yellow and a white square each."""
    from PIL import Image

    folder.mkdir()
    rows = []
    for number in range(count):
        image = Image.new("RGB", (96, 64), (20 * number, 50, 90))
        image.paste((230, 220, 10), (number, 4, number + 20, 30))
        image.paste((250, 250, 250), (50, 30, 80, 60))
        image.save(folder / f"{number}.png")
        rows.append({"image": f"{number}.png", "objects": {"bbox": [[number, 4, 20, 26], [50, 30, 30, 30]], "category": [0, 1]}})
    (folder / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def make_yolos(folder: Path) -> Path:
    """A YOLOS of a few thousand parameters."""
    from transformers import YolosConfig, YolosForObjectDetection

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "num_detection_tokens": 5}
    YolosForObjectDetection(YolosConfig(image_size=[64, 96], patch_size=16, **sizes)).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["detr", "detr-frozen"])
def test_a_detector_of_transformers_is_killed_and_goes_on(kind: str, tmp_path: Path) -> None:
    make_scenes(tmp_path / "data")
    put(tmp_path, "detection", kind, model=str(make_yolos(tmp_path / "model")), height=64, width=96, learning_rate=1e-3)
    whole = undisturbed(tmp_path)
    assert all(math.isfinite(loss) for loss in whole.values())
    first = kill_at(tmp_path, 3)
    told = run(COMMAND, tmp_path, further=alone())
    begun = next(line["start"] for line in lines(told) if "start" in line)
    assert 2 <= begun <= 3
    assert {**first, **losses(told)} == pytest.approx(whole, rel=1e-4)
    from transformers import AutoConfig

    assert AutoConfig.from_pretrained(tmp_path / "out/model").num_labels == 2
    if kind == "detr-frozen":
        from test_samples_training import assert_frozen

        assert_frozen(tmp_path, "class_labels_classifier|bbox_predictor")
    assert math.isfinite(json.loads((tmp_path / "out/evaluation.json").read_text(encoding="utf-8"))["eval_loss"])


def test_a_detector_of_torchvision_trains(tmp_path: Path) -> None:
    make_scenes(tmp_path / "data")
    name = "torchvision/ssdlite320_mobilenet_v3_large"
    put(tmp_path, "detection", "faster-rcnn", model=name, from_scratch=True, height=64, width=96, steps=2)
    assert set(losses(run(COMMAND, tmp_path, further=alone()))) == {1, 2}
    assert (tmp_path / "out/model/model.pt").stat().st_size > 1_000_000
    assert math.isfinite(json.loads((tmp_path / "out/evaluation.json").read_text(encoding="utf-8"))["eval_loss"])


@pytest.mark.parametrize("kind", ["yolo", "yolo-frozen"])
def test_a_yolo_trains_and_goes_on(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("ultralytics")
    make_scenes(tmp_path / "data")
    put(tmp_path, "yolo", kind, model="ultralytics/yolo11n", from_scratch=True, cards=[], epochs=2, size=64, optimizer="auto")
    further = {"YOLO_CONFIG_DIR": str(tmp_path), "YOLO_OFFLINE": "true"}
    run([sys.executable, "train.py", "train.json"], tmp_path, further=further)
    judged = json.loads((tmp_path / "out/evaluation.json").read_text(encoding="utf-8"))
    assert any("mAP50" in name for name in judged)
    assert (tmp_path / "out/model/model.pt").stat().st_size > 1_000_000
    assert "done" in run([sys.executable, "train.py", "train.json"], tmp_path, further=further)
    if kind == "yolo-frozen":
        import torch

        trained = torch.load(tmp_path / "out/run/weights/last.pt", weights_only=False)["train_args"]
        assert trained["freeze"] == len(__import__("ultralytics").YOLO("yolo11n.yaml").model.model) - 1


# ---- adapters of diffusion models


def make_pictures(folder: Path, count: int = 6) -> None:
    """Squares with a caption."""
    from PIL import Image

    folder.mkdir()
    for number in range(count):
        Image.new("RGB", (40, 40), (40 * number, 50, 90)).save(folder / f"{number}.png")
    rows = [{"image": f"{number}.png", "text": f"a square of {number}"} for number in range(count)]
    (folder / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")


def words(folder: Path, kind: str) -> Any:
    """A tokenizer of bytes, for a text encoder of that many words."""
    from tiny import make_tokenizer
    from transformers import PreTrainedTokenizerFast

    folder.mkdir(parents=True)
    make_tokenizer(folder)
    return PreTrainedTokenizerFast.from_pretrained(folder, model_max_length=16 if kind == "clip" else 32)


def make_flux(folder: Path, scratch: Path) -> Path:
    """A FLUX of a few thousand parameters with its encoders."""
    import torch
    from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
    from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    torch.manual_seed(0)
    sizes = {"num_layers": 1, "num_single_layers": 2, "attention_head_dim": 16, "num_attention_heads": 2, "axes_dims_rope": [4, 4, 8]}
    model = FluxTransformer2DModel(in_channels=16, joint_attention_dim=32, pooled_projection_dim=32, guidance_embeds=True, **sizes)
    vae = AutoencoderKL(
        block_out_channels=(8,),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        shift_factor=0.1,
        scaling_factor=0.3,
        use_quant_conv=False,
        use_post_quant_conv=False,
    )
    clip = CLIPTextConfig(
        hidden_size=32, intermediate_size=37, num_attention_heads=4, num_hidden_layers=2, vocab_size=300, projection_dim=32
    )
    t5 = T5Config(d_model=32, d_ff=37, num_layers=2, num_heads=4, d_kv=8, vocab_size=300)
    FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae,
        transformer=model,
        text_encoder=CLIPTextModel(clip),
        text_encoder_2=T5EncoderModel(t5),
        tokenizer=words(scratch / "clip", "clip"),
        tokenizer_2=words(scratch / "t5", "t5"),
    ).save_pretrained(folder)
    return folder


def make_wan(folder: Path, scratch: Path) -> Path:
    """A Wan of a few thousand parameters with its encoders."""
    import torch
    from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel
    from transformers import T5Config, UMT5EncoderModel

    torch.manual_seed(0)
    vae = AutoencoderKLWan(base_dim=3, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True])
    sizes = {"num_attention_heads": 2, "attention_head_dim": 12, "in_channels": 16, "out_channels": 16, "text_dim": 32, "freq_dim": 64}
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2), ffn_dim=32, num_layers=2, cross_attn_norm=True, qk_norm="rms_norm_across_heads", rope_max_seq_len=32, **sizes
    )
    t5 = T5Config(d_model=32, d_ff=37, num_layers=2, num_heads=4, d_kv=8, vocab_size=300)
    WanPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae,
        transformer=model,
        text_encoder=UMT5EncoderModel(t5),
        tokenizer=words(scratch / "t5", "t5"),
    ).save_pretrained(folder)
    return folder


ADAPTED = {
    "flux": ("flux-lora", make_flux, {"base": "half", "swaps": False}),
    "flux, 8 bit and swapped": ("flux-lora-swapped", make_flux, {"base": "fp8", "swaps": True}),
    "wan, swapped": ("wan-lora", make_wan, {"base": "half", "swaps": True}),
    "wan, 8 bit and swapped": ("wan-lora", make_wan, {"base": "fp8", "swaps": True}),
}


@pytest.mark.parametrize("name", list(ADAPTED))
def test_adapters_of_diffusion_models_train_and_load(name: str, tmp_path: Path) -> None:
    pytest.importorskip("diffusers")
    kind, make, changed = ADAPTED[name]
    make_pictures(tmp_path / "data")
    model = make(tmp_path / "model", tmp_path / "words")
    small = {"height": 32, "width": 32, "frames": 1, "text_tokens": 16, "model": str(model), "lora_rank": 4, "learning_rate": 1e-2}
    put(tmp_path, "diffusion-lora", kind, **small, **changed)
    whole = undisturbed(tmp_path)
    first = kill_at(tmp_path, 2)
    told = run(COMMAND, tmp_path, further=alone())
    assert {**first, **losses(told)} == pytest.approx(whole, rel=1e-3)
    file = next((tmp_path / "out/model").glob("*.safetensors"))
    from safetensors.torch import load_file

    parts = load_file(file)
    assert all(part.startswith("transformer.") for part in parts)
    assert any(float(values.abs().max()) > 0 for part, values in parts.items() if "lora_B" in part)
    import diffusers

    pipe = diffusers.DiffusionPipeline.from_pretrained(model)
    pipe.load_lora_weights(str(file.parent))
    assert pipe.transformer.peft_config


def test_what_swaps_gives_what_lies_on_the_card_gives(tmp_path: Path) -> None:
    """The losses of a base in 16 bit are the same wherever its blocks lie."""
    pytest.importorskip("diffusers")
    make_pictures(tmp_path / "data")
    model, told = make_flux(tmp_path / "model", tmp_path / "words"), {}
    for swaps in (False, True):
        small = {"height": 32, "width": 32, "frames": 1, "text_tokens": 16, "model": str(model), "lora_rank": 4, "swaps": swaps}
        put(tmp_path, "diffusion-lora", "flux-lora-swapped", base="half", **small)
        told[swaps] = undisturbed(tmp_path)
    assert told[True] == pytest.approx(told[False], rel=1e-4)


def test_a_sharded_base_learns_the_same(tmp_path: Path) -> None:
    """Two processes with half of the base each, and whole adapters."""
    pytest.importorskip("diffusers")
    make_pictures(tmp_path / "data")
    model, told = make_flux(tmp_path / "model", tmp_path / "words"), {}
    for parallel in ("ddp", "fsdp2"):
        small = {
            "height": 32,
            "width": 32,
            "frames": 1,
            "text_tokens": 16,
            "model": str(model),
            "lora_rank": 4,
            "base": "half",
            "swaps": False,
        }
        put(tmp_path, "diffusion-lora", "flux-lora", parallel=parallel, output=str(tmp_path / parallel), micro_batch=1, **small)
        told[parallel] = losses(run([*torchrun(2), "train.py", "train.json"], tmp_path))
        assert list((tmp_path / parallel / "model").glob("*.safetensors"))
    assert all(math.isfinite(loss) for loss in told["fsdp2"].values())
