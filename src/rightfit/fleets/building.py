"""From a fleet and the ways of its workloads to numbers for the optimiser: periods, resources,
choices, and what commitments could be bought."""

from __future__ import annotations

import dataclasses
import fnmatch
import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.fleets.instance import Choice, Demand, Instance, Kind, Layer, Mode, Purchase, Resource, Steady, hourly_level, levels_of, on_of
from rightfit.fleets.packing import Pool, shared_kinds
from rightfit.fleets.reading import Fleet, Job, Owned
from rightfit.fleets.ways import Offer, Way, Ways
from rightfit.market.sellers import Quota, most_at_once
from rightfit.records import dataclass
from rightfit.units import HOURS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.offers import Market
    from rightfit.search.purchase import Mode as Payment

WEEK_H, DAY_H = 168.0, 24.0
PERIODS_H = (1, 2, 3, 4, 6, 8, 12, 24, 48, 72, 168)
#: Jobs up to which time is cut finer, and into how many periods at most.
FEW_JOBS, FINE, COARSE = 120, 168, 84
#: Lengths that a capacity block is sold in [days], how far ahead, and how many at once (see facts:
#: capacity blocks of AWS).
BLOCK_DAYS, BLOCK_AHEAD_DAYS, MOST_BLOCK = (1, 2, 3, 5, 7, 10, 14, 21, 28), 56, 64
#: Servers of a type in a region for which ways to commit are looked at.
COMMITTED_KINDS, MOST_COMMITTED = 12, 512
COMMITTED_WORD, METERED = "committed", "on-demand"


