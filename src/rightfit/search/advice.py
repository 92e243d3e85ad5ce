"""What other offers of the same market would save: a later deadline, spot."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.devices import is_unreleased, stands_for
from rightfit.facts.engine_releases import is_served
from rightfit.market import names
from rightfit.market.offers import NO_PRICE, RETIRED, events_of, today
from rightfit.market.sellers import ON_DEMAND, is_seldom_free, most_at_once, none_free, starts, tier_of
from rightfit.physics.columns import Array, once
from rightfit.search import sense
from rightfit.search.answer import Assumption, Option, Reason, Section
from rightfit.search.constraints import SearchResult
from rightfit.search.criteria import CRITERIA
from rightfit.search.market import SPOT
from rightfit.search.offers import hearsay
from rightfit.search.sense import MAINLAND

if TYPE_CHECKING:
    from rightfit.market import OfferTable
    from rightfit.workload import Workload


WORTHWHILE = 0.95


def cheapest_of(search_result: SearchResult, mask: NDArray[np.bool_], *, anywhere: bool = False) -> tuple[int, int] | None:
    """The cheapest row of a mask; one with a price that nobody asks now only where there is no
    other, one on the other side of the border only where nothing on this one does it, or
    `anywhere`."""
    mask = mask if anywhere else mask & on_this_side(search_result)[:, None]
    usd = np.where(mask, search_result.bill.total_usd, np.inf)
    asked = np.where(hearsay(search_result.market)[:, None], np.inf, usd)
    usd = asked if np.isfinite(asked).any() else usd
    flat = int(np.argmin(usd)) if usd.size else 0
    at = divmod(flat, usd.shape[1])
    return at if usd.size and np.isfinite(usd[at]) else None


def cheapest(search_result: SearchResult, mask: NDArray[np.bool_], objective: str = "cost") -> tuple[int, int] | None:
    """The cheapest row of a mask; the fastest where time is asked for."""
    if objective != "time":
        return cheapest_of(search_result, mask)
    seconds = np.where(mask & on_this_side(search_result)[:, None], search_result.bill.total_s, np.inf)
    at = divmod(int(np.argmin(seconds)), seconds.shape[1]) if seconds.size else (0, 0)
    return at if seconds.size and np.isfinite(seconds[at]) else None


def effect_of(search_result: SearchResult, cell: tuple[int, int], best: Option | None) -> dict[str, object]:
    """What the offer of a row costs and takes, and what it saves against the best option."""
    offer = search_result.market.offers.row(cell[0])
    server = int(search_result.market.offers.server_index[cell[0]])
    usd = float(search_result.bill.total_usd[cell])
    return {
        "provider": offer["provider"],
        "instance_type": offer["instance_type"],
        "nodes": search_result.nodes(cell),
        "accelerator": search_result.market.offers.servers.accelerator_name[server],
        "total_usd": usd,
        "total_time_s": float(search_result.bill.total_s[cell]),
        "saving_usd": best.cost.total_usd - usd if best else None,
    }


def relaxed(search_result: SearchResult, best: Option | None) -> Iterable[Reason]:
    """What a later deadline would save."""
    deadline = 1 << CRITERIA.index("deadline")
    if best is None or search_result.filters.deadline_s is None:
        return
    at = cheapest_of(search_result, (search_result.bits & ~deadline) == 0)
    if at is not None and search_result.bill.total_usd[at] < WORTHWHILE * best.cost.total_usd:
        effect = effect_of(search_result, at, best)
        yield Reason("relax_deadline", {**effect, "deadline_s": float(search_result.failures.had["deadline"][at])})


def cheaper_spot(search_result: SearchResult, best: Option | None) -> Iterable[Reason]:
    """What spot would save where it was not asked for."""
    purchase = 1 << CRITERIA.index("purchase")
    if best is None or "spot" in search_result.filters.purchases:
        return
    is_spot = (search_result.market.offers.purchase_index == SPOT)[:, None]
    at = cheapest_of(search_result, ((search_result.bits & ~purchase) == 0) & is_spot)
    if at is not None and search_result.bill.total_usd[at] < WORTHWHILE * best.cost.total_usd:
        yield Reason("spot", effect_of(search_result, at, best))


# ---- Wishes that mean mainland China: yuan, or a cloud of there. Its regions come first, and what
# has no public price is said by name. Other wishes that name no place go there last: renting there
# takes a registered account, and serving from there a licence.

YUAN = "cny"
MOST_NAMES = 3


def means_mainland(search_result: SearchResult) -> bool:
    """Whether the wish is in yuan or names a cloud of mainland China, and says
    nothing of a place."""
    wanted = search_result.filters
    if wanted.regions or wanted.countries or search_result.workload.country or search_result.workload.region:
        return False
    return search_result.workload.currency == YUAN or bool(set(wanted.clouds) & set(names.names_data()["mainland"]["clouds"]))


def _is_named(search_result: SearchResult) -> bool:
    """Whether the wish names mainland China as its place."""
    wanted = search_result.filters
    return MAINLAND in {*(wanted.countries or ()), *(search_result.workload.country or ())}


def elsewhere(search_result: SearchResult) -> NDArray[np.bool_]:
    """Offers (O,) on the wrong side of the border of mainland China: outside where the wish means
    it, inside where it does not and names no place. None are where a place is named; servers of
    one's own are at home."""
    offers, wanted = search_result.market.offers, search_result.filters
    home = np.array([country == MAINLAND for country in offers.region_countries], dtype=np.bool_)[offers.region_index]
    if means_mainland(search_result):
        return ~home & ~_own(offers)
    return home & (not (wanted.regions or wanted.countries or wanted.clouds or wanted.sellers.named))


