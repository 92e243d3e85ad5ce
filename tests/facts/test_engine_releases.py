"""Which release of an engine starts which model on which card: every bundled model and alias, on a
card of each generation, beside x86 and Arm."""

from __future__ import annotations

import collections
import re

import pytest

from rightfit import facts
from rightfit.facts.bundled import index
from rightfit.facts.engine_releases import (
    goes_with,
    has_class,
    image_for,
    images,
    is_served,
    knows,
    model_class,
    numbers,
    release_for,
    releases,
    runs_on,
)
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tables import table

CARDS = {
    "V100-SXM2-16GB": "0.19.1",
    "T4": "0.33.0",
    "A100-SXM-80GB": "0.33.0",
    "L40S": "0.33.0",
    "H100-SXM-80GB": "0.33.0",
    "GH200-96GB": "0.33.0",
    "B200": "0.33.0",
    "GB200": "0.33.0",
    "RTX-PRO-6000-Server": "0.33.0",
    "MI250X": "0.22.1",
    "MI300X": "0.23.0",
    "MI355X": "0.23.0",
}
"""A card of each generation -> the vLLM that starts a Llama on it."""
OLD = {
    "Qwen/Qwen-7B": "0.23.0",
    "internlm/internlm-7b": "0.23.0",
    "baichuan-inc/Baichuan2-7B-Base": "0.24.0",
    "xai-org/grok-1": "0.24.0",
    "adept/fuyu-8b": "0.25.1",
    "mosaicml/mpt-7b": "0.28.0",
    "microsoft/Phi-3-small-8k-instruct": "0.9.2",
    "meta-llama/Llama-3.2-11B-Vision": "0.10.2",
    "rednote-hilab/dots.llm1.base": "0.23.0",
    "MiniMaxAI/MiniMax-Text-01": "0.23.0",
}
"""Models that later releases dropped -> the last that has them."""
WITHOUT = (
    "openai/gpt3",
    "megatron-lm/",
    "nvidia/gpt3",
    "deepmind/",
    "google/palm",
    "nvidia/Nemotron-4-",
    "nvidia/nemotron-3-8b",
    "upstage/Solar-Open",
)
"""Shapes of papers and of trainers, whose weights nobody has in the form of Transformers, and a
model whose class was not read."""
GENERATING = ("decoder", "moe-decoder", "vlm")


def models() -> list[tuple[str, tuple[str, ...]]]:
    """Every bundled model that writes text, and its aliases that are repositories."""
    found = []
    for entry in index():
        record = facts.model(entry.name, network=False) if entry.family == "transformer" else None
        if isinstance(record, TransformerArchitecture) and record.kind in GENERATING and record.family not in ("clip", "siglip"):
            found.append((entry.name, tuple(name for name in entry.aliases if re.fullmatch(r"[\w.-]+/[\w.-]+", name))))
    return found


def test_the_class_of_every_bundled_model_is_known() -> None:
    lacking = [name for name, _ in models() if model_class(name) is None and not name.startswith(WITHOUT)]
    assert not lacking
    known = {row["architecture"] for row in table("engine_support")}
    unread = {row["architecture"] for row in table("model_classes") if "no class" not in row["source"] and row["architecture"] not in known}
    assert unread == {"", "CodeGenForCausalLM"}


@pytest.mark.parametrize("card", CARDS)
def test_every_model_and_alias_gets_a_release_that_has_its_class_and_code_for_the_card(card: str) -> None:
    found = facts.accelerator(card)
    chosen: collections.Counter[str] = collections.Counter()
    for name, aliases in models():
        for asked in (name, *aliases):
            known, release = model_class(asked, name), release_for("vllm", (asked, name), card)
            others = [one for one in releases() if one.engine == "vllm" and knows(one, known) and runs_on(one, found)]
            if release is None:
                assert not others or not goes_with(known, found), asked
                continue
            chosen[release.version] += 1
            assert release == others[0], asked
            if known and known.least:
                assert numbers(known.least["vllm"]) <= numbers(release.version) <= numbers(known.last["vllm"] or release.version), asked
    assert chosen.most_common(1)[0][0] == CARDS[card] == release_for("vllm", ("meta-llama/Meta-Llama-3-8B",), card).version  # type: ignore[union-attr]


