"""What somebody measured of a planned option, as a run record: the plan's document says
what ran and where."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.estimation.figures import Figure
from rightfit.facts.tables import constant_group
from rightfit.measure.evidence import BOUND_TO_CARD, Case, Correction, Evidence, Predict, case_of, cells, corrections, figure_of
from rightfit.measure.readers.item import figure, number, words
from rightfit.measure.record import Measured, Run, Source, metrics, sealed
from rightfit.measure.watching.judging import Expected
from rightfit.records import dataclass
from rightfit.search.answer import Option, Plan, Reason, Section
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.workload.model import Workload


#: Figures of an option's estimate -> metric of a record, and what one base unit is of its unit.
METRICS = {
    "step_s": ("step_time_s", 1.0),
    "samples_per_s": ("samples_per_s", 1.0),
    "tokens_per_s": ("tokens_per_s_per_gpu", 1.0),
    "peak_memory_bytes": ("peak_mem_gib_per_gpu", 1 / GIB),
    "ttft_s": ("ttft_ms", 1e3),
    "tpot_s": ("tpot_ms", 1e3),
    "requests_per_s": ("req_per_s", 1.0),
    "latency_s": ("latency_ms", 1e3),
}


def run_of_measurement(
    document: Mapping[str, Any], *, option: int, name: str, value: float, started: str = "", where: str = ""
) -> Run | None:
    """The record of a figure of option `option` of a plan's document; None where the figure is none
    of a run's metrics."""
    chosen = next((found for found in document.get("options", []) if found.get("rank") == option), None)
    if chosen is None or name not in METRICS:
        return None
    metric, scale = METRICS[name]
    is_service = document.get("workload", {}).get("task") in ("serve", "batch")
    metric = "output_tok_per_s_total" if is_service and name == "tokens_per_s" else metric
    cards = (number(chosen.get("nodes")) or 1.0) * (number(chosen.get("accelerator", {}).get("count_per_node")) or 1.0)
    scale = scale / cards if metric == "tokens_per_s_per_gpu" else scale
    counter = {"statistic": "max"} if name == "peak_memory_bytes" else {}
    server = {part: chosen.get(part) for part in ("provider", "instance_type", "region", "purchase", "nodes")}
    setup = _service(document, chosen) if is_service else _training(document, chosen, cards)
    source = Source(kind="measurement", tool="rightfit", path_or_url=where)
    return sealed(Run(source=source, started=started, setup=setup, server=server, measured=figure(metric, value, scale=scale, **counter)))


