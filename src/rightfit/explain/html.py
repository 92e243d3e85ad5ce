"""A sheet as HTML that needs nothing else: no script, no style sheet, no font and no picture from outside.

`sheet_html(parts, lang)` is a fragment for a notebook or a page; it takes the colours around it, so that it is light in a light page and
dark in a
dark one. `document(fragment, title=..., lang=...)` makes a whole file of it that prints well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from rightfit.explain import quantities as q
from rightfit.explain.charts import options_svg
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.sheets import Breakdown, Choice, Lines, Part, plan_sheet, verdict_sheet
from rightfit.explain.tables import Table
from rightfit.explain.voices import voice_of

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Option, Plan
    from rightfit.search.verdict import Verdict

_SMALLEST_SHARE = 1e-3
_FOLDED = frozenset({"assumed", "refused", "rules", "smaller", "bill"})
_STYLE = "\n" + Path(__file__).with_name("data").joinpath("answer.css").read_text(encoding="utf-8")
_PAGE_STYLE = ":root{color-scheme:light dark}body{margin:2rem auto;padding:0 1rem;max-width:60rem}@page{margin:16mm}"


def answer_html(answer: Plan | Verdict, lang: Lang, *, everything: bool = False, whole: bool = False) -> str:
    """A plan or a verdict as a fragment or, with `whole`, as a file whose title is its first line."""
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
    """A plan as a fragment: the sheet, a gauge of memory, and cost against time as a chart where matplotlib is installed.

    Long lists are folded unless `everything` or `unfolded` (for paper) is asked for.
    """
    parts = plan_sheet(plan, lang, everything=everything, catalog=catalog)
    return sheet_html(parts, lang, after_choice=figures_html(plan, lang), unfolded=everything or unfolded)


def figures_html(plan: Plan, lang: Lang) -> str:
    """The gauge of memory and the chart of cost against time, as far as there are figures and a library for them."""
    shown = plan.best or plan.unfit
    return (gauge_html(shown, plan, lang) if shown else "") + _chart(plan, lang)


def verdict_html(verdict: Verdict, lang: Lang, *, everything: bool = False, unfolded: bool = False) -> str:
    """Why a server was or was not chosen, as a fragment."""
    gauge = gauge_html(verdict.option, verdict, lang) if verdict.option else ""
    return sheet_html(verdict_sheet(verdict, lang, everything=everything), lang, after_choice=gauge, unfolded=everything or unfolded)


def sheet_html(parts: Iterable[Part], lang: Lang, *, after_choice: str = "", unfolded: bool = True) -> str:
    """Any parts as a fragment. `after_choice`: HTML that stands behind the first choice; long lists are folded unless `unfolded`."""
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
    """A text as the terminal shows it: its lines, those that are indented or begin with a dash as a list."""
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
    """Memory in use against what the card or host can give: a bar to the middle value, a line over the 95 % interval.

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
