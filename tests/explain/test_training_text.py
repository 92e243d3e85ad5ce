"""Plans for training on samples in words: both languages, no codes left, singular and plural, and
the published schema."""

from __future__ import annotations

import functools
import json
import re
from importlib import resources
from typing import Any

import jsonschema
import pytest

from rightfit.explain.plan_words import samples_text, trains_samples
from rightfit.explain.reasons import renderer
from rightfit.explain.voices import plan_text
from rightfit.planner.plan import plan
from rightfit.search.answer import Plan
from rightfit.workload import Workload

WISHES: dict[str, dict[str, Any]] = {
    "images": {"model": "resnet50", "task": "train", "data": "imagenet-1k", "epochs": 90},
    "latents": {"model": "stable-diffusion-xl", "method": "lora", "data": "1kimages"},
    "sound": {"model": "whisper-small", "data": "100hours"},
    "tables": {"model": "dlrm", "task": "train", "data": "criteo-1tb"},
    "graph": {"model": "graphsage", "task": "train", "data": "ogbn-papers100M"},
    "video": {"model": "wan2.1-1.3b", "method": "lora", "data": "200clips", "frames": 33},
    "offload": {"model": "flux.1-dev", "method": "lora", "data": "100images", "offload": "params"},
}
CODE = re.compile(r"\b[a-z]+_[a-z_]+\b")


@functools.cache
def planned(name: str) -> Plan:
    return plan(Workload(**WISHES[name]), top=3)


@pytest.mark.parametrize("name", WISHES)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_everything_is_said_in_words(name: str, lang: Any) -> None:
    text = plan_text(planned(name), lang)
    assert text.best is not None
    lines = [text.best.setup, text.best.speed, text.best.outcome, *text.best.why, *text.best.warnings, *text.advice, *text.best.data]
    lines += [term.label for term in (*text.best.memory, *text.best.time)]
    for line in lines:
        assert not set(CODE.findall(line)) - {"channels_last"}, line
        assert "token" not in line.replace("text embeddings", "")
    why = [line.partition(": " if lang == "en" else "：")[2] for line in text.assumptions]
    assert all(not set(CODE.findall(line)) - {"channels_last", "memory_format"} for line in why), why
    has_han = any("\u4e00" <= letter <= "\u9fff" for letter in text.best.setup)
    assert has_han == (lang == "zh")


def test_the_set_up_says_what_a_sample_is() -> None:
    def setup(name: str) -> str:
        text = plan_text(planned(name), "en").best
        assert text is not None
        return text.setup

    assert "images of 224 x 224 per GPU" in setup("images")
    assert "global batch 256" in setup("images")
    assert "latents and text embeddings precomputed" in setup("latents")
    assert "recordings of 30 s" in setup("sound")
    assert "embedding tables sharded across GPUs" in setup("tables")
    assert "33 frames of 480 x 832" in setup("video")
    assert "weights in host RAM" in setup("offload")


def test_one_and_many() -> None:
    sample = {"unit": "images", "domain": "vision", "height": 512.0, "width": 768.0, "frames": 0.0, "seconds": 0.0}
    assert samples_text(sample, 1, "en") == "image of 512 x 768"
    assert samples_text(sample, 2, "en") == "images of 512 x 768"
    assert samples_text(sample, 2, "zh") == "张图像（512 x 768）"


def test_language_models_speak_of_tokens_still() -> None:
    found = plan(Workload(model="7B", data="10Mtok"), top=1).best
    assert found is not None
    assert not trains_samples(found)


@pytest.mark.parametrize("name", WISHES)
def test_the_answer_matches_the_published_schema(name: str) -> None:
    schema = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text("utf-8"))
    answer = json.loads(planned(name).to_json(renderer("en")))
    jsonschema.validate({**answer, "rules": []}, schema)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"method": "grpo", "completions": "4"}, r"([\d,]+) prompts x (\d+) answers \(([\d,]+) tokens"),
        ({"method": "dpo"}, r"([\d,]+) pairs of (2) x ([\d,]+) tokens"),
    ],
)
def test_prompts_and_pairs_are_said_with_their_texts(wish: dict[str, str], said: str) -> None:
    """What a method of preferences or rewards trains on: so many prompts with so many answers."""
    from rightfit.explain.amounts import trained_text

    made = plan(Workload(model="Qwen2.5-7B", task="finetune", **wish), top=1)
    assert made.best is not None
    found = re.search(said, trained_text(made.best, made.workload, "en"))
    assert found is not None
    samples, count, each = (float(one.replace(",", "")) for one in found.groups())
    assert samples * count * each == pytest.approx(made.best.facts["tokens"], rel=1e-3)