def on_this_side(search_result: SearchResult) -> NDArray[np.bool_]:
    """Offers (O,) that advice may name: all, but for those elsewhere where another does it."""
    away = elsewhere(search_result)
    does_it = (search_result.bits == 0).any(axis=1)
    return ~away if (does_it & ~away).any() else np.ones_like(away)


def _own(offers: OfferTable) -> NDArray[np.bool_]:
    extra = names.names_data()["extra_providers"]
    return np.array([name in extra for name in offers.servers.provider], dtype=np.bool_)[offers.server_index]


def mainland_first(search_result: SearchResult, best: Option | None) -> Reason | None:
    """That a wish in yuan, or one that names a cloud of there, puts mainland China first, with the
    cheapest of elsewhere; None where it does not decide."""
    if best is None or best.facts.get("country") != MAINLAND or not means_mainland(search_result):
        return None
    at = cheapest_of(search_result, (search_result.bits == 0) & elsewhere(search_result)[:, None], anywhere=True)
    if at is None or float(search_result.bill.total_usd[at]) >= best.cost.total_usd:
        return None
    effect = effect_of(search_result, at, best)
    server = f"{effect['provider']}/{effect['instance_type']}"
    region = search_result.market.offers.row(at[0])["region"]
    return Reason("mainland_first" + month_of(search_result), {"server": server, "region": region, "total_usd": effect["total_usd"]})


def unpriced(search_result: SearchResult) -> tuple[Reason, ...]:
    """The accelerators of the wish, or of the clouds that it means, that are on offer and have no
    public price: ask, and put the quote into a price book."""
    wanted, servers = search_result.filters, search_result.market.offers.servers
    clouds = set(wanted.clouds)
    if means_mainland(search_result) or _is_named(search_result):
        clouds |= set(names.names_data()["mainland"]["clouds"]) if not clouds else set()
    if not (wanted.gpus or clouds):
        return ()
    found: dict[str, tuple[float, str, str]] = {}
    for row, reason in enumerate(servers.not_recommended):
        card, provider = servers.accelerator_name[row], servers.provider[row]
        if reason == NO_PRICE and card and (not wanted.gpus or card in wanted.gpus) and (not clouds or provider in clouds):
            memory = float(servers.accelerator_memory_bytes[row] * servers.num_accelerators[row])
            found[card] = max(found.get(card, (0.0, "", "")), (memory, provider, servers.instance_type[row]), key=lambda one: one[0])
    priced = _priced(search_result, clouds)
    return tuple(_said({card: one for card, one in found.items() if card not in priced}))


def _priced(search_result: SearchResult, clouds: set[str]) -> set[str]:
    """Accelerators that have a price at one of the clouds."""
    offers, servers = search_result.market.offers, search_result.market.offers.servers
    rows = once(offers.server_index).tolist()
    return {servers.accelerator_name[row] for row in rows if not clouds or servers.provider[row] in clouds}


