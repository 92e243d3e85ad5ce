"""A plan in words: the choice, what it is made of, what was refused and what would change it.
Nothing here computes physics.

Every function takes the data of search and a language and returns sentences or small frozen structs
of them; drawing tables and bars is left to the faces (a `Term` brings its share for that).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.amounts import trained_text
from rightfit.explain.messages import join, say, say_or, sentences
from rightfit.explain.quantities import is_priced, priced_text, rent_text
from rightfit.explain.reasons import (
    UNSHARDED,
    assumed_text,
    change_text,
    criteria_text,
    criterion_text,
    field_text,
    needed_had_text,
    offload_text,
    renderer,
    sharding_text,
    term_text,
    where_text,
)
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.search.answer import Assumption, Layout, NearMiss, Option, Plan, Reason, Rejection

if TYPE_CHECKING:
    from rightfit.search.servers import Verdict


# ---- The data path of an option in sentences: where the data lie, whether cards wait for them,
# loaders and checkpoints.

_FASTER_LATER = 0.99
_LARGE = 1e5


def data_path_lines(part: Mapping[str, Any], lang: Lang, *, currency: str = "usd") -> tuple[str, ...]:
    """What there is to say about the data of an option (its `data_path`); nothing
    where it has none."""
    if not part:
        return ()
    texts = _texts(part, lang)
    lines = [say(f"data_path.staged_{part['why']}", lang, **texts), _waits(part, texts, lang), _epochs(part, lang)]
    lines.append(say("data_path.loaders", lang, **texts))
    if part["upload_s"] > 0:
        lines.append(
            say("data_path.moved", lang, time=q.duration_text(part["upload_s"], lang), usd=q.cost_text(part["moved_usd"], lang, currency))
        )
    lines.append(_checkpoint(part["checkpoint"], lang, currency))
    return tuple(lines)


#: A smaller share of a core is none that one would look at.
_LEAST_CORES = 0.01


def _texts(part: Mapping[str, Any], lang: Lang) -> dict[str, str]:
    return {
        "dataset": q.data_text(part["dataset_bytes"]),
        "volume": part["volume"],
        "place": part["volume"] or part["staging"],
        "time": q.duration_text(part["staging_s"], lang),
        "rate": f"{q.data_text(part['read_bytes_per_s'])}/s",
        "needed": f"{q.data_text(part['needed_bytes_per_s'])}/s",
        "samples": q.count_text(part["samples_per_s"], lang) if part["samples_per_s"] >= _LARGE else q.plain(part["samples_per_s"]),
        "decode": say_or(f"data_path.decode_{part['decode']}", lang, part["decode"]),
        "unit": say(f"data_path.unit_{'tokens' if part['decode'] in ('tokenized', 'text') else 'samples'}", lang),
        "needed_cores": q.plain(part["needed_cores"], 2) if part["needed_cores"] >= _LEAST_CORES else f"< {_LEAST_CORES:g}",
        "cores": q.plain(part["cores"]),
        "workers": q.counted("worker", part["workers"], lang),
        "stall": q.percent_text(part["stall_share"]),
        "loading": q.percent_text(part["loading_share"]),
        "rule": q.percent_text(part["rule_share"]),
    }


def _waits(part: Mapping[str, Any], texts: Mapping[str, str], lang: Lang) -> str:
    if part["stall_share"] <= part["rule_share"]:
        return say("data_path.waits", lang, **texts)
    return say("data_path.starves", lang, **texts, cause=say(f"data_path.cause_{part['limit']}", lang, **texts))


def _epochs(part: Mapping[str, Any], lang: Lang) -> str:
    first, later = (q.duration_text(part[name], lang) for name in ("first_epoch_s", "later_epoch_s"))
    same = part["later_epoch_s"] > _FASTER_LATER * part["first_epoch_s"]
    return say("data_path.even_epochs" if same else "data_path.epochs", lang, first=first, later=later)


def _checkpoint(part: Mapping[str, float], lang: Lang, currency: str) -> str:
    return say(
        "data_path.checkpoint",
        lang,
        size=q.data_text(part["bytes"]),
        interval=q.duration_text(part["interval_s"], lang),
        count=f"{part['count']:,.0f}",
        write=q.duration_text(part["write_s"], lang),
        upload=q.duration_text(part["upload_s"], lang),
        kept=f"{part['kept']:.0f}",
        usd=q.cost_text(part["object_usd"], lang, currency),
    )


# ---- What a plan says differently where samples (images, clips, recordings, rows) are trained
# on and not tokens.


def trains_samples(option: Option) -> bool:
    """Whether an option counts samples."""
    return "sample" in option.facts


def sample_setup_text(option: Option, layout: str, lang: Lang) -> str:
    """How to lay the job out over the cards."""
    setup, facts = option.layout, option.facts
    accumulated = say("choice.accumulated", lang, count=setup.grad_accum) if setup.grad_accum > 1 else say("choice.not_accumulated", lang)
    precision = setup.precision if setup.precision not in ("fp16", "bf16") else say("training.mixed", lang, precision=setup.precision)
    parts = [accumulated, say("training.global_batch", lang, count=f"{setup.global_batch:,}")]
    tail = [say_or(f"choice.recompute_{setup.recompute}", lang, setup.recompute), precision]
    tail += [say("training.channels_last", lang)] if facts["channels_last"] and precision != setup.precision else []
    tail += [say(f"training.latents_{facts['latents']}", lang)] if facts["latents"] else []
    batch = say("training.batch", lang, count=f"{setup.micro_batch:,}", samples=samples_text(facts["sample"], setup.micro_batch, lang))
    return say("training.setup", lang, layout=layout, batch=batch, accumulation=join(parts, lang), rest=join(tail, lang))


def samples_text(sample: Any, count: float, lang: Lang) -> str:
    """ "images of 224 x 224", "utterances of 30 s"."""
    unit = unit_text(sample["unit"], lang, one=count == 1)
    size = f"{sample['height']:.0f} x {sample['width']:.0f}" if sample["height"] else ""
    if size and sample["frames"] > 1:
        return say("training.clips_of", lang, unit=unit, frames=f"{sample['frames']:.0f}", size=size)
    if size and sample["domain"] in ("vision", "video"):
        return say("training.images_of", lang, unit=unit, size=size)
    if sample["domain"] == "speech":
        return say("training.seconds_of", lang, unit=unit, time=q.duration_text(sample["seconds"], lang))
    return unit


def unit_text(unit: str, lang: Lang, *, one: bool = False) -> str:
    """What one sample is called."""
    return say_or(f"training.unit_{unit}{'_one' if one else ''}", lang, unit)


def sample_speed_text(option: Option, lang: Lang) -> str:
    """Samples per second, step time and the share of peak arithmetic; arithmetic is no measure for
    tables and graphs."""
    estimate, facts = option.estimate, option.facts
    fields = {
        "rate": q.plain(estimate["samples_per_s"].mid),
        "unit": unit_text(facts["sample"]["unit"], lang),
        "step": q.duration_text(estimate["step_s"].mid, lang),
        "epoch": q.duration_text(facts["samples_per_epoch"] / estimate["samples_per_s"].mid, lang),
        "epochs": q.plain(facts["epochs"]),
    }
    if facts["modality"] in ("recommendation", "graph"):
        return say("training.speed_plain", lang, **fields)
    return say("training.speed", lang, **fields, mfu=q.percent_text(estimate["mfu"].mid))


_NOT_THE_USERS = frozenset({"status", "capability", "layout", "gpu_memory", "host_memory", "host_cpus", "fabric"})
_NEEDS = ("gpu_memory", "host_memory")
_FILTERS = ("cloud", "seller", "region", "country", "gpu", "software", "purchase", "status")
_LIMITS = ("max_nodes", "num_gpus", "quota", "stock", "deadline", "budget", "ttft", "tpot", "latency", "throughput")
_WISHES = {"deadline": "deadline_s", "budget": "budget_usd"}
NO_NEAR_MISS = frozenset({"status", "capability"})


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a sum: its code, its name in words, its value in base units, its share of the
    sum, and one line of text."""

    name: str
    label: str
    value: float
    share: float
    text: str


