"""The parts of an answer as the page draws them: sentences, lists, tables, breakdowns as stacked bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang
from rightfit.explain.plan_words import Term
from rightfit.explain.sheets import Breakdown, Choice, Lines, Part
from rightfit.explain.tables import Table
from rightfit.web.draw import box, bullets, heading, paragraph, table, text
from rightfit.web.words import on_page

if TYPE_CHECKING:
    from rightfit.explain.cards import MemoryUse

MOST_TERMS = 7


def draw_parts(parts: Iterable[Part], lang: Lang) -> None:
    """Parts one below the other."""
    for part in parts:
        draw_part(part, lang)


def draw_part(part: Part, lang: Lang) -> None:
    """One part of a sheet."""
    with box("section", "part"):
        if isinstance(part, str):
            paragraph(part, "muted")
        elif isinstance(part, Choice):
            heading(bare(part.heading) or part.headline, 3)
            bullets(on_page(line, lang) for line in (*((part.headline,) if part.heading and part.headline else ()), *part.lines))
        elif isinstance(part, Lines):
            heading(bare(part.heading), 3)
            bullets(on_page(line, lang) for line in part.lines)
        elif isinstance(part, Breakdown):
            breakdown(part, lang)
        elif isinstance(part, Table):
            table(part, lang)


def bare(title: str) -> str:
    """A heading without the colon that text on a terminal ends it with."""
    return title.rstrip(":： ")


def breakdown(part: Breakdown, lang: Lang, *, room: MemoryUse | None = None) -> None:
    """A sum as one stacked bar with its terms below; `room`: the bar is as long as the memory there is."""
    heading(bare(part.heading), 3)
    terms, rest = folded(part.terms)
    total = sum(max(term.value, 0.0) for term in part.terms)
    whole = max(total, room.capacity) if room is not None else total
    entries: list[tuple[str, float, float]] = [(term.label, term.value, term.share) for term in terms]
    if rest:
        share = sum(term.share for term in rest)
        entries.append((label("section", "other_terms", lang, count=len(rest)), sum(term.value for term in rest), share))
    with box("div", "stack") as bar:
        bar.props["aria-hidden"] = "true"
        for position, (_, value, _) in enumerate(entries):
            if value > 0 and whole > 0:
                box("span").style(f"width: {100 * value / whole:.2f}%; background: var(--c{position % 7 + 1})")
    with box("table", "legend"), box("tbody"):
        for position, (name, value, share) in enumerate(entries):
            with box("tr"):
                with box("td"):
                    box("span", "swatch").style(f"background: var(--c{position % 7 + 1})")
                    text(name)
                text(part.show(value), "number", "td")
                text(q.percent_text(share), "number muted", "td")


def folded(terms: Sequence[Term]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The terms to show, and those that are folded into one line."""
    large = tuple(term for term in terms if abs(term.share) >= 1e-3)
    kept = large[:MOST_TERMS] if len(large) > MOST_TERMS + 1 else large
    return kept, tuple(terms[len(kept) :])


def named(parts: Iterable[Part], *names: str) -> list[Any]:
    """The lists and breakdowns of these names, in this order."""
    found = {part.name: part for part in parts if isinstance(part, Lines | Breakdown)}
    return [found[name] for name in names if name in found]
