"""Options that exclude each other, and the defaults of what was left open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightfit.errors import ContradictionError, InputError
from rightfit.units import exact_number, parse_money
from rightfit.workload.vocabulary import REINFORCEMENTS, TUNINGS

_TRAINING = ("train", "finetune")
_SERVING_ATTRIBUTES = {
    "rate_per_s": "rate",
    "users": "users",
    "think_s": "think",
    "ttft_s": "ttft",
    "tpot_s": "tpot",
    "latency_s": "latency",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "trace": "trace",
    "profile": "profile",
    "api_output_usd_per_million": "api_price",
    "prefix_share": "prefix_share",
    "cached_tokens": "cached_tokens",
    "adapters": "adapters",
    "adapter_rank": "adapter_rank",
    "speculative": "speculative",
    "draft_tokens": "draft_tokens",
    "acceptance": "acceptance",
    "kv_cache": "kv_cache",
    "kv_offload": "kv_offload",
    "cache_hits": "cache_hits",
    "slice": "slice",
    "beside": "beside",
    "fleet": "fleet",
    "denoise_steps": "denoise_steps",
    "images": "images",
}
_TRAINING_ATTRIBUTES = (
    "method",
    "epochs",
    "global_batch",
    "optimizer",
    "lora_rank",
    "lora_targets",
    "update",
    "rollout",
    "completions",
    "reward_model",
    "recompute",
    "micro_batch",
    "sharding",
    "storage",
    "data_location",
    "decode",
    "workers",
    "latents",
)
#: What one input is like: training is meant where no task is said.
_OF_INPUTS = ("image_size", "frames", "audio_length_s")
#: Options about the place of the data, which preparation has too.
_OF_PREPARATION = ("storage", "data_location", "workers")
_OF_NETWORKS = (
    "method",
    "seq_len",
    "global_batch",
    "optimizer",
    "lora_rank",
    "lora_targets",
    "update",
    "rollout",
    "completions",
    "reward_model",
    "recompute",
    "attention",
    "micro_batch",
    "tensor_parallel",
    "pipeline_parallel",
    "sharding",
    "offload",
    "quantization",
    "decode",
)
_ADAPTERS = ("lora", "qlora", "dora")
_PARTIAL = (*_ADAPTERS, "ptuning", "prefix", "freeze", "dreambooth", "textual-inversion", *TUNINGS)
#: Options of tuning on preferences or rewards, and the methods that read them.
_OF_TUNING = {
    "update": TUNINGS,
    **dict.fromkeys(("rollout", "completions", "reward_model"), REINFORCEMENTS),
}
#: Lengths of prompt and answer are options of serving, and of methods in which an engine answers prompts.
_OF_ANSWERS = ("input_tokens", "output_tokens")

Given = Mapping[str, Any]


def contradictions(given: Given) -> list[InputError]:
    """Every pair of given options that cannot both hold, one error each."""
    task = given.get("task") or _implied_task(given)
    checks = (
        *(_missing_model, _against_task, _against_method, _against_model, _columns),
        *(_money_and_time, _batches, _percentile, _loads, _services),
    )
    return [ContradictionError(message, field=field) for check in checks for field, message in check(given, task)]


def defaults(given: Given) -> dict[str, Any]:
    """Values for what was left open and has one usual choice; numbers are left to the search, which knows the model."""
    task = given.get("task") or _implied_task(given)
    usual = {"task": task, "method": _usual_method(task, given), "objective": "cost", "currency": _usual_currency(given)}
    if any(name in given for name in ("ttft_s", "tpot_s", "latency_s")):
        usual["percentile"] = 95.0
    return {name: value for name, value in usual.items() if value is not None and name not in given}


def _services(given: Given, task: str) -> list[tuple[str, str]]:
    """Options of services that say the same thing twice, or need another."""
    found = []
    if "prefix_share" in given and "cached_tokens" in given:
        found.append(("prefix_share", "prefix_share contradicts cached_tokens: both say how much of the prompt is shared; give one"))
    if given.get("cached_tokens", 0) >= given.get("input_tokens", float("inf")):
        found.append(
            (
                "cached_tokens",
                f"cached_tokens {given['cached_tokens']} contradicts input_tokens {given['input_tokens']}: it is the shared part of the prompt; "
                f"at most {max(given['input_tokens'] - 1, 1)}",
            )
        )
    found += [
        (name, f"{name}: of which drafts? give speculative with it, for example speculative ngram")
        for name in ("draft_tokens", "acceptance")
        if name in given and "speculative" not in given
    ]
    if "cache_hits" in given and "kv_offload" not in given:
        found.append(("cache_hits", "cache_hits: found where? give kv_offload with it, for example kv_offload host"))
    if "adapter_rank" in given and "adapters" not in given:
        found.append(("adapter_rank", "adapter_rank: of how many? give adapters with it, for example adapters 20"))
    found += [
        (name, f"{name} contradicts fleet mixed: one kind of server holds all of it; leave one out")
        for name in ("slice", "beside")
        if given.get(name) and given.get("fleet") == "mixed"
    ]
    if given.get("slice") and given.get("tensor_parallel", 1) > 1:
        found.append(("slice", "slice contradicts tensor_parallel: slices have no links to one another; leave one out"))
    if task == "batch" and given.get("fleet") == "mixed":
        found.append(("fleet", "fleet mixed contradicts task batch: it shares a rate out among servers; leave it out, or say task serve"))
    return found


def _loads(given: Given, task: str) -> list[tuple[str, str]]:
    """A trace has its lengths, and users have no rate that a day could change."""
    found = [
        (name, f"{name} contradicts trace: the trace says how long requests are; leave one out")
        for name in ("input_tokens", "output_tokens")
        if name in given and "trace" in given
    ]
    if "think_s" in given and "users" not in given:
        found.append(("think", "think: of whom? it is the time that each of users takes between two requests; give users, or leave it out"))
    if "think_s" in given and "rate_per_s" in given:
        found.append(("think", "think contradicts rate: users who think make their own rate; leave one of the two out"))
    return found + [
        (name, f"{name} contradicts users: it is about requests over time; give rate in place of users, or leave {name} out")
        for name in ("trace", "profile")
        if name in given and "users" in given
    ]


def as_typed(given: Given) -> dict[str, Any]:
    """The friendly form of a budget and an amount of data that were given as plain numbers."""
    typed: dict[str, Any] = {}
    if "budget_usd" in given and "budget" not in given:
        typed["budget"] = f"{exact_number(given['budget_usd'])}usd" + ("/month" if given.get("budget_per_month") else "")
    if "api_output_usd_per_million" in given and "api_price" not in given:
        sides = (given.get(f"api_{side}_usd_per_million", given["api_output_usd_per_million"]) for side in ("input", "output"))
        typed["api_price"] = "/".join(exact_number(side) for side in sides)
    for name, unit in (("data_tokens", "tokens"), ("data_samples", "samples"), ("data_bytes", "bytes")):
        if name in given and "data" not in given and not typed.keys() & {"data"}:
            typed |= {"data": f"{exact_number(given[name])} {unit}", "data_unit": given.get("data_unit", unit)}
    return typed


def _implied_task(given: Given) -> str:
    """What the other options say: an operation means preparation, a rate or a latency serving, an algorithm training; otherwise fine-tuning
    is meant."""
    if "operation" in given:
        return "prepare"
    if is_classical(given) and not any(name in given for name in _SERVING_ATTRIBUTES):
        return "train"
    trains = any(name in given for name in (*_TRAINING_ATTRIBUTES, *_OF_INPUTS))
    return "serve" if not trains and any(name in given for name in _SERVING_ATTRIBUTES) else "finetune"


def is_classical(given: Given) -> bool:
    """Whether the model's name is that of an algorithm of classical machine learning."""
    from rightfit.facts.classical import classical_model

    return bool(given.get("model")) and classical_model(str(given["model"])) is not None