@dataclass(frozen=True, slots=True)
class OptionText:
    """One option in words. `on_processors`: its memory is that of the server, not of a card."""

    headline: str
    outcome: str
    setup: str
    speed: str
    margin: str
    priced: str
    why: tuple[str, ...]
    warnings: tuple[str, ...]
    memory: tuple[Term, ...]
    time: tuple[Term, ...]
    cost: tuple[Term, ...]
    data: tuple[str, ...] = ()
    on_processors: bool = False


@dataclass(frozen=True, slots=True)
class PlanText:
    """A whole plan in words; `best` is None where nothing is feasible. `unfit`: the given server
    that the job does not fit, nearest to fitting."""

    headline: str
    considered: str
    best: OptionText | None
    assumptions: tuple[str, ...]
    rejected: tuple[str, ...]
    blame: str
    advice: tuple[str, ...]
    faster: tuple[str, ...]
    unfit: OptionText | None = None


def nothing_text(plan: Plan, lang: Lang) -> str:
    """The headline of a plan without answer: nothing in the catalog, or the given server that the
    job does not fit, and for want of what."""
    if plan.unfit is None:
        return _given_text(plan, lang) if plan.given and plan.rejected else say("choice.none", lang)
    where = where_text({"provider": plan.unfit.provider, "instance_type": plan.unfit.instance_type, "nodes": plan.unfit.nodes}, lang)
    fields = {"where": where, "gpus": cards_text(plan.unfit, lang)}
    host = next((rejection for rejection in plan.rejected if rejection.criterion == "host_memory"), None)
    if host is not None:
        texts = {name: field_text("limit_bytes", getattr(host, name), lang) for name in ("needed", "had")}
        key = "choice.unfit_host" if plan.unfit.layout.offload == "none" else "choice.unfit_host_helped"
        return say(key, lang, **fields, **texts, offload=offload_text(plan.unfit.layout.offload, lang))
    peak, usable = plan.unfit.estimate["peak_memory_bytes"].mid, usable_bytes(plan.unfit)
    memory = next((rejection for rejection in plan.rejected if rejection.criterion == "gpu_memory"), None)
    safe = field_text("limit_bytes", memory.needed, lang) if memory else q.memory_text(peak)
    key = "choice.unfit_likely" if memory and peak <= usable else "choice.unfit"
    return say(key, lang, **fields, peak=q.memory_text(peak), safe=safe, limit=q.memory_text(usable))


