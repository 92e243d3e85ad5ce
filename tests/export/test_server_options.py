"""Command lines of vLLM, SGLang and Text Generation Inference against the options that their own
sources have at the pinned version (tests/exporters/data/server_options.json, see
scripts/write_server_options.py)."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typical_plans import FURTHER, OTHER_KINDS, WISHES, WITHOUT_LENGTHS, plan_values

from rightfit.errors import InputError
from rightfit.exports import ExportSettings, Job, files_of, find_target, job_of, plan_document
from rightfit.exports.model_words import LAST_WITH, WIDE, architecture, is_half
from rightfit.exports.targets import llm_servers
from rightfit.facts.engines import engine_class, makes, packed_copy, starts_from_wide
from rightfit.facts.tables import table

SERVERS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "exporters" / "data" / "server_options.json").read_text(encoding="utf-8"))


def job(name: str, **settings: str) -> Job:
    return job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]


def taken(target: str) -> list[str]:
    return [name for name in (*WISHES, *FURTHER) if not find_target(target).problem(job(name))]


class Server:
    """What the module of the servers holds of one of them, by its plain name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(llm_servers, f"{self._name}_{name}" if name.islower() else f"{self._name.upper()}_{name}")


def problems(words: tuple[str, ...], options: dict[str, list[str] | None]) -> list[str]:
    """Options that the server does not have, and values that it does not take."""
    found = [word for word in words if word.startswith("--") and word not in options]
    pairs = [(name, value) for name, value in itertools.pairwise(words) if options.get(name)]
    return found + [f"{name} {value}" for name, value in pairs if value not in (options[name] or ())]


@pytest.mark.parametrize("target", sorted(SERVERS))
def test_every_option_is_the_server_s(target: str) -> None:
    module, faults = Server(target), {}
    for name in taken(target):
        words = module.arguments(job(name, revision="8c22764a"))
        assert words[words.index("--revision") + 1] == "8c22764a", name
        assert len([word for word in words if word.startswith("--")]) >= 4, name
        faults[name] = problems(words, SERVERS[target]["options"])
    assert faults
    assert not any(faults.values()), faults


@pytest.mark.parametrize("target", sorted(SERVERS))
def test_every_format_that_a_plan_may_name_is_taken(target: str) -> None:
    module, options = Server(target), SERVERS[target]["options"]
    method = options.get("--quantization") or options["--quantize"]
    dropped = {module.QUANTIZATIONS[name] for name in LAST_WITH.get(target, {})}  # those plans start an earlier release
    assert set(module.QUANTIZATIONS.values()) - dropped <= set(method)
    assert not dropped & set(method)
    assert set(getattr(module, "CACHE_TYPES", {}).values()) <= set(options["--kv-cache-dtype"])
    assert SERVERS[target]["version"] == module.VERSION


ENGINES = {"vllm": "chat-8b", "sglang": "chat-8b-sglang", "tgi": "chat-8b-tgi", "tensorrt-llm": "chat-8b-tensorrt-llm"}
HOLDS = {
    "int4-awq": "casperhansen/llama-3-8b-instruct-awq",
    "int4-gptq": "TechxGenus/Meta-Llama-3-8B-GPTQ",
    "fp8": "RedHatAI/Meta-Llama-3-8B-Instruct-FP8",
}


def in_format(name: str, wanted: str, *, model: str = "", card: str = "") -> Job:
    values = plan_values(name)
    option = values["options"][0]
    layout = {**option["layout"], "weight_format": wanted, "precision": wanted}
    accelerator = {**option["accelerator"], **({"name": card} if card else {})}
    workload = {**values["workload"], **({"model": model} if model else {})}
    return job_of(plan_document({**values, "workload": workload, "options": [{**option, "layout": layout, "accelerator": accelerator}]}))


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_are_made_narrow_as_they_load_or_held_so_or_refused(engine: str) -> None:
    """Every format that a plan of the engine may have: of a repository of wide weights, and of one
    that holds them."""
    rows = {row["name"].lower(): row for row in table("serving_stacks")}
    formats = rows[engine]["formats"].split("|")
    assert {"bf16", "int4-awq"} <= set(formats)
    flags = {"--quantization", "--quantize"}
    for wanted in formats:
        found, target = in_format(ENGINES[engine], wanted), find_target(engine)
        problem = str(target.problem(found))
        made = makes(engine, wanted)
        assert ("plan the quantized repository" in problem) == (not made and wanted not in WIDE), wanted
        assert bool(problem) == (not starts_from_wide(engine, wanted)), "the plan says the same"
        if not problem:
            assert bool(flags & set(target.stack(found).command)) == made, wanted
        held = in_format(ENGINES[engine], wanted, model=HOLDS[wanted]) if wanted in HOLDS else None
        if held:
            assert not target.problem(held), wanted
            assert HOLDS[wanted] in target.stack(held).command
            assert not flags & set(target.stack(held).command), "the model's own settings say it"


