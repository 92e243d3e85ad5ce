"""What a service costs in other ways: at a token API, serverless, on spot servers with on-demand
ones under them, and in other weight formats.

Each function gives a section of the plan (or nothing where it does not apply), worked out for the
first option only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.facts.api_prices import ApiPrice, api_prices, price_to_expect
from rightfit.market.offers import PURCHASES
from rightfit.physics import scaling
from rightfit.records import dataclass
from rightfit.search.advice import on_this_side
from rightfit.search.answer import Option, Reason, Section
from rightfit.search.rank import first_row
from rightfit.search.service.found import ServingResult, sharing_section
from rightfit.search.service.limits import limits_section, near_section
from rightfit.search.service.options import ServingCost, ServingLayout
from rightfit.search.service.scaling import capacity_at_limits, cold_start_of, fleet_section, server_start_s
from rightfit.search.service.stacks import format_rows, kept_of, published_quality
from rightfit.search.service.wish import usual
from rightfit.search.sources import num_parameters
from rightfit.units import SECONDS_PER_HOUR

Index = NDArray[np.intp]


def economics(
    search_result: ServingResult,
    options: tuple[Option, ...],
    freed: ServingResult | None = None,
    more: Sequence[Section | None] = (),
) -> tuple[Section, ...]:
    """All sections that say something about the first option. `freed`: the search with any
    weight format, where the user left that open; `more`: sections of a service that only its
    family knows."""
    if not options:
        return ()
    made = [
        limits_section(search_result, options),
        near_section(search_result, options),
        extras_section(search_result, options[0]),
        api_section(search_result, options[0]),
    ]
    if not search_result.wish.is_batch:
        made.append(sharing_section(search_result, options[0], server=server_of(search_result, options[0])))
        made += [serverless_section(search_result, options[0]), spot_section(search_result, options[0]), *more]
        if search_result.wish.workload.fleet == "mixed":
            made.append(fleet_section(search_result, options[0]))
    made.append(formats_section(freed) if freed is not None else None)
    return tuple(section for section in made if section is not None)


@dataclass(frozen=True, slots=True)
class Unit:
    """The least that can be rented for a service: the servers of one replica (or one server with
    several), what it costs and carries."""

    usd_per_h: float
    rate_per_s: float
    count: int


def unit_of(search_result: ServingResult, option: Option) -> Unit:
    """The unit of an option, kept as full as its limits allow; its share of disks and
    traffic is in the price."""
    layout = option.layout
    assert isinstance(layout, ServingLayout)
    count = count_of(option)
    each = layout.replicas_per_node if span_of(option) == 1 else 1
    usd_per_h = option.cost.total_usd / search_result.wish.month_h / count
    full_per_s = capacity_at_limits(search_result, _candidate_of(search_result, option), replicas=float(layout.data))
    return Unit(usd_per_h, full_per_s * max(each, 1), count)


def span_of(option: Option) -> int:
    """Servers of one replica; 1 where a server has several."""
    return max(int(option.facts["servers_per_replica"]), 1)


def count_of(option: Option) -> int:
    """How many units an option rents."""
    return max(option.nodes // span_of(option), 1)


def server_of(search_result: ServingResult, option: Option) -> int:
    """Row of an option's server type in the market's table."""
    servers = search_result.market.offers.servers
    names = zip(servers.provider, servers.instance_type, strict=True)
    return next(row for row, name in enumerate(names) if name == (option.provider, option.instance_type))


# --- token APIs


def api_section(search_result: ServingResult, option: Option) -> Section | None:
    """Own servers against an API: this load's price there, and the volume above which own
    servers are cheaper."""
    wish = search_result.wish
    if not wish.generates:
        return None
    offers = given_price(search_result) or (() if is_bound(search_result) else api_prices(wish.checkpoint))
    if not offers:
        return Section("api", {"prices": [], "price": None})
    price = price_to_expect(offers, input_tokens=wish.input_tokens, output_tokens=wish.output_tokens)
    content: dict[str, Any] = {"price": asdict(price), "prices": [asdict(one) for one in offers]}
    figures = batch_against_api(search_result, option, price) if wish.is_batch else service_against_api(search_result, option, price)
    names = ("model", "provider", "as_of", "match", "input_usd_per_million", "output_usd_per_million")
    words = {name.replace("_usd_per_million", "_usd"): getattr(price, name) for name in names}
    words = {name: value for name, value in words.items() if name != "model"} | {"api_model": price.model}
    return Section("api", {**content, **figures}, (Reason(_api_verdict(figures), {**words, **figures}),))


def is_bound(search_result: ServingResult) -> bool:
    """Whether the wish keeps data or servers in an area. No price list says where an API computes,
    so that none is held against it."""
    return bool(search_result.wish.workload.residency or search_result.wish.workload.country)


def given_price(search_result: ServingResult) -> tuple[ApiPrice, ...]:
    """The price that the user gave, if any."""
    workload = search_result.wish.workload
    if workload.api_output_usd_per_million is None:
        return ()
    output = workload.api_output_usd_per_million
    given = workload.api_input_usd_per_million
    return (ApiPrice(workload.model, "", output if given is None else given, output, "", "--api-price", "user"),)


def service_against_api(search_result: ServingResult, option: Option, price: ApiPrice) -> dict[str, float]:
    """Figures of a service: a month at the API and on own servers, and the break-even of
    physics.scaling.api_break_even."""
    wish, unit = search_result.wish, unit_of(search_result, option)
    tokens = float(wish.input_tokens + wish.output_tokens)
    even = scaling.api_break_even(
        replica_usd_per_h=np.array([unit.usd_per_h]),
        replica_requests_per_s=np.array([unit.rate_per_s]),
        input_tokens=np.array([float(wish.input_tokens)]),
        output_tokens=np.array([float(wish.output_tokens)]),
        input_usd_per_million=np.array([price.input_usd_per_million]),
        output_usd_per_million=np.array([price.output_usd_per_million]),
        month_h=wish.month_h,
    )
    month_s = wish.month_h * SECONDS_PER_HOUR
    requests = float(option.facts["rate_per_s"]) * month_s
    return {
        "api_usd": price.usd_of(wish.input_tokens, wish.output_tokens) * requests,
        "own_usd": option.cost.total_usd,
        "tokens_per_month": requests * tokens,
        "break_even_tokens_per_month": float(even.tokens_per_month[0]),
        "break_even_rate_per_s": float(even.tokens_per_month[0]) / tokens / month_s,
        "full_usd_per_million": float(even.full_usd_per_million[0]),
    }


def batch_against_api(search_result: ServingResult, option: Option, price: ApiPrice) -> dict[str, float]:
    """Figures of a batch job: all its tokens at the API and on own servers."""
    wish = search_result.wish
    return {
        "api_usd": price.usd_of(wish.input_tokens, wish.output_tokens) * wish.requests,
        "own_usd": option.cost.total_usd,
        "tokens": wish.requests * (wish.input_tokens + wish.output_tokens),
    }


def _api_verdict(figures: dict[str, float]) -> str:
    if "break_even_tokens_per_month" not in figures:
        return "serve_api_batch"
    if figures["api_usd"] > figures["own_usd"]:
        return "serve_api_own"
    return "serve_api_later" if math.isfinite(figures["break_even_tokens_per_month"]) else "serve_api_never"


# --- serverless


def serverless_section(search_result: ServingResult, option: Option) -> Section | None:
    """Serverless accelerators that bill by the second and sleep between requests: a month, the
    break-even rate, and what a cold start costs."""
    if is_bound(search_result):
        return None
    rate = float(option.facts["rate_per_s"])
    offers = [_serverless_offer(search_result, row, rate=rate, own_usd=option.cost.total_usd) for row in facts.table("serverless")]
    priced = [one for one in offers if one["monthly_usd"] is not None]
    if not priced:
        return None
    best = min(priced, key=lambda one: float(one["monthly_usd"]))
    names = ("product", "accelerator", "monthly_usd", "break_even_rate_per_s", "cold_start_s", "cold_share", "as_of")
    words = {"platform" if name == "provider" else name: best[name] for name in names}
    words |= {"own_usd": option.cost.total_usd, "provider": best["provider"]}
    verdict = "pays" if best["monthly_usd"] < option.cost.total_usd else "later" if best["break_even_rate_per_s"] > 0 else "never"
    return Section("serverless", {"offers": offers}, (Reason(f"serve_serverless_{verdict}", words),))


def _serverless_offer(search_result: ServingResult, row: dict[str, str], *, rate: float, own_usd: float) -> dict[str, Any]:
    """One product of the table for this model and rate; figures are None where its price or its
    speed with this model is not known."""
    out: dict[str, Any] = {name: row[name] for name in ("provider", "product", "region", "accelerator", "as_of", "source", "note")}
    out |= dict.fromkeys(("usd_per_h", "monthly_usd", "break_even_rate_per_s", "cold_start_s", "cold_share"))
    at = fastest_on(search_result, row["accelerator"]) if row["accelerator_usd_per_s"] else -1
    if at < 0:
        return out
    able = search_result.capacity
    vcpus, memory_gib = float(row["least_vcpus"] or 0.0), float(row["least_memory_gib"] or 0.0)
    price = float(row["accelerator_usd_per_s"]) + vcpus * float(row["vcpu_usd_per_s"]) + memory_gib * float(row["memory_usd_per_gib_s"])
    busy, most = float(able.alone_latency_s[at]), float(able.rate_per_s[at])
    idles = row["bills_idle"] == "1"
    known = {
        "busy_s": np.array([busy]),
        "price_usd_per_s": np.array([price]),
        "request_usd": np.array([float(row["request_usd"] or 0.0)]),
        "concurrency": np.array([max(most * busy, 1.0) if idles else 1.0]),
    }
    cold = cold_start_s(search_result, at, start_s=float(row["start_s"]) if row["start_s"] else server_start_s())
    idle = {"idle_before_sleep_s": np.array([float(row["idle_before_sleep_s"] or 0.0)]), "cold_start_s": np.array([cold if idles else 0.0])}
    month = scaling.serverless_usd_per_month(np.array([rate]), **known, **idle, month_h=search_result.wish.month_h)
    own_per_h = np.array([own_usd / search_result.wish.month_h])
    if idles:
        even = scaling.scale_to_zero_break_even_per_s(
            server_usd_per_h=own_per_h, busy_s=known["busy_s"], price_usd_per_s=known["price_usd_per_s"], **idle
        )
        met = scaling.cold_share(np.array([rate]), busy_s=known["busy_s"], **idle)
    else:
        even = scaling.serverless_break_even_per_s(server_usd_per_h=own_per_h, **known)
        met = np.array([math.nan])
    figures = {
        "usd_per_h": price * 3600.0,
        "monthly_usd": float(month[0]),
        "break_even_rate_per_s": min(float(even[0]), most) if idles else float(even[0]),
        "cold_start_s": cold,
        "cold_share": float(met[0]),
    }
    return out | figures


def fastest_on(search_result: ServingResult, accelerator: str) -> int:
    """The candidate that carries most on one card of a kind within the limits, -1 where none does;
    weights as published come first."""
    space, able = search_result.space, search_result.capacity
    cards = np.array([card.name == accelerator for card in search_result.fleet.accelerators], dtype=bool)
    if not len(space) or not cards.any():
        return -1
    usable = cards[space.machine] & (space.tensor == 1) & (space.nodes == 1) & space.fits & (able.rate_per_s > 0)
    rows = np.flatnonzero(usable)
    return int(rows[np.lexsort((-able.rate_per_s[rows], search_result.column[rows]))[0]]) if rows.shape[0] else -1


def cold_start_s(search_result: ServingResult, index: int, *, start_s: float) -> float:
    """Seconds until a sleeping replica answers: the instance, then image, weights and warm-up as
    for any new replica."""
    cold = cold_start_of(num_parameters(search_result.wish.model) * weight_bits(search_result, index) / 8.0)
    return float(start_s + cold.image_s[0] + cold.weights_s[0] + cold.warm_up_s[0])


def weight_bits(search_result: ServingResult, index: int) -> float:
    """Bits of a weight in a candidate's format."""
    row = format_rows().get(search_result.space.stack[index].format)
    return float(row["bits"]) if row else 16.0