def _said(found: Mapping[str, tuple[float, str, str]]) -> Iterable[Reason]:
    """Those with measured stacks first, then the servers with most memory on their cards: they hold
    what the others do not. A label of the cloud's with the chip that it stands for."""
    known = {card: stands_for(facts.accelerators()[card]) for card in found}
    ordered = sorted(found.items(), key=lambda one: (known[one[0]].vendor not in sense.CALIBRATED, -one[1][0]))
    for card, (_, provider, instance_type) in ordered[:MOST_NAMES]:
        names_it = {"provider": provider, "instance_type": instance_type, "server": f"{provider}/{instance_type}"}
        shown = card if known[card].name == card else f"{card} ({known[card].name})"
        yield Reason("unpriced", {"accelerator": shown, **names_it})


# ---- One server or several: what several would save where one is taken, and what one would cost
# where several are.

Mask = NDArray[np.bool_]


def several_mask(search_result: SearchResult) -> Mask:
    """Rows that rent more than one server, shape of `bits`."""
    offer, column = np.indices(search_result.bits.shape)
    return several_of(search_result, offer.ravel(), column.ravel()).reshape(search_result.bits.shape)


def several_of(search_result: SearchResult, offer: NDArray[np.intp], column: NDArray[np.intp]) -> Mask:
    """Whether each row (offer, column) rents more than one server."""
    number = search_result.num_servers(offer, column)
    return np.asarray(np.isfinite(number) & (number > 1))


def counted_usd(search_result: SearchResult, usd: Array, offer: NDArray[np.intp], column: NDArray[np.intp]) -> Array:
    """Money of rows (offer, column) as the order of options counts it: several servers must save
    more than the one is worth, for each is one more that can fail, be late or be out of stock; a
    last resort (offloading) must save more than doing without is worth, Arm more than images and
    wheels of its own are, and accelerators without measured runs clearly; of a deadline what takes
    twice as long as needs be must save a tenth."""
    usual = facts.coefficients("planning")
    several = np.where(several_of(search_result, offer, column), usual["one_server_worth"], 1.0)
    resort = np.where(search_result.last_resort(offer, column), usual["last_resort_worth"], 1.0)
    slow = sense.slowness(search_result, search_result.bill.total_s[offer, column])
    return np.asarray(sense.counted(search_result, usd, offer) * several * resort * slow)


def several_section(search_result: SearchResult, options: Sequence[Option]) -> Section | None:
    """The other way beside the first option: several servers that cost less than the one, or the
    one that costs more than the several."""
    if not options or search_result.workload.objective == "time":
        return None
    best, several = options[0], several_mask(search_result)
    wanted = several if best.nodes == 1 else ~several
    at = cheapest_of(search_result, (search_result.bits == 0) & wanted)
    if at is None:
        return None
    effect = effect_of(search_result, at, best)
    saves = float(search_result.bill.total_usd[at]) < best.cost.total_usd
    if best.nodes == 1 and not saves:
        return None
    key = "several_cheaper" if best.nodes == 1 else "one_instead"
    return Section("servers", effect, (Reason(key + month_of(search_result), {**effect, "best_usd": best.cost.total_usd}),))


def quicker(search_result: SearchResult, options: Sequence[Option], points: Sequence[Option]) -> Option | None:
    """Of the options and the points of the front the best one that costs a little more than the
    first and is much faster: by cost^2 x time, and in nothing that sense looks at worse."""
    if not options or search_result.workload.objective != "cost":
        return None
    usual, serves = facts.coefficients("planning"), search_result.workload.task == "serve"
    best, least_s = options[0], usual["quicker_saves_service_s" if serves else "quicker_saves_s"]
    its_usd, its_s = best.cost.total_usd, waited_s(best)
    found: list[tuple[float, Option]] = []
    for one in (*options[1:], *(() if serves else points)):  # points of services are those of the quick law
        usd, seconds = one.cost.total_usd, waited_s(one)
        balance = (usd / its_usd) ** 2 * seconds / its_s if its_usd and its_s else math.inf
        affordable = its_usd <= usd <= its_usd * (1.0 + usual["quicker_most_share"])
        if affordable and balance <= usual["quicker_balance"] and its_s - seconds >= least_s and not _is_worse(one, best):
            found.append((balance, one))
    return min(found, key=lambda one: one[0], default=(0.0, None))[1]


