"""The vocabulary of reasons: which criteria refuse offers, and which statements an answer makes.

CRITERIA, in the order in which they are applied ("count" of a rejection is by first
failing criterion):

    criterion      needed / had (base units)           what it means
    status         "active" / status                   the type cannot be ordered any more
    cloud, region, country, gpu, purchase              the user's own filters: wanted names / the
                                                       offer's name
    software       usual stacks / accelerator name     another software stack than the usual ones,
                                                       and not asked for by name
    seller         seller / tier of trust            a seller of a tier that was not asked for
                                                     (market/data/sellers.csv), or one that no
                                                     launcher rents at (launchers.csv)
    max_nodes      node limit / nodes                  more nodes than allowed would be needed
    num_gpus       cards asked for / cards             the servers have another number of cards
    quota          limit / what it would take          more of an account's quota than there is
    stock          the believable most / what it would take       more than the seller can be
                                                                  believed to rent out at once
    capability     "bf16" ... / accelerator name       the accelerator or its software cannot run
                                                       this ("none": a server without)
    layout         - / -                               no parallel layout exists for this number of
                                                       accelerators
    gpu_memory     peak bytes per GPU / usable bytes   no layout fits the accelerator's memory at
                                                       the wanted probability
    host_memory    bytes per node / bytes              the host's RAM is too small
    host_cpus      hardware threads / vCPUs            fewer than the processes of the job
    fabric         servers / 1                         so many servers would work as one, and
                                                       nothing is known that joins them
    deadline       seconds / seconds                   the fastest layout takes too long
    budget         USD / USD                           the cheapest way costs too much
    ttft, tpot, latency   seconds / seconds            serving: a request alone already takes longer
                                                       than the limit
    throughput     - / -                               serving: no number of servers carries the
                                                       load

WHY an option stands where it does (Option.why):
    cheapest, fastest, balanced   {total_usd, total_time_s, runner_up, runner_up_usd,
                                  runner_up_time_s}
    cheapest_below                also {below_cause}: why the runner-up, which costs less, stands
                                  below
    fits              {peak_bytes, limit_bytes, probability}
    bottleneck        {term, share}
    recompute_needed  {level, without_bytes, limit_bytes}     without recomputation it would not fit
    sharding_needed   {sharding, shard_degree}
    offload_needed    {offload, host_bytes}
    deadline_met      {total_time_s, deadline_s, probability};   budget_met {total_usd, budget_usd,
    probability}

WARNINGS (Option.warnings):
    price_stale {as_of}, price_region {region},
    price_estimate {listed_usd, expected_usd, low_usd, high_usd, source}
    spot_interruption, spot_rate_unknown, failures_expected {monthly_low, monthly_high,
        expected_interruptions, nodes}
    all_servers_survive {nodes, interval_s, probability}     of several spot servers, from one
                                                             checkpoint to the next
    save_every {interval_s, save_s, restart_s}, no_checkpoints,
        no_checkpoints_never {loss_usd, times, total_usd}
    server_retires {family, date}, server_restricted {family, date}
    seller_by_hand {provider}, offer_by_hand {provider, accelerator, purchase},
    outside_mainland {region}, inside_mainland {region}
    seldom_free {provider, share, polls}, arm_builds {}, mainland_first {server, region, total_usd}
    price_moved {as_of}, seller_account {provider, of}, seller_tier_3 {provider},
        seller_tier_4 {provider}
    commitment {term_h, used_h}                    a subscription is billed for its whole term
    memory_tight {probability, peak_bytes, limit_bytes}, deadline_risk {probability, deadline_s}
    host_memory_unknown {}, host_memory_low {needed_bytes, had_bytes}, network_unknown {},
    own_host_ram {needed_bytes, most_bytes, had_bytes}     more than half of what is assumed
        uncalibrated {accelerator}
    vcpus_unknown {taken, needed}                  loading data takes a notable part of cores that
                                                   the seller does not state
    not_nvidia {accelerator}, hidden_chip {accelerator, equivalent}

    storage_not_there {storage, taken}             the disk asked for is not to be had with this
                                                   server
    data_starved_read {share}, data_starved_prepare {share, needed, had, vcpus}
            accelerators wait for data more than the rule allows
    pcie_only {share}, plain_network {bandwidth, share}, few_vcpus {vcpus, gpus, accelerator},
        no_bf16 {accelerator}, no_half_precision {accelerator}, no_flash_attention {accelerator},
        price_one_region {region, source}

    price_unknown {}                               no sound price of the given server is known
    price_superseded {newer}                       its seller lists it under another name at a newer
                                                   price

STANDING of one server (Verdict.standing): why_best {total_usd, total_time_s} (of a service
{monthly_usd, latency_s}, likewise below), why_unpriced {},
    why_unlisted {}: a CPU server that the search of services left out
    why_ranked {rank, total_usd, total_time_s, best, best_usd, best_time_s, price_factor}
            price_factor: at this fraction of its price it would lead
    why_refused {criterion, needed, had, margin, nodes}, followed by the changes below;
        why_unknown {criteria}: limits that could not be held against it

ADVICE (Plan.advice), each with the predicted effect of following it:
    method {from_method, to_method, total_usd, saving_usd, provider, instance_type, nodes,
        accelerator, total_time_s}
    framework {framework, ...}: one that splits the model, where the assumed libraries do not
    likely_fits {peak_bytes, limit_bytes, probability, ...}: the predicted peak fits, the wanted
        probability is not reached
    spot {saving_usd, total_usd, provider, instance_type},
        relax_deadline {deadline_s, total_usd, saving_usd}
    certainty {probability, certain_probability, more_share, total_usd, provider, instance_type,
        nodes}
            what it costs that limits hold surely
    more_nodes {nodes, total_time_s, total_usd}, smaller_card {accelerator, count, how,
        peak_bytes, total_usd}
    least_accelerators {accelerator, count}
    compile {framework, ...}, decoder {decode, ...}   training on samples: compiled kernels, images
                                                      decoded on the cards

    serve_wait_assumed {metric, option, usual_s, limit_s, provider, instance_type, nodes, purchase,
        monthly_usd}   the assumed limit of a latency that keeps a service from being had
    unpriced {accelerator, provider, instance_type, server}   on offer, without a public price
    rent_instead {provider, instance_type, region, purchase, nodes, total_usd, total_time_s}: of
        section rental, beside a machine of one's own
        (rent_instead_month of a service)
    own_does_not {machine, criterion}   the machine that one has does not do it
    own_does_not_gap {machine, criterion, needed, had}   the same, with what it lacks
    own_does_not_assumed {machine, criterion, needed, had, option}   the same of a limit that nobody
                     stated
    own_with_less {machine, change}   nobody said which weights or how soon, and with these options
                     it does it
    own_too_few {machine, number, count}   it does it, but not alone
    own_too_few_unless {machine, number, count, change}   the same, with options by which it does
    named_does_not_gap {machine, criterion, needed, had}   the same of GPUs that were named
    own_by_lighter {method, change, total_time_s, total_usd, ...}   a lighter way that it does
    rent_by_lighter {method, change, count, accelerator, total_time_s, total_usd, ...}   a lighter
                     way on the least that can be rented
    own_does_not_ram {machine, criterion, needed, had, each_bytes}   the same of host RAM, which is
                     assumed for each card

HOW TO BUY (section buy) and the month (section bill):
    buy_job {purchase, job_h, job_usd}, buy_job_spot, buy_job_spot_dear {job_usd, share},
        buy_no_commitment {month_usd}
    buy_steady, buy_never {purchase, month_usd, on_demand_usd, even_hours, even_months,
        share, payment, basis}
    buy_ladder {ways, from_months}
    bill_month, bill_month_owed {month_usd, office_hours, office_usd, idle_share,
        startup_s, startup_usd}

CHANGES that would make a refused offer pass (NearMiss.change), and the least changes when nothing
passes (Plan.advice):
    change_deadline {deadline_s, factor}, change_budget {budget_usd, factor}, change_nodes {nodes},
        change_method {method}
    change_deadline_and_budget {deadline_s, budget_usd}, change_two {criterion, other_criterion},
        change_together {criteria}: only all of them, change_gpu_memory {bytes},
        change_host_memory {bytes}, change_precision {lacks}, change_software {accelerator}: ask for
        it by name; change_filter {criterion, value}: also take offers with this value;
        change_server {criterion, value}: nothing helps but another server
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import ContradictionError, UnknownNameError
from rightfit.facts.trainers import splits_of
from rightfit.market import names
from rightfit.market.offers import PURCHASE_CODES
from rightfit.market.sellers import Quota, believable, read_quota, worst_excess
from rightfit.messages import Message, contradiction
from rightfit.physics.columns import Array, Method
from rightfit.workload.vocabulary import COUNTRIES, fold, nearest_words

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.market import Catalog, OfferTable
    from rightfit.workload import Workload


CRITERIA = (
    "status",
    "cloud",
    "seller",
    "region",
    "country",
    "gpu",
    "software",
    "purchase",
    "max_nodes",
    "num_gpus",
    "quota",
    "stock",
    "capability",
    "layout",
    "gpu_memory",
    "host_memory",
    "host_cpus",
    "fabric",
    "deadline",
    "budget",
    "ttft",
    "tpot",
    "latency",
    "throughput",
)


class Judged:
    """Criteria as they are judged, one after the other: which rows (offers, columns) fail each, and
    what is needed and had where that is a number."""

    def __init__(self, fails: Mapping[str, NDArray[np.bool_]]) -> None:
        self.fails = {name: mask[:, None] for name, mask in fails.items()}
        self.needed: dict[str, Array] = {}
        self.had: dict[str, Array] = {}

    def put(self, criterion: str, fails: NDArray[np.bool_], *, needed: Array, had: Array) -> None:
        """One criterion with numbers."""
        self.fails[criterion], self.needed[criterion], self.had[criterion] = fails, needed, had


# ---- Limits that are not a price: quotas of the account, and where data may be kept.


class Limited(Protocol):
    """What of the user's filters bounds amounts."""

    @property
    def quotas(self) -> tuple[Quota, ...]: ...
    @property
    def max_nodes(self) -> int | None: ...
    @property
    def num_gpus(self) -> int | None: ...
    @property
    def deadline_s(self) -> float | None: ...
    @property
    def any_software(self) -> bool: ...


