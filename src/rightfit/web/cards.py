"""Plans as cards, and several of them side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.cards import MemoryUse, OptionCard
from rightfit.explain.messages import label
from rightfit.explain.plan_words import Term
from rightfit.explain.quantities import Table, memory_text
from rightfit.explain.sheets import Breakdown, Choice, Lines, Part
from rightfit.messages import Lang
from rightfit.web.draw import box, bullets, button, card_address, heading, link, pair, paragraph, server_address, table, text
from rightfit.web.words import on_page, word


def draw_card(
    card: OptionCard,
    lang: Lang,
    *,
    is_open: bool,
    compared: bool,
    on_open: Callable[[], Any] | None,
    on_compare: Callable[[bool], Any] | None,
    is_listed: bool = True,
) -> None:
    """One plan at a glance. Without `on_open` and `on_compare` it has no actions (a report);
    `is_listed`: its server has a page in the catalog."""
    with box("article", "card open" if is_open and on_open else "card") as around:
        around.mark(f"card-{card.rank}")
        with box("div", "name"):
            with box("div"):
                with heading("", 3):
                    if is_listed:
                        link(card.server, server_address(card.server_id, lang), "plain")
                    else:
                        text(card.server)
                with box("div"):
                    if card.accelerator:
                        link(card.hardware, card_address(card.accelerator, lang), "plain")
                    else:
                        text(card.hardware)
                text(f"{card.provider} · {card.place} · {card.purchase}", "place", "div")
            text(word("result.best", lang) if card.rank == 1 else str(card.rank), "rank first" if card.rank == 1 else "rank")
        with box("dl", "figures"):
            for fact in (card.money, card.time):
                pair(fact.label, fact.value, fact.detail, "figure")
        if card.memory is not None:
            memory_bar(card.memory, lang)
        with box("dl", "facts"):
            for fact in card.facts:
                pair(fact.label, fact.value)
        _sureness(card, lang)
        if on_open is not None and on_compare is not None:
            _actions(card, lang, is_open=is_open, compared=compared, on_open=on_open, on_compare=on_compare)


def _sureness(card: OptionCard, lang: Lang) -> None:
    with box("div", "sure"):
        text(card.confidence_text, f"level {card.confidence}")
        text(
            word("result.old_price" if card.is_stale else "result.price_of", lang, date=card.price_date),
            "medium" if card.is_stale else "muted",
        )


def _actions(
    card: OptionCard, lang: Lang, *, is_open: bool, compared: bool, on_open: Callable[[], Any], on_compare: Callable[[bool], Any]
) -> None:
    with box("div", "end no-print"):
        label = word("result.opened" if is_open else "result.details", lang)
        opener = button(label, on_open, "button", label_text=f"{label}: {card.server}").mark(f"open-{card.rank}")
        opener.props.update({"aria-pressed": "true" if is_open else "false", "data-key": f"open-{card.rank}"})
        with box("label", "tick"):
            tick = box("input").mark(f"compare-{card.rank}")
            tick.props.update({"type": "checkbox", "data-key": f"compare-{card.rank}"})
            tick.props["checked"] = compared
            tick.on("change", lambda event: on_compare(bool(event.args)), js_handler="(event) => emit(event.target.checked)")
            text(word("result.compare", lang))


def memory_bar(use: MemoryUse, lang: Lang) -> None:
    """Memory in use against what is there, with the 80 % interval as a whisker; a red line where
    the interval passes the end."""
    whole = max(use.capacity, use.high) * 1.0
    shown = word(
        "result.memory_bar",
        lang,
        text=f"{memory_text(use.mid)} ({memory_text(use.low)} – {memory_text(use.high)}) / {memory_text(use.capacity)}",
    )
    with box("div", "memory") as bar:
        bar.props["role"] = "img"
        bar.props["aria-label"] = shown
        bar.props["title"] = shown
        box("div", "room").style(f"right: {100 * (1 - use.capacity / whole):.2f}%")
        box("div", "used").style(f"width: {100 * use.mid / whole:.2f}%")
        box("div", "whisker").style(f"left: {100 * use.low / whole:.2f}%; width: {100 * (use.high - use.low) / whole:.2f}%")
        if use.high > use.capacity:
            box("div", "limit").style(f"left: {100 * use.capacity / whole:.2f}%")


def compare_table(cards: Sequence[OptionCard], lang: Lang) -> None:
    """Plans as columns, their facts as rows."""
    rows: dict[str, list[str]] = {}
    for position, card in enumerate(cards):
        for fact in (card.money, card.time, *card.facts):
            value = f"{fact.value} ({fact.detail})" if fact.detail and fact.name in ("money", "time") else fact.value
            rows.setdefault(fact.label, [""] * len(cards))[position] = value
    with box("div", "scroll") as around, box("table", "table compared"):
        around.props.update({"tabindex": "0", "role": "region", "aria-label": word("tab.compare", lang)})
        with box("thead"), box("tr"):
            box("td")
            for card in cards:
                text(f"{card.rank}. {card.server}", "", "th").props["scope"] = "col"
        with box("tbody"):
            for name, values in {**_plain_rows(cards, lang), **rows}.items():
                with box("tr"):
                    text(name, "", "th").props["scope"] = "row"
                    for value in values:
                        text(value, "", "td")


def _plain_rows(cards: Sequence[OptionCard], lang: Lang) -> dict[str, list[str]]:
    from rightfit.explain.messages import label

    return {
        label("column", "provider", lang): [card.provider for card in cards],
        label("column", "gpus", lang): [card.hardware for card in cards],
        label("column", "region", lang): [card.place for card in cards],
        label("column", "purchase", lang): [card.purchase for card in cards],
        label("column", "as_of", lang): [card.price_date for card in cards],
        label("card", "confidence", lang): [card.confidence_text for card in cards],
    }


# ---- The parts of an answer as the page draws them: sentences, lists, tables,
# breakdowns as stacked bars.

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
    """A sum as one stacked bar with its terms below; `room`: the bar is as long as
    the memory there is."""
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
