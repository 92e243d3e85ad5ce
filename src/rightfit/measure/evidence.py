"""Runs as evidence: what each missed the prediction by, and what that says of other cases.

`predict` is given, so that this room knows no engine: rows of cells in, answers with `predicted`
out. In what the user asks, an empty cell fits any run's: whoever leaves the framework open means
the one that runs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts.tables import constant_group
from rightfit.measure.readers.item import number
from rightfit.measure.record import Measured, Run, metrics
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.units import GIB

# ---- What makes two cases alike: the same job, the same server, near in batch and length. Read
# from the columns of `rightfit predict`.
#
# The job is what a user keeps while servers change: the model, how it is trained or which engine
# serves it, and the precision. The server is the accelerator and how many of them; memory is
# compared with memory of the same counter only.

Array = NDArray[np.float64]

_TRAINING = ("model", "method", "framework", "precision")
_SERVING = ("model", "engine", "weights_dtype")
_SAMPLES = ("task", "model", "framework", "precision")
_UNITS_OF = {"training-memory": _TRAINING, "training-step": _TRAINING, "samples-step": _SAMPLES, "samples-memory": _SAMPLES}


@dataclass(frozen=True, slots=True)
class Case:
    """One case: the figure that its metric is of, job, card, number of cards, counter of memory,
    and log2 of batch and length (0 where not known)."""

    figure: str
    job: tuple[str, ...]
    card: str
    count: str
    counter: str
    batch: float
    length: float


def case_of(row: Mapping[str, str], metric: str) -> Case:
    """The case of a row of cells."""
    figure = figure_of(row, metric)
    serving = figure not in _UNITS_OF
    job = tuple(_plain(name, row.get(name, "")) for name in _UNITS_OF.get(figure, _SERVING))
    length = (
        _number(row, "input_tokens") + _number(row, "output_tokens") if serving else _number(row, "seq_len") or _number(row, "image_size")
    )
    batch = _number(row, "batch_or_concurrency") if serving else _number(row, "micro_batch") or _number(row, "batch_per_gpu")
    counter = (row.get("mem_kind") or row.get("counter") or "") if figure.endswith("memory") else ""
    card, count = row.get("device" if serving else "gpu", ""), row.get("n_devices" if serving else "n_gpus", "")
    return Case(figure, job, card.strip().casefold(), count.strip(), counter.strip(), _log2(batch), _log2(length))


def figure_of(row: Mapping[str, str], metric: str) -> str:
    """The figure of a metric; memory and rates of training on samples are figures of their own.
    Empty where a metric is not calibrated."""
    found = metrics()[metric].figure if metric in metrics() else ""
    is_samples = "image_size" in row and "micro_batch" not in row and "engine" not in row
    return found.replace("training-", "samples-") if is_samples and found.startswith("training-") else found


def _plain(name: str, text: str) -> str:
    """The engine without its version: a new version is the same stack, with more doubt."""
    text = text.strip().casefold()
    return text.split(" (")[0] if name == "engine" else text


def _number(row: Mapping[str, str], name: str) -> float:
    return number(row.get(name)) or 0.0


def _log2(value: float) -> float:
    return math.log2(value) if value > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Cases:
    """Cases as arrays: codes of job, card and server (a server is of one job), log2 of
    batch and of length."""

    job: NDArray[np.intp]
    card: NDArray[np.intp]
    server: NDArray[np.intp]
    batch: Array
    length: Array

    def take(self, index: NDArray[np.intp]) -> Cases:
        """Cases `index`."""
        return Cases(self.job[index], self.card[index], self.server[index], self.batch[index], self.length[index])


def as_cases(cases: Sequence[Case]) -> Cases:
    """Cases as arrays whose codes hold among these cases only."""
    jobs = _codes((case.figure, case.job) for case in cases)
    cards = _codes((case.job, case.card, case.counter) for case in cases)
    servers = _codes((case.job, case.card, case.count, case.counter) for case in cases)
    batch, length = (np.array([getattr(case, name) for case in cases], dtype=np.float64) for name in ("batch", "length"))
    return Cases(jobs, cards, servers, batch, length)


def _codes(keys: Iterable[object]) -> NDArray[np.intp]:
    known: dict[object, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.intp)


# ---- A few measured runs sharpen the prediction of others: a nested normal model of what the
# prediction misses.
#
# For a cost-like figure (step time, ms, bytes; of a rate its inverse) r = log(measured /
# predicted) is the sum of what the user's stack adds (e), what the job adds (b), what the server
# adds to that job (s), what wears off with the distance in batch and length (n), and noise (v),
# all normal with mean 0:
#
#     K(i, j) = e^2 + b^2 [same job] + s^2 [same job and server] + n^2 [same job and server]
#     exp(-(|log2 batch ratio| + |log2 length ratio|) / 2) mean = k' (K + v^2 I)^-1 r, variance =
#     k(x, x) - k' (K + v^2 I)^-1 k + v^2
#
# The corrected cost is predicted exp(mean), a corrected rate predicted exp(-mean). The tails are
# heavier than normal, so the half-width of an interval is the standard deviation times a factor
# found on sources left out (conformal). Nothing is fitted when it runs: facts/data/calibration.csv
# has the five numbers a figure, calibration_widths.csv the factors; `validation/fit_calibration.py`
# writes both.
#
# A figure that is a bound only (out of memory) cuts off the impossible half: it enters as the
# moments of the truncated normal (Minka, Expectation propagation, UAI 2001). Reference: Rasmussen
# and Williams, Gaussian processes for machine learning (2006), section 2.2. Known error: sources of
# published figures stand for users' stacks.

PARTS = ("e", "b", "s", "n", "v")
#: Residuals are cut here: beyond a factor of 4.5 a row says that something else is wrong.
MOST_RESIDUAL = 1.5
#: Rows known of the same job, up to which interval factors are told apart.
MOST_ROWS = 3
STEPS = ("same", "batch", "cards", "card")


class Law(NamedTuple):
    """Standard deviations of the parts of r: stack, job, server, nearness, noise."""

    e: float
    b: float
    s: float
    n: float
    v: float


@dataclass(frozen=True, slots=True)
class Posterior:
    """What the known rows say of target cases: mean and standard deviation of r, and the
    mean of each part."""

    mean: Array
    deviation: Array
    stack: Array
    job: Array
    server: Array


@cache
def laws() -> Mapping[str, Law]:
    """The five numbers of each figure that can be calibrated."""
    rows = facts.table("calibration")
    return {
        figure: Law(*(float(row["value"]) for part in PARTS for row in rows if (row["figure"], row["part"]) == (figure, part)))
        for figure in dict.fromkeys(row["figure"] for row in rows)
    }


@cache
def widths() -> Mapping[tuple[str, int, str], tuple[float, float]]:
    """Factors of the standard deviation for the 80 % and the 95 % interval by figure, rows known of
    the job, and kind of step ("all" where few sources tell)."""
    return {
        (row["figure"], int(row["rows"]), row["step"]): (float(row["factor80"]), float(row["factor95"]))
        for row in facts.table("calibration_widths")
    }


@cache
def worse() -> Mapping[tuple[str, int], float]:
    """Share of the sources left out that so many own rows of a job made worse,
    by figure and rows."""
    return {(row["figure"], int(row["rows"])): float(row["worse"]) for row in facts.table("calibration_widths") if row["step"] == "all"}


def width(figure: str, rows: int, step: str) -> tuple[float, float]:
    """The factors of a figure with so many rows of the job known, for a kind of step."""
    known = widths()
    rows = min(max(rows, 1), MOST_ROWS)
    return known.get((figure, rows, step)) or known[figure, rows, "all"]


def parts_of(law: Law, left: Cases, right: Cases) -> tuple[Array, Array, Array]:
    """Covariances of what the stack, the job, and the server with nearness add, each of
    shape (left, right)."""
    same_job = left.job[:, None] == right.job[None]
    same_server = left.server[:, None] == right.server[None]
    distance = np.abs(left.batch[:, None] - right.batch[None]) + np.abs(left.length[:, None] - right.length[None])
    stack = np.full(same_job.shape, law.e**2)
    return stack, law.b**2 * same_job, same_server * (law.s**2 + law.n**2 * np.exp(-distance / 2.0))


def posterior_of(law: Law, known: Cases, residual: Array, target: Cases, *, noise: Array | None = None) -> Posterior:
    """What rows with `residual` say of `target` cases. `noise` is the variance of each row where it
    is not the law's v^2."""
    noise = np.full(len(residual), law.v**2) if noise is None else noise
    covariance = sum(parts_of(law, known, known)) + np.diag(noise)
    weights = np.linalg.solve(covariance, np.clip(residual, -MOST_RESIDUAL, MOST_RESIDUAL))
    stack, job, server = parts_of(law, target, known)
    cross = stack + job + server
    prior = law.e**2 + law.b**2 + law.s**2 + law.n**2
    variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(covariance, cross.T)) + law.v**2
    return Posterior(cross @ weights, np.sqrt(np.maximum(variance, law.v**2)), stack @ weights, job @ weights, server @ weights)


