"""What an option says beside the contract's figures, typed by kind of work: reasons, explanations
and exports read these names and no others.

Units are in the names; a probability is between 0 and 1; None means not asked for, or not known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict


class OtherWay(TypedDict):
    """The same servers paid for another way: the price of an hour of one, and the total of the job
    or month."""

    purchase: str
    usd_per_h: float
    total_usd: float
    is_month: bool


class PriceFacts(TypedDict):
    """How sure a price is: the source's figure, and the expected one with its interval; of a spot
    server what it costs so that it is not taken away."""

    listed_usd_per_h: float
    expected_usd_per_h: float
    low80_usd_per_h: float
    high80_usd_per_h: float
    low95_usd_per_h: float
    high95_usd_per_h: float
    place: str
    otherwise: OtherWay | None


class SpotFacts(TypedDict):
    """`spot_low`, `spot_high`: share of such servers reclaimed in a month; `spot_known`: whether
    somebody publishes it."""

    spot_low: float
    spot_high: float
    spot_known: bool


class OfferDoubts(TypedDict):
    """`decided_by`: of the first option the rule that put it before a cheaper one
    (search.sense.RULES); `below_by`: of one that costs less than the first the rule that put it
    below (search.rank.with_below). How a price is known (catalog.offers.PRICE_KINDS), whether it
    may have moved since (catalog.expected), the seller's tier of trust."""

    price_kind: str
    price_is_old: bool
    price_is_beyond: bool
    seller_tier: int
    is_estimate: bool
    is_stale: bool
    is_pseudo_region: bool
    country: str
    is_any_place: bool
    decided_by: str
    below_by: str
    arch: str


class Stated(TypedDict):
    """Put beside the facts of every option (search.confirm.options_of). `assumed`: fields of the
    wish that nobody stated."""

    assumed: tuple[str, ...]


class OfferFacts(SpotFacts, OfferDoubts):
    """Of every option: all of its offer."""

    billing_minimum_s: float
    price: PriceFacts


class JobOfferFacts(OfferFacts):
    """Of the offer of an option for a job that ends: in how many regions there is a
    price for it, too."""

    price_regions: int


class JobFacts(JobOfferFacts):
    """Of an option for a job that ends: whether it fits and is in time."""

    fit_probability: float
    deadline_probability: float | None
    capacity_bytes: float
    startup_s: float
    run_s: float


class WorkFacts(TypedDict, total=False):
    """Of what is trained on: tokens of a language model, or samples of some
    kind with the recipe."""

    seq_len: int
    tokens: float
    samples: float
    samples_per_epoch: float
    epochs: float
    sample: Mapping[str, Any]
    latents: str
    channels_last: bool
    software: str
    modality: str
    params: float
    table_params: float


class TrainingFacts(JobFacts, WorkFacts):
    """Of an option for training on accelerators."""

    bottleneck: str
    steps: float
    dataset_bytes: float
    save_and_restart_s: float
    checkpoint_bytes: float
    without_recompute_bytes: float
    adapted_bytes: float
    vendor: str
    equivalent_to: str
    gpu_interconnect: str
    rdma: str
    risk: dict[str, Any] | None


class TableFacts(JobFacts):
    """Of an option for classical machine learning or data preparation."""

    name: str
    job: str
    rows: float
    cols: float
    data_bytes: float
    category: str
    is_burstable: bool
    ram_capacity_bytes: float
    ram_needed_bytes: float
    spilled_bytes: float
    rented_bytes: float
    staging_s: float


class BatchFacts(TypedDict):
    """Of an option for a batch of inference: what interruptions do to it."""

    risk: dict[str, Any] | None
    run_s: float
    deadline_probability: float | None
    deadline_s: float | None


class ScoringFacts(TypedDict, total=False):
    """Of a service of a classical model: its library, the processes that score, the
    numbers of a request."""

    library: str
    workers: float
    columns: float


class ServiceFacts(OfferFacts, ScoringFacts):
    """Of an option for a service or a batch of inference; a simulation adds
    `simulated`, its figures. `think_s`: what a user pauses after an answer (0: none, or a rate was
    given). `month_h`: hours of use in the month; `always_usd`: the month at all hours, where hours
    of use are stated. `sequence_bytes`: cache of a sequence on
    its fullest GPU, by its tokens. `one_input`: height, width, frames, denoise_steps, seconds of an
    input, those that it has."""

    rate_per_s: float
    utilisation: float
    batch: float
    max_batch: float
    capacity_bytes: float
    fit_probability: float
    percentile: float
    latency_law: str
    month_h: float
    always_usd: float | None
    n_plus_one_usd: float
    replica_rate_per_s: float
    servers_per_replica: float
    family: str
    vendor: str
    equivalent_to: str
    servers: float
    sequence_bytes: Mapping[float, float]
    requests: float
    input_tokens: float
    output_tokens: float
    think_s: float
    one_input: Mapping[str, float]
