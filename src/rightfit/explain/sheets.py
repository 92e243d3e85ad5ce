"""A whole answer as a sheet: sentences, headed lists, tables and breakdowns in reading order. Every
face draws the same sheet in its own way."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.listings import bill_table, modes_table
from rightfit.explain.messages import label
from rightfit.explain.option_tables import simulation_table
from rightfit.explain.plan_words import OptionText, PlanText, Term, verdict_key
from rightfit.explain.quantities import Table, doubted_price_text
from rightfit.explain.reasons import OWN_RUNS, criteria_text
from rightfit.explain.serving_text import load_lines, section_lines
from rightfit.explain.voices import Voice, plan_text, voice_of
from rightfit.market.sellers import is_major
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.search.advice import below_cause
from rightfit.search.answer import Reason, is_makeshift

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan, Rejection, Section
    from rightfit.search.servers import Verdict


_MOST_REFUSALS = 4
#: What is said of another way to be served that costs less however much is asked.
CHEAPER = {"serve_api_never": "api_usd", "serve_api_later": "api_usd", "serve_serverless_pays": "monthly_usd"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What to rent in one sentence, and what to expect of it. `heading`, where it is not the answer
    itself but a set-up beside it.

    `is_found` is false where there is nothing to rent: the lines then say what stands against it.
    """

    headline: str
    lines: tuple[str, ...] = ()
    heading: str = ""
    is_found: bool = True


