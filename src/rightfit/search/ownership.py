"""Buy or rent: the hardware of a plan's best option, or any card, as one's own against
what it costs to rent."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit import facts
from rightfit.errors import InputError, QuantityError, UnknownNameError
from rightfit.estimation.ownership import MODULES_PER_SERVER, OwnServer, can_be_bought, card_prices, own_server
from rightfit.market.offers import PURCHASES
from rightfit.messages import Message, at_place
from rightfit.records import dataclass
from rightfit.search.answer import Option, Plan, Reason, Section
from rightfit.units import HOURS_PER_MONTH, HOURS_PER_YEAR
from rightfit.workload.vocabulary import read_cards, read_several

if TYPE_CHECKING:
    from rightfit.market import Catalog, OfferTable
    from rightfit.market.priced import PricedCatalog


NEVER = 1.0
#: Cards of a machine at home or in an office, where no number is given.
SMALL_MACHINE = 1
PLACE_WORDS = {"家": "home", "家里": "home", "办公室": "office", "托管": "colocation", "colo": "colocation"}
COMMITTED = ("reserved", "savings", "subscription")
RENT_MODES = ("on-demand", "spot", "reserved-1y", "savings-plan-1y", "reserved-3y", "subscription-1m", "subscription-1y", "subscription-3y")


@dataclass(frozen=True, slots=True)
class Rent:
    """One way to rent as many cards as the own server has.

    By the hour: from which utilisation owning is cheaper (over 1: never), and after how many years
    the rent saved has paid for the server. A commitment is paid for all hours, so only the years
    compare: `rent_year_usd` against `own_year_usd`; its break-even figures are NaN.
    """

    provider: str
    instance_type: str
    region: str
    purchase: str
    usd_per_h: float
    as_of: str
    break_even: float
    break_even_low: float
    break_even_high: float
    payback_years: float
    is_committed: bool
    rent_year_usd: float
    own_year_usd: float


def rents(catalog: Catalog, server: OwnServer, *, cloud: str = "") -> tuple[Rent, ...]:
    """The cheapest offer of each purchase mode for a server with as many of these cards (where
    nobody rents one, for a server with another number, in proportion); of one cloud where named.
    Estimated prices are left out: a purchase should not rest on them."""
    table = catalog.all_offers(has_accelerator=True)
    best: dict[str, tuple[float, int]] = {}
    rows = _rows_of(table, server.accelerator, cloud=cloud)
    cards = table.servers.num_accelerators[table.server_index[rows]]
    price = table.price_usd_per_h[rows] / cards * server.num_cards
    same = cards == server.num_cards
    modes_of_same = set(table.purchase_index[rows[same]].tolist())
    for row, usd, mode, is_same in zip(rows.tolist(), price.tolist(), table.purchase_index[rows].tolist(), same.tolist(), strict=True):
        name = PURCHASES[mode]
        if mode in modes_of_same and not is_same:
            continue
        if name in RENT_MODES and (name not in best or usd < best[name][0]):
            best[name] = (usd, row)
    found = [rent_of(server, table.row(row), usd) for name in RENT_MODES if name in best for usd, row in [best[name]]]
    return tuple(found)


def _rows_of(table: OfferTable, accelerator: str, *, cloud: str) -> Any:
    servers = table.servers
    fits = np.array(
        [
            name == accelerator and count >= 1 and not refused and (not cloud or provider == cloud) and provider != "private"
            for name, count, refused, provider in zip(
                servers.accelerator_name, servers.num_accelerators.tolist(), servers.not_recommended, servers.provider, strict=True
            )
        ],
        dtype=np.bool_,
    )
    return np.flatnonzero(fits[table.server_index] & ~table.is_quarantined & ~table.is_estimate & np.isfinite(table.price_usd_per_h))


def rent_of(server: OwnServer, offer: Mapping[str, Any], usd_per_h: float) -> Rent:
    """One offer against the own server."""
    committed = offer["purchase"].startswith(COMMITTED)
    mid, low, high = (math.nan,) * 3 if committed else server.break_even(usd_per_h)
    hours = HOURS_PER_YEAR * (1.0 if committed else server.utilisation)
    return Rent(
        provider=offer["provider"],
        instance_type=offer["instance_type"],
        region=offer["region"],
        purchase=offer["purchase"],
        usd_per_h=usd_per_h,
        as_of=offer["as_of"],
        break_even=mid,
        break_even_low=low,
        break_even_high=high,
        payback_years=math.nan if committed else server.payback_years(usd_per_h),
        is_committed=committed,
        rent_year_usd=usd_per_h * hours,
        own_year_usd=sum(server.yearly_terms().values()),
    )


def own_content(server: OwnServer, against: tuple[Rent, ...]) -> dict[str, Any]:
    """The comparison for programs, in base units and USD."""
    return {
        "accelerator": server.accelerator,
        "count": server.num_cards,
        "is_part": server.is_part,
        "capex_usd": server.values["capex_usd"],
        **{name: getattr(server, name) for name in ("capex_low_usd", "capex_high_usd", "price_source", "full_w", "utilisation")},
        "yearly_terms": server.yearly_terms(),
        "usd_per_busy_h": server.usd_per_busy_h,
        "rents": [asdict(rent) for rent in against],
        "assumptions": dict(server.values),
        "given": sorted(server.given),
    }


def own_reasons(server: OwnServer, against: tuple[Rent, ...]) -> tuple[Reason, ...]:
    """The comparison in statements: from which utilisation owning pays against each way to rent,
    and what money does not say."""
    found = [Reason("own_hour", {"hour_usd": server.usd_per_busy_h, "share": server.utilisation, **_what(server)})]
    for rent in against:
        key = _key(rent)
        found.append(Reason(key, {**asdict(rent), "rent_usd": rent.usd_per_h, **shares_of(rent)}))
    if server.is_part:
        found.append(Reason("own_part", _what(server)))
    return (*found, Reason("own_security"), Reason("own_elasticity"))


def _key(rent: Rent) -> str:
    if rent.is_committed:
        return "own_year_less" if rent.own_year_usd < rent.rent_year_usd else "own_year_more"
    return "own_pays" if rent.break_even <= NEVER else "own_never"


def shares_of(rent: Rent) -> dict[str, float]:
    """Break-even utilisations as shares that a sentence can name; what is never reached is
    shown as all hours."""
    if rent.is_committed:
        return {"change_share": abs(1.0 - rent.own_year_usd / rent.rent_year_usd)}
    return {
        "break_even_share": min(rent.break_even, NEVER),
        "low_share": min(rent.break_even_low, NEVER),
        "high_share": min(rent.break_even_high, NEVER),
    }


def _what(server: OwnServer) -> dict[str, Any]:
    return {"count": server.num_cards, "accelerator": server.accelerator, "price_usd": server.values["capex_usd"]}


def own_section(plan: Plan, catalog: Catalog, given: Mapping[str, Any] | None = None) -> Section | None:
    """Buy or rent for the hardware of the best option; None where nothing is feasible or
    the card is not sold."""
    best = plan.best
    if best is None or not best.accelerator.name or best.accelerator.count_per_node < 1:
        return None
    if not can_be_bought(best.accelerator.name) and not _for_one_person(plan, best) and "capex_usd" not in (given or {}):
        return Section("own", {"accelerator": best.accelerator.name}, (Reason("own_unsold", {"accelerator": best.accelerator.name}),))
    one = _for_one_person(plan, best)
    if one:  # a desktop that is switched on for these hours
        given = {"utilisation": plan.workload.office_hours / HOURS_PER_MONTH, **(given or {})} if plan.workload.office_hours else given
        server = own_server(one, 1, given, place="home")
    else:
        server = own_server(best.accelerator.name, best.accelerator.count_per_node, given)
    chosen = rent_of(server, _offer_of(best), best.cost.hourly_usd / max(best.nodes, 1))
    against = (chosen, *(rent for rent in rents(catalog, server, cloud=best.provider) if rent.purchase != best.purchase))
    job = own_job(best, server, is_service=plan.workload.task == "serve", office_hours=plan.workload.office_hours)
    reasons = own_reasons(server, against)
    content = {**own_content(server, against), "servers": best.nodes, "job": job}
    return Section("own", content, (reasons[0], Reason("own_job", job), *reasons[1:]))


def _for_one_person(plan: Plan, best: Option) -> str:
    """The cheapest card that somebody who works alone would buy for a service of one GPU: one with
    the memory that it needs and 16 bit arithmetic of today; "" for any other plan."""
    wish = plan.workload
    if wish.task != "serve" or wish.users != 1 or wish.office_hours is None or best.num_accelerators != 1:
        return ""
    need = best.estimate["peak_memory_bytes"].mid / _USABLE_SHARE
    fitting = [
        (price, name)
        for name, price in card_prices().items()
        if facts.accelerators()[name].memory_bytes >= need and facts.accelerators()[name].bf16_flops > 0.0
    ]
    return min(fitting)[1] if fitting else ""


#: Share of a card's memory that a job takes, so that the screen and a larger picture have room.
_USABLE_SHARE = 0.8


def _offer_of(best: Option) -> dict[str, Any]:
    return {
        **{name: getattr(best, name) for name in ("provider", "instance_type", "region", "purchase")},
        "as_of": best.price_as_of,
    }


def own_job(best: Option, server: OwnServer, *, is_service: bool, office_hours: float | None = None) -> dict[str, Any]:
    """The job (of a service: a month) on one's own servers: at the assumed utilisation, a service
    all hours of the month or those of `office_hours`."""
    hours = (office_hours or HOURS_PER_MONTH) if is_service else best.estimate["total_time_s"].mid / 3600.0
    utilisation = hours / HOURS_PER_MONTH if is_service else server.utilisation
    yearly = float(server.cost().total_usd(np.array([utilisation]))[0])
    own_usd = best.nodes * yearly * hours / (HOURS_PER_YEAR * utilisation)
    return {"busy_h": hours, "own_usd": own_usd, "rent_usd": best.cost.total_usd, "purchase_usd": best.nodes * server.values["capex_usd"]}


def own_of(
    target: str,
    *,
    catalog: Catalog,
    count: int | None = None,
    texts: Mapping[str, Mapping[str, Any]] | None = None,
    rent: str | None = None,
    cloud: str | None = None,
    place: str | None = None,
) -> Section:
    """Buy or rent for an accelerator or a server by name.

    `texts`: the user's own figures by kind, {"money": {"capex_usd": "250000usd"}, "share":
    {"utilisation": "60%"}, "number": {"years": 3}}.
    `rent`: compare with this price an hour alone. `place`: home, office, colocation, or a server
    room. Raises InputError for what cannot be read.
    """
    from rightfit.market.names import resolve_provider

    name, cards = _target(target, catalog)
    given = read_figures(texts or {})
    where = read_place(place)
    server = own_server(name, count or (SMALL_MACHINE if where in ("home", "office") and not count else cards), given, place=where)
    provider = resolve_provider(cloud) if cloud else ""
    if rent is not None:
        offer = dict.fromkeys(("region", "as_of"), "") | {
            "provider": "",
            "instance_type": f"{server.num_cards} x {name}",
            "purchase": "given",
        }
        against: tuple[Rent, ...] = (rent_of(server, offer, _usd("rent", rent)),)
    else:
        against = rents(catalog, server, cloud=provider)
    return Section("own", {**own_content(server, against), "place": where or "room"}, own_reasons(server, against))


def read_place(text: str | None) -> str:
    """Where a server of one's own stands; empty for a server room."""
    from rightfit.estimation.ownership import PLACES
    from rightfit.workload.vocabulary import nearest_words

    word = (text or "").strip().casefold()
    if word in ("", "room", "server room", "机房"):
        return ""
    found = PLACE_WORDS.get(word, word)
    if found not in PLACES:
        raise UnknownNameError(
            "place",
            text or "",
            nearest=nearest_words(word, PLACES),
            allowed=Message("names.allowed_words", names=", ".join((*PLACES, "room"))),
            field="place",
        )
    return found


