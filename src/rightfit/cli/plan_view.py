"""A plan on the screen: the sheet that explain lays out, as lines and tables of text; for programs
the contract's JSON."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import units
from rightfit.cli.output import Answer, Format, View, open_market, output_width, printing_aside, text_of
from rightfit.errors import ContradictionError, InputError, UnknownNameError
from rightfit.explain import quantities as q
from rightfit.explain.listings import modes_table
from rightfit.explain.messages import label, say_or
from rightfit.explain.plan_words import Term
from rightfit.explain.quantities import Column, Table
from rightfit.explain.sheets import (
    EXTENTS,
    Breakdown,
    Choice,
    Lines,
    Part,
    estimate_sheet,
    plan_sheet,
    quiet_sheet,
    short_sheet,
    verdict_sheet,
)
from rightfit.explain.voices import flat_option, plan_document, plan_text, verdict_document
from rightfit.messages import Lang, Message, of_kind
from rightfit.search.request_checks import Honours, leave_out, refuse_unheeded
from rightfit.workload.options import OPTIONS

if TYPE_CHECKING:
    from rightfit.estimation.traced import TracedEstimate
    from rightfit.market import Catalog
    from rightfit.search.answer import Plan, Section
    from rightfit.search.servers import Verdict
    from rightfit.workload.model import Workload


# ---- The ways to pay for one server on the screen.


def break_even_answer(section: Section, view: View) -> Answer:
    """The ways to pay for one server, and what follows from them."""
    from rightfit.explain.reasons import renderer

    render = renderer(view.lang)
    place = section.content["modes"][0]["region"]
    lines = "\n".join([label("section", "buy_lines", view.lang), *(f"- {render(reason)}" for reason in section.reasons)])
    table = modes_table(section.content["modes"], view.lang, currency="usd")
    records = [{name: value for name, value in mode.items() if name != "job_usd"} for mode in section.content["modes"]]
    head = label("section", "buy_region", view.lang, region=", ".join(dict.fromkeys(mode["region"] for mode in section.content["modes"])))
    return Answer(section.to_dict(render), records, [table, head, lines] if place else [table, lines])


#: Lines of a plan by default, also on a screen under NARROW columns, where every sentence takes
#: more of them; and the options in them.
MOST_LINES, MOST_NARROW_LINES, NARROW, SHOWN_OPTIONS = 20, 26, 80, 3
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


def with_answers(answer: Answer, told: Sequence[str]) -> Answer:
    """A plan with the answers to what was asked beside the wish before it."""
    if not told:
        return answer
    data = {**answer.data, "answers": told} if isinstance(answer.data, dict) else answer.data
    return dataclasses.replace(answer, data=data, parts=["\n".join(told), *answer.parts])


def short_parts(plan: Plan, view: View) -> list[str | Table]:
    """A plan in at most twenty lines, some more on a narrow screen: as much of it as they hold;
    the choice alone with --quiet."""
    if view.quiet:
        return screen_parts(quiet_sheet(plan, view.lang), view)
    shown: list[str | Table] = []
    asked = None if view.top is None else view.top or len(plan.options)  # --top 0: all
    most = MOST_NARROW_LINES if output_width() < NARROW else MOST_LINES
    text = plan_text(plan, view.lang)
    for extent in EXTENTS:
        shown = screen_parts(short_sheet(plan, view.lang, extent=extent, num_options=asked, text=text), view)
        if num_lines(shown, view) <= most + max((asked or 0) - SHOWN_OPTIONS, 0) + num_staged(plan):
            break
    return shown


def with_alternatives(answer: Answer, plan: Plan, view: View, *, catalog: Catalog) -> Answer:
    """The answer with a stronger and a cheaper model of the same family at its end."""
    from rightfit import api
    from rightfit.planner.plan import alternatives

    found = alternatives(plan, lambda workload: api.plan(workload, catalog=catalog, top=1))
    if view.is_machine:
        records = [
            {
                "role": one.role,
                "model": one.model.name,
                "params_total": one.model.params_total,
                "params_active": one.model.params_active,
                "licence": one.model.licence or None,
                "max_position": one.model.max_position,
                "plan": plan_document(one.plan, view.lang, catalog=catalog),
            }
            for one in found
        ]
        return dataclasses.replace(answer, data={**answer.data, "alternatives": records})
    parts = [] if found else [label("alternatives", "none", view.lang, model=plan.workload.model)]
    for one in found:
        text = plan_text(one.plan, view.lang)
        known = {
            "model": one.model.name,
            "params": units.format_count(one.model.params_total),
            "licence": one.model.licence or label("alternatives", "no_licence", view.lang),
            "context": f"{one.model.max_position:,}",
        }
        said = [text.headline, *([text.best.outcome] if text.best else [])]
        parts.append("\n".join([label("alternatives", one.role, view.lang, **known), *(f"  {line}" for line in said)]))
    return dataclasses.replace(answer, parts=[*answer.parts, *parts])


def num_staged(plan: Plan) -> int:
    """Lines that a trial takes beside, where one was asked for: each statement up to
    two, and the heading."""
    return sum(2 * len(section.reasons) + 1 for section in plan.sections if section.name == "staged")


def num_lines(parts: Sequence[str | Table], view: View) -> int:
    """Lines of text, with the blank ones between."""
    return len(text_of(parts, view).splitlines())


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
        if part.name == "warnings" and len(part.lines) == 1:  # one line less on a full screen
            return f"{part.heading} {part.lines[0]}" if view.lang == "en" else f"{part.heading}{part.lines[0]}"
        return "\n".join([part.heading, *map(_list_line, part.lines)])
    if isinstance(part, Breakdown):
        return terms_table(part.heading, part.terms, view.lang, show=part.show, most=None if view.verbose else _MOST_TERMS)
    return part


def _list_line(line: str) -> str:
    """A line of a list, or one that belongs to the line before."""
    return f"  {line}" if line.startswith("  ") else f"- {line}"


def terms_table(heading: str, terms: Sequence[Term], lang: Lang, *, show: Callable[[Any], str], most: int | None) -> Table:
    """The parts of a sum, largest first, each with its share as a bar; the small ones are
    folded into one line."""
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


# ---- `rightfit estimate --engine traced`: from options to the traced engine, and its
# answer on the screen.

#: What one step of training reads; the rest of a plan's options is not looked at, and so refused.
READ = Honours(
    frozenset({"model", "task", "method", "micro_batch", "seq_len", "precision", "recompute", "sharding", "gpu"}),
    because=dict.fromkeys(OPTIONS, leave_out("one_step")),
    against=lambda _workload: of_kind("engine", "traced"),
    of_all=frozenset(),
)
ENGINES = ("analytic", "traced")


def check_engine(engine: str) -> None:
    """Raise unless `engine` is one of ours."""
    if engine not in ENGINES:
        raise UnknownNameError(
            "engine", engine, allowed=Message("names.allowed_are", names=", ".join(ENGINES)), nearest=ENGINES[1:], field="engine"
        )


def trace(workload: Workload, *, on: str | None, nodes: int, view: View) -> Answer:
    """Trace the workload's model for one card, or for one card of a server under FSDP."""
    from rightfit.estimation.traced import traced_estimate

    if workload.method is None:  # nothing is trained
        raise ContradictionError(Message("cli.traced_option", option="task", word=workload.task, other="task"), field="task")
    if workload.method != "full" and "method" not in workload.assumed:
        raise ContradictionError(Message("cli.traced_option", option="method", word=workload.method, other="method"), field="method")
    refuse_unheeded(workload, READ)
    if on and workload.gpu:
        raise ContradictionError(Message("cli.gpu_and_on", server=on), field="gpu")
    accelerator, cards = card_of(on, view) if on else (workload.gpu[0] if workload.gpu else "", 1)
    sharded = workload.sharding in ("zero3", "fsdp")
    with printing_aside():  # the user's module runs, and may print
        found = traced_estimate(
            workload.model,
            micro_batch=workload.micro_batch or 1,
            seq_len=workload.seq_len or 2048,
            dtype=workload.precision or "bf16",
            recompute=workload.recompute == "full",
            shard_degree=cards * nodes if sharded else 1,
            accelerator=accelerator,
        )
    return traced_answer(found, view)