# --- spot with on-demand servers under it


def spot_section(search_result: ServingResult, option: Option) -> Section | None:
    """The cheapest mix of spot and on-demand servers of the option's kind in its region that is
    short of servers as rarely as asked."""
    cost = option.cost
    assert isinstance(cost, ServingCost)
    hours = search_result.wish.month_h
    spot, steady = cost.by_purchase.get("spot"), cost.by_purchase.get("on-demand")
    count = count_of(option)
    if spot is None or steady is None or spot >= steady:
        return None
    share = monthly_interruptions(search_result, option)
    restore_s = cold_start_s(search_result, _candidate_of(search_result, option), start_s=server_start_s())
    mix = scaling.spot_mix(
        np.array([float(count)]),
        on_demand_usd_per_h=np.array([steady / hours / count]),
        spot_usd_per_h=np.array([spot / hours / count]),
        interruptions_per_h=np.array([-math.log1p(-min(share, 0.999)) / hours]),
        restore_h=np.array([restore_s / 3600.0]),
        most_shortfall=np.array([usual()["spot_most_shortfall"]]),
    )
    span = option.nodes // count
    monthly = float(mix.usd_per_h[0]) * hours
    content = {
        "needed": option.nodes,
        "on_demand": int(mix.on_demand[0]) * span,
        "spot": int(mix.spot[0]) * span,
        "monthly_usd": monthly,
        "saving_usd": cost.terms["servers_usd"] - monthly,
        "shortfall_probability": float(mix.shortfall_probability[0]),
        "interrupted_share_per_month": share,
        "restore_s": restore_s,
        "spot_usd": spot,
    }
    if option.purchase == "spot":
        return Section("spot", content, (Reason("serve_spot_cover", content),))
    pays = mix.spot[0] > 0 and content["saving_usd"] > 0
    return Section("spot", content, (Reason("serve_spot_plan", content),) if pays else ())


