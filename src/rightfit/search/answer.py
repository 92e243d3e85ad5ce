"""The answer as data: a Plan of Options, and why everything else was refused.

Nothing here is prose. A `Reason` is a code with parameters (base units), which explain/ turns into
English or Chinese; the codes are listed in reasons.py. `to_dict(render=...)` takes the function
that does so, so that search knows nothing of languages.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from rightfit.estimation.figures import Figure
from rightfit.records import dataclass

SCHEMA_VERSION = 1

Render = Callable[["Reason"], str]


@dataclass(frozen=True, slots=True)
class Reason:
    """One statement: a code and its numbers. `params` holds base units and plain names only."""

    key: str
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Code and parameters."""
        return {"key": self.key, "params": dict(self.params)}


@dataclass(frozen=True, slots=True)
class Assumption:
    """A default that was taken: which field, what value, and why (a reason)."""

    field: str
    value: Any
    why: Reason

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """As in the plan's JSON: {field, value, why, key, params}."""
        text = render(self.why) if render else self.why.key
        return {"field": self.field, "value": self.value, "why": text, **self.why.to_dict()}


@dataclass(frozen=True, slots=True)
class Layout:
    """How the job is spread and run. `data` x `tensor` x `pipeline` x `context` = all GPUs;
    `expert` divides `data`. What a kind of work does not have stays as it is here."""

    data: int = 1
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    context: int = 1
    sharding: str = "none"
    shard_degree: int = 1
    micro_batch: int = 1
    grad_accum: int = 1
    recompute: str = "none"
    precision: str = "none"
    attention: str = "none"
    offload: str = "none"
    method: str = ""
    update: str = ""
    rollout: str = ""

    @property
    def global_batch(self) -> int:
        """Sequences of one optimizer step."""
        return self.data * self.micro_batch * self.grad_accum

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON."""
        return {**asdict(self), "global_batch": self.global_batch}


@dataclass(frozen=True, slots=True)
class OptionAccelerator:
    """The accelerator of an option."""

    name: str
    count_per_node: int
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Money of one run. `terms` add up to `total_usd`; `total` is the same with its interval."""

    hourly_usd: float
    total_usd: float
    total: Figure
    terms: Mapping[str, float]
    per_million_tokens_usd: float
    per_million_samples_usd: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in the plan's JSON."""
        rate = "per_million_tokens_usd" if self.per_million_samples_usd is None else "per_million_samples_usd"
        return {
            "hourly_usd": self.hourly_usd,
            "total_usd": self.total_usd,
            "total": self.total.to_dict(),
            "terms": dict(self.terms),
            rate: getattr(self, rate),
        }


@dataclass(frozen=True, slots=True)
class Alternative:
    """Nearly the same thing: the same accelerators and setup on another size, region or purchase
    mode of the same provider."""

    region: str
    instance_type: str
    purchase: str
    hourly_usd: float
    total_usd: float
    total_time_s: float


