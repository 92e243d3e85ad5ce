"""Plans with runs of one's own: figures of the options are moved by what the runs missed, and the order is made anew.

The search proposes more options than are shown; each is corrected by its own evidence, and what then costs least (or ends first) leads. What the runs say of memory
moves the probability that an option fits; one that then rather does not fit goes to the end. Of services the times are corrected, not the number of replicas.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.estimate.figures import Figure
from rightfit.facts.constants import constant_group
from rightfit.measure.evidence import BOUND_TO_CARD, Correction, Evidence, corrections
from rightfit.measure.likeness import Case, case_of
from rightfit.search.answer import Option, Plan, Reason, Section

if TYPE_CHECKING:
    from rightfit.workload.model import Workload

#: Options that are corrected, of which the first are shown.
MOST_OPTIONS = 60
_TIMES = {"step_s": True, "tokens_per_s": False, "samples_per_s": False, "mfu": False}
_SERVICE = {"tpot": "time-per-token", "ttft": "first-token"}
_METRICS = {
    "training-step": "step_time_s",
    "training-memory": "peak_mem_gib_per_gpu",
    "time-per-token": "tpot_ms",
    "first-token": "ttft_ms",
}
#: Parameters of reasons that tell the figures before they were corrected.
_OUTDATED = frozenset(("total_usd", "total_time_s", "runner_up", "probability", "peak_bytes"))
#: Half of an 80 % interval of a normal, in standard deviations.
_Z80 = 1.2816


def with_runs(plan: Plan, evidence: Evidence, *, top: int) -> Plan:
    """The plan with corrected figures, the first `top` options by corrected cost (or time), and a section `own_runs` that names the runs.
    Runs that move nothing are said to, with the reason."""
    if not plan.options or not (evidence.rows or evidence.unused):
        return plan
    moved = [_option(plan.workload, option, evidence) for option in plan.options]
    order = range(len(moved)) if plan.given else _order(plan.workload, plan.options, moved)
    ordered = [moved[at] for at in order]
    options = tuple(dataclasses.replace(option, rank=rank) for rank, option in enumerate(ordered[:top], start=1))
    if not any("own_runs" in option.facts for option in moved):
        options = (dataclasses.replace(options[0], why=(*options[0].why, _unused(evidence))), *options[1:])
    return dataclasses.replace(plan, options=options, sections=(*plan.sections, _section(evidence, options)))


def _order(workload: Workload, before: Sequence[Option], after: Sequence[Option]) -> list[int]:
    """Positions by what is wished for, as the runs change it. The search ranks by more than money (trust, age of a price, a further server can fail), so an option
    counts at least as much as those that it stood behind, times its own change, and passes another only where that is clearly more."""
    standing = itertools.accumulate((_wished(workload, option) for option in before), max)
    counted = [worth * _wished(workload, new) / _wished(workload, old) for worth, old, new in zip(standing, before, after, strict=True)]
    clearly = 1.0 - constant_group("measure", "resize")["near"]
    is_out = [_is_out(workload, option) for option in after]
    order: list[int] = []
    for at in range(len(after)):
        place = len(order)
        while place and _passes(at, order[place - 1], counted, is_out, clearly):
            place -= 1
        order.insert(place, at)
    return order


def _passes(one: int, other: int, counted: Sequence[float], is_out: Sequence[bool], clearly: float) -> bool:
    if is_out[one] != is_out[other]:
        return is_out[other]
    return counted[one] < clearly * counted[other]


def _wished(workload: Workload, option: Option) -> float:
    time = option.estimate.get("total_time_s")
    return max(time.mid if workload.objective == "time" and time is not None else option.cost.total_usd, 1e-12)


def _is_out(workload: Workload, option: Option) -> bool:
    time = option.estimate.get("total_time_s")
    is_late = bool(workload.deadline_s and time and time.mid > workload.deadline_s)
    return is_late or option.facts.get("fit_probability", 1.0) < 0.5


def _row(workload: Workload, option: Option) -> dict[str, str]:
    """An option in the columns of `rightfit predict`."""
    layout = option.layout
    card, count = option.accelerator.name, str(option.num_accelerators)
    model = str(workload.model or "")
    if workload.task in ("serve", "batch"):
        lengths = {
            "input_tokens": str(getattr(workload, "input_tokens", "") or ""),
            "output_tokens": str(getattr(workload, "output_tokens", "") or ""),
        }
        engine = {"engine": str(getattr(layout, "engine", "")), "weights_dtype": str(getattr(layout, "weight_format", ""))}
        return {"model": model, **engine, "device": card, "n_devices": str(layout.tensor * layout.pipeline), **lengths}
    length = str(option.facts.get("seq_len") or workload.seq_len or "")
    words = {"method": layout.method, "framework": str(workload.framework or ""), "precision": layout.precision}
    return {"model": model, **words, "gpu": card, "n_gpus": count, "micro_batch": str(layout.micro_batch), "seq_len": length}


def _cases(workload: Workload, option: Option) -> dict[str, Case]:
    row = _row(workload, option)
    wanted = ("time-per-token", "first-token") if "engine" in row else ("training-step", "training-memory")
    return {figure: case_of(row, _METRICS[figure]) for figure in wanted}


def _option(workload: Workload, option: Option, evidence: Evidence) -> Option:
    cases = _cases(workload, option)
    found = {
        figure: correction for figure, correction in zip(cases, corrections(evidence, list(cases.values())), strict=True) if correction
    }
    for figure, correction in found.items():
        option = _moved(option, figure, correction)
    kept = tuple(reason for reason in option.why if not _OUTDATED & reason.params.keys()) if found else option.why
    reasons = tuple(reason_of(figure, correction) for figure, correction in found.items())
    return dataclasses.replace(option, why=(*kept, *reasons), facts={**option.facts, "own_runs": _told(found)} if found else option.facts)


def _told(found: Mapping[str, Correction]) -> dict[str, Any]:
    return {
        figure: {
            "source": one.source,
            "runs": list(one.runs),
            **{name: getattr(one, name) for name in ("factor", "stack", "job", "server")},
        }
        for figure, one in found.items()
    }


def reason_of(figure: str, correction: Correction) -> Reason:
    """What the runs say of one figure, in per cent of a cost."""
    parts = {name: percent(getattr(correction, name)) for name in ("factor", "stack", "job", "server")}
    carried = correction.step == "card" and figure in BOUND_TO_CARD
    return Reason("own_runs_card" if carried else "own_runs", {"own_figure": figure, "runs": ", ".join(correction.runs), **parts})


def percent(factor: float) -> str:
    """A factor as a change: "+12 %"."""
    return f"{100.0 * (factor - 1.0):+.0f} %"


def _moved(option: Option, figure: str, correction: Correction) -> Option:
    if figure == "training-step":
        return _timed(option, correction)
    if figure == "training-memory":
        return _fitted(option, correction)
    start = next(name for name, of in _SERVICE.items() if of == figure)
    estimate = {name: scaled(value, correction) if name.startswith(start) else value for name, value in option.estimate.items()}
    return dataclasses.replace(option, estimate=estimate)


def scaled(figure: Figure, correction: Correction, *, is_cost: bool = True) -> Figure:
    """A figure moved and given the width that the runs leave."""
    mid = figure.mid * correction.factor if is_cost else figure.mid / correction.factor
    narrow, wide = math.exp(correction.half80), math.exp(correction.half95)
    return Figure(mid, mid / narrow, mid * narrow, mid / wide, mid * wide, correction.source)


def _timed(option: Option, correction: Correction) -> Option:
    """Step time and rates; the time of the whole run and its rent by the part of it that is steps."""
    estimate = {
        name: scaled(value, correction, is_cost=_TIMES[name]) if name in _TIMES else value for name, value in option.estimate.items()
    }
    total = option.estimate.get("total_time_s")
    if total is None or total.mid <= 0:
        return dataclasses.replace(option, estimate=estimate)
    share = min(float(option.facts.get("run_s", total.mid)) / total.mid, 1.0)
    ratio = 1.0 + (correction.factor - 1.0) * share
    narrow, wide = correction.half80 * share, correction.half95 * share
    estimate["total_time_s"] = _stretched(total, ratio, narrow, wide, correction.source)
    return dataclasses.replace(option, estimate=estimate, cost=_cost(option.cost, ratio, narrow, wide, correction.source))


def _stretched(figure: Figure, ratio: float, narrow: float, wide: float, source: str) -> Figure:
    mid = figure.mid * ratio
    return Figure(mid, mid * math.exp(-narrow), mid * math.exp(narrow), mid * math.exp(-wide), mid * math.exp(wide), source)


def _cost(cost: Any, ratio: float, narrow: float, wide: float, source: str) -> Any:
    """Rent grows with time; what is paid for bytes does not."""
    rent = cost.terms.get("servers_usd", cost.total_usd)
    terms = {**cost.terms, "servers_usd": rent * ratio} if "servers_usd" in cost.terms else cost.terms
    total = cost.total_usd + rent * (ratio - 1.0)
    change = total / cost.total_usd if cost.total_usd else 1.0
    names = ("per_million_tokens_usd", "per_million_samples_usd")
    rates = {name: getattr(cost, name) * change for name in names if getattr(cost, name, None) is not None}
    return dataclasses.replace(cost, total_usd=total, total=_stretched(cost.total, change, narrow, wide, source), terms=terms, **rates)


def _fitted(option: Option, correction: Correction) -> Option:
    """Peak memory, its terms, and the probability that it fits the card."""
    peak = scaled(option.estimate["peak_memory_bytes"], correction)
    capacity = float(option.facts.get("capacity_bytes") or option.accelerator.memory_bytes)
    deviation = correction.half80 / _Z80
    fits = 0.5 * math.erfc(-math.log(capacity / peak.mid) / deviation / math.sqrt(2.0)) if capacity > 0 else 0.0
    terms = {name: value * correction.factor for name, value in option.memory_terms.items()}
    facts = {**option.facts, "fit_probability": fits}
    warnings = (
        (*option.warnings, Reason("own_runs_memory", {"peak_bytes": peak.mid, "capacity_bytes": capacity}))
        if fits < 0.5
        else option.warnings
    )
    return dataclasses.replace(
        option, estimate={**option.estimate, "peak_memory_bytes": peak}, memory_terms=terms, facts=facts, warnings=warnings
    )


def _unused(evidence: Evidence) -> Reason:
    """Why no figure was moved: the first figure that cannot be compared with a prediction, else that the runs are of another job."""
    if evidence.rows:
        return Reason("own_runs_other", {"runs": ", ".join(dict.fromkeys(row.run for row in evidence.rows))})
    run, metric, why = evidence.unused[0]
    return Reason("own_runs_unused", {"runs": run, "metric": metric, "problem": why})


def _section(evidence: Evidence, options: Sequence[Option]) -> Section:
    runs = list(dict.fromkeys(row.run for row in evidence.rows))
    unused = [{"run": run, "metric": metric, "why": why} for run, metric, why in evidence.unused]
    best = options[0].facts.get("own_runs", {}) if options else {}
    return Section("own_runs", {"runs": runs, "unused": unused, "best": best})
