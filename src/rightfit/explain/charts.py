"""Charts of an answer as SVG text that takes the colours of the page around it. Drawn by matplotlib (extra `plot`); without it there is no
chart."""

from __future__ import annotations

import importlib.util
import io
import re
import warnings
from typing import TYPE_CHECKING, Any

from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.quantities import plain
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_HOUR, currency_sign
from rightfit.workload.money import from_usd

if TYPE_CHECKING:
    from rightfit.search.answer import Option, Plan

_INK, _ACCENT = "#010203", "#040506"  # stand-ins that the finished text replaces, so that a chart follows the light or dark of its page
_WIDE_RANGE = 8.0
_PROLOGUE = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Point:
    """One option in the plane of time and money, in seconds and US dollars, with its 80 % intervals."""

    rank: int
    name: str
    time_s: float
    time_low_s: float
    time_high_s: float
    cost_usd: float
    cost_low_usd: float
    cost_high_usd: float


def has_charts() -> bool:
    """Whether the library that draws charts is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def points(plan: Plan) -> tuple[Point, ...]:
    """The ranked options as points: hours and total of a job, latency of a request and month of a service."""
    return tuple(_point(option) for option in plan.options)


def _point(option: Option) -> Point:
    time = option.estimate[("total_time_s" if "total_time_s" in option.estimate else "latency_s")]
    cost = option.cost.total
    # A service pays by the month: its total is that of a month, with the doubt of the total.
    month = getattr(option.cost, "monthly_usd", None)
    factor = 1.0 if month is None or not cost.mid else month / cost.mid
    bounds = (time.mid, time.low80, time.high80, cost.mid * factor, cost.low80 * factor, cost.high80 * factor)
    return Point(option.rank, f"{option.provider}/{option.instance_type}", *bounds)


def options_svg(plan: Plan, lang: Lang) -> str:
    """Cost against time, one dot an option with its 80 % intervals and its rank; "" where there is nothing to compare or nothing to draw
    with."""
    shown = points(plan)
    if len(shown) < 2 or not has_charts():
        return ""
    monthly = "total_time_s" not in plan.options[0].estimate
    currency = plan.workload.currency
    words = {
        "x": label("report", "latency_s" if monthly else "time_h", lang),
        "y": label("report", "month" if monthly else "total", lang, sign=currency_sign(currency)),
    }
    return _drawn(shown, words, time_unit=1.0 if monthly else SECONDS_PER_HOUR, rate=from_usd(1.0, currency))


def _drawn(shown: tuple[Point, ...], words: dict[str, str], *, time_unit: float, rate: float) -> str:
    # The object interface of matplotlib: no global state, so that a notebook's own plots and a server's threads stay as they are.
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "rightfit", "font.size": 9}), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # a font that lacks Chinese only matters where text is drawn as paths; here the reader's fonts are used
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        _plot(axes, shown, time_unit=time_unit, rate=rate)
        _style(axes, words)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(buffer.getvalue())


def _plot(axes: Any, shown: tuple[Point, ...], *, time_unit: float, rate: float) -> None:
    times = [point.time_s / time_unit for point in shown]
    costs = [point.cost_usd * rate for point in shown]
    x_doubt = [
        [max(0.0, point.time_s - point.time_low_s) / time_unit for point in shown],
        [max(0.0, point.time_high_s - point.time_s) / time_unit for point in shown],
    ]
    y_doubt = [
        [max(0.0, point.cost_usd - point.cost_low_usd) * rate for point in shown],
        [max(0.0, point.cost_high_usd - point.cost_usd) * rate for point in shown],
    ]
    axes.errorbar(times, costs, xerr=x_doubt, yerr=y_doubt, fmt="none", ecolor=_INK, elinewidth=0.8, alpha=0.35)
    axes.scatter(times, costs, s=[46 if point.rank == 1 else 22 for point in shown], color=_ACCENT, zorder=3)
    for point, x, y in zip(shown, times, costs, strict=True):
        axes.annotate(str(point.rank), (x, y), xytext=(4, 4), textcoords="offset points", color=_INK)
    for values, scale in ((times, axes.set_xscale), (costs, axes.set_yscale)):
        if min(values) > 0 and max(values) / min(values) > _WIDE_RANGE:
            scale("log")


def _style(axes: Any, words: dict[str, str]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    for axis in (axes.xaxis, axes.yaxis):
        shown = FuncFormatter(lambda value, _: plain(value, 4))
        axis.set_major_formatter(shown)
        if axis.get_scale() == "log":
            axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
            axis.set_minor_formatter(shown)
    axes.set_xlabel(words["x"], color=_INK)
    axes.set_ylabel(words["y"], color=_INK)
    axes.tick_params(colors=_INK, which="both")
    axes.grid(visible=True, color=_INK, alpha=0.12)
    for side in axes.spines.values():
        side.set_visible(False)


def _inlined(svg: str) -> str:
    """SVG that stands inside HTML: no prologue, no fixed size, the page's own colours and font."""
    text = _PROLOGUE.sub("", svg)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    text = re.sub(r"font: [^;\"]*?([\d.]+px)[^;\"]*", r"font-size: \1", text)
    text = text.replace(_INK, "currentColor").replace(_ACCENT, "var(--rf-accent, #2f7ed8)")
    return text.replace("<svg ", '<svg role="img" ', 1).strip()
