"""How each kind of plan is put in words: training, services and batches of inference, classical
machine learning and data preparation; and any other family of work by a table of words
(family_words.py).

Faces ask `voice_of(answer)` and never for the kind.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import InputError, MissingComponentError
from rightfit.explain import option_tables, plan_words
from rightfit.explain.messages import say, topic
from rightfit.explain.plan_words import OptionText, PlanText
from rightfit.explain.quantities import Table
from rightfit.explain.reasons import renderer
from rightfit.explain.trials import where_text
from rightfit.families.registry import name_of
from rightfit.messages import Lang, Message, either
from rightfit.records import dataclass
from rightfit.search.answer import Cost, summary
from rightfit.workload.amounts import from_usd
from rightfit.workload.options import read_wish

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Assumption, Option, Plan, Reason
    from rightfit.search.servers import Verdict
    from rightfit.workload.model import Workload


@dataclass(frozen=True, slots=True)
class Voice:
    """The wording of one kind of plan. `headings`: the labels over its parts of memory, time and
    cost; `unfit_heading`: over the set-up of a server that does not do it; `is_training`: of
    neural networks, which rules of thumb are about; `is_service`: answers requests, one by one
    or as a batch."""

    renderer: Callable[..., Callable[[Reason], str]]
    option_text: Callable[[Option, Any, Lang], OptionText]
    nothing_text: Callable[[Plan, Lang], str]
    assumption_text: Callable[[Assumption, Lang, str], str]
    options_table: Callable[[Plan, Lang], Table] = option_tables.server_table
    rejection_lines: Callable[..., list[str]] = plan_words.rejection_lines
    blame_text: Callable[[Plan, Lang], str] = plan_words.blame_text
    headings: Mapping[str, str] = field(default_factory=lambda: {"memory": "memory", "time": "time_job", "cost": "cost"})
    unfit_heading: str = "leanest_setup"
    is_training: bool = False
    is_service: bool = False


_TRAINING = Voice(
    renderer=renderer,
    option_text=plan_words.option_text,
    nothing_text=plan_words.nothing_text,
    assumption_text=plan_words.assumption_text,
    options_table=option_tables.training_table,
    headings={"memory": "memory", "time": "time", "cost": "cost"},
    is_training=True,
)


@functools.cache
def _host() -> Voice:
    """The voice of classical machine learning and data preparation; its words are read
    when they are needed."""
    from rightfit.explain import family_text

    return Voice(
        renderer=family_text.host_renderer,
        option_text=family_text.host_option_text,
        nothing_text=family_text.host_nothing_text,
        assumption_text=family_text.host_assumption_text,
        rejection_lines=family_text.host_rejection_lines,
        headings={"memory": "memory_ram", "time": "time_job", "cost": "cost"},
    )


@functools.cache
def _service() -> Voice:
    """The voice of services and batches of inference; its words are read when they are needed."""
    from rightfit.explain import serving_text

    return Voice(
        renderer=serving_text.serving_renderer,
        option_text=serving_text.serving_option_text,
        nothing_text=lambda _, lang: say("choice.none", lang),
        blame_text=serving_text.serving_blame_text,
        assumption_text=serving_text.serving_assumption_text,
        rejection_lines=serving_text.serving_rejection_lines,
        options_table=option_tables.service_table,
        headings={"memory": "memory", "time": "time", "cost": "cost"},
        unfit_heading="enough_servers",
        is_service=True,
    )


@functools.cache
def _worded(family: str) -> Voice:
    """The voice of a family whose words are a table."""
    from rightfit.explain import family_text

    words = family_text.FamilyWords(family)
    return Voice(
        renderer=words.renderer,
        option_text=words.option_text,
        nothing_text=family_text.family_nothing_text,
        assumption_text=words.assumption_text,
    )


def voice_of(answer: Plan | Verdict) -> Voice:
    """The wording for an answer, told by its workload."""
    return voice_for(answer.workload)


def voice_for(workload: Workload) -> Voice:
    """The wording for answers to a workload: that of its family."""
    return voice_of_family(name_of(workload))


def voice_of_family(family: str) -> Voice:
    """The wording of a family: its own code, else its table of words."""
    return OF_FAMILY[family]() if family in OF_FAMILY else _worded(family)


#: The families whose wording is code.
OF_FAMILY: Mapping[str, Callable[[], Voice]] = {
    "language": lambda: _TRAINING,
    "samples": lambda: _TRAINING,
    "serving": _service,
    "passes": _service,
    "tables": _host,
}


def plan_text(plan: Plan, lang: Lang) -> PlanText:
    """Everything that a plan says, in one language and in the currency of its workload."""
    voice, currency = voice_of(plan), plan.workload.currency
    render = voice.renderer(lang, currency=currency)
    best, unfit = (voice.option_text(option, plan.workload, lang) if option else None for option in (plan.best, plan.unfit))
    return PlanText(
        headline=best.headline if best else voice.nothing_text(plan, lang),
        considered=plan_words.considered_text(plan, lang),
        best=best,
        assumptions=tuple(voice.assumption_text(assumption, lang, plan.workload.currency) for assumption in plan.assumptions),
        rejected=tuple(line for rejection in plan.rejected for line in voice.rejection_lines(rejection, lang, currency=currency)),
        blame=voice.blame_text(plan, lang),
        advice=tuple(render(reason) for reason in plan.advice),
        faster=() if voice.is_service else plan_words.faster_lines(plan, lang),
        unfit=None if voice.is_service else unfit,
    )


def option_text(option: Option, workload: Workload, lang: Lang) -> OptionText:
    """One option in words, in the currency of the workload."""
    return voice_for(workload).option_text(option, workload, lang)


def plan_line(plan: Plan, command: str, lang: Lang) -> str:
    """The server that leads, how much work it was planned for, in what time and for how much, and
    the command; empty where nothing leads."""
    if (best := plan.best) is None:
        return ""
    texts = topic("open_wishes")["texts"]
    where = texts["own_machine"][lang] if best.purchase == "owned" else where_text(best)
    cards = f"{best.num_accelerators} x {best.accelerator.name}" if best.num_accelerators else "CPU"
    outcome = option_text(best, plan.workload, lang).outcome
    return str(texts["planned"][lang]).format(where=where, cards=cards, outcome=outcome, command=command)


# ---- What of a wish can be turned to see how the answer changes: options with a ladder of values
# around the one that holds now.

_FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_DOUBLINGS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_OFFICE_HOURS = (80, 120, 176, 365, 548, 730)
#: A limit that nobody set is offered from this multiple of what the best option takes.
_ROOM = 2.0


@dataclass(frozen=True, slots=True)
class Knob:
    """One option and the values it can be turned to, as they are written; "" takes the limit away.
    `at`: the position of the value that holds now."""

    option: str
    values: tuple[str, ...]
    at: int


def knobs(plan: Plan) -> tuple[Knob, ...]:
    """The knobs that this kind of work has; none where nothing is feasible and so nothing
    says what is usual."""
    found = map(_possible, _knobs(plan)) if plan.best is not None else ()
    return tuple(knob for knob in found if knob is not None)


def _possible(knob: Knob | None) -> Knob | None:
    """Without the values that the option does not take."""
    if knob is None:
        return None
    kept = [value for position, value in enumerate(knob.values) if position == knob.at or not value or _is_taken(knob.option, value)]
    return Knob(knob.option, tuple(kept), kept.index(knob.values[knob.at])) if len(kept) > 1 else None


def _is_taken(option: str, value: str) -> bool:
    try:
        read_wish(option, value)
    except InputError:
        return False
    return True


def _knobs(plan: Plan) -> Iterable[Knob | None]:
    workload, best = plan.workload, plan.best
    assert best is not None
    voice = voice_of(plan)
    if voice.is_training:
        yield _counts("global_batch", workload.global_batch or getattr(best.layout, "global_batch", None))
        yield _counts("seq_len", workload.seq_len or best.facts.get("seq_len"), most=2**20)
    if workload.task == "serve":
        for name, value in (("users", workload.users), ("rate", workload.rate_per_s)):
            yield _ladder(name, value, _DOUBLINGS, suffix="/s" if name == "rate" else "", whole=name == "users")
        for name, value in (("ttft", workload.ttft_s), ("tpot", workload.tpot_s), ("latency", workload.latency_s)):
            yield _ladder(name, value and value * 1e3, _FACTORS, suffix="ms")
    if voice.is_service:
        taken = {assumption.field: assumption.value for assumption in plan.assumptions}
        for name in ("input_tokens", "output_tokens"):
            yield _counts(name, getattr(workload, name) or _number(taken.get(name)), most=2**20)
    if workload.task != "serve" and "total_time_s" in best.estimate:
        yield _limit("deadline", workload.deadline_s and workload.deadline_s / 3600, best.estimate["total_time_s"].mid / 3600, suffix="h")
    yield _budget(plan)
    if any(section.name == "buy" for section in plan.sections):
        yield _office(workload.office_hours)


def _budget(plan: Plan) -> Knob | None:
    workload, best = plan.workload, plan.best
    assert best is not None
    given, used = (usd and from_usd(usd, workload.currency) for usd in (workload.budget_usd, best.cost.total_usd))
    return _limit(
        "budget", given, used, suffix=workload.currency + ("/month" if workload.budget_per_month or workload.task == "serve" else "")
    )


def _counts(option: str, value: Any, *, most: float = 1e8) -> Knob | None:
    """Whole numbers by doubling."""
    knob = _ladder(option, value, _DOUBLINGS, whole=True)
    if knob is None:
        return None
    kept = [text for text in knob.values if float(text) <= most]
    return Knob(option, tuple(kept), kept.index(knob.values[knob.at])) if len(kept) > 1 else None


def _ladder(option: str, value: Any, factors: Sequence[float], *, suffix: str = "", whole: bool = False) -> Knob | None:
    if not value or not value > 0:
        return None
    now = _text(value, whole=whole) + suffix
    texts = [now if factor == 1.0 else _text(value * factor, whole=whole) + suffix for factor in factors]
    values = tuple(dict.fromkeys(texts))
    return Knob(option, values, values.index(now)) if len(values) > 1 else None


def _limit(option: str, given: float | None, used: float | None, *, suffix: str) -> Knob | None:
    """A limit that may also be none at all."""
    knob = _ladder(option, given or (used and used * _ROOM), _FACTORS, suffix=suffix)
    if knob is None:
        return None
    return Knob(option, (*knob.values, ""), knob.at if given else len(knob.values))


def _office(given: float | None) -> Knob:
    now = int(given or facts.coefficients("planning")["office_hours_per_month"]) or 1
    values = sorted({*_OFFICE_HOURS, now})
    return Knob("office_hours", tuple(map(str, values)), values.index(now))


def _text(value: float, *, whole: bool) -> str:
    return str(max(1, round(value))) if whole else f"{float(f'{value:.3g}'):.10f}".rstrip("0").rstrip(".")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# ---- A plan or a verdict as the contract's JSON document, and an option as one flat record. The
# one place from which every face takes them.

_PLAIN = ("rank", "provider", "region", "instance_type", "nodes", "purchase")


def plan_document(plan: Plan, lang: Lang, *, catalog: Catalog | None = None) -> dict[str, Any]:
    """The plan as in the contract, its sentences in `lang`, and what the rules
    of thumb say of it."""
    voice = voice_of(plan)
    currency = plan.workload.currency
    from rightfit.explain.rule_trials import check_rules  # its patterns cost what a small plan costs

    rules = check_rules(plan, catalog=catalog) if voice.is_training else ()
    return {
        **plan.to_dict(voice.renderer(lang, currency=currency)),
        "rules": [check.to_dict(lang, currency=currency) for check in rules],
    }


def verdict_document(verdict: Verdict, lang: Lang) -> dict[str, Any]:
    """Why a server was or was not chosen, as data, its sentences in `lang`."""
    return verdict.to_dict(voice_of(verdict).renderer(lang, currency=verdict.workload.currency))


def flat_option(option: Option) -> dict[str, Any]:
    """One option as one line of a table, in base units."""
    return {
        **{name: getattr(option, name) for name in _PLAIN},
        "accelerator": option.accelerator.name,
        "accelerators_per_node": option.accelerator.count_per_node,
        "vcpus": option.vcpus,
        "memory_bytes": option.memory_bytes,
        **_money(option),
        **_figures(option),
        **{f"layout_{name}": value for name, value in option.layout.to_dict().items()},
        "price_as_of": option.price_as_of,
        "price_source": option.price_source,
    }


def flat_point(option: Option) -> dict[str, Any]:
    """A point of the Pareto front as one line of a table."""
    accelerator = option.accelerator
    return {**summary(option), "accelerator": accelerator.name, "accelerators_per_node": accelerator.count_per_node}


def _money(option: Option) -> dict[str, Any]:
    cost = option.cost
    if type(cost) is Cost:
        return {"network_gbps": option.network_gbps, "hourly_usd": cost.hourly_usd, "total_usd": cost.total_usd}
    names = ("hourly_usd", "monthly_usd", "per_thousand_requests_usd", "per_million_tokens_usd")
    return {name: getattr(cost, name) for name in names}


def _figures(option: Option) -> dict[str, float]:
    """The middle and the 80 % interval of every figure."""
    return {
        key: value
        for name, figure in option.estimate.items()
        for key, value in ((name, figure.mid), (f"{name}_low80", figure.low80), (f"{name}_high80", figure.high80))
    }


# ---- Options as a data frame of pandas or polars, whichever is installed.

BACKENDS = ("pandas", "polars")


def data_frame(records: Iterable[Mapping[str, Any]], *, backend: str | None = None) -> Any:
    """Records as a data frame, one a row; `backend` "pandas" or "polars", by default the first
    that is installed.

    Every record gets every column, in order of first appearance; what a record
    lacks is missing there.
    """
    rows = list(records)
    names = list(dict.fromkeys(name for row in rows for name in row))
    library = importlib.import_module(_installed(backend))
    return library.DataFrame({name: [_plain(row.get(name)) for row in rows] for name in names}, **_strictness(library.__name__))


def _installed(backend: str | None) -> str:
    if backend is not None and backend not in BACKENDS:
        raise InputError(Message("spread.unknown_data_frame", word=backend, names=", ".join(BACKENDS)), field="backend")
    wanted: Sequence[str] = BACKENDS if backend is None else (backend,)
    found = next((name for name in wanted if importlib.util.find_spec(name) is not None), None)
    if found is None:
        raise MissingComponentError(Message("spread.no_data_frames", names=either(wanted), library=wanted[0]))
    return found


def _plain(value: Any) -> Any:
    """What one cell of either library can hold."""
    return ";".join(map(str, value)) if isinstance(value, list | tuple) else value


def _strictness(name: str) -> dict[str, Any]:
    """polars looks at the first rows only unless told otherwise, and refuses a column of whole
    and broken numbers."""
    return {"strict": False, "infer_schema_length": None} if name == "polars" else {}