@dataclass(frozen=True, slots=True)
class Lines:
    """A headed list; a line that begins with blanks belongs to the one before. `name`: its code,
    for faces that place it."""

    name: str
    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The parts of a sum, largest first, with the function that writes a value."""

    name: str
    heading: str
    terms: tuple[Term, ...]
    show: Callable[[float], str]


Part = str | Choice | Lines | Breakdown | Table


def plan_sheet(plan: Plan, lang: Lang, *, everything: bool = False, catalog: Catalog | None = None) -> tuple[Part, ...]:
    """A plan as parts in reading order; `everything`: every refusal, the bill, what would do with
    less, and the rules of thumb."""
    return tuple(_plan_parts(plan, lang, everything=everything, catalog=catalog))


def _plan_parts(plan: Plan, lang: Lang, *, everything: bool, catalog: Catalog | None) -> Iterable[Part]:
    voice, currency = voice_of(plan), plan.workload.currency
    text, render = plan_text(plan, lang), voice.renderer(lang, currency=currency)
    yield from old_catalog(plan, lang)
    yield from cheaper_elsewhere(plan, lang)
    yield _answer(text)
    if len(plan.options) > 1:
        yield voice.options_table(plan, lang)
    yield from simulation_table(plan, lang)
    yield from staged_lines(plan, render, lang)
    if shown := text.best or text.unfit:
        yield from option_parts(shown, voice, lang, currency=currency)
        if everything:
            yield from room_parts(plan, shown, render, lang)
    yield from _buying(plan, lang, render, everything=everything)
    if voice.is_service:
        yield from _lists(lang, load=load_lines(plan, render))
    yield from _lists(lang, faster=text.faster, advice=text.advice)
    if voice.is_service:
        yield from _lists(lang, ways=section_lines(plan, render, everything=everything))
    yield from energy_lines(plan, render, lang)
    yield from _lists(lang, assumed=text.assumptions)
    yield from _refused(plan.rejected, voice, lang, currency=currency, everything=everything or plan.best is None)
    if everything and voice.is_training:
        yield from _rules_and_advice(plan, lang, currency=currency, catalog=catalog)
    yield text.considered


def staged_lines(plan: Plan, render: Callable[[Any], str], lang: Lang) -> Iterable[Lines]:
    """The smallest trial, what to expect and decide, and the step up; nothing where it
    was not asked for."""
    yield from _lists(lang, staged=[render(reason) for section in plan.sections if section.name == "staged" for reason in section.reasons])


def energy_lines(plan: Plan, render: Callable[[Any], str], lang: Lang) -> Iterable[Lines]:
    """What the first option draws from the grid, and the CO2 of it."""
    yield from _lists(lang, energy=[render(reason) for section in plan.sections if section.name == "energy" for reason in section.reasons])


def cheaper_elsewhere(plan: Plan, lang: Lang) -> Iterable[str]:
    """That an API or a serverless offer costs less than the servers of the list, the cheaper of the
    two: then they are not the answer."""
    told = [(reason, month) for section in plan.sections for reason in section.reasons if (month := CHEAPER.get(reason.key))]
    if plan.best and told:
        reason, _ = min(told, key=lambda one: float(one[0].params[one[1]]))
        yield voice_of(plan).renderer(lang, currency=plan.workload.currency)(reason)


def _answer(text: PlanText) -> Choice:
    return choice_of(text.best) if text.best else Choice(text.headline, (text.blame,) if text.blame else (), is_found=False)


def choice_of(text: OptionText) -> Choice:
    """What to rent, and what to expect of it."""
    return Choice(text.headline, tuple(line for line in (text.outcome, text.setup, text.speed, text.margin, text.priced) if line))


def option_parts(text: OptionText, voice: Voice, lang: Lang, *, currency: str) -> Iterable[Part]:
    """Why an option, its warnings, and what its memory, time and cost are made of."""
    yield from _lists(lang, why=text.why, warnings=text.warnings)
    shows: dict[str, Callable[[Any], str]] = {
        "memory": q.memory_text,
        "time": lambda value: q.duration_text(value, lang),
        "cost": lambda value: q.money_text(value, currency),
    }
    for name, show in shows.items():
        if terms := getattr(text, name):
            heading = "memory_ram" if name == "memory" and text.on_processors else voice.headings[name]
            yield Breakdown(name, label("section", heading, lang), terms, show)
    yield from _lists(lang, data_path=text.data)


def room_parts(plan: Plan, text: OptionText, render: Callable[[Any], str], lang: Lang) -> Iterable[Part]:
    """Memory by moment, the largest batch that fits, and how every term is worked out."""
    from rightfit.explain.room import batch_lines, formula_lines, phase_tables

    yield from phase_tables(plan, lang)
    yield from _lists(lang, batch=batch_lines(plan, render), formulas=formula_lines(plan, text, lang))


def _buying(plan: Plan, lang: Lang, render: Callable[[Any], str], *, everything: bool) -> Iterable[Part]:
    """The section on buying as a table with its lines, then the month, and
    every line of the bill."""
    sections = {section.name: section for section in plan.sections}
    currency = plan.workload.currency
    if "buy" in sections:
        yield modes_table(sections["buy"].content["modes"], lang, currency=currency)
    reasons = [reason for name in ("buy", "bill") if name in sections for reason in sections[name].reasons]
    yield from _lists(lang, buy_lines=[render(reason) for reason in reasons])
    if everything and "bill" in sections:
        yield bill_table(sections["bill"], lang, currency=currency)


def _rules_and_advice(plan: Plan, lang: Lang, *, currency: str, catalog: Catalog | None) -> Iterable[Part]:
    from rightfit.explain.rule_trials import check_rules
    from rightfit.explain.trials import advise

    yield from _lists(lang, smaller=[effect.text(lang) for effect in advise(plan, catalog=catalog)])
    yield from _lists(lang, rules=[check.text(lang, currency=currency) for check in check_rules(plan, catalog=catalog)])


def _refused(rejected: Sequence[Rejection], voice: Voice, lang: Lang, *, currency: str, everything: bool) -> Iterable[Part]:
    """What was refused and how little it lacked; `everything`, or the criteria that
    alone exclude most."""
    lines: list[str] = []
    for rejection in rejected if everything else sorted(rejected, key=lambda one: -one.alone)[:_MOST_REFUSALS]:
        first, *more = voice.rejection_lines(rejection, lang, currency=currency)
        lines += [first, *(f"  {line}" for line in more)]
    yield from _lists(lang, refused=lines)


def _lists(lang: Lang, **groups: Sequence[str]) -> Iterable[Lines]:
    """Headed lists; empty ones are left out."""
    for name, lines in groups.items():
        if lines:
            yield Lines(name, label("section", name, lang), tuple(lines))


def estimate_sheet(plan: Plan, lang: Lang, *, everything: bool = False, catalog: Catalog | None = None) -> tuple[Part, ...]:
    """One given server: as a plan, but nothing was chosen, so no reason of a choice is given."""
    voice = voice_of(plan)
    if voice.is_service and plan.best is None:
        return tuple(_unfit_service(plan, voice, lang))
    return plan_sheet(plan, lang, everything=everything, catalog=catalog)


def _unfit_service(plan: Plan, voice: Voice, lang: Lang) -> Iterable[Part]:
    """Given servers that do not carry the load: what they lack, and how many of them would do."""
    from rightfit.explain.serving_text import serving_given_text

    currency = plan.workload.currency
    yield serving_given_text(plan, lang)
    if plan.unfit is not None:
        text = voice.option_text(plan.unfit, plan.workload, lang)
        yield dataclasses.replace(choice_of(text), heading=label("why", voice.unfit_heading, lang))
        yield from option_parts(text, voice, lang, currency=currency)
    yield from _lists(lang, assumed=[voice.assumption_text(assumption, lang, plan.workload.currency) for assumption in plan.assumptions])
    yield from _refused(plan.rejected, voice, lang, currency=currency, everything=True)


def verdict_sheet(verdict: Verdict, lang: Lang, *, everything: bool = False) -> tuple[Part, ...]:
    """Why a server was or was not chosen, and what it would do."""
    return tuple(_verdict_parts(verdict, lang, everything=everything))


def verdict_head(verdict: Verdict, lang: Lang) -> tuple[str, ...]:
    """Whether a server does the job, and why it was or was not chosen, in lines."""
    said = _standing(verdict, voice_of(verdict), lang)
    return (said.heading, *said.lines)


def _verdict_parts(verdict: Verdict, lang: Lang, *, everything: bool) -> Iterable[Part]:
    voice, currency = voice_of(verdict), verdict.workload.currency
    yield _standing(verdict, voice, lang)
    if len(verdict.failed) > 1 or everything:
        yield from _refused(verdict.failed, voice, lang, currency=currency, everything=True)
    if verdict.option is not None:
        text = voice.option_text(verdict.option, verdict.workload, lang)
        yield _setup(choice_of(text), verdict, voice, lang)
        yield from option_parts(text, voice, lang, currency=currency)
    yield from _lists(
        lang, assumed=[voice.assumption_text(assumption, lang, verdict.workload.currency) for assumption in verdict.assumptions]
    )


def _setup(choice: Choice, verdict: Verdict, voice: Voice, lang: Lang) -> Choice:
    """The set-up of a server; where the job does not fit, there is no advice to rent it."""
    heading = label("why", "best_setup" if verdict.fits else voice.unfit_heading, lang)
    headline = choice.headline if verdict.fits or voice.is_service else ""
    return dataclasses.replace(choice, heading=heading, headline=headline)


def _standing(verdict: Verdict, voice: Voice, lang: Lang) -> Lines:
    """Whether the server does it, and why it was or was not chosen."""
    named = verdict.option.facts.get("name", "") if verdict.option else ""  # an operation on data, not a model
    job = named or verdict.workload.model or verdict.workload.operation
    name = f"{verdict.provider}/{verdict.instance_type}"
    key, criteria = verdict_key(verdict)
    head = label("why", key, lang, name=name, model=job, criteria=criteria_text(criteria, lang))
    render = voice.renderer(lang, currency=verdict.workload.currency)
    return Lines("standing", head, tuple(render(reason) for reason in verdict.standing))


# ---- A plan in twenty lines: the choice, what to expect with its doubt, two alternatives, the
# warnings that matter, the next command.
#
# All else stands in the whole sheet (sheets.plan_sheet) and in the verdict on one server.

#: Warnings in the order in which they matter; those that are not here come after
#: them, as they stand.
FIRST_WARNINGS = tuple(tomllib.loads(Path(__file__).with_name("data").joinpath("first_warnings.toml").read_text(encoding="utf-8"))["first"])
#: Assumptions without which the answer would be one to another question.
TAKEN = (
    *(f"assumed_serve_packed_{cause}" for cause in ("servers", "card", "cheapest", "fits")),
    "assumed_serve_wait",
    "assumed_by_qlora",
    "assumed_serve_latency_wide",
    "assumed_smallest_card",
    "assumed_modules",
    "assumed_own_host",
    "assumed_own_user",
    "assumed_home_currency",
    "assumed_usual_model",
    "assumed_name_meant",
    "assumed_relative_model",
    "assumed_shape_by_name",
    "assumed_typical_mixture",
    "assumed_task_corpus",
    "assumed_task_published_data",
    "assumed_budget_month",
    "assumed_sellers",
)
#: Advice that matters enough for a short answer.
FIRST_ADVICE = ("certainty",)
#: That a machine of one's own does not do it: the answer to what was asked, and never left out.
OWN_REFUSED = (
    *("own_does_not", "own_does_not_assumed", "own_does_not_gap", "own_does_not_ram"),
    *("own_too_few", "own_too_few_unless", "own_by_lighter", "rent_by_lighter"),
    *("card_does_not", "card_does_not_assumed", "card_does_not_gap", "card_does_not_ram", "card_too_few", "card_too_few_unless"),
)
#: Advice to ask for the price of a card that nobody publishes: it matters where several
#: servers do its work.
UNPRICED = "unpriced"
#: Warnings that the first line has said already.
SAID_FIRST = ("price_moved", "price_stale", "price_estimate")
#: That the wish puts one side of a border first: said beside the choice, as it decides.
MAINLAND_FIRST = ("mainland_first", "mainland_first_month")
#: That something much cheaper stands behind because it can seldom be had.
SCARCE_FIRST = tuple(f"decided_{rule}{month}" for rule in ("free", "many", "older") for month in ("", "_month"))
LEAST_SCARCE_SAVING = 0.2
#: That the fastest was passed over for its money: always said, as the wish was for it.
HASTE = "decided_haste"
#: Warnings of stops, and how many of them have to be expected to be told in a short answer.
STOPS, LEAST_STOPS = ("spot_interruption", "spot_rate_unknown", "failures_expected"), 0.02
#: An option that costs less by at most this share is as dear.
LEAST_SAVING = 0.005


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a short answer says beside what it always says (the choice, the amount of work, the
    set-up): rows of the table, warnings, and whether all percentiles of a service. `weighty`: a
    warning of those that matter takes the place of a row; one of the others does not. `commands`:
    whether the commands that go on from here close it."""

    rows: int = 3
    warnings: int = 2
    speed: bool = True
    weighty: bool = False
    commands: bool = True


