"""What looks at a run say beside its plan: how far, until when, for how much, and what is wrong.

A figure has left the plan's 95 % interval where its own 95 % interval lies outside it, so that
a few slow steps raise no alarm. The time that is left is steps times the steady step time;
while that has not settled, the plan's step time. Cut-offs are data
(facts/data/constants/measure.csv, watch.*).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rightfit.errors import FileInputError
from rightfit.estimation.figures import SCORES, Figure
from rightfit.facts.tables import constant_group
from rightfit.measure.readers.item import figure, number
from rightfit.measure.record import Measured, Run, Source, metrics
from rightfit.measure.resizing import findings_of
from rightfit.measure.signals import Steady, steady
from rightfit.measure.watching.sources import Look
from rightfit.messages import Message, at_place
from rightfit.records import dataclass
from rightfit.units import GIB, SECONDS_PER_HOUR

# ---- What a plan says of a run that is followed: figures with their intervals, how much work,
# what an hour costs.

_BOUNDS = ("mid", "low80", "high80", "low95", "high95")


@dataclass(frozen=True, slots=True)
class Expected:
    """`figures` by the names of an option's estimate, in base units; `steps` of the whole run;
    `startup_s` before the first; `usd_per_h` of all servers; `capacity_bytes` of one card and
    `host_bytes` of one server."""

    server: str = ""
    is_service: bool = False
    figures: Mapping[str, Figure] = dataclasses.field(default_factory=dict)
    steps: float | None = None
    startup_s: float = 0.0
    usd_per_h: float | None = None
    total_usd: Figure | None = None
    capacity_bytes: float | None = None
    host_bytes: float | None = None

    def figure(self, name: str) -> Figure | None:
        """A figure of the plan; None where it has none."""
        return self.figures.get(name)


def expected_of(document: Mapping[str, Any], rank: int) -> Expected:
    """What option `rank` of a plan's document says. Raises FileInputError where there is none."""
    options = [found for found in document.get("options") or [] if isinstance(found, Mapping)]
    chosen = next((found for found in options if found.get("rank") == rank), None)
    if chosen is None:
        ranks = ", ".join(str(found.get("rank")) for found in options) or Message("measure.none")
        raise FileInputError(at_place("--option", Message("measure.plan_lacks_option", number=rank, why=ranks)), field="option")
    said, cost = chosen.get("facts") or {}, chosen.get("cost") or {}
    figures = {name: figure for name, text in (chosen.get("estimate") or {}).items() if (figure := _figure(text)) is not None}
    return Expected(
        server=f"{chosen.get('nodes', 1)} x {chosen.get('provider', '')}/{chosen.get('instance_type', '')}",
        is_service=document.get("workload", {}).get("task") == "serve",
        figures=figures,
        steps=number(said.get("steps")),
        startup_s=number(said.get("startup_s")) or 0.0,
        usd_per_h=number(cost.get("hourly_usd")),
        total_usd=_figure(cost.get("total")),
        capacity_bytes=number(said.get("capacity_bytes")) or number((chosen.get("accelerator") or {}).get("memory_bytes")) or None,
        host_bytes=number(chosen.get("memory_bytes")),
    )


def _figure(text: Any) -> Figure | None:
    values = [number(text.get(name)) for name in _BOUNDS] if isinstance(text, Mapping) else []
    known = [value for value in values if value is not None]
    if len(known) != len(_BOUNDS):
        return None
    mid, low80, high80, low95, high95 = known
    return Figure(mid, low80, high80, low95, high95, str(text.get("source") or "formula"))


