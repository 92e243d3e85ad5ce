"""A plan in fifteen lines: the choice, what to expect with its doubt, two alternatives, the warnings that matter, the next command.

All else stands in the whole sheet (sheets.plan_sheet) and in the verdict on one server.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.catalog.sellers import is_major
from rightfit.explain.labels import label
from rightfit.explain.messages import Lang, join
from rightfit.explain.quantities import money_text
from rightfit.explain.reasons import OWN_RUNS
from rightfit.explain.server_words import doubted_price_text
from rightfit.explain.sheets import Choice, Lines, Part, cheaper_elsewhere, staged_lines
from rightfit.explain.tables import Table
from rightfit.explain.voices import Voice, plan_text, voice_of

if TYPE_CHECKING:
    from rightfit.explain.plan_words import PlanText
    from rightfit.search.answer import Option, Plan, Reason

#: Warnings in the order in which they matter; those that are not here come after them, as they stand.
FIRST_WARNINGS = tuple(tomllib.loads(Path(__file__).with_name("data").joinpath("first_warnings.toml").read_text(encoding="utf-8"))["first"])
#: Assumptions without which the answer would be one to another question.
TAKEN = ("assumed_usual_model", "assumed_shape_by_name", "assumed_task_corpus", "assumed_task_published_data")
#: Advice that matters enough for a short answer.
FIRST_ADVICE = ("own_does_not", "certainty")
#: Advice to ask for the price of a card that nobody publishes: it matters where several servers do its work.
UNPRICED = "unpriced"
#: Warnings that the first line has said already.
SAID_FIRST = ("price_moved", "price_stale", "price_estimate")
#: Warnings of stops, and how many of them have to be expected to be told in a short answer.
STOPS, LEAST_STOPS = ("spot_interruption", "spot_rate_unknown", "failures_expected"), 0.02
#: An option that costs less by at most this share is as dear.
LEAST_SAVING = 0.005
LEAST_DETAIL = 0
MOST_DETAIL = 3


def short_sheet(plan: Plan, lang: Lang, *, detail: int = MOST_DETAIL, num_options: int | None = None) -> tuple[Part, ...]:
    """A plan in few lines. `detail`: from MOST_DETAIL down each step leaves something out: the set-up, the latencies and the second warning, the last warning.
    `num_options`: rows of the table, where the user said how many."""
    text = plan_text(plan, lang)
    parts = _found(plan, text, lang, detail, num_options) if plan.best else _nothing(plan, text, lang, detail)
    return tuple(part for part in parts if part)


def quiet_sheet(plan: Plan, lang: Lang) -> tuple[Part, ...]:
    """The choice alone."""
    return (Choice(plan_text(plan, lang).headline),)


def _found(plan: Plan, text: PlanText, lang: Lang, detail: int, num_options: int | None) -> Iterable[Part]:
    voice, best = voice_of(plan), text.best
    assert best is not None
    yield from cheaper_elsewhere(plan, lang)
    is_asked = "simulated" in plan.options[0].facts  # latencies are what the user wants to see
    speed = best.speed if voice.is_service and (detail != 1 or is_asked) else ""
    expected = (best.outcome, speed, best.setup if detail >= MOST_DETAIL else "")
    yield Choice(text.headline, tuple(line for line in expected if line))
    yield "\n".join([*_own_runs(plan, voice, lang), *_rental(plan, voice, lang), *_usual(plan, voice, lang)])
    if len(plan.options) > 1:
        yield _table(plan, voice, lang, num_options)
    yield from staged_lines(plan, voice.renderer(lang, currency=plan.workload.currency), lang)
    if care := _care(plan, voice, lang, _shown(plan, num_options))[: min(detail, 2)]:
        yield Lines("warnings", label("section", "warnings", lang), tuple(care))
    key = "next_staged" if any(section.name == "staged" for section in plan.sections) else "next"
    yield _next(key, plan, _shown(plan, num_options), lang)


def _nothing(plan: Plan, text: PlanText, lang: Lang, detail: int) -> Iterable[Part]:
    """Nothing to rent: what stands against it, the least changes, and where more is said."""
    voice = voice_of(plan)
    yield Choice(text.headline, (text.blame,) if text.blame else (), is_found=False)
    if advice := text.advice[: max(detail, 1)]:
        yield Lines("advice", label("section", "advice", lang), advice)
    refused = sorted(plan.rejected, key=lambda one: -one.alone)[: max(detail, 1)]
    lines = [voice.rejection_lines(one, lang, currency=plan.workload.currency)[0] for one in refused]
    if lines:
        yield Lines("refused", label("section", "refused", lang), tuple(lines))
    yield label("short", "nothing", lang)


def _own_runs(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """What the user's own runs say of the choice."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for reason in plan.options[0].why if reason.key in OWN_RUNS]


