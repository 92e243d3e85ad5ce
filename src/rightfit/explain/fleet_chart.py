"""The calendar of a fleet as SVG text that takes the colours of the page around it: one bar a placement, one row a job or service. No library."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from rightfit.explain.fleet_text import paid_text, server_text
from rightfit.explain.messages import Lang, say

_ROW, _LEFT, _WIDTH, _TOP, _BOTTOM, _MOST = 20, 190, 760, 34, 30, 80
#: How strongly a bar is drawn by how it is paid: what is owned darkest, spot lightest.
_STRENGTH = {"owned": 1.0, "capacity-block": 0.85, "on-demand": 0.55, "spot": 0.3}
_COMMITTED = 0.85
_HOURS_PER_DAY = 24.0


def calendar_svg(found: Mapping[str, Any], lang: Lang) -> str:
    """The chart: rows by name in the order of the document's calendar, days across; every bar has its server and way to pay as a title."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    by_start = sorted(found["placements"], key=lambda row: (row["kind"] == "job", row["start_h"], row["name"]))
    for row in by_start:
        rows.setdefault(row["name"], []).append(row)
    names = list(rows)[:_MOST]
    horizon = max(float(found["horizon_h"]), 1.0)
    height = _TOP + _ROW * len(names) + _BOTTOM
    scale = (_WIDTH - _LEFT - 10) / horizon
    title = say("fleet.chart_title", lang, name=found["name"])
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="11">',
        f'<text x="4" y="16" font-size="13" fill="currentColor">{escape(title)}</text>',
    ]
    days = horizon / _HOURS_PER_DAY
    step = next(step for step in (1, 2, 7, 14, 28, 91, 182, 365) if days / step <= 16 or step == 365)
    for day in range(0, int(days) + 1, step):
        x = _LEFT + day * _HOURS_PER_DAY * scale
        out.append(f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{height - _BOTTOM}" stroke="currentColor" stroke-opacity="0.15"/>')
        out.append(f'<text x="{x:.1f}" y="{height - _BOTTOM + 14}" text-anchor="middle" fill="currentColor">{day}</text>')
    for number, name in enumerate(names):
        y = _TOP + number * _ROW
        out.append(f'<text x="{_LEFT - 6}" y="{y + 13}" text-anchor="end" fill="currentColor">{escape(name[:30])}</text>')
        out += [_bar(row, y, scale, lang) for row in rows[name]]
    out.append(
        f'<text x="{_WIDTH - 10}" y="{height - 4}" text-anchor="end" fill="currentColor">{escape(say("fleet.chart_days", lang, start=found["start"][:10]))}</text>'
    )
    return "\n".join([*out, "</svg>", ""])


def _bar(row: Mapping[str, Any], y: int, scale: float, lang: Lang) -> str:
    x, width = _LEFT + row["start_h"] * scale, max((row["end_h"] - row["start_h"]) * scale, 1.5)
    told = (
        f"{row['name']}: {row['count']} x {server_text(row, lang)} {row['region']}, {paid_text(row, lang)}, {row['start']} - {row['end']}"
    )
    strength = _STRENGTH.get(row["purchase"], _COMMITTED)
    colour = f'fill="currentColor" fill-opacity="{strength}"'
    return f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2" {colour}><title>{escape(told)}</title></rect>'
