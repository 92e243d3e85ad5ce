"""Real evaluations that explanations ask search for: a setup on named servers, and what one copy of
a job needs on one card."""

from __future__ import annotations

import dataclasses
import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.messages import join, say
from rightfit.explain.reasons import criterion_text, offload_text
from rightfit.messages import Lang
from rightfit.recent import Recent
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market import Catalog, OfferTable
    from rightfit.search.answer import Option, Plan
    from rightfit.workload import Workload


#: A service of which nothing but its model and hardware is told: few requests, each of which may
#: take long.
UNHURRIED: Mapping[str, str] = {"latency": "10min", "rate": "1/h"}

# ---- How a named setup does on named servers: what rules and scenarios that name a
# server are judged by.


@dataclass(frozen=True, slots=True)
class SetupOutcome:
    """One server evaluated for a job.

    `fits`: with the cards alone, or with `helps` (what is moved to host RAM); None where it could
    not be evaluated, `why` says so. `peak_bytes` of `limit_bytes` per card with those helps;
    `plain_bytes` what a card would need without any. `host_needed_bytes` of `host_bytes` is what
    the helps ask of the host (NaN: the provider does not publish it).
    """

    server: str
    fits: bool | None
    peak_bytes: float = 0.0
    limit_bytes: float = 0.0
    helps: tuple[str, ...] = ()
    plain_bytes: float = 0.0
    host_needed_bytes: float = 0.0
    host_bytes: float = math.nan
    why: str = ""
    why_zh: str = ""


def outcomes_text(outcomes: Sequence[SetupOutcome], lang: Lang) -> str:
    """All outcomes in one line."""
    return ("；" if lang == "zh" else "; ").join(outcome_text(outcome, lang) for outcome in outcomes)


def outcome_text(outcome: SetupOutcome, lang: Lang) -> str:
    """One outcome: fits or not, at what peak, what makes it fit or what is missing."""
    if outcome.fits is None:
        return say(
            "rule_words.fits_unknown", lang, where=outcome.server, why=(outcome.why_zh or outcome.why) if lang == "zh" else outcome.why
        )
    key = "fits" if outcome.fits else "fits_not"
    if not outcome.fits and outcome.plain_bytes <= outcome.limit_bytes:
        key = "fits_not_load" if outcome.host_needed_bytes <= outcome.host_bytes else "fits_not_host"
    elif outcome.helps:
        key += "_helped" if math.isfinite(outcome.host_bytes) else "_helped_host_unknown"
    if outcome.fits and outcome.helps and outcome.plain_bytes <= outcome.limit_bytes:
        key = "fits_helped_tight" if math.isfinite(outcome.host_bytes) else "fits_tight_host_unknown"
    names = ("peak", "limit", "plain", "host_needed", "host")
    fields = {name: q.memory_text(getattr(outcome, f"{name}_bytes")) for name in names}
    return say(f"rule_words.{key}", lang, where=outcome.server, helps=offload_text("+".join(outcome.helps), lang), **fields)


# Any server with one card of bf16 and FlashAttention does: whether the job fits it does not matter
# for what it needs.
REFERENCE_SERVER = "gcp/a2-ultragpu-1g"
_LEAN: Mapping[str, Any] = {
    "micro_batch": 1,
    "recompute": "full",
    "offload": "none",
    "sharding": "none",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
}
#: What changes from question to question and not what a job needs: by when, for how much, where,
#: on how many servers.
_OPEN: Mapping[str, Any] = {
    **dict.fromkeys(("deadline_s", "budget_usd", "budget", "confidence", "office_hours", "max_nodes")),
    **dict.fromkeys(("cloud", "region", "country", "residency", "sellers", "quota", "purchase", "gpu"), ()),
    "budget_per_month": False,
    "objective": "cost",
    "currency": "usd",
}
#: A job needs the same memory for little data and for much; of a data set it may be the
#: lengths that count.
_AMOUNT = 1e8
_AMOUNTS = ("data_tokens", "data_samples", "data_bytes")
#: Needs that were worked out, in memory of their catalog: the next question about a job is mostly
#: about its money or its time.
_needs: weakref.WeakKeyDictionary[Catalog, Recent[Workload, float]] = weakref.WeakKeyDictionary()
_MOST_NEEDS = 1024
_bests: weakref.WeakKeyDictionary[Catalog, Recent[Workload, tuple[Option | None]]] = weakref.WeakKeyDictionary()
_MOST_BESTS = 64


