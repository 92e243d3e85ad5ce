"""The vocabulary of reasons: which criteria refuse offers, and which statements an answer makes.

CRITERIA, in the order in which they are applied ("count" of a rejection is by first failing criterion):

    criterion      needed / had (base units)           what it means
    status         "active" / status                   the type cannot be ordered any more
    cloud, region, country, gpu, purchase              the user's own filters: wanted names / the offer's name
    software       usual stacks / accelerator name     another software stack than the usual ones, and not asked for by name
    seller         seller / tier of trust            a seller of a tier that was not asked for (catalog/data/sellers.csv), or one that no
                                                     launcher rents at (launchers.csv)
    max_nodes      node limit / nodes                  more nodes than allowed would be needed
    quota          limit / what it would take          more of an account's quota than there is
    stock          the believable most / what it would take       more than the seller can be believed to rent out at once
    capability     "bf16" ... / accelerator name       the accelerator or its software cannot run this ("none": a server without)
    layout         - / -                               no parallel layout exists for this number of accelerators
    gpu_memory     peak bytes per GPU / usable bytes   no layout fits the accelerator's memory at the wanted probability
    host_memory    bytes per node / bytes              the host's RAM is too small
    host_cpus      hardware threads / vCPUs            fewer than the processes of the job
    fabric         servers / 1                         so many servers would work as one, and nothing is known that joins them
    deadline       seconds / seconds                   the fastest layout takes too long
    budget         USD / USD                           the cheapest way costs too much
    ttft, tpot, latency   seconds / seconds            serving: a request alone already takes longer than the limit
    throughput     - / -                               serving: no number of servers carries the load

WHY an option stands where it does (Option.why):
    cheapest, fastest, balanced   {total_usd, total_time_s, runner_up, runner_up_usd, runner_up_time_s}
    cheapest_below                also {below_cause}: why the runner-up, which costs less, stands below
    fits              {peak_bytes, limit_bytes, probability}
    bottleneck        {term, share}
    recompute_needed  {level, without_bytes, limit_bytes}     without recomputation it would not fit
    sharding_needed   {sharding, shard_degree}
    offload_needed    {offload, host_bytes}
    deadline_met      {total_time_s, deadline_s, probability};   budget_met {total_usd, budget_usd,
    probability}

WARNINGS (Option.warnings):
    price_stale {as_of}, price_estimate {listed_usd, expected_usd, low_usd, high_usd, ranked_usd, source}, price_region {region}
    spot_interruption, spot_rate_unknown, failures_expected {monthly_low, monthly_high, expected_interruptions, nodes}
    all_servers_survive {nodes, interval_s, probability}     of several spot servers, from one checkpoint to the next
    save_every {interval_s, save_s, restart_s}, no_checkpoints, no_checkpoints_never {loss_usd, times, total_usd}
    server_retires {family, date}, server_restricted {family, date}
    seller_by_hand {provider}, outside_mainland {region}, inside_mainland {region}
    price_moved {as_of}, seller_account {provider, of}, seller_tier_3 {provider}, seller_tier_4 {provider}
    commitment {term_h, used_h}                    a subscription is billed for its whole term
    memory_tight {probability, peak_bytes, limit_bytes}, deadline_risk {probability, deadline_s}
    host_memory_unknown {}, host_memory_low {needed_bytes, had_bytes}, network_unknown {}, uncalibrated {accelerator}
    vcpus_unknown {taken, needed}                  loading data takes a notable part of cores that the seller does not state
    not_nvidia {accelerator}, hidden_chip {accelerator, equivalent}

    storage_not_there {storage, taken}             the disk asked for is not to be had with this server
    data_starved_read {share}, data_starved_prepare {share, needed, had, vcpus}     accelerators wait for data more than the rule allows
    pcie_only {share}, plain_network {bandwidth, share}, few_vcpus {vcpus, gpus, accelerator}, no_bf16 {accelerator},
    no_half_precision {accelerator}, no_flash_attention {accelerator}, price_one_region {region, source}

    price_unknown {}                               no sound price of the given server is known
    price_superseded {newer}                       its seller lists it under another name at a newer price

STANDING of one server (Verdict.standing): why_best {total_usd, total_time_s} (of a service {monthly_usd, latency_s}, likewise below),
why_unpriced {},
    why_unlisted {}: a CPU server that the search of services left out
    why_ranked {rank, total_usd, total_time_s, best, best_usd, best_time_s, price_factor}   price_factor: at this fraction of its price it
    would lead
    why_refused {criterion, needed, had, margin, nodes}, followed by the changes below; why_unknown {criteria}: limits that could not be
    held against it

ADVICE (Plan.advice), each with the predicted effect of following it:
    method {from_method, to_method, total_usd, saving_usd, provider, instance_type, nodes, accelerator, total_time_s}
    spot {saving_usd, total_usd, provider, instance_type}, relax_deadline {deadline_s, total_usd, saving_usd}
    certainty {probability, certain_probability, more_share, total_usd, provider, instance_type, nodes}   what it costs that limits hold surely
    more_nodes {nodes, total_time_s, total_usd}, smaller_card {accelerator, count, how, peak_bytes, total_usd}
    least_accelerators {accelerator, count}
    compile {framework, ...}, decoder {decode, ...}   training on samples: compiled kernels, images decoded on the cards

    unpriced {accelerator, provider, instance_type, server}   on offer, without a public price
    rent_instead {provider, instance_type, region, purchase, nodes, total_usd, total_time_s}: of section rental, beside a machine of one's own
        (rent_instead_month of a service)
    own_does_not {machine, criterion}   the machine that one has does not do it

HOW TO BUY (section buy) and the month (section bill):
    buy_job {purchase, job_h, job_usd}, buy_job_spot, buy_job_spot_dear {job_usd, share}, buy_no_commitment {month_usd}
    buy_steady, buy_never {purchase, month_usd, on_demand_usd, even_hours, even_months, share, payment, basis}
    buy_ladder {ways, from_months}
    bill_month, bill_month_owed {month_usd, office_hours, office_usd, idle_share, startup_s, startup_usd}

CHANGES that would make a refused offer pass (NearMiss.change), and the least changes when nothing passes (Plan.advice):
    change_deadline {deadline_s, factor}, change_budget {budget_usd, factor}, change_nodes {nodes}, change_method {method}
    change_deadline_and_budget {deadline_s, budget_usd}, change_two {criterion, other_criterion},
    change_together {criteria}: only all of them, change_gpu_memory {bytes}, change_host_memory {bytes}, change_precision {lacks},
    change_software {accelerator}: ask for it by name; change_filter {criterion, value}: also take offers with this value; change_server
    {criterion, value}: nothing helps but another server
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rightfit.physics.columns import Array

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
    """Criteria as they are judged, one after the other: which rows (offers, columns) fail each, and what is needed and had where that is a number."""

    def __init__(self, fails: Mapping[str, NDArray[np.bool_]]) -> None:
        self.fails = {name: mask[:, None] for name, mask in fails.items()}
        self.needed: dict[str, Array] = {}
        self.had: dict[str, Array] = {}

    def put(self, criterion: str, fails: NDArray[np.bool_], *, needed: Array, had: Array) -> None:
        """One criterion with numbers."""
        self.fails[criterion], self.needed[criterion], self.had[criterion] = fails, needed, had
