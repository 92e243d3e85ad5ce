"""Images as tokens: every bundled model that sees has a rule, and the rules give the counts that
their processors give."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

import rightfit
from rightfit import facts
from rightfit.facts.image_tokens import has_two_towers, image_rule
from rightfit.facts.records import TransformerArchitecture

SEEING = [arch for arch in rightfit.models() if isinstance(arch, TransformerArchitecture) and (arch.kind == "vlm" or arch.vision_layers)]

#: Model, height, width, tokens: worked out by hand from the processors named in
#: facts/data/image_tokens.csv, start and end tokens included.
COUNTS = [
    ("Qwen/Qwen2.5-VL-7B-Instruct", 1024, 1024, 37 * 37 + 2),
    ("Qwen/Qwen2-VL-7B-Instruct", 28, 28, 4 + 2),  # enlarged to 3,136 pixels
    ("Qwen/Qwen3-VL-8B-Instruct", 1024, 1024, 32 * 32 + 2),
    ("llava-hf/llava-1.5-7b-hf", 1024, 768, 576),
    ("llava-hf/llava-v1.6-mistral-7b-hf", 672, 672, 576 + 48 * 48 + 48),
    ("mistralai/Pixtral-12B-2409", 1024, 1024, 64 * 65),
    ("google/gemma-3-4b-pt", 500, 500, 256 + 4),
    ("OpenGVLab/InternVL3-8B", 448, 448, 256 + 2),
    ("OpenGVLab/InternVL3-8B", 448, 896, 3 * 256 + 2),
    ("meta-llama/Llama-4-Scout-17B-16E", 336, 336, 144 + 2),
    ("meta-llama/Llama-3.2-11B-Vision", 560, 560, 1601 * 0.2),
    ("Salesforce/blip2-opt-2.7b", 1000, 1000, 32),
    ("google/gemma-4-31B", 768, 768, 16 * 16 + 2),  # 16.7 squares of 48 pixels a side
]


@pytest.mark.parametrize("arch", SEEING, ids=lambda arch: arch.name)
def test_every_model_that_sees_has_a_rule_of_its_own(arch: TransformerArchitecture) -> None:
    rule = image_rule(arch)
    assert rule is not None
    assert rule.is_known, f"{arch.name} (family {arch.family}) needs a row in facts/data/image_tokens.csv"
    if not rule.takes_images:
        return
    sizes = [rule.size_of(side, side) for side in (64, 256, 512, 1024, 2048, 4096, 16384)]
    assert all(0 < one.tokens <= 20_000 and one.patches > 0 for one in sizes), sizes
    assert all(later.tokens >= earlier.tokens * 0.8 for earlier, later in itertools.pairwise(sizes)), sizes


@pytest.mark.parametrize(("name", "height", "width", "tokens"), COUNTS)
def test_an_image_is_as_many_tokens_as_its_processor_makes(name: str, height: int, width: int, tokens: float) -> None:
    rule = image_rule(facts.model(name))  # type: ignore[arg-type]
    assert rule is not None
    assert rule.size_of(height, width).tokens == pytest.approx(tokens)


def test_text_models_have_none() -> None:
    assert all(
        image_rule(arch) is None
        for arch in rightfit.models()
        if isinstance(arch, TransformerArchitecture) and arch.kind in ("decoder", "encoder", "embedding") and not arch.vision_layers
    )


def test_two_towers_produce_no_text() -> None:
    named = {arch.name for arch in SEEING if has_two_towers(arch)}
    assert named == {arch.name for arch in SEEING if arch.family in ("clip", "siglip")}


def test_a_tower_nobody_knows_counts_its_patches() -> None:
    known = facts.model("llava-hf/llava-1.5-7b-hf")
    strange = dataclasses.replace(known, name="someone/strange", family="strange", vision_patch=16, vision_image_size=448)  # type: ignore[type-var]
    rule = image_rule(strange)  # type: ignore[arg-type]
    assert rule is not None
    assert (rule.is_known, rule.size_of(2000, 1000).tokens) == (False, 28.0**2)
