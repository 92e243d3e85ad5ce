"""The exported services of Whisper and of diffusion models answer with tiny models on the
processor: one request, and many at once; wrong ones are told what is wrong."""

from __future__ import annotations

import base64
import importlib.util
import io
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typical_plans import plan_values

from rightfit.exports import find_target, job_of, plan_document
from rightfit.exports.stack import stack_name

# Libraries of models warn of each other.
pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("ignore")]
testclient = pytest.importorskip("fastapi.testclient")
KEY = {"Authorization": "Bearer key"}
MODULES = ("service", "service_core")


@contextmanager
def served(plan: str, target: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> Iterator[Any]:
    """A client of the exported program of a plan, with some settings changed."""
    planned = job_of(plan_document(plan_values(plan)))
    assert stack_name(planned) == target.replace("-", "_")  # what launchers start
    for name, text in find_target(target).files(planned).items():
        (folder / name).write_text(text, encoding="utf-8")
    settings = json.loads((folder / "service.json").read_text(encoding="utf-8"))
    assert set(changed) <= set(settings), set(changed) - set(settings)
    (folder / "service.json").write_text(json.dumps({**settings, **changed, "cards": 0}), encoding="utf-8")
    monkeypatch.setenv("RIGHTFIT_API_KEY", "key")
    monkeypatch.syspath_prepend(str(folder))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    spec = importlib.util.spec_from_file_location("service", folder / "service.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "service", module)
    spec.loader.exec_module(module)
    with testclient.TestClient(module.app) as client:
        yield client
    for name in MODULES:
        sys.modules.pop(name, None)


def tone(seconds: float) -> bytes:
    """A recording as WAV."""
    import math
    import struct
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(16_000)
        out.writeframes(b"".join(struct.pack("<h", int(9000 * math.sin(moment / 9))) for moment in range(round(16_000 * seconds))))
    return file.getvalue()


def test_recordings_that_come_together_are_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("faster_whisper", "ctranslate2", "transformers", "multipart"):
        pytest.importorskip(needed)
    from test_batch_jobs import make_fast_whisper

    model = make_fast_whisper(tmp_path / "model")
    engine = {"device": "cpu", "compute_type": "float32", "cpu_threads": 1}
    folder = tmp_path / "service"
    folder.mkdir()
    with served(
        "speech-service", "speech-service", folder, monkeypatch, model=str(model), engine=engine, max_batch=4, wait_s=0.2
    ) as client:

        def ask(seconds: float, **told: str) -> Any:
            return client.post("/v1/audio/transcriptions", files={"file": ("a.wav", tone(seconds))}, data=told, headers=KEY)

        alone = ask(2.0, language="en")
        assert alone.status_code == 200, alone.text
        assert alone.json()["language"] == "en"
        assert all(0 <= part["start"] <= part["end"] <= 30.1 for part in alone.json()["segments"])
        with ThreadPoolExecutor(6) as pool:
            many = list(pool.map(lambda seconds: ask(seconds, language="en"), [2.0, 1.0, 2.0, 33.0, 2.0, 1.0]))
        assert [answer.status_code for answer in many] == [200] * 6
        texts = [answer.json()["text"] for answer in many]
        assert texts[0] == texts[2] == texts[4] == alone.json()["text"]  # whoever is heard beside
        assert texts[1] == texts[5]
        assert ask(1.0).json()["language"]
        assert client.post("/v1/audio/transcriptions", files={"file": ("a.wav", b"noise")}, headers=KEY).status_code == 422
        assert ask(1.0, language="xx").status_code == 422
        assert client.post("/v1/audio/transcriptions", files={"file": ("a.wav", tone(1.0))}).status_code == 401


def make_stable_diffusion(folder: Path) -> Path:
    """A Stable Diffusion of a few thousand parameters."""
    import torch
    from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
    from tiny import make_tokenizer
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    torch.manual_seed(0)
    words = folder / "words"
    words.mkdir(parents=True)
    make_tokenizer(words)
    vocabulary = json.loads((words / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    named = {**vocabulary, "<|startoftext|>": len(vocabulary), "<|endoftext|>": len(vocabulary) + 1}
    named |= {f"{letter}</w>": len(named) + place for place, letter in enumerate(vocabulary)}
    (words / "vocab.json").write_text(json.dumps(named), encoding="utf-8")
    (words / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    tokenizer = CLIPTokenizer(str(words / "vocab.json"), str(words / "merges.txt"), model_max_length=16)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16}
    text = CLIPTextModel(
        CLIPTextConfig(vocab_size=len(named), eos_token_id=named["<|endoftext|>"], bos_token_id=named["<|startoftext|>"], **sizes)
    )
    blocks = {"down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D")}
    unet = UNet2DConditionModel(
        block_out_channels=(8, 16),
        layers_per_block=1,
        sample_size=8,
        norm_num_groups=4,
        attention_head_dim=4,
        cross_attention_dim=16,
        **blocks,
    )
    both = {"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2}
    vae = AutoencoderKL(block_out_channels=(8, 16), latent_channels=4, norm_num_groups=4, **both)
    parts = {"safety_checker": None, "feature_extractor": None, "requires_safety_checker": False}
    StableDiffusionPipeline(unet=unet, vae=vae, text_encoder=text, tokenizer=tokenizer, scheduler=DDIMScheduler(), **parts).save_pretrained(
        folder / "model"
    )
    return folder / "model"


def test_images_that_are_asked_for_together_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for needed in ("torch", "diffusers", "transformers", "PIL"):
        pytest.importorskip(needed)
    from PIL import Image

    model = make_stable_diffusion(tmp_path)
    small = {
        "model": str(model),
        "revision": "main",
        "precision": "fp32",
        "height": 32,
        "width": 32,
        "steps": 2,
        "max_batch": 3,
        "wait_s": 0.2,
    }
    folder = tmp_path / "service"
    folder.mkdir()

    def drawn(answer: Any) -> list[bytes]:
        assert answer.status_code == 200, answer.text
        found = [Image.open(io.BytesIO(base64.b64decode(one["b64_json"]))) for one in answer.json()["data"]]
        return [image.convert("RGB").tobytes() for image in found]

    with served("image-service", "diffusion-service", folder, monkeypatch, **small) as client:

        def ask(**told: Any) -> Any:
            return client.post("/v1/images/generations", json={"prompt": "a house", **told}, headers=KEY)

        alone = drawn(ask(seed=7))
        assert len(alone[0]) == 32 * 32 * 3
        with ThreadPoolExecutor(5) as pool:
            wishes = [{"seed": 7}, {"seed": 8}, {"seed": 7, "n": 2}, {"seed": 7, "size": "24x24"}, {"seed": 7, "num_inference_steps": 1}]
            first, second, two, less, fewer = pool.map(lambda told: drawn(ask(**told)), wishes)
        assert first == alone
        assert first != second
        assert len(two) == 2
        assert two[0] == alone[0]
        assert len(less[0]) == 24 * 24 * 3
        assert fewer != alone
        assert ask(size="640x640").status_code == 422
        assert ask(n=4).status_code == 422
        assert ask(num_inference_steps=0).status_code == 422
        assert client.post("/v1/images/generations", json={"prompt": "a house"}).status_code == 401