def settled(law: Law, known: Cases, residual: Array, bound: Sequence[str]) -> tuple[Array, Array]:
    """Rows with one-sided ones turned into rows of their own noise: values and variances, as
    `posterior` takes them."""
    values, noise = np.clip(residual, -MOST_RESIDUAL, MOST_RESIDUAL).astype(np.float64), np.full(len(residual), law.v**2)
    two_sided = np.array([index for index, side in enumerate(bound) if not side], dtype=np.intp)
    for index, side in enumerate(bound):
        if side:
            values[index], noise[index] = _one_sided(law, known, values, two_sided, index, side)
    return values, noise


def _one_sided(
    law: Law, known: Cases, values: Array, told: np.ndarray[tuple[int], np.dtype[np.intp]], index: int, side: str
) -> tuple[float, float]:
    """A row and its noise that leave the marginal of row `index` with the moments of
    its truncated normal."""
    one = known.take(np.array([index]))
    found = posterior_of(law, known.take(told), values[told], one) if told.size else None
    mean = float(found.mean[0]) if found else 0.0
    variance = float(found.deviation[0] ** 2) if found else sum(value**2 for value in law)
    cut_mean, cut_variance = truncated(mean, variance, float(values[index]), above=side == ">=")
    noise = 1.0 / max(1.0 / cut_variance - 1.0 / variance, 1e-9)
    return noise * (cut_mean / cut_variance - mean / variance), noise + law.v**2