def waited_s(option: Option) -> float:
    """Seconds that an option makes its user wait: of the job, or of a request."""
    told = option.estimate.get("total_time_s") or option.estimate.get("latency_s")
    return float(told.mid) if told else math.inf


def _is_worse(one: Option, best: Option) -> bool:
    """Whether an option is several servers, spot, unmeasured, Arm, in mainland China or at an old
    price where the best one is not."""
    marks = [
        (
            option.nodes > best.nodes,
            option.purchase == "spot",
            bool(option.accelerator.name) and facts.accelerator(option.accelerator.name).vendor not in sense.CALIBRATED,
            option.facts.get("arch") == sense.ARM,
            option.facts.get("country") == MAINLAND,
            bool(option.facts.get("price_is_old") or option.facts.get("is_estimate")),
        )
        for option in (one, best)
    ]
    return any(mine and not its for mine, its in zip(*marks, strict=True))


def quicker_section(search_result: SearchResult, options: Sequence[Option], points: Sequence[Option]) -> Section | None:
    """What a little more money would speed up much; None where nothing does."""
    one = quicker(search_result, options, points)
    if one is None:
        return None
    best = options[0]
    effect: dict[str, Any] = {name: getattr(one, name) for name in ("provider", "instance_type", "nodes", "region", "purchase")}
    effect |= {"total_usd": one.cost.total_usd, "total_time_s": waited_s(one)}
    effect |= {"more_share": one.cost.total_usd / best.cost.total_usd - 1.0, "times": round(waited_s(best) / waited_s(one), 1)}
    return Section("quicker", effect, (Reason("quicker" + month_of(search_result), effect),))


def near_deadline(search_result: SearchResult, options: Sequence[Option]) -> Section | None:
    """What misses only the deadline, by little, and saves clearly; None where nothing does."""
    usual, limit_s = facts.coefficients("planning"), search_result.filters.deadline_s
    if not options or limit_s is None or search_result.workload.objective != "cost":
        return None
    had = np.broadcast_to(search_result.failures.had["deadline"], search_result.bits.shape)
    near = (search_result.bits == 1 << CRITERIA.index("deadline")) & (had <= limit_s * (1.0 + usual["near_share"]))
    at = cheapest_of(search_result, near)
    if at is None or search_result.bill.total_usd[at] > (1.0 - usual["near_saves"]) * options[0].cost.total_usd:
        return None
    effect = {**effect_of(search_result, at, options[0]), "deadline_s": float(had[at])}
    return Section("near", effect, (Reason("near_deadline", effect),))


def headline_key(search_result: SearchResult, option: Option, key: str) -> str:
    """The headline of an option: of one server that stands before several that cost less, that it
    is the cheapest alone."""
    if search_result.workload.objective != "cost" or option.nodes > 1:
        return key
    at = cheapest_of(search_result, (search_result.bits == 0) & several_mask(search_result))
    return f"{key}_alone" if at is not None and float(search_result.bill.total_usd[at]) < option.cost.total_usd else key


BELOW = "_below"


def below_of(search_result: SearchResult, options: Sequence[Option]) -> Option | None:
    """The first option shown below the first one although it costs less (the objective being cost):
    the first is not simply the cheapest then."""
    if search_result.workload.objective != "cost" or not options:
        return None
    return next((one for one in options[1:] if one.cost.total_usd < options[0].cost.total_usd), None)


def below_cause(other: Option) -> str:
    """Why an option that costs less stands below the first: the end of a key of `reasons.below_*`,
    the rule that put it there (rank.with_below)."""
    return str(other.facts.get("below_by") or "order")


def month_of(search_result: SearchResult) -> str:
    """The ending of a statement whose money is that of a month."""
    return month_of_task(search_result.workload.task)


def month_of_task(task: str) -> str:
    """The same of a task."""
    return "_month" if task == "serve" else ""


def slower_than_one(option: Option, one: Option) -> tuple[Reason, ...]:
    """That several given servers are slower, or dearer, than one of them."""
    mine, its = option.estimate.get("total_time_s"), one.estimate.get("total_time_s")
    params: dict[str, Any] = {"nodes": option.nodes, "total_usd": option.cost.total_usd, "one_usd": one.cost.total_usd}
    if mine is None or its is None or one.cost.total_usd >= option.cost.total_usd:
        return ()
    key = "several_slower" if mine.mid >= its.mid else "several_dearer"
    return (Reason(key, {**params, "total_time_s": mine.mid, "one_time_s": its.mid}),)


