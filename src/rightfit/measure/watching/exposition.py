"""The state of a run for Prometheus: what was measured and what the plan said, under names of our own."""

from __future__ import annotations

from collections.abc import Iterator

from rightfit.estimate.figures import Figure
from rightfit.measure.watching.judging import State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Every code of a finding that is a series of its own: 1 while it holds.
CODES = (
    *("step_s_above", "step_s_below", "host_memory_bytes_above", "card_memory_bytes_above", "ttft_p95_s_above", "tpot_s_above"),
    *("stall", "no_steps", "leak", "card_memory_bytes_near", "host_memory_bytes_near", "idle_cards"),
    *("rule_throttled", "rule_input", "rule_one_core", "rule_idle", "rule_cache", "rule_preempted", "rule_admission", "rule_errors"),
)
_BOUNDS = ("mid", "low80", "high80", "low95", "high95")
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
