"""Every bundled model is served and trained on default wishes: none fails on its own defaults, none
breaks a property of a sound answer.

The market is a small one of some thirty servers (one of each usual accelerator and number of them,
some without), so that a walk over all models takes minutes; a model that finds nothing there is
asked of the whole market.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rightfit
from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts import tables
from rightfit.facts.records import OtherModel, VisionModel
from rightfit.families.language.kind import CRAFT as TOKENS
from rightfit.families.passes import kind as passes
from rightfit.families.registry import settled
from rightfit.families.samples.kind import CRAFT as SAMPLES
from rightfit.families.serving import explore as serving
from rightfit.market.offers import PURCHASE_CODES
from rightfit.planner.plan import default_catalog
from rightfit.search.answer import Option
from rightfit.search.constraints import LATENCIES, read_filters
from rightfit.search.offers import Market, read_market
from rightfit.search.rank import first_row
from rightfit.search.training.explore import explore as train
from rightfit.workload import Workload

PARTS = 8
NODES = (1, 2, 4, 8, 16)
CARDS = {
    *(("T4", 1), ("A10G", 1), ("L4", 1), ("L40S", 1), ("L40S", 4), ("A100-SXM-40GB", 8), ("A100-SXM-80GB", 1), ("A100-SXM-80GB", 8)),
    *(("H100-SXM-80GB", 1), ("H100-SXM-80GB", 8), ("H200-SXM-141GB", 8), ("B200-SXM-180GB", 8), ("B300-SXM-288GB", 8), ("MI300X", 8)),
}
WITHOUT = {"m7i.large", "c7i.2xlarge", "m7i.2xlarge", "r7i.4xlarge", "c7i.8xlarge", "r7i.16xlarge"}
#: What no plan can be made of without a word of the user's, or at all: (task, part of the name) ->
#: part of the reason that is given.
REFUSED = {
    ("serve", "hf-seamless-m4t"): "is not known",
    ("serve", "elmo"): "is not known",
    ("serve", "alphafold2"): "is not known",
    ("serve", "xgboost"): "columns",
    ("serve", "lightgbm"): "columns",
    ("serve", "random-forest"): "columns",
    ("finetune", "hf-seamless-m4t"): "is not known",
    ("finetune", "elmo"): "is not known",
    ("finetune", "alphafold2"): "is not known",
    ("finetune", "xgboost"): "trained from scratch",
    ("finetune", "lightgbm"): "trained from scratch",
    ("finetune", "random-forest"): "trained from scratch",
}
#: Fine-tuning with LoRA that no server of the catalog holds; a group of servers would fetch every
#: expert for every micro-step.
TOO_LARGE = {"moonshotai/Kimi-K3", "deepseek-ai/DeepSeek-V4-Pro", "Qwen/Qwen3.8-2.4T-A95B"}


@functools.cache
def small_market() -> Market:
    """The cheapest on-demand offer of each kind of CARDS with RDMA and without, in a place,
    and those of WITHOUT."""
    table = default_catalog().all_offers()
    servers, kept, seen = table.servers, [], set()
    sound = ~table.is_quarantined & np.isfinite(table.price_usd_per_h) & (table.purchase_index == PURCHASE_CODES["on-demand"])
    for row in np.argsort(table.price_usd_per_h, kind="stable").tolist():
        at = int(table.server_index[row])
        key = (servers.accelerator_name[at], int(servers.num_accelerators[at]), servers.rdma[at] != "none")
        key = key if key[0] else (servers.provider[at], servers.instance_type[at], False)
        wanted = key[:2] in CARDS or (key[0] == "aws" and key[1] in WITHOUT)
        if sound[row] and wanted and key not in seen and not servers.not_recommended[at] and not table.is_pseudo_region[row]:
            seen.add(key)
            kept.append(row)
    return read_market(default_catalog(), table.take(np.sort(np.array(kept))))


def found_of(workload: Workload, family: str, market: Market) -> Any:
    """The search of a workload on a market."""
    if family in ("serving", "passes"):
        return (serving if family == "serving" else passes).explore(workload, default_catalog(), market=market)
    craft = TOKENS if family == "language" else SAMPLES
    return train(craft.read(workload), market, read_filters(workload, default_catalog()), craft, node_counts=NODES)


def best_of(model: str, task: str) -> tuple[Any, Option | None]:
    """The search and its first option, on the small market, else on the whole."""
    family, workload = settled(Workload(model=model, task=task))
    market = small_market()
    if not family.is_service:  # training looks at servers with accelerators
        offers = market.offers
        market = market.take(np.flatnonzero(offers.servers.num_accelerators[offers.server_index] > 0))
    found = found_of(workload, family.name, market)
    row = first_row(found, found.bits == 0)
    if row is None and model not in TOO_LARGE:
        found = family.explore(workload, default_catalog())
        row = first_row(found, found.bits == 0)
    return found, family.options(found, [row], 1)[0] if row else None


#: Served by no released engine on cards of NVIDIA or AMD.
UNSERVED = {"thinkingmachines/Inkling-2-Small"}
GATED = ("search.no_engine_class", "search.no_engine_class_but")


#: Nobody counted the work of these models: they are refused rather than timed as what they are not.
UNCOUNTED = ("families.speed_unknown", "families.training_unknown")


def is_uncounted(model: str) -> bool:
    """Whether nobody counted the arithmetic of a model: forecasters, voices, robots and so on, and
    networks of images whose record has no operations."""
    record = facts.model(model)
    return (isinstance(record, OtherModel) and not record.forward_flops) or (isinstance(record, VisionModel) and not record.macs)


@functools.cache
def served_classes() -> frozenset[str]:
    """Every class that a released engine was read to have."""
    rows = csv.DictReader(tables.read_text("engine_support.csv").splitlines())
    return frozenset(row["architecture"] for row in rows if row["min_vllm"] or row["min_sglang"])


def problems(model: str, task: str) -> Iterator[str]:
    """What is unsound in the answer to a default wish."""
    try:
        found, best = best_of(model, task)
    except RightfitError as error:
        allowed = [reason for (of, name), reason in REFUSED.items() if of == task and name in model]
        if task == "serve" and error.key in GATED and not served_classes() & set(re.findall(r"\w+", str(error))):
            return
        if not any(reason in str(error) for reason in allowed) and not (error.key in UNCOUNTED and is_uncounted(model)):
            yield f"{task} {model}: {error}"
        return
    if best is None:
        if model not in TOO_LARGE and not (task == "serve" and model in UNSERVED):
            yield f"{task} {model}: nothing does it"
        return
    placement, host = best.placement, best.estimate["host_memory_bytes"].mid
    if placement["servers"] > 1 and placement["fabric"] in (None, "unknown"):
        yield f"{task} {model}: {placement['servers']} servers that nothing known joins"
    if np.isfinite(best.memory_bytes) and host > best.memory_bytes:
        yield f"{task} {model}: {host / 2**30:.0f} GiB of RAM on {best.memory_bytes / 2**30:.0f}"
    if best.accelerator.name and best.vcpus <= best.accelerator.count_per_node:
        yield f"{task} {model}: {best.vcpus} vCPUs"
    if not best.estimate["disk_bytes"].mid >= 0 or not best.cost.total_usd > 0:
        yield f"{task} {model}: no disk or no price"
    peak = best.estimate["peak_memory_bytes"].mid
    if best.accelerator.name and peak > best.accelerator.memory_bytes * 1.001:
        yield f"{task} {model}: {peak / 2**30:.0f} GiB on a card of {best.accelerator.memory_bytes / 2**30:.0f}"
    if task == "serve":
        limits = found.wish.limits
        over = [
            name
            for name in LATENCIES
            if f"{name}_s" in best.estimate and best.estimate[f"{name}_s"].mid > getattr(limits, f"{name}_s") * 1.2
        ]
        if over:  # a fifth is left to the queue model, which a plan asks and this walk does not
            yield f"{task} {model}: {over} over their own limits"


def models() -> list[str]:
    """Every bundled model."""
    return [model.name for model in rightfit.models()]


@pytest.mark.deep
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("task", ["serve", "finetune"])
def test_every_model_is_planned_on_its_defaults(task: str, part: int) -> None:
    names = models()[part::PARTS]
    assert len(names) > 100
    assert not [problem for name in names for problem in problems(name, task)]


def test_one_model_of_each_family_is_planned_on_its_defaults() -> None:
    """The same within seconds: one model in forty, every task."""
    names = models()[7::40]
    assert not [problem for name in names for task in ("serve", "finetune") for problem in problems(name, task)]


@pytest.mark.deep
def test_one_model_of_each_name_of_family_is_trained_from_scratch_on_its_defaults() -> None:
    first = {(type(model).__name__, model.family): model.name for model in reversed(rightfit.models())}
    refused = ("xgboost", "lightgbm", "random-forest", "elmo", "hf-seamless", "alphafold2", *TOO_LARGE)
    names = [name for name in first.values() if not any(part in name for part in refused)]
    assert len(names) > 200
    assert not [problem for name in names[::3] for problem in problems(name, "train")]