#: From the most down to the least that a short answer says.
EXTENTS = (
    Extent(),
    Extent(warnings=1),
    Extent(warnings=1, speed=False),
    Extent(rows=2, warnings=1, speed=False, weighty=True),
    Extent(warnings=0, speed=False),
    Extent(rows=2, warnings=0, speed=False),
    Extent(rows=0, warnings=0, speed=False),
)


def short_sheet(
    plan: Plan, lang: Lang, *, extent: Extent = EXTENTS[0], num_options: int | None = None, text: PlanText | None = None
) -> tuple[Part, ...]:
    """A plan in few lines; what is always said is in all of them. `num_options`: rows of the table,
    where the user said how many; `text`: all that the plan says, where it is known already."""
    text = text or plan_text(plan, lang)
    parts = _found(plan, text, lang, extent, num_options) if plan.best else _nothing(plan, text, lang, extent)
    return tuple(part for part in parts if part)


def quiet_sheet(plan: Plan, lang: Lang) -> tuple[Part, ...]:
    """The choice alone."""
    return (Choice(plan_text(plan, lang).headline),)


#: A catalog whose newest price is older [days] says so first.
OLD_CATALOG_DAYS = 30


def old_catalog(plan: Plan, lang: Lang) -> Iterable[str]:
    """How old the catalog is, where nobody refreshed it for long; its newest price tells."""
    from rightfit.market.offers import today

    newest = max((date for date in plan.catalog.get("as_of", {}).values()), default="")
    if newest and not plan.given:
        days = (datetime.date.fromisoformat(today()) - datetime.date.fromisoformat(newest)).days
        if days > OLD_CATALOG_DAYS:
            yield label("short", "old_catalog", lang, newest=newest, days=days)


