"""Every way to serve a language model: on cards and processors, in every engine
and weight format."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.facts.engines import find_device, published_format, starts_from_wide
from rightfit.facts.machines import processor_kind
from rightfit.facts.records import Accelerator
from rightfit.families.registry import explored
from rightfit.families.serving.wish import read_token_wish
from rightfit.market.offers import codes_of
from rightfit.messages import Message
from rightfit.physics import serving_columns
from rightfit.physics.columns import Array, once
from rightfit.recent import Recent
from rightfit.search.answer import Assumption, Option, Reason
from rightfit.search.constraints import accelerators_of
from rightfit.search.criteria import CRITERIA
from rightfit.search.offers import Market, open_market, whole_market
from rightfit.search.rank import first_row
from rightfit.search.service.batch import judged
from rightfit.search.service.found import ServingResult, shared_fleet
from rightfit.search.service.grid import token_grid, token_times
from rightfit.search.service.limits import second_look
from rightfit.search.service.sizing import serving_wanted
from rightfit.search.service.space import CPU_FAMILY as FAMILY
from rightfit.search.service.space import build_serving_space, family_of, known_accelerator, serving_fleet
from rightfit.search.service.stacks import (
    StackRequest,
    cpu_offers,
    cpu_shape,
    format_rows,
    is_packed,
    read_stack_wish,
    refuse_unknown_class,
    refuse_wrong_pair,
    stack_rows,
)
from rightfit.search.service.wish import ServingRequest, usual

if TYPE_CHECKING:
    from rightfit.market import Catalog, ServerTable
    from rightfit.search.constraints import Filters
    from rightfit.workload import Workload


# ---- CPU servers for language models: which are looked at, and what each of them is to the
# physics of serving.
#
# A processor is a row of facts/data/serving_devices.csv (whose bandwidth and arithmetic the
# coefficients were fitted with); a cloud server gets the share of its socket that its cores are, at
# most one socket: engines lose what a second one would add to its slow link. Int8 rates are of
# facts/data/forward_cpus.csv.

Index = NDArray[np.intp]

#: Markets with CPU servers that were asked for last, by the catalog: each has the size of the
#: catalog's offers (some 4 MB), and filters are the visitors' own.
_MOST_MARKETS = 8
_markets: weakref.WeakKeyDictionary[Any, Recent[tuple[Filters, float], Market]] = weakref.WeakKeyDictionary()


def token_market(catalog: Catalog, filters: Filters, *, with_cpus: bool, least_bytes: float = 0.0) -> Market:
    """Offers with accelerators, and where CPUs may serve the cheapest offers of CPU servers that
    pass the user's filters; read once.

    least_bytes: what a CPU server must hold. Of servers of one provider with as many cores of one
    processor only the cheapest is kept.
    """
    if not with_cpus:
        return open_market(catalog)
    known = _markets.setdefault(catalog, Recent(_MOST_MARKETS, size_of=lambda _: 1))
    market = known.get((filters, least_bytes))
    if market is None:
        market = whole_market(catalog)
        has_card = (market.offers.servers.num_accelerators > 0)[market.offers.server_index]
        cpus = cpu_offers(market, filters, _cpu_kinds(market.offers.servers, least_bytes))
        market = market.take(np.concatenate([np.flatnonzero(has_card), cpus]))
        known.put((filters, least_bytes), market)
    return market


def _cpu_kinds(servers: ServerTable, least_bytes: float) -> Index:
    """Provider, processor and number of cores of each server as one number; -1 where it holds less
    than `least_bytes`."""
    models = [model or name.partition(".")[0] for model, name in zip(servers.cpu_model, servers.instance_type, strict=True)]
    kinds = codes_of(list(zip(servers.provider, models, servers.vcpus.tolist(), strict=True)))
    return np.where(np.nan_to_num(servers.memory_bytes) >= least_bytes, kinds, -1)


def least_bytes(wish: ServingRequest, stacks: StackRequest) -> float:
    """What a server must hold at least: the weights in the fewest bits that are wanted."""
    return float(wish.model.params_total) * _fewest_bits(stacks) / 8.0


def most_bytes(wish: ServingRequest) -> float:
    """What an engine would use of a server at most: 16-bit weights with a margin, and a cache for
    its few dozen sequences."""
    return float(wish.model.params_total * 2.0 * 1.3 + usual()["cpu_cache_bytes"])


def _fewest_bits(stacks: StackRequest) -> float:
    return min((float(format_rows()[name]["bits"]) for name in stacks.formats if name in format_rows()), default=16.0)


def suits_cpus(wish: ServingRequest, stacks: StackRequest, filters: Filters) -> bool:
    """Whether CPU servers are worth a look: asked for, or left open and the fastest processor that
    is known could keep the limits and carry the load."""
    engines = [row["name"] for row in stack_rows() if FAMILY in row["families"].split("|")]
    runs = not stacks.engines or bool(set(engines) & set(stacks.engines))
    if not runs and filters.gpus == ("",):
        raise ContradictionError(
            Message("families.framework_on_cpus", engine=stacks.engines[0], engines=", ".join(engines)),
            field="framework",
        )
    if filters.gpus or not runs:
        return runs and "" in filters.gpus
    if wish.is_batch:  # nobody waits, so that only money decides; large models cost more on CPUs
        return bool(_active(wish) <= usual()["largest_cpu_params"])
    bandwidth, flops = _fastest()
    load = 2.0 * _active(wish) * (wish.input_tokens + wish.output_tokens) * wish.rate_per_s
    best = {"bandwidth": np.array([bandwidth]), "flops": np.array([flops])}
    return load <= flops * usual()["most_utilisation"] and bool(within_reach(wish, stacks, **best)[0])


def within_reach(wish: ServingRequest, stacks: StackRequest, *, bandwidth: Array, flops: Array) -> NDArray[np.bool_]:
    """Whether processors (N,) could keep the limits at their peaks: active weights / bandwidth for
    each token, the prompt's arithmetic for the first."""
    bits = 16.0 if stacks.is_free else _fewest_bits(stacks)
    token_s, prompt_s = _active(wish) * bits / 8.0 / bandwidth, 2.0 * _active(wish) * max(wish.input_tokens, 1) / flops
    total_s = prompt_s + max(wish.output_tokens - 1, 0) * token_s
    return np.asarray((token_s <= wish.limits.tpot_s) & (prompt_s <= wish.limits.ttft_s) & (total_s <= wish.limits.latency_s))