@pytest.mark.parametrize("wanted", ["int4-awq", "int4-gptq"])
def test_a_refusal_names_the_repository_that_holds_the_format(wanted: str) -> None:
    refused = str(find_target("vllm").problem(in_format("chat-8b", wanted, model="Qwen/Qwen2.5-7B-Instruct")))
    copy = packed_copy("Qwen/Qwen2.5-7B-Instruct", wanted)
    assert copy.startswith("Qwen/Qwen2.5-7B-Instruct-")
    assert f"plan the quantized repository {copy}," in refused
    assert not find_target("vllm").problem(in_format("chat-8b", wanted, model=copy))
    assert packed_copy("somebody/model", wanted).startswith("OWNER/NAME-")


def test_the_readme_says_why_nothing_starts() -> None:
    readme = files_of(in_format("chat-8b", "int4-awq"), "all")["README.md"]
    assert "**Nothing here starts this plan: the plan's weights are int4-awq" in readme
    assert "start the command below" not in readme


@pytest.mark.parametrize(("card", "half"), [("T4", True), ("V100-SXM-16GB", True), ("A10", False), ("L4", False), ("MI300X", False)])
def test_narrow_weights_are_computed_with_in_what_the_card_has(card: str, half: bool) -> None:
    assert is_half(in_format("chat-8b", "int4-awq", model=HOLDS["int4-awq"], card=card)) == half


LIMITS = "max-model-len=9216,max-num-seqs=17,gpu-memory-utilization=0.83"


@pytest.mark.parametrize("target", sorted(SERVERS))
def test_limits_that_the_user_tells_stand_in_the_place_of_the_plan_s(target: str) -> None:
    name = taken(target)[0]
    words = Server(target).arguments(job(name, limits=LIMITS))
    plain = Server(target).arguments(job(name))
    assert {"9216", "17", "0.83"} <= set(words)
    assert not problems(words, SERVERS[target]["options"])
    flags = [word for word in words if word.startswith("--")]
    is_written = "0.9" in plain  # the share that a plan counts is written always where the engine's own may be another
    assert len(flags) == len(set(flags)) == len([word for word in plain if word.startswith("--")]) + (not is_written)


def test_limits_reach_what_starts_the_server() -> None:
    for target in ("skypilot", "docker-compose", "kubernetes", "kserve", "ray"):
        files = find_target(target).files(job("chat-8b", limits=LIMITS))
        assert all(word in "".join(files.values()) for word in ("9216", "17", "0.83")), target
    then = files_of(job("lora-8b-aws", limits=LIMITS, then="serve"), "trl")
    assert "--max-model-len 9216" in then["then-serve/serve.sh"].replace(" \\\n ", "")