def best_of(workload: Workload, catalog: Catalog | None = None) -> Option | None:
    """The option that leads the plan of a workload, None where there is none; remembered, because
    the statements of one text are tried on the same few jobs."""
    from rightfit.planner.plan import plan
    from rightfit.search.offers import open_priced

    market = catalog or open_priced()
    known = _bests.setdefault(market, Recent(_MOST_BESTS, size_of=lambda _: 1))
    if (found := known.get(workload)) is None:
        found = (plan(workload, catalog=market, top=1).best,)
        known.put(workload, found)
    return found[0]


def best_for(wishes: Mapping[str, Any], catalog: Catalog) -> Option | None:
    """`best_of` the workload of some wishes; None too where they make none, or none that can be
    planned."""
    from rightfit.workload.model import Workload

    try:
        return best_of(Workload(**wishes), catalog)
    except RightfitError:
        return None


def outcome_of(wishes: Mapping[str, Any], server: str, *, nodes: int = 1, catalog: Catalog | None = None) -> SetupOutcome:
    """A workload on one named server: does it fit by the cards alone, if not with help of the
    host's RAM, and at what peak."""
    from rightfit.families.registry import honours_of
    from rightfit.planner.given import estimate_one
    from rightfit.workload import Workload

    bare_wish: Mapping[str, Any] = (
        {"offload": "none"} if "offload" in honours_of(Workload(**wishes)).options else {}
    )  # nothing to offload without a network
    try:
        plans = [estimate_one(Workload(**{**wishes, **more}), on=server, nodes=nodes, catalog=catalog) for more in (bare_wish, {})]
    except RightfitError as error:
        return SetupOutcome(server, fits=None, why=error.text("en"), why_zh=error.text("zh"))
    plain, free = plans
    bare = plain.best or plain.unfit
    if bare is None and (short := next((one for one in plain.rejected if one.criterion == "gpu_memory"), None)) is not None:
        needed, had = float(short.needed), float(short.had)  # what has one way to run is refused without an option
        return SetupOutcome(server, fits=False, peak_bytes=needed, limit_bytes=had, plain_bytes=needed)
    if bare is None:
        return SetupOutcome(server, fits=None, why=_why_not(plain, "en"), why_zh=_why_not(plain, "zh"))
    return _outcome(server, bare, None if plain.best else free)


def _why_not(plan: Plan, lang: Lang) -> str:
    """What refused a job before its memory was looked at."""
    return join([criterion_text(one.criterion, lang) for one in plan.rejected], lang)


def _outcome(server: str, bare: Option, free: Plan | None) -> SetupOutcome:
    """`bare`: the option without offloading; `free`: the plan with it, where the
    bare one does not fit."""
    helped = (free.best or free.unfit) if free else None
    lacks_host_only = bare.estimate["peak_memory_bytes"].mid <= float(bare.facts["capacity_bytes"])
    shown = bare if helped is None or (lacks_host_only and free and not free.best) else helped
    return SetupOutcome(
        server,
        # what a host has that publishes no memory nobody knows: the cards hold it
        fits=free is None or free.best is not None or (lacks_host_only and math.isnan(shown.memory_bytes)),
        peak_bytes=shown.estimate["peak_memory_bytes"].mid,
        limit_bytes=float(bare.facts["capacity_bytes"]),
        helps=tuple(part for part in shown.layout.offload.split("+") if part != "none"),
        plain_bytes=bare.estimate["peak_memory_bytes"].mid,
        host_needed_bytes=shown.estimate["host_memory_bytes"].mid,
        host_bytes=shown.memory_bytes,
    )


def need_on_one_card(workload: Workload, *, catalog: Catalog | None = None) -> float:
    """Memory that one copy of the job needs, as if on one card large enough: one sequence at a
    time, gradient checkpointing, nothing offloaded [bytes].

    NaN where the workload cannot be evaluated that way (for example a method that the
    reference card cannot run).
    """
    from rightfit.planner.plan import default_catalog

    catalog = catalog or default_catalog()
    known = _needs.setdefault(catalog, Recent(_MOST_NEEDS, size_of=lambda _: 1))
    try:
        bare = bare_job(workload)
    except RightfitError:  # no network: nothing of what makes a job lean can be said of it
        return math.nan
    need = known.get(bare)
    if need is None:
        need = _need_of(bare, catalog)
        known.put(bare, need)
    return need