def training_of(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Set-up and server of an option of a training plan, for a record of what
    was measured there."""
    cards = (number(chosen.get("nodes")) or 1.0) * (number((chosen.get("accelerator") or {}).get("count_per_node")) or 0.0)
    server = {part: chosen.get(part) for part in ("provider", "instance_type", "region", "purchase", "nodes")}
    return _training(document, chosen, cards or None), server


def service_of(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Set-up and server of an option of a service's plan, for a record of what
    was measured there."""
    return _service(document, chosen), {part: chosen.get(part) for part in ("provider", "instance_type", "region", "purchase", "nodes")}


def _training(document: Mapping[str, Any], chosen: Mapping[str, Any], cards: float | None) -> dict[str, str]:
    workload, layout = document.get("workload", {}), chosen.get("layout", {})
    length = chosen.get("facts", {}).get("seq_len") or workload.get("seq_len")
    parallel = {
        short: layout.get(name)
        for short, name in (("dp", "data"), ("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert"))
    }
    return words(
        model=workload.get("model"),
        method=layout.get("method") or workload.get("method"),
        framework=workload.get("framework"),
        precision=layout.get("precision"),
        gpu=chosen.get("accelerator", {}).get("name"),
        n_gpus=cards,
        micro_batch=layout.get("micro_batch"),
        grad_accum=layout.get("grad_accum"),
        seq_len=length,
        recompute=layout.get("recompute"),
        **parallel,
    )


def _service(document: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, str]:
    workload, layout = document.get("workload", {}), chosen.get("layout", {})
    return words(
        model=workload.get("model"),
        engine=layout.get("engine"),
        weights_dtype=layout.get("weight_format"),
        device=chosen.get("accelerator", {}).get("name"),
        n_devices=(number(layout.get("tensor")) or 1.0) * (number(layout.get("pipeline")) or 1.0),
        input_tokens=workload.get("input_tokens"),
        output_tokens=workload.get("output_tokens"),
    )


# ---- What was measured beside what was predicted, and which other set-up would explain a run that
# left its interval.
#
# Two sources of a prediction: the plan that the run was started from, where it runs on the plan's
# card; else the run's own set-up, by `rightfit predict`.

_BOUNDS = ("predicted", "low80", "high80", "low95", "high95")
#: Set-ups that explain a run which is slower, faster, fuller or emptier than predicted: name ->
#: columns of `rightfit predict`.
_EXPLAINING: Mapping[str, Mapping[str, str]] = {
    "fp32": {"precision": "fp32"},
    "bf16": {"precision": "bf16"},
    "recompute_full": {"recompute": "full"},
    "recompute_none": {"recompute": "none"},
    "attention_eager": {"attention": "eager"},
    "attention_flash": {"attention": "flash"},
}


@dataclass(frozen=True, slots=True)
class Beside:
    """A measured figure and its prediction in the metric's unit. `verdict`: inside, above or
    below the 95 % interval, or open where that is so wide that it says nothing; `origin`:
    plan or predict."""

    item: Measured
    predicted: Figure
    verdict: str
    origin: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A set-up under which the prediction comes near what was measured: its name, and the share by
    which it still misses."""

    name: str
    missed: float


def beside(run: Run, predict: Predict, expected: Expected | None = None) -> list[Beside]:
    """Every figure of the run that has a prediction: the plan's where there is one, else that of
    its set-up. One-sided figures are left out."""
    items = [
        item
        for item in run.measured
        if not item.bound and item.statistic in ("mean", "max") and item.counter in ("", "allocated", "reserved")
    ]
    kept = {item.metric: item for item in reversed(items) if figure_of({}, item.metric)}
    planned = _of_plan(list(kept.values()), expected, _cards(run)) if expected is not None else []
    told = {one.item.metric for one in planned}
    rest = [item for item in kept.values() if item.metric not in told]
    is_known = "model" in run.setup and bool(run.setup.get("gpu") or run.setup.get("device"))
    return [*planned, *(_of_setup(run, rest, predict) if is_known else [])]


def _cards(run: Run) -> float:
    try:
        return max(float(run.setup.get("n_gpus") or 1), 1.0)
    except ValueError:
        return 1.0


def _of_plan(items: Sequence[Measured], expected: Expected, cards: float) -> list[Beside]:
    by_metric = {metric: (name, scale) for name, (metric, scale) in METRICS.items()}
    found = []
    for item in items:
        name, scale = by_metric.get(item.metric, ("", 1.0))
        figure = expected.figure(name)
        if figure is not None:
            found.append(_judged(item, _times(figure, scale / cards if item.metric == "tokens_per_s_per_gpu" else scale), "plan"))
    return found


def _times(figure: Figure, by: float) -> Figure:
    return Figure(figure.mid * by, figure.low80 * by, figure.high80 * by, figure.low95 * by, figure.high95 * by, figure.source)


def _of_setup(run: Run, items: Sequence[Measured], predict: Predict) -> list[Beside]:
    answers = predict([cells(run, item) for item in items]) if items else []
    pairs = [(item, figure) for item, answer in zip(items, answers, strict=True) if (figure := _figure(answer)) is not None]
    return [_judged(item, figure, "predict") for item, figure in pairs]


def _figure(answer: Mapping[str, Any]) -> Figure | None:
    values = [answer.get(name) for name in _BOUNDS]
    known = [float(value) for value in values if value is not None]
    if len(known) != len(_BOUNDS):
        return None
    mid, low80, high80, low95, high95 = known
    return Figure(mid, low80, high80, low95, high95)


def _judged(item: Measured, figure: Figure, origin: str) -> Beside:
    if figure.high95 > constant_group("measure", "compare")["says_nothing"] * figure.low95:
        return Beside(item, figure, "open", origin)
    verdict = "above" if item.value > figure.high95 else "below" if item.value < figure.low95 else "inside"
    return Beside(item, figure, verdict, origin)


def explanations(run: Run, one: Beside, predict: Predict) -> list[Explanation]:
    """Other set-ups whose prediction comes nearer to what was measured than half of what is missed,
    the nearest first; none for a figure that did not leave its interval."""
    if one.verdict in ("inside", "open") or "model" not in run.setup or one.item.value <= 0:
        return []
    base = cells(run, one.item)
    variants = {name: columns for name, columns in _EXPLAINING.items() if any(base.get(key) != value for key, value in columns.items())}
    missed = abs(math.log(one.item.value / one.predicted.mid))
    limit = min(constant_group("measure", "compare")["explains"], missed / 2.0)
    found = []
    for name, answer in zip(variants, predict([{**base, **columns} for columns in variants.values()]), strict=True):
        predicted = answer.get("predicted")
        if predicted and predicted > 0 and abs(math.log(one.item.value / predicted)) <= limit:
            found.append(Explanation(name, one.item.value / predicted - 1.0))
    return sorted(found, key=lambda explanation: abs(explanation.missed))


def is_cost(one: Beside) -> bool:
    """Whether more of the figure is worse."""
    return metrics()[one.item.metric].sense == "cost"


# ---- Plans with runs of one's own: figures of the options are moved by what the runs missed, and
# the order is made anew.
#
# The search proposes more options than are shown; each is corrected by its own evidence, and what
# then costs least (or ends first) leads. What the runs say of memory moves the probability that an
# option fits; one that then rather does not fit goes to the end. Of services the times are
# corrected, not the number of replicas.

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
    """The plan with corrected figures, the first `top` options by corrected cost (or time), and a
    section `own_runs` that names the runs. Runs that move nothing are said to, with the reason."""
    if not plan.options or not (evidence.rows or evidence.unused):
        return plan
    moved = [_option(plan.workload, option, evidence) for option in plan.options]
    order = range(len(moved)) if plan.given else _order(plan.workload, plan.options, moved)
    ordered = [moved[at] for at in order]
    options = tuple(dataclasses.replace(option, rank=rank) for rank, option in enumerate(ordered[:top], start=1))
    if evidence.impossible:
        options = (dataclasses.replace(options[0], why=(*options[0].why, *_never(evidence))), *options[1:])
    elif not any("own_runs" in option.facts for option in moved):
        options = (dataclasses.replace(options[0], why=(*options[0].why, _unused(evidence))), *options[1:])
    return dataclasses.replace(plan, options=options, sections=(*plan.sections, _section(evidence, options)))


def _order(workload: Workload, before: Sequence[Option], after: Sequence[Option]) -> list[int]:
    """Positions by what is wished for, as the runs change it. The search ranks by more than money
    (trust, age of a price, a further server can fail), so an option counts at least as much as
    those that it stood behind, times its own change, and passes another only where that is
    clearly more."""
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
    for name, correction in found.items():
        option = _moved(option, name, correction)
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
    """Step time and rates; the time of the whole run and its rent by the part
    of it that is steps."""
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
    """Peak memory, its terms, and the probability that it fits the card. Where this very set-up
    ran, the peak is what was measured, and it fits."""
    peak, before = scaled(option.estimate["peak_memory_bytes"], correction), option.estimate["peak_memory_bytes"]
    ran = [value * GIB for recompute, value in correction.ran if recompute in ("", getattr(option.layout, "recompute", ""))]
    if ran:
        peak = _stretched(before, max(ran) / before.mid, correction.half80, correction.half95, correction.source)
    capacity = float(option.facts.get("capacity_bytes") or option.accelerator.memory_bytes)
    deviation = correction.half80 / _Z80
    fits = 0.5 * math.erfc(-math.log(capacity / peak.mid) / deviation / math.sqrt(2.0)) if capacity > 0 else 0.0
    fits = max(fits, float(option.facts.get("fit_probability", 1.0)), 0.5) if ran else fits
    terms = {name: value * peak.mid / before.mid for name, value in option.memory_terms.items()}
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
    """Why no figure was moved: the first figure that cannot be compared with a prediction, else
    that the runs are of another job."""
    if evidence.rows:
        return Reason("own_runs_other", {"runs": ", ".join(dict.fromkeys(row.run for row in evidence.rows))})
    run, metric, why = evidence.unused[0]
    return Reason("own_runs_unused", {"runs": run, "metric": metric, "problem": why})


def _never(evidence: Evidence) -> list[Reason]:
    """The figures that are left out because nobody can have measured them."""
    return [
        Reason("own_runs_impossible", {"runs": run, "metric": item.metric, "value": f"{item.value:,.10g}", "unit": item.unit})
        for run, _, item, _ in evidence.impossible
    ]


def _section(evidence: Evidence, options: Sequence[Option]) -> Section:
    runs = list(dict.fromkeys(row.run for row in evidence.rows))
    unused = [{"run": run, "metric": metric, "why": why} for run, metric, why in evidence.unused]
    best = options[0].facts.get("own_runs", {}) if options else {}
    return Section("own_runs", {"runs": runs, "unused": unused, "best": best})
