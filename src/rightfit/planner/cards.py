"""Which models fit a card (or several in one machine), and by which method: each usual model is
searched for on a machine with these cards alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import InputError, RightfitError, UnknownNameError
from rightfit.families.registry import settled
from rightfit.market.offers import OfferFilter, OfferTable
from rightfit.messages import Message, cause
from rightfit.planner.plan import WAIT, default_catalog, search
from rightfit.planner.too_small import LIGHTER, beside, lacking_memory, lighter_rented
from rightfit.records import dataclass
from rightfit.search.advice import month_of_task
from rightfit.search.answer import Assumption, Option, Plan, Reason, Section
from rightfit.search.criteria import CRITERIA
from rightfit.search.ownership import Machine, own_host, read_machine, with_machine
from rightfit.search.service.wish import LATENCY_LIMITS
from rightfit.units import GB, PFLOPS
from rightfit.workload import Workload
from rightfit.workload.vocabulary import nearest_words

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.service.found import ServingResult


SERVE, TUNE = "serve", "finetune"
#: The host beside the card is assumed, not told: it refuses nothing here.
HOST_BITS = sum(1 << CRITERIA.index(name) for name in ("host_memory", "host_cpus"))
#: Ways to use a model, by task: the name of each and its wishes. Nothing is offloaded: a card that
#: needs that does not hold the model.
WAYS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "language": {
        "serve_16": {"task": "batch", "quantization": "none", "data": "1000samples"},
        "serve_4": {"task": "batch", "quantization": "int4", "data": "1000samples"},
        "qlora": {"task": TUNE, "method": "qlora", "offload": "none", "data": "1Mtok"},
        "lora": {"task": TUNE, "method": "lora", "offload": "none", "data": "1Mtok"},
        "full": {"task": TUNE, "method": "full", "offload": "none", "data": "1Mtok"},
    },
    "pictures": {
        "serve_16": {"task": "batch", "data": "100images"},
        "lora": {"task": TUNE, "method": "lora", "offload": "none", "data": "1kimages", "global_batch": "1"},
        "full": {"task": TUNE, "method": "full", "offload": "none", "data": "1kimages", "global_batch": "1"},
    },
}


@dataclass(frozen=True, slots=True)
class Fit:
    """Whether a model fits `count` cards of a name in one machine, used in one way (a key of WAYS);
    with nine in ten, as in a plan."""

    gpu: str
    count: int
    model: str
    way: str
    fits: bool


def fits_of(machine: Machine, *, task: str = "", catalog: Catalog | None = None) -> tuple[Fit, ...]:
    """Every usual model in every way of a task (empty: of all). A larger model of the same kind
    than one that does not fit is not tried."""
    allowed = ("", SERVE, TUNE)
    if allowed.count(task) == 0:
        near = nearest_words(task, (SERVE, TUNE), count=1)
        raise UnknownNameError("task", task, nearest=near, allowed=Message("names.allowed_words", names=f"{SERVE}, {TUNE}"), field="task")
    found = []
    for kind, ways in WAYS.items():
        # A model that draws fits on one card or not at all: more of them are copies.
        one = dataclasses.replace(machine, count=1) if kind == "pictures" else machine
        priced = with_machine(catalog or default_catalog(), one, alone=True, usd_per_h=1.0)  # what it costs is not asked
        names = sorted((row["model"] for row in facts.table("fit_models") if row["kind"] == kind), key=parameters)
        for way in ways:
            if not task or (task == SERVE) == way.startswith(SERVE):
                found += list(_of_way(machine, names, way, ways[way], priced))
    return tuple(found)


def parameters(model: str) -> float:
    """Parameters of a bundled model."""
    record: Any = facts.model(model)
    return float(getattr(record, "params_total", None) or getattr(record, "params", 0.0) or 0.0)


def _of_way(machine: Machine, names: list[str], way: str, wishes: Mapping[str, str], catalog: Catalog) -> Iterator[Fit]:
    fits = True
    for name in names:
        fits = fits and _fits(name, {**wishes, "gpu": machine.gpu}, catalog)  # named, so that its own software stack counts
        yield Fit(machine.gpu, machine.count, name, way, fits)


def _fits(model: str, wishes: Mapping[str, str], catalog: Catalog) -> bool:
    try:
        found = search(Workload(model=model, cloud="private", purchase="owned", **wishes), catalog=catalog)
    except RightfitError:
        return False
    return bool(np.any(found.bits & ~HOST_BITS == 0))


# ---- A plan on the machine that one has, against the best that can be rented.


def plan_on_own(workload: Workload, have: str, plan: Callable[..., Plan], catalog: Catalog, **asked: Any) -> Plan:
    """The plan on the machine alone, with a section `rental`: what the best rental would take and
    cost. Where the machine does not do it, the plan is that of rentals, and its advice says so."""
    machine = read_machine(have)
    if _is_without_load(workload):
        return _alone(plan_on_own(workload.with_changes(users=1), have, plan, catalog, **asked))
    # named, so that its own software stack counts
    mine = workload.with_changes(gpu=(machine.gpu,), cloud=("private",), purchase=("owned",))
    own = plan(mine, catalog=with_machine(catalog, machine), **asked)
    if any(one.why.key == "assumed_by_qlora" for one in own.assumptions):
        workload = workload.with_changes(method="qlora")  # the rental beside it is of the same job
    narrower: tuple[Reason, ...] = ()
    host = own_host(catalog, machine)[1]
    own = _within_unsaid(
        own, mine, lambda wish, ram: plan(wish, catalog=with_machine(catalog, machine, host_bytes=ram), **asked), host_bytes=host
    )
    is_too_small = own.best is None and mine.task == SERVE and (first := _refused(own)) and first.criterion == "quota"
    for change in _that_do(mine, _LESS, with_machine(catalog, machine, alone=True)) if is_too_small else ():
        less = plan(mine.with_changes(**change), catalog=with_machine(catalog, machine), **asked)
        if less.best is not None:  # worked out in full a service may need more than the search told
            own, narrower = less, (Reason("own_with_less", {"machine": machine.title, "change": _as_options(change)}),)
            break
    rented = plan(workload.with_changes(gpu=()), catalog=catalog, **asked)
    assumed = (*_smallest(machine), *_host(machine, host))
    own, rented = (dataclasses.replace(one, assumptions=(*assumed, *one.assumptions)) for one in (own, rented))
    own = dataclasses.replace(own, options=tuple(_needing_ram(one, host) for one in own.options))
    if own.best is None:
        alone = with_machine(catalog, machine, alone=True)
        why = lacking_memory(machine, mine, catalog, search, key="own_does_not_gap") or _not_on_own(machine, own, workload)
        if why.key == "own_too_few":
            why = _with_fewer(why, mine, alone)
        lighter = _lighter(mine, lambda wish: plan(wish, catalog=with_machine(catalog, machine, host_bytes=host), **asked))
        lighter = lighter or lighter_rented(workload.with_changes(gpu=()), lambda wish: plan(wish, catalog=catalog, **asked))
        return dataclasses.replace(rented, advice=(why, *lighter, *rented.advice))
    if rented.best is None:
        return own
    instead = Reason("rent_instead" + month_of_task(workload.task), beside(rented.best))
    section = Section("rental", {"option": rented.best.to_dict()}, (*narrower, instead))
    return dataclasses.replace(own, sections=(section, *own.sections))


def _is_without_load(workload: Workload) -> bool:
    """Whether nobody said how much a text model is asked: on one's own machine one asks alone."""
    if workload.task != SERVE or workload.users or workload.rate_per_s is not None or workload.profile or workload.trace:
        return False
    return settled(workload)[0].name == "serving"