def _rental(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """What the best rental would take and cost, beside a machine of one's own."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for section in plan.sections if section.name == "rental" for reason in section.reasons]


def _usual(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """Which model was taken where a name means several, and which task where none was given and the data tell another than the usual one."""
    return [voice.assumption_text(one, lang) for one in plan.assumptions if one.why.key in TAKEN]


def _care(plan: Plan, voice: Voice, lang: Lang, shown: Sequence[Option]) -> list[str]:
    """What certainty would cost, then the warnings of the choice, those that matter first."""
    render: Callable[[Reason], str] = voice.renderer(lang, currency=plan.workload.currency)
    rank = {key: place for place, key in enumerate(FIRST_WARNINGS)}
    ordered = sorted((one for one in plan.options[0].warnings if not _is_remote(one)), key=lambda one: rank.get(one.key, len(rank)))
    said = SAID_FIRST if doubted_price_text(plan.options[0], lang) else ()
    advice = [reason for reason in plan.advice if reason.key in FIRST_ADVICE]
    if plan.options[0].nodes > 1:  # several servers stand in for what has no price
        advice += [reason for reason in plan.advice if reason.key == UNPRICED][:1]
    told = [render(reason) for reason in (*advice, *(one for one in ordered if one.key not in said))]
    weighty = len(advice) + sum(reason.key in FIRST_WARNINGS for reason in ordered if reason.key not in said)
    return [*told[:weighty], *cheaper_below(plan, shown, lang), *told[weighty:]]


def _is_remote(reason: Reason) -> bool:
    """Whether a warning is of stops that hardly any run of this length sees."""
    return reason.key in STOPS and float(reason.params.get("expected_interruptions", 1.0)) < LEAST_STOPS


def cheaper_below(plan: Plan, shown: Sequence[Option], lang: Lang) -> list[str]:
    """Why a shown option that costs less stands below the choice: an old price, more servers, a last resort. One line, of the cheapest of them."""
    best, currency = plan.options[0], plan.workload.currency
    below = [one for one in shown if one is not best and one.cost.total_usd < best.cost.total_usd * (1.0 - LEAST_SAVING)]
    if plan.workload.objective != "cost" or not below:
        return []
    one = min(below, key=lambda option: option.cost.total_usd)
    server = ("" if one.nodes == 1 else f"{one.nodes} x ") + f"{one.provider}/{one.instance_type}"
    ranked = float(one.facts.get("price", {}).get("ranked_usd", one.cost.total_usd))
    if ranked > one.cost.total_usd * (1.0 + LEAST_SAVING):
        return [label("short", "counts_more", lang, server=server, ranked=money_text(ranked, currency))]
    if one.nodes > best.nodes:
        return [label("short", "counts_servers", lang, server=server, count=one.nodes)]
    return [label("short", "counts_offload", lang, server=server)] if one.layout.offload != "none" else []


def _table(plan: Plan, voice: Voice, lang: Lang, num_options: int | None) -> Table:
    return voice.options_table(dataclasses.replace(plan, options=_shown(plan, num_options)), lang)


def _next(key: str, plan: Plan, shown: Sequence[Option], lang: Lang) -> str:
    """The next commands; how to see the options between those that are shown, whose numbers are missing there."""
    ranks = {one.rank for one in shown}
    missing = [str(one.rank) for one in plan.options if one.rank < max(ranks) and one.rank not in ranks]
    return label("short", f"{key}_others", lang, most=max(ranks), ranks=join(missing, lang)) if missing else label("short", key, lang)


def _shown(plan: Plan, num_options: int | None) -> tuple[Option, ...]:
    return plan.options[:num_options] if num_options is not None else chosen_three(plan.options)


def chosen_three(options: Sequence[Option]) -> tuple[Option, ...]:
    """The choice and two alternatives, one of them of a major cloud where there is one: other hardware or another seller first."""
    best, others = options[0], [one for one in options[1:] if not _is_makeshift(one, options[0])] or list(options[1:])
    differing = [one for one in others if _kind(one) != _kind(best)] or others
    major = next((one for one in differing if is_major(one.provider)), None)
    first = next((one for one in differing if one is not major), None)
    picked = [one for one in (first, major) if one is not None]
    picked += [one for one in others if all(one is not other for other in picked)][: 2 - len(picked)]
    return (best, *sorted(picked, key=lambda one: one.rank))


def _is_makeshift(option: Option, best: Option) -> bool:
    """Whether an option needs many more servers than the choice, at prices that nobody may ask any more."""
    return option.nodes >= 2 * best.nodes and bool(option.facts.get("is_stale"))


def _kind(option: Option) -> tuple[Any, ...]:
    return option.provider, option.accelerator.name
