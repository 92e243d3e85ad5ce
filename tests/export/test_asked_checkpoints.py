"""The checkpoint that was asked for is the one that files fetch: over every name of the index that
borrows another record's shape, and every target."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typical_plans import plan_values

import rightfit
from rightfit import facts
from rightfit.explain.sheets import TAKEN
from rightfit.explain.voices import voice_of
from rightfit.exports import Files, Job, all_targets, files_of, job_of, model_words, plan_document
from rightfit.exports.bundle import check_script, readme
from rightfit.exports.fleets import FLEET_TARGETS, files_of_fleet
from rightfit.exports.model_words import hub_id
from rightfit.exports.recipes import launcher_of, recipe_of
from rightfit.facts import bundled
from rightfit.planner.plan import assumed_model

#: Owner and name; a number behind the slash is a size of patches (vit-b/16).
REPOSITORY = re.compile(r"[\w.-]+/(?!\d+$)[\w.-]+")
#: A record, and a repository that has weights of its own and the record's shape.
Lent = tuple[str, str]
LENT: tuple[Lent, ...] = tuple((entry.name, name) for entry in bundled.index() for name in entry.aliases if REPOSITORY.fullmatch(name))

#: Parts of the walk over them.
PARTS = 8

# Plans whose files are looked at, by what the model is. Each target is looked at in the
# first that it takes.
TRAINED = ("lora-8b-aws", "full-8b-gcp", "pretrain-8b-megatron", "pretrain-1b-alicloud", "lora-8b-runpod", "bert-azure", "tokenize-aws")
ENGINES = ("sglang", "tensorrt-llm", "tgi", "llama.cpp", "two servers")
PLANS: dict[str, tuple[str, ...]] = {
    "decoder": (*TRAINED, "batch-8b-tencent", "chat-8b-aws", *(f"chat-8b-aws:{name}" for name in ENGINES)),
    "vlm": ("lora-8b-aws", "chat-8b-aws", *(f"chat-8b-aws:{name}" for name in ENGINES)),
    "encoder": ("bert-azure", "bge-batch", "bert-service-azure"),
    "whisper": ("whisper-train-aws", "whisper-batch-aws", "speech-service"),
    "speech": ("wav2vec-train", "segformer-train"),
    "diffusion": ("sdxl-aws", "sdxl-service-aws", "flux-lora-fp8"),
    "vision": ("resnet-gcp",),
}
#: A model of each kind that is its own record, and named in files as others are: not those that
#: programs have under short names.
OWN = {
    "decoder": "meta-llama/Meta-Llama-3-8B",
    "vlm": "Qwen/Qwen2.5-VL-7B-Instruct",
    "encoder": "google-bert/bert-base-uncased",
    "speech": "facebook/wav2vec2-base",
    "diffusion": "stabilityai/stable-diffusion-xl-base-1.0",
}
#: Aliases with a slash that are no repositories: sizes of patches stand behind it.
PATCHES = 17
CONFIG: dict[str, Any] = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "num_hidden_layers": 28, "hidden_size": 3584}
CONFIG |= {"num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064}
#: What is planned for each, in the slow walk.
SLOW_WISHES: dict[str, dict[str, Any]] = {
    "decoder": {"task": "finetune", "method": "lora", "data": "10Mtok", "max_nodes": 4},
    "vlm": {"task": "finetune", "method": "lora", "data": "10Mtok", "max_nodes": 4},
    "encoder": {"task": "finetune", "data": "10ksamples"},
    "whisper": {"task": "batch", "data": "100hours"},
    "speech": {"task": "finetune", "data": "100hours"},
    "diffusion": {"task": "finetune", "data": "1ksamples"},
    "vision": {"task": "finetune", "data": "10ksamples"},
}
#: What makes a name a part of a longer one.
_BEFORE, _BEHIND = re.compile(r"(?<!\\)[\w./-]$|\\[^n]$"), re.compile(r"[\w-]|\.\w")
#: Plans whose README is looked at as well.
WITH_README = ("chat-8b-aws", "bert-azure", "sdxl-aws", "whisper-train-aws", "wav2vec-train")


def kind_of(record: str) -> str:
    found = facts.models()[record]
    if isinstance(found, facts.TransformerArchitecture):
        kind = {"encoder": "encoder", "embedding": "encoder", "vlm": "vlm"}.get(found.kind, "decoder")
        return "whisper" if "whisper" in record else kind
    return {facts.VisionModel: "vision", facts.DiffusionModel: "diffusion"}.get(type(found), "speech")


@functools.cache
def planned(name: str) -> Job:
    """The job of a typical plan; behind a colon, the same made for another engine, or for a replica
    that spans two servers."""
    plan, _, other = name.partition(":")
    job = job_of(plan_document(plan_values(plan)))
    if not other:
        return job
    layout = {"tensor": job.gpus_per_node, "pipeline": 2, "replicas": 1} if other == "two servers" else {"engine": other}
    option = job.option.model_copy(update={"layout": job.option.layout.model_copy(update=layout), "nodes": 2 if "tensor" in layout else 1})
    return dataclasses.replace(job, option=option)


def asking(job: Job, model: str) -> Job:
    """The job of a plan that asks for another model, as `job_of` reads it from
    the plan's workload."""
    return dataclasses.replace(job, model=model, workload={**job.workload, "model": model})