def _alone(found: Plan) -> Plan:
    """The plan with its one user as what it is: assumed. One user's own machine needs no spare."""
    told = Assumption("users", 1, Reason("assumed_own_user", {"value": 1}))
    options = tuple(
        dataclasses.replace(
            one,
            facts={**one.facts, "assumed": (*one.facts["assumed"], "users")},
            warnings=tuple(why for why in one.warnings if why.key != "serve_single"),
        )
        for one in found.options
    )
    return dataclasses.replace(found, options=options, assumptions=(told, *found.assumptions))


def _lighter(mine: Workload, plan: Callable[[Workload], Plan]) -> tuple[Reason, ...]:
    """The nearest lighter way to fine-tune that the machine does where the one that was named is
    too much for it, with its time and cost; nothing where it does none."""
    for method in LIGHTER.get(mine.method or "", ()) if mine.task == "finetune" else ():
        try:
            best = plan(mine.with_changes(method=method)).best
        except RightfitError:  # not a way to train this model
            continue
        if best is not None:
            return (Reason("own_by_lighter", {"method": method, "change": f"--method {method}", **beside(best)}),)
    return ()


def _needing_ram(option: Option, host_bytes: float) -> Option:
    """An option on the machine, with what it needs of RAM where that is over half of what the
    machine is taken to have."""
    need = option.estimate.get("host_memory_bytes")
    if need is None or need.high80 <= host_bytes / 2.0 or option.purchase != "owned":
        return option
    told = Reason("own_host_ram", {"needed_bytes": need.mid, "most_bytes": need.high80, "had_bytes": host_bytes})
    return dataclasses.replace(option, warnings=(told, *option.warnings))


