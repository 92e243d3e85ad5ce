"""What of a wish can be turned to see how the answer changes: options with a ladder of values around the one that holds now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import InputError
from rightfit.explain.voices import voice_of
from rightfit.records import dataclass
from rightfit.workload.money import from_usd
from rightfit.workload.options import read_wish

if TYPE_CHECKING:
    from rightfit.search.answer import Plan

_FACTORS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
_DOUBLINGS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
_OFFICE_HOURS = (80, 120, 176, 365, 548, 730)
#: A limit that nobody set is offered from this multiple of what the best option takes.
_ROOM = 2.0


@dataclass(frozen=True, slots=True)
class Knob:
    """One option and the values it can be turned to, as they are written; "" takes the limit away. `at`: the position of the value that
    holds now."""

    option: str
    values: tuple[str, ...]
    at: int


def knobs(plan: Plan) -> tuple[Knob, ...]:
    """The knobs that this kind of work has; none where nothing is feasible and so nothing says what is usual."""
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