def truncated(mean: float, variance: float, limit: float, *, above: bool) -> tuple[float, float]:
    """Mean and variance of a normal cut to what lies above (or below) `limit`.

    Reference: Johnson, Kotz, Balakrishnan, Continuous univariate distributions 1
    (1994), section 10.1.
    """
    deviation = math.sqrt(variance)
    sign = 1.0 if above else -1.0
    z = sign * (limit - mean) / deviation
    rest = 0.5 * math.erfc(z / math.sqrt(2.0))
    if rest < 1e-12:  # far in the tail: all of it lies at the limit
        return limit, variance * 1e-3
    ratio = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) / rest
    return mean + sign * deviation * ratio, max(variance * (1.0 + z * ratio - ratio * ratio), variance * 1e-3)


def step_kinds(known: Cases, target: Cases) -> list[str]:
    """How far each target is from what is known: the same set-up, another batch or length, more or
    fewer of the same cards, or another card."""
    kinds = []
    for job, card, server, batch, length in zip(target.job, target.card, target.server, target.batch, target.length, strict=True):
        here = known.server == server
        near = here & (known.batch == batch) & (known.length == length)
        kinds.append(
            "same" if near.any() else "batch" if here.any() else "cards" if ((known.card == card) & (known.job == job)).any() else "card"
        )
    return kinds


Predict = Callable[[list[dict[str, str]]], Sequence[Mapping[str, Any]]]
#: A figure is corrected only where own rows made at most this share of the sources worse
#: (calibration_widths.csv).
_MOST_WORSE = 0.5
_MEMORY, _TOKEN_TIMES = ("peak_mem_gib_per_gpu", "peak_mem_gib"), ("tpot_ms", "decode_tok_per_s_single")
_STATISTICS = ("mean", "median", "max", "p50", "last", "total")
#: Figures of serving that did not carry to another card on published data.
BOUND_TO_CARD = frozenset(("time-per-token", "first-token", "serving-throughput"))