def _smallest(machine: Machine) -> tuple[Assumption, ...]:
    """That the smallest of several cards of a name is taken, of a server's the usual modules."""
    if not machine.asked:
        return ()
    others = ", ".join(name for name in facts.match_accelerators(machine.asked) if name != machine.gpu)
    key = "assumed_modules" if machine.is_server and "SXM" in machine.gpu else "assumed_smallest_card"
    why = Reason(key, {"asked": machine.asked, "value": machine.gpu, "others": others})
    return (Assumption("have", machine.gpu, why),)


def _host(machine: Machine, host_bytes: float) -> tuple[Assumption, ...]:
    """How much host memory a server is taken to have."""
    if not machine.is_server:
        return ()
    why = Reason("assumed_own_host", {"limit_bytes": host_bytes, "num_cards": machine.count, "gpu": machine.gpu})
    return (Assumption("have", machine.name, why),)


#: A machine has up to so many times the host memory that it is taken to have, where nobody says it.
_AMPLE_HOST = 2.0

#: How long somebody waits at their own machine, where nobody says it.
_PATIENT = "2min"


def _within_unsaid(own: Plan, mine: Workload, plan: Callable[[Workload, float], Plan], *, host_bytes: float) -> Plan:
    """The plan on the machine without what nobody said: host memory that it is taken to have, and
    how soon people must be answered, refuse nothing: one waits as long as it takes, several twice
    the usual time, which is told."""
    ram, lifted, waits = 0.0, set[str](), list[Assumption]()
    while own.best is None and (refused := _refused(own)):
        if refused.criterion == "host_memory" and not ram:
            ram = _AMPLE_HOST * host_bytes
        elif (
            mine.task == SERVE
            and refused.criterion in LATENCY_LIMITS
            and refused.criterion not in lifted
            and getattr(mine, f"{refused.criterion}_s", None) is None
        ):
            lifted.add(refused.criterion)
            usual_s = min(float(refused.needed), float(refused.had))
            mine = mine.with_changes(**{refused.criterion: _PATIENT if mine.users == 1 else f"{WAIT * usual_s:g}s"})
            if mine.users != 1:
                now_s = float(getattr(mine, f"{refused.criterion}_s"))
                told = Reason("assumed_serve_wait", {"value": now_s, "usual_s": usual_s, "option": refused.criterion})
                waits.append(Assumption(refused.criterion, now_s, told))
        else:
            break
        own = plan(mine, ram)
    return dataclasses.replace(own, assumptions=(*waits, *own.assumptions)) if own.best else own


def _refused(own: Plan) -> Any:
    """What stands in the way of the machine first."""
    found = [one for one in own.rejected if one.example.startswith("private/")]
    return next((one for one in found if one.criterion != "quota"), next(iter(found), None))  # there is one such machine


def _not_on_own(machine: Machine, own: Plan, workload: Workload) -> Reason:
    """Why the machine does not do it: what stands in its own way, not in that of the rentals that
    were left out beside it; of a limit that nobody stated, how to state one."""
    first = _refused(own)
    if first is None:
        return Reason("own_does_not", {"machine": machine.title, "criterion": "gpu_memory"})
    if first.criterion == "quota":  # of one's own machine: how many of it there are
        return Reason("own_too_few", {"machine": machine.title, "number": first.needed, "count": first.had})
    told = {"machine": machine.title, "criterion": first.criterion, "needed": first.needed, "had": first.had}
    if first.criterion == "host_memory":  # nobody said how much it has
        return Reason("own_does_not_ram", {**told, "each_limit_bytes": float(first.had) / machine.count})
    if first.criterion in LATENCY_LIMITS and getattr(workload, f"{first.criterion}_s", None) is None:
        return Reason("own_does_not_assumed", {**told, "option": first.criterion})
    return Reason("own_does_not_gap", told)