def _active(wish: ServingRequest) -> float:
    return float(wish.model.params_active or wish.model.params_total)


@functools.cache
def _fastest() -> tuple[float, float]:
    """The highest memory rate [bytes/s] and 16-bit arithmetic [FLOP/s] of the
    processors in the table."""
    rows = [row for row in facts.table("serving_devices") if row["family"] == FAMILY]
    return max(float(row["memory_bw_gbps"]) for row in rows) * 1e9, max(float(row["fp16_dense_tflops"] or 0) for row in rows) * 1e12


def cpu_machines(servers: ServerTable, listed: Index, wish: ServingRequest, stacks: StackRequest, *, every: bool) -> dict[int, Accelerator]:
    """The processor of each listed server without accelerators that could serve, by row of the
    table of servers; `every`: also those that cannot keep the limits.

    Memory beyond what an engine would use is left out, so that servers that differ in nothing
    else are one class.
    """
    shapes = {server: shape for server in listed.tolist() if not servers.accelerator_name[server] and (shape := cpu_shape(servers, server))}
    shapes = {server: shape for server, shape in shapes.items() if shape[2] > 0}
    rates = [_rates(text, float(cores)) for text, cores, _ in shapes.values()]
    bandwidth, flops = np.array([(one[0], max(one[1:])) for one in rates]).reshape(-1, 2).T
    most, able = most_bytes(wish), within_reach(wish, stacks, bandwidth=bandwidth, flops=flops) | every
    return {
        server: processor(text, float(cores), min(memory_bytes, most), is_arm=servers.arch[server].startswith("arm"))
        for (server, (text, cores, memory_bytes)), is_able in zip(shapes.items(), able.tolist(), strict=True)
        if is_able
    }


