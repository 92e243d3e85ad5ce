"""From a measured run to advice: what held it back, with the figures that say so; what could change
for nothing; which server then; which test is still worth its price.

Order: is the measurement sound, does it fit, is the card idle, which bound, a cheaper shape. The
rules are data (facts/data/resize_rules.csv); servers come from the search, corrected by the runs. A
test is worth its price where the expected saving over the job, E[(cost of the best - cost of the
other)+] with what only that server's measurement would tell (server and noise of the nested model),
exceeds the minutes of the test at its price (value of information: Raiffa and Schlaifer, Applied
statistical decision theory, 1961).
"""

from __future__ import annotations

import dataclasses
import math
import operator
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.facts.tables import constant_group
from rightfit.measure import evidence
from rightfit.measure.evidence import Predict
from rightfit.measure.record import Run
from rightfit.records import dataclass
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.search.answer import Option, Plan

#: Points of a distribution that is summed up, and how far over a whole number of servers
#: still is that number.
_POINTS, _WHOLE = 400, 1e-9
#: Servers that are compared.
MOST_OPTIONS = 40
_TESTS: Mapping[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_CONDITION = re.compile(r"^(\w+)(>=|<=|>|<)([\d.]+)$")
#: Changes of the set-up that cost no money: name -> columns of `rightfit predict`. Those that need
#: the present value are in `_variants`.
_FIXED_VARIANTS = {"recompute": {"recompute": "full"}, "optimizer8": {"optimizer": "adamw8bit"}, "flash": {"attention": "flash"}}


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that holds: its code, the figures that it read, the bottleneck that it
    names, and who says so."""

    code: str
    bottleneck: str
    verdict: str
    figures: Mapping[str, float]
    conditions: str
    source: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the set-up that needs no other server: GiB saved a card and the change of the
    step time, by our own prediction."""

    name: str
    saved_gib: float | None
    slower: float | None


@dataclass(frozen=True, slots=True)
class Test:
    """A trial that is worth its price, on `nodes` servers. `over`: what the saving is of, the whole
    job or a month of a service."""

    provider: str
    instance_type: str
    nodes: int
    region: str
    minutes: float
    usd: float
    expected_saving_usd: float
    over: str = "job"


@dataclass(frozen=True, slots=True)
class Advice:
    """`verdict`: keep, change, test or stop (no further test pays; rent the first option).
    `options` as in a plan."""

    verdict: str
    bottleneck: str
    findings: tuple[Finding, ...]
    changes: tuple[Change, ...]
    options: tuple[Option, ...]
    next_test: Test | None

    def to_dict(self) -> dict[str, Any]:
        """As in the contract."""
        return {
            "verdict": self.verdict,
            "bottleneck": self.bottleneck,
            "evidence": [dataclasses.asdict(finding) for finding in self.findings],
            "changes": [dataclasses.asdict(change) for change in self.changes],
            "options": [option.to_dict() for option in self.options],
            "next_test": dataclasses.asdict(self.next_test) if self.next_test else None,
        }


def resize(runs: Sequence[Run], plan: Plan | None, predict: Predict, *, tests: int = 2) -> Advice:
    """Advice from runs of one job; `plan` holds the servers, already corrected by the runs (None:
    no servers are asked for). `tests` more trials may be spent."""
    findings = [finding for run in runs for finding in findings_of(run)]
    out_of_memory = any(run.oom for run in runs)
    needs_changes = out_of_memory or any(finding.code in ("unused", "idle", "one_core") for finding in findings)
    changes = changes_of(runs[-1], predict) if needs_changes else ()
    if out_of_memory:  # what takes more of it, or no less, helps nobody
        changes = tuple(change for change in changes if (change.saved_gib or 0.0) > 0.0)
    options = plan.options if plan else ()
    test = next_test(options, runs) if tests > 0 else None
    bottleneck = (
        "memory" if out_of_memory else next((finding.bottleneck for finding in findings if finding.bottleneck != "none"), "unknown")
    )
    return Advice(_verdict(findings, out_of_memory, options, test, runs), bottleneck, tuple(findings), changes, options[:5], test)


def _verdict(findings: Sequence[Finding], out_of_memory: bool, options: Sequence[Option], test: Test | None, runs: Sequence[Run]) -> str:
    if any(finding.verdict == "test" for finding in findings):
        return "test"
    if out_of_memory or any(finding.verdict == "change" for finding in findings):
        return "change"
    if test is not None:
        return "test"
    if options and _measured_here(options[0], runs):
        return "keep"
    if options:
        return "stop"
    return "keep" if any(tells(run) for run in runs) else "test"


def tells(run: Run) -> bool:
    """Whether a run measured enough that any rule about its server could speak: use of the card,
    memory, waiting for data. The others say only whether the measurement is sound."""
    known = set(_figures(run))
    rows = [row for row in facts.table("resize_rules") if row["verdict"] != "test"]
    return any({found[1] for text in row["conditions"].split(";") if (found := _CONDITION.match(text))} <= known for row in rows)


# ---- what held it back ---------------------------------------------------------------------------


def findings_of(run: Run) -> list[Finding]:
    """Rules whose every figure was measured and holds, in their order. A figure that was not
    measured proves nothing."""
    figures = _figures(run)
    found = []
    for row in facts.table("resize_rules"):
        used = {}
        for text in row["conditions"].split(";"):
            match = _CONDITION.match(text)
            assert match is not None, text
            name, sign, limit = match.groups()
            if name not in figures or not _TESTS[sign](figures[name], float(limit)):
                break
            used[name] = figures[name]
        else:
            found.append(Finding(row["code"], row["bottleneck"], row["verdict"], used, row["conditions"], row["source"]))
    return _first_of_kind(found)


def _first_of_kind(found: Sequence[Finding]) -> list[Finding]:
    """Of rules that name the same bottleneck the first, which says most."""
    kept: dict[str, Finding] = {}
    for finding in found:
        kept.setdefault(finding.bottleneck if finding.bottleneck != "none" else finding.code, finding)
    return list(kept.values())


def _figures(run: Run) -> dict[str, float]:
    figures = {item.metric: item.value for item in reversed(run.measured) if not item.bound}
    steps = next((item.n for item in run.measured if item.metric == "step_time_s" and item.n is not None), None)
    if steps is not None:
        figures["steps"] = float(steps)
    peak = next(
        (
            item.value
            for item in run.measured
            if item.metric == "peak_mem_gib_per_gpu" and item.counter in ("allocated", "reserved") and not item.bound
        ),
        None,
    )
    if run.exit_code and not run.complete and not run.oom:
        figures["exit_code"] = float(abs(run.exit_code))
    capacity = _capacity_gib(run.setup.get("gpu", ""))
    if peak is not None and capacity:
        figures["memory_share"] = peak / capacity
    return figures


def _capacity_gib(gpu: str) -> float:
    from rightfit.errors import RightfitError

    try:
        return facts.accelerator(gpu).memory_bytes / GIB if gpu else 0.0
    except RightfitError:
        return 0.0


# ---- what could change for nothing ---------------------------------------------------------------


def changes_of(run: Run, predict: Predict) -> tuple[Change, ...]:
    """Changes of the set-up with their effect by prediction, those that save most memory first;
    empty where the set-up is not known well enough."""
    variants = _variants(run.setup)
    rows = [
        {**run.setup, **columns, "metric": metric}
        for columns in ({}, *variants.values())
        for metric in ("peak_mem_gib_per_gpu", "step_time_s")
    ]
    answers = [answer.get("predicted") for answer in predict(rows)] if "model" in run.setup else []
    if not answers or not answers[0]:
        return ()
    changes = []
    for at, name in enumerate(variants, start=1):
        memory, step = answers[2 * at], answers[2 * at + 1]
        if not memory:
            continue
        saved = answers[0] - memory
        slower = step / answers[1] - 1.0 if step and answers[1] else None
        if abs(saved) > 0.01 * answers[0] or (slower is not None and slower < -0.01):
            changes.append(Change(name, saved, slower))
    return tuple(sorted(changes, key=lambda change: -(change.saved_gib or 0.0)))


def _variants(setup: Mapping[str, str]) -> dict[str, dict[str, str]]:
    found = {name: columns for name, columns in _FIXED_VARIANTS.items() if setup.get(next(iter(columns))) != next(iter(columns.values()))}
    micro, accumulated = (_number(setup.get(name)) for name in ("micro_batch", "grad_accum"))
    if micro >= 2:
        found["halve_batch"] = {"micro_batch": f"{micro / 2:g}", "grad_accum": f"{2 * max(accumulated, 1):g}"}
    if micro >= 1:
        found["double_batch"] = {"micro_batch": f"{2 * micro:g}", "grad_accum": f"{max(accumulated / 2, 1):g}"}
    if setup.get("method") == "full":
        found["lora"] = {"method": "lora"}
    if setup.get("method") == "lora":
        found["qlora"] = {"method": "qlora"}
    if _number(setup.get("n_gpus")) > 1 and setup.get("strategy") not in ("fsdp", "zero3"):
        found["shard"] = {"strategy": "zero3", "zero": "3"}
    return found


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


# ---- which test is worth its price ---------------------------------------------------------------


def next_test(options: Sequence[Option], runs: Sequence[Run]) -> Test | None:
    """The server whose measurement is expected to save most beyond the price of the test, over the
    job or over a month of a service; None where none does."""
    served = [option for option in options if "tpot_s" in option.estimate and "step_s" not in option.estimate]
    if len(served) > 1:
        return _next_load_test(served, runs)
    timed = [option for option in options if "step_s" in option.estimate and "total_time_s" in option.estimate]
    if len(timed) < 2:
        return None
    best = timed[0]
    law = evidence.laws()["training-step"]
    deviation = math.sqrt(law.s**2 + law.n**2 + law.v**2)
    worth = [
        (test.expected_saving_usd - test.usd, test)
        for option in timed
        if not _measured_here(option, runs)
        for test in [_test(option, best, deviation)]
    ]
    gain, found = max(worth, key=lambda pair: pair[0], default=(0.0, None))
    return found if gain > 0 else None


def _next_load_test(options: Sequence[Option], runs: Sequence[Run]) -> Test | None:
    """A load test of one server: what it would tell is how many of them the load needs, in whole
    servers. Where one is enough it cannot tell of fewer."""
    rule, law = constant_group("measure", "resize"), evidence.laws()["serving-throughput"]
    deviation = math.sqrt(law.s**2 + law.n**2 + law.v**2)
    seconds = rule["test_setup"] + rule["test_load"]
    worth = []
    for option in options:
        servers = max(round(float(option.facts.get("servers") or option.nodes)), 1)
        if servers == 1 or _measured_here(option, runs):
            continue
        usd = option.cost.hourly_usd / servers * seconds / 3600.0
        saving = expected_saving_in_servers(options[0].cost.total_usd, option.cost.total_usd, servers, deviation)
        worth.append((saving - usd, Test(option.provider, option.instance_type, 1, option.region, seconds / 60.0, usd, saving, "month")))
    gain, found = max(worth, key=lambda pair: pair[0], default=(0.0, None))
    return found if gain > 0 else None


def expected_saving_in_servers(best_usd: float, other_usd: float, servers: int, deviation: float) -> float:
    """E[(best - other)+] where `other` needs a whole number of servers, log-normal around `servers`
    (median) with this deviation of the log; at least one."""
    each = other_usd / servers
    normal = statistics.NormalDist()
    costs = (
        max(math.ceil(servers * math.exp(deviation * normal.inv_cdf((at + 0.5) / _POINTS)) - _WHOLE), 1) * each for at in range(_POINTS)
    )
    return sum(max(best_usd - cost, 0.0) for cost in costs) / _POINTS


def _test(option: Option, best: Option, deviation: float) -> Test:
    rule = constant_group("measure", "resize")
    seconds = rule["test_setup"] + rule["test_steps"] * option.estimate["step_s"].mid
    other = best if option is not best else None
    saving = expected_saving(best.cost.total_usd if other else option.cost.total_usd, option.cost.total_usd, deviation)
    return Test(
        option.provider,
        option.instance_type,
        option.nodes,
        option.region,
        seconds / 60.0,
        option.cost.hourly_usd * seconds / 3600.0,
        saving,
    )


def expected_saving(best_usd: float, other_usd: float, deviation: float) -> float:
    """E[(best - other)+] with other log-normal around `other_usd` (median) with this
    deviation of the log.

    Reference: Black and Scholes (1973), the same integral. For the best itself it is what its own
    surprise is worth.
    """
    if best_usd <= 0 or other_usd <= 0:
        return 0.0
    z = math.log(best_usd / other_usd) / deviation
    below = 0.5 * math.erfc(-z / math.sqrt(2.0))
    shifted = 0.5 * math.erfc(-(z - deviation) / math.sqrt(2.0))
    return max(best_usd * below - other_usd * math.exp(0.5 * deviation**2) * shifted, 0.0)


def _measured_here(option: Option, runs: Sequence[Run]) -> bool:
    """Whether a run was on the card of this option, as many of them."""
    name, count = option.accelerator.name.casefold(), option.num_accelerators
    if "tpot_s" in option.estimate and "step_s" not in option.estimate:  # one replica stands for all
        count = getattr(option.layout, "tensor", 1) * getattr(option.layout, "pipeline", 1)
    return any(_card_of(run) == name and _number(run.setup.get("n_gpus") or run.setup.get("n_devices") or "1") == count for run in runs)


def _card_of(run: Run) -> str:
    from rightfit.errors import RightfitError

    text = run.setup.get("gpu") or run.setup.get("device") or ""
    try:
        return facts.accelerator(text).name.casefold() if text else ""
    except RightfitError:
        return text.casefold()