def bare_job(workload: Workload) -> Workload:
    """The job alone, without what was wished of its time, money and place, in the set-up that
    needs least memory."""
    amounts = {name: _AMOUNT for name in _AMOUNTS if getattr(workload, name) is not None}
    data = {"data": None, **amounts} if amounts and workload.data_unit != "dataset" else {}
    assumed = tuple(name for name in workload.assumed if name not in _OPEN)
    return workload.with_changes(**_LEAN).settled(**_OPEN, **data, assumed=assumed)


def need_with(workload: Workload, *, catalog: Catalog, **given: Any) -> float:
    """The same with some of its set-up given, such as a micro-batch [bytes]; NaN where it cannot be
    evaluated."""
    return _need_of(bare_job(workload).with_changes(**given), catalog)


def _need_of(bare: Workload, catalog: Catalog) -> float:
    from rightfit.planner.given import figures_of_one

    try:
        option = figures_of_one(bare, on=REFERENCE_SERVER, catalog=catalog)
    except RightfitError:
        return math.nan
    return option.estimate["peak_memory_bytes"].mid if option else math.nan


# ---- How much the catalog's own prices save on one server: what rules of thumb about spot and
# reserved servers are held against.

_COMMITMENTS = ("reserved-1y", "reserved-3y", "savings-plan-1y", "subscription-1m", "subscription-1y", "subscription-3y", "subscription-5y")


def saving_fractions(catalog: Catalog, *, provider: str, instance_type: str, region: str) -> tuple[float, float]:
    """What spot and the deepest commitment save of the on-demand price, as fractions; NaN where
    a price is missing.

    Prices of the same region are compared; where the region lacks one, the cheapest of all
    regions stands for both.
    """
    offers = _offers_of(catalog, provider, instance_type)
    if offers is None:
        return math.nan, math.nan
    here = np.asarray([offers.regions[index] == region for index in offers.region_index], dtype=np.bool_)
    return _saving(offers, here, ("spot",)), _saving(offers, here, _COMMITMENTS)


def _offers_of(catalog: Catalog, provider: str, instance_type: str) -> OfferTable | None:
    table = catalog.all_offers(has_accelerator=True)
    names = zip(table.servers.provider, table.servers.instance_type, strict=True)
    server = next((row for row, name in enumerate(names) if name == (provider, instance_type)), None)
    return None if server is None else table.take((table.server_index == server) & ~table.is_quarantined)


def _saving(offers: OfferTable, here: np.ndarray, modes: tuple[str, ...]) -> float:
    for rows in (here, np.ones_like(here)):
        full, less = _lowest(offers, rows, ("on-demand",)), _lowest(offers, rows, modes)
        if math.isfinite(full) and math.isfinite(less):
            return 1 - less / full
    return math.nan


def _lowest(offers: OfferTable, rows: np.ndarray, modes: tuple[str, ...]) -> float:
    from rightfit.market import PURCHASE_CODES

    wanted = rows & np.isin(offers.purchase_index, [PURCHASE_CODES[mode] for mode in modes])
    prices = offers.price_usd_per_h[wanted]
    return float(np.nanmin(prices)) if prices.size and np.isfinite(prices).any() else math.nan


# ---- What would let a smaller card do: each lever tried for real on the same reference card, with
# its predicted effect on memory and speed.

SHARDED_SERVER = "gcp/a2-ultragpu-8g"
#: The same card as often as a machine may have it.
REFERENCE_SERVERS: Mapping[int, str] = {1: REFERENCE_SERVER, 2: "gcp/a2-ultragpu-2g", 4: "gcp/a2-ultragpu-4g", 8: SHARDED_SERVER}
_WORTHWHILE = 0.95
_SHORTEST_SEQUENCE = 256
_USABLE = 0.95


