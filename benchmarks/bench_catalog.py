"""How fast the catalog is: first build, queries over every bundled price, and a refresh that lays
500,000 rows over it.

    python benchmarks/bench_catalog.py [--rows 500000]

Targets: first build under 3 s; filter, sort and the first 50 under 5 ms warm; the refresh under 30
s and 300 MB. The refresh is the real one (gathering rows, judging them, history, new generation,
new store with all its checks); only the network is left out.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

ROUNDS = 30
MODES = ("on-demand", "spot", "reserved-1y", "reserved-3y", "savings-plan-1y")


def timed(work: Callable[[], object], *, rounds: int = 1) -> float:
    """Median seconds of one round."""
    spans = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        spans.append(time.perf_counter() - began)
    return statistics.median(spans)


def bench_queries() -> None:
    """First build, opening, and questions that a user asks."""
    from rightfit.market import OfferFilter, open_catalog

    print(f"first build              {timed(lambda: open_catalog().close()):8.2f} s")
    print(f"open again               {timed(lambda: open_catalog().close(), rounds=ROUNDS) * 1e3:8.2f} ms")
    catalog = open_catalog()
    every = OfferFilter(has_accelerator=None)
    questions = {
        "all, by price": lambda: catalog.prices(every),
        "all, by price per vCPU": lambda: catalog.prices(every, sort="price_per_vcpu"),
        "one cloud on demand": lambda: catalog.prices(OfferFilter(providers=("azure",), purchases=("on-demand",), has_accelerator=None)),
        "H100 in the US, per GPU": lambda: catalog.prices(OfferFilter(gpus=("H100-SXM-80GB",), countries=("US",)), sort="price_per_gpu"),
        "name holds m5, newest": lambda: catalog.prices(every, name="m5", sort="date", descending=True),
    }
    for name, question in questions.items():
        question()
        print(f"{name:24s} {timed(question, rounds=ROUNDS) * 1e3:8.2f} ms of {len(catalog.all_offers(has_accelerator=None)):,} prices")
    catalog.close()


def write_rows(path: Path, count: int) -> None:
    """`count` prices of Azure, Google and AWS: each known type in each region by each mode,
    near its real price."""
    from rightfit.market import OfferFilter, open_catalog

    catalog = open_catalog()
    wanted = OfferFilter(providers=("azure", "gcp", "aws"), has_accelerator=None, include_slices=True, include_not_recommended=True)
    table = catalog.offers(wanted)
    servers, listed = table.servers, table.take(table.purchase_index == 0)
    base = dict(zip(listed.server_index.tolist(), listed.price_usd_per_h.tolist(), strict=True))
    regions = {
        name: [region.region for region in catalog.regions() if region.provider == name and region.country] for name in wanted.providers
    }
    rows = (
        f"{servers.provider[server]},{servers.instance_type[server]},{region},{mode},{price * (1 - 0.1 * place) * (1 + 0.001 * number):.8f}\n"
        for server, price in base.items()
        for number, region in enumerate(regions[servers.provider[server]])
        for place, mode in enumerate(MODES)
    )
    with path.open("w") as stream:
        stream.writelines(itertools.islice(rows, count))


def bench_refresh(path: Path) -> None:
    """The whole refresh of a file of rows in this process, and the most memory it took."""
    from rightfit.market import refresh
    from rightfit.market.providers import azure
    from rightfit.market.providers.base import PriceRow

    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

    class Source:
        name, covers, source, needs = "azure", ("azure", "gcp", "aws"), "benchmark", azure.PROVIDER.needs

        def parts(self, known: object) -> list[str]:
            return ["all"]

        def fetch(self, client: object, part: str, *, known: object) -> Iterator[object]:
            with path.open() as stream:
                for line in stream:
                    *key, price = line.rstrip().split(",")
                    yield PriceRow(*key, float(price))

    refresh.providers.provider = lambda name: source  # type: ignore[assignment]
    source = Source()
    limits = refresh.refresh_rules()
    limits["quarantined"]["highest_share"] = 1.0  # made-up prices of other modes need not look like a market
    refresh.refresh_rules = lambda: limits
    began = time.perf_counter()
    (outcome,) = refresh.refresh(["azure"])
    span = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"refresh of {outcome.prices:,} rows ({outcome.status}, {outcome.changed:,} changed): {span:.1f} s, peak memory {peak:.0f} MB (before: {resident:.0f} MB)"
    )
    if outcome.message:
        print(f"  {outcome.message}")


def main() -> None:
    """Both benchmarks, each in a process and a folder of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=500_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RIGHTFIT_CACHE_DIR"] = folder
        path = Path(folder) / "rows.csv"
        for work in (bench_queries, lambda: write_rows(path, rows), lambda: bench_refresh(path)):
            sys.stdout.flush()
            process = os.fork()
            if not process:
                work()
                sys.stdout.flush()
                os._exit(0)
            os.waitpid(process, 0)


if __name__ == "__main__":
    main()