def choice_sheet(plan: Plan, lang: Lang) -> tuple[Part, ...]:
    """The choice with the work, its time and cost, and the set-up."""
    text = plan_text(plan, lang)
    return (Choice(text.headline, (text.best.outcome, text.best.setup) if text.best else ()),)


def _found(plan: Plan, text: PlanText, lang: Lang, extent: Extent, num_options: int | None) -> Iterable[Part]:
    voice, best = voice_of(plan), text.best
    assert best is not None
    yield from old_catalog(plan, lang)
    yield "\n".join(_own_refused(plan, voice, lang))  # what was asked about, before what is rented instead
    yield from cheaper_elsewhere(plan, lang)
    is_asked = "simulated" in plan.options[0].facts  # latencies are what the user wants to see
    speed = best.speed if voice.is_service and (extent.speed or is_asked) else ""
    expected = (best.outcome, best.setup, speed, *_otherwise(plan, voice, lang))
    yield Choice(text.headline, tuple(line for line in expected if line))
    several = plan.options[0].nodes > 1  # they stand in for what has no price
    asked = _quotes(plan, voice, lang) if several and extent.rows else []
    told = (_border, _dearer_api, _larger_batch, _own_runs, _rental, _usual)
    yield "\n".join([*asked, *(line for lines in told for line in lines(plan, voice, lang)), *_beside(plan, voice, lang, extent)])
    if extent.weighty and not any(reason.key in FIRST_WARNINGS and not _is_remote(reason) for reason in plan.options[0].warnings):
        extent = dataclasses.replace(extent, warnings=0, speed=False, weighty=False, rows=Extent().rows)
    shown = plan.options[:num_options] if num_options is not None else first_options(plan, extent.rows)
    if len(shown) > 1:
        yield voice.options_table(dataclasses.replace(plan, options=shown), lang)
        yield from _cheaper_below(plan, shown, voice, lang)
    yield from staged_lines(plan, voice.renderer(lang, currency=plan.workload.currency), lang)
    if care := _care(plan, voice, lang)[: extent.warnings]:
        yield Lines("warnings", label("section", "warnings", lang), tuple(care))
    if extent.commands:
        key = "next_staged" if any(section.name == "staged" for section in plan.sections) else "next"
        yield _next(key, plan, shown, lang)