#: Weights that one gives way to where one's machine is too small for a service, the nearest to 16
#: bits first, and how long one waits: what serves soon with fewer bits goes before what waits.
_FEWER_BITS = ("fp8", "int4", "gguf-q4-k-m")
_WAITS: tuple[Mapping[str, str], ...] = ({}, {"ttft": "10s"}, {"ttft": "20s", "tpot": "200ms"})
_LESS: tuple[Mapping[str, str], ...] = tuple(
    {**bits, **wait} for wait in _WAITS for bits in ({}, *({"quantization": name} for name in _FEWER_BITS)) if bits or wait
)


def _with_fewer(why: Reason, mine: Workload, alone: Catalog) -> Reason:
    """The refusal of a service with about the most users whom the machine serves, else with the
    weights that it does hold."""
    if mine.task != SERVE:
        return why
    change = _fewer_users(mine, alone)
    if not change and mine.quantization:
        smaller = ({"quantization": name} for name in _FEWER_BITS)
        change = _as_options(next(_that_do(mine.with_changes(quantization=None), smaller, alone), {}))
    return Reason("own_too_few_unless", {**why.params, "change": change}) if change else why


def _fewer_users(mine: Workload, alone: Catalog) -> str:
    """About the most users whom the machine serves, as an option; "" where it serves none."""
    halves = [int(mine.users or 0) >> step for step in range(1, 6)]
    return _as_options(next(_that_do(mine, [{"users": str(users)} for users in halves if users], alone), {}))


def _that_do(mine: Workload, wishes: Iterable[Mapping[str, str]], alone: Catalog) -> Iterator[Mapping[str, str]]:
    """Of some changes of what nobody said those with which the machine alone does it by the
    search."""
    said = {name for name in ("quantization", *LATENCY_LIMITS) if getattr(mine, name if name == "quantization" else f"{name}_s", None)}
    for wish in wishes:
        try:
            does_it = not said & wish.keys() and bool((search(mine.with_changes(**wish), catalog=alone).bits == 0).any())
        except RightfitError:  # the model has no such weights, or the wish no such limit
            continue
        if does_it:
            yield wish


def _as_options(change: Mapping[str, str]) -> str:
    return " ".join(f"--{name} {value}" for name, value in change.items())


# ---- Performance for money: every server's price over its arithmetic, its memory, and the tokens
# of a model that it works off.

SORTS = ("usd_per_pflop", "usd_per_gb_vram", "usd_per_mtok")
_CORPUS_TOKENS = 1e9  # large enough that starting up does not matter


def value_rows(
    catalog: Catalog, offer_filter: OfferFilter, *, keep: Sequence[bool] | None = None, sort: str, model: str = ""
) -> list[dict[str, Any]]:
    """One record for each server type at its cheapest sound offer within the
    filter, best value first.

    usd_per_pflop: USD an hour for 10^15 dense 16-bit operations a second at the peak;
    usd_per_gb_vram: USD an hour for 10^9 bytes of accelerator memory;
    usd_per_mtok: USD for a million tokens of `model` in batch inference, by the same engine as
    `plan`. Servers whose figure is unknown are left out.
    """
    if sort not in SORTS:
        raise UnknownNameError("sort order", sort, allowed=Message("names.allowed_words", names=", ".join(SORTS)), field="sort")
    if sort == "usd_per_mtok" and not model:
        raise InputError(Message("planner.sort_without_model"), field="model")
    offers = catalog.offers(offer_filter)
    rows = cheapest_rows(offers)
    tokens = tokens_usd(catalog, model, offer_filter) if model else {}
    records = [_record(offers, row, tokens) for row in rows if keep is None or keep[int(offers.server_index[row])]]
    known = [record for record in records if record[sort] is not None]
    return sorted(known, key=lambda record: (record[sort], record["provider"], record["instance_type"]))