# ---- Whom one rents from: what a seller of a lower tier would save, a default that leaves nothing,
# and what must be known of a seller before.

SELLER = 1 << CRITERIA.index("seller")


def seller_section(search_result: SearchResult, options: Sequence[Option]) -> Section | None:
    """What a seller of a tier that was not asked for would save, at a price that somebody asks; a
    partition is a matter of the account, not of trust."""
    if not options or search_result.workload.objective == "time":
        return None
    offers = search_result.market.offers
    apart = np.array([name in names.partitions() for name in offers.servers.provider], dtype=np.bool_)[offers.server_index]
    at = cheapest_of(search_result, (search_result.bits == SELLER) & ~(apart | hearsay(search_result.market))[:, None])
    best = options[0]
    if at is None or float(search_result.bill.total_usd[at]) >= best.cost.total_usd:
        return None
    offer = offers.row(at[0])
    tier = tier_of(offer["provider"], offer["purchase"])
    effect = {**effect_of(search_result, at, best), "seller_tier": tier, "as_of": offer["as_of"]}
    key = "seller_cheaper" if tier > search_result.filters.sellers.highest_tier else "by_hand_cheaper"
    return Section("sellers", effect, (Reason(key + month_of(search_result), effect),))


def only_sellers_refuse(search_result: SearchResult) -> bool:
    """Whether nothing passes and something would, but for its seller."""
    bits = search_result.bits
    return not bool(np.any(bits == 0)) and bool(np.any(bits == SELLER))


def widened(workload: Workload) -> Workload | None:
    """The wish with sellers of every tier, where the user did not say which; None where he did."""
    return None if workload.sellers else workload.with_changes(sellers=("all",))


def with_a_sequence_each(workload: Workload, family: str, cards: float | None = None) -> Workload | None:
    """The request with the batch that trainers take for much data, or one that gives each of
    `cards` a sequence: few data make a small batch, which many GPUs cannot share. None where the
    batch was said, or is no matter of sequences."""
    if workload.task != "finetune" or workload.global_batch is not None or family != "language":
        return None
    batch = facts.coefficients("planning")["finetune_global_batch"] if cards is None else 2 ** math.ceil(math.log2(max(cards, 1.0)))
    return workload.settled(global_batch=int(batch), assumed=(*workload.assumed, "global_batch"))


def widened_assumption() -> Assumption:
    """That sellers of every tier were taken, since no other one can do it."""
    return Assumption("sellers", "all", Reason("assumed_sellers", {}))


def with_market_warnings(options: Sequence[Option], search_result: SearchResult) -> tuple[Option, ...]:
    """The options with what must be known of their seller, place and price,
    whatever the kind of work."""
    mainland, first = means_mainland(search_result), mainland_first(search_result, options[0] if options else None)
    if first is not None:
        best = options[0]
        options = (dataclasses.replace(best, why=(*best.why, first), warnings=(first, *best.warnings)), *options[1:])
    return tuple(
        dataclasses.replace(
            option,
            warnings=(
                *option.warnings,
                *market_warnings(option, by_engine=search_result.filters.is_served),
                *program_warnings(search_result.workload, option),
                *border_warnings(option, mainland=mainland),
            ),
        )
        for option in options
    )


def border_warnings(option: Option, *, mainland: bool) -> list[Reason]:
    """A server on the other side of the border of mainland China than the wish means; one without a
    place is on neither."""
    country = option.facts.get("country") or ""
    if not country or (country == MAINLAND) == mainland:
        return []
    return [Reason("outside_mainland" if mainland else "inside_mainland", {"region": option.region})]


def cards_of(option: Option) -> int:
    """Accelerators of an option over all servers; servers where they have none."""
    servers = int(option.facts.get("servers") or option.nodes)
    return servers * (option.accelerator.count_per_node if option.accelerator and option.accelerator.name else 1)


def is_large_order(option: Option) -> bool:
    """Whether so many are seldom found free on the day, several servers at once."""
    servers = int(option.facts.get("servers") or option.nodes)
    name = option.accelerator.name if option.accelerator else ""
    most = most_at_once(option.provider, name, option.purchase, at_notice=True)
    return servers > 1 and option.purchase in (*ON_DEMAND, "spot") and cards_of(option) > most


