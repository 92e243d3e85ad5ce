"""Words that are none of an option's own are refused, with what comes nearest; nothing is
dropped in silence."""

from __future__ import annotations

from typing import Any

import pytest

TRAIN = ("plan", "gpt2", "--task", "finetune", "--method", "lora", "--data", "1Mtok")
SERVE = ("plan", "7B", "--task", "serve", "--rate", "1/s")
PASS = ("plan", "bert-base-uncased", "--task", "serve", "--rate", "1/s")
TABLE = ("plan", "xgboost", "--task", "train", "--data", "1Mrows", "--columns", "20")

UNKNOWN = {
    "lora targets": ((*TRAIN, "--lora-targets", "q_proj,k_prj"), "k_proj"),
    "lora targets far": ((*TRAIN, "--lora-targets", "foo"), "foo"),
    "storage": ((*TRAIN, "--storage", "gp4"), "gp3"),
    "storage of a cloud": ((*TRAIN, "--storage", "essdd"), "essd-pl"),
    "framework": ((*TRAIN, "--framework", "axoltl"), "axolotl"),
    "engine": ((*SERVE, "--framework", "vlm"), "vLLM"),
    "engine of one pass": ((*PASS, "--framework", "onxruntime"), "ONNX Runtime"),
    "library": ((*TABLE, "--framework", "lightgmb"), "lightgbm"),
    "settings": ((*TABLE, "--settings", "n_estimator=5"), "n_estimator"),
    "settings of no algorithm": ((*TRAIN, "--settings", "foo=1"), "settings"),
    "machine's card": ((*TRAIN, "--have", "2xRTX-390"), "RTX-3090"),
    "machine's place": ((*TRAIN, "--have", "RTX-4090@hom"), "home"),
    "not a machine": ((*TRAIN, "--have", ""), "2xRTX-3090@home"),
    "machine of no card": ((*TRAIN, "--have", "0xRTX-4090"), "0xRTX-4090"),
    "machine of a million": ((*TRAIN, "--have", "1000000xRTX-4090"), "2xRTX-3090@home"),
    "kind": (("plan", "--kind", "imges"), "images"),
    "have beside a kind": (("plan", "--kind", "images", "--have", "1xRTX-3090@home"), "rightfit plan xgboost"),
    "a way to pay that is avoided": ((*TRAIN, "--avoid", "spot"), "--purchase"),
    "kind beside a model": ((*TRAIN, "--kind", "images"), "kind"),
    "goal beside a model": ((*TRAIN, "--goal", "classify"), "goal"),
    "data of a kind": (("plan", "--kind", "images", "--data", "200GX"), "200GX"),
    "goal of a kind": (("plan", "--kind", "images", "--goal", "detetion"), "detection"),
    "goal of another kind": (("plan", "--kind", "audio", "--goal", "clustering"), "recognition"),
    "goal that is near": (("plan", "--kind", "text", "--goal", "tarnslation"), "translation"),
    "framework with a slip behind a known word": ((*TRAIN, "--framework", "torch-fsd"), "fsdp"),
    "framework of two words": ((*TRAIN, "--framework", "deepspeed tranformers"), "transformers"),
    "goal alone": (("plan", "--goal", "xyzzy"), "--kind"),
}


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_words_are_refused_in_one_line(run: Any, name: str, lang: str) -> None:
    words, told = UNKNOWN[name]
    result = run(*words, "--lang", lang)
    assert (result.code, result.out) == (2, ""), result.out[:200]
    assert len(result.err.strip().splitlines()) == 1, result.err
    assert told in result.err
    if lang == "zh":
        assert "错误" in result.err


@pytest.mark.parametrize(("lang", "says"), [("en", "on your own"), ("zh", "自有")])
def test_a_machine_that_one_has_is_planned_on_beside_a_rental(run: Any, lang: str, says: str) -> None:
    result = run("plan", "Qwen/Qwen2.5-7B", "--method", "qlora", "--data", "10Mtok", "--have", "2xRTX-3090@home", "--lang", lang)
    assert result.code == 0
    assert says in result.out.splitlines()[0]
    assert "2x-RTX-3090-home" in result.out.splitlines()[0]


def test_a_machine_that_does_not_do_it_is_told_and_a_rental_planned(run: Any) -> None:
    result = run("plan", "70B", "--method", "full", "--data", "10Mtok", "--have", "RTX-3090", "--verbose")
    assert result.code == 0
    assert "1 x RTX-3090" in result.out  # named, and why not
    assert "on your own" not in result.out.splitlines()[0]


@pytest.mark.parametrize("kind", ["images", "table", "text", "audio", "video", "recommendation"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_kind_of_data_gives_a_plan_and_a_question(run: Any, kind: str, lang: str) -> None:
    result = run("plan", "--kind", kind, "--lang", lang)
    assert result.code == 0, result.err
    assert ("租用" if lang == "zh" else "Rent ") in result.out
    assert "rightfit plan MODEL" in result.out


@pytest.mark.parametrize("words", [("plan", "7B", "--data", "1Mtok"), ("prices", "--gpu", "T4"), ("servers", "A10")], ids=" ".join)
def test_top_0_shows_all(run: Any, words: tuple[str, ...]) -> None:
    import json

    few, everything = (json.loads(run(*words, "--top", top, "--format", "json").out) for top in ("3", "0"))
    length = (lambda found: len(found["options"])) if words[0] == "plan" else len
    assert length(few) <= 3 < length(everything)


@pytest.mark.parametrize(("option", "value"), [("--data", "50M"), ("--budget", "abc"), ("--deadline", "soon"), ("--rate", "often")])
def test_what_cannot_be_read_is_said_in_chinese(run: Any, option: str, value: str) -> None:
    result = run("plan", "7B", option, value, "--lang", "zh")
    assert result.code == 2
    assert "无法读懂" in result.err
    assert value in result.err
    assert "cannot read" not in result.err