@pytest.mark.parametrize(
    ("name", "target", "limits", "said"),
    [
        ("chat-8b", "vllm", "max-model-len=1000", "1280 tokens"),
        ("chat-8b-tensorrt-llm", "tensorrt-llm", "gpu-memory-utilization=0.8", "does not support"),
        ("chat-8b-llama-cpp", "llama-cpp", "max-num-seqs=4", "does not support"),
        ("lora-8b-aws", "skypilot", "max-num-seqs=4", "does not support"),
        ("chat-8b", "vllm", "max-len=4", "NAME=NUMBER"),
        ("chat-8b", "vllm", "max-num-seqs=0.5", "NAME=NUMBER"),
        ("chat-8b", "vllm", "gpu-memory-utilization=0.0", "NAME=NUMBER"),
        ("chat-8b", "vllm", "gpu-memory-utilization=2", "NAME=NUMBER"),
    ],
)
def test_limits_that_cannot_be_told_are_refused(name: str, target: str, limits: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        find_target(target).files(job(name, limits=limits))


def test_a_wrong_option_and_a_wrong_value_are_found() -> None:
    words = ("--tensor-parallel", "2", "--dtype", "bf16", "--max-num-seqs", "4")
    assert problems(words, SERVERS["vllm"]["options"]) == ["--tensor-parallel", "--dtype bf16"]


LENGTHS = {"vllm": "--max-model-len", "sglang": "--context-length", "tgi": "--max-total-tokens"}


def cache_bytes_of_a_token(found: Job) -> float:
    """Bytes that one token keeps on each card of a replica: the arithmetic of papers, by hand."""
    known, layout = architecture(found), found.option.layout
    assert known is not None
    of_number = 1.0 if layout.kv_format == "fp8" else 2.0
    heads = max(known.num_kv_heads / layout.tensor, 1.0)
    return 2.0 * known.num_layers * heads * known.head_dim * of_number / layout.pipeline


@pytest.mark.parametrize("target", sorted(LENGTHS))
def test_the_longest_request_has_room_in_the_cache_that_the_plan_leaves(target: str) -> None:
    """Without a length the engines take the model's own (131,072 tokens), and stop at the start
    where one such request is more than the card has left."""
    names = [name for name in (*WISHES, *FURTHER, *OTHER_KINDS, *WITHOUT_LENGTHS) if not find_target(target).problem(job(name))]
    assert names
    assert {name: fault for name in names if (fault := length_fault(target, name))} == {}


def length_fault(target: str, name: str) -> str:
    """What is wrong with the length that a start names; empty where nothing is."""
    found, words = job(name), Server(target).arguments(job(name))
    longest = int(words[words.index(LENGTHS[target]) + 1])
    option = plan_values(name)["options"][0]
    if longest < option["facts"]["input_tokens"] + option["facts"]["output_tokens"]:
        return f"{longest} refuse a usual request"
    terms = option["memory_terms"]
    left = option["facts"]["capacity_bytes"] - sum(value for term, value in terms.items() if term != "kv_cache")
    known = architecture(found)
    if known is not None and not known.kv_lora_rank and longest * cache_bytes_of_a_token(found) > max(left, terms["kv_cache"]):
        return f"{longest} tokens need more than the {left:.3g} bytes left"
    if target == "tgi" and int(words[words.index("--max-input-tokens") + 1]) >= longest:
        return "no room for an answer"
    return ""


def test_tensorrt_llm_takes_the_share_that_the_plan_counts() -> None:
    """Of the memory that is free beside the weights, in the file as in the search."""
    written = yaml.safe_load(files_of(job("chat-8b-tensorrt-llm"), "tensorrt-llm")["options.yaml"])
    assert written["kv_cache_config"]["free_gpu_memory_fraction"] == engine_class("TensorRT-LLM").memory_fraction


SHARE = re.compile(r"gpu[_-]memory[_-]utilization\W+([\d.]+)")
STARTS = re.compile(r"max[_-]num[_-]seqs|vllm serve")


@pytest.mark.parametrize(
    ("name", "told", "then"),
    [
        ("chat-8b-aws", 0.0, ""),
        ("chat-8b", 0.85, ""),
        ("chat-two-servers-aws", 0.0, ""),
        ("batch-8b-tencent", 0.0, ""),
        ("lora-8b-aws", 0.0, "serve"),
    ],
)
def test_every_start_of_vllm_writes_the_share_that_the_plan_counts(name: str, told: float, then: str) -> None:
    """Releases take 0.9 or 0.92 by themselves. In each file of each target: a service, a batch,
    what serves the result of a training."""
    values = plan_values(name)
    wish = {"gpu_memory_utilization": told} if told else {}
    document = plan_document({**values, "workload": {**values["workload"], **wish}})
    files = files_of(job_of(document, settings=ExportSettings(then=then)), "all")
    starts = {path: set(SHARE.findall(text)) for path, text in files.items() if STARTS.search(text)}
    wanted = {f"{told or engine_class('vllm').memory_fraction:g}"}
    assert starts
    assert {path: shares for path, shares in starts.items() if shares != wanted} == {}