def read_quotas(workload: Workload, catalog: Catalog) -> tuple[Quota, ...]:
    """Quotas of the price book, and those of the workload."""
    book: tuple[Quota, ...] = getattr(catalog, "quotas", ())
    types = catalog.servers().instance_type if workload.quota else ()
    return (*book, *(read_quota(text, catalog.regions(), types=types, countries=COUNTRIES) for text in workload.quota))


def add_quota(filters: Limited, offers: OfferTable, num_servers: Array, judged: Judged) -> None:
    """Put the criteria "quota" and "stock" beside the others: what the tightest limit allows, and
    what each row would take of it."""
    if filters.quotas:
        limit, taken, over = worst_excess(filters.quotas, offers, num_servers)
        judged.put("quota", over, needed=limit, had=taken)
    _add_stock(filters, offers, num_servers, judged)


def _add_stock(filters: Limited, offers: OfferTable, num_servers: Array, judged: Judged) -> None:
    """What a seller can be believed to rent out at once. A quota that speaks about an offer, and a
    number of servers that the user allows, are known better: there nothing is guessed. Nor of one
    server: whether one is in stock is no question of the amount. A deadline within the time that a
    reservation takes leaves what is found free on the day."""
    if filters.max_nodes is not None or filters.any_software:
        return
    lead_s = facts.coefficients("planning")["reservation_lead_s"]
    most, each = believable(offers, at_notice=filters.deadline_s is not None and filters.deadline_s <= lead_s)
    for quota in filters.quotas:
        most = np.where(quota.applies(offers), np.inf, most)
    count = np.where(np.isfinite(num_servers), num_servers, 0.0)
    taken = each[:, None] * count
    judged.put("stock", (taken > most[:, None]) & (count > 1), needed=most[:, None], had=taken)


