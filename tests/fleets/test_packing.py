"""Parts of cards: layouts by the vendor's placement table, services that share cards for less
money, jobs on some cards of a host, and a checker that sees what is wrong."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import itertools
import re
import types
from typing import Any

import numpy as np
import pytest

from rightfit.facts import accelerators
from rightfit.facts.devices import placement_of
from rightfit.facts.tables import table
from rightfit.fleets.building import Builder, parts_of_host
from rightfit.fleets.instance import card_faults, faults
from rightfit.fleets.packing import layouts
from rightfit.fleets.reading import Fleet, Job, Owned, Service, read_fleet
from rightfit.fleets.result import host_cards, shared_servers
from rightfit.fleets.solver import solve
from rightfit.fleets.ways import Part, Way, Ways

A100, HOUR_USD = "A100-SXM-80GB", 4.0
PROFILES = {"1g": 1, "2g": 2, "3g": 4}


def way(**values: Any) -> Way:
    usual: dict[str, Any] = {
        "provider": "aws", "instance_type": "box", "region": "here", "country": "US", "purchase": "on-demand", "servers": 1, "hours": 0.0,
        "usd_per_h": HOUR_USD, "other_usd": 1.0, "servers_usd": 0.0, "accelerator": A100, "accelerators": 1.0, "vcpus": 8.0, "as_of": "2026-11-01",
        "levels": (1,),
    }  # fmt: skip
    return Way(**{**usual, **values})


def fleet(services: list[Service] | None = None, jobs: list[Job] | None = None, owned: list[Owned] | None = None) -> Fleet:
    empty = read_fleet({"start": "2026-12-01", "horizon": "1w", "services": [{"name": "x", "workload": {"model": "7B"}, "demand": "1/s"}]})
    start = datetime.datetime(2026, 12, 1)
    return dataclasses.replace(empty, start=start, services=tuple(services or ()), jobs=tuple(jobs or ()), owned=tuple(owned or ()))


def planned(fleet_: Fleet, ways: dict[str, Ways]) -> Any:
    """As much of a plan as parts of cards need."""
    built = Builder(fleet_, ways, quotas=(), market=None, catalog=None).built()
    solved = solve(built.instance, gap=1e-9)
    assert faults(built.instance, solved.plan) == []
    return types.SimpleNamespace(fleet=fleet_, built=built, solved=solved, ways=ways)


def shared(slices: list[tuple[str, int]], **values: Any) -> Any:
    """A plan of services of which each may have a server of its own or so many slices."""
    services = [Service(f"s{row}", {}, (1.0,), 5, False, None, "mig") for row in range(len(slices))]
    whole = way(instance_type="own-box", **values)
    parts = {f"s{row}": Ways((whole,), parts=(Part(way(**values), name, count),)) for row, (name, count) in enumerate(slices)}
    return planned(fleet(services), parts)


def fits(sizes: tuple[str, ...], taken: frozenset[int] = frozenset()) -> bool:
    """Whether slices stand on one card together, by trying every place of the table."""
    if not sizes:
        return True
    starts = {"1g": range(7), "2g": (0, 2, 4), "3g": (0, 4)}[sizes[0]]
    for start in starts:
        mine = frozenset(range(start, start + PROFILES[sizes[0]]))
        if not mine & taken and fits(sizes[1:], taken | mine):
            return True
    return False


def least_cards(sizes: tuple[str, ...]) -> int:
    """The least number of cards that hold all slices, by trying every division of them."""
    if not sizes:
        return 0
    best, rest = len(sizes), range(1, len(sizes))
    for size in range(len(sizes)):
        for others in itertools.combinations(rest, size):
            if fits((sizes[0], *(sizes[at] for at in others))):
                left = tuple(sizes[at] for at in rest if at not in others)
                best = min(best, 1 + least_cards(left))
    return best


def test_layouts_are_those_of_the_placement_table() -> None:
    found = {tuple(sorted(slot for slot, _ in one)) for one in layouts(A100, ["1g", "2g", "3g"])}
    wanted = {
        sizes
        for number in range(1, 8)
        for sizes in itertools.combinations_with_replacement(("1g", "2g", "3g"), number)
        if fits(sizes) and not any(fits(tuple(sorted((*sizes, more)))) for more in PROFILES)
    }
    assert found == wanted
    assert ("3g", "3g") in found
    assert ("1g",) * 7 in found
    assert sorted(len(one) for one in layouts("A30", ["1g", "2g"])) == [2, 3, 4]
    assert layouts("A10G", ["1g"]) == []


def test_fractions_and_slices_never_share_a_card() -> None:
    found = layouts(A100, ["1g", "0.5", "0.25"])
    assert {tuple(sorted(name for name, _ in one)) for one in found} == {
        ("1g",) * 7, ("0.5", "0.5"), ("0.25", "0.25", "0.5"), ("0.25",) * 4,
    }  # fmt: skip


def test_every_profile_of_a_card_has_its_placement() -> None:
    seen = 0
    for row in table("card_slices"):
        for card in (name for name in accelerators() if re.fullmatch(row["cards"], name)):
            place = placement_of(card, row["profile"])
            assert place is not None, (card, row)
            assert len(place.starts) == int(row["per_card"]), (card, row)
            assert place.size / place.places == float(row["memory_share"]), (card, row)
            seen += 1
    assert seen > 40


@pytest.mark.parametrize("seed", range(40))
def test_as_few_cards_as_trying_everything(seed: int) -> None:
    dice = np.random.default_rng(seed)
    slices = [(str(dice.choice(list(PROFILES))), int(dice.integers(1, 3))) for _ in range(int(dice.integers(2, 5)))]
    plan = shared(slices)
    servers = sum(row["servers"] for row in shared_servers(plan))
    alone = sum(
        kind.is_part is False for kind in (plan.built.instance.services[one.service].kinds[one.kind] for one in plan.solved.plan.picked)
    )
    best = min(
        least_cards(tuple(name for at in chosen for name in [slices[at][0]] * slices[at][1])) + len(slices) - len(chosen)
        for number in range(len(slices) + 1)
        for chosen in itertools.combinations(range(len(slices)), number)
    )
    assert servers + alone == best
    needed = {
        f"s{one.service}": sum(count for *_, count in one.parts)
        for one in plan.solved.plan.picked
        if plan.built.instance.services[one.service].kinds[one.kind].is_part
    }
    assert card_faults(shared_servers(plan), needed) == []


def test_four_models_on_one_card_cost_less_than_four_servers() -> None:
    plan = shared([("1g", 1), ("1g", 1), ("2g", 1), ("2g", 1)])
    (row,) = shared_servers(plan)
    assert row["servers"] == 1
    assert plan.solved.plan.cost_usd < plan.solved.own_best_usd / 3.0
    assert plan.solved.plan.cost_usd == pytest.approx(HOUR_USD * 168 + 4 * 168 / 730, rel=1e-3)
    assert {one["service"] for card in row["cards"] for one in card["slices"]} >= {"s0", "s1", "s2", "s3"}


def test_servers_of_several_cards_are_filled_card_by_card() -> None:
    plan = shared([("3g", 2), ("3g", 2), ("3g", 1)], accelerators=4.0, usd_per_h=16.0)
    (row,) = shared_servers(plan)
    assert row["servers"] == 1
    assert [(card["server"], card["card"]) for card in row["cards"]] == [(0, 0), (0, 1), (0, 2)]
    assert sum(bool(one["service"]) for card in row["cards"] for one in card["slices"]) == 5


def test_one_service_alone_shares_with_nobody() -> None:
    assert shared([("1g", 1)]).built.pools == ()


def test_the_checker_sees_what_is_wrong() -> None:
    row = shared_servers(shared([("2g", 1), ("3g", 1)]))[0]
    needed = {"s0": 1, "s1": 1}
    assert card_faults([row], needed) == []

    def broken(**values: Any) -> list[str]:
        wrong = copy.deepcopy(row)
        wrong["cards"][0]["slices"][0] |= values
        return card_faults([wrong], needed)

    first = row["cards"][0]["slices"][0]
    assert any("cannot begin" in one for one in broken(start=first["start"] + 1))
    assert any("over another" in one for one in broken(start=row["cards"][0]["slices"][-1]["start"], size=first["size"]))
    assert any("of its memory" in one for one in broken(memory_share=0.9))
    assert any("slices, needs" in one for one in broken(service="s9"))
    assert any("no such card" in one for one in card_faults([{**row, "servers": 0}], needed))
    assert any("no such card" in one for one in card_faults([{**row, "cards": row["cards"] * 2}], {"s0": 2, "s1": 2}))
    assert any("fractions" in one for one in broken(slice="1/4", start=0, size=1, places=4, memory_share=0.25))


# -- cards of a host -------------------------------------------------------------------------------

HOST = Owned("own", "", "", (A100,), 8, 1, "", 0.0, 0.0, 168.0, "8xA100")


def test_jobs_share_the_cards_of_one_host() -> None:
    """Eight jobs of one card and two of four: a host of eight carries them in two turns, where
    whole servers would take ten."""
    jobs = [Job("small", {}, 8, 0.0, 24.0, 5, True, None), Job("large", {}, 2, 0.0, 24.0, 5, True, None)]
    ways = {
        "small": Ways((way(hours=10.0, servers_usd=40.0, levels=()),)),
        "large": Ways((way(hours=10.0, servers_usd=160.0, accelerators=4.0, levels=()),)),
    }
    plan = planned(fleet(jobs=jobs, owned=[HOST]), ways)
    assert {plan.built.instance.demands[one.demand].choices[one.choice].way.purchase for one in plan.solved.plan.placed} == {"owned"}
    cards = host_cards(plan)
    assert sum(len(found) for found in cards.values()) == 10
    instance, busy = plan.built.instance, set()
    for number, one in enumerate(plan.solved.plan.placed):
        choice = instance.demands[one.demand].choices[one.choice]
        assert len(cards[number]) == one.count
        for mine in cards[number]:
            assert len(mine) == int(choice.way.accelerators)
            for card, period in itertools.product(mine, range(one.start, one.start + instance.length(choice))):
                assert 0 <= card < 8
                assert (card, period) not in busy
                busy.add((card, period))


def test_several_hosts_in_one_line_are_taken_whole() -> None:
    assert parts_of_host(HOST) == (1, 2, 4)
    assert parts_of_host(dataclasses.replace(HOST, count=2)) == ()
    assert parts_of_host(dataclasses.replace(HOST, gpus=(), instance_type="p4d.24xlarge", provider="aws")) == ()