def _nothing(plan: Plan, text: PlanText, lang: Lang, extent: Extent) -> Iterable[Part]:
    """Nothing to rent: what stands against it, the least changes, and where more is said."""
    voice = voice_of(plan)
    yield from old_catalog(plan, lang)
    yield Choice(text.headline, (text.blame,) if text.blame else (), is_found=False)
    quotes = _quotes(plan, voice, lang)
    if advice := (*quotes, *(line for line in text.advice if line not in quotes))[: extent.warnings + 1]:
        yield Lines("advice", label("section", "advice", lang), advice)
    refused = sorted(plan.rejected, key=lambda one: -one.alone)[: extent.warnings + 1]
    lines = [voice.rejection_lines(one, lang, currency=plan.workload.currency)[0] for one in refused]
    if lines:
        yield Lines("refused", label("section", "refused", lang), tuple(lines))
    if extent.commands:
        yield label("short", "nothing", lang)


#: Warnings that no export starts the plan as it stands.
UNSTARTED = frozenset({"no_program", "no_program_size", "serve_not_stored"})

#: A format of weights saves enough to be told of at this share of the month's cost.
PACKED_SHARE = 0.9
#: Losses of quality of the formats that are told of, the least first.
HARMLESS = ("none", "small")


def _otherwise(plan: Plan, voice: Voice, lang: Lang) -> Iterable[str]:
    """What decides a service and nobody stated: limits of latency, and that weights are taken as
    published; each with what would be without it."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    sections = {section.name: section for section in plan.sections}
    if "limits" in sections:
        yield from (render(reason) for reason in sections["limits"].reasons[:1])
    if "formats" in sections:
        most = PACKED_SHARE * plan.options[0].cost.total_usd
        rows = [row for row in sections["formats"].content["formats"] if row["quality"] in HARMLESS and row["monthly_usd"] <= most]
        for row in sorted(rows, key=lambda one: HARMLESS.index(one["quality"]))[:1]:
            yield render(dataclasses.replace(sections["formats"].reasons[0], key="serve_packed", params=row))


def _quotes(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """Of what nobody publishes a price to ask for a quote."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for reason in plan.advice if reason.key == UNPRICED][:1]


