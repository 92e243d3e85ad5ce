"""Usual limits that no server keeps give way: a service never fails on a default that its user did not say."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from rightfit.search.answer import Assumption, Reason
from rightfit.search.service.grid import capacity
from rightfit.search.service.wish import LATENCIES, ServingWish, usual

if TYPE_CHECKING:
    from rightfit.search.service.grid import ReplicaGrid
    from rightfit.search.service.space import ServingSpace


def widened(wish: ServingWish, space: ServingSpace, grid: ReplicaGrid) -> ServingWish:
    """The wish with each latency limit that was assumed, and that no candidate keeps even for a request alone, at `wide_limit` times the
    time of the fastest."""
    assumed = [name for name in LATENCIES if getattr(wish.workload, f"{name}_s") is None and np.isfinite(getattr(wish.limits, f"{name}_s"))]
    usable = np.flatnonzero(space.fits)
    if not assumed or not usable.shape[0]:
        return wish
    alone = capacity(grid, wish.limits)
    for name in assumed:
        limit, least = getattr(wish.limits, f"{name}_s"), float(getattr(alone, f"alone_{name}_s")[usable].min())
        if np.isfinite(least) and least > limit:
            wish = _with_limit(wish, name, usual_s=limit, limit_s=float(usual()["wide_limit"]) * least)
    return wish


def _with_limit(wish: ServingWish, name: str, *, usual_s: float, limit_s: float) -> ServingWish:
    told = Assumption(name, limit_s, Reason("assumed_serve_latency_wide", {"value": limit_s, "usual_s": usual_s}))
    others = tuple(one for one in wish.assumptions if one.field != name)
    changed: dict[str, float] = {f"{name}_s": limit_s}
    return dataclasses.replace(wish, limits=dataclasses.replace(wish.limits, **changed), assumptions=(*others, told))
