"""The attributes of a workload, in base units: what is read of a wish, and what everything
behind it works with."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeVar

from rightfit.records import dataclass

Task = Literal["train", "finetune", "serve", "batch", "prepare"]
Method = Literal[
    "full", "lora", "qlora", "dora", "ptuning", "prefix", "freeze", "galore", "dreambooth", "textual-inversion",
    "dpo", "orpo", "kto", "reward", "ppo", "grpo",
]  # fmt: skip
T = TypeVar("T")


def _told(default: T, description: str) -> T:
    """A field with what is said of it."""
    found: T = dataclasses.field(default=default, metadata={"description": description})
    return found


@dataclass(frozen=True, slots=True)
class Attributes:
    """What the user wants to run, on how much data, by when, for how much; None, ""
    and () are left open."""

    model: str = _told("", "hub id, alias, size, dimensions or path of a configuration; may be left out for task prepare")
    task: Task = "finetune"
    method: Method | None = _told(None, "how the model is trained; null when it is not trained")
    data: str | None = _told(None, "amount of data as typed, or a dataset's name")
    data_tokens: float | None = None
    data_samples: float | None = None
    data_bytes: float | None = None
    data_unit: str | None = _told(None, "tokens, samples, images, rows, bytes ... or dataset")
    data_columns: int | None = _told(None, "columns of a table that data give as rows x columns")
    epochs: float | None = None
    seq_len: int | None = None
    global_batch: int | None = None
    deadline_s: float | None = None
    budget_usd: float | None = None
    budget_per_month: bool = False
    budget: str | None = _told(None, "budget as typed")
    confidence: float | None = _told(None, "probability in percent with which deadline and budget are to hold")
    rate_per_s: float | None = None
    users: int | None = None
    think_s: float | None = _told(None, "time that a user takes from an answer to the next request")
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_law: str | None = _told(None, "law of prompt lengths as typed; input_tokens is its mean")
    output_law: str | None = _told(None, "law of answer lengths as typed; output_tokens is its mean")
    trace: str | None = _told(None, "file with requests: times and lengths")
    profile: str | None = _told(None, "rate over the day: a name, 24 numbers, or a file with them")
    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None
    percentile: float | None = None
    api_price: str | None = _told(None, "price of an API per million tokens in and out, as typed")
    api_input_usd_per_million: float | None = None
    api_output_usd_per_million: float | None = None
    prefix_share: float | None = None
    cached_tokens: int | None = None
    adapters: int | None = None
    adapter_rank: int | None = None
    speculative: str | None = None
    draft_tokens: int | None = None
    acceptance: float | None = None
    kv_cache: str | None = None
    gpu_memory_utilization: float | None = _told(None, "share of each card's memory that the serving engine takes")
    kv_offload: str | None = _told(None, "where caches of prompts are kept for later requests: host or ssd")
    cache_hits: float | None = _told(None, "share of prompt tokens that are found in that cache")
    slice: str | None = _told(None, "part of a card that a replica has: a MIG profile or a fraction")
    beside: tuple[str, ...] = _told((), "other models on the same servers, each MODEL or MODEL@RATE")
    fleet: Literal["single", "mixed"] | None = None
    cloud: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    country: tuple[str, ...] = ()
    residency: tuple[str, ...] = _told((), "where data may be kept: areas of law or countries")
    sellers: tuple[str, ...] = _told((), "whom to rent from: tiers of trust in words (major, hyperscaler, all), or names")
    quota: tuple[str, ...] = _told((), "limits of the account, in words")
    purchase: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    avoid: tuple[str, ...] = _told((), "clouds, countries and accelerators that may not be")
    num_gpus: int | None = _told(None, "cards of all servers together")
    max_nodes: int | None = None
    office_hours: float | None = None
    precision: str | None = None
    quantization: str | None = None
    objective: Literal["cost", "time", "balanced"] = "cost"
    currency: str = _told("usd", "code of the currency that answers are printed in")
    optimizer: str | None = None
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] = ()
    update: str | None = _told(None, "weights that preference or reinforcement tuning trains: full, lora, qlora or dora")
    rollout: str | None = _told(None, "where the engine of ppo and grpo answers: colocated, separate or async")
    completions: int | None = _told(None, "answers to each prompt of ppo and grpo")
    reward_model: str | None = _told(None, "model that rewards the answers of ppo and grpo")
    recompute: str | None = None
    attention: str | None = None
    micro_batch: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    sharding: str | None = None
    offload: str | None = None
    framework: str | None = None
    storage: str | None = _told(None, "disk that holds the data: a volume's name, local, memory or stream")
    data_location: str | None = _told(None, "where the data lie: a region, or home; null: the region that is rented")
    decode: str | None = None
    input_shape: str | None = _told(None, "shape of one input of a model of the user's own, without the batch")
    image_size: str | None = _told(None, "pixels of an image: a side, or height x width")
    frames: int | None = _told(None, "frames of a clip or video")
    images: int | None = _told(None, "images in a request to a vision-language model")
    denoise_steps: int | None = _told(None, "denoising steps that draw one image or video")
    audio_length_s: float | None = _told(None, "length of a recording")
    latents: str | None = _told(None, "cached or live: latents of diffusion models made beforehand or in every step")
    workers: int | None = _told(None, "loader processes for each accelerator")
    columns: int | None = _told(None, "columns of a table whose size is given in rows or bytes")
    library: str | None = _told(None, "library of classical machine learning or data preparation")
    trees: int | None = _told(None, "trees or boosting rounds")
    depth: int | None = _told(None, "depth of the trees")
    settings: str | None = _told(None, "other numbers of the algorithm in words")
    operation: str | None = _told(None, "what task prepare does with the data")
    assumed: tuple[str, ...] = _told((), "attributes that were not given and have a default")
