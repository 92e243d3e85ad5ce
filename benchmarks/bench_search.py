"""How fast the search is: a warm plan over the real catalog, candidates per second, the cost curve
from 10^4 to 10^7, peak memory.

    python benchmarks/bench_search.py [--repeats 7] [--largest 1e7]

Every figure is the median of the repeats, wall clock and processor time, on
whatever machine runs it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable

import numpy as np

from rightfit.families.language.engine import LanguageEngine
from rightfit.families.language.kind import base_setup, fleet_of, space_limits
from rightfit.families.language.wish import read_wish
from rightfit.market import open_catalog
from rightfit.planner.plan import plan
from rightfit.search.offers import known_host_bytes, open_market
from rightfit.search.training.evaluate import search_setups
from rightfit.search.training.space import build_space
from rightfit.workload import Workload

WORKLOADS = (
    ("QLoRA of Llama-3-8B", {"model": "meta-llama/Meta-Llama-3-8B", "method": "qlora", "data": "50Mtok"}),
    ("LoRA of Llama-3-8B", {"model": "meta-llama/Meta-Llama-3-8B", "method": "lora", "data": "50Mtok"}),
    ("full fine-tuning of Llama-3-8B", {"model": "meta-llama/Meta-Llama-3-8B", "method": "full", "data": "50Mtok"}),
    ("QLoRA of Llama-3-70B", {"model": "meta-llama/Meta-Llama-3-70B", "method": "qlora", "data": "50Mtok"}),
    ("training of Llama-3-70B", {"model": "meta-llama/Meta-Llama-3-70B", "task": "train", "data": "1Gtok"}),
    ("full fine-tuning of BERT", {"model": "bert-base-uncased", "method": "full", "data": "50Mtok"}),
)


def timed(call: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median wall and processor seconds of a call, after one that warms up."""
    call()
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls), statistics.median(cpus)


def peak_mib() -> float:
    """Peak resident memory of this process so far [MiB]."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def plans(repeats: int) -> None:
    """Warm plans over the whole catalog."""
    print(
        f"{'warm plan':34}{'candidates':>12}{'timed':>10}{'offers x ways':>15}{'wall ms':>9}{'cpu ms':>8}{'M cand./s':>11}{'peak MiB':>10}"
    )
    for name, options in WORKLOADS:
        workload = Workload(**options)
        counts = plan(workload).counts
        wall, cpu = timed(lambda workload=workload: plan(workload), repeats)
        rate = counts.candidates / wall / 1e6
        row = f"{name:34}{counts.candidates:12,}{counts.timed:10,}{counts.covered:15,}"
        print(f"{row}{wall * 1e3:9.0f}{cpu * 1e3:8.0f}{rate:11.2f}{peak_mib():10.0f}")


def curve(largest: float, repeats: int) -> None:
    """The same evaluation on tables from 10^4 candidates on: the market's machine classes, fewer or
    several times over."""
    market = open_market(open_catalog())
    wish = read_wish(Workload(**dict(WORKLOADS[2][1])))
    machines = fleet_of(market.offers.servers, wish).machines
    space = build_space(space_limits(wish), blocks=machines.blocks)
    base, engine = base_setup(wish, machines.variants), LanguageEngine.of(wish.model)
    host = known_host_bytes(market.offers.servers)
    whole = int(space.counts[space.block(machines.variant, machines.gpus_per_node)].sum())
    print(f"\n{'candidates':>12}{'timed':>12}{'wall ms':>9}{'cpu ms':>8}{'M cand./s':>11}{'M timed/s':>11}{'peak MiB':>10}")
    size = 1e4
    while size <= largest * 1.01:
        count = max(1, round(size / whole * len(machines)))
        spread = np.linspace(0, max(count, len(machines)), count, endpoint=False)
        some = machines.take(spread.astype(np.intp) % len(machines))
        best = search_setups(space, some, base, engine, tokens=wish.amount.tokens, host_memory=host)
        wall, cpu = timed(
            lambda some=some: search_setups(space, some, base, engine, tokens=wish.amount.tokens, host_memory=host), max(1, repeats // 2)
        )
        rates = f"{best.num_candidates / wall / 1e6:11.2f}{best.num_timed / wall / 1e6:11.2f}"
        print(f"{best.num_candidates:12,}{best.num_timed:12,}{wall * 1e3:9.0f}{cpu * 1e3:8.0f}{rates}{peak_mib():10.0f}")
        size *= 10**0.5


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--largest", type=float, default=1e7)
    options = parser.parse_args()
    plans(options.repeats)
    curve(options.largest, options.repeats)


if __name__ == "__main__":
    main()