def _usual_method(task: str, given: Given) -> str | None:
    if is_classical(given):
        return None
    if task == "train":
        return "full"
    if task != "finetune":
        return None
    return "qlora" if given.get("quantization") in ("nf4", "fp4", "int4") else "lora"


def _usual_currency(given: Given) -> str:
    """The currency of the budget, where one was given."""
    return parse_money(str(given["budget"])).currency if given.get("budget") else "usd"


def _missing_model(given: Given, task: str) -> list[tuple[str, str]]:
    if "model" in given or task == "prepare":
        return []
    return [("model", "model: which one? give a model, for example meta-llama/Meta-Llama-3-8B, 7B, or a path to config.json")]


def _against_task(given: Given, task: str) -> list[tuple[str, str]]:
    found = []
    if task not in _TRAINING:
        excused = _OF_PREPARATION if task == "prepare" else ()
        name = (
            "method" if "method" in given else next((name for name in _TRAINING_ATTRIBUTES if name in given and name not in excused), None)
        )
        if name:
            shown = f"{name} {given[name]}" if name == "method" else name
            found.append((name, f"{shown} contradicts task {task}: it is for training; leave it out, or say task finetune"))
    if task in (*_TRAINING, "prepare"):
        found += [
            (option, f"{option} contradicts task {task}: it is for serving; leave it out, or say task serve")
            for attribute, option in _SERVING_ATTRIBUTES.items()
            if attribute in given and not (option in _OF_ANSWERS and given.get("method") in REINFORCEMENTS)
        ]
    if task == "batch":
        found += [
            (
                _SERVING_ATTRIBUTES[name],
                f"{_SERVING_ATTRIBUTES[name]} contradicts task batch: nobody waits; use deadline, or say task serve",
            )
            for name in ("rate_per_s", "users", "ttft_s", "tpot_s", "latency_s", "trace", "profile")
            if name in given
        ]
    return found