def cheapest_rows(offers: OfferTable) -> list[int]:
    """Of each server with an accelerator the cheapest offer; an estimate only where
    nothing is quoted."""
    able = np.flatnonzero(np.isfinite(offers.price_usd_per_h) & (offers.servers.num_accelerators[offers.server_index] > 0))
    order = able[np.lexsort((offers.price_usd_per_h[able], offers.is_estimate[able]))]
    _, first = np.unique(offers.server_index[order], return_index=True)
    return [int(row) for row in order[first]]


def _record(offers: OfferTable, row: int, tokens: dict[tuple[str, str], float]) -> dict[str, Any]:
    offer, servers, server = offers.row(row), offers.servers, int(offers.server_index[row])
    card = facts.accelerators().get(servers.accelerator_name[server])
    count, price = float(servers.num_accelerators[server]), offer["price_usd_per_h"]
    flops = count * max(card.bf16_flops, card.fp16_flops) if card else 0.0
    memory = count * float(np.nan_to_num(servers.accelerator_memory_bytes[server]))
    names = ("provider", "instance_type", "region", "purchase", "price_usd_per_h", "as_of", "source", "is_estimate", "is_stale")
    return {
        **{name: offer[name] for name in names},
        "accelerator_name": servers.accelerator_name[server],
        "num_accelerators": count,
        "flops": flops or None,
        "vram_bytes": memory or None,
        "usd_per_pflop": price / (flops / PFLOPS) if flops else None,
        "usd_per_gb_vram": price / (memory / GB) if memory else None,
        "usd_per_mtok": tokens.get((offer["provider"], offer["instance_type"])),
    }


def tokens_usd(catalog: Catalog, model: str, offer_filter: OfferFilter) -> dict[tuple[str, str], float]:
    """USD for a million tokens (prompts and answers) of batch inference on each server type, at its
    cheapest offer within the filter."""
    from rightfit.planner.plan import search
    from rightfit.workload import Workload

    filters = {
        "cloud": offer_filter.providers,
        "region": offer_filter.regions,
        "country": offer_filter.countries,
        "gpu": offer_filter.gpus,
        "purchase": offer_filter.purchases,
    }
    wishes: dict[str, Any] = {name: list(value) for name, value in filters.items() if value}
    found: ServingResult = search(Workload(model=model, task="batch", data=f"{_CORPUS_TOKENS:.0f}tok", **wishes), catalog=catalog)
    total = np.where(found.bits == 0, found.bill.total_usd, np.inf).min(axis=1)
    work = found.wish.requests * (found.wish.input_tokens + found.wish.output_tokens)
    out: dict[tuple[str, str], float] = {}
    servers = found.market.offers.servers
    for row in np.flatnonzero(np.isfinite(total)).tolist():
        server = int(found.market.offers.server_index[row])
        key = (servers.provider[server], servers.instance_type[server])
        out[key] = min(out.get(key, np.inf), float(total[row]) * 1e6 / work)
    return out


def save_plot(records: Sequence[dict[str, Any]], path: str, *, sort: str) -> None:
    """Price an hour against what it buys, one dot a server type, both axes logarithmic; the front
    of best value is named. Needs matplotlib (extra `plot`)."""
    from rightfit.errors import MissingComponentError

    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingComponentError(Message("planner.no_matplotlib")) from None
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    bought = {"usd_per_pflop": ("flops", PFLOPS, "dense 16-bit PFLOP/s"), "usd_per_gb_vram": ("vram_bytes", GB, "accelerator memory, GB")}
    key, unit, words = bought.get(sort, ("usd_per_mtok", 1.0, "USD per million tokens"))
    points = [(record["price_usd_per_h"], record[key] / unit, record) for record in records if record[key]]
    figure, axes = plt.subplots(figsize=(8, 5.5))
    for card in dict.fromkeys(record["accelerator_name"].split("-")[0] for _, _, record in points):
        chosen = [(price, gain) for price, gain, record in points if record["accelerator_name"].split("-")[0] == card]
        axes.scatter(*zip(*chosen, strict=True), s=12, label=card)
    for price, gain, record in points[:5]:
        axes.annotate(f"{record['provider']}/{record['instance_type']}", (price, gain), fontsize=7)
    axes.set(xscale="log", yscale="log", xlabel="USD per hour", ylabel=words)
    axes.legend(fontsize=6, ncols=3)
    figure.tight_layout()
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(Message("planner.plot_unwritten", path=path, error=cause(error)), field="plot") from None
    finally:
        plt.close(figure)
