"""Whatever can be planned can be started by some export, or is refused in a line that says why."""

from __future__ import annotations

import dataclasses
import json
import shlex

import pytest
import yaml
from answers import asked, planned, stored, wishes
from kinds import REFUSED, STARTED, kind_plan
from typical_plans import plan_values

import rightfit
from rightfit import facts
from rightfit.errors import InputError, RightfitError
from rightfit.explain.messages import Lang, say
from rightfit.explain.sheets import FIRST_WARNINGS, UNSTARTED, short_sheet
from rightfit.exports import ExportSettings, Job, all_targets, files_of, find_target, job_of, plan_document
from rightfit.exports.model_words import class_names, model_kind, size_problem
from rightfit.exports.stack import stack_name, stack_of, stack_problem
from rightfit.exports.training_words import class_problem
from rightfit.facts.engine_releases import model_class
from rightfit.facts.tables import table
from rightfit.search.answer import Reason

PROGRAMS = ("accelerate", "python", "python3", "sh", "torchrun", "uvicorn", "vllm", "env", "llama-server")


def job(name: str) -> Job:
    return job_of(plan_document(kind_plan(name)))


@pytest.mark.parametrize("name", STARTED)
def test_a_kind_of_work_has_an_export_that_starts_it(name: str) -> None:
    """A command of a known program, whose own files are all written, and packages with versions."""
    found = job(name)
    assert not stack_problem(found), f"{stack_name(found)}: {stack_problem(found)}"
    stack = stack_of(found)
    assert stack.command[0] in PROGRAMS
    named = [word for word in stack.command if word.endswith((".py", ".json", ".yaml")) and "/" not in word]
    assert set(named) <= set(stack.files), (named, sorted(stack.files))
    words = [word for line in stack.setup for word in shlex.split(line)]
    assert "pip" in words
    pins = [word for word in words if "==" in word]
    assert pins


def test_names_of_columns_reach_a_program_or_are_refused() -> None:
    """No target passes over what the user says of the data."""
    found = job_of(plan_document(plan_values("lora-8b-aws")), settings=ExportSettings(columns="text=content, messages=talk"))
    for target in all_targets().values():
        if target.group != "training" or target.problem(found):
            continue
        files = target.files(found)
        if "train.json" in files:
            assert json.loads(files["train.json"])["columns"] == {"text": "content", "messages": "talk"}, target.name
        else:
            assert target.name in ("axolotl", "llama-factory", "ms-swift")
            assert "talk" in "".join(files.values()), target.name
    megatron = job_of(plan_document(plan_values("pretrain-8b-megatron")), settings=ExportSettings(columns="text=content"))
    assert "columns in the data" in str(find_target("megatron").problem(megatron))
    with pytest.raises(InputError, match="NAME=THEIRS"):
        ExportSettings(columns="text")


def test_what_was_trained_is_served_on_the_same_card() -> None:
    """Adapters are put into their base first; what nothing serves is refused in a line."""
    adapted = files_of(job_of(plan_document(plan_values("lora-8b-aws")), settings=ExportSettings(then="serve")), "trl")
    assert {"then-serve/serve.sh", "then-serve/merge.py", "then-serve/run_core.py", "then-serve/merge.json"} <= set(adapted)
    assert (
        f'"$result"/merged --served-model-name {job_of(plan_document(plan_values("lora-8b-aws"))).name}' in adapted["then-serve/serve.sh"]
    )
    assert "vllm==" in adapted["then-serve/requirements.txt"]
    whole = files_of(job_of(plan_document(plan_values("full-8b-gcp")), settings=ExportSettings(then="serve")), "torchrun")
    assert "then-serve/merge.py" not in whole
    for name in ("chat-8b", "segformer-train"):
        with pytest.raises(InputError):
            files_of(job_of(plan_document(plan_values(name)), settings=ExportSettings(then="serve")), "all")


@pytest.mark.parametrize("name", REFUSED)
def test_a_kind_that_nothing_starts_is_refused_with_its_reason(name: str) -> None:
    found, said = job(name), REFUSED[name][1]
    problem = str(stack_problem(found))
    assert said in problem, problem
    assert "\n" not in problem
    group = [target for target in all_targets().values() if target.group == "training"]
    assert all(str(target.problem(found)) for target in group)


SAYS = {"no_program", "no_program_size", "serve_not_stored"}
"""Warnings of a plan that no target starts it as it stands."""
MODELS = (
    *("Qwen/Qwen2.5-0.5B", "meta-llama/Meta-Llama-3-70B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-35B-A3B"),
    *("bert-base-uncased", "t5-base", "BAAI/bge-m3", "openai/whisper-large-v3", "openai/clip-vit-base-patch32", "vit-base", "sdxl"),
)
METHODS = ("full", "lora", "qlora", "dora", "freeze", "dpo", "grpo", "ppo")


def differs(name: str, values: dict[str, object]) -> str:
    """What a plan says of its export and what the export does, where they are not the same."""
    if not values["options"]:
        return ""
    found = job_of(plan_document(values))
    problem, said = str(stack_problem(found)), {one["key"] for one in values["options"][0]["warnings"]} & SAYS
    return "" if bool(problem) == bool(said) else f"{name}: {problem or 'it is started'}, and the plan says {sorted(said)}"


