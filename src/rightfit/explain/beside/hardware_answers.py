"""Answers about hardware: GPUs and their memory, links, networks, processors, memory, disks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.in_words import all_ways, cost_of, leading, led_if, offload_words, total_usd, way_text
from rightfit.explain.beside.questions import Question, worded
from rightfit.explain.claim_words import card_pattern
from rightfit.explain.memory_out import room_text
from rightfit.explain.plan_words import data_path_lines
from rightfit.explain.rule_trials import measures_of
from rightfit.explain.trials import need_on_one_card, where_text
from rightfit.messages import Lang
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan
    from rightfit.workload import Workload

#: Exchange that takes so much of a step is worth a faster network.
_SLOW = 0.2


#: Counts of GPUs that are tried for the fewest.
_COUNTS = (1, 2, 3, 4, 6, 8, 16)


_TRAINED = frozenset({"train", "finetune"})


def _gpu(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """With a GPU or without one, each at its best: the one that wins, with both costs."""
    best = leading(plan)
    named = [found[0] for found in card_pattern().finditer(question.words) if facts.match_accelerators(found[0])]
    gpus: Any = ",".join(named) if named else tuple(facts.accelerators())
    if named:
        best = led_if(plan, catalog, gpu=gpus) or best
    rows = _cards_beside(named, best, plan, catalog, lang)
    other = led_if(plan, catalog, gpu="none" if best.num_accelerators else gpus)
    if other is not None and total_usd(other) < total_usd(best):
        best, other = other, best
    if other is None:
        is_trained = str(plan.workload.task) in _TRAINED  # no speed of it is known without a GPU: that says not that it cannot be done
        key = "gpu_none" if not best.num_accelerators else "gpu_trained" if is_trained else "gpu_only"
        return worded(key, lang, way=way_text(best, lang))
    ratio = f"{total_usd(other) / total_usd(best):.2g}"
    key = "gpu_cheaper" if best.num_accelerators else "gpu_dearer"
    return worded(key, lang, ratio=ratio, way=way_text(best, lang), other=way_text(other, lang)) + rows


def _cards_beside(named: Sequence[str], best: Option, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """What each other named GPU takes, beside the one that leads."""
    others = [name for name in named if best.accelerator.name not in facts.match_accelerators(name)]
    if len(others) == len(named):
        return ""
    told = []
    for name in others:
        option = led_if(plan, catalog, gpu=name)
        told.append(
            worded("card_none", lang, card=name) if option is None else worded("card_row", lang, card=name, way=way_text(option, lang))
        )
    sep, end = ("；", "。") if lang == "zh" else ("; ", ".")
    return "".join(sep + one.removesuffix(end) for one in told)


def _link(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    if best.num_accelerators <= 1:
        return worded("link_one", lang, where=where_text(best))
    share = measures_of(best, plan.workload, catalog=catalog).communication_share
    link = str(best.facts.get("gpu_interconnect") or "pcie")
    key = "link_plain" if link == "pcie" else "link_many"
    return worded(key, lang, count=q.plain(best.num_accelerators), link=link, share=q.percent_text(share))


def _network(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    if best.nodes == 1:
        return worded("network_one", lang, where=where_text(best))
    share = measures_of(best, plan.workload, catalog=catalog).communication_share
    known = best.network_gbps and math.isfinite(best.network_gbps)
    network = f"{best.network_gbps:g} Gbit/s" if known else worded("network_unknown", lang)
    key = "network_slow" if share > _SLOW else "network_many"
    return worded(key, lang, nodes=best.nodes, network=network, share=q.percent_text(share))


def _enough(question: Question, amount: str, need: float, text: str, lang: Lang) -> str:
    """The need in words, before it whether the amount asked about covers it."""
    if not math.isfinite(question.amount):
        return text
    return worded("enough" if question.amount >= need else "enough_not", lang, amount=amount, need=text)


def _cores(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    need = float(best.data_path.get("needed_cores", math.nan))
    if best.num_accelerators and math.isfinite(need):
        text = worded(
            "cores_need", lang, cores=q.plain(math.ceil(need)), workers=q.plain(float(best.data_path["workers"])), had=q.plain(best.vcpus)
        )
        return _enough(question, f"{question.amount:g}", math.ceil(need), text, lang)
    if not math.isfinite(question.amount):
        return worded("cores_had", lang, had=q.plain(best.vcpus))
    least = min(all_ways(plan, catalog), key=lambda option: (option.vcpus * option.nodes, total_usd(option)))
    text = worded("cores_least", lang, had=q.plain(least.vcpus * least.nodes), where=where_text(least), cost=cost_of(least, lang))
    return _enough(question, f"{question.amount:g}", least.vcpus * least.nodes, text, lang)


def _memory(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    if "host_memory_bytes" not in best.estimate:
        return worded("memory_had", lang, had=q.memory_text(best.memory_bytes), where=where_text(best))
    need = best.estimate["host_memory_bytes"].high80
    text = worded("memory_need", lang, need=q.memory_text(need), had=q.memory_text(best.memory_bytes))
    return _enough(question, f"{question.amount:g} GB", need / GIB, text, lang)


def _disk(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    if "disk_bytes" not in leading(plan).estimate:
        return worded("unknown", lang)
    need = leading(plan).estimate["disk_bytes"].high80
    return _enough(question, f"{question.amount:g} GB", need / 1e9, worded("disk_need", lang, need=q.data_text(need)), lang)


def _count(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """The fewest GPUs that do it, and what leads where that takes others."""
    best = leading(plan)
    if not best.num_accelerators:
        return worded("count_none", lang, where=where_text(best), cost=cost_of(best, lang))
    told = [_count_text("count", best, lang)]
    if (few := _fewest(plan, catalog)) is not None and few.num_accelerators < best.num_accelerators:
        told = [_count_text("count_least", few, lang), _count_text("count_chosen", best, lang)]
    return ("；" if lang == "zh" else "; ").join(told)


def _count_text(key: str, option: Option, lang: Lang) -> str:
    fields = {
        "count": q.plain(option.num_accelerators),
        "card": option.accelerator.name,
        "where": where_text(option),
        "cost": cost_of(option, lang),
    }
    weights = str(getattr(option.layout, "weight_format", "") or "")
    in_format = worded("in_format", lang, format=weights) if weights and option.accelerator.name and not weights.endswith("16") else ""
    return worded(key, lang, **fields) + in_format + offload_words(option, lang)


def _fewest(plan: Plan, catalog: Catalog) -> Option | None:
    """What does it on the fewest GPUs, without help of the host where that is possible."""
    best = leading(plan)
    if plan.workload.num_gpus is not None or best.purchase == "owned":
        return None
    counts = [count for count in _COUNTS if count < best.num_accelerators]
    for help_ in ({"offload": "none", "max_nodes": "1"}, {"offload": "none"}, {}):
        found = (led_if(plan, catalog, num_gpus=count, **help_) for count in counts)
        if (few := next((one for one in found if one is not None), None)) is not None:
            return few
    return None


def _vram(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """GPU memory that one copy of the job needs; of fine-tuning without a method, by method."""
    workload = plan.workload
    is_open = workload.task == "finetune" and "method" in workload.assumed
    methods = ["full", "lora", "qlora"] if is_open else [str(workload.method)]
    told = []
    for method in methods:
        try:
            job = workload if method == workload.method else workload.with_changes(method=method, optimizer=None)
        except RightfitError:
            continue
        if math.isfinite(need := need_on_one_card(job, catalog=catalog)):
            way = q.method_text(method, lang) if workload.task == "finetune" else ""
            parts = _parts_text(job, lang)
            told.append(worded("vram_of" if way else "vram", lang, way=way, need=q.memory_text(need)) + parts)
    best = leading(plan)
    if workload.task == "serve" and not told:
        told += _served_vram(plan, lang)
    if "peak_memory_bytes" in best.estimate and best.num_accelerators:
        peak = q.memory_text(best.estimate["peak_memory_bytes"].mid)
        told.append(
            worded("vram_planned", lang, count=q.plain(best.num_accelerators), card=best.accelerator.name, peak=peak)
            + offload_words(best, lang)
        )
    return ("；" if lang == "zh" else "; ").join(told) or worded("unknown", lang)


def _parts_text(job: Workload, lang: Lang) -> str:
    """What full training with Adam keeps for each parameter, and its sum; "" of any other."""
    if job.method != "full" or "adam" not in str(job.optimizer or "adam").casefold() or "8" in str(job.optimizer or ""):
        return ""
    try:
        model = facts.model(str(job.model), network=False)
    except RightfitError:
        return ""
    count = float(getattr(model, "params_total", 0) or 0)
    if not count:
        return ""
    each = {name: q.memory_text(share * count) for name, share in _STATES.items()}
    return worded("vram_parts", lang, all=q.memory_text(sum(_STATES.values()) * count), **each)


#: Bytes of a parameter in mixed precision: 16-bit weights and gradients, fp32 copy, two moments.
_STATES = {"weights": 2.0, "gradients": 2.0, "copy": 4.0, "moments": 8.0}


def _room(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    return room_text(question.amount, plan, catalog, lang)


def _served_vram(plan: Plan, lang: Lang) -> list[str]:
    """What a service needs at least: its weights, which leave a quarter to the cache; the rest of
    the GPU goes to the cache of more requests."""
    from rightfit.explain.fit_claims import ROOMY, format_of, weights_bytes

    told = format_of({"model": plan.workload.model, "quantization": plan.workload.quantization})
    try:
        weights = weights_bytes({"model": plan.workload.model, "quantization": told})
    except RightfitError:
        return []
    if not math.isfinite(weights):
        return []
    return [worded("vram_served", lang, format=told or "16 bit", weights=q.memory_text(weights), least=q.memory_text(weights / ROOMY))]


def _series(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Whether the server of the plan is of the series of Alibaba Cloud that is asked about."""
    best = leading(plan)
    letter = re.sub(r"[^crgmu]", "", question.words.casefold())[:1]
    is_one = best.provider == "alicloud" and re.match(rf"ecs\.{letter}\d", best.instance_type) is not None
    key = "series" if is_one else "series_gpu" if best.num_accelerators else "series_not"
    return worded(key, lang, series=letter, where=where_text(best), cost=cost_of(best, lang))


