"""A sheet as HTML that needs nothing else: no script, no style sheet, no font and no
picture from outside.

`sheet_html(parts, lang)` is a fragment for a notebook or a page; it takes the colours around it, so
that it is light in a light page and dark in a dark one. `document(fragment, title=..., lang=...)`
makes a whole file of it that prints well.
"""

from __future__ import annotations

import importlib.util
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import label
from rightfit.explain.quantities import Table, plain
from rightfit.explain.sheets import Breakdown, Choice, Lines, Part, plan_sheet, verdict_sheet
from rightfit.explain.voices import voice_of
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_HOUR, currency_sign
from rightfit.workload.amounts import from_usd

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan
    from rightfit.search.servers import Verdict


# ---- Charts of an answer as SVG text that takes the colours of the page around it. Drawn by
# matplotlib (extra `plot`); without it there is no chart.

_INK, _ACCENT = "#010203", "#040506"  # stand-ins that the finished text replaces, so that a chart follows the light or dark of its page
_WIDE_RANGE = 8.0
_PROLOGUE = re.compile(r"^.*?(?=<svg)|<metadata>.*?</metadata>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Point:
    """One option in the plane of time and money, in seconds and US dollars, with
    its 80 % intervals."""

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
    """The ranked options as points: hours and total of a job, latency of a request and
    month of a service."""
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
    """Cost against time, one dot an option with its 80 % intervals and its rank; "" where there is
    nothing to compare or nothing to draw with."""
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
    # The object interface of matplotlib: no global state, so that a notebook's own plots and a
    # server's threads stay as they are.
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


_SMALLEST_SHARE = 1e-3
_FOLDED = frozenset({"assumed", "refused", "rules", "smaller", "bill"})
_STYLE = "\n" + Path(__file__).with_name("data").joinpath("answer.css").read_text(encoding="utf-8")
_PAGE_STYLE = ":root{color-scheme:light dark}body{margin:2rem auto;padding:0 1rem;max-width:60rem}@page{margin:16mm}"


def answer_html(answer: Plan | Verdict, lang: Lang, *, everything: bool = False, whole: bool = False) -> str:
    """A plan or a verdict as a fragment or, with `whole`, as a file whose title
    is its first line."""
    from rightfit.search.answer import Plan

    if isinstance(answer, Plan):
        fragment, parts = plan_html(answer, lang, everything=everything, unfolded=whole), plan_sheet(answer, lang)
    else:
        fragment, parts = verdict_html(answer, lang, everything=everything, unfolded=whole), verdict_sheet(answer, lang)
    return document(fragment, title=title_of(parts), lang=lang) if whole else fragment


def title_of(parts: Sequence[Part]) -> str:
    """The first line of a sheet; the name of the program where it begins with a table."""
    first = parts[0] if parts else ""
    if isinstance(first, Choice):
        return first.headline
    text = first if isinstance(first, str) else "" if isinstance(first, Table) else first.heading
    return text.partition("\n")[0] or "rightfit"


def plan_html(plan: Plan, lang: Lang, *, everything: bool = False, unfolded: bool = False, catalog: Catalog | None = None) -> str:
    """A plan as a fragment: the sheet, a gauge of memory, and cost against time as a chart where
    matplotlib is installed.

    Long lists are folded unless `everything` or `unfolded` (for paper) is asked for.
    """
    parts = plan_sheet(plan, lang, everything=everything, catalog=catalog)
    return sheet_html(parts, lang, after_choice=figures_html(plan, lang), unfolded=everything or unfolded)


def figures_html(plan: Plan, lang: Lang) -> str:
    """The gauge of memory and the chart of cost against time, as far as there are figures and
    a library for them."""
    shown = plan.best or plan.unfit
    return (gauge_html(shown, plan, lang) if shown else "") + _chart(plan, lang)


def verdict_html(verdict: Verdict, lang: Lang, *, everything: bool = False, unfolded: bool = False) -> str:
    """Why a server was or was not chosen, as a fragment."""
    gauge = gauge_html(verdict.option, verdict, lang) if verdict.option else ""
    return sheet_html(verdict_sheet(verdict, lang, everything=everything), lang, after_choice=gauge, unfolded=everything or unfolded)


def sheet_html(parts: Iterable[Part], lang: Lang, *, after_choice: str = "", unfolded: bool = True) -> str:
    """Any parts as a fragment. `after_choice`: HTML that stands behind the first choice; long lists
    are folded unless `unfolded`."""
    pieces = []
    for part in parts:
        pieces.append(_part(part, lang, unfolded=unfolded))
        if after_choice and isinstance(part, Choice):
            pieces.append(after_choice)
            after_choice = ""
    return f'<div class="rightfit" lang="{_TAGS[lang]}"><style>{_STYLE}</style>' + "".join(pieces) + "</div>"


_TAGS = {"en": "en", "zh": "zh-CN"}


def document(fragment: str, *, title: str, lang: Lang) -> str:
    """A whole HTML file around a fragment."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>{escape(title)}</title>'
    return (
        f'<!DOCTYPE html>\n<html lang="{_TAGS[lang]}"><head>{head}<style>{_PAGE_STYLE}</style></head>\n<body>\n'
        f"{fragment}\n<footer><p>{escape(label('report', 'made_by', lang))}</p></footer>\n</body></html>\n"
    )


def _part(part: Part, lang: Lang, *, unfolded: bool) -> str:
    if isinstance(part, Choice):
        heading = f"<h3>{escape(part.heading)}</h3>" if part.heading else ""
        head = f"<h2>{escape(part.headline)}</h2>" if part.headline else ""
        return heading + head + _paragraphs(part.lines)
    if isinstance(part, Lines):
        return _headed(part.heading, _list(part.lines), folded=part.name in _FOLDED and not unfolded)
    if isinstance(part, Breakdown):
        return _breakdown(part)
    if isinstance(part, Table):
        return table_html(part, lang)
    return _prose(part)


def _prose(text: str) -> str:
    """A text as the terminal shows it: its lines, those that are indented or begin
    with a dash as a list."""
    first, *more = text.splitlines() or [""]
    if not more:
        return f"<p>{escape(first)}</p>"
    return f"<h3>{escape(first)}</h3>" + _list([line.removeprefix("- ").removeprefix("  ") for line in more])


def _paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _headed(heading: str, body: str, *, folded: bool) -> str:
    title = escape(heading.rstrip(":："))
    return f"<details><summary>{title}</summary>{body}</details>" if folded else f"<h3>{title}</h3>{body}"


def _list(lines: Sequence[str]) -> str:
    """A list; a line that begins with blanks continues the entry before."""
    entries: list[list[str]] = []
    for line in lines:
        if line.startswith("  ") and entries:
            entries[-1].append(line.strip())
        else:
            entries.append([line.strip()])
    return "<ul>" + "".join("<li>" + "<br>".join(map(escape, entry)) + "</li>" for entry in entries) + "</ul>"


def _breakdown(part: Breakdown) -> str:
    """The parts of a sum with a bar each; a share under a thousandth has its line but no bar."""
    rows = [
        f'<tr><td>{escape(term.label)}</td><td class="rf-right">{escape(part.show(term.value))}</td>'
        f'<td class="rf-right">{escape(q.percent_text(term.share))}</td><td class="rf-bar">{_bar(term.share)}</td></tr>'
        for term in part.terms
        if abs(term.share) >= _SMALLEST_SHARE or len(part.terms) == 1
    ]
    return f'<div class="rf-scroll"><table><caption>{escape(part.heading)}</caption><tbody>{"".join(rows)}</tbody></table></div>'


def _bar(share: float) -> str:
    width = min(100.0, max(0.0, 100 * share))
    return f'<span style="width:{width:.1f}%"></span>' if width > 0 else ""


def table_html(table: Table, lang: Lang) -> str:
    """Records and columns as a table, every column."""
    sides = [' class="rf-right"' if column.right else "" for column in table.columns]
    heads = "".join(
        f"<th{side}>{escape(label('column', column.key, lang))}</th>" for column, side in zip(table.columns, sides, strict=True)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{side}>{escape(column.show(record.get(column.key)))}</td>" for column, side in zip(table.columns, sides, strict=True)
        )
        + "</tr>"
        for record in table.records
    )
    caption = f"<caption>{escape(table.title)}</caption>" if table.title else ""
    return f'<div class="rf-scroll"><table>{caption}<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def gauge_html(option: Option, answer: Plan | Verdict, lang: Lang) -> str:
    """Memory in use against what the card or host can give: a bar to the middle value, a line over
    the 95 % interval.

    A service has none: its engine takes what there is, and fills with cache what the weights leave.
    """
    if voice_of(answer).is_service:
        return ""
    figure, capacity = option.estimate.get("peak_memory_bytes"), float(option.facts.get("capacity_bytes") or 0.0)
    if figure is None or not capacity > 0:
        return ""
    whole = max(capacity, figure.high95) or 1.0
    low, high = figure.low95 / whole, figure.high95 / whole
    limit = f'<u style="left:{100 * capacity / whole:.1f}%"></u>' if capacity < whole else ""
    text = label(
        "report", "gauge", lang, peak=q.memory_text(figure.mid), capacity=q.memory_text(capacity), high=q.memory_text(figure.high95)
    )
    return (
        f'<h3>{escape(label("report", "memory", lang))}</h3><div class="rf-gauge" role="img" aria-label="{escape(text)}">'
        f'<b style="width:{100 * figure.mid / whole:.1f}%"></b><i style="left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"></i>{limit}</div>'
        f"<p>{escape(text)}</p>"
    )


def _chart(plan: Plan, lang: Lang) -> str:
    svg = options_svg(plan, lang)
    return f"<h3>{escape(label('report', 'chart', lang))}</h3>{svg}<p>{escape(label('report', 'chart_note', lang))}</p>" if svg else ""
