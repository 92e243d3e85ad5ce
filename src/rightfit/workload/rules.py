"""Options that exclude each other, and the defaults of what was left open."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from rightfit.errors import ContradictionError, InputError
from rightfit.messages import Message, contradiction, either
from rightfit.units import exact_number, parse_money
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import DATA, REINFORCEMENTS, TUNINGS

_TRAINING = ("train", "finetune")
_OPTIONS: Mapping[str, list[str]] = tomllib.loads((DATA / "rules.toml").read_text(encoding="utf-8"))
_SERVING_ATTRIBUTES = {OPTIONS[name].attributes[0]: name for name in _OPTIONS["serving"]}
_TRAINING_ATTRIBUTES, _OF_NETWORKS = _OPTIONS["training"], _OPTIONS["networks"]
#: What one input is like: training is meant where no task is said.
_OF_INPUTS = ("image_size", "frames", "audio_length_s")
#: Options about the place of the data, which preparation has too.
_OF_PREPARATION = ("storage", "data_location", "workers")
_ADAPTERS = ("lora", "qlora", "dora")
_PARTIAL = (*_ADAPTERS, "ptuning", "prefix", "freeze", "dreambooth", "textual-inversion", *TUNINGS)
#: Options of tuning on preferences or rewards, and the methods that read them.
_OF_TUNING = {
    "update": TUNINGS,
    **dict.fromkeys(("rollout", "completions", "reward_model"), REINFORCEMENTS),
}
#: Lengths of prompt and answer are options of serving, and of methods in which an
#: engine answers prompts.
_OF_SAMPLES = ("images",)  # what a model that sees is asked with, and learns from
_OF_ANSWERS = ("input_tokens", "output_tokens")

Given = Mapping[str, Any]
SearchResult = tuple[str, Message]


def contradictions(given: Given) -> list[InputError]:
    """Every pair of given options that cannot both hold, one error each."""
    task = given.get("task") or _implied_task(given)
    checks = (
        *(_missing_model, _against_task, _against_method, _against_model, _columns),
        *(_money_and_time, _batches, _percentile, _loads, _services),
    )
    return [ContradictionError(message, field=field) for check in checks for field, message in check(given, task)]


def defaults(given: Given) -> dict[str, Any]:
    """Values for what was left open and has one usual choice; numbers are left to the search,
    which knows the model."""
    task = given.get("task") or _implied_task(given)
    usual = {"task": task, "method": _usual_method(task, given), "objective": "cost", "currency": _usual_currency(given)}
    if any(name in given for name in ("ttft_s", "tpot_s", "latency_s")):
        usual["percentile"] = 95.0
    found = {name: value for name, value in usual.items() if value is not None and name not in given}
    if task == "serve" and "budget_usd" in given and not given.get("budget_per_month"):
        found["budget_per_month"] = True  # a service runs on: nobody means a total
    return found


def _against(
    option: str, other: object, kind: str = "", *, said: str = "", why: Message | None = None, do: Message | None = None
) -> SearchResult:
    """An option that another one, or a word of a kind ("task", "method", "model"), excludes;
    `said`: as it was given."""
    return option, contradiction(said or option, other, kind=kind, why=why, do=do)


def _asked(option: str) -> SearchResult:
    """An option that means nothing without another."""
    return option, Message("problems.ask", place=option, question=Message(f"questions.{option}"))


def _services(given: Given, task: str) -> list[SearchResult]:
    """Options of services that say the same thing twice, or need another."""
    found = []
    leave_one = Message("contradictions.leave_one")
    if "prefix_share" in given and "cached_tokens" in given:
        both, give_one = Message("contradictions.both_shared"), Message("contradictions.give_one")
        found.append(_against("prefix_share", "cached_tokens", why=both, do=give_one))
    cached, tokens = given.get("cached_tokens", 0), given.get("input_tokens", float("inf"))
    if cached >= tokens:
        found.append(("cached_tokens", Message("families.cached_tokens", cached=cached, tokens=tokens, most=max(tokens - 1, 1))))
    found += [
        (name, Message("contradictions.of_which_drafts", option=name))
        for name in ("draft_tokens", "acceptance")
        if name in given and "speculative" not in given
    ]
    if "cache_hits" in given and "kv_offload" not in given:
        found.append(_asked("cache_hits"))
    if "adapter_rank" in given and "adapters" not in given:
        found.append(_asked("adapter_rank"))
    is_mixed = given.get("fleet") == "mixed"
    one_kind = Message("contradictions.one_kind")
    found += [_against(name, "fleet mixed", why=one_kind, do=leave_one) for name in ("slice", "beside") if given.get(name) and is_mixed]
    if given.get("slice") and given.get("tensor_parallel", 1) > 1:
        found.append(_against("slice", "tensor_parallel", why=Message("contradictions.slices"), do=leave_one))
    if task == "batch" and is_mixed:
        shares, say = Message("contradictions.shares_rate"), Message("contradictions.leave_or_say", what="task serve")
        found.append(_against("fleet", "batch", "task", said="fleet mixed", why=shares, do=say))
    return found


def _loads(given: Given, task: str) -> list[SearchResult]:
    """A trace has its lengths, and users have no rate that a day could change."""
    lengths, leave_one = Message("contradictions.trace_lengths"), Message("contradictions.leave_one")
    has_trace, has_users = "trace" in given, "users" in given
    found = [_against(name, "trace", why=lengths, do=leave_one) for name in _OF_ANSWERS if name in given and has_trace]
    if "think_s" in given and not has_users:
        found.append(_asked("think"))
    if "think_s" in given and "rate_per_s" in given:
        why, do = Message("contradictions.users_rate"), Message("contradictions.leave_one_of")
        found.append(_against("think", "rate", why=why, do=do))
    for name in ("trace", "profile"):
        if name in given and has_users:
            do = Message("contradictions.give_in_place", what="rate", other="users", option=name)
            found.append(_against(name, "users", why=Message("contradictions.over_time"), do=do))
    return found


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
    """What the other options say: an operation means preparation, a rate or a latency serving, an
    algorithm training; otherwise fine-tuning is meant."""
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


def _missing_model(given: Given, task: str) -> list[SearchResult]:
    return [] if "model" in given or task == "prepare" else [_asked("model")]


def _against_task(given: Given, task: str) -> list[SearchResult]:
    found = []
    if task not in _TRAINING:
        excused = _OF_PREPARATION if task == "prepare" else ()
        others = (name for name in _TRAINING_ATTRIBUTES if name in given and name not in excused)
        name = "method" if "method" in given else next(others, None)
        if name:
            do = Message("contradictions.leave_or_say", what="task finetune")
            said = f"method {given[name]}" if name == "method" else name
            found.append(_against(name, task, "task", said=said, why=Message("purposes.training"), do=do))
    if task in (*_TRAINING, "prepare"):
        why, do = Message("purposes.serving"), Message("contradictions.leave_or_say", what="task serve")
        found += [
            _against(option, task, "task", why=why, do=do)
            for attribute, option in _SERVING_ATTRIBUTES.items()
            if attribute in given
            and not (option in _OF_ANSWERS and given.get("method") in REINFORCEMENTS)
            and not (option in _OF_SAMPLES and task in _TRAINING)
        ]
    if task == "batch":
        waits = Message("contradictions.nobody_waits")
        do = Message("contradictions.use_or_say", what="deadline", other="task serve")
        names = ("rate_per_s", "users", "ttft_s", "tpot_s", "latency_s", "trace", "profile")
        found += [_against(_SERVING_ATTRIBUTES[name], "batch", "task", why=waits, do=do) for name in names if name in given]
    return found


def _against_model(given: Given, task: str) -> list[SearchResult]:
    """What an algorithm of classical machine learning cannot take, and what only such
    an algorithm takes."""
    model, found = given.get("model", ""), []
    if "operation" in given and task != "prepare":
        found.append(_against("operation", task, "task", why=Message("purposes.prepare")))
    if not is_classical(given):
        why = Message("purposes.classical")
        return found + [_against(name, model, "model", why=why) for name in ("trees", "depth") if name in given and model]
    if task == "finetune":
        why, do = Message("contradictions.from_start"), Message("contradictions.say", what="task train")
        found.append(_against("task", model, "model", said="task finetune", why=why, do=do))
    leave = Message("contradictions.leave")
    found += [
        _against(name, model, "model", why=Message("purposes.neural"), do=leave)
        for name in _OF_NETWORKS
        if name in given
        and not (name == "method" and given[name] == "full")
        and not (task not in _TRAINING and name in _TRAINING_ATTRIBUTES)
    ]
    found += [
        _against(_SERVING_ATTRIBUTES[name], model, "model", why=Message("purposes.no_output"), do=leave)
        for name in ("ttft_s", "tpot_s", *_OF_ANSWERS)
        if name in given and task == "serve"
    ]
    return found


def _columns(given: Given, task: str) -> list[SearchResult]:
    told, asked = given.get("data_columns"), given.get("columns")
    if told is None or asked is None or told == asked:
        return []
    why, do = Message("contradictions.columns_told", number=told), Message("contradictions.give_one_of")
    return [_against("columns", given.get("data"), "data", said=f"columns {asked}", why=why, do=do)]


def _against_method(given: Given, task: str) -> list[SearchResult]:
    method = given.get("method")
    found: list[SearchResult] = []
    if is_classical(given):
        return found
    if task == "train" and method in _PARTIAL:
        do = Message("contradictions.say_or", what="task finetune", other="method full")
        found.append(_against("method", Message("contradictions.from_scratch"), said=f"method {method}", do=do))
    found += _against_tuning(given, method)
    settled = given.get("update", "lora") if method in TUNINGS else method or _usual_method(task, given)
    if settled is not None and settled not in _ADAPTERS:
        of = Message("contradictions.of_method", method=method) if method else Message("contradictions.trains_all", task=task)
        what, why = "update full" if method in TUNINGS else of, Message("contradictions.adapters")
        found += [_against(name, what, why=why) for name in ("lora_rank", "lora_targets") if name in given]
    return found + _against_quantization(given, task, method)


def _against_quantization(given: Given, task: str, method: str | None) -> list[SearchResult]:
    """Weights in fewer bits, where they are trained in another way."""
    quantization, found = given.get("quantization", "none"), []
    said, is_small = f"quantization {quantization}", quantization not in ("none", "fp8")
    if task in _TRAINING and method in ("full", "galore") and is_small:
        why, do = Message("contradictions.quantised"), Message("contradictions.say", what="method qlora")
        found.append(_against("quantization", method, "method", said=said, why=why, do=do))
    if task in _TRAINING and (quantization == "any" or quantization.startswith("gguf")) and method not in ("full", "galore"):
        do = Message("contradictions.say_or", what="quantization nf4", other="task serve")
        found.append(_against("quantization", task, "task", said=said, why=Message("purposes.serving"), do=do))
    if method in TUNINGS and given.get("update") in ("full", "lora", "dora") and is_small:
        why = Message("contradictions.say_or_leave", what="update qlora")
        found.append(_against("quantization", f"update {given['update']}", said=said, why=why))
    if method == "qlora" and given.get("quantization") == "none":
        do = Message("contradictions.say_or", what="method lora", other="quantization nf4")
        found.append(_against("quantization", Message("contradictions.qlora"), said=said, do=do))
    return found


def _against_tuning(given: Given, method: str | None) -> list[SearchResult]:
    """Options that only tuning on preferences or rewards reads, given beside another method."""
    kind, shown = ("method", method) if method else ("model", given.get("model", ""))
    found = []
    for name, methods in _OF_TUNING.items():
        if name in given and method not in methods:
            why = Message("contradictions.methods", methods=", ".join(methods))
            do = Message("contradictions.leave_or_say", what=f"method {methods[-1]}")
            found.append(_against(name, shown, kind, why=why, do=do))
    return found


def _money_and_time(given: Given, task: str) -> list[SearchResult]:
    found = []
    if task == "serve" and "deadline_s" in given:
        do = Message("contradictions.use_one_of", what="latency, ttft", other="tpot", task="task batch")
        found.append(_against("deadline", "serve", "task", why=Message("contradictions.no_end"), do=do))
    if "budget_usd" in given and given.get("budget_per_month", False) and task != "serve":
        typed = given.get("budget") or f"{given['budget_usd']:g}usd"
        found.append(("budget", Message("contradictions.per_month", typed=typed, task=task)))
    if "confidence" in given and "deadline_s" not in given and "budget_usd" not in given:
        what = "budget" if task == "serve" else either(("deadline", "budget"))
        found.append(("confidence", Message("contradictions.confidence_of_what", options=what, limit=_LIMIT_EXAMPLES[task == "serve"])))
    return found


_LIMIT_EXAMPLES = {True: "budget 1500usd/month", False: "deadline 24h"}


def _batches(given: Given, task: str) -> list[SearchResult]:
    micro, whole = given.get("micro_batch", 1), given.get("global_batch")
    if whole is None or micro <= whole:
        return []
    why, do = Message("contradictions.one_gpu"), Message("contradictions.at_most", most=whole)
    return [_against("micro_batch", f"global_batch {whole}", said=f"micro_batch {micro}", why=why, do=do)]


def _percentile(given: Given, task: str) -> list[SearchResult]:
    if "percentile" not in given or any(name in given for name in ("ttft_s", "tpot_s", "latency_s")):
        return []
    return [_asked("percentile")]
