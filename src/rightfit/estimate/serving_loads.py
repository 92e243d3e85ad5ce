"""How a measured row says that its model was spread over devices and that requests came: words to columns."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from rightfit import facts
from rightfit.estimate.serving_words import data_lengths, device_count, number_in, number_of, quantile_of, word_in
from rightfit.facts.constants import constants
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.word_tables import says, shape
from rightfit.physics.serving_columns import Load

#: What many users ask where nobody says.
_USUAL_DATA = "conversation"
_MANY_USERS = 64.0
_FIGURES = constants("serving_rows")


#: Cards whose dies software sees as devices of their own: name of one die, dies of a card.
_DIES = {"MI250-1GCD": 2.0}


def dies_of(device: str, memory_gib: float) -> float:
    """Devices that software sees in one that a row counts: two where the stated memory is that of a card of two dies."""
    dies = _DIES.get(device, 1.0)
    whole = facts.table("serving_devices")
    one = next((float(row["memory_gib"]) for row in whole if row["name"] == device), 0.0)
    return dies if dies > 1 and memory_gib > 1.5 * one else 1.0


def layout_values(
    row: Mapping[str, str],
    rules: Mapping[str, str],
    serve: Mapping[str, float],
    arch: TransformerArchitecture,
    *,
    dies: float,
    memory_bytes: float = 0.0,
) -> dict[str, float]:
    """Degrees of parallelism of one replica and the number of replicas. `memory_bytes` of one device: under load, where the layout is not
    stated, replicas of the smallest group that holds the model run beside each other."""
    devices, tensor, pipeline, replicas = (number_of(row, name) for name in ("n_devices", "tp", "pp", "replicas"))
    kind = rules["class"]
    copies, experts = max(number_of(row, "dp"), 1.0), max(number_of(row, "ep"), 1.0)
    # Copies inside one engine are those of the attention where experts are shared, and whole replicas otherwise.
    attention_data = copies if arch.num_experts > 1 or arch.attention_kind == "mla" else 1.0
    split = word_in(row, "split").lower().startswith("layer") or kind in ("native", "eager")
    if not devices:
        devices = max(max(tensor, 1.0) * max(pipeline, 1.0) * copies, device_count(word_in(row, "device")))
        devices *= max(replicas, 1.0)
    if dies > 1:
        devices = devices * dies
        # Engines that split by layers give each die its own; others cut tensors twice as often.
        tensor, pipeline = (tensor, pipeline * dies) if split else (tensor * dies, pipeline)
    if kind == "xla" and tensor > devices:
        # Degrees that count the cores of a chip: the rates and memory are those of whole chips.
        tensor = devices
    if not tensor and not pipeline and devices > 1:
        group = max(devices / max(replicas, 1.0) / (copies / attention_data), 1.0)
        if not replicas and not split and serve["load"] in (Load.OPEN, Load.OFFLINE):
            group = smallest_group(group, arch, serve, memory_bytes)
        tensor, pipeline = (1.0, group) if split else (group, 1.0)
    tensor, pipeline = max(tensor, 1.0), max(pipeline, 1.0)
    if arch.attention_kind == "mla" and attention_data == 1 and serve["batch"] >= _MANY_USERS * tensor:
        # So many users need attention-data parallelism: a latent cache cannot be cut by heads.
        attention_data, tensor = tensor, 1.0
    if attention_data > 1 and tensor * attention_data > devices * 1.01:
        tensor = max(tensor / attention_data, 1.0)
    if split and tensor == 1 and pipeline == 1 and devices > 1:
        pipeline = devices
    data = max(devices / (tensor * pipeline * attention_data), 1.0)
    return {
        "tensor": tensor,
        "pipeline": pipeline,
        "attention_data": attention_data,
        "expert": experts,
        "data": data if data >= 1.99 else 1.0,
        "layer_split": float(split and pipeline > 1),
        "pipelined_prefill": float(kind == "native" and pipeline > 1),
    }


def smallest_group(devices: float, arch: TransformerArchitecture, serve: Mapping[str, float], memory_bytes: float) -> float:
    """Devices of the smallest group, a power of two that divides `devices`, whose memory holds the weights and as much again of a quarter."""
    experts = max(arch.params_total - arch.params_active, 0)
    needed = _FIGURES["room_over_weights"] * ((arch.params_total - experts) * serve["linear_bytes"] + experts * serve["expert_bytes"])
    group = 1.0
    while group < devices and (group * memory_bytes < needed or devices % group):
        group *= 2.0
    return min(group, devices) if memory_bytes > 0 else devices


def _rate(text: str) -> float:
    """Requests per second: "4", "4 req/s", "QPS=4", "120/min"."""
    if says("serving", "at_once", text) or "slo" in text:
        return 0.0
    per_minute = says("serving", "per_minute", text)
    return number_in(text) / (60.0 if per_minute else 1.0)


def load_values(row: Mapping[str, str], rules: Mapping[str, str], taken: list[str]) -> dict[str, float]:
    """How requests come and how long they are."""
    arrival, metric = word_in(row, "arrival").lower(), word_in(row, "metric")
    stated, rate_text = word_in(row, "batch_or_concurrency").lower(), word_in(row, "request_rate").lower()
    rate = _rate(rate_text)
    batch = 0.0 if says("serving", "queued", stated) else number_of(row, "batch_or_concurrency")
    count = shape("serving", r"([\d,]+)\s*(?:k )?{counted}").search(stated)
    requests = number_of(row, "num_requests") or (float(count[1].replace(",", "")) if count and count[1].strip(",") else 0.0)
    at_once = says("serving", "at_once", rate_text) or arrival == "burst"
    if at_once and not requests and is_count_of_prompts(batch):
        requests, batch = batch, 0.0
        taken.append(f"{requests:.0f} taken as the number of requests, which all come at once")
    if rate:
        load = Load.OPEN
    elif (at_once and requests and not batch) or (
        says("serving", "engine_chooses", stated)
        or (says("serving", "at_once", rate_text) and not batch)
        or (arrival == "burst" and not batch)
    ):
        load = Load.OFFLINE
    elif (
        (batch > 1 or arrival == "closed")
        and rules["continuous"] == "1"
        and arrival not in ("batch", "single")
        and not is_prefill_only(row)
    ):
        load = Load.CLOSED
    else:
        load = Load.STATIC
    if not batch and load in (Load.STATIC, Load.CLOSED):
        batch = 1.0
        if metric not in ("decode_tok_per_s_single", "ttft_ms", "tpot_ms", "peak_mem_gib", "prefill_tok_per_s"):
            taken.append("batch not stated: 1 taken")
    prompt, output = _lengths(row, metric, taken, loaded=load != Load.STATIC)
    return {
        "load": float(load),
        "batch": batch,
        "requests": requests,
        "rate": rate,
        "quantile": quantile_of(word_in(row, "percentile")),
        "cached_tokens": min(number_of(row, "prefix_share"), 1.0) * prompt,
        "first_limit_s": number_of(row, "slo_ttft_ms") / 1e3,
        "token_limit_s": number_of(row, "slo_tpot_ms") / 1e3,
        "varied_lengths": float(are_varied(prompt, output)),
        "front_end": float(at_once and not says("serving", "engine_chooses", stated)),
        "kv_reserve": 0.5 if load in (Load.CLOSED, Load.STATIC) else float(rules["kv_reserve"]),
        "continuous": float(rules["continuous"]),
        "input_tokens": prompt,
        "output_tokens": output,
    }


def is_prefill_only(row: Mapping[str, str]) -> bool:
    """Whether users get one token each: every prompt then waits for all others, as in a fixed batch."""
    return 0 < number_of(row, "output_tokens") <= 1


def is_count_of_prompts(number: float) -> bool:
    """Whether a number beside a rate of infinity counts prompts, not users: users are few or a power of two."""
    some = _FIGURES["some_prompts"]
    return number >= _FIGURES["many_prompts"] or (number >= some and number % some == 0)


def are_varied(prompt: float, output: float) -> bool:
    """Whether lengths are means of samples that differ: a prompt off the numbers that benchmarks with fixed lengths take, and no fixed answer."""
    return output > 1 and _is_off(prompt, _FIGURES["round_prompt"]) and _is_off(output, _FIGURES["round_answer"])


def _is_off(length: float, unit: float) -> bool:
    """Whether a length is no power of two and no multiple of `unit`, give or take what a tokeniser adds."""
    if length <= 0:
        return False
    units = (2.0 ** round(math.log2(length)), unit, _FIGURES["round_binary"])
    return all(abs(length / one - max(round(length / one), 1)) * one > _FIGURES["added_share"] * length for one in units)


_LENGTH_PAIR = re.compile(r"(\d[\d.,]*\s*k?)\s*(?:/|\+|in\b.*?)\s*(\d[\d.,]*\s*k?)", re.IGNORECASE)


def _lengths(row: Mapping[str, str], metric: str, taken: list[str], *, loaded: bool) -> tuple[float, float]:
    """Tokens of a prompt and of an answer. Many users ask what those of a conversation do where nothing names other data, and their answers
    decide how busy the service is whatever is asked about it."""
    prompt, output = number_of(row, "input_tokens"), number_of(row, "output_tokens")
    pair = _LENGTH_PAIR.search(word_in(row, "input_tokens"))
    if pair and not output:
        prompt, output = number_in(pair[1]), number_in(pair[2])
    usual = data_lengths(
        " ".join(word_in(row, name) for name in ("dataset", "model", "engine", "engine_version", "input_tokens")), word_in(row, "model")
    )
    several = number_of(row, "batch_or_concurrency") > 1 or bool(word_in(row, "request_rate"))
    if not usual[0] and (loaded or (several and not prompt and not output)):
        usual = data_lengths(_USUAL_DATA, "")
    if not prompt and word_in(row, "input_tokens") not in ("0", "0.0"):
        prompt = usual[0] or (32.0 if output else 128.0)
        taken.append(f"input length not stated: {prompt:.0f} taken")
    if not output:
        alone = metric in ("ttft_ms", "prefill_tok_per_s") and not (loaded and word_in(row, "request_rate"))
        output = 1.0 if alone else usual[1] or 128.0
        if not alone:
            taken.append(f"output length not stated: {output:.0f} taken")
    return prompt, output