def _given_text(plan: Plan, lang: Lang) -> str:
    """The headline for a given server on which no set-up exists at all, and why."""
    first = telling(plan.rejected)
    gap = needed_had_text(first.criterion, first.needed, first.had, lang, currency=plan.workload.currency)
    return given_text(plan, first, criterion_text(first.criterion, lang), gap, lang)


def telling(rejected: Sequence[Rejection]) -> Rejection:
    """Of what one server fails that which matters most: what the machine cannot do, then limits,
    then filters that it was given in spite of."""
    return min(rejected, key=lambda one: 2 if one.criterion in _FILTERS else 1 if one.criterion in _LIMITS else 0)


def given_text(plan: Plan, first: Rejection, criterion: str, gap: str, lang: Lang) -> str:
    """The same for every kind of plan: how it words a criterion and a gap is given."""
    if first.criterion == "max_nodes":
        return say("choice.unfit_count", lang, where=plan.given, had=q.plain(float(first.needed)), needed=q.plain(float(first.had)))
    key = "choice.unfit_limit" if first.criterion in _LIMITS else "choice.unfit_given"
    return say(key, lang, where=plan.given, criterion=criterion, gap=gap)


def verdict_key(verdict: Verdict) -> tuple[str, tuple[str, ...]]:
    """What a verdict on a server comes to, and the criteria that it hangs on: it does the job,
    could but was refused, is too small, misses a limit, or cannot run it at all."""
    failed = tuple(rejection.criterion for rejection in verdict.failed)
    if verdict.fits:
        return ("fits_refused" if failed else "fits"), failed
    if not failed:
        return "does_not_fit", failed
    first = telling(verdict.failed).criterion
    if first in _NEEDS:
        return "too_small", tuple(name for name in failed if name in _NEEDS)
    return ("not_as_asked", tuple(name for name in failed if name in _LIMITS)) if first in _LIMITS else ("does_not_fit", (first,))


