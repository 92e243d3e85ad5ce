"""How a measured row says that its model was spread over devices and that requests came: words to columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rightfit import facts
from rightfit.estimate.serving_words import data_lengths, device_count, number_in, number_of, word_in
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.serving_columns import Load

_MANY_USERS = 64.0


_DEGREE = re.compile(r"(attn_dp|attention_dp|moe_tp|moe_ep|dp|ep)[= ](\d+)")


#: Cards whose dies software sees as devices of their own: name of one die, dies of a card.
_DIES = {"MI250-1GCD": 2.0}


def dies_of(device: str, memory_gib: float) -> float:
    """Devices that software sees in one that a row counts: two where the stated memory is that of a card of two dies."""
    dies = _DIES.get(device, 1.0)
    whole = facts.table("serving_devices")
    one = next((float(row["memory_gib"]) for row in whole if row["name"] == device), 0.0)
    return dies if dies > 1 and memory_gib > 1.5 * one else 1.0


def layout_values(
    row: Mapping[str, str], rules: Mapping[str, str], serve: Mapping[str, float], arch: TransformerArchitecture, *, dies: float
) -> dict[str, float]:
    """Degrees of parallelism of one replica and the number of replicas."""
    notes = word_in(row, "notes").lower()
    words = {name: float(value) for name, value in _DEGREE.findall(notes)}
    devices, tensor, pipeline = (number_of(row, name) for name in ("n_devices", "tp", "pp"))
    kind = rules["class"]
    attention_data = words.get("attn_dp", words.get("attention_dp", 1.0))
    # `--tp 8 --ep 8` names the same eight cards twice: a count of 64 multiplied the two.
    same = words.get("moe_tp", 1.0) if words.get("moe_tp") == words.get("moe_ep") else 1.0
    if same > 1 and devices == same**2:
        devices, tensor, attention_data = same, min(tensor, same), min(attention_data, same)
    split = "layer split" in notes or "layer_split" in notes or "device_map" in notes or kind in ("native", "eager")
    if not devices:
        devices = max(max(tensor, 1.0) * max(pipeline, 1.0), device_count(word_in(row, "device")))
    if dies > 1:
        devices = devices * dies
        # Engines that split by layers give each die its own; others cut tensors twice as often.
        tensor, pipeline = (tensor, pipeline * dies) if split else (tensor * dies, pipeline)
    if kind == "xla" and tensor > devices:
        # Degrees that count the cores of a chip: the rates and memory are those of whole chips.
        tensor = devices
    if not tensor and not pipeline and devices > 1:
        tensor, pipeline = (1.0, devices) if split else (devices, 1.0)
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
        "expert": words.get("moe_ep", words.get("ep", 1.0)),
        "data": data if data >= 1.99 else 1.0,
        "layer_split": float(split and pipeline > 1),
        "pipelined_prefill": float(kind == "native" and pipeline > 1),
    }


#: Words of a batch that the engine chooses, of a number of prompts in place of a batch, and of a rate without limit.
_ENGINE_CHOOSES = re.compile(
    r"^(max(?!_|imum of)|offline|auto|all|inf|unlimited|unbounded|saturat|throughput|engine|dynamic|continuous)|prompts|requests"
)
_QUEUED = re.compile(r"prompts|requests|reqs\b")
_AT_ONCE = re.compile(r"^(inf|max|unlimited|\u221e|all at once|offline|saturat)")


def _rate(text: str) -> float:
    """Requests per second: "4", "4 req/s", "QPS=4", "120/min"."""
    if _AT_ONCE.search(text) or "slo" in text:
        return 0.0
    per_minute = bool(re.search(r"/\s*min|per min|rpm", text))
    return number_in(text) / (60.0 if per_minute else 1.0)


def load_values(row: Mapping[str, str], rules: Mapping[str, str], taken: list[str]) -> dict[str, float]:
    """How requests come and how long they are."""
    notes, metric = word_in(row, "notes").lower(), word_in(row, "metric")
    stated, rate_text = word_in(row, "batch_or_concurrency").lower(), word_in(row, "request_rate").lower()
    rate = _rate(rate_text)
    batch = 0.0 if _QUEUED.search(stated) else number_of(row, "batch_or_concurrency")
    count = re.search(r"([\d,]+)\s*(?:k )?(?:requests|prompts)", f"{stated} {notes}")
    requests = float(count[1].replace(",", "")) if count and count[1].strip(",") else 0.0
    if rate:
        load = Load.OPEN
    elif _ENGINE_CHOOSES.search(stated) or (_AT_ONCE.search(rate_text) and not batch):
        load = Load.OFFLINE
    elif batch > 1 and rules["continuous"] == "1" and "static" not in notes:
        load = Load.CLOSED
    else:
        load = Load.STATIC
    if not batch and load in (Load.STATIC, Load.CLOSED):
        batch = 1.0
        if metric not in ("decode_tok_per_s_single", "ttft_ms", "tpot_ms", "peak_mem_gib", "prefill_tok_per_s"):
            taken.append("batch not stated: 1 taken")
    prompt, output = _lengths(row, metric, taken)
    return {
        "load": float(load),
        "batch": batch,
        "requests": requests,
        "rate": rate,
        "kv_reserve": 0.5 if load in (Load.CLOSED, Load.STATIC) else float(rules["kv_reserve"]),
        "continuous": float(rules["continuous"]),
        "input_tokens": prompt,
        "output_tokens": output,
    }


_LENGTH_PAIR = re.compile(r"(\d[\d.,]*\s*k?)\s*(?:/|\+|in\b.*?)\s*(\d[\d.,]*\s*k?)", re.IGNORECASE)


def _lengths(row: Mapping[str, str], metric: str, taken: list[str]) -> tuple[float, float]:
    prompt, output = number_of(row, "input_tokens"), number_of(row, "output_tokens")
    pair = _LENGTH_PAIR.search(word_in(row, "input_tokens"))
    if pair and not output:
        prompt, output = number_in(pair[1]), number_in(pair[2])
    usual = data_lengths(
        " ".join(word_in(row, name) for name in ("notes", "engine", "engine_version", "input_tokens")), word_in(row, "model")
    )
    if not prompt and word_in(row, "input_tokens") not in ("0", "0.0"):
        prompt = usual[0] or (32.0 if output else 128.0)
        taken.append(f"input length not stated: {prompt:.0f} taken")
    if not output:
        output = 1.0 if metric in ("ttft_ms", "prefill_tok_per_s") else usual[1] or 128.0
        if metric not in ("ttft_ms", "prefill_tok_per_s"):
            taken.append(f"output length not stated: {output:.0f} taken")
    return prompt, output
