"""The user's wish: validated once, then frozen. All quantities are in base units."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rightfit import units
from rightfit.errors import InputError
from rightfit.workload import rules
from rightfit.workload.options import OPTIONS, overrules, raise_problems, read_wishes

Task = Literal["train", "finetune", "serve", "batch", "prepare"]
Method = Literal[
    "full", "lora", "qlora", "dora", "ptuning", "prefix", "freeze", "galore", "dreambooth", "textual-inversion",
    "dpo", "orpo", "kto", "reward", "ppo", "grpo",
]  # fmt: skip


class Workload(BaseModel):
    """What the user wants to run, on how much data, by when, for how much.

    The constructor takes the option names of `rightfit plan` with friendly values (`deadline="24h"`, `budget="1500cny/month"`,
    `cloud="aws,gcp"`), or
    the attributes below in base units (`deadline_s=86400.0`). `assumed` names the attributes that the user left open and rightfit chose.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: str = Field(
        default="", description="hub id, alias, size, dimensions or path of a configuration; may be left out for task prepare"
    )
    task: Task = "finetune"
    method: Method | None = Field(default=None, description="how the model is trained; null when it is not trained")
    data: str | None = Field(default=None, description="amount of data as typed, or a dataset's name")
    data_tokens: float | None = None
    data_samples: float | None = None
    data_bytes: float | None = None
    data_unit: str | None = Field(default=None, description="tokens, samples, images, rows, bytes ... or dataset")
    data_columns: int | None = Field(default=None, description="columns of a table that data give as rows x columns")
    epochs: float | None = None
    seq_len: int | None = None
    global_batch: int | None = None
    deadline_s: float | None = None
    budget_usd: float | None = None
    budget_per_month: bool = False
    budget: str | None = Field(default=None, description="budget as typed")
    confidence: float | None = Field(default=None, description="probability in percent with which deadline and budget are to hold")
    rate_per_s: float | None = None
    users: int | None = None
    think_s: float | None = Field(default=None, description="time that a user takes from an answer to the next request")
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_law: str | None = Field(default=None, description="law of prompt lengths as typed; input_tokens is its mean")
    output_law: str | None = Field(default=None, description="law of answer lengths as typed; output_tokens is its mean")
    trace: str | None = Field(default=None, description="file with requests: times and lengths")
    profile: str | None = Field(default=None, description="rate over the day: a name, 24 numbers, or a file with them")
    ttft_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None
    percentile: float | None = None
    api_price: str | None = Field(default=None, description="price of an API per million tokens in and out, as typed")
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
    kv_offload: str | None = Field(default=None, description="where caches of prompts are kept for later requests: host or ssd")
    cache_hits: float | None = Field(default=None, description="share of prompt tokens that are found in that cache")
    slice: str | None = Field(default=None, description="part of a card that a replica has: a MIG profile or a fraction")
    beside: tuple[str, ...] = Field(default=(), description="other models on the same servers, each MODEL or MODEL@RATE")
    fleet: Literal["single", "mixed"] | None = None
    cloud: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    country: tuple[str, ...] = ()
    residency: tuple[str, ...] = Field(default=(), description="where data may be kept: areas of law or countries")
    sellers: tuple[str, ...] = Field(
        default=(), description="whom to rent from: tiers of trust in words (major, hyperscaler, all), or names"
    )
    quota: tuple[str, ...] = Field(default=(), description="limits of the account, in words")
    purchase: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    max_nodes: int | None = None
    office_hours: float | None = None
    precision: str | None = None
    quantization: str | None = None
    objective: Literal["cost", "time", "balanced"] = "cost"
    currency: str = Field(default="usd", description="code of the currency that answers are printed in")
    optimizer: str | None = None
    lora_rank: int | None = None
    lora_targets: tuple[str, ...] = ()
    update: str | None = Field(
        default=None, description="weights that preference or reinforcement tuning trains: full, lora, qlora or dora"
    )
    rollout: str | None = Field(default=None, description="where the engine of ppo and grpo answers: colocated, separate or async")
    completions: int | None = Field(default=None, description="answers to each prompt of ppo and grpo")
    reward_model: str | None = Field(default=None, description="model that rewards the answers of ppo and grpo")
    recompute: str | None = None
    attention: str | None = None
    micro_batch: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    sharding: str | None = None
    offload: str | None = None
    framework: str | None = None
    storage: str | None = Field(default=None, description="disk that holds the data: a volume's name, local, memory or stream")
    data_location: str | None = Field(default=None, description="where the data lie: a region, or home; null: the region that is rented")
    decode: str | None = None
    input_shape: str | None = Field(default=None, description="shape of one input of a model of the user's own, without the batch")
    image_size: str | None = Field(default=None, description="pixels of an image: a side, or height x width")
    frames: int | None = Field(default=None, description="frames of a clip or video")
    images: int | None = Field(default=None, description="images in a request to a vision-language model")
    denoise_steps: int | None = Field(default=None, description="denoising steps that draw one image or video")
    audio_length_s: float | None = Field(default=None, description="length of a recording")
    latents: str | None = Field(default=None, description="cached or live: latents of diffusion models made beforehand or in every step")
    workers: int | None = Field(default=None, description="loader processes for each accelerator")
    columns: int | None = Field(default=None, description="columns of a table whose size is given in rows or bytes")
    library: str | None = Field(default=None, description="library of classical machine learning or data preparation")
    trees: int | None = Field(default=None, description="trees or boosting rounds")
    depth: int | None = Field(default=None, description="depth of the trees")
    settings: str | None = Field(default=None, description="other numbers of the algorithm in words")
    operation: str | None = Field(default=None, description="what task prepare does with the data")
    assumed: tuple[str, ...] = Field(default=(), description="attributes that were not given and have a default")

    def __init__(self, **wishes: Any) -> None:
        chosen_by_us = wishes.pop("assumed", ())  # from to_dict(): those are chosen afresh
        for side in ("input", "output"):  # from to_dict(): the law says more than its mean beside it
            if wishes.get(f"{side}_law"):
                wishes[f"{side}_tokens"] = wishes.pop(f"{side}_law")
        given = read_wishes({key: value for key, value in wishes.items() if key not in chosen_by_us})
        given |= rules.as_typed(given)
        raise_problems(rules.contradictions(given))
        defaults = rules.defaults(given)
        try:
            super().__init__(**given, **defaults, assumed=tuple(defaults))
        except ValidationError as error:
            raise InputError("\n".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())) from None

    @classmethod
    def from_file(cls, path: str | Path, **wishes: Any) -> Self:
        """Read a YAML, TOML or JSON file; `wishes` given here win over the file."""
        from rightfit.workload.files import load

        return cls(**load(path, wishes))

    def save(self, path: str | Path) -> Path:
        """Write the wish to a YAML, TOML or JSON file (by its ending) that from_file reads back to an equal Workload."""
        from rightfit.workload.files import save

        return save(path, self.wishes())

    def wishes(self) -> dict[str, Any]:
        """What the user gave, by option name in friendly form; defaults taken are left out."""
        found = {name: self._friendly(name) for name in OPTIONS if name not in self.assumed}
        return {name: value for name, value in found.items() if value is not None}

    def with_changes(self, **wishes: Any) -> Self:
        """The same wish with some options changed, validated again; None takes an option away."""
        overruled = {attribute for key in wishes for attribute in overrules(key)}
        kept = {key: value for key, value in self._given().items() if key not in overruled}
        return type(self)(**{**kept, **wishes})

    @property
    def is_tuning_assumed(self) -> bool:
        """Whether fine-tuning is our reading: neither task nor method was given."""
        return "task" in self.assumed and "method" in self.assumed and self.task != "train"

    def from_the_start(self) -> Workload:
        """The same wish, to train all weights from the start."""
        return self.model_copy(update={"task": "train", "method": "full"})

    def to_dict(self) -> dict[str, Any]:
        """All attributes that are set, in base units; Workload(**result) is equal."""
        values = self.model_dump(mode="json")
        return {key: value for key, value in values.items() if value not in (None, [], "")}

    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in self.assumed and name != "assumed"}
        return {name: value for name, value in values.items() if value is not None and value not in ((), "")}

    def _friendly(self, name: str) -> Any:
        option = OPTIONS[name]
        value = getattr(self, option.attributes[0])
        if value is None or value in ((), ""):
            return None
        if option.kind == "lengths":
            return getattr(self, option.attributes[1]) or value
        if option.kind == "duration":
            return units.exact_duration(value)
        if option.kind == "rate":
            return f"{units.exact_number(value)}/s"
        if option.kind in ("money", "price_pair"):
            return self.budget if option.kind == "money" else self.api_price
        return list(value) if isinstance(value, tuple) else value