@dataclass(frozen=True, slots=True)
class Effect:
    """One lever and what it does to a card: the peak with and without it, how much slower a token
    gets, and the smallest card that holds the rest.

    `card_bytes` is 0 where no card of the catalog does. `cards` is over how many the job is split.
    """

    action: str
    peak_bytes: float
    old_peak_bytes: float
    slowdown: float
    card_bytes: float
    cards: int = 1
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def action_text(self, lang: Lang) -> str:
        """What to do."""
        names = {name: q.method_text(value, lang) if name in ("old", "method") else value for name, value in self.fields.items()}
        return say(f"advice.{self.action}", lang, **names)

    def speed_text(self, lang: Lang) -> str:
        """What it does to speed."""
        return say("advice.slower" if self.slowdown > 1.02 else "advice.as_fast", lang, factor=q.plain(self.slowdown, 3))

    def text(self, lang: Lang) -> str:
        """One line: what to do, what it does to memory and speed, which card would then do."""
        fields = {
            "action": self.action_text(lang),
            "peak": q.memory_text(self.peak_bytes),
            "old_peak": q.memory_text(self.old_peak_bytes),
            "less": q.percent_text(1 - self.peak_bytes / self.old_peak_bytes),
            "speed": self.speed_text(lang),
            "card": q.memory_text(self.card_bytes),
            "count": self.cards,
        }
        return say("advice.effect" if self.card_bytes else "advice.effect_no_card", lang, **fields)