def add_most_nodes(filters: Limited, offers: OfferTable, num_servers: Array, judged: Judged) -> None:
    """Put the criteria "max_nodes" and "num_gpus" beside the others; rows that no number of
    servers is enough for do not fail them. So many cards are those of all servers together."""
    if filters.max_nodes is not None:
        over = np.isfinite(num_servers) & (num_servers > filters.max_nodes)
        judged.put("max_nodes", over, needed=np.full((1, 1), float(filters.max_nodes)), had=num_servers)
    if filters.num_gpus is not None:
        enough = np.isfinite(num_servers)
        cards = offers.servers.num_accelerators[offers.server_index][:, None] * np.where(enough, num_servers, 1.0)
        other = enough & (cards != filters.num_gpus)
        judged.put("num_gpus", other, needed=np.full((1, 1), float(filters.num_gpus)), had=cards)


def add_host_cpus(offers: OfferTable, least: Array, judged: Judged) -> None:
    """Put the criterion "host_cpus" beside the others. `least` (servers,): hardware threads that
    the processes of the job need; what a provider does not say passes."""
    needed, had = (values[offers.server_index][:, None] for values in (least, offers.servers.vcpus))
    judged.put("host_cpus", had < needed, needed=needed, had=had)


@functools.cache
def jurisdictions() -> Mapping[str, dict[str, str]]:
    """Areas of law by every name that they go by."""
    rows = facts.table("jurisdictions")
    return {fold(name): row for row in rows for name in (row["code"], row["en"], row["zh"], *row["aliases"].split(";")) if name}


