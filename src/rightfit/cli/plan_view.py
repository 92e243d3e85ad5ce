"""A plan on the screen: the sheet that explain lays out, as lines and tables of text; for programs the contract's JSON."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.cli.output import Answer, Format, View, text_of
from rightfit.explain import quantities as q
from rightfit.explain.documents import flat_option, plan_document, verdict_document
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.plan_words import Term
from rightfit.explain.sheets import Breakdown, Choice, Lines, Part, estimate_sheet, plan_sheet, verdict_sheet
from rightfit.explain.short import LEAST_DETAIL, MOST_DETAIL, quiet_sheet, short_sheet
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Plan
    from rightfit.search.verdict import Verdict

#: Lines of a plan by default, blank ones not counted, and the options in them.
MOST_LINES, SHOWN_OPTIONS = 15, 3
_BAR_WIDTH = 30
_MOST_TERMS = 6
_SMALLEST_SHARE = 1e-3


def plan_answer(plan: Plan, view: View, *, catalog: Catalog | None = None) -> Answer:
    """A plan for people and programs."""
    if view.is_machine:
        return Answer(plan_document(plan, view.lang, catalog=catalog), [flat_option(option) for option in plan.options], [])
    if view.verbose or view.format is Format.html:
        return _shown(plan_sheet(plan, view.lang, everything=view.verbose, catalog=catalog), view, plan=plan)
    return Answer(None, [], short_parts(plan, view))


def short_parts(plan: Plan, view: View) -> list[str | Table]:
    """A plan in at most fifteen lines: as much of it as they hold; the choice alone with --quiet."""
    if view.quiet:
        return screen_parts(quiet_sheet(plan, view.lang), view)
    shown: list[str | Table] = []
    asked = None if view.top is None else view.top or len(plan.options)  # --top 0: all
    for detail in range(MOST_DETAIL, LEAST_DETAIL - 1, -1):
        shown = screen_parts(short_sheet(plan, view.lang, detail=detail, num_options=asked), view)
        if num_lines(shown, view) <= MOST_LINES + max((asked or 0) - SHOWN_OPTIONS, 0) + num_staged(plan):
            break
    return shown


def num_staged(plan: Plan) -> int:
    """Lines that a trial takes beside, where one was asked for: each statement up to two, and the heading."""
    return sum(2 * len(section.reasons) + 1 for section in plan.sections if section.name == "staged")


def num_lines(parts: Sequence[str | Table], view: View) -> int:
    """Lines of text without the blank ones between."""
    return sum(1 for line in text_of(parts, view).splitlines() if line.strip())


def estimate_answer(plan: Plan, view: View, *, catalog: Catalog | None = None) -> Answer:
    """One given server: as a plan, but nothing was chosen."""
    if view.is_machine:
        return plan_answer(plan, view, catalog=catalog)
    return _shown(estimate_sheet(plan, view.lang, everything=view.verbose, catalog=catalog), view, plan=plan)


def verdict_answer(verdict: Verdict, view: View) -> Answer:
    """Why a server was or was not chosen, and what it would do."""
    if view.is_machine:
        return Answer(verdict_document(verdict, view.lang), [flat_option(verdict.option)] if verdict.option else [], [])
    return _shown(verdict_sheet(verdict, view.lang, everything=view.verbose), view)


def _shown(sheet: Sequence[Part], view: View, *, plan: Plan | None = None) -> Answer:
    """A sheet as lines and tables, or as it is for a page, there with the figures of its plan."""
    if view.format is not Format.html:
        return Answer(None, [], screen_parts(sheet, view))
    from rightfit.explain.html import figures_html

    return Answer(None, [], sheet, figures=figures_html(plan, view.lang) if plan else "")


def screen_parts(parts: Iterable[Part], view: View) -> list[str | Table]:
    """The parts of a sheet as prose and tables."""
    return [_screen_part(part, view) for part in parts]


def _screen_part(part: Part, view: View) -> str | Table:
    if isinstance(part, Choice):
        lines = [f"  {line}" if part.is_found else line for line in part.lines]
        head = [f"  {part.headline}"] if part.heading and part.headline else [part.headline] if part.headline else []
        return "\n".join([*([part.heading] if part.heading else []), *head, *lines])
    if isinstance(part, Lines):
        return "\n".join([part.heading, *map(_list_line, part.lines)])
    if isinstance(part, Breakdown):
        return terms_table(part.heading, part.terms, view.lang, show=part.show, most=None if view.verbose else _MOST_TERMS)
    return part


def _list_line(line: str) -> str:
    """A line of a list, or one that belongs to the line before."""
    return f"  {line}" if line.startswith("  ") else f"- {line}"


def terms_table(heading: str, terms: Sequence[Term], lang: Lang, *, show: Callable[[Any], str], most: int | None) -> Table:
    """The parts of a sum, largest first, each with its share as a bar; the small ones are folded into one line."""
    large = tuple(term for term in terms if abs(term.share) >= _SMALLEST_SHARE)
    kept = large[:most] if most is not None and len(large) > most + 1 else large
    shown: list[dict[str, Any]] = [{"term": term.label, "value": term.value, "share": term.share} for term in kept]
    rest = terms[len(kept) :]
    if rest:
        value, share = sum(term.value for term in rest), sum(term.share for term in rest)
        shown.append({"term": label("section", "other_terms", lang, count=len(rest)), "value": value, "share": share})
    columns = (
        Column("term"),
        Column("value", show, right=True),
        Column("share", q.percent_text, right=True),
        Column("bar", drop=1),
    )
    return Table(columns, [{**record, "bar": bar(record["share"])} for record in shown], title=heading)


def bar(share: float) -> str:
    """A share as a bar of blocks, or of # where the terminal cannot show them."""
    block = "█" if (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf") else "#"
    return block * max(1, round(share * _BAR_WIDTH)) if share > 0 else ""
