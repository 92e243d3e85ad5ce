"""What Prometheus reads of a server: requests, how long they took, answers kept, work that waits."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import prometheus_client as prometheus
from prometheus_client import multiprocess

if TYPE_CHECKING:
    from rightfit.rest.work import Workshop

#: Several processes write their counts into files of this folder, so that any of them can tell the sum.
SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_BOUNDS_S = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The counts of one application."""

    def __init__(self, workshop: Workshop) -> None:
        registry = prometheus.CollectorRegistry()
        self._registry, self._workshop = registry, workshop
        labels = ("method", "route", "status")
        self._requests = prometheus.Counter("rightfit_requests", "Requests answered.", labels, registry=registry)
        self._seconds = prometheus.Histogram(
            "rightfit_request_seconds", "Time from the request to the end of its answer.", ("route",), buckets=_BOUNDS_S, registry=registry
        )
        self._cache = prometheus.Counter(
            "rightfit_answers", "Answers given from memory (hit) or worked out (miss).", ("cache",), registry=registry
        )
        mode: Any = {"multiprocess_mode": "livesum"}
        self._waiting = prometheus.Gauge("rightfit_answers_waiting", "Answers being worked out or waited for.", registry=registry, **mode)
        self._kept = prometheus.Gauge("rightfit_cache_bytes", "Bytes of answers kept in memory.", registry=registry, **mode)
        self._seen = {"hit": 0, "miss": 0}

    def count(self, *, method: str, route: str, status: int, seconds: float) -> None:
        """One request was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        self._follow()

    def _follow(self) -> None:
        shop = self._workshop
        for name, now in (("hit", shop.hits), ("miss", shop.misses)):
            self._cache.labels(name).inc(now - self._seen[name])
            self._seen[name] = now
        self._waiting.set(shop.waiting)
        self._kept.set(shop.cache.size_bytes)

    def text(self) -> bytes:
        """Everything in the text format of Prometheus."""
        self._follow()
        if os.environ.get(SHARED_FOLDER_VARIABLE):
            together = prometheus.CollectorRegistry()
            multiprocess.MultiProcessCollector(together)
            return bytes(prometheus.generate_latest(together))
        return bytes(prometheus.generate_latest(self._registry))


def known_route(path: str, routes: Iterable[str]) -> str:
    """The route of a path as a label: its pattern, so that ids do not become labels."""
    parts = path.split("/")
    for route in routes:
        pattern = route.split("/")
        if len(pattern) == len(parts) and all(one == other or one.startswith("{") for one, other in zip(pattern, parts, strict=True)):
            return route
    return "other"