def _target(text: str, catalog: Catalog) -> tuple[str, int]:
    """The accelerator and how many: of a server of the catalog, else eight of the named
    one, as most are sold."""

    servers, loose = catalog.servers(), facts.match_accelerators(text)
    for row, (provider, name) in enumerate(zip(servers.provider, servers.instance_type, strict=True)):
        own_name = f"{provider}/{name}".casefold() == text.casefold() or (not loose and name.casefold() == text.casefold())
        if own_name and servers.accelerator_name[row]:
            return servers.accelerator_name[row], max(1, int(servers.num_accelerators[row]))
    covered = [name for name in loose if can_be_bought(name)] or list(loose)
    if not covered:
        raise UnknownNameError("accelerator or server", text, nearest=facts.nearest_accelerators(text), field="target")
    return max(
        covered, key=lambda name: (name == text, can_be_bought(name), "SXM" in name, facts.accelerators()[name].memory_bytes)
    ), MODULES_PER_SERVER


def read_figures(texts: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Figures of owning as a user writes them, in base units."""
    found: dict[str, float] = {}
    for kind, values in texts.items():
        for name, text in values.items():
            if text is not None:
                found[name] = _READERS[kind](name, text)
    return found


def _usd(name: str, text: Any) -> float:
    from rightfit.units import parse_money
    from rightfit.workload.amounts import to_usd

    try:
        return to_usd(parse_money(str(text)))
    except InputError as error:
        raise QuantityError(at_place(name, error.message), field=name) from None


def _share(name: str, text: Any) -> float:
    plain = str(text).strip()
    try:
        return float(plain.removesuffix("%")) / (100.0 if plain.endswith("%") else 1.0)
    except ValueError:
        raise QuantityError(at_place(name, Message("search.share_unread", text=plain)), field=name) from None


_READERS: Mapping[str, Any] = {"money": _usd, "share": _share, "number": lambda name, value: float(value)}


# ---- A machine that one has already: its cards as a server of the catalog, at what an hour of its
# electricity costs; what it was bought for is spent.


@dataclass(frozen=True, slots=True)
class Machine:
    """`count` cards of one name in one machine, and where it stands (empty: a server room).
    `asked`: the name that was said, where it means several cards and this is the smallest, or
    (`is_server`) the one that servers of so many have."""

    gpu: str
    count: int
    place: str
    asked: str = ""

    @property
    def is_server(self) -> bool:
        """Whether it is a whole server, not a machine of a home or an office."""
        return self.count >= MODULES_PER_SERVER

    @property
    def title(self) -> str:
        """As people write it."""
        return f"{self.count} x {self.gpu}" + (f", {self.place}" if self.place else "")

    @property
    def name(self) -> str:
        """As an instance type."""
        return f"{self.count}x-{self.gpu}" + (f"-{self.place}" if self.place else "")


def read_machine(text: str) -> Machine:
    """ "2x RTX-3090@home", "RTX-4090", "4 A100-SXM-80GB@office". Raises InputError, with
    the nearest cards."""
    said = read_cards(text)
    if several := read_several(text):
        servers, cards, gpu = several
        raise InputError(
            Message("search.have_several", text=text, one=f"{cards}x{gpu}", gpu=gpu, gpus=servers * cards, servers=servers), field="have"
        )
    if said is None:
        raise InputError(Message("search.have_unread", text=text), field="have")
    count, gpu, place = said
    if not count:
        raise InputError(Message("search.have_none", text=text), field="have")
    found = facts.named_accelerators(gpu, field="have")
    boards = tuple(name for name in found if "SXM" in name) if count >= MODULES_PER_SERVER else ()
    return Machine(facts.smallest_accelerator(boards or found), count, read_place(place), gpu if len(found) > 1 else "")


def own_host(catalog: Catalog, machine: Machine) -> tuple[int, float]:
    """Processor threads and host memory [bytes] that a machine of one's own is taken to have:
    beside few cards those of a home or office; of a whole server the lower quartile of rented ones
    with as many of the same card, where there are any."""
    usual, servers = facts.coefficients("planning"), catalog.servers()
    vcpus, memory = int(usual["own_vcpus_per_card"]) * machine.count, float(usual["own_host_bytes_per_card"]) * machine.count
    if machine.is_server:
        same = (servers.num_accelerators == machine.count) & (np.array(servers.accelerator_name) == machine.gpu)
        threads, hosts = (column[same & np.isfinite(column)] for column in (servers.vcpus, servers.memory_bytes))
        vcpus = max(vcpus, int(np.quantile(threads, 0.25))) if threads.size else vcpus
        memory = max(memory, float(np.quantile(hosts, 0.25))) if hosts.size else memory
    return vcpus, memory


def with_machine(
    catalog: Catalog, machine: Machine, *, as_of: str = "", alone: bool = False, usd_per_h: float | None = None, host_bytes: float = 0.0
) -> PricedCatalog:
    """The catalog with the machine in it, as an owned server of the provider `private`, with host
    memory and processors of `own_host`.
    `host_bytes`: host memory instead of that; `alone`: and no other offer, where nothing else is
    asked for; `usd_per_h`: what an hour of it counts as [USD], its electricity where none is
    given."""
    from rightfit.market.price_book import Owned, PriceBook
    from rightfit.market.priced import PricedCatalog

    class Alone(PricedCatalog):
        """Its added offers only."""

        def all_offers(self, *, has_accelerator: bool | None = None) -> OfferTable:
            """The offers of the machine."""
            table = super().all_offers(has_accelerator=has_accelerator)
            mine = np.array([provider == "private" for provider in table.servers.provider], dtype=np.bool_)
            return table.take(np.flatnonzero(mine[table.server_index]))

    vcpus, memory = own_host(catalog, machine)
    entry = Owned(
        name=machine.name,
        gpu=machine.gpu,
        gpus=machine.count,
        vcpus=vcpus,
        memory=host_bytes or memory,
        site=machine.place or "private",
        servers=1,
    )
    date = as_of or datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    book = PriceBook("own machine", date, "usd", {}, {}, (entry,))
    kind = Alone if alone else PricedCatalog
    return kind(catalog, book, own_usd_per_h={machine.name: electricity_usd_per_h(machine) if usd_per_h is None else usd_per_h})


def electricity_usd_per_h(machine: Machine) -> float:
    """Electricity of an hour of work on a machine [USD], at the price and with the
    cooling of the place."""
    from rightfit.estimation.ownership import own_server

    try:
        return float(own_server(machine.gpu, machine.count, place=machine.place).cost().power_usd_per_busy_h[0])
    except InputError:  # no price of the card is known; electricity needs none
        return float(own_server(machine.gpu, machine.count, {"capex_usd": 1.0}, place=machine.place).cost().power_usd_per_busy_h[0])