@functools.lru_cache(maxsize=4096)
def _rates(text: str, cores: float) -> tuple[float, float, float]:
    """Memory rate [bytes/s], plain and 16-bit arithmetic [FLOP/s] of so many cores of a
    processor: the lower of what the two tables give."""
    whole, kind = find_device(text)[0], processor_kind(text)
    cores_used = min(cores, float(whole.num_sms))
    share, cycles = cores_used / max(float(whole.num_sms), 1.0), cores_used * kind.clock_ghz * 1e9
    bandwidth = min(whole.memory_bandwidth * share, kind.bandwidth * cores_used / kind.cores)
    plain, half = whole.fp32_flops * share, whole.fp16_flops * share
    return bandwidth, min(plain, cycles * kind.fp32_per_cycle), min(half, cycles * kind.bf16_per_cycle)


@functools.lru_cache(maxsize=4096)
def processor(text: str, cores: float, memory_bytes: float, *, is_arm: bool) -> Accelerator:
    """So many cores of the processor that a server's words mean, as a device with the memory that
    an engine may take.

    Arithmetic in bf16 and int8 is that of x86
    engines with instructions for it (AVX512_BF16, AMX, VNNI).
    """
    whole, kind = find_device(text)[0], processor_kind(text)
    bandwidth, fp32, fp16 = _rates(text, cores)
    cycles = min(cores, float(whole.num_sms)) * kind.clock_ghz * 1e9
    return dataclasses.replace(
        whole,
        name=f"{whole.name}, {cores:g} cores",
        vendor="CPU",
        memory_bytes=memory_bytes * usual()["usable_memory"],
        memory_bandwidth=bandwidth,
        fp32_flops=fp32,
        fp16_flops=fp16,
        bf16_flops=fp16 if kind.bf16_per_cycle > kind.fp32_per_cycle and not is_arm else 0.0,
        int8_ops=0.0 if is_arm else cycles * kind.int8_per_cycle,
        num_sms=int(cores),
        nvlink_bandwidth=0.0,
        equivalent_to="",
    )


