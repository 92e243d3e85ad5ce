"""Images of fine-tuning: a model that sees counts their tokens in every sample, with or without
word of them; a model that reads text only refuses them."""

from typing import Any

import pytest

import rightfit
from rightfit.errors import ContradictionError
from rightfit.facts import coefficients, model
from rightfit.facts.image_tokens import image_rule
from rightfit.families.language.wish import read_wish
from rightfit.search.training.wish import TrainingRequest
from rightfit.workload import Workload

SEEING = ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2-VL-2B-Instruct", "llava-hf/llava-1.5-7b-hf", "google/gemma-3-12b-it")
TEXT = int(coefficients("planning")["finetune_sample_tokens"])


def read(name: str, **wish: Any) -> TrainingRequest:
    return read_wish(Workload(model=name, **{"task": "finetune", "method": "lora", "data": "20k samples", **wish}))


def assumed(wish: TrainingRequest, field: str) -> bool:
    return any(one.field == field for one in wish.assumptions)


@pytest.mark.parametrize("name", SEEING)
@pytest.mark.parametrize("images", [1, 3])
def test_images_that_are_told_lengthen_every_sample(name: str, images: int) -> None:
    rule = image_rule(model(name))
    one = rule.size_of(672, 672)
    found = read(name, images=images, image_size="672")
    assert found.amount.tokens == pytest.approx(20_000 * (TEXT + images * one.tokens), rel=0.001)
    assert found.seq_len >= TEXT + int(images * one.tokens)
    patch, side = found.model.vision_patch, found.model.vision_image_size
    a_sequence = images * one.patches * found.seq_len / (TEXT + images * one.tokens)
    assert (side / patch) ** 2 == pytest.approx(a_sequence, rel=0.1)  # the tower works on all of them
    assert not assumed(found, "image_size")


@pytest.mark.parametrize("name", SEEING)
def test_one_usual_image_is_assumed_and_said(name: str) -> None:
    side = coefficients("serving_planning")["image_side"]
    found = read(name)
    assert found.amount.tokens == pytest.approx(20_000 * (TEXT + image_rule(model(name)).size_of(side, side).tokens), rel=0.001)
    assert assumed(found, "image_tokens")
    assert assumed(found, "image_size")


@pytest.mark.parametrize("name", SEEING)
def test_what_is_counted_in_tokens_has_its_images(name: str) -> None:
    assert not assumed(read(name, data="10Mtok"), "image_tokens")
    assert read(name, data="10Mtok").amount.tokens == 10e6
    assert not assumed(read(name, seq_len=4096), "image_tokens")


@pytest.mark.parametrize("method", ["dpo", "grpo"])
def test_preferences_and_rewards_count_images(method: str) -> None:
    pictures = {"images": 1, "image_size": "672"}
    plain, told = (read(SEEING[0], method=method, **more) for more in ({"data": "10Mtok"}, pictures))
    assert told.seq_len == plain.seq_len + 578


@pytest.mark.parametrize("option", [{"images": 1}, {"image_size": "672"}, {"frames": 8}])
def test_a_model_of_text_refuses_images(option: dict[str, Any]) -> None:
    with pytest.raises(ContradictionError):
        rightfit.plan(model="Qwen/Qwen2.5-7B-Instruct", task="finetune", data="20k samples", **option)


def test_images_longer_than_a_stated_sequence_are_refused() -> None:
    with pytest.raises(ContradictionError):
        read(SEEING[0], images=1, image_size="672", seq_len=512)