def card_of(on: str, view: View) -> tuple[str, int]:
    """Accelerator of a server, and how many it has."""
    from rightfit.search.servers import find_server, market_of_one

    catalog = open_market(view)
    servers = market_of_one(catalog, find_server(catalog, on))[0].offers.servers
    if not servers.accelerator_name[0]:
        raise InputError(Message("cli.on_without_card", server=on), field="on")
    return servers.accelerator_name[0], int(servers.num_accelerators[0])


def traced_answer(traced: TracedEstimate, view: View) -> Answer:
    """Headline, terms, and whether the card holds it."""
    words: dict[str, Any] = {
        "model": traced.model,
        "micro_batch": traced.micro_batch,
        "seq_len": traced.seq_len,
        "cards": traced.shard_degree,
        "dtype": traced.dtype,
        "peak": q.memory_text(traced.peak_bytes),
        "params": q.count_text(traced.num_parameters, view.lang),
    }
    lines = [label("traced", "headline", view.lang, **words)]
    if traced.capacity_bytes is not None:
        key = "fits" if traced.fits else "does_not_fit"
        lines.append(label("traced", key, view.lang, accelerator=traced.accelerator, capacity=q.memory_text(traced.capacity_bytes)))
    lines.append(label("traced", "caveat", view.lang))
    ordered = sorted(traced.terms.items(), key=lambda term: -term[1])
    terms = [Term(name, say_or(f"terms.{name}", view.lang, name), value, value / traced.peak_bytes, "") for name, value in ordered]
    table = terms_table(label("section", "memory", view.lang), terms, view.lang, show=q.memory_text, most=None)
    data = traced.to_dict()
    return Answer(data, [{**{name: value for name, value in data.items() if name != "terms"}, **traced.terms}], ["\n".join(lines), table])