def option_text(option: Option, workload: Any, lang: Lang) -> OptionText:
    """One option in words, in the currency of the workload."""
    return worded(
        option,
        workload,
        lang,
        renderer(lang, currency=workload.currency),
        headline=headline(option, lang, currency=workload.currency),
        outcome=outcome(option, workload, lang),
        setup=setup_text(option, workload, lang),
        speed=speed_text(option, lang),
        margin=margin_text(option, lang),
        memory=memory_terms(option, lang),
        time=time_terms(option, lang),
        data=data_path_lines(option.data_path, lang, currency=workload.currency),
    )


def worded(option: Option, workload: Any, lang: Lang, render: Callable[[Reason], str], **own: Any) -> OptionText:
    """An option of any kind of plan: its reasons and its price, and what the kind
    says in its own words."""
    reasons: dict[str, Any] = {name: tuple(map(render, getattr(option, name))) for name in ("why", "warnings")}
    own["setup"] = sentences([own["setup"], needed_text(option, lang)], lang)
    return OptionText(priced=priced_text(option, lang), cost=cost_terms(option, lang, currency=workload.currency), **reasons, **own)


def needed_text(option: Option, lang: Lang) -> str:
    """What the job takes of a card's memory and of the server's RAM, with what they have."""
    accelerator, known = option.accelerator, option.estimate
    works = accelerator and accelerator.name and getattr(option.layout, "device", "gpu") == "gpu"  # else it stands idle
    takes = {"gpu": ("peak_memory_bytes", accelerator.memory_bytes)} if works else {}
    takes["ram"] = ("host_memory_bytes", option.memory_bytes)
    parts = []
    for kind, (name, limit) in takes.items():
        if (need := known.get(name)) is not None:
            had = bool(limit and math.isfinite(limit))
            texts = {"need": q.memory_text(need.mid), **({"limit": q.memory_text(limit)} if had else {})}
            parts.append(say(f"choice.needs_{kind}" if had else f"choice.needs_{kind}_alone", lang, **texts))
    return say("choice.needs", lang, parts=join(parts, lang)) if parts else ""


def headline(option: Option, lang: Lang, *, currency: str = "usd") -> str:
    """What to rent, where, how to pay, and its price per hour (all nodes)."""
    return rent_text(option, cards_text(option, lang), lang, currency=currency)


def cards_text(option: Option, lang: Lang) -> str:
    """The accelerators of an option: "8 x H100 (80 GiB) each"."""
    key = "choice.cards" if option.nodes == 1 else "choice.cards_each"
    accelerator = option.accelerator
    return say(key, lang, count=accelerator.count_per_node, name=accelerator.name, memory=q.memory_text(accelerator.memory_bytes))


def outcome(option: Option, workload: Any, lang: Lang) -> str:
    """How long the job takes and what it costs, with 80 % intervals."""
    time, cost = option.estimate["total_time_s"], option.cost.total
    money = q.cost_texts(cost.mid, cost.low80, cost.high80, lang, currency=workload.currency)
    job = tuned_job_text(option.layout, workload.task, lang)
    return say(
        "choice.run" if is_priced(option) else "choice.run_unpriced",
        lang,
        method=job[:1].upper() + job[1:],
        model=workload.model,
        amount=trained_text(option, workload, lang),
        time=q.duration_text(time.mid, lang),
        low=q.duration_text(time.low80, lang),
        high=q.duration_text(time.high80, lang),
        cost=money[0],
        cost_low=money[1],
        cost_high=money[2],
        beyond=beyond_text(option, lang, currency=workload.currency, is_download=not workload.data_location),
    )


#: What is not the rent of the time that a job takes is told from this share of its cost, and from
#: this sum on [USD].
TOLD_SHARE, TOLD_USD = 0.2, 0.05


