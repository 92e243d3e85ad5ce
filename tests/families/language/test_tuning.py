"""Tuning on preferences and rewards, for every method of the table: what each adds to time and
memory, wishes, refusals, sentences."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

import rightfit
from rightfit.errors import InputError
from rightfit.explain.reasons import render
from rightfit.exports import all_targets, job_of
from rightfit.exports import plan_document as export_document
from rightfit.facts.trainers import TuningMethod, tuning_methods
from rightfit.messages import Lang
from rightfit.search.answer import Option
from rightfit.workload import Workload
from rightfit.workload.ask import understand
from rightfit.workload.vocabulary import METHODS, PREFERENCES, REINFORCEMENTS, TUNINGS

LANGS: tuple[Lang, ...] = ("en", "zh")
ON = "aws/p5.48xlarge"
MODEL = "Qwen/Qwen2.5-3B"


@functools.cache
def on_server(method: str, server: str = ON, **options: Any) -> Option:
    """The job on one server, with as much data for every method."""
    wish = {"model": MODEL, "method": method, "data": "8ksamples", "offload": "none", **options}
    found = rightfit.estimate(on=server, task="finetune", **wish)
    assert found.best is not None
    return found.best


@pytest.fixture(params=tuple(tuning_methods().values()), ids=lambda method: method.method)
def method(request: pytest.FixtureRequest) -> TuningMethod:
    found: TuningMethod = request.param
    return found


def test_table_and_vocabulary_name_the_same_methods() -> None:
    assert set(tuning_methods()) == set(TUNINGS)
    assert set(TUNINGS) <= set(METHODS.words)
    assert {name for name, method in tuning_methods().items() if method.rollout} == set(REINFORCEMENTS)
    assert all("arXiv" in method.source for method in tuning_methods().values())


def test_a_method_needs_the_models_and_phases_that_its_row_names(method: TuningMethod) -> None:
    best = on_server(method.method)
    memory, time = best.memory_terms, best.time_terms
    assert ("reference" in memory) == (method.reference > 0)
    assert ("reward_model" in memory) == method.reward
    assert ("value_model" in memory) == ("value_s" in time) == method.value
    assert ("rollout_s" in time) == method.rollout
    assert ("scoring_s" in time) == (method.reference + method.policy_forwards > 0)
    assert sum(memory.values()) == pytest.approx(best.estimate["peak_memory_bytes"].mid, rel=0.15)
    assert sum(time.values()) == pytest.approx(best.estimate["step_s"].mid, rel=1e-6)


def test_every_figure_says_that_nothing_measured_stands_behind_it(method: TuningMethod) -> None:
    plan = rightfit.plan(model=MODEL, method=method.method, top=1)
    assert plan.best is not None
    assert any(taken.why.key == "assumed_tuning_uncalibrated" for taken in plan.assumptions)
    assert any(reason.key == "uncalibrated_method" for reason in plan.best.warnings)
    assert {plan.best.estimate[name].source for name in ("step_s", "peak_memory_bytes", "total_time_s")} == {"extrapolated"}
    time, plain = plan.best.estimate["step_s"], on_server("lora").estimate["step_s"]  # a short run's total holds the doubt of its start
    assert time.high95 / time.mid > plain.high95 / plain.mid
    reasons = [*plan.best.warnings, *(taken.why for taken in plan.assumptions)]
    assert not [reason.key for reason in reasons for lang in LANGS if reason.key in render(reason, lang)]


def test_adapters_need_no_second_copy_for_the_reference(method: TuningMethod) -> None:
    whole, adapters = on_server(method.method), on_server(method.method, update="lora")
    assert "reference" not in adapters.memory_terms
    assert (adapters.layout.update, whole.layout.update) == ("lora", "full")
    assert adapters.memory_terms.get("optimizer", 0) < whole.memory_terms.get("optimizer", 1)


def test_a_pair_is_two_sequences_of_which_both_go_together() -> None:
    pairs = [on_server(name).layout for name in PREFERENCES if tuning_methods()[name].is_paired]
    assert {layout.global_batch for layout in pairs} == {64}  # pairs, as trainers count them
    asked = on_server("dpo", global_batch=16, micro_batch=1).layout
    assert (asked.micro_batch, asked.global_batch) == (1, 16)


@pytest.mark.parametrize("name", REINFORCEMENTS)
def test_longer_answers_and_more_of_them_take_longer(name: str) -> None:
    base = on_server(name)
    longer, more = on_server(name, output_tokens=2048), on_server(name, completions=16)
    assert longer.estimate["step_s"].mid > base.estimate["step_s"].mid
    assert more.estimate["total_time_s"].mid > base.estimate["total_time_s"].mid


@pytest.mark.parametrize("name", REINFORCEMENTS)
def test_where_the_engine_answers_changes_what_trains(name: str) -> None:
    same, apart, overlapped = (on_server(name, rollout=where) for where in ("colocated", "separate", "async"))
    cards = [option.layout.data * option.layout.tensor for option in (same, apart, overlapped)]
    assert cards == [8, 4, 4]
    assert overlapped.estimate["step_s"].mid < apart.estimate["step_s"].mid
    assert {option.layout.rollout for option in (same, apart, overlapped)} == {"colocated", "separate", "async"}


def test_a_smaller_reward_model_takes_less() -> None:
    same, small = on_server("ppo", sharding="zero3"), on_server("ppo", sharding="zero3", reward_model="Qwen/Qwen2.5-0.5B")
    assert small.memory_terms["reward_model"] < 0.2 * same.memory_terms["reward_model"]
    assert small.estimate["step_s"].mid < same.estimate["step_s"].mid
    assert "reward_model" in on_server("grpo", reward_model="Qwen/Qwen2.5-0.5B").memory_terms


@pytest.mark.parametrize(
    ("wish", "named"),
    [
        ({"method": "lora", "rollout": "separate"}, "ppo, grpo"),
        ({"method": "dpo", "completions": 4}, "ppo, grpo"),
        ({"method": "lora", "update": "lora"}, "dpo"),
        ({"method": "grpo", "seq_len": 2048}, "input_tokens"),
        ({"method": "dpo", "task": "train"}, "task train"),
        ({"method": "dpo", "update": "full", "lora_rank": 8}, "update full"),
        ({"method": "dpo", "update": "lora", "quantization": "nf4"}, "update qlora"),
        ({"method": "dpo", "output_tokens": 100}, "serving"),
        ({"method": "grpo", "offload": "params"}, "offload optimizer"),
        ({"method": "grpo", "reward_model": "resnet50"}, "not a language model"),
        ({"method": "dpo", "model": "bert-base-uncased"}, "text generation models"),
        ({"method": "grpo", "output_tokens": 10_000_000}, "limit"),
        ({"method": "gpro"}, "grpo"),
    ],
)
def test_contradictions_end_in_one_line(wish: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as refused:
        rightfit.plan(**{"model": MODEL, "task": "finetune", **wish})
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", TUNINGS)
@pytest.mark.parametrize("model", ["stable-diffusion-xl", "resnet50", "dlrm", "xgboost"])
def test_other_families_refuse_it(name: str, model: str) -> None:
    with pytest.raises(InputError) as refused:
        rightfit.plan(model=model, method=name, data="10GB")
    assert "method" in str(refused.value)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("GRPO train Qwen2.5-7B on 7k prompts", {"method": "grpo", "data": "7k samples"}),
        ("DPO with LoRA on Llama-3-8B, 60k pairs", {"method": "dpo", "update": "lora"}),
        ("reinforcement learning of Qwen2.5-7B, PPO", {"method": "ppo"}),
        ("PPO for Llama-3-8B with reward model Qwen2.5-1.5B", {"method": "ppo", "model": "Llama-3-8B", "reward_model": "Qwen2.5-1.5B"}),
        ("train a reward model on Llama-3-8B", {"method": "reward"}),
        ("用 GRPO 强化学习微调 Qwen2.5-7B，QLoRA", {"method": "grpo", "update": "qlora"}),
        ("对 Qwen2.5-7B 做偏好对齐", {"method": "dpo"}),
        ("KTO 4bit LoRA of Qwen2.5-7B", {"method": "kto", "update": "qlora"}),
        ("fine-tune Qwen2.5-7B with LoRA", {"method": "lora"}),
    ],
)
def test_sentences_are_read(sentence: str, expected: dict[str, str]) -> None:
    wishes = understand(sentence).wishes
    assert {name: wishes.get(name) for name in expected} == expected
    assert wishes["task"] == "finetune"
    Workload(**wishes)


@pytest.mark.parametrize(("word", "method"), [("DAPO", "grpo"), ("RLOO", "grpo"), ("SimPO", "orpo")])
def test_a_near_method_is_planned_as_the_nearest_and_said(word: str, method: str) -> None:
    found = understand(f"{word} on Qwen2.5-7B with 10k prompts")
    assert found.wishes["method"] == method
    said = [one for one in found.assumed if one.key == "workload.assumed_near_method"]
    assert [one.fields["word"] for one in said] == [word]


def test_every_exporter_carries_it_or_refuses_in_one_line(method: TuningMethod) -> None:
    plan = rightfit.plan(model="Qwen/Qwen2.5-0.5B", method=method.method, data="4ksamples", cloud="aws", gpu="L4,A10G", top=1)
    job = job_of(export_document(json.loads(plan.to_json())))
    for name, target in all_targets().items():
        problem = target.problem(job)
        assert "\n" not in str(problem)
        if problem:
            assert len(str(problem)) > 10
        else:
            assert method.method in str(target.files(job)) or target.group in ("launch", "kubernetes", "environment", "operations"), name
