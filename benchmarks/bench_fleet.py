"""How fast the optimiser of fleets is, how near its bound, and how much memory it takes, on
synthetic offers of fixed seeds.

    python benchmarks/bench_fleet.py [--quick]

Targets: 1,000 jobs x 300 offers x 3 ways to pay within 10 s; 3,000 jobs within 60 s at a gap of 1
%; 200 services + 800 jobs over a week within 60 s; predictions of 1,000 distinct workloads within
120 s on two cores; memory under 2 GB. Each line is also told as a ratio to the first, which a busy
machine moves less than the seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import resource
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

CASES: dict[str, dict[str, Any]] = {
    "100 jobs x 50 offers x 3": {"jobs": 100, "offers": 50, "periods": 42, "limits": 50},
    "1,000 jobs x 300 offers x 3": {"jobs": 1000, "offers": 300, "periods": 42, "limits": 300},
    "3,000 jobs x 300 offers x 3": {"jobs": 3000, "offers": 300, "periods": 42, "limits": 300},
    "200 services + 800 jobs, a week": {"jobs": 800, "offers": 100, "periods": 84, "limits": 100, "services": 200, "period_h": 2.0},
}
SECONDS = 120.0  # to think; what is told is what it took


def synthetic() -> Any:
    """The random fleets of the tests."""
    spec = importlib.util.spec_from_file_location("synthetic", ROOT / "tests/fleets/synthetic.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bench_solver(cases: list[str]) -> None:
    """Seconds, gap and memory of each case."""
    from rightfit.fleets.instance import faults
    from rightfit.fleets.solver import solve

    make, first = synthetic(), 0.0
    for name in cases:
        case = CASES[name]
        instance = make.instance(1, modes=3, keep=60, tight=0.02 if not case.get("services") else 1.0, **case)
        began, used = time.perf_counter(), time.process_time()
        found = solve(instance, seconds=SECONDS)
        wall, processor = time.perf_counter() - began, time.process_time() - used
        first = first or processor
        greedy = "-" if found.greedy_usd is None else f"{found.greedy_usd / found.plan.cost_usd - 1.0:+.1%}"
        sound = "sound" if not faults(instance, found.plan) else "BROKEN"
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        print(
            f"{name:32s} {wall:7.1f} s ({processor:6.1f} s of a core, {processor / first:6.1f} x)  gap {found.gap:8.3%}  list scheduling {greedy:>7s}  "
            f"missing {found.plan.missing:.0f}  {memory:5.2f} GB  {sound}"
        )


def bench_searches(count: int) -> None:
    """Searches of distinct workloads, in processes."""
    from rightfit.fleets.ways import asked, ways_of

    wish = {"model": "meta-llama/Meta-Llama-3-8B", "method": "qlora"}
    questions = [asked({**wish, "data": f"{10 + number}Mtok", "seq_len": 512 * (1 + number % 8)}) for number in range(count)]
    began = time.perf_counter()
    found = ways_of(questions)
    wall = time.perf_counter() - began
    assert all(ways.found for ways in found.values())
    print(f"{count} distinct workloads searched in {wall:.1f} s: {1000 * wall / count:.0f} s for 1,000")


def main() -> None:
    """All cases, or the small ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small cases alone")
    options = parser.parse_args()
    bench_solver(list(CASES)[:2] if options.quick else list(CASES))
    bench_searches(40 if options.quick else 200)


if __name__ == "__main__":
    main()