def beyond_text(option: Option, lang: Lang, *, currency: str, is_download: bool = False) -> str:
    """Why a job costs more than its time at the price of an hour: the largest charge beside the
    servers, or hours that are billed and not used; empty where neither is much of it.
    `is_download`: what is sent out is the trained model alone."""
    total, rent = option.cost.total_usd, option.cost.terms.get("servers_usd", 0.0)
    told = max(TOLD_SHARE * total, TOLD_USD)
    others = {name: usd for name, usd in option.cost.terms.items() if name != "servers_usd"}
    name = max(others, key=lambda one: others[one], default="")
    if name and others[name] >= told:
        if name == "egress_usd" and is_download:
            provider = q.provider_text(option.provider, lang)
            return say("choice.beyond_download", lang, money=q.money_text(others[name], currency), provider=provider)
        return say("choice.beyond_rent", lang, name=term_text(name, lang, kind="cost"), money=q.money_text(others[name], currency))
    used = option.cost.hourly_usd * option.estimate["total_time_s"].mid / 3600.0
    if rent - used >= told and option.cost.hourly_usd:
        return say("choice.beyond_time", lang, billed=q.duration_text(rent / option.cost.hourly_usd * 3600.0, lang))
    return ""


def job_text(method: str, task: str, lang: Lang) -> str:
    """What is done with the model: a fine-tuning method, or training from scratch."""
    return q.method_text("pretrain" if task == "train" and method == "full" else method, lang)


def tuned_job_text(layout: Layout, task: str, lang: Lang) -> str:
    """The same of a layout: what learns from preferences or rewards says which weights are trained,
    where not all are."""
    job, update = job_text(layout.method, task, lang), layout.update
    return say("choice.job_update", lang, job=job, update=q.method_text(update, lang)) if update not in ("", "full") else job


def setup_text(option: Option, workload: Any, lang: Lang) -> str:
    """How to lay the job out over the cards."""
    if trains_samples(option):
        return sample_setup_text(option, layout_text(option.layout, lang), lang)
    layout, seq_len = option.layout, workload.seq_len or option.facts.get("seq_len", "?")
    accumulated = say("choice.accumulated", lang, count=layout.grad_accum) if layout.grad_accum > 1 else say("choice.not_accumulated", lang)
    return say(
        "choice.setup",
        lang,
        layout=layout_text(layout, lang),
        micro_batch=layout.micro_batch,
        seq_len=seq_len,
        grad_accum=accumulated,
        recompute=say_or(f"choice.recompute_{layout.recompute}", lang, layout.recompute),
        precision=layout.precision,
    )


def layout_text(layout: Layout, lang: Lang) -> str:
    """Parallelism, sharding and offload in words: "8-way data parallel, ZeRO-3"."""
    counts = {name: getattr(layout, name) for name in ("data", "tensor", "pipeline", "context", "expert")}
    parts = [say(f"choice.layout_{name}", lang, count=count) for name, count in counts.items() if count > 1]
    if not parts:
        parts = [say("choice.layout_single", lang)]
    if layout.sharding not in UNSHARDED:
        parts.append(sharding_text(layout.sharding, lang))
    if layout.offload != "none":
        parts.append(offload_text(layout.offload, lang))
    if layout.rollout:
        parts.append(say(f"choice.rollout_{layout.rollout}", lang))
    return join(parts, lang)


def speed_text(option: Option, lang: Lang) -> str:
    """Tokens per second, step time and the share of peak arithmetic."""
    if trains_samples(option):
        return sample_speed_text(option, lang)
    estimate = option.estimate
    rate = q.plain(estimate["tokens_per_s"].mid)
    return say("choice.speed", lang, rate=rate, step=q.duration_text(estimate["step_s"].mid, lang), mfu=q.percent_text(estimate["mfu"].mid))


def margin_text(option: Option, lang: Lang) -> str:
    """How much memory each card has to spare, and where the 95 % interval ends."""
    peak, limit = option.estimate["peak_memory_bytes"], usable_bytes(option)
    share, high = q.percent_text(peak.mid / limit), q.memory_text(peak.high95)
    if peak.high95 > limit:
        return say("choice.no_margin", lang, share=share, high=high, limit=q.memory_text(limit))
    return say("choice.margin", lang, margin=q.memory_text(limit - peak.mid), share=share, high=high)