def explore(workload: Workload, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
    """Search every way to serve a model; on the servers of `market` alone where one is given. Where
    nobody said in which format, and weights of fewer bits are what one would take, those."""
    found = explore_tokens(read_token_wish(workload), catalog, market=market)
    return found if market is not None else packed_first(second_look(found), workload, catalog)


# ---- Weights of fewer bits before those as published: where the cheapest is asked for, where a
# small card was named, and where the weights as published would need a second server.

#: A named card of at most so much memory is a small one [bytes].
SMALL_CARD = 24 * 2.0**30
#: Formats whose loss is told as one of these are taken without being asked for.
_HARMLESS = ("full", "none", "small")


def packed_first(found: ServingResult, workload: Workload, catalog: Catalog) -> ServingResult:
    """The search with weights of fewer bits where they come first, which is assumed aloud."""
    is_narrow = published_format(found.wish.published_name) not in ("", "fp8")  # the checkpoint that was named is
    if workload.task != "serve" or workload.quantization or workload.precision or is_narrow:
        return found
    usd, offer, column = _first(found)
    cause = _cause(found, workload, offer, column) if np.isfinite(usd) else "fits"
    if not cause:
        return found
    freed = second_look(explore_tokens(read_token_wish(workload.with_changes(quantization="any")), catalog))
    packed_usd, at, place = _first(freed, only=_HARMLESS)
    ready_usd, *ready = _first(freed, only=_HARMLESS, ready=True)
    if ready_usd * (1.0 - SAVING_WORTH_SAYING) <= packed_usd:  # what starts as it stands before what must be found first
        packed_usd, (at, place) = ready_usd, ready
    if not np.isfinite(packed_usd) and not np.isfinite(usd):
        return freed if _least_over(freed) < _least_over(found) else found  # what would do is asked of the cheaper format
    if packed_usd > usd * (1.0 - SAVING_WORTH_SAYING):
        return found
    chosen = format_rows()[freed.space.stack[freed.candidate(at, place)].format]
    if chosen["quality"] == "full":
        return found
    packed = second_look(explore_tokens(read_token_wish(workload.with_changes(quantization=chosen["words"].split("|")[0])), catalog))
    told: dict[str, Any] = {"value": chosen["name"], "quality": chosen["quality"], "cause": cause}
    key = f"assumed_serve_packed_{cause}"
    if np.isfinite(usd):
        told |= {"monthly_usd": float(found.bill.total_usd[offer, column])}
        told |= {name: found.market.offers.row(offer)[name] for name in ("provider", "instance_type")}
        told["nodes"] = int(found.num_servers(np.array([offer]), np.array([column]))[0])
    taken = (*packed.wish.assumptions, Assumption("quantization", chosen["name"], Reason(key, told)))
    return dataclasses.replace(packed, wish=dataclasses.replace(packed.wish, assumptions=taken))


def _first(found: ServingResult, *, only: tuple[str, ...] = (), ready: bool = False) -> tuple[float, int, int]:
    """What the first row of a ranking counts as [USD], its offer and column; infinite where there
    is none. `only`: of formats whose loss is one of these; `ready`: of those that an engine makes
    as it loads."""
    names = [name.partition("/")[0] for name in found.formats]
    rows = [format_rows().get(name) for name in names]
    made = {stack.format for stack in found.space.stack if starts_from_wide(stack.name, stack.format)}
    is_taken = np.array(
        [
            (not only or row is None or row["quality"] in only) and (not ready or row is None or name in made)
            for name, row in zip(names, rows, strict=True)
        ],
        dtype=np.bool_,
    )
    row = first_row(found, (found.bits == 0) & is_taken[None, :])
    if row is None:
        return float("inf"), 0, 0
    return float(found.bill.total_usd[row.offer, row.node]), row.offer, row.node


def _least_over(found: ServingResult) -> float:
    """The least budget [USD] that would let something pass that nothing else refuses."""
    rows = found.bits == 1 << CRITERIA.index("budget")
    return float(np.min(found.failures.had["budget"], where=rows, initial=np.inf)) if rows.any() else float("inf")


def _cause(found: ServingResult, workload: Workload, offer: int, column: int) -> str:
    """Why weights of fewer bits come first; empty where they do not."""
    if found.space.nodes[found.candidate(offer, column)] > 1:
        return "servers"
    cards = [facts.accelerators()[name] for gpu in workload.gpu for name in accelerators_of(gpu) if name in facts.accelerators()]
    if cards and all(card.memory_bytes <= SMALL_CARD for card in cards):
        return "card"
    return "cheapest" if workload.objective == "cost" and "objective" not in workload.assumed else ""


def stack_wish_of(workload: Workload, model: str, *names: str) -> StackRequest:
    """Engine and formats that the workload names for a model. `names`: those by which
    its class is known."""
    words = {"engine": workload.framework or "", "quantization": workload.quantization or "", "precision": workload.precision or ""}
    share = workload.gpu_memory_utilization or 0.0
    return read_stack_wish(**words, model=model, kv_cache=workload.kv_cache or "", names=names, memory_share=share)


def explore_tokens(wish: ServingRequest, catalog: Catalog, *, market: Market | None = None) -> ServingResult:
    """Language models."""
    workload = wish.workload
    stacks = stack_wish_of(workload, wish.published_name, *wish.class_names)
    refuse_unknown_class(stacks, workload.model or wish.model.name)
    cards = tuple(known_accelerator(name) for gpu in workload.gpu for name in accelerators_of(gpu) if name)
    refuse_wrong_pair(stacks, tuple((card, family_of(card)) for card in cards))
    wanted = dataclasses.replace(serving_wanted(workload, catalog), is_served=True)
    every_cpu = market is not None or bool(wanted.gpus)
    with_cpus = market is not None or suits_cpus(wish, stacks, wanted)
    market = market or token_market(catalog, wanted, with_cpus=with_cpus, least_bytes=least_bytes(wish, stacks))
    servers = market.offers.servers
    processors = cpu_machines(servers, once(market.offers.server_index), wish, stacks, every=every_cpu) if with_cpus else {}
    fleet = shared_fleet(serving_fleet(servers, stacks, processors=processors), workload, servers, lambda other: explored(other, catalog))
    space = build_serving_space(servers, fleet, wish)
    times = token_times(space)
    grid = token_grid(times, wish, percentile=wish.limits.percentile)
    return dataclasses.replace(judged(wish, wanted, market, fleet, space, grid), times=times)


# ---- Weights of fewer bits, where the user left the format open: what they would save.

SAVING_WORTH_SAYING = 0.1


def freed_formats(search_result: ServingResult, options: tuple[Option, ...], catalog: Catalog) -> ServingResult | None:
    """The same search with any weight format, where the user left the weights open."""
    workload = search_result.wish.workload
    is_copy = is_packed(published_format(search_result.wish.published_name))
    if not options or search_result.wish.is_batch or workload.quantization or workload.precision or is_copy:
        return None
    return explore(workload.with_changes(quantization="any"), catalog)


def wider_share(search_result: ServingResult, options: tuple[Option, ...], catalog: Catalog) -> tuple[Reason, ...]:
    """What fits, or fits fewer accelerators, where the engine takes more of each than it does by
    default."""
    workload, share = search_result.wish.workload, float(usual()["most_memory_share"])
    if workload.gpu_memory_utilization or not _fits_at(search_result, options, share):
        return ()
    found = explore(workload.with_changes(gpu_memory_utilization=share), catalog)
    row_of = first_row(found, found.bits == 0)
    if row_of is None:
        return ()
    at, total = found.candidate(row_of.offer, row_of.node), float(found.bill.total_usd[row_of.offer, row_of.node])
    saving = options[0].cost.total_usd - total if options else None
    if saving is not None and total > options[0].cost.total_usd * (1.0 - SAVING_WORTH_SAYING):
        return ()
    where, engine = found.market.offers.row(row_of.offer), found.space.stack[at].name
    shares = np.broadcast_to(search_result.space.serve.memory_fraction, (len(search_result.space),))
    params = {
        "engine": engine,
        "setting": share,
        "share": max(float(shares[row]) for row, stack in enumerate(search_result.space.stack) if stack.name == engine),
        "devices": int(found.space.tensor[at] * found.space.nodes[at]),
        "accelerator": found.fleet.accelerators[int(found.space.machine[at])].name,
        "total_usd": total,
        "saving_usd": saving,
        "provider": where["provider"],
        "instance_type": where["instance_type"],
        "nodes": int(found.sizing.servers[found.fleet.machine_index[found.market.offers.server_index[row_of.offer]], row_of.node]),
    }
    return (Reason("serve_share_saves" if options else "serve_share_fits", params),)


def _fits_at(search_result: ServingResult, options: tuple[Option, ...], share: float) -> bool:
    """Whether a layout that does not fit would with such a share of each accelerator: any where
    nothing does, else one of fewer accelerators of the first option's kind."""
    space = search_result.space
    shape = (len(space),)
    settable = {row["name"] for row in stack_rows() if row["memory_setting"]}
    visible = serving_columns.visible_bytes(space.device, coefficients=facts.coefficients("operators"))
    would = ~space.fits & (space.safe_bytes + np.broadcast_to(space.serve.graph_bytes, shape) <= share * visible)
    would &= np.array([stack.name in settable for stack in space.stack], dtype=np.bool_)
    if options:
        best, cards = options[0], search_result.fleet.accelerators
        devices = best.layout.tensor * best.layout.pipeline * max(best.layout.expert, 1)
        would &= space.tensor * space.nodes < devices
        would &= np.array([cards[row].name == best.accelerator.name for row in space.machine.tolist()], dtype=np.bool_)
    return bool(would.any())


def quantisation_advice(freed: ServingResult, options: tuple[Option, ...]) -> tuple[Reason, ...]:
    """What the cheapest server with fewer bits would cost, where it saves a tenth or more."""
    row_of = first_row(freed, freed.bits == 0)
    if row_of is None:
        return ()
    offer, column, total = row_of.offer, row_of.node, freed.bill.total_usd
    best = options[0].cost.total_usd
    stack = freed.space.stack[freed.candidate(offer, column)]
    if not total[offer, column] <= best * (1.0 - SAVING_WORTH_SAYING) or stack.format not in format_rows():
        return ()
    row, where = format_rows()[stack.format], freed.market.offers.row(offer)
    params = {
        "format": stack.format,
        "option": row["words"].split("|")[0],
        "monthly_usd": float(total[offer, column]),
        "saving_usd": best - float(total[offer, column]),
        "quality": row["quality"],
        "evidence": row["evidence"],
        "source": row["source"],
        "provider": where["provider"],
        "instance_type": where["instance_type"],
        "nodes": int(freed.sizing.servers[freed.fleet.machine_index[freed.market.offers.server_index[offer]], column]),
    }
    return (Reason("serve_quantise", params),)