@functools.cache
def homes(kind: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Plans of a kind, and the targets that are looked at in each."""
    left, found = dict(all_targets()), []
    for name in PLANS[kind]:
        here = tuple(target for target in left if not left[target].problem(planned(name)))
        found.append((name, here))
        left = {target: value for target, value in left.items() if target not in here}
    return tuple(found)


def named(text: str, name: str) -> int:
    """How often a whole name stands in a text; in a text within JSON a new line is a
    backslash and an n."""
    places = [place.start() for place in re.finditer(re.escape(name), text)]
    return sum(_BEFORE.search(text[max(0, at - 2) : at]) is None and not _BEHIND.match(text, at + len(name)) for at in places)


def texts_of(job: Job, targets: Iterable[str], *, with_readme: bool) -> dict[str, str]:
    """What a job's files hold, by target; with the README and check.sh of them all."""
    problems = {name: all_targets()[name].problem(job) for name in targets}
    written: dict[str, Files] = {name: all_targets()[name].write(job) for name, problem in problems.items() if not problem}
    texts = {target: "\n".join(files.values()) for target, files in written.items()}
    if with_readme and (launcher := launcher_of(job, written)):
        refused = [(name, problem) for name, problem in problems.items() if problem]
        texts |= {"README": readme(job, written, refused), "check": check_script(job, recipe_of(job, launcher))}
    return texts


@functools.cache
def usual_counts(plan: str, targets: tuple[str, ...], model: str) -> dict[str, int]:
    """How often each target names a model that is its own record."""
    return {
        name: named(text, model) for name, text in texts_of(asking(planned(plan), model), targets, with_readme=plan in WITH_README).items()
    }


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from (str(key), *leaves(item))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield str(value)


@pytest.fixture
def plain_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """YAML as the lines of its leaves, JSON without indents: what stands in a document is looked at
    here, and laying out thousands takes a minute."""
    monkeypatch.setattr("rightfit.exports.quoting.yaml.dump_all", lambda documents, **_: "\n".join(leaves(documents)) + "\n")
    compact = types.SimpleNamespace(dumps=lambda value, **_: json.dumps(value, ensure_ascii=False))
    monkeypatch.setattr("rightfit.exports.quoting.json", compact)


def faults_of(record: str, repository: str, texts: dict[str, str], usual: dict[str, int]) -> list[str]:
    """Targets that name the lender, or the asked repository less often than another plan's
    files name their model."""
    lenders = {record, record.removeprefix("timm/")}
    faults = [f"{name} fetches {lender}" for name, text in texts.items() for lender in lenders if named(text, lender)]
    return faults + [f"{name} lacks {repository}" for name, text in texts.items() if named(text, repository) < usual.get(name, 0)]


def test_the_index_knows_the_repositories_that_borrow_a_shape() -> None:
    with_slash = [name for entry in bundled.index() for name in entry.aliases if "/" in name]
    assert len(with_slash) - len(LENT) == PATCHES
    assert len(LENT) >= 257


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", PLANS)
def test_every_target_fetches_the_repository_that_was_asked_for(kind: str, part: int, plain_documents: None) -> None:
    faults: list[str] = []
    looked_at: set[str] = set()
    lent = [(record, repository) for record, repository in LENT if kind_of(record) == kind][part::PARTS]
    for record, repository in lent:
        for plan, targets in homes(kind):
            texts = texts_of(asking(planned(plan), repository), targets, with_readme=plan in WITH_README)
            usual = usual_counts(plan, targets, OWN[kind]) if kind in OWN else {}
            faults += [f"{repository} in {plan}: {fault}" for fault in faults_of(record, repository, texts, usual)]
            looked_at |= texts.keys()
    assert not faults, f"{len(faults)} faults, such as " + "; ".join(faults[:5])
    possible = {target for _, targets in homes(kind) for target in targets}
    assert looked_at >= possible - {"timm"} or kind in ("vision", "diffusion", "vlm") or not lent


def test_the_walk_looks_at_every_target_that_names_a_model() -> None:
    reached = {target for kind in PLANS for _, targets in homes(kind) for target in targets}
    made = {"tabular", "tabular-service", "graph", "recommender"}  # their models are made, not fetched
    assert set(all_targets()) - reached == made | {"detection", "yolo"}  # records of their own, which lend no shape
    assert {"vllm", "sglang", "tgi", "tensorrt-llm", "leaderworkerset", "batch", "megatron", "trl", "diffusers", "speech"} <= reached


def test_a_plan_of_a_borrowed_shape_says_whose_it_is_and_its_files_fetch_what_was_asked() -> None:
    plan = rightfit.plan("Qwen/Qwen2.5-Coder-7B-Instruct", task="serve", rate="1/s", cloud="aws", gpu="L40S", top=1)
    assert plan.to_dict()["workload"]["model"] == "Qwen/Qwen2.5-Coder-7B-Instruct"
    shown = [voice_of(plan).assumption_text(one, lang) for lang in ("en", "zh") for one in plan.assumptions if one.field == "model"]
    assert len(shown) == 2
    assert all("Qwen/Qwen2.5-Coder-7B-Instruct" in text and named(text, "Qwen/Qwen2.5-7B") == 1 for text in shown), shown
    priced = {row["model"] for section in plan.sections if section.name == "api" for row in section.content["prices"]}
    assert priced, "an API sells Qwen2.5-Coder-7B"
    assert all("coder" in model.casefold() for model in priced), priced
    files = files_of(job_of(plan_document(plan.to_dict())), "vllm")
    assert "vllm serve Qwen/Qwen2.5-Coder-7B-Instruct " in files["serve.sh"]


def test_a_shape_that_is_known_by_name_only_is_said_first() -> None:
    asked = "unsloth/Meta-Llama-3.1-8B-Instruct"
    plan = rightfit.plan(asked, task="finetune", method="lora", data="10Mtok", cloud="aws", top=1)
    assert [one.why.params for one in plan.assumptions if one.why.key == "assumed_shape_by_name"] == [
        {"value": asked, "record": "meta-llama/Llama-3.1-8B"}
    ]
    assert "assumed_shape_by_name" in TAKEN


@pytest.mark.parametrize("model", ["meta-llama/Meta-Llama-3-8B", "llama-3-8b", "7B", "resnet50"])
def test_a_model_that_is_its_own_record_is_not_said_to_borrow(model: str) -> None:
    assert not [one for one in assumed_model(rightfit.Workload(model=model, task="finetune", data="10ksamples")) if "shape" in one.why.key]


def test_timm_names_its_own_network_where_the_checkpoint_is_anothers() -> None:
    for repository, own in (
        ("google/vit-base-patch16-224", "timm/vit_base_patch16_224"),
        ("facebook/dinov2-base", "timm/vit_base_patch14_dinov2"),
    ):
        problem = str(all_targets()["timm"].problem(asking(planned("resnet-gcp"), repository)))
        assert repository in problem
        assert own in problem
        assert not all_targets()["timm"].problem(asking(planned("resnet-gcp"), own))


@pytest.mark.parametrize(
    ("model", "short"),
    [
        ("openai/whisper-large", "large-v1"),
        ("openai/whisper-large-v3", "large-v3"),
        ("distil-whisper/distil-large-v3", "distil-large-v3"),
        ("my/whisper-small-ct2", "my/whisper-small-ct2"),
    ],
)
def test_faster_whisper_is_told_the_asked_model_by_its_own_name_for_it(model: str, short: str) -> None:
    files = all_targets()["batch"].files(asking(planned("whisper-batch-aws"), model))
    assert json.loads(files["run.json"])["model"] == short


def test_the_files_of_a_fleet_name_the_checkpoint_that_was_asked_for() -> None:
    fleet = json.loads((Path(__file__).parents[1] / "exporters/data/fleet.json").read_text("utf-8"))
    record, repository = "meta-llama/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B-Instruct"
    for row in fleet["placements"]:
        if row.get("workload"):
            row["workload"]["model"] = repository
    texts = {to: "\n".join(files_of_fleet(fleet, to).values()) for to in FLEET_TARGETS}
    assert not [to for to, text in texts.items() if named(text, record)]
    assert [to for to, text in texts.items() if named(text, repository)]


def test_a_folder_stays_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("models/Qwen2.5-7B", "Qwen2.5-7B-Instruct"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        model_words._found.cache_clear()
        for text in (name, f"./{name}", str(folder)):
            assert hub_id(asking(planned("chat-8b-aws"), text)) == text
    model_words._found.cache_clear()
    for text in ("/data/models/Qwen2.5-7B", "./elsewhere/Qwen2.5-7B", "a/b/Qwen2.5-7B"):
        assert hub_id(asking(planned("chat-8b-aws"), text)) == text


@pytest.mark.deep
def test_every_repository_that_borrows_a_shape_is_planned_and_exported_as_itself() -> None:
    faults: list[str] = []
    for record, repository in LENT:
        wish = SLOW_WISHES[kind_of(record)]
        plan = rightfit.plan(repository, **wish, top=1)
        said = [one.why.params for one in plan.assumptions if one.why.key == "assumed_shape_lent"]
        faults += [] if said == [{"value": repository, "record": record}] else [f"{repository}: said {said}"]
        if not plan.options:
            continue  # too large for so few servers; its files are looked at above
        texts = files_of(job_of(plan_document(plan.to_dict())), "all")
        texts = {path: text.replace(f"it has that network as {record}", "") for path, text in texts.items()}  # timm's refusal
        faults += [f"{repository}: {path} fetches {record}" for path, text in texts.items() if named(text, record)]
        faults += [] if named("\n".join(texts.values()), repository) else [f"{repository} is named nowhere"]
    assert not faults, f"{len(faults)} faults: " + "; ".join(faults[:10])