_Z80, _Z95 = SCORES[3], SCORES[4]
#: Figure of a look -> figure of the plan, and what one unit of the look is of the plan's.
PLANNED = {
    "host_memory_bytes": ("host_memory_bytes", 1.0),
    "card_memory_bytes": ("peak_memory_bytes", 1.0),
    "ttft_p95_s": ("ttft_p95_s", 1.0),
    "tpot_s": ("tpot_p50_s", 1.0),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know: its code, and the figures that it stands on."""

    code: str
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Compared:
    """A figure now beside the plan's: "inside", "above" or "below" its 95 % interval; "unknown"
    without a plan or before it has settled."""

    name: str
    value: float
    low95: float
    high95: float
    planned: Figure | None
    verdict: str


@dataclass(frozen=True, slots=True)
class State:
    """A run that is followed. Money is rent by the hour, without bytes stored or sent."""

    look: Look
    expected: Expected
    steps: Steady | None
    compared: tuple[Compared, ...]
    share: float | None
    left_s: Figure | None
    usd: Figure | None
    spent_usd: float | None
    findings: tuple[Finding, ...]


def judge(looks: Sequence[Look], expected: Expected) -> State:
    """The state after these looks, oldest first; at least one."""
    now = looks[-1]
    steps = steady(now.intervals)
    whole = now.whole if now.whole else expected.steps
    left = _left(now, steps, whole, expected)
    spent = None if expected.usd_per_h is None or now.elapsed_s is None else expected.usd_per_h * now.elapsed_s / SECONDS_PER_HOUR
    compared = _compared(now, steps, expected)
    return State(
        look=now,
        expected=expected,
        steps=steps,
        compared=compared,
        share=min(now.step / whole, 1.0) if now.step is not None and whole else None,
        left_s=left,
        usd=_cost(spent, left, expected.usd_per_h),
        spent_usd=spent,
        findings=tuple(_findings(looks, steps, compared, expected)),
    )


def _left(now: Look, steps: Steady | None, whole: float | None, expected: Expected) -> Figure | None:
    """Seconds until the last step."""
    if whole is None or (now.step is None and steps is None):
        return None
    rest = max(whole - (now.step or 0.0), 0.0)
    planned = expected.figure("step_s")
    if steps is not None and (planned is None or steps.count >= constant_group("measure", "steady")["least_steps"]):
        drift = abs(steps.trend) * steps.mean / 2.0
        narrow, wide = (student(score, steps.count - 1) * steps.error + drift for score in (_Z80, _Z95))
        mid, low80, low95 = steps.mean, max(steps.mean - narrow, 0.0), max(steps.mean - wide, 0.0)
        return _scaled(Figure(mid, low80, mid + narrow, low95, mid + wide, "measured"), rest)
    return planned and _scaled(planned, rest)


def student(score: float, freedom: int) -> float:
    """The quantile of Student's t at a normal score [standard deviations]: few steps know
    their own spread badly.

    Reference: Abramowitz and Stegun (1964), 26.7.5, two terms; under 2 degrees of freedom as of 2.
    Known error: at 2 degrees 2 % (80 %) and 10 % (95 %) too narrow, under 1 % from 5.
    """
    nu = max(freedom, 2)
    return score + (score**3 + score) / (4.0 * nu) + (5.0 * score**5 + 16.0 * score**3 + 3.0 * score) / (96.0 * nu**2)


def _scaled(value: Figure, by: float, plus: float = 0.0) -> Figure:
    mid, low80, high80 = (bound * by + plus for bound in (value.mid, value.low80, value.high80))
    return Figure(mid, low80, high80, value.low95 * by + plus, value.high95 * by + plus, value.source)


def _cost(spent: float | None, left: Figure | None, usd_per_h: float | None) -> Figure | None:
    return None if spent is None or left is None or usd_per_h is None else _scaled(left, usd_per_h / SECONDS_PER_HOUR, spent)


# ---- beside the plan -----------------------------------------------------------------------------


def _compared(now: Look, steps: Steady | None, expected: Expected) -> tuple[Compared, ...]:
    found = []
    if steps is not None:
        half = student(_Z95, steps.count - 1) * steps.error
        settled = steps.count >= constant_group("measure", "steady")["least_steps"]
        found.append(_beside("step_s", steps.mean, steps.mean - half, steps.mean + half, expected.figure("step_s") if settled else None))
    for name, (planned, scale) in PLANNED.items():
        value = now.figures.get(name)
        if value is not None:
            found.append(_beside(name, value * scale, value * scale, value * scale, expected.figure(planned)))
    return tuple(found)


def _beside(name: str, value: float, low: float, high: float, planned: Figure | None) -> Compared:
    if planned is None:
        return Compared(name, value, low, high, planned, "unknown")
    verdict = "above" if low > planned.high95 else "below" if high < planned.low95 else "inside"
    return Compared(name, value, low, high, planned, verdict)


# ---- what is wrong -------------------------------------------------------------------------------


def _findings(looks: Sequence[Look], steps: Steady | None, compared: Sequence[Compared], expected: Expected) -> list[Finding]:
    now = looks[-1]
    found = [*_outside(compared), *_pauses(now, steps, expected), *_leaks(looks, expected), *_memory(now, expected)]
    return [*found, *_idle(looks, expected), *_rules(now, steps, expected)]


def _outside(compared: Sequence[Compared]) -> list[Finding]:
    """Slower or faster than the plan's 95 % interval; more memory than it. Less memory than planned
    is no harm while a run goes on."""
    found = []
    for item in compared:
        if item.planned is None or (item.verdict != "above" and item.name != "step_s"):
            continue
        if item.verdict in ("above", "below"):
            figures = {
                "now": item.value,
                "low95": item.planned.low95,
                "high95": item.planned.high95,
                "ratio": item.value / item.planned.mid,
            }
            found.append(Finding(f"{item.name}_{item.verdict}", figures))
    return found


def _pauses(now: Look, steps: Steady | None, expected: Expected) -> list[Finding]:
    """No step for long: longer than ten steps and than three times the longest pause so far; or
    none at all long after the start."""
    rule = constant_group("measure", "watch")
    planned = expected.figure("step_s")
    if now.since_step_s is not None and now.is_alive:
        usual = steps.mean if steps else planned.high95 if planned else math.inf
        limit = max(rule["stall_steps"] * usual, rule["stall_pause"] * max(now.intervals, default=0.0), rule["stall_least"])
        return [Finding("stall", {"since_s": now.since_step_s, "limit_s": limit})] if now.since_step_s > limit else []
    if now.step is None and planned is not None and now.elapsed_s is not None and now.is_alive and not expected.is_service:
        limit = rule["start_pause"] * expected.startup_s + rule["stall_steps"] * planned.high95 + rule["stall_least"]
        return [Finding("no_steps", {"since_s": now.elapsed_s, "limit_s": limit})] if now.elapsed_s > limit else []
    return []


def _leaks(looks: Sequence[Look], expected: Expected) -> list[Finding]:
    """Memory that grows all the time: host memory of the processes, and what
    PyTorch's allocator holds."""
    limits = {"host_memory_bytes": expected.host_bytes, "allocated_bytes": expected.capacity_bytes}
    found = []
    for name, limit in limits.items():
        points = [(look.at_s, look.figures[name]) for look in looks if look.figures.get(name)]
        growth = growth_per_s(points)
        if growth:
            left = {"full_in_s": max(limit - points[-1][1], 0.0) / growth} if limit else {}
            found.append(Finding("leak", {"bytes_per_h": growth * SECONDS_PER_HOUR, "now_bytes": points[-1][1], **left}))
    return found


def growth_per_s(points: Sequence[tuple[float, float]]) -> float:
    """Bytes per second of memory that is larger in each part of the time than in the part before; 0
    where it is not so. The first third is start-up."""
    rule = constant_group("measure", "watch")
    parts = int(rule["leak_parts"])
    kept = list(points[len(points) // 3 :])
    if len(kept) < 2 * parts or kept[-1][0] - kept[0][0] < rule["leak_least"]:
        return 0.0
    edges = [round(at * len(kept) / parts) for at in range(parts + 1)]
    means = [_middle(kept[left:right]) for left, right in itertools.pairwise(edges)]
    if any(after[1] <= before[1] for before, after in itertools.pairwise(means)):
        return 0.0
    (begun_s, first), (ended_s, last) = means[0], means[-1]
    return (last - first) / (ended_s - begun_s) if last - first > rule["leak_growth"] * first else 0.0


def _middle(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return sum(at for at, _ in points) / len(points), sum(value for _, value in points) / len(points)


def _memory(now: Look, expected: Expected) -> list[Finding]:
    """Near the end of a card's or the host's memory."""
    near = constant_group("measure", "watch")["memory_near"]
    limits = {"card_memory_bytes": expected.capacity_bytes, "host_memory_bytes": expected.host_bytes}
    found = []
    for name, limit in limits.items():
        value = now.figures.get(name)
        if limit and value and value > near * limit and not now.figures.get("preallocates"):
            found.append(Finding(f"{name}_near", {"now_bytes": value, "limit_bytes": limit}))
    return found


def _idle(looks: Sequence[Look], expected: Expected) -> list[Finding]:
    """Cards that have done nothing for long, and what that costs."""
    rule = constant_group("measure", "watch")
    known = [look for look in looks if "gpu_busy_share" in look.figures]
    recent = [look for look in known if known[-1].at_s - look.at_s <= rule["idle_least"]]
    if not recent or known[-1].at_s - known[0].at_s < rule["idle_least"]:
        return []
    if max(look.figures["gpu_busy_share"] for look in recent) >= rule["idle_busy"]:
        return []
    return [Finding("idle_cards", {"since_s": rule["idle_least"], **_wasted(1.0, expected)})]


def _rules(now: Look, steps: Steady | None, expected: Expected) -> list[Finding]:
    """The rules of `resize` on what is seen now, with the money that the wasted share costs."""
    items: list[Measured] = [item for name, value in now.figures.items() if name in metrics() for item in figure(name, value)]
    if steps is not None:
        items += figure("step_time_s", steps.mean, n=steps.count)
    allocated = now.figures.get("allocated_bytes")
    items += figure("peak_mem_gib_per_gpu", allocated / GIB if allocated else None, counter="allocated")
    found = findings_of(Run(source=Source(kind="watch"), measured=items))
    return [Finding(f"rule_{one.code}", {**one.figures, **_wasted(_share(one.figures), expected)}) for one in found if one.code in _TOLD]


_TOLD = ("throttled", "input", "one_core", "idle", "cache", "preempted", "admission", "errors")


def _share(figures: Mapping[str, float]) -> float:
    """The share of the time that is paid for and not worked in."""
    if figures.get("data_wait_share", 0.0) >= 1.0 - figures.get("gpu_busy_share", 1.0):
        return figures.get("data_wait_share", 0.0)
    return 1.0 - figures.get("gpu_busy_share", 1.0)


def _wasted(share: float, expected: Expected) -> dict[str, float]:
    return {"wasted_usd_per_h": share * expected.usd_per_h} if expected.usd_per_h and share > 0 else {}


# ---- The state of a run for Prometheus: what was measured and what the plan said,
# under names of our own.

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Every code of a finding that is a series of its own: 1 while it holds.
CODES = (
    *("step_s_above", "step_s_below", "host_memory_bytes_above", "card_memory_bytes_above", "ttft_p95_s_above", "tpot_s_above"),
    *("stall", "no_steps", "leak", "card_memory_bytes_near", "host_memory_bytes_near", "idle_cards"),
    *("rule_throttled", "rule_input", "rule_one_core", "rule_idle", "rule_cache", "rule_preempted", "rule_admission", "rule_errors"),
)
_NAMES = {"step_s": "step_seconds", "ttft_p95_s": "ttft_p95_seconds", "tpot_s": "tpot_seconds"}


def exposition(state: State) -> str:
    """The text of a page of metrics; what is not known has no line."""
    return "".join(f"{line}\n" for line in _lines(state))


def _lines(state: State) -> Iterator[str]:
    yield from _gauge("rightfit_up", "1 while the run goes on", [("", float(state.look.is_alive))])
    for item in state.compared:
        name = f"rightfit_{_NAMES.get(item.name, item.name)}"
        yield from _gauge(name, "measured, after warm-up", [("", item.value)])
        yield from _planned(f"{name}_planned", item.planned)
    yield from _one("rightfit_steps_done", "optimizer steps", state.look.step)
    yield from _one("rightfit_steps_wanted", "optimizer steps of the whole run", state.look.whole or state.expected.steps)
    yield from _one("rightfit_done_share", "share of the steps that are done", state.share)
    yield from _one("rightfit_since_step_seconds", "time since the last step", state.look.since_step_s)
    yield from _planned("rightfit_left_seconds", state.left_s)
    yield from _one("rightfit_spent_usd", "rent since the start", state.spent_usd)
    yield from _planned("rightfit_cost_usd", state.usd)
    yield from _planned("rightfit_cost_usd_planned", state.expected.total_usd)
    for name, value in sorted(state.look.figures.items()):
        if name not in {item.name for item in state.compared}:
            yield from _one(f"rightfit_{name}", "now", value)
    held = {finding.code for finding in state.findings}
    yield from _gauge("rightfit_finding", "1 while it holds", [(f'code="{code}"', float(code in held)) for code in CODES])


def _one(name: str, text: str, value: float | None) -> Iterator[str]:
    if value is not None:
        yield from _gauge(name, text, [("", value)])


def _planned(name: str, figure: Figure | None) -> Iterator[str]:
    if figure is not None:
        yield from _gauge(name, "with its 80 % and 95 % interval", [(f'bound="{bound}"', getattr(figure, bound)) for bound in _BOUNDS])


def _gauge(name: str, text: str, values: list[tuple[str, float]]) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} gauge"
    for labels, value in values:
        yield f"{name}{{{labels}}} {value!r}" if labels else f"{name} {value!r}"