def set_up(workload: Workload, server: str, *, cards: int = 1, catalog: Catalog | None = None) -> Option | None:
    """A job as it is told, on cards that are large enough: a micro-batch of one and no
    recomputation where nothing is said; all of the model on several cards where it is trained
    whole."""
    is_whole = cards > 1 and (workload.method or "full") == "full"
    told = {
        "micro_batch": workload.micro_batch or (1 if workload.global_batch is None else max(1, int(workload.global_batch) // cards)),
        "recompute": workload.recompute or "none",
        "sharding": workload.sharding or ("zero3" if is_whole else "none"),
    }
    try:
        return _tried(workload, {**_LEAN, **_UNLIMITED, **told}, server, catalog)
    except RightfitError:
        return None


def advise(
    plan: Plan, *, option: Option | None = None, server: str = REFERENCE_SERVER, is_lean: bool = False, catalog: Catalog | None = None
) -> list[Effect]:
    """The levers that lower the memory of one card for this plan's best option (or `option`),
    largest saving first; empty without an option. `server`: where they are tried; `is_lean`: also
    what keeps the method, together."""
    chosen = option or plan.best or plan.unfit
    if chosen is None:
        return []
    sizes = card_sizes(catalog)
    as_planned = _as_planned(chosen) | ({} if server == REFERENCE_SERVER else {"sharding": chosen.layout.sharding})
    base = _tried(plan.workload, as_planned, server, catalog)
    if base is None:
        return []
    found = []
    for action, changes, place, fields in (*levers(plan.workload, chosen), *(_lean_levers(chosen) if is_lean else ())):
        option_ = _tried(plan.workload, {**as_planned, **changes}, server if place == REFERENCE_SERVER else place, catalog)
        if option_ is not None and _peak(option_) < _WORTHWHILE * _peak(base):
            found.append(_effect(action, option_, base, sizes, fields))
    return sorted(found, key=lambda effect: effect.peak_bytes)


def levers(workload: Any, option: Option) -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """What can be tried: (action, changes of the workload, server to try it on,
    fields of its text)."""
    layout = option.layout
    if layout.micro_batch > 1:
        yield "accumulate", {"micro_batch": 1}, REFERENCE_SERVER, {"micro_batch": layout.micro_batch}
    if layout.recompute != "full":
        yield "recompute", {"recompute": "full"}, REFERENCE_SERVER, {}
    if workload.task == "finetune":
        for method in _lighter(layout.method):
            yield method, {"method": method, "optimizer": None}, REFERENCE_SERVER, {"old": layout.method}
    if layout.method == "full" and workload.optimizer in (None, "adamw"):
        yield "optimizer_8bit", {"optimizer": "adamw-8bit"}, REFERENCE_SERVER, {}
        yield "offload", {"offload": "optimizer"}, REFERENCE_SERVER, {}
    lightest = _lighter(layout.method)[-1:] if workload.task == "finetune" else ()
    lean: dict[str, Any] = {"micro_batch": 1, "recompute": "full"} | ({"method": lightest[0], "optimizer": None} if lightest else {})
    yield "together", lean, REFERENCE_SERVER, {"method": lightest[0] if lightest else layout.method}
    yield "shard", {"sharding": "zero3"}, SHARDED_SERVER, {"count": 8}
    seq_len = int(workload.seq_len or option.facts.get("seq_len") or 0)
    if seq_len // 2 >= _SHORTEST_SEQUENCE:
        yield "shorter", {"seq_len": seq_len // 2}, REFERENCE_SERVER, {"seq_len": seq_len // 2, "old_seq_len": seq_len}


def _lean_levers(option: Option) -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """All that saves memory without another method, at once."""
    lean: dict[str, Any] = {"micro_batch": 1, "recompute": "full"}
    if option.layout.micro_batch > 1 and option.layout.recompute != "full":
        yield "lean", lean, REFERENCE_SERVER, {}
    if option.layout.method == "full":
        yield "lean_offload", {**lean, "offload": "optimizer"}, REFERENCE_SERVER, {}


def _lighter(method: str) -> tuple[str, ...]:
    return {"full": ("lora", "qlora"), "lora": ("qlora",), "dora": ("qlora",), "galore": ("lora", "qlora")}.get(method, ())


def _as_planned(option: Option) -> dict[str, Any]:
    """The option's own micro-batch and recomputation on one card, nothing sharded or
    offloaded, no limits."""
    return {
        "micro_batch": option.layout.micro_batch,
        "recompute": option.layout.recompute,
        "offload": "none",
        "sharding": "none",
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        **_UNLIMITED,
    }


#: No limit of time, money or place, nor a card.
_UNLIMITED: Mapping[str, Any] = {
    **dict.fromkeys(("deadline", "deadline_s", "budget_usd", "budget", "num_gpus", "max_nodes")),
    **dict.fromkeys(("gpu", "cloud", "region", "country", "residency", "purchase"), ()),
}


def _tried(workload: Any, changes: Mapping[str, Any], server: str, catalog: Catalog | None) -> Option | None:
    from rightfit.planner.given import estimate_one

    try:
        plan = estimate_one(workload.with_changes(**changes), on=server, catalog=catalog)
    except RightfitError:
        return None  # the lever does not go with something that the user fixed
    return plan.best or plan.unfit


def _effect(action: str, tried: Option, base: Option, sizes: tuple[float, ...], fields: Mapping[str, Any]) -> Effect:
    cards = tried.num_accelerators
    per_card = [_rate(option) / option.num_accelerators for option in (base, tried)]
    card = next((size for size in sizes if size * _USABLE >= _peak(tried)), 0.0)
    return Effect(action, _peak(tried), _peak(base), per_card[0] / per_card[1], card, cards, fields)


def _rate(option: Option) -> float:
    """Tokens a second, or samples where those are trained on."""
    return option.estimate["tokens_per_s" if "tokens_per_s" in option.estimate else "samples_per_s"].mid


def _peak(option: Option) -> float:
    return option.estimate["peak_memory_bytes"].mid


def card_sizes(catalog: Catalog | None = None) -> tuple[float, ...]:
    """Memory of the cards that can be rented, ascending."""
    from rightfit.search.offers import open_priced

    servers = (catalog or open_priced()).servers(has_accelerator=True)
    known = zip(servers.accelerator_memory_bytes.tolist(), servers.num_accelerators.tolist(), servers.not_recommended, strict=True)
    return tuple(sorted({size for size, count, refused in known if count >= 1 and not refused and math.isfinite(size)}))


def cost_text(option: Option, currency: str = "usd") -> dict[Lang, str]:
    money = q.money_text(option.cost.total_usd, currency)
    monthly = hasattr(option.cost, "monthly_usd") and "total_time_s" not in option.estimate  # a batch job ends
    return {"en": f"{money} per month", "zh": f"每月 {money}"} if monthly else {"en": money, "zh": money}


def where_text(option: Option) -> str:
    return f"{option.nodes} x {option.provider}/{option.instance_type}" if option.nodes > 1 else f"{option.provider}/{option.instance_type}"
