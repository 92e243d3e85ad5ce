"""The promises that let the search evaluate on distinct keys, held by the real physics."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import numpy as np
import pytest

from rightfit.families.language.engine import LanguageEngine
from rightfit.families.language.kind import base_setup, fleet_of, space_limits
from rightfit.families.language.wish import read_wish
from rightfit.market import open_catalog
from rightfit.search.offers import open_market
from rightfit.search.training.evaluate import Timer, build_timer, compute_key, memory_of, resolved
from rightfit.search.training.machines import Machines, collapse
from rightfit.search.training.space import Space, build_space
from rightfit.workload import Workload

WORKLOADS = (
    {"model": "meta-llama/Meta-Llama-3-8B", "method": "full", "global_batch": 16, "framework": "nemo"},
    {"model": "meta-llama/Meta-Llama-3-8B", "method": "qlora", "global_batch": 16},
    {"model": "mistralai/Mixtral-8x7B-v0.1", "method": "lora", "global_batch": 16, "framework": "nemo"},
    {"model": "google/flan-t5-xl", "method": "full", "global_batch": 8},
    {"model": "7B", "method": "full", "global_batch": 4, "seq_len": 65_536, "framework": "nemo"},
)


@cache
def _case(number: int) -> tuple[LanguageEngine, Space, Any, Machines]:
    """A few machines of the real market, and every setup that they can run on up to four nodes."""
    wish = read_wish(Workload(data="10Mtok", **WORKLOADS[number]))
    machines = fleet_of(open_market(open_catalog()).offers.servers, wish).machines
    wanted = ("H100-SXM-80GB", "T4", "A10G", "MI300X")
    rows = [
        next(row for row, found in enumerate(machines.accelerators) if found == name and machines.gpus_per_node[row] == count)
        for name in wanted
        for count in sorted(
            set(machines.gpus_per_node[[row for row, found in enumerate(machines.accelerators) if found == name]].tolist())
        )[:2]
    ]
    some = machines.take(np.array(rows, dtype=np.intp))
    space = build_space(space_limits(wish, node_counts=(1, 2, 4)), blocks=some.blocks)
    return LanguageEngine.of(wish.model), space, base_setup(wish, machines.variants), some


def _timer(space: Space, base: Any, machines: Machines, engine: LanguageEngine, machine: Any, setup: Any) -> Timer:
    """The timer of some candidates, made as the search makes it."""
    columns = collapse(space.setups.columns(base))
    return build_timer(columns, compute_key(space.setups), machines, engine, machine=machine, setup=setup)


@pytest.mark.parametrize("number", range(len(WORKLOADS)))
def test_memory_reads_nothing_but_its_key(number: int) -> None:
    engine, space, base, machines = _case(number)
    need = memory_of(space.setups, base, machines, engine)
    columns = space.setups.columns(base)
    assert need.peak_bytes == pytest.approx(engine.memory(columns), rel=1e-12)
    assert need.host_bytes == pytest.approx(engine.host(columns), rel=1e-12)
    for machine in range(len(machines)):
        device = machines.device.take(np.array([machine]))
        safe = (engine.memory(columns) - engine.spared(device)) * engine.safety(columns, device) * resolved()
        assert need.safe_bytes[need.caution[machine]] == pytest.approx(safe, rel=1e-12)


@pytest.mark.parametrize("number", range(len(WORKLOADS)))
def test_compute_reads_nothing_but_its_key(number: int) -> None:
    engine, space, base, machines = _case(number)
    key, size, first = compute_key(space.setups)
    assert size < space.setups.num_rows
    columns = space.setups.columns(base)
    for machine in range(0, len(machines), 3):
        device = machines.device.take(np.array([machine]))
        whole, keyed = engine.compute(columns, device), engine.compute(columns.take(first), device)
        for field in dataclasses.fields(whole):
            direct = np.broadcast_to(getattr(whole, field.name), key.shape)
            gathered = np.broadcast_to(getattr(keyed, field.name), (size,))[key]
            assert gathered == pytest.approx(direct, rel=1e-12), field.name


@pytest.mark.parametrize("number", range(len(WORKLOADS)))
def test_timer_gives_what_the_whole_physics_gives(number: int) -> None:
    engine, space, base, machines = _case(number)
    setup = np.arange(space.setups.num_rows)
    columns = space.setups.columns(base)
    for machine in range(0, len(machines), 3):
        rows = np.full(setup.shape, machine)
        timer = _timer(space, base, machines, engine, rows, setup)
        _, step = engine.details(columns, machines.device.take(rows), machines.links.take(rows))
        assert timer.step_s(rows, setup) == pytest.approx(np.broadcast_to(step.step_s, setup.shape), rel=1e-9)


@pytest.mark.parametrize("number", range(len(WORKLOADS)))
def test_more_recomputation_never_takes_less_time(number: int) -> None:
    engine, space, base, machines = _case(number)
    setup = np.arange(space.setups.num_rows)
    for machine in range(len(machines)):
        rows = np.full(setup.shape, machine)
        step_s = _timer(space, base, machines, engine, rows, setup).step_s(rows, setup).reshape(-1, 3)
        assert (np.diff(step_s, axis=1) >= -1e-9 * step_s[:, :2]).all()
