"""Figures of services with their intervals: as sure as predictions of such models are."""

from __future__ import annotations

import numpy as np

from rightfit.estimate.figures import Figure
from rightfit.estimate.serving_intervals import serving_interval
from rightfit.search.service.wish import ServingWish

TABLE = "table"


def doubts_of(wish: ServingWish) -> float:
    """Inputs of a wish that are not known but typical: the model's shape; how often drafts are accepted or prompts found again."""
    guessed = wish.extras.acceptance_low > 0 or (wish.extras.hit_share > 0 and wish.workload.cache_hits is None)
    return float(getattr(wish.model, "certainty", "exact") == "typical") + float(guessed)


def service_figure(metric: str, value: float, *, doubts: float, modality: str = "") -> Figure:
    """One figure by the name of its metric; `modality` of a model of one pass."""
    if modality == TABLE:
        return _table_figure(metric, value, doubts=doubts)
    return serving_interval(metric, np.array([value]), doubts=np.array([doubts]), modality=modality).row(0)


def _table_figure(metric: str, value: float, *, doubts: float) -> Figure:
    """A figure of a service of a classical model: as sure as predictions of such models on machines of other people."""
    from rightfit.estimate.classical_intervals import classical_interval

    known = "peak_ram_gib" if metric == "peak_mem_gib" else "predict_time_s"
    return classical_interval(known, np.array([value]), doubts=np.array([doubts]), gpu=False).row(0)
