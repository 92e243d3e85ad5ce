"""A whole answer as a sheet: sentences, headed lists, tables and breakdowns in reading order. Every face draws the same sheet in its own
way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain import quantities as q
from rightfit.explain.advice import advise
from rightfit.explain.buy_tables import bill_table, modes_table
from rightfit.explain.checks import check_rules
from rightfit.explain.economics_text import section_lines
from rightfit.explain.labels import label
from rightfit.explain.load_text import load_lines
from rightfit.explain.messages import Lang
from rightfit.explain.option_tables import simulation_table
from rightfit.explain.plan_words import OptionText, PlanText, Term, verdict_key
from rightfit.explain.reasons import criteria_text
from rightfit.explain.tables import Table
from rightfit.explain.voices import Voice, plan_text, voice_of
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.catalog import Catalog
    from rightfit.search.answer import Plan, Rejection
    from rightfit.search.verdict import Verdict

_MOST_REFUSALS = 4
#: What is said of another way to be served that costs less however much is asked.
CHEAPER = {"serve_api_never": "api_usd", "serve_api_later": "api_usd", "serve_serverless_pays": "monthly_usd"}


@dataclass(frozen=True, slots=True)
class Choice:
    """What to rent in one sentence, and what to expect of it. `heading`, where it is not the answer itself but a set-up beside it.

    `is_found` is false where there is nothing to rent: the lines then say what stands against it.
    """

    headline: str
    lines: tuple[str, ...] = ()
    heading: str = ""
    is_found: bool = True


@dataclass(frozen=True, slots=True)
class Lines:
    """A headed list; a line that begins with blanks belongs to the one before. `name`: its code, for faces that place it."""

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
    """A plan as parts in reading order; `everything`: every refusal, the bill, what would do with less, and the rules of thumb."""
    return tuple(_plan_parts(plan, lang, everything=everything, catalog=catalog))


def _plan_parts(plan: Plan, lang: Lang, *, everything: bool, catalog: Catalog | None) -> Iterable[Part]:
    voice, currency = voice_of(plan), plan.workload.currency
    text, render = plan_text(plan, lang), voice.renderer(lang, currency=currency)
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
    """The smallest trial, what to expect and decide, and the step up; nothing where it was not asked for."""
    yield from _lists(lang, staged=[render(reason) for section in plan.sections if section.name == "staged" for reason in section.reasons])


def energy_lines(plan: Plan, render: Callable[[Any], str], lang: Lang) -> Iterable[Lines]:
    """What the first option draws from the grid, and the CO2 of it."""
    yield from _lists(lang, energy=[render(reason) for section in plan.sections if section.name == "energy" for reason in section.reasons])


def cheaper_elsewhere(plan: Plan, lang: Lang) -> Iterable[str]:
    """That an API or a serverless offer costs less than the servers of the list, the cheaper of the two: then they are not the answer."""
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
    from rightfit.explain.room_text import batch_lines, formula_lines, phase_tables

    yield from phase_tables(plan, lang)
    yield from _lists(lang, batch=batch_lines(plan, render), formulas=formula_lines(plan, text, lang))


def _buying(plan: Plan, lang: Lang, render: Callable[[Any], str], *, everything: bool) -> Iterable[Part]:
    """The section on buying as a table with its lines, then the month, and every line of the bill."""
    sections = {section.name: section for section in plan.sections}
    currency = plan.workload.currency
    if "buy" in sections:
        yield modes_table(sections["buy"].content["modes"], lang, currency=currency)
    reasons = [reason for name in ("buy", "bill") if name in sections for reason in sections[name].reasons]
    yield from _lists(lang, buy_lines=[render(reason) for reason in reasons])
    if everything and "bill" in sections:
        yield bill_table(sections["bill"], lang, currency=currency)


def _rules_and_advice(plan: Plan, lang: Lang, *, currency: str, catalog: Catalog | None) -> Iterable[Part]:
    yield from _lists(lang, smaller=[effect.text(lang) for effect in advise(plan, catalog=catalog)])
    yield from _lists(lang, rules=[check.text(lang, currency=currency) for check in check_rules(plan, catalog=catalog)])


def _refused(rejected: Sequence[Rejection], voice: Voice, lang: Lang, *, currency: str, everything: bool) -> Iterable[Part]:
    """What was refused and how little it lacked; `everything`, or the criteria that alone exclude most."""
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
    yield from _lists(lang, assumed=[voice.assumption_text(assumption, lang) for assumption in plan.assumptions])
    yield from _refused(plan.rejected, voice, lang, currency=currency, everything=True)


def verdict_sheet(verdict: Verdict, lang: Lang, *, everything: bool = False) -> tuple[Part, ...]:
    """Why a server was or was not chosen, and what it would do."""
    return tuple(_verdict_parts(verdict, lang, everything=everything))


def _verdict_parts(verdict: Verdict, lang: Lang, *, everything: bool) -> Iterable[Part]:
    voice, currency = voice_of(verdict), verdict.workload.currency
    yield _standing(verdict, voice, lang)
    if len(verdict.failed) > 1 or everything:
        yield from _refused(verdict.failed, voice, lang, currency=currency, everything=True)
    if verdict.option is not None:
        text = voice.option_text(verdict.option, verdict.workload, lang)
        yield _setup(choice_of(text), verdict, voice, lang)
        yield from option_parts(text, voice, lang, currency=currency)
    yield from _lists(lang, assumed=[voice.assumption_text(assumption, lang) for assumption in verdict.assumptions])


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