@dataclass(frozen=True, slots=True)
class Limit:
    """Where a resource comes from: a kind (quota, budget, spot_share, stock, owned), its text, and
    which rows of the file."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Built:
    """The numbers, and what they stand for: `limits` of each resource, `owned` (resource -> line of
    the file), `offers` of what can be bought (a server, or a way to cut a card), `pools` of servers
    whose cards are shared."""

    instance: Instance
    limits: tuple[Limit, ...]
    owned: Mapping[int, int]
    horizon_h: float
    months: int
    offers: tuple[Any, ...]
    considered: tuple[Offer, ...]
    pools: tuple[Pool, ...] = ()


def horizon_of(fleet: Fleet, ways: Mapping[str, Ways]) -> float:
    """How far the plan looks [h]: as asked; else to the last deadline, a week at least, and twice
    as far as the longest job without one needs, counted from the end of what it waits for."""
    if fleet.horizon_h is not None:
        return fleet.horizon_h
    ends: dict[str, float] = {}
    left = list(fleet.jobs)
    while left:
        waiting = [job for job in left if any(name not in ends for name in job.after)]
        for job in left:
            if job not in waiting:
                ends[job.name] = _end(job, ends, ways)
        assert len(waiting) < len(left), "jobs that wait for each other are refused when they are read"
        left = waiting
    return math.ceil(max([WEEK_H, *ends.values()]) / DAY_H) * DAY_H


def _end(job: Job, ends: Mapping[str, float], ways: Mapping[str, Ways]) -> float:
    """By when a job should be done [h]: its deadline, else twice the time that it needs."""
    if job.due_h is not None:
        return job.due_h
    ready = max([job.ready_h, *(ends[name] for name in job.after)])
    return ready + 2.0 * min((way.hours for way in ways[job.name].found), default=0.0)


def period_of(horizon_h: float, jobs: int) -> float:
    """Length of a period [h]: the finest that leaves few enough."""
    most = FINE if jobs <= FEW_JOBS else COARSE
    return float(next((length for length in PERIODS_H if horizon_h / length <= most), math.ceil(horizon_h / most / WEEK_H) * WEEK_H))


class Builder:
    """Puts the parts together; resources are numbered as they come."""

    def __init__(
        self, fleet: Fleet, ways: Mapping[str, Ways], *, quotas: Sequence[Quota], market: Market | None, catalog: Catalog | None
    ) -> None:
        self.fleet, self.ways, self.quotas, self.market, self.catalog = fleet, ways, quotas, market, catalog
        self.row_of = {job.name: row for row, job in enumerate(fleet.jobs)}
        self.horizon_h = horizon_of(fleet, ways)
        self.period_h = period_of(self.horizon_h, len(fleet.jobs))
        self.num_periods = math.ceil(self.horizon_h / self.period_h)
        self.resources: list[Resource] = []
        self.limits: list[Limit] = []
        self.months = max(1, math.ceil(self.horizon_h / HOURS_PER_MONTH - 1e-9))
        self.owned_at: dict[int, int] = {}
        self.committed: dict[tuple[str, str, str, str, str], int] = {}
        self.offers: list[Any] = []
        self.pools: list[Pool] = []
        self.considered: list[Offer] = []
        self.purchases: list[Purchase] = []
        self.rates: dict[tuple[str, str], float] = {}

    def built(self) -> Built:
        """Everything."""
        self._limits()
        self._commitments()
        demands = tuple(self._demand(job) for job in self.fleet.jobs)
        shared = shared_kinds(self)
        services = tuple(self._service(service, shared.get(service.name, ())) for service in self.fleet.services)
        instance = Instance(self.period_h, self.num_periods, tuple(self.resources), demands, services, tuple(self.purchases))
        return Built(
            instance,
            tuple(self.limits),
            dict(self.owned_at),
            self.horizon_h,
            self.months,
            tuple(self.offers),
            tuple(self.considered),
            tuple(self.pools),
        )

    # -- resources ---------------------------------------------------------------------------------

    def add(self, name: str, kind: str, unit: str, caps: Any, row_of: Any, limit: Limit) -> int:
        """A resource; its number."""
        self.resources.append(Resource(name, kind, unit, np.asarray(caps, dtype=np.float64), np.asarray(row_of, dtype=np.intp)))
        self.limits.append(limit)
        return len(self.resources) - 1

    def momentary(
        self, name: str, kind: str, unit: str, most: float, limit: Limit, *, since_h: float = 0.0, until_h: float = math.inf
    ) -> int:
        """A resource of which there is as much in each period of a time; its number."""
        begin = np.arange(self.num_periods) * self.period_h
        there = (begin >= since_h - 1e-9) & (begin + self.period_h <= until_h + 1e-9)
        return self.add(name, kind, unit, np.where(there, most, 0.0), np.arange(self.num_periods), limit)

    def _limits(self) -> None:
        fleet = self.fleet
        self.quota_at = [self.momentary(f"quota {one.text}", "quota", one.unit, one.most, Limit("quota", one.text)) for one in self.quotas]
        month = np.minimum((np.arange(self.num_periods) * self.period_h / HOURS_PER_MONTH).astype(np.intp), self.months - 1)
        self.budget_at, self.team_at = None, {}
        if fleet.budget_usd is not None:
            self.budget_at = self.add("budget", "budget", "USD", np.full(self.months, fleet.budget_usd), month, Limit("budget", ""))
        for team, usd in fleet.team_budgets.items():
            self.team_at[team] = self.add(f"budget {team}", "budget", "USD", np.full(self.months, usd), month, Limit("team", team))
        self.spot_at = None
        if fleet.spot_share is not None:
            self.spot_at = self.add(
                "spot share", "spot", "server-periods", np.zeros(1), np.zeros(self.num_periods), Limit("spot_share", "")
            )
        for line, item in enumerate(fleet.owned):
            most = item.usd_per_h if item.kind == "savings-plan" else float(item.count)
            unit = "USD/h" if item.kind == "savings-plan" else "servers"
            at = self.momentary(item.label, "owned", unit, most, Limit("owned", item.label), since_h=item.since_h, until_h=item.until_h)
            self.owned_at[at] = line
        self._stock()

    def _stock(self) -> None:
        """What sellers can be believed to have, where all that might want it
        together could want more."""
        self.stock_at: dict[tuple[str, str, str], int] = {}
        wanted: dict[tuple[str, str, str], float] = {}
        for name, count in [*((job.name, job.count) for job in self.fleet.jobs), *((one.name, 1) for one in self.fleet.services)]:
            most: dict[tuple[str, str, str], float] = {}
            for way in self.ways[name].found:
                if not any(quota_takes(quota, way) for quota in self.quotas):
                    key = (way.provider, way.accelerator, way.purchase)
                    most[key] = max(most.get(key, 0.0), max(way.accelerators, 1.0) * way.servers)
            for key, amount in most.items():
                wanted[key] = wanted.get(key, 0.0) + amount * count
        for key, amount in wanted.items():
            limit = most_at_once(*key)
            if amount > limit:
                text = " ".join(part for part in key if part)
                self.stock_at[key] = self.momentary(
                    f"stock {text}", "stock", "accelerators" if key[1] else "servers", limit, Limit("stock", text)
                )

    # -- loads -------------------------------------------------------------------------------------

    def loads(self, way: Way, servers: float) -> tuple[tuple[int, float], ...]:
        """What so many servers of a way take of quotas, stock and the share of spot."""
        found = []
        for quota, at in zip(self.quotas, self.quota_at, strict=True):
            if amount := quota_takes(quota, way):
                found.append((at, amount * servers))
        key = (way.provider, way.accelerator, way.purchase)
        if key in self.stock_at and not any(quota_takes(quota, way) for quota in self.quotas):
            found.append((self.stock_at[key], max(way.accelerators, 1.0) * servers))
        return (*found, *self._spot(way.purchase, servers))

    def _spot(self, purchase: str, servers: float) -> tuple[tuple[int, float], ...]:
        if self.spot_at is None or self.fleet.spot_share is None:
            return ()
        share = self.fleet.spot_share
        return ((self.spot_at, servers * (1.0 - share) if purchase == "spot" else -servers * share),)

    def _budgets(self, team: str | None) -> tuple[int, ...]:
        own = self.team_at.get(team) if team else None
        return tuple(at for at in (self.budget_at, own) if at is not None)

    def _own(self, way: Way) -> Iterable[tuple[int, Owned]]:
        """Lines of what is owned that could carry a server of a way, also those of one host of
        which it would take some of the cards."""
        for at, line in self.owned_at.items():
            item = self.fleet.owned[line]
            if item.kind != "savings-plan" and (owns(item, way) or share_of_host(item, way) < 1.0):
                yield at, item

    # -- jobs --------------------------------------------------------------------------------------

    def _demand(self, job: Any) -> Demand:
        due = min(job.due_h if job.due_h is not None else self.horizon_h, self.num_periods * self.period_h)
        choices: list[Choice] = []
        seen: set[tuple[int, float]] = set()
        for way in self.ways[job.name].found:
            if way.hours > due - job.ready_h + 1e-9 or (way.purchase == "spot" and not job.interruptible):
                continue
            choices.append(Choice(way, way.total_usd, way.hours, self.loads(way, way.servers)))
            if way.purchase == "spot":
                continue
            for at, item in self._own(way):
                share = way.servers * share_of_host(item, way)
                is_apart = way.servers > 1 and share_of_host(item, way) < 1.0  # of servers that talk to each other
                if (at, share) not in seen and share <= item.count and not is_apart:
                    seen.add((at, share))
                    mine = dataclasses.replace(way, purchase="owned", usd_per_h=0.0, servers_usd=0.0)
                    choices.append(Choice(mine, way.other_usd, way.hours, ((at, share),), is_rented=False))
            choices += self._covered(way)
            choices += self._on_committed(way, self._payer(job.team))
        after = tuple(self.row_of[name] for name in job.after)
        return Demand(job.name, job.count, job.ready_h, due, tuple(choices), 2.0 ** (job.priority - 5), self._budgets(job.team), after)

    def _covered(self, way: Way) -> list[Choice]:
        """The way under a savings plan that is owned."""
        found = []
        for at, line in self.owned_at.items():
            item = self.fleet.owned[line]
            if item.kind == "savings-plan" and item.provider == way.provider and way.purchase == "on-demand":
                rate = self._plan_rate(way)
                mine = dataclasses.replace(way, purchase="owned", usd_per_h=0.0, servers_usd=0.0)
                found.append(
                    Choice(mine, way.other_usd, way.hours, ((at, rate * way.servers), *self.loads(mine, way.servers)), is_rented=False)
                )
        return found

    def _plan_rate(self, way: Way) -> float:
        """What a savings plan is charged for an hour of a server [USD]: its own price, else
        the on-demand price."""
        modes = self.payments(way)
        return next((mode.price_usd_per_h for mode in modes if mode.purchase == "savings-plan-1y"), way.usd_per_h)

    def payers(self, teams: Collection[str | None]) -> tuple[int, ...]:
        """The budgets that pay for what these teams share: that of all, and a team's own where
        there is one team."""
        return self._budgets(next(iter(teams)) if len(teams) == 1 else None)

    def _payer(self, team: str | None) -> str:
        """The team that commitments for its work are charged to; empty where it has no budget of
        its own."""
        return team if team in self.team_at else ""

    def _on_committed(self, way: Way, payer: str) -> list[Choice]:
        """The way on capacity that this plan buys for the same payer."""
        found = []
        for (provider, instance, region, purchase, owner), at in self.committed.items():
            is_block = purchase == "capacity-block"
            is_here = (provider, instance, region, owner) == (way.provider, way.instance_type, way.region, payer)
            if is_here and (is_block or self.fleet.repeats):
                mine = dataclasses.replace(way, purchase=purchase, usd_per_h=0.0, servers_usd=0.0)
                found.append(Choice(mine, way.other_usd, way.hours, ((at, float(way.servers)),), is_rented=False))
        return found

    # -- services ----------------------------------------------------------------------------------

    def _service(self, service: Any, shared: Sequence[Kind] = ()) -> Steady:
        levels = levels_of(service.rates)
        needed = hourly_level(service.rates, levels, start=self.fleet.start, hours=round(self.horizon_h))
        shapes = [on_of(needed, level, period_h=self.period_h, num_periods=self.num_periods) for level in range(len(levels))]
        by_kind: dict[tuple[str, str, str], list[Way]] = {}
        for way in self.ways[service.name].found:
            by_kind.setdefault((way.provider, way.instance_type, way.region), []).append(way)
        kinds = []
        for ways in by_kind.values():
            first = next((way for way in ways if way.purchase.startswith(METERED)), None)
            if first is None:
                continue
            sizes = (*first.levels[: len(levels) - 1], first.servers)
            widths = [sizes[0], *(high - low for low, high in itertools.pairwise(sizes))]
            layers = tuple(Layer(width, on, hours) for width, (on, hours) in zip(widths, shapes, strict=True))
            kinds.append(Kind(first, layers, tuple(self._modes(ways, service)), first.other_usd * self.horizon_h / HOURS_PER_MONTH))
        return Steady(service.name, (*kinds, *shared), 2.0 ** (service.priority - 5), self._budgets(service.team))

    def _modes(self, ways: Sequence[Way], service: Any) -> Iterable[Mode]:
        for way in ways:
            if way.purchase == "spot":
                if service.interruptible:
                    yield Mode(way, way.usd_per_h, self.loads(way, 1.0), 1)
            elif way.purchase.startswith(METERED):  # terms are bought: see _commitments
                yield Mode(way, way.usd_per_h, self.loads(way, 1.0))
        way = next(way for way in ways if way.purchase.startswith(METERED))
        mine = dataclasses.replace(way, purchase="owned", usd_per_h=0.0)
        for at, item in self._own(way):  # replicas answer each on their own, so that each takes its cards
            yield Mode(mine, 0.0, ((at, share_of_host(item, way)),))
        for choice in self._covered(way):
            yield Mode(mine, 0.0, tuple((at, amount / way.servers) for at, amount in choice.loads))
        payer = self._payer(service.team)
        for (provider, instance, region, purchase, owner), at in self.committed.items():
            if (provider, instance, region, owner) == (way.provider, way.instance_type, way.region, payer):
                yield Mode(dataclasses.replace(way, purchase=purchase, usd_per_h=0.0), 0.0, ((at, 1.0),))

    # -- commitments -------------------------------------------------------------------------------

    def payments(self, way: Way) -> Sequence[Payment]:
        """The ways to pay for a server."""
        from rightfit.search.purchase import how_to_buy

        if self.market is None or self.catalog is None:
            return ()
        servers = self.market.offers.servers
        row = next(
            (
                at
                for at, names in enumerate(zip(servers.provider, servers.instance_type, strict=True))
                if names == (way.provider, way.instance_type)
            ),
            None,
        )
        return (
            ()
            if row is None
            else [mode for mode in how_to_buy(self.catalog, self.market, row, region=way.region) if mode.region == way.region]
        )

    def _commitments(self) -> None:
        """Terms and blocks of the servers that cost most: of what services stand on, and of jobs
        where they repeat or a block would do."""
        wanted: dict[tuple[str, str, str, str], tuple[float, Way]] = {}
        users: list[tuple[Any, bool]] = [
            *((one, True) for one in self.fleet.services),
            *((job, self.fleet.repeats) for job in self.fleet.jobs),
        ]
        counts = {job.name: job.count for job in self.fleet.jobs}
        for user, steady in users:
            name, payer = user.name, self._payer(user.team)
            for rank, way in enumerate(way for way in self.ways[name].found if way.purchase == "on-demand"):
                if rank < 3:
                    key = (way.provider, way.instance_type, way.region, payer)
                    usd = (way.servers_usd if steady else way.servers_usd / 2.0) * counts.get(name, 1) / (rank + 1)
                    wanted[key] = (wanted.get(key, (0.0, way))[0] + usd, way)
        for key, (_, way) in sorted(wanted.items(), key=lambda item: -item[1][0])[:COMMITTED_KINDS]:
            payer = key[-1]
            for mode in self.payments(way):
                if not self._may_pay(mode):
                    continue
                if mode.purchase == "capacity-block":
                    self._blocks(way, mode, payer)
                elif mode.is_committed:
                    self._term(way, mode, payer)

    def _term(self, way: Way, mode: Payment, payer: str) -> None:
        offer = self._offer_of(way, mode)
        self.considered.append(offer)
        if (usd := self._share_of_term(way, mode)) is not None:
            self._buy(way, offer, usd, 0, self.num_periods, MOST_COMMITTED, payer)

    def _offer_of(self, way: Way, mode: Payment) -> Offer:
        return Offer(
            *(way.provider, way.instance_type, way.region, mode.purchase, mode.price_usd_per_h, mode.term_h),
            *(way.usd_per_h, mode.as_of, mode.basis, 0.0, self.horizon_h),
        )

    def _share_of_term(self, way: Way, mode: Payment) -> float | None:
        """What a server on a term costs of this plan [USD]: what it owes, shared out over as long
        as the fleet goes on; None where it does not pay."""
        steady = self.fleet.steady_h
        if steady is None or mode.price_usd_per_h >= way.usd_per_h:
            return None
        owed = mode.price_usd_per_h * mode.term_h * math.ceil(steady / mode.term_h - 1e-9)
        return owed * self.horizon_h / max(steady, self.horizon_h)

    def servers_of(self, way: Way) -> list[tuple[Offer, float, bool]]:
        """Ways to have a server for the whole horizon: (offer, USD, whether it is
        paid by the hour)."""
        hourly = Offer(
            *(way.provider, way.instance_type, way.region, "on-demand", way.usd_per_h, self.horizon_h),
            *(way.usd_per_h, way.as_of, "", 0.0, self.horizon_h),
        )
        terms = [
            (self._offer_of(way, mode), usd, False)
            for mode in self.payments(way)
            if mode.is_committed and mode.purchase != "capacity-block" and self._may_pay(mode) and (usd := self._share_of_term(way, mode))
        ]
        return [(hourly, way.usd_per_h * self.horizon_h, True), *terms]

    def _may_pay(self, mode: Payment) -> bool:
        allowed = self.fleet.limits.get("purchase")
        return not allowed or any(mode.purchase.startswith(word) or word in mode.purchase for word in allowed)

    def room(self, label: str, unit: str) -> int:
        """A resource of which there is nothing but what is bought."""
        return self.momentary(label, COMMITTED_WORD, unit, 0.0, Limit(COMMITTED_WORD, label))

    def _blocks(self, way: Way, mode: Payment, payer: str) -> None:
        for days in BLOCK_DAYS:
            for day in range(min(BLOCK_AHEAD_DAYS, int(self.horizon_h // DAY_H) - days + 1)):
                first, last = math.ceil(day * DAY_H / self.period_h), math.floor((day + days) * DAY_H / self.period_h)
                if last <= first:
                    continue
                offer = Offer(
                    *(way.provider, way.instance_type, way.region, mode.purchase, mode.price_usd_per_h, days * DAY_H),
                    *(way.usd_per_h, mode.as_of, mode.basis, day * DAY_H, (day + days) * DAY_H),
                )
                self._buy(way, offer, mode.price_usd_per_h * days * DAY_H, first, last, MOST_BLOCK, payer)

    def _buy(self, way: Way, offer: Offer, usd: float, first: int, last: int, most: int, payer: str) -> None:
        """Offer what can be bought; its money is the payer's, and only the payer's work may stand
        on it."""
        key = (offer.provider, offer.instance_type, offer.region, offer.purchase, payer)
        if key not in self.committed:
            label = f"{offer.purchase} {offer.provider}/{offer.instance_type} {offer.region}" + (f" of {payer}" if payer else "")
            self.committed[key] = self.room(label, "servers")
        mine = dataclasses.replace(way, purchase=offer.purchase)
        budgets = self._budgets(payer or None)
        self.offers.append(offer)
        self.purchases.append(Purchase(offer, self.committed[key], usd, first, last, most, 1.0, self.loads(mine, 1.0), budgets))


def quota_takes(quota: Quota, way: Way) -> float:
    """What one server of a way takes of a quota; 0 where the quota does not speak of it. What is
    owned is counted already."""
    if way.purchase == "owned":
        return 0.0
    speaks = (
        (not quota.providers or way.provider in quota.providers)
        and (not quota.gpus or way.accelerator in quota.gpus)
        and (not quota.types or any(fnmatch.fnmatchcase(way.instance_type.casefold(), name) for name in quota.types))
        and (not quota.regions or way.region in quota.regions)
        and (not quota.countries or way.country in quota.countries)
        and (not quota.purchases or way.purchase in quota.purchases)
    )
    return {"accelerators": way.accelerators, "vcpus": way.vcpus, "servers": 1.0}[quota.unit] if speaks else 0.0


def parts_of_host(item: Owned) -> tuple[int, ...]:
    """Numbers of cards that jobs may take of what is owned: of one host of cards, on which cards
    are alike; of several the sum would not say whether each job finds its cards on one of them."""
    return tuple(number for number in (1, 2, 4) if number < item.gpus_per_server) if item.gpus and item.count == 1 else ()


def share_of_host(item: Owned, way: Way) -> float:
    """The share of a host that a server of a way takes of it: of one of its
    cards, or of all (1)."""
    cards = int(way.accelerators)
    return cards / item.gpus_per_server if way.accelerator in item.gpus and cards in parts_of_host(item) else 1.0


def owns(item: Owned, way: Way) -> bool:
    """Whether servers that are owned can carry a way: the same type and place, or for servers of
    one's own the same cards."""
    if item.region and item.region != way.region and item.instance_type:
        return False
    if item.instance_type:
        return (item.provider, item.instance_type) == (way.provider, way.instance_type)
    return way.accelerator in item.gpus and item.gpus_per_server == way.accelerators