@dataclass(frozen=True, slots=True)
class Row:
    """One measured figure of a run beside its prediction: `residual` = log(measured / predicted) of
    a cost, its inverse of a rate. `value` as it was measured, under this recomputation (empty: not
    known)."""

    run: str
    metric: str
    case: Case
    residual: float
    bound: str
    value: float = 0.0
    recompute: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Rows of runs, and why others could not be used: (run, metric, reason); `impossible` are those
    of them that nobody can have measured: (run, its place, figure, reason)."""

    rows: tuple[Row, ...]
    unused: tuple[tuple[str, str, str], ...]
    impossible: tuple[tuple[str, str, Measured, Message], ...] = ()

    def of(self, figure: str) -> tuple[Row, ...]:
        """Rows of one figure."""
        return tuple(row for row in self.rows if row.case.figure == figure)


@dataclass(frozen=True, slots=True)
class Correction:
    """What runs say of one case: the factor on its cost, the log half-widths of the 80 % and 95 %
    interval, where it comes from ("calibrated", or "measured" where the very set-up ran), the runs,
    the kind of step, and the factors of stack, job and server apart. `ran`: what this very set-up
    was measured at, each with its recomputation."""

    factor: float
    half80: float
    half95: float
    source: str
    runs: tuple[str, ...]
    step: str
    stack: float
    job: float
    server: float
    ran: tuple[tuple[str, float], ...] = ()


def evidence_of(runs: Sequence[Run], predict: Predict) -> Evidence:
    """Every figure of the runs that can be calibrated, predicted from the set-up that its record
    tells; the recomputation that it does not tell is the one that memory speaks for."""
    runs = _as_memory_says(runs, predict)
    asked = [(run, item, cells(run, item)) for run in runs for item in _figures(run)]
    answers = predict([row for _, _, row in asked]) if asked else []
    shares = _utilisations([row for _, _, row in asked], predict)
    rows, unused, never = [], [], []
    for (run, item, row), answer, share in zip(asked, answers, shares, strict=True):
        residual = _residual(item, answer)
        if problem := _too_large(row, item) or (impossible(row, item, answer, residual, share) if residual is not None else None):
            never.append((run.id, run.source.path_or_url or run.id, item, problem))
            unused.append((run.id, item.metric, str(problem)))
        elif residual is None:
            unused.append((run.id, item.metric, str(answer.get("error") or "no prediction")))
        else:
            case = named(case_of(row, item.metric))
            rows.append(Row(run.id, item.metric, case, residual, item.bound, item.value, row.get("recompute", "")))
    return Evidence(tuple(rows), tuple(unused), tuple(never))


def _residual(item: Measured, answer: Mapping[str, Any]) -> float | None:
    """log(measured / predicted) of a cost, its inverse of a rate; None without a prediction."""
    predicted = answer.get("predicted")
    if not predicted or not predicted > 0 or item.value <= 0:
        return None
    sign = 1.0 if metrics()[item.metric].sense == "cost" else -1.0
    return sign * (math.log(item.value) - math.log(predicted))


def _as_memory_says(runs: Sequence[Run], predict: Predict) -> list[Run]:
    """The runs, those that measured memory and tell no recomputation with the one whose prediction
    is nearest to it: what was measured counts more than what is assumed."""
    found = list(runs)
    for at, run in enumerate(runs):
        peak = next((item for item in _figures(run) if item.metric == "peak_mem_gib_per_gpu" and not item.bound and item.value > 0), None)
        if peak is None or run.setup.get("recompute") or figure_of(run.setup, peak.metric) != "training-memory":
            continue
        answers = predict([{**cells(run, peak), "recompute": word} for word in _recomputations()])
        missed = {word: abs(far) for word, one in zip(_recomputations(), answers, strict=True) if (far := _residual(peak, one)) is not None}
        if missed:
            found[at] = run.model_copy(update={"setup": {**run.setup, "recompute": min(missed, key=lambda word: missed[word])}})
    return found


@cache
def _recomputations() -> tuple[str, ...]:
    """The ways of recomputation that the column takes."""
    [row] = [row for row in facts.table("case_columns") if (row["table"], row["column"]) == ("training", "recompute")]
    return tuple(row["allowed"].split("|"))


def refuse_impossible(runs: Sequence[Run], predict: Predict) -> None:
    """InputError for a record with a figure that its set-up cannot have given."""
    for _, place, item, why in evidence_of(runs, predict).impossible:
        said = Message("measure.impossible", place=place, metric=item.metric, value=f"{item.value:,.10g}", unit=item.unit, why=why)
        raise InputError(said, field="runs")


# ---- What physics forbids is no evidence: a unit is wrong, a clock was set, or a record is false.


def _utilisations(rows: Sequence[Mapping[str, str]], predict: Predict) -> list[float | None]:
    """The predicted share of the card's rate that each row of a training step
    uses; None for all others."""
    steps = [at for at, row in enumerate(rows) if figure_of(row, row["metric"]) == "training-step"]
    found: list[float | None] = [None] * len(rows)
    for at, answer in zip(steps, predict([{**rows[at], "metric": "mfu"} for at in steps]) if steps else (), strict=True):
        found[at] = answer.get("predicted")
    return found


def _too_large(row: Mapping[str, str], item: Measured) -> Message | None:
    """Memory that the card does not have."""
    rule, limit = constant_group("measure", "evidence"), _capacity_gib(row) if item.metric in _MEMORY else None
    if limit is None or item.value <= limit * (rule["most_asked"] if item.bound else rule["most_memory"]):
        return None
    return Message("measure.impossible_memory", value=f"{item.value:.4g}", limit=f"{limit:.4g}")


def impossible(
    row: Mapping[str, str], item: Measured, answer: Mapping[str, Any], residual: float, utilisation: float | None
) -> Message | None:
    """Why a figure cannot have been measured with this set-up; None where it can. `residual`: log
    of its cost over the predicted one; `utilisation`: the predicted share of the card's rate."""
    rule = constant_group("measure", "evidence")
    if too_large := _too_large(row, item):
        return too_large
    if utilisation and math.log(utilisation) - residual > math.log(rule["most_utilisation"]):
        return Message("measure.impossible_rate", times=_times(math.log(utilisation) - residual))
    weights = (answer.get("terms") or {}).get("weights") if item.metric in _TOKEN_TIMES else None
    if weights and residual < math.log(weights / rule["most_tokens"]):
        return Message("measure.impossible_reads", times=_times(math.log(weights) - residual))
    if not math.log(1.0 / rule["most_faster"]) <= residual <= math.log(rule["most_slower"]):
        far = _times(abs(residual))
        return Message("measure.impossible_more", times=far) if residual > 0 else Message("measure.impossible_less", times=far)
    return None


