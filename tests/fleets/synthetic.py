"""Random fleets in numbers, without a catalog: for the optimiser's tests and its benchmark."""

from __future__ import annotations

import numpy as np

from rightfit.fleets.instance import Choice, Demand, Instance, Kind, Layer, Mode, Purchase, Resource, Steady


def instance(
    seed: int,
    *,
    jobs: int = 6,
    offers: int = 4,
    modes: int = 2,
    services: int = 0,
    periods: int = 6,
    limits: int = 2,
    purchases: int = 0,
    period_h: float = 4.0,
    keep: int | None = None,
    tight: float = 1.0,
    count: int = 3,
    waits: float = 0.0,
) -> Instance:
    """A random fleet: log-normal work and prices, capacities that bind here and there."""
    dice = np.random.default_rng(seed)
    order = np.random.default_rng(seed + 1_000_000)
    resources = []
    for row in range(limits):
        resources.append(
            Resource(
                f"quota {row}", "quota", "servers", np.full(periods, float(dice.integers(1, 3 + int(tight * jobs / 2)))), np.arange(periods)
            )
        )
    owned = len(resources)
    on = (np.arange(periods) >= dice.integers(0, 2)) & (np.arange(periods) < periods - dice.integers(0, 2))
    resources.append(Resource("owned", "owned", "servers", np.where(on, float(dice.integers(0, 3)), 0.0), np.arange(periods)))
    budget = len(resources)
    half = (np.arange(periods) * 2 // periods).astype(np.intp)
    resources.append(Resource("budget", "budget", "USD", np.full(2, float(dice.integers(60, 400)) * jobs * tight), half))
    bought = len(resources)
    if purchases:
        resources.append(Resource("committed", "committed", "servers", np.zeros(periods), np.arange(periods)))
    price = dice.lognormal(1.0, 0.6, offers)
    speed = price ** dice.uniform(0.5, 1.2, offers)
    factor = np.array([1.0, 0.45, 0.8])[:modes]
    demands = []
    for row in range(jobs):
        work = float(dice.lognormal(1.6, 0.7))
        found = []
        for offer in range(offers):
            nodes = int(dice.integers(1, 3))
            hours = float(np.clip(work / speed[offer] / nodes**0.9, 0.1, None))
            for mode in range(modes):
                loads = [(offer % limits, float(nodes))] if limits and dice.random() < 0.7 else []
                found.append(
                    Choice(
                        (offer, mode),
                        price[offer] * factor[mode] * nodes * hours * (1 + 0.1 * mode),
                        hours * (1 + 0.1 * mode),
                        tuple(loads),
                    )
                )
            if offer == 0:
                found.append(Choice((offer, "owned"), 0.0, hours, ((owned, float(nodes)),), is_rented=False))
                if purchases:
                    found.append(Choice((offer, "committed"), 0.0, hours, ((bought, float(nodes)),)))
        if keep is not None:
            found = sorted(found, key=lambda choice: choice.cost_usd)[:keep]
        ready = float(dice.uniform(0, periods * period_h / 3))
        due = ready + float(dice.uniform(0.3, 1.0)) * (periods * period_h - ready)
        demands.append(
            Demand(
                f"job {row}",
                int(dice.integers(1, count + 1)),
                ready,
                due,
                tuple(found),
                2.0 ** int(dice.integers(0, 3)),
                (budget,) if row % 2 else (),
                tuple(before for before in range(row) if order.random() < waits),
            )
        )
    items = tuple(
        Purchase(("commit", 0), bought, price[0] * 0.5 * periods * period_h, 0, periods, 3, 1.0, (), (budget,)) for _ in range(purchases)
    )
    return Instance(
        period_h,
        periods,
        tuple(resources),
        tuple(demands),
        tuple(_service(dice, row, price, resources, limits, owned, periods, period_h) for row in range(services)),
        items,
    )


def _service(dice, row, price, resources, limits, owned, periods, period_h):  # type: ignore[no-untyped-def]
    kinds = []
    low, high = np.ones(periods, dtype=np.bool_), np.arange(periods) % 3 == 0
    for offer in range(min(3, len(price))):
        base, peak = int(dice.integers(1, 3)), int(dice.integers(0, 3))
        layers = (Layer(base, low, periods * period_h), Layer(peak, high, float(high.sum()) * period_h))
        modes = (
            Mode((offer, "od"), float(price[offer]), ((offer % limits, 1.0),) if limits else ()),
            Mode((offer, "spot"), float(price[offer]) * 0.4, (), 1),
            Mode((offer, "owned"), 0.0, ((owned, 1.0),)),
        )
        kinds.append(Kind(offer, layers, modes, float(dice.uniform(0, 5))))
    return Steady(f"service {row}", tuple(kinds), 4.0, ())