@dataclass(frozen=True, slots=True)
class Option:
    """One way to run the job: what to rent, how to lay it out, what to expect, what
    it costs, and why.

    `estimate` maps the contract's names (peak_memory_bytes, step_s, tokens_per_s, total_time_s ...)
    to figures. `facts` holds what explanations need beside: fit probability, steps, interruption
    rates, bottleneck. `data_path`: where the data lie, what loading needs and gets, checkpoints
    (see data_part.py); empty for services. `placement`: servers that work as one, what joins them,
    whether in one zone.
    `probability`: that it fits, and that deadline and budget hold (None: not asked).
    """

    rank: int
    provider: str
    region: str
    instance_type: str
    nodes: int
    purchase: str
    accelerator: OptionAccelerator
    vcpus: float
    memory_bytes: float
    network_gbps: float
    price_as_of: str
    price_source: str
    layout: Layout
    estimate: Mapping[str, Figure]
    memory_terms: Mapping[str, float]
    time_terms: Mapping[str, float]
    cost: Cost
    why: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    num_alternatives: int = 0
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    placement: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data_path: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    probability: Mapping[str, float | None] = dataclasses.field(default_factory=lambda: dict.fromkeys(("fits", "deadline", "budget")))

    @property
    def num_accelerators(self) -> int:
        """Accelerators over all nodes."""
        return self.nodes * self.accelerator.count_per_node

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """As in the plan's JSON; with `render`, `why` and `warnings` are sentences."""
        plain = [
            "rank",
            "provider",
            "region",
            "instance_type",
            "nodes",
            "purchase",
            "vcpus",
            "memory_bytes",
            "network_gbps",
            "price_as_of",
            "price_source",
            "num_alternatives",
        ]
        return {
            **{name: getattr(self, name) for name in plain},
            "accelerator": asdict(self.accelerator),
            "probability": dict(self.probability),
            "layout": self.layout.to_dict(),
            "estimate": {name: figure.to_dict() for name, figure in self.estimate.items()},
            "memory_terms": dict(self.memory_terms),
            "time_terms": dict(self.time_terms),
            "cost": self.cost.to_dict(),
            "why": render_all(self.why, render),
            "warnings": render_all(self.warnings, render),
            "alternatives": [asdict(alternative) for alternative in self.alternatives],
            "facts": dict(self.facts),
            "placement": dict(self.placement),
            **{name: self.facts.get(name) for name in ("price_kind", "price_is_old", "seller_tier")},
            "price": self.price_dict(),
            "decided_by": self.facts.get("decided_by") or None,
            "arch": {"arm64": "aarch64"}.get(self.facts.get("arch", ""), self.facts.get("arch")),
            "data_path": dict(self.data_path),
        }

    def price_dict(self) -> dict[str, Any] | None:
        """The price of an hour of one server: what to expect, what was listed, when and where."""
        known = self.facts.get("price")
        if known is None:
            return None
        names = {"mid": "expected_usd_per_h", "low80": "low80_usd_per_h", "high80": "high80_usd_per_h"}
        otherwise = known["otherwise"] or {}
        return {
            "expected_usd_per_h": {name: known[key] for name, key in names.items()},
            "listed_usd_per_h": known["listed_usd_per_h"],
            "as_of": self.price_as_of,
            "kind": self.facts.get("price_kind"),
            "place": known["place"],
            "on_demand_usd_per_h": otherwise.get("usd_per_h") if otherwise.get("purchase") == "on-demand" else None,
        }


@dataclass(frozen=True, slots=True)
class NearMiss:
    """The offer that came nearest to passing a criterion: what it had, and the smallest change that
    would let it pass (a reason).

    `also`: other criteria that it fails, so that the change alone would not do. `unknown`:
    wishes that could not be held against it, because nothing fits there and so no time and no
    cost is known.
    """

    provider: str
    instance_type: str
    region: str
    purchase: str
    nodes: int
    needed: float | str
    had: float | str
    change: Reason
    also: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """Offers refused by one criterion. `needed` and `had` are of the nearest miss, in base units;
    `margin` = relative distance (0.1 = 10 %).

    `count` is the number of offers whose first failing criterion this is; `alone` the number that
    pass every other criterion.
    """

    criterion: str
    count: int
    alone: int
    needed: float | str
    had: float | str
    margin: float
    example: str
    nearest: NearMiss | None = None

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """As in the plan's JSON; with `render`, the least change is a sentence."""
        values = {name: getattr(self, name) for name in ("criterion", "count", "alone", "needed", "had", "margin", "example")}
        nearest: dict[str, Any] | None = None
        if self.nearest is not None:
            nearest = {field.name: getattr(self.nearest, field.name) for field in dataclasses.fields(self.nearest)}
            nearest["change"] = render_all((self.nearest.change,), render)[0]
        return {**values, "nearest": nearest}


@dataclass(frozen=True, slots=True)
class Counts:
    """How much was looked at. `candidates`: rows whose memory was evaluated; `timed`: rows whose
    time was evaluated;
    `offers`: priced offers read; `covered`: offers x node counts x setups that the
    answer is the best of."""

    candidates: int
    timed: int
    offers: int
    servers: int
    covered: int