def _times(log: float) -> str:
    return f"{math.exp(min(log, 700.0)):.3g}"


def _capacity_gib(row: Mapping[str, str]) -> float | None:
    from rightfit import facts
    from rightfit.errors import RightfitError

    try:
        cards = max(_number(row, "n_devices"), 1.0) if row["metric"] == "peak_mem_gib" else 1.0
        return facts.accelerator(row.get("gpu") or row.get("device") or "").memory_bytes / GIB * cards
    except RightfitError:
        return None


def cells(run: Run, item: Measured) -> dict[str, str]:
    """A figure of a run as a row for `predict`; memory of the counter that it was read from."""
    counter = (
        {"mem_kind": item.counter}
        if item.metric == "peak_mem_gib_per_gpu" and item.counter in ("allocated", "reserved", "nvidia-smi")
        else {}
    )
    return {**run.setup, **counter, "metric": item.metric}


def _figures(run: Run) -> list[Measured]:
    """One figure of each kind: of several statistics the mean, else the median; nothing that a
    preallocating framework filled."""
    kept: dict[tuple[str, str], Measured] = {}
    for item in sorted(
        run.measured, key=lambda item: _STATISTICS.index(item.statistic) if item.statistic in _STATISTICS else len(_STATISTICS)
    ):
        figure = metrics()[item.metric].figure
        if figure in _calibrated() and item.statistic in _STATISTICS and item.counter != "preallocated":
            kept.setdefault((figure, item.counter), item)
    return list(kept.values())


def _calibrated() -> set[str]:
    return set(laws()) | {figure.replace("samples-", "training-") for figure in laws()}