def monthly_interruptions(search_result: ServingResult, option: Option) -> float:
    """Share of the spot servers of the option's kind that are taken back within a month: the upper
    figure that is known."""
    offers = search_result.market.offers
    server = server_of(search_result, option)
    spot = (offers.server_index == server) & (offers.purchase_index == PURCHASES.index("spot"))
    here = np.array([offers.regions[int(region)] == option.region for region in offers.region_index[spot]], dtype=bool)
    high = search_result.market.charges.spot_high[spot]
    known = high[here] if here.any() else high
    return float(known.max()) if known.shape[0] else 0.0


def _candidate_of(search_result: ServingResult, option: Option) -> int:
    """The row of the space that an option runs: of its machine class and weight
    format, as it was sized."""
    layout = option.layout
    assert isinstance(layout, ServingLayout)
    machine = int(search_result.fleet.machine_index[server_of(search_result, option)])
    rows = [int(row) for row in search_result.sizing.row[machine] if row >= 0]
    stacks = [search_result.space.stack[row] for row in rows]
    same = (row for row, stack in zip(rows, stacks, strict=True) if (stack.name, stack.format) == (layout.engine, layout.weight_format))
    return next(same, rows[0])


# --- shared prefix, adapters, drafts


def extras_section(search_result: ServingResult, option: Option) -> Section | None:
    """What a shared prefix, adapters and drafts do to the first option: memory, and the time per
    token at its load with and without them."""
    extras = search_result.wish.extras
    if not extras:
        return None
    from rightfit.estimation.serving_extras import effect_of

    space = search_result.space.take(np.array([_candidate_of(search_result, option)], dtype=np.intp))
    batch = np.array([max(float(option.facts["batch"]), 1.0)])
    content = effect_of(extras, space.model, space.serve, space.device, space.links, batch=batch)
    content |= {"input_tokens": float(search_result.wish.input_tokens), "batch": float(batch[0])}
    reasons = []
    if extras.shared_tokens:
        reasons.append(Reason("serve_prefix", content))
    if extras.adapters:
        reasons.append(Reason("serve_adapters", content))
    if extras.images:
        reasons.append(Reason("serve_images", content))
    if extras.draft_tokens:
        name = extras.draft.name if extras.draft is not None else "n-gram"
        reasons.append(
            Reason("serve_drafts" if content["token_s"] < content["plain_token_s"] else "serve_drafts_lose", {**content, "draft": name})
        )
        if extras.acceptance_low:
            reasons.append(Reason("serve_acceptance_ends", content))
    if extras.hit_share:
        wish = search_result.wish
        held = (wish.rate_per_s * extras.kept_s or wish.users) * wish.input_tokens
        content |= {"kept_bytes": kept_of(wish), "kept_tokens": float(held)}
        reasons.append(Reason(f"serve_kv_offload_{extras.kv_tier}", content))
    return Section("extras", content, tuple(reasons))