def _border(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """That the wish puts mainland China first, and what the rest of the world would cost."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for reason in plan.options[0].warnings if reason.key in MAINLAND_FIRST]


def _dearer_api(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """What an API would cost where the servers cost less; where they do not, it has the first
    line (`cheaper_elsewhere`)."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    sections = [section for section in plan.sections if section.name == "api"]
    return [render(reason) for section in sections for reason in section.reasons if reason.key not in CHEAPER][:1]


def _larger_batch(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """What a batch that grows with the cards would save."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for reason in plan.advice if reason.key == "larger_batch"]


def _own_refused(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """That the machine that one has does not do it."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for reason in plan.advice if reason.key in OWN_REFUSED]


def _own_runs(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """What the user's own runs say of the choice."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for reason in plan.options[0].why if reason.key in OWN_RUNS]


def _beside(plan: Plan, voice: Voice, lang: Lang, extent: Extent) -> list[str]:
    """What lies beside the choice: what would save clearly and can seldom be had, much faster for a
    little more money, where no row of the table says it, and what misses a limit by little and
    saves clearly."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    told = [
        render(reason) for reason in plan.options[0].why if reason.key == HASTE or (reason.key in SCARCE_FIRST and _saves(reason, plan))
    ]
    for section in plan.sections:
        if section.name == "quicker" and not _is_shown(section, first_options(plan, extent.rows)):
            told += map(render, section.reasons[:1])
        if section.name == "near":
            told += map(render, section.reasons[:1])
    return told


def _saves(reason: Reason, plan: Plan) -> bool:
    """Whether what stands behind would save enough to be told of."""
    return float(reason.params["saving_usd"]) >= LEAST_SCARCE_SAVING * plan.options[0].cost.total_usd


def _is_shown(section: Section, options: Sequence[Option]) -> bool:
    """Whether the offer of a section is one of the options."""
    names = ("provider", "instance_type", "nodes", "purchase")
    return any(all(getattr(one, name) == section.content[name] for name in names) for one in options)


def _rental(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """What the best rental would take and cost, beside a machine of one's own."""
    render = voice.renderer(lang, currency=plan.workload.currency)
    return [render(reason) for section in plan.sections if section.name == "rental" for reason in section.reasons]


def _usual(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """Which model was taken where a name means several, and which task where none was given and the
    data tell another than the usual one."""
    return [voice.assumption_text(one, lang, plan.workload.currency) for one in plan.assumptions if one.why.key in TAKEN]


def _care(plan: Plan, voice: Voice, lang: Lang) -> list[str]:
    """What certainty would cost, then the warnings of the choice, those that matter first."""
    render: Callable[[Reason], str] = voice.renderer(lang, currency=plan.workload.currency)
    rank = {key: place for place, key in enumerate(FIRST_WARNINGS)}
    ordered = sorted((one for one in plan.options[0].warnings if not _is_remote(one)), key=lambda one: rank.get(one.key, len(rank)))
    said = MAINLAND_FIRST + SAID_FIRST if doubted_price_text(plan.options[0], lang, currency=plan.workload.currency) else MAINLAND_FIRST
    advice = [reason for reason in plan.advice if reason.key in FIRST_ADVICE]
    return [render(reason) for reason in (*advice, *(one for one in ordered if one.key not in said))]


def first_caution(plan: Plan, lang: Lang) -> tuple[Part, ...]:
    """The first warning of the choice, also where a short answer has none that matters enough."""
    voice = voice_of(plan)
    render = voice.renderer(lang, currency=plan.workload.currency)
    lines = _care(plan, voice, lang)[:1] or [render(reason) for reason in plan.options[0].warnings[:1]]
    return (Lines("warnings", label("section", "warnings", lang), tuple(lines)),) if lines else ()


def _is_remote(reason: Reason) -> bool:
    """Whether a warning is of stops that hardly any run of this length sees."""
    return reason.key in STOPS and float(reason.params.get("expected_interruptions", 1.0)) < LEAST_STOPS


def _next(key: str, plan: Plan, shown: Sequence[Option], lang: Lang) -> str:
    """The next commands, export among them where it starts the plan; how to see the first option
    of another kind where all that are shown are of one."""
    starts = UNSTARTED.isdisjoint(one.key for one in plan.options[0].warnings)
    export = label("short", "next_export", lang) if starts else ""
    other = other_kind(plan, shown)
    if other is None:
        return label("short", key, lang, export=export)
    server = f"{'' if other.nodes == 1 else f'{other.nodes} x '}{other.provider}/{other.instance_type}"
    cost = q.money_text(other.cost.total_usd, plan.workload.currency)
    return label("short", f"{key}_others", lang, most=other.rank, server=server, cost=cost, export=export)


def _cheaper_below(plan: Plan, shown: Sequence[Option], voice: Voice, lang: Lang) -> Iterable[str]:
    """Why the first row stands before the cheapest of those below it, where one costs less."""
    best, least = shown[0], min(shown, key=lambda one: one.cost.total_usd)
    saved = best.cost.total_usd - least.cost.total_usd
    if plan.workload.objective == "cost" and saved > LEAST_SAVING * best.cost.total_usd:
        params = {"number": least.rank, "saved_share": saved / best.cost.total_usd, "saved_usd": saved, "below_cause": below_cause(least)}
        chances = [one.probability.get("fits") for one in (least, best)]
        is_room = params["below_cause"] == "room" and None not in chances  # how much less sure decides whether it is worth it
        params |= {"fits_share": chances[0], "first_share": chances[1]} if is_room else {}
        yield voice.renderer(lang, currency=plan.workload.currency)(Reason("row_below_room" if is_room else "row_below", params))


def first_options(plan: Plan, most: int) -> tuple[Option, ...]:
    """The first options by rank, none left out between; a makeshift ends them."""
    return tuple(itertools.takewhile(lambda one: not is_makeshift(one, plan.options[0]), plan.options[:most]))


def other_kind(plan: Plan, shown: Sequence[Option]) -> Option | None:
    """The first option that is not shown and stands for what none of those does: a major cloud,
    else other hardware or another seller where all are alike."""
    rest = [one for one in plan.options[len(shown) :] if shown and not is_makeshift(one, plan.options[0])]
    if not any(is_major(one.provider) for one in shown):
        return next((one for one in rest if is_major(one.provider)), None)
    if len({_kind(one) for one in shown}) > 1:
        return None
    return next((one for one in rest if _kind(one) != _kind(shown[0])), None)


def _kind(option: Option) -> tuple[Any, ...]:
    return option.provider, option.accelerator.name