def named(case: Case) -> Case:
    """The case with the model's and the card's own names, so that two spellings are one."""
    model = 1 if case.figure.startswith("samples") else 0
    job = tuple(_model(text) if at == model else text for at, text in enumerate(case.job))
    return dataclasses.replace(case, job=job, card=_card(case.card))


def _model(text: str) -> str:
    from rightfit import facts
    from rightfit.errors import RightfitError

    try:
        return str(facts.model(text).name).casefold() if text else ""
    except (RightfitError, AttributeError):
        return text


def _card(text: str) -> str:
    from rightfit import facts
    from rightfit.errors import RightfitError

    try:
        return facts.accelerator(text).name.casefold() if text else ""
    except RightfitError:
        return text


def useful(figure: str, rows: int) -> bool:
    """Whether so many own rows of the job made few enough published sources worse."""
    shares = [share for (name, known), share in worse().items() if name == figure and known <= max(rows, 1)]
    return bool(shares) and min(shares) <= _MOST_WORSE


def corrections(evidence: Evidence, asked: Sequence[Case]) -> list[Correction | None]:
    """What the runs say of each case; None where they say nothing of its figure."""
    found: list[Correction | None] = [None] * len(asked)
    for figure in dict.fromkeys(case.figure for case in asked):
        rows = evidence.of(figure)
        if figure in laws() and rows and useful(figure, len(rows)):
            index = [i for i, case in enumerate(asked) if case.figure == figure]
            for i, correction in zip(index, _of_figure(figure, rows, [named(asked[i]) for i in index]), strict=True):
                found[i] = correction
    return found


def _of_figure(figure: str, rows: Sequence[Row], asked: Sequence[Case]) -> list[Correction]:
    law = laws()[figure]
    targets = [_aligned(case, rows) for case in asked]
    cases = as_cases([*(row.case for row in rows), *targets])
    known, target = cases.take(np.arange(len(rows))), cases.take(np.arange(len(rows), len(rows) + len(targets)))
    residual = np.array([row.residual for row in rows])
    values, noise = settled(law, known, residual, [row.bound for row in rows])
    posterior = posterior_of(law, known, values, target, noise=noise)
    steps = step_kinds(known, target)
    runs = tuple(dict.fromkeys(row.run for row in rows))
    result = []
    for at, step in enumerate(steps):
        of_job = int(np.sum(known.job == target.job[at]))
        wide = width(figure, of_job, step)
        deviation = float(posterior.deviation[at])
        here = [row for row, server in zip(rows, known.server, strict=True) if server == target.server[at]]
        one_sided = all(row.bound for row in here)
        mine = [row for row in here if not row.bound and (row.case.batch, row.case.length) == (targets[at].batch, targets[at].length)]
        stack, job, server = (math.exp(float(part[at])) for part in (posterior.stack, posterior.job, posterior.server))
        result.append(
            Correction(
                factor=math.exp(float(posterior.mean[at])),
                half80=wide[0] * deviation,
                half95=wide[1] * deviation,
                source="measured" if step == "same" and not one_sided else "calibrated",
                runs=runs,
                step=step,
                stack=stack,
                job=job,
                server=server,
                ran=tuple((row.recompute, row.value) for row in mine),
            )
        )
    return result


def _aligned(case: Case, rows: Sequence[Row]) -> Case:
    """The case with the job and the counter of the run that it fits, an empty cell fitting any."""
    for row in rows:
        if all(not mine or not theirs or mine == theirs for mine, theirs in zip(case.job, row.case.job, strict=True)) and _same_counter(
            case, row.case
        ):
            return dataclasses.replace(
                case, job=row.case.job, counter=row.case.counter, count=case.count or "1" if row.case.count else case.count
            )
    return case


def _same_counter(case: Case, other: Case) -> bool:
    return not case.counter or not other.counter or case.counter == other.counter


def moved(correction: Correction, predicted: float, *, is_cost: bool) -> dict[str, float]:
    """The corrected figure with its intervals, in the unit of `predicted`."""
    mid = predicted * correction.factor if is_cost else predicted / correction.factor
    narrow, wide = math.exp(correction.half80), math.exp(correction.half95)
    return {"predicted": mid, "low80": mid / narrow, "high80": mid * narrow, "low95": mid / wide, "high95": mid * wide}