# --- weight formats


def formats_section(freed: ServingResult) -> Section | None:
    """Each weight format as it would be planned: memory of the weights, time per token of a lone
    request, a month's cost, and the published evidence on quality."""
    rows, here = [], on_this_side(freed)
    for column in range(freed.bits.shape[1]):
        able = np.zeros(freed.bits.shape, dtype=np.bool_)
        able[:, column] = (freed.bits[:, column] == 0) & here
        if (row := first_row(freed, able)) is not None:
            rows.append(_format_row(freed, row.offer, column, monthly_usd=float(freed.bill.total_usd[row.offer, column])))
    if len(rows) < 2:
        return None
    scored = [published_quality(freed.wish.checkpoint, row["format"]) for row in rows]
    reasons = [Reason("serve_format", row) for row in rows] + [Reason("serve_quality_published", one) for one in scored if one]
    return Section("formats", {"formats": rows}, tuple(reasons))


def _format_row(freed: ServingResult, offer: int, column: int, *, monthly_usd: float) -> dict[str, Any]:
    at = freed.candidate(offer, column)
    stack, where = freed.space.stack[at], freed.market.offers.row(offer)
    known = format_rows()[stack.format]
    return {
        "format": stack.format,
        "option": known["words"].split("|")[0],
        "kv_format": stack.kv,
        "weights_bytes": num_parameters(freed.wish.model) * float(known["bits"]) / 8.0,
        "tpot_s": float(freed.capacity.alone_tpot_s[at]),
        "monthly_usd": monthly_usd,
        "provider": where["provider"],
        "instance_type": where["instance_type"],
        "nodes": int(freed.sizing.servers[freed.fleet.machine_index[freed.market.offers.server_index[offer]], column]),
        **{name: known[name] for name in ("quality", "evidence", "source")},
    }