def residency_countries(areas: tuple[str, ...], catalog: Catalog) -> tuple[str, ...]:
    """Countries in which data may be kept: areas of law ("eu", "gdpr", "cn-mainland"),
    continents or countries."""
    found: dict[str, None] = {}
    for name in areas:
        row = jurisdictions().get(fold(name))
        found.update(dict.fromkeys(row["countries"].split(";") if row else _countries(name, catalog)))
    return tuple(found)


def _countries(name: str, catalog: Catalog) -> tuple[str, ...]:
    try:
        return names.resolve_countries(COUNTRIES.get(fold(name), name), catalog.regions())
    except UnknownNameError:
        known = tuple(dict.fromkeys(row["code"] for row in jurisdictions().values()))
        raise UnknownNameError(
            "residency",
            name,
            nearest=nearest_words(fold(name), known),
            allowed=Message("names.residencies", names=", ".join(known)),
            field="residency",
        ) from None


# ---- Servers that work as one need a link that somebody states: which offers have it, and the
# criterion that refuses the rest.
#
# Within a replica, and in training over several servers, activations and gradients cross from
# server to server at every step. A seller that publishes RDMA, or the bandwidth of the private
# network of a zone, rents servers that can stand together; several servers of one who publishes
# neither may stand anywhere.

Mask = NDArray[np.bool_]

NO_RDMA = ("", "none")
#: A network of a zone whose bandwidth the seller states, without RDMA; one that the owner of
#: the servers knows.
PRIVATE, OWNED = "private", "owned"


def fabric_of(offers: OfferTable, offer: int) -> str:
    """What joins several servers of an offer: the word of its RDMA, "private", "owned", or nothing
    that is known ("")."""
    servers, server = offers.servers, int(offers.server_index[offer])
    if int(offers.purchase_index[offer]) == PURCHASE_CODES["owned"]:
        return OWNED
    if servers.rdma[server] not in NO_RDMA:
        return servers.rdma[server]
    stated = servers.network_bytes_per_s[server] > 0 and not offers.is_pseudo_region[offer]
    return PRIVATE if stated else ""


def has_fabric(offers: OfferTable) -> Mask:
    """Whether several servers of each offer can work as one (O,): by RDMA, by a private network of
    stated bandwidth in a region that is a place, or because they are the user's own."""
    servers = offers.servers
    rdma = np.array([word not in NO_RDMA for word in servers.rdma], dtype=np.bool_)[offers.server_index]
    stated = (np.nan_to_num(servers.network_bytes_per_s) > 0)[offers.server_index]
    return np.asarray(rdma | (stated & ~offers.is_pseudo_region) | (offers.purchase_index == PURCHASE_CODES["owned"]))