def program_warnings(workload: Workload, option: Option) -> list[Reason]:
    """That no target of `rightfit export` runs this kind of work, or the plan's own way to do it
    (facts/data/programs.csv)."""
    known = facts.resolve_offline(workload.model) if workload.model else None
    found = known.record if known else None
    if isinstance(found, facts.TransformerArchitecture) and found.certainty == "typical":
        return [Reason("no_program_size", {"model": workload.model})]
    layout, told = option.layout, option.facts
    if workload.task == "prepare":
        many = option.nodes > 1
        return [Reason("no_program", {"what": f"{workload.operation}, {option.nodes} x {option.instance_type}"})] if many else []
    if workload.task in ("serve", "batch"):
        engine = str(getattr(layout, "engine", ""))
        if not engine:  # tables are scored by their own libraries
            return []
        work, what = engine.casefold(), f"{workload.model}, {engine}"
    elif told.get("modality") or told.get("seq_len"):
        kind = str(getattr(found, "kind", ""))
        work = str(told.get("modality") or (kind if kind in ("encoder", "encoder-decoder", "embedding", "vlm") else "decoder"))
        repository = facts.hub_repository(workload.model, known) or workload.model
        if kind == "vlm" and not told.get("modality") and not facts.chat_template(repository).get("images"):
            work = ""
        what = f"{workload.model}, {layout.method}" + (f", {told.get('vendor')}" if layout.method == "grpo" else "")
    else:
        return []
    apart = getattr(layout, "rollout", "") not in ("", "colocated")
    spread = "offload" if getattr(layout, "offload", "none") != "none" else getattr(layout, "sharding", "none")
    given = {"vendor": str(told.get("vendor") or ""), "spread": spread}
    found_one = not apart and facts.has_program(workload.task, workload.model, work, layout.method, **given)
    return [] if found_one else [Reason("no_program", {"what": what})]


def market_warnings(option: Option, *, by_engine: bool = False) -> list[Reason]:
    """An account of its own, a seller of a low tier or one that must be rented from by hand, a
    price that may have moved. `by_engine`: an engine's own image starts the job."""
    found, partition = [], names.partitions().get(option.provider)
    card = option.accelerator.name if option.accelerator else ""
    if not starts(option.provider, option.purchase, card):
        known = starts(option.provider)
        found.append(
            Reason("offer_by_hand", {"provider": option.provider, "accelerator": card, "purchase": option.purchase})
            if known
            else Reason("seller_by_hand", {"provider": option.provider})
        )
    if partition:
        found.append(Reason("seller_account", {"provider": option.provider, "of": partition["of"]}))
    if (option.facts.get("seller_tier") or 0) > 2:
        found.append(Reason(f"seller_tier_{option.facts['seller_tier']}", {"provider": option.provider}))
    if option.price_as_of and option.facts.get("price_is_old") and not option.facts.get("is_stale"):
        found.append(Reason("price_moved", {"as_of": option.price_as_of}))
    none, polls = none_free(option.provider, option.instance_type)
    if is_seldom_free(option.provider, option.instance_type):
        found.append(Reason("seldom_free", {"provider": option.provider, "share": none / polls, "polls": polls}))
    if option.facts.get("arch") == sense.ARM:
        found.append(Reason("arm_builds", {}))
    if card and (device := facts.accelerators().get(card)) and device.vendor not in sense.CALIBRATED:
        chip = stands_for(device)
        is_hidden = chip is not device and chip.vendor in sense.CALIBRATED  # a label of the cloud's
        found.append(
            Reason("hidden_chip", {"accelerator": card, "equivalent": chip.name})
            if is_hidden
            else Reason("not_nvidia", {"accelerator": card})
        )
    if is_unreleased(card) and not (by_engine and is_served(card)):
        found.append(Reason("no_release", {"accelerator": option.accelerator.name}))
    if is_large_order(option):
        found.append(Reason("large_order", {"provider": option.provider, "count": cards_of(option)}))
    for event in events_of(option.provider, option.instance_type):
        if event.kind == RETIRED:
            found.append(Reason("server_retires", {"family": event.family, "date": event.date}))
        elif event.date <= today():
            found.append(Reason("server_restricted", {"family": event.family, "date": event.date}))
    return found