def usable_bytes(option: Option) -> float:
    """What a card can give to the job: the limit that the search used, or the card's memory where
    it is not recorded."""
    return float(option.facts.get("capacity_bytes") or option.accelerator.memory_bytes)


def memory_terms(option: Option, lang: Lang) -> tuple[Term, ...]:
    """Peak memory per card by term, largest first."""
    return terms(option.memory_terms, lang, q.memory_text)


def time_terms(option: Option, lang: Lang) -> tuple[Term, ...]:
    """Time of a step by term, largest first."""
    return terms(option.time_terms, lang, lambda value: q.duration_text(value, lang), named=lambda name: term_text(name, lang, kind="time"))


def cost_terms(option: Option, lang: Lang, *, currency: str = "usd") -> tuple[Term, ...]:
    """Money by term, largest first; nothing where the largest is not known."""
    if not is_priced(option):
        return ()
    return terms(option.cost.terms, lang, lambda value: q.money_text(value, currency))


def terms(
    values: Mapping[str, float], lang: Lang, text: Callable[[float], str], *, named: Callable[[str], str] | None = None
) -> tuple[Term, ...]:
    """The parts of a sum, largest first; `named`: what a part is called, where it is not
    by its name alone."""
    total = sum(value for value in values.values() if value > 0)  # a credit is a share of what it is taken off
    ordered = sorted(((value, name) for name, value in values.items() if value), key=lambda term: (-abs(term[0]), term[1]))
    label = named or (lambda name: term_text(name, lang))
    return tuple(_term(name, label(name), value, value / total, text(value), lang) for value, name in ordered)


def _term(name: str, label: str, value: float, share: float, text: str, lang: Lang) -> Term:
    line = say("terms.line", lang, name=label, value=text, share=q.percent_text(share))
    return Term(name=name, label=label, value=value, share=share, text=line)


def considered_text(plan: Plan, lang: Lang) -> str:
    """How much was looked at."""
    counts = plan.counts
    return say(
        "choice.considered",
        lang,
        offers=q.counted("offer", counts.offers, lang),
        servers=q.counted("server", counts.servers, lang),
        covered=q.count_text(counts.covered, lang),
    )


def assumption_text(assumption: Assumption, lang: Lang, currency: str = "usd") -> str:
    """One default that was taken, and why."""
    value = field_text(assumption.field, assumption.value, lang)
    return assumed_text(assumption.field, value, renderer(lang, currency=currency)(assumption.why), lang)


def rejection_lines(rejection: Rejection, lang: Lang, *, currency: str = "usd") -> list[str]:
    """A criterion with how many offers it refused, and its nearest miss with the least change that
    would let it pass."""
    criterion, render = criterion_text(rejection.criterion, lang), renderer(lang, currency=currency)
    return refusal_lines(rejection, criterion, render, lang, currency=currency)


def refusal_lines(
    rejection: Rejection,
    criterion: str,
    render: Callable[[Reason], str],
    lang: Lang,
    *,
    currency: str,
    gap: Callable[..., str] = needed_had_text,
    silent: frozenset[str] = NO_NEAR_MISS,
) -> list[str]:
    """The same for every kind of plan: how it words a criterion, a change and a gap is given; of
    `silent` criteria no miss is told."""
    count, key = q.counted("offer", rejection.count, lang), "rejections.line"
    key += "_alone" if 0 < rejection.alone < rejection.count else ""
    lines = [say(key, lang, criterion=criterion, count=count, alone=f"{rejection.alone:,}")]
    if (miss := rejection.nearest) is not None and rejection.criterion not in silent:
        lines.append(missed_text(miss, gap(rejection.criterion, miss.needed, miss.had, lang, currency=currency), render, lang))
    return lines


def nearest_text(criterion: str, miss: NearMiss, lang: Lang, *, currency: str = "usd") -> str:
    """The offer that came nearest to passing, and what would let it pass."""
    gap = needed_had_text(criterion, miss.needed, miss.had, lang, currency=currency)
    return missed_text(miss, gap, renderer(lang, currency=currency), lang)