@pytest.mark.parametrize(("model", "version"), OLD.items())
def test_a_model_that_releases_dropped_gets_the_last_that_has_it(model: str, version: str) -> None:
    release = release_for("vllm", (model,), "H100-SXM-80GB")
    assert release is not None
    assert release.version == version
    least = numbers(version) >= (0, 20)  # before that pip's PyTorch for Arm is one for processors
    assert (release_for("vllm", (model,), "GH200-96GB") is not None) == least


def test_models_of_2026_ask_for_a_release_of_2026() -> None:
    for model, least in {
        "Qwen/Qwen3.6-35B-A3B": "0.17.0",
        "google/gemma-4-31B": "0.19.0",
        "zai-org/GLM-5.2": "0.16.0",
        "moonshotai/Kimi-K3": "0.27.0",
        "meta-models/Muse-Spark-Open-816B-A42B": "0.33.0",
    }.items():
        known = model_class(model)
        assert known is not None
        assert known.least["vllm"] == least
        assert release_for("vllm", (model,), "H100-SXM-80GB").version == "0.33.0"  # type: ignore[union-attr]
    assert release_for("vllm", ("moonshotai/Kimi-K3",), "MI300X") is None  # its newest image is of 0.23.0
    assert release_for("vllm", ("moonshotai/Kimi-K3",), "V100-SXM2-16GB") is None


def test_sparse_attention_runs_on_the_cards_that_have_its_kernels() -> None:
    for model in ("deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V4-Flash", "zai-org/GLM-5", "mistralai/Mistral-Large-4-1T-A52B"):
        runs = {card for card in CARDS if "MI" not in card and release_for("vllm", (model,), card)}
        assert runs == {"H100-SXM-80GB", "GH200-96GB", "B200", "GB200", "RTX-PRO-6000-Server"}, model


def test_no_release_is_older_than_the_first_cuda_of_the_card() -> None:
    """What compiles kernels as it starts must know the card: every release on every card."""
    cards = [card for card in facts.accelerators().values() if card.vendor == "NVIDIA" and card.min_cuda]
    whole = [*releases(), *(one for row in table("images") for one in images(row["name"]))]
    older = {
        (release.image, card.name)
        for release in whole
        for card in cards
        if release.cuda and numbers(release.cuda) < numbers(card.min_cuda) and runs_on(release, card)
    }
    assert not older
    assert release_for("vllm", (), "B300-SXM-288GB", until="0.19.1") is None  # CUDA 12.8
    assert release_for("vllm", (), "B200-SXM-180GB", until="0.19.1") is not None
    assert image_for("ray-llm", "B300-SXM-288GB") is None


def test_what_no_engine_has_is_known_to_be_had_by_none() -> None:
    for model in ("EleutherAI/gpt-neo-2.7B", "google/recurrentgemma-2b", "THUDM/glm-130b", "HuggingFaceM4/idefics2-8b"):
        known = model_class(model)
        assert not any(has_class(engine, known) for engine in ("vllm", "sglang", "tensorrt-llm", "tgi", "llama.cpp")), model
    assert has_class("transformers", model_class("EleutherAI/gpt-neo-2.7B"))
    assert not has_class("transformers", model_class("THUDM/glm-130b"))


def test_every_release_says_where_it_was_read() -> None:
    for name in ("engine_support", "engine_models", "engine_releases", "engine_ages"):
        assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", row["as_of"]) and row["source"] for row in table(name)), name
    assert all(row["source"] for row in table("model_classes"))
    named = {release.image for release in releases()}
    assert all(re.fullmatch(r"[a-z0-9./-]+:[\w.-]+", image) and ":latest" not in image and "nightly" not in image for image in named)


def test_no_engine_is_said_to_run_where_no_build_of_pytorch_does_beside_arm() -> None:
    from rightfit.facts.devices import ARM_HOSTS, is_unreleased

    on_arm = [name for name in facts.accelerators() if name.startswith(ARM_HOSTS)]
    assert {name for name in on_arm if is_served(name)} == {name for name in on_arm if not is_unreleased(name)}
    assert not is_served("T4G")
    assert is_served("GH200-96GB")