def test_a_plan_says_what_no_export_runs() -> None:
    """Of every kind and every wish: where the server is named it is said whether something here
    runs on it, in the words of the reader's language."""
    plans = {name: kind_plan(name) for name in (*STARTED, *REFUSED)} | {name: planned(name).to_dict() for name in wishes()}
    assert not [told for name, values in plans.items() if (told := differs(name, values))]
    for key in ("no_program", "no_program_size"):
        assert len({str(say(f"reasons.{key}", lang, what="x", model="7B")) for lang in ("en", "zh")}) == 2


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_next_step_is_an_export_only_where_one_starts_the_plan(lang: Lang) -> None:
    """The same plan with each warning that nothing starts it, and without any."""
    found = planned(next(name for name in wishes() if planned(name).options))
    assert set(FIRST_WARNINGS[: len(SAYS)]) == SAYS == UNSTARTED, "said before all else"
    first = found.options[0]
    others = tuple(one for one in first.warnings if one.key not in SAYS)
    for warnings in (others, *((*others, Reason(key, {"what": "x", "model": "7B"})) for key in SAYS)):
        one = dataclasses.replace(found, options=(dataclasses.replace(first, warnings=warnings), *found.options[1:]))
        last = [part for part in short_sheet(one, lang) if isinstance(part, str)][-1]
        assert ("export" in last.partition("rightfit")[2]) == (warnings == others), warnings
        assert "rightfit why" in last


@pytest.mark.deep
@pytest.mark.parametrize("method", METHODS)
def test_every_method_of_every_kind_of_model_is_started_or_said_not_to_be(method: str) -> None:
    faults = []
    for model in MODELS:
        wish = {"model": model, "task": "finetune", "data": "10ksamples"}
        wish |= {"method": method} if method in ("full", "lora", "qlora", "dora", "freeze", "ppo") else {"method": method, "update": "lora"}
        values = asked(lambda wish=wish: stored(f"walk {wish}", lambda: rightfit.plan(**wish).to_dict()))
        if not isinstance(values, RightfitError):
            faults.append(differs(f"{model} {method}", values))
    assert len(faults) >= 2
    assert not [fault for fault in faults if fault]


TRAINS = {
    "encoder": "torchrun",
    "embedding": "torchrun",
    "vision-language": "llama-factory",
    "reranker": "torchrun",
    "encoder-decoder": "torchrun",
}
"""Kind of a text model that is no decoder -> the one target that trains it, "" for none."""


@pytest.mark.parametrize("kind", TRAINS)
def test_a_program_trains_the_kinds_that_it_can_load_and_a_refusal_names_the_one_that_does(kind: str) -> None:
    """Of every text model of the fact base, under the plan of a decoder and of an encoder."""
    group = [target for target in all_targets().values() if target.group == "training" and target.name not in ("fsdp2", "diffusers")]
    seen, started = 0, dict[str, bool]()
    for name in ("lora-8b-aws", "full-8b-gcp", "bert-azure"):
        found = job(name) if name in STARTED else job_of(plan_document(plan_values(name)))
        for model in facts.models().values():
            if not isinstance(model, facts.TransformerArchitecture):
                continue
            one = dataclasses.replace(found, model=model.name)
            if model_kind(one) != kind or size_problem(one):
                continue
            taken = {target.name for target in group if not target.problem(one)}
            assert taken <= {TRAINS[kind]}, f"{model.name}: {taken}"
            refused = str(all_targets()["trl"].problem(one))
            seen += bool(taken) or not TRAINS[kind]
            started[model.name] = started.get(model.name, False) or bool(taken)
            assert not TRAINS[kind] or kind == "encoder" or TRAINS[kind] in refused, refused
    assert seen
    if kind in ("embedding", "reranker", "encoder-decoder"):  # the words by which plans and exports know them are the same
        work = "embedding" if kind == "reranker" else kind
        told = {name: facts.has_program("finetune", name, work, "lora", vendor="NVIDIA") for name in started}
        assert told == started


def test_a_class_whose_code_lies_beside_the_weights_is_trained_by_nothing_and_no_plan_says_it_is() -> None:
    """Of every text model of the fact base: the plan's warning and the refusal of the export are of
    the same models."""
    found, seen = job_of(plan_document(plan_values("lora-8b-aws"))), 0
    for model in facts.models().values():
        if not isinstance(model, facts.TransformerArchitecture):
            continue
        known = model_class(*class_names(dataclasses.replace(found, model=model.name)))
        beside = known is not None and bool(known.architecture) and not known.transformers
        kind = model.kind if model.kind in ("encoder", "embedding", "vlm") else "decoder"
        seen += beside
        assert not beside or not facts.has_program("finetune", model.name, kind, "lora", vendor="NVIDIA"), model.name
        assert beside == bool(class_problem(dataclasses.replace(found, model=model.name), "trl", "999")), model.name
    assert seen


def test_the_chat_template_is_the_program_s_own_for_the_model() -> None:
    """llama-factory's list of models decides; for a model that it does not list it takes the
    tokenizer's template."""
    found = job_of(plan_document(plan_values("lora-8b-aws")))
    listed = {row["repository"]: row["template"] for row in table("chat_templates")}
    expected = {
        "Qwen/Qwen2.5-7B-Instruct": "qwen",
        "meta-llama/Llama-3.1-8B-Instruct": "llama3",
        "google/gemma-2-9b-it": "gemma2",
        "microsoft/phi-4": "phi4",
        "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": "deepseekr1",
        "mistralai/Mistral-7B-Instruct-v0.3": "mistral",
        "allenai/OLMo-2-1124-7B": None,
    }
    for name in {**expected, **{model: None for model in facts.models() if model in listed}}:
        one = dataclasses.replace(found, model=name)
        if not all_targets()["llama-factory"].problem(one):
            template = yaml.safe_load(files_of(one, "llama-factory")["train.yaml"]).get("template")
            assert template == expected.get(name, listed.get(name)), name