def _against_model(given: Given, task: str) -> list[tuple[str, str]]:
    """What an algorithm of classical machine learning cannot take, and what only such an algorithm takes."""
    model, found = given.get("model", ""), []
    if "operation" in given and task != "prepare":
        found.append(("operation", f"operation contradicts task {task}: it is for task prepare"))
    if not is_classical(given):
        found += [
            (name, f"{name} contradicts model {model}: it is for classical machine learning, such as xgboost or random-forest")
            for name in ("trees", "depth")
            if name in given and model
        ]
        return found
    if task == "finetune":
        found.append(("task", f"task finetune contradicts model {model}: it is trained from the start; say task train"))
    found += [
        (name, f"{name} contradicts model {model}: it is for neural networks; leave it out")
        for name in _OF_NETWORKS
        if name in given
        and not (name == "method" and given[name] == "full")
        and not (task not in _TRAINING and name in _TRAINING_ATTRIBUTES)
    ]
    found += [
        (option, f"{option} contradicts model {model}: it does not produce text token by token; leave it out")
        for option, attribute in (
            ("ttft", "ttft_s"),
            ("tpot", "tpot_s"),
            ("input_tokens", "input_tokens"),
            ("output_tokens", "output_tokens"),
        )
        if attribute in given and task == "serve"
    ]
    return found


def _columns(given: Given, task: str) -> list[tuple[str, str]]:
    told, asked = given.get("data_columns"), given.get("columns")
    if told is None or asked is None or told == asked:
        return []
    return [("columns", f"columns {asked} contradicts data {given.get('data')}: it has {told} columns; give one of the two")]


def _against_method(given: Given, task: str) -> list[tuple[str, str]]:
    method = given.get("method")
    found: list[tuple[str, str]] = []
    if is_classical(given):
        return found
    if task == "train" and method in _PARTIAL:
        found.append(("method", f"method {method} contradicts task train (from scratch, all weights); say task finetune, or method full"))
    found += _against_tuning(given, method)
    settled = given.get("update", "lora") if method in TUNINGS else method or _usual_method(task, given)
    if settled is not None and settled not in _ADAPTERS:
        what = "update full" if method in TUNINGS else f"method {method}" if method else f"task {task}, which trains all weights"
        found += [
            (name, f"{name} contradicts {what}: it is for lora, qlora and dora") for name in ("lora_rank", "lora_targets") if name in given
        ]
    quantization = given.get("quantization", "none")
    if task in _TRAINING and method in ("full", "galore") and quantization not in ("none", "fp8"):
        found.append(
            (
                "quantization",
                f"quantization {quantization} contradicts method {method}: quantised weights cannot be trained; say method qlora",
            )
        )
    if task in _TRAINING and (quantization == "any" or quantization.startswith("gguf")) and method not in ("full", "galore"):
        found.append(
            ("quantization", f"quantization {quantization} contradicts task {task}: it is for serving; say quantization nf4, or task serve")
        )
    if method in TUNINGS and given.get("update") in ("full", "lora", "dora") and quantization not in ("none", "fp8"):
        trained = given["update"]
        found.append(("quantization", f"quantization {quantization} contradicts update {trained}: say update qlora, or leave it out"))
    if method == "qlora" and given.get("quantization") == "none":
        found.append(("quantization", "quantization none contradicts method qlora (4-bit weights); say method lora, or quantization nf4"))
    return found


def _against_tuning(given: Given, method: str | None) -> list[tuple[str, str]]:
    """Options that only tuning on preferences or rewards reads, given beside another method."""
    shown = f"method {method}" if method else f"model {given.get('model', '')}"
    return [
        (name, f"{name} contradicts {shown}: it is for method {', '.join(methods)}; leave it out, or say method {methods[-1]}")
        for name, methods in _OF_TUNING.items()
        if name in given and method not in methods
    ]


def _money_and_time(given: Given, task: str) -> list[tuple[str, str]]:
    found = []
    if task == "serve" and "deadline_s" in given:
        found.append(("deadline", "deadline contradicts task serve: a service has no end; use latency, ttft or tpot, or say task batch"))
    if "budget_usd" in given and given.get("budget_per_month", False) != (task == "serve"):
        typed = given.get("budget") or f"{given['budget_usd']:g}usd"
        if task == "serve":
            found.append(("budget", f"budget: {typed!r} has no period, and a service runs on; say {typed}/month?"))
        else:
            found.append(("budget", f"budget: {typed!r} is per month, but task {task} ends; give the total, for example 200usd"))
    if "confidence" in given and "deadline_s" not in given and "budget_usd" not in given:
        what = "budget" if task == "serve" else "deadline or budget"
        found.append(("confidence", f"confidence: of what? give {what} with it, for example {_LIMIT_EXAMPLES[task == 'serve']}"))
    return found


_LIMIT_EXAMPLES = {True: "budget 1500usd/month", False: "deadline 24h"}


def _batches(given: Given, task: str) -> list[tuple[str, str]]:
    micro, whole = given.get("micro_batch", 1), given.get("global_batch")
    if whole is None or micro <= whole:
        return []
    return [("micro_batch", f"micro_batch {micro} contradicts global_batch {whole}: it is the part on one GPU; at most {whole}")]


def _percentile(given: Given, task: str) -> list[tuple[str, str]]:
    if "percentile" not in given or any(name in given for name in ("ttft_s", "tpot_s", "latency_s")):
        return []
    return [("percentile", "percentile: of what? give latency, ttft or tpot with it, for example latency 100ms")]
