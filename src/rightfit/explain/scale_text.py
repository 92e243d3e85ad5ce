"""Growing numbers of servers in words: the table, and the sentence that says how far more of them pay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.planner.scaling import ScalePoint

#: From how little more speed for as many times the servers on more of them are called poor.
_POOR = 0.7


def scale_table(points: Sequence[ScalePoint], lang: Lang, *, currency: str) -> Table:
    """A line for each number of servers."""
    is_service = any(point.requests_per_s for point in points)
    records = [
        {
            "scale_nodes": point.nodes,
            "scale_latency" if is_service else "scale_time": q.duration_text(point.time_s.mid, lang),
            "interval80": f"{q.duration_text(point.time_s.low80, lang)} – {q.duration_text(point.time_s.high80, lang)}",
            "scale_month" if is_service else "scale_cost": q.money_text(point.usd.mid, currency),
            "requests": q.plain(point.requests_per_s.mid) if point.requests_per_s else "",
            "capacity" if is_service else "gain": f"{point.gain:.2f} ×",
            "of_ideal": q.percent_text(point.share),
        }
        for point in points
    ]
    names = ("scale_nodes", "scale_latency" if is_service else "scale_time", "interval80", "scale_month" if is_service else "scale_cost")
    more = ("requests", "capacity", "of_ideal") if is_service else ("gain", "of_ideal")
    return Table(tuple(Column(name, right=True) for name in (*names, *more)), records, title=label("scale", "title", lang))


def scale_line(points: Sequence[ScalePoint], lang: Lang) -> str:
    """How far more servers pay."""
    if len(points) < 2:
        return label("scale", "only" if points else "none", lang, nodes=points[0].nodes if points else 0)
    if points[0].requests_per_s is not None:
        last, first = points[-1], points[0]
        times = {"slow": q.duration_text(first.time_s.mid, lang), "fast": q.duration_text(last.time_s.mid, lang)}
        return label("scale", "service", lang, nodes=last.nodes, gain=f"{last.gain:.3g}", first=first.nodes, **times)
    good = [point for point in points if point.share >= _POOR]
    last = good[-1]
    extra = q.percent_text(last.usd.mid / points[0].usd.mid - 1)
    key = "all" if last is points[-1] else "until"
    return label("scale", key, lang, nodes=last.nodes, share=q.percent_text(last.share), extra=extra, first=points[0].nodes)