#: One read of a disk, by which IOPS are counted [bytes].
_READ_BYTES = 16 * 1024


def _iops(question: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    """Reads a second that the job needs, then where its data lie."""
    needed = float(leading(plan).data_path.get("needed_bytes_per_s", math.nan))
    if not math.isfinite(needed):
        return worded("unknown", lang)
    head = worded("iops", lang, count=q.plain(max(1, math.ceil(needed / _READ_BYTES))), rate=f"{q.data_text(needed)}/s")
    return head + _data(question, plan, catalog, lang)


def _data(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    best = leading(plan)
    if not best.data_path:
        return worded("unknown", lang)
    return ("" if lang == "zh" else " ").join(data_path_lines(best.data_path, lang)[:3])


def _scaling(_: Question, plan: Plan, catalog: Catalog, lang: Lang) -> str:
    replicas = getattr(leading(plan).layout, "replicas", 0)
    return worded("scaling", lang, replicas=replicas, cost=cost_of(leading(plan), lang)) if replicas else ""


#: The answers by the names that data/beside.toml has for them.
HARDWARE: Mapping[str, Callable[[Question, Plan, Catalog, Lang], str]] = {
    "gpu": _gpu,
    "link": _link,
    "network": _network,
    "cores": _cores,
    "memory": _memory,
    "disk": _disk,
    "scaling": _scaling,
    "series": _series,
    "iops": _iops,
    "count": _count,
    "vram": _vram,
    "room": _room,
    "data": _data,
}