def add_fabric(offers: OfferTable, together: Array, judged: Judged) -> None:
    """Put the criterion "fabric" beside the others. `together` broadcasts to (offers, columns):
    servers that exchange data as one."""
    several = together > 1
    if np.any(several):
        judged.put("fabric", several & ~has_fabric(offers)[:, None], needed=together, had=np.ones((1, 1)))


# ---- What software stands behind an answer: which accelerators PyTorch's usual stack runs on, and
# which training stacks can split a model.
#
# A plan must be one that its reader can start. So accelerators with a software stack of their own
# (TPU, Trainium, Gaudi, Ascend, chips whose maker a cloud hides) are offered only where the user
# names them, and tensor, pipeline and expert parallelism only where a stack that has them is meant.

ADAPTER_METHODS = frozenset({Method.LORA, Method.QLORA, Method.DORA, Method.PTUNING, Method.PREFIX})
WHOLE_METHODS = frozenset({Method.FULL, Method.GALORE})
UNQUANTISED = frozenset({"", "none", "fp8"})
SPLITTING = {"tensor_parallel": "tensor-parallel", "pipeline_parallel": "pipeline-parallel"}


@functools.cache
def stacks() -> dict[str, str]:
    """Vendor -> the stack that PyTorch's usual libraries run on, from
    facts/data/software_stacks.csv."""
    return {row["vendor"]: row["stack"] for row in facts.table("software_stacks")}


def stack_of(accelerator: Accelerator) -> str:
    """CUDA or ROCm; empty for accelerators with another stack. A chip that a cloud hides counts as
    the one that it equals."""
    return stacks().get(facts.accelerators().get(accelerator.equivalent_to, accelerator).vendor, "")


def listed_stacks() -> str:
    """The usual stacks in words."""
    return ", ".join(dict.fromkeys(stacks().values()))


def splits_models(workload: Workload, method: Method) -> bool:
    """Whether the training stack can spread one copy of the model over accelerators by tensor,
    pipeline or expert parallelism.

    Quantised bases (bitsandbytes) never; adapters only where a stack is named that has it. Where
    none is named, pre-training is taken to run on a stack of the torchtitan or Megatron class, and
    fine-tuning on Hugging Face's libraries, unless a degree is asked for.
    """
    if is_quantised(workload, method):
        return False
    full, adapters = splits_of(workload.framework or "")
    if method in ADAPTER_METHODS or method not in WHOLE_METHODS:
        return adapters
    return full or (not workload.framework and (workload.task == "train" or bool(asked_splits(workload))))


def assumed_framework(workload: Workload, method: Method) -> str:
    """The stack whose memory conventions and speed are taken where the user names none: Hugging
    Face's libraries for fine-tuning; for pre-training, and where a split is asked for, PyTorch code
    of the torchtitan class (the physics' own default, an empty name)."""
    return "" if splits_models(workload, method) or workload.task == "train" else "transformers"


def is_quantised(workload: Workload, method: Method) -> bool:
    """Whether the weights that are kept are packed in 8 bits or fewer."""
    return method == Method.QLORA or (workload.quantization or "") not in UNQUANTISED


def asked_splits(workload: Workload) -> dict[str, int]:
    """The degrees over 1 that the user asked for, by option."""
    degrees = {option: getattr(workload, name) for name, option in SPLITTING.items()}
    return {option: int(degree) for option, degree in degrees.items() if degree and degree > 1}


def refuse_impossible_splits(workload: Workload, method: Method) -> None:
    """A degree that the method's libraries do not have is the user's contradiction."""
    asked = asked_splits(workload)
    if not asked or splits_models(workload, method):
        return
    option, degree = next(iter(asked.items()))
    if is_quantised(workload, method):
        cure = Message("search.quantised")
    elif workload.framework:
        cure = Message("search.libraries_of", framework=workload.framework)
    else:
        cure = Message("search.libraries")
    raise ContradictionError(
        contradiction(f"{option} {degree}", workload.method or "full", kind="method", why=cure), field=option.replace("-", "_")
    )