def missed_text(miss: NearMiss, gap: str, render: Callable[[Reason], str], lang: Lang) -> str:
    """The same for every kind of plan: how it words a gap and a change is given."""
    where = where_text({"provider": miss.provider, "instance_type": miss.instance_type}, lang)
    nearest = say("rejections.nearest", lang, where=where, nodes=q.counted("node", miss.nodes, lang), needed_had=gap)
    return sentences([nearest, *_remedy(miss, render, lang)], lang)


def _remedy(miss: NearMiss, render: Callable[[Reason], str], lang: Lang) -> list[str]:
    """What would let it pass; a change that alone would not do is not promised."""
    if miss.also:
        return [say("rejections.also", lang, criteria=criteria_text(miss.also, lang))]
    told = [render(miss.change)]
    return [*told, say("rejections.unknown", lang, criteria=criteria_text(miss.unknown, lang))] if miss.unknown else told


def blame_text(plan: Plan, lang: Lang) -> str:
    """Which criteria together exclude every offer, the user's own first; empty where
    something is feasible."""
    if plan.unfit is not None or plan.given:
        return ""
    return blamed([_told(group, plan.workload) for group in plan.blame], lang)


def blamed(groups: Iterable[tuple[str, ...]], lang: Lang) -> str:
    """Sets of criteria, each of which excludes everything, as one sentence."""
    sets = smallest_sets(groups)
    alone = all(len(group) == 1 for group in sets)
    key = "rejections.blame_together" if not alone else "rejections.blame" if len(sets) == 1 else "rejections.blame_each"
    return say(key, lang, criteria=either_text(sets, lang)) if sets else ""


def smallest_sets(groups: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Sets without those that hold another: such a one is that other with more words."""
    given = list(dict.fromkeys(groups))
    return [group for group in given if not any(set(other) < set(group) for other in given)]


def either_text(sets: Sequence[tuple[str, ...]], lang: Lang) -> str:
    """Sets of criteria in words: what belongs together, and what stands for itself."""
    names = [_all_of([criteria_text((name,), lang) for name in group], lang) for group in sets]
    return join(names, lang) if all(len(group) == 1 for group in sets) else say("rejections.or", lang).join(names)


def _all_of(names: Sequence[str], lang: Lang) -> str:
    """ "A, B and C"."""
    comma, last = ("、", "和") if lang == "zh" else (", ", " and ")
    return last.join(filter(None, (comma.join(names[:-1]), names[-1])))


def _told(group: tuple[str, ...], workload: Any) -> tuple[str, ...]:
    """The criteria of a set that the user can do something about, wishes before memory; all of them
    where there is none."""
    wishes = [name for name in group if name not in _NOT_THE_USERS and getattr(workload, _WISHES.get(name, name), None)]
    needs = [name for name in group if name in _NEEDS]
    return tuple(wishes + needs) or group


def faster_lines(plan: Plan, lang: Lang) -> tuple[str, ...]:
    """Points of the Pareto front, each at least a fifth faster than the one before,
    for what they cost."""
    if plan.best is None:
        return ()
    fastest, shown = plan.best.estimate["total_time_s"].mid, []
    for option in plan.pareto:
        if option.estimate["total_time_s"].mid <= fastest * 0.8:
            fastest = option.estimate["total_time_s"].mid
            shown.append(option)
    return tuple(_faster_line(option, plan, lang) for option in shown[:3])


def _faster_line(option: Option, plan: Plan, lang: Lang) -> str:
    where = where_text({"provider": option.provider, "instance_type": option.instance_type, "nodes": option.nodes}, lang)
    time = q.duration_text(option.estimate["total_time_s"].mid, lang)
    best = plan.best.cost.total_usd if plan.best else option.cost.total_usd
    cost = q.money_text(option.cost.total_usd, plan.workload.currency)
    return say("choice.faster_for_more", lang, where=where, time=time, cost=cost, change=change_text(option.cost.total_usd / best, lang))