@dataclass(frozen=True, slots=True)
class Section:
    """A further part of an answer, beside the ranked options: `content` for programs, in base
    units, and `reasons`, which are sentences for people."""

    name: str
    content: Mapping[str, Any]
    reasons: tuple[Reason, ...] = ()

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """As in the plan's JSON: the content and its `text`."""
        return {**self.content, "text": render_all(self.reasons, render)}


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to a workload. `blame`: the smallest sets of criteria that exclude every offer
    (only when there is no option). `unfit`: for one given server on which nothing fits, the setup
    that needs least memory, so that it can be said how much is missing. `given`: the server that
    was given by name ("aws/g5.xlarge"), empty after a search. `sections`: further parts of the
    answer by name (buy and bill; of serving plans api, serverless, spot ...)."""

    workload: Any
    assumptions: tuple[Assumption, ...]
    options: tuple[Option, ...]
    pareto: tuple[Option, ...]
    rejected: tuple[Rejection, ...]
    advice: tuple[Reason, ...]
    catalog: Mapping[str, Any]
    counts: Counts
    blame: tuple[tuple[str, ...], ...] = ()
    unfit: Option | None = None
    given: str = ""
    sections: tuple[Section, ...] = ()

    @property
    def best(self) -> Option | None:
        """The first option, or None where nothing is feasible."""
        return self.options[0] if self.options else None

    def to_dict(self, render: Render | None = None) -> dict[str, Any]:
        """The plan as in the contract. `render` turns reasons into sentences; without it they
        stay {key, params}."""
        values: dict[str, Any] = finite(
            {
                "schema_version": SCHEMA_VERSION,
                "workload": self.workload.to_dict(),
                "assumptions": [assumption.to_dict(render) for assumption in self.assumptions],
                "options": [option.to_dict(render) for option in self.options],
                "pareto": [summary(option) for option in self.pareto],
                "rejected": [rejection.to_dict(render) for rejection in self.rejected],
                "blame": [list(group) for group in self.blame],
                "unfit": self.unfit.to_dict(render) if self.unfit else None,
                "advice": render_all(self.advice, render),
                "sections": {section.name: section.to_dict(render) for section in self.sections},
                "catalog": dict(self.catalog),
                "counts": asdict(self.counts),
            }
        )
        return values

    def to_json(self, render: Render | None = None, *, indent: int | None = 2) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(render), ensure_ascii=False, indent=indent, allow_nan=False)


def render_all(reasons: tuple[Reason, ...], render: Render | None) -> list[Any]:
    """Reasons as sentences, or as {key, params} without a renderer."""
    return [render(reason) if render else reason.to_dict() for reason in reasons]


#: How many times the servers of the choice are a makeshift, where their price is old too or they
#: cost so many times as much; how many times its time is, for no less money.
MAKESHIFT, MUCH_DEARER, MUCH_LONGER = 4, 10.0, 5.0


def is_makeshift(option: Option, best: Option) -> bool:
    """Whether an option needs many more servers than the choice, at prices that nobody may ask any
    more or for many times its money, or takes several times as long for no less money."""
    mine, its = (one.estimate.get("total_time_s") for one in (option, best))
    is_slow = bool(mine and its and mine.mid > MUCH_LONGER * its.mid and option.cost.total_usd >= best.cost.total_usd)
    is_dear = option.cost.total_usd > MUCH_DEARER * best.cost.total_usd
    return is_slow or (option.nodes >= MAKESHIFT * best.nodes and (is_dear or bool(option.facts.get("is_stale"))))


def makeshifts_last(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """The options with makeshifts at their end, ranked anew."""
    best = options[:1]
    ordered = sorted(options, key=lambda one: is_makeshift(one, best[0]))
    return tuple(dataclasses.replace(one, rank=rank) for rank, one in enumerate(ordered, 1))


def summary(option: Option) -> dict[str, Any]:
    """A point of the Pareto front: what to rent, its cost and its time; of a service the month's
    cost and the latency of a request, with its parts and the replicas."""
    names = ("provider", "region", "instance_type", "nodes", "purchase")
    times = {name: option.estimate[name].mid for name in ("latency_s", "ttft_s", "tpot_s") if name in option.estimate}
    replicas = getattr(option.layout, "replicas", None)
    return {
        **{name: getattr(option, name) for name in names},
        "accelerator": asdict(option.accelerator),
        "total_usd": option.cost.total_usd,
        "hourly_usd": option.cost.hourly_usd,
        "total_time_s": option.estimate["total_time_s" if "total_time_s" in option.estimate else "latency_s"].mid,
        **times,
        **({} if replicas is None else {"replicas": replicas}),
    }


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: both become null."""
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
