"""One server type at growing numbers of servers: how time, money and throughput move, each number planned anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.planner.given import estimate_one
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.estimate.figures import Figure
    from rightfit.workload import Workload

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class ScalePoint:
    """`nodes` servers: `time_s` of the job, or the latency of a request of a service; `usd` of the job, or of a month; `requests_per_s` of a service. `gain`: how many
    times the speed (a service: the throughput) of the smallest number that works, and `share` what that is of as many times the servers."""

    nodes: int
    time_s: Figure
    usd: Figure
    requests_per_s: Figure | None
    gain: float
    share: float


def scaling(workload: Workload, *, on: str, catalog: Catalog | None = None) -> tuple[ScalePoint, ...]:
    """A point for each number of servers on which the work runs; empty where it runs on none."""
    found: list[ScalePoint] = []
    for nodes in COUNTS:
        option = estimate_one(workload, on=on, nodes=nodes, catalog=catalog).best
        if option is None:
            if found:
                break  # more of them do not help either
            continue
        time = option.estimate["total_time_s" if "total_time_s" in option.estimate else "latency_s"]
        requests = None if "total_time_s" in option.estimate else option.estimate.get("requests_per_s")
        first = found[0] if found else None
        gain = 1.0
        if first is not None:
            gain = requests.mid / first.requests_per_s.mid if requests and first.requests_per_s else first.time_s.mid / time.mid
        found.append(ScalePoint(nodes, time, option.cost.total, requests, gain, gain * (first.nodes if first else nodes) / nodes))
    return tuple(found)
