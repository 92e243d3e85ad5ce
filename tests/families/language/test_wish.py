"""Workloads as numbers, with every default recorded."""

from __future__ import annotations

from typing import Any

import pytest

from rightfit import api
from rightfit.errors import ContradictionError, InputError, UnavailableError, UnknownNameError
from rightfit.families.language.wish import read_wish
from rightfit.physics.columns import Method
from rightfit.workload import Workload

LLAMA = "meta-llama/Meta-Llama-3-8B"


def _wish(**options: Any):
    return read_wish(Workload(**{"model": LLAMA, **options}))


def _assumed(wish) -> dict[str, Any]:
    return {assumption.field: assumption.value for assumption in wish.assumptions if assumption.field != "task"}


def test_given_values_are_not_assumed() -> None:
    wish = _wish(method="full", data="50Mtok", epochs=2, seq_len=4096, global_batch=64, objective="time", framework="trl")
    assert wish.amount.tokens == 1e8
    assert _assumed(wish) == {}


def test_defaults_are_recorded_with_a_reason() -> None:
    wish = _wish(method="lora", data="50Mtok")
    assert (wish.seq_len, wish.global_batch) == (2048, 128)
    adapters = {"lora_rank": 8, "lora_targets": "q,v"}
    said = {"objective": "cost", "seq_len": 2048, "epochs": 1.0, "global_batch": 128, "framework": "transformers"}
    assert _assumed(wish) == {**said, **adapters}
    assert all(assumption.why.key.startswith("assumed_") for assumption in wish.assumptions)


@pytest.mark.parametrize(
    ("data", "tokens"),
    [("10GB", 2.5e9), ("100ksamples", 100e3 * 512), ("OpenWebText", 9.04e9), ("IMDB", 133e6 / 4)],
)
def test_amounts_of_data_become_tokens(data: str, tokens: float) -> None:
    assert _wish(data=data).amount.tokens == pytest.approx(tokens)


def test_training_takes_twenty_tokens_a_parameter_and_a_large_batch() -> None:
    wish = _wish(task="train")
    assert wish.amount.tokens == pytest.approx(20 * 8.03e9, rel=0.01)
    assert wish.seq_len == 4096
    assert 2e6 < wish.global_batch * wish.seq_len < 8e6  # Llama-2 took 4 M tokens a step


@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
@pytest.mark.parametrize("samples", [100, 200, 1000, 5000, 20_000, 1_000_000])
def test_few_data_are_learned_in_more_than_a_few_steps(method: str, samples: int) -> None:
    """A batch is at most a small part of what is trained on, between what trainers take where
    nothing is said and what is usual."""
    wish = _wish(method=method, data=f"{samples}samples")
    sequences = wish.amount.tokens / wish.seq_len
    assert min(8, sequences / 2) <= wish.global_batch <= 128
    assert wish.global_batch <= max(8, sequences / 50 * 2**0.5)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("BAAI/bge-base-en-v1.5", "FULL"),
        ("intfloat/e5-large-v2", "FULL"),
        ("bert-base-uncased", "FULL"),
        ("Qwen/Qwen3-Embedding-8B", "LORA"),
    ],
)
def test_small_embedders_are_tuned_whole_as_encoders_are(model: str, method: str) -> None:
    assert _wish(model=model, task="finetune", data="100ksamples").method.name == method
    assert _wish(model=model, task="finetune", data="100ksamples", method="lora").method.name == "LORA"


def test_no_more_sequences_in_a_batch_than_there_are() -> None:
    assert _wish(data="20ktok").global_batch == 8


def test_a_sequence_over_the_models_limit_is_a_contradiction() -> None:
    with pytest.raises(ContradictionError, match=r"limit of .*use 8192"):
        _wish(seq_len=16384)


def test_images_do_not_fit_a_language_model() -> None:
    with pytest.raises(InputError, match="language model"):
        _wish(data="1.28Mimages")


def test_unknown_dataset_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean"):
        _wish(data="OpenWebTxt2")


def test_other_kinds_of_models_say_so() -> None:
    with pytest.raises(UnavailableError, match="transformers only"):
        read_wish(Workload(model="xgboost"))


def test_encoders_are_fine_tuned_whole_where_no_method_was_given() -> None:
    found = read_wish(Workload(model="bert-base-uncased", task="finetune", data="100ksamples"))
    assert found.method is Method.FULL
    assert [note.why.key for note in found.assumptions if note.field == "method"] == ["assumed_encoder_method"]
    assert read_wish(Workload(model="bert-base-uncased", task="finetune", data="100ksamples", method="lora")).method is Method.LORA
    assert read_wish(Workload(model="Qwen2.5-7B", task="finetune", data="100ksamples")).method is Method.LORA


def test_hours_of_audio_may_be_written_short() -> None:
    short, long = (Workload(model="whisper-large-v3", data=text) for text in ("200h", "200 hours"))
    assert (short.data_samples, short.data_unit) == (long.data_samples, long.data_unit) == (200.0, "hours")


@pytest.mark.parametrize(
    ("wish", "task"),
    [
        ({"model": "gpt2", "data": "openwebtext"}, "train"),
        ({"model": "gpt2", "data": "the pile"}, "train"),
        ({"model": "7B", "data": "300Btok"}, "train"),
        ({"model": "7B", "data": "300Btok", "method": "lora"}, "finetune"),
        ({"model": "gpt2", "data": "openwebtext", "task": "finetune"}, "finetune"),
        ({"model": "7B", "data": "50Mtok"}, "finetune"),
        ({"model": "bert-base-uncased", "data": "squad"}, "finetune"),
    ],
)
def test_a_corpus_is_learned_from_the_start_and_said_so(wish: dict[str, str], task: str) -> None:
    plan = api.plan(**wish, top=1)
    assert plan.workload.task == task
    told = [one.why.key for one in plan.assumptions if one.field == "task"]
    if "task" not in wish:
        assert told == (["assumed_task_corpus"] if task == "train" else ["assumed_default_task"])
