"""Batch prediction: measured-table rows in, one answer a row out, in their order, none lost.

Every column is optional. An empty cell is unknown: the usual default is taken, named in
`assumptions`, and the interval widens. A row that cannot be predicted has an empty `predicted` and
says why in `error`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import RightfitError
from rightfit.facts.tables import constants
from rightfit.measure.evidence import Evidence, case_of, corrections, evidence_of, moved
from rightfit.measure.record import metrics
from rightfit.physics.columns import Array, DeviceColumns, SetupColumns
from rightfit.proof.case_columns import visible, widen, without_comparisons
from rightfit.proof.cases.reader import number, word
from rightfit.proof.remarks import MOST_ROWS, idle_text, name_idle, remarks_of, with_values
from rightfit.proof.tables import PREDICTION_COLUMNS, cell_text, clean_row
from rightfit.units import FP32_BYTES, GIB

if TYPE_CHECKING:
    from rightfit.estimation.figures import FigureColumns
    from rightfit.estimation.intervals import RegimeColumns
    from rightfit.measure.record import Run
    from rightfit.proof.cases.training import TrainingCases


MEMORY_METRIC = "peak_mem_gib_per_gpu"
RATE_METRICS = ("tokens_per_s_per_gpu", "samples_per_s", "step_time_s", "tflops_per_gpu", "mfu")
DURATION_METRIC = "time_to_train_h"
#: Metrics that grow as a step takes longer.
_TIMES = {"step_time_s": 1.0, DURATION_METRIC: 1.0}
TRAINING_METRICS = (MEMORY_METRIC, *RATE_METRICS, DURATION_METRIC)

#: Columns that only the other tables have, and what to say about them.
OTHER_TABLES = {
    "library": "this metric of a row on classical machine learning is not predicted",
    "image_size": "this metric of a row on training of vision, speech, diffusion or recommender models is not predicted",
    "loader": "this metric of a data-loading row is not predicted",
}

#: Rows worked out together: what they hold on the way is six times what is left of them.
ROWS_AT_ONCE = 2000
_FIGURES = ("predicted", "low80", "high80", "low95", "high95")
#: Bytes of a parameter of 4 bits.
_PACKED = 0.5


def predict(rows: Sequence[Mapping[str, Any]], *, is_piece: bool = False) -> list[dict[str, Any]]:
    """Predict each row's metric with its intervals.

    `rows` have the column names of the measured tables (train memory and throughput today); values
    may be text or numbers. The answer has one dictionary a row, in order, with PREDICTION_COLUMNS
    first and the columns of the row that the contract does not know carried through. Numbers are
    None where there is none. Of a short table, columns that do not bear on a figure are named; of a
    piece of a longer one (`is_piece`) they are not, so that pieces read as the whole.
    """
    return [
        answer
        for start in range(0, len(rows), ROWS_AT_ONCE)
        for answer in _predicted(rows[start : start + ROWS_AT_ONCE], is_short=not is_piece and len(rows) <= MOST_ROWS)
    ]


def _predicted(rows: Sequence[Mapping[str, Any]], *, is_short: bool) -> list[dict[str, Any]]:
    cells, answers = _widened(rows)
    if is_short:
        name_idle([table_of(visible(row)) for row in cells], cells, answers, _tried)
    return [_finish(answer, row) for answer, row in zip(answers, cells, strict=True)]


def _tried(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    parts = (rows[start : start + ROWS_AT_ONCE] for start in range(0, len(rows), ROWS_AT_ONCE))
    return [answer for part in parts for answer in _widened(part)[1]]


def _widened(rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    cells, answers = answered(rows)
    widen(cells, answers)
    return cells, answers


def answered(rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """The rows as text cells, and their answers as the engines give them: with `regime`, what the
    law of intervals reads, and without its intervals."""
    whole = [clean_row(_countless(row)) for row in rows]
    cleaned = [(without_comparisons(visible(cells)), problem) for cells, problem in whole]
    answers = [_blank(cells) for cells, _ in cleaned]
    pending: list[int] = []
    loaders: list[int] = []
    vision: list[int] = []
    classical: list[int] = []
    for index, (cells, problem) in enumerate(cleaned):
        problem = problem or _out_of_scope(cells)
        if problem:
            answers[index]["error"] = problem
        elif (kind := table_of(cells)) == "classical":
            classical.append(index)
        elif kind == "loading":
            loaders.append(index)
        elif kind == "samples":
            vision.append(index)
        else:
            pending.append(index)
        cleaned[index] = (visible(cells, table_of(cells)), problem)
    from rightfit.proof.serving_predict import predict_inference

    for work, serving in ((_predict_training, False), (predict_inference, True)):
        part_of = [i for i in pending if _is_inference(cleaned[i][0]) is serving]
        _in_pieces(part_of, lambda part, work=work: work([cleaned[i][0] for i in part], [answers[i] for i in part]), answers)  # type: ignore[misc]
    _in_pieces(vision, lambda part: _predict_vision([cleaned[i][0] for i in part], [answers[i] for i in part]), answers)
    _in_pieces(classical, lambda part: _predict_classical([cleaned[i][0] for i in part], [answers[i] for i in part]), answers)
    _in_pieces(loaders, lambda part: _predict_loading([cleaned[i][0] for i in part], [answers[i] for i in part]), answers)
    return [cells for cells, _ in whole], answers


def table_of(cells: Mapping[str, str]) -> str:
    """The kind of table that a case is of, by its columns and metric: training, inference, samples,
    classical, loading."""
    if _is_classical(cells):
        return "classical"
    if _is_loading(cells):
        return "loading"
    if _is_vision(cells):
        return "samples"
    return "inference" if _is_inference(cells) else "training"


def _countless(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row of the table of other training with its count of GPUs unknown where it says none: those
    ran on processors."""
    zero = isinstance(row, Mapping) and "image_size" in row and str(row.get("n_gpus", "")).strip() in ("0", "0.0")
    return {**row, "n_gpus": ""} if zero else row


def _blank(cells: Mapping[str, str]) -> dict[str, Any]:
    answer: dict[str, Any] = dict.fromkeys(PREDICTION_COLUMNS)
    metric = cells.get("metric", "")
    answer.update(id=cells.get("id", ""), metric=metric, engine="analytic", assumptions=[], error="")
    if not metric and not _other_table(cells) and not _is_inference(cells):
        answer["metric"] = MEMORY_METRIC
        answer["assumptions"] = ["metric not stated: peak memory taken"]
    return answer


def _is_inference(cells: Mapping[str, str]) -> bool:
    """Whether a row is of the inference tables: by its metric, or by their columns
    where it names none."""
    from rightfit.proof.serving_predict import INFERENCE_METRICS

    metric = cells.get("metric", "")
    if metric:
        # Data loading counts images per second too, but has no engine.
        return metric in INFERENCE_METRICS and ("engine" in cells or "device" in cells or not _other_table(cells))
    return "micro_batch" not in cells and "method" not in cells and ("engine" in cells or "input_tokens" in cells)


def _is_loading(cells: Mapping[str, str]) -> bool:
    """Whether a row is of the table of measured loaders."""
    return "loader" in cells and "micro_batch" not in cells and "method" not in cells and "engine" not in cells


def _is_vision(cells: Mapping[str, str]) -> bool:
    """Whether a row is of the table of training that is not of language models."""
    return (
        ("image_size" in cells or {"task", "batch_per_gpu"} <= cells.keys())
        and not _is_loading(cells)
        and not _is_inference(cells)
        and "micro_batch" not in cells
        and "method" not in cells
    )


def _is_classical(cells: Mapping[str, str]) -> bool:
    """Whether a row is of the table of classical machine learning."""
    return "library" in cells and "algorithm" in cells and "micro_batch" not in cells and "method" not in cells and "engine" not in cells


def _predict_classical(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    from rightfit.proof.family_predict import predict_classical

    predict_classical(rows, answers)


def _predict_vision(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    from rightfit.proof.family_predict import predict_vision

    predict_vision(rows, answers)


def _predict_loading(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    from rightfit.proof.family_predict import predict_loading

    predict_loading(rows, answers)


def _other_table(cells: Mapping[str, str]) -> str:
    if "micro_batch" in cells or "method" in cells:
        return ""
    return next((reason for column, reason in OTHER_TABLES.items() if column in cells), "")


def _out_of_scope(cells: Mapping[str, str]) -> str:
    """Why a row is not one of training; empty when it is."""
    metric = cells.get("metric", "")
    if _is_classical(cells):
        return "" if metric else "a row on classical machine learning must name its metric"
    if _is_loading(cells):
        return "" if metric else "a data-loading row must name its metric"
    if _is_vision(cells):
        return "" if metric else "a row on training of vision, speech, diffusion or recommender models must name its metric"
    if not _is_inference(cells) and (reason := _other_table(cells)):
        return reason
    if _is_inference(cells):
        return "" if metric else "an inference row must name its metric"
    if metric and metric not in TRAINING_METRICS:
        return f"metric {metric[:60]!r} is not predicted; the metrics are {', '.join(TRAINING_METRICS)}"
    if not any(cells.values()):
        return "the row is empty"
    return ""


def _in_pieces(indices: list[int], work: Callable[[list[int]], None], answers: list[dict[str, Any]]) -> None:
    """Run `work` on all rows at once; when one row breaks it, halve until that row stands alone and
    carries the reason itself."""
    if not indices:
        return
    try:
        with np.errstate(all="ignore"):
            work(indices)
    except Exception as error:  # one bad row in ten thousand must not cost the others their answer
        if len(indices) > 1:
            middle = len(indices) // 2
            _in_pieces(indices[:middle], work, answers)
            _in_pieces(indices[middle:], work, answers)
        else:
            message = str(error) if isinstance(error, RightfitError) else f"cannot be computed: {type(error).__name__}: {error}"
            answers[indices[0]]["error"] = message


def _predict_training(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill the answers of training rows."""
    from rightfit.proof.cases.training import training_cases

    cases = training_cases(rows)
    for index, reason in cases.refused.items():
        answers[index]["error"] = reason
    if not len(cases.index):
        return
    kept = [int(i) for i in cases.index]
    metrics = np.array([answers[i]["metric"] for i in kept])
    memory, time = np.flatnonzero(metrics == MEMORY_METRIC), np.flatnonzero(metrics != MEMORY_METRIC)
    if memory.size:
        _answer_memory(cases, rows, answers, memory)
    if time.size:
        _answer_time(cases, rows, answers, time)


def case_regimes(cases: TrainingCases, rows: Sequence[Mapping[str, str]], index: NDArray[np.intp]) -> RegimeColumns:
    """What is known about these cases, for the width of their intervals."""
    from rightfit.estimation.intervals import assumption_flags, regime_columns
    from rightfit.proof.case_columns import is_known_software

    unnamed = [float(not is_known_software("training", rows[int(cases.index[i])].get("framework", ""))) for i in index]
    flags = assumption_flags([cases.assumptions[int(i)] for i in index])
    model, setup, device = cases.model.take(index), cases.setup.take(index), cases.device.take(index)
    return regime_columns(model, setup, device, framework_unknown=unnamed, **flags)


def _answer_memory(cases: TrainingCases, rows: list[dict[str, str]], answers: list[dict[str, Any]], index: NDArray[np.intp]) -> None:
    """Peak memory per GPU of the kind asked for, and whether the job fits the card."""
    from rightfit.estimation.intervals import interval_columns
    from rightfit.estimation.training import memory_columns
    from rightfit.proof.case_columns import note_conventions, note_taken

    model, setup, device = cases.model.take(index), cases.setup.take(index), cases.device.take(index)
    regime = case_regimes(cases, rows, index)
    memory = memory_columns(model, setup, device)
    figures = interval_columns(MEMORY_METRIC, memory.peak_bytes / GIB, regime)
    shares = {name: value / memory.peak_bytes for name, value in memory.terms.items()}
    _fill(answers, cases, index, figures, shares)
    room = np.broadcast_to(np.log(memory.capacity_bytes / memory.required_bytes), index.shape)
    _describe(answers, cases, index, MEMORY_METRIC, regime)
    _note_floors(answers, cases, rows, index, memory.terms["weights"] / GIB, regime)
    note_taken(answers, cases, index)
    note_conventions(answers, cases, index)
    for position, i in enumerate(index):
        answer = answers[int(cases.index[i])]
        if cases.gpu_names[int(i)] and not answer["error"]:
            answer["regime"]["room"] = float(room[position])


def _note_floors(
    answers: list[dict[str, Any]],
    cases: TrainingCases,
    rows: Sequence[Mapping[str, str]],
    index: NDArray[np.intp],
    weights: Array,
    regime: RegimeColumns,
) -> None:
    """Note the bytes of weights that certainly lie on a GPU, where model and method are told, and
    what is beside the weights: it is all that is in doubt."""
    from rightfit.proof.case_columns import certain_weights

    frozen = np.maximum(regime.adapter, np.maximum(regime.quantized, regime.rare_method)) > 0
    narrowest = np.where(frozen, _PACKED, FP32_BYTES / 2.0) / np.maximum(cases.setup.take(index).linear_weight_bytes, _PACKED)
    known = (regime.shape_typical == 0) & (regime.method_unknown == 0)
    columns = np.broadcast_arrays(weights, narrowest, cases.setup.take(index).num_gpus, known, np.zeros(index.shape))
    for i, held, narrow, devices, sure in zip(index, *columns[:4], strict=True):
        answer = answers[int(cases.index[i])]
        if not answer["error"]:
            share = constants("training_words")["certain_weights"] * answer["terms"]["weights"]
            answer["regime"]["beside"] = float(np.log(1.0 - share))
        if sure and not answer["error"]:
            answer["regime"]["floor"] = certain_weights(
                rows[int(cases.index[i])], float(held), narrowest=float(narrow), devices=float(devices)
            )


def _answer_time(cases: TrainingCases, rows: list[dict[str, str]], answers: list[dict[str, Any]], index: NDArray[np.intp]) -> None:
    """Step time and what follows from it, each row in the metric that it asks for."""
    from rightfit.estimation.intervals import interval_columns
    from rightfit.estimation.training import step_columns
    from rightfit.proof.case_columns import note_taken

    model, setup, device = cases.model.take(index), cases.setup.take(index), cases.device.take(index)
    regime = case_regimes(cases, rows, index)
    step = step_columns(model, setup, device, cases.links.take(index))
    shares = {name: value / step.step_s for name, value in step.terms.items()}
    values = rate_values(step.step_s, step.model_flops, setup, device)
    values[DURATION_METRIC] = _samples_needed(cases, rows, index) / values["samples_per_s"] / 3600.0
    metrics = np.array([answers[int(cases.index[i])]["metric"] for i in index])
    for metric in np.unique(metrics):
        here = np.flatnonzero(metrics == metric)
        mid = np.broadcast_to(values[str(metric)], index.shape)[here]
        figures = interval_columns(str(metric), mid, regime.take(here))
        if metric == DURATION_METRIC:
            _explain_duration(answers, cases, rows, index[here], mid)
        _fill(answers, cases, index[here], figures, {name: np.broadcast_to(value, index.shape)[here] for name, value in shares.items()})
        _describe(answers, cases, index[here], str(metric), regime.take(here))
        _note_peak(
            answers,
            cases,
            rows,
            index[here],
            str(metric),
            mid * np.broadcast_to(values["mfu"], index.shape)[here] ** _TIMES.get(str(metric), -1.0),
        )
    note_taken(answers, cases, index)
    _note_unmeasured(answers, cases, index, regime)


def _note_unmeasured(answers: list[dict[str, Any]], cases: TrainingCases, index: NDArray[np.intp], regime: RegimeColumns) -> None:
    """Say, and doubt, that no measured step had a packed base of 8 bits."""
    given = constants("training_words")
    wide = (regime.quantized > 0) & (cases.setup.take(index).linear_weight_bytes > given["eight_bits"])
    for i, is_unmeasured in zip(index, np.broadcast_to(wide, index.shape), strict=True):
        answer = answers[int(cases.index[i])]
        if is_unmeasured and not answer["error"]:
            answer["regime"]["knowledge"] *= given["unmeasured_doubt"]
            answer["assumptions"].append(
                "no measured step has an 8-bit base: reports say 2 to 3 times the step of 16 bits, more with few tokens"
            )


def _note_peak(
    answers: list[dict[str, Any]],
    cases: TrainingCases,
    rows: Sequence[Mapping[str, str]],
    index: NDArray[np.intp],
    metric: str,
    bounds: Array,
) -> None:
    """Note what the GPUs could do at the peak of the arithmetic that is told: no step is faster."""
    name = "floor" if metric in _TIMES else "ceiling"
    for i, bound in zip(index, bounds, strict=True):
        row, answer = rows[int(cases.index[i])], answers[int(cases.index[i])]
        if not answer["error"] and cases.gpu_names[int(i)] and (row.get("precision") or row.get("compute_dtype")):
            answer["regime"][name] = float(bound)


def _samples_needed(cases: TrainingCases, rows: Sequence[Mapping[str, str]], index: NDArray[np.intp]) -> Array:
    """Samples of the whole run where the row is of a benchmark whose convergence
    is known, else NaN."""
    from rightfit.estimation.training_setup import samples_to_converge

    batch = np.broadcast_to((cases.setup.data * cases.setup.micro_batch * cases.setup.grad_accum), cases.index.shape)
    needed = np.full(index.shape, np.nan)
    for position, i in enumerate(index):
        row = rows[int(cases.index[i])]
        if samples := number(row, "samples"):
            needed[position] = samples * (number(row, "epochs") or 1.0)
        elif "mlperf" in " ".join(word(row, name) for name in ("dataset", "framework", "extra_flags")).lower():
            needed[position] = samples_to_converge(cases.names[int(i)], global_batch=float(row.get("global_batch") or batch[i]))
    return needed


def _explain_duration(
    answers: list[dict[str, Any]], cases: TrainingCases, rows: Sequence[Mapping[str, str]], index: NDArray[np.intp], mid: Array
) -> None:
    """Say where the number of samples comes from where the case does not state it, or
    that it is unknown."""
    for i, value in zip(index, mid, strict=True):
        answer = answers[int(cases.index[i])]
        if np.isfinite(value) and number(rows[int(cases.index[i])], "samples"):
            continue
        if np.isfinite(value):
            answer["assumptions"].append("samples to the target taken from MLPerf's reference convergence points")
        else:
            answer["error"] = "how much data the run took is not in the row, so the time to train cannot be told"


def rate_values(step_s: Array, model_flops: Array, setup: SetupColumns, device: DeviceColumns) -> dict[str, Array]:
    """Every rate metric from the step time [s], the model FLOP of a step [FLOP], and the layout."""
    num_gpus = setup.num_gpus
    tflops = model_flops / step_s / num_gpus / 1e12
    return {
        "tokens_per_s_per_gpu": setup.tokens_per_step / step_s / num_gpus,
        "samples_per_s": setup.data * setup.micro_batch * setup.grad_accum / step_s,
        "step_time_s": step_s,
        "tflops_per_gpu": tflops,
        "mfu": tflops * 1e12 / device.peak_flops(setup.compute_dtype),
    }


def _fill(
    answers: list[dict[str, Any]], cases: TrainingCases, index: NDArray[np.intp], figures: FigureColumns, shares: Mapping[str, Array]
) -> None:
    """Write figures, assumptions and term shares into the answers of these cases."""
    bounds = np.stack([figures.mid, figures.low80, figures.high80, figures.low95, figures.high95], axis=1)
    usable = np.isfinite(bounds).all(axis=1) & (figures.mid > 0)
    terms = {name: np.broadcast_to(value, index.shape) for name, value in shares.items()}
    for position, i in enumerate(index):
        answer = answers[int(cases.index[i])]
        answer["assumptions"] += cases.assumptions[int(i)]
        if not usable[position]:
            answer["error"] = (
                answer["error"] or "the estimate is not a finite positive number: the row's dimensions or layout make no sense together"
            )
            continue
        answer.update(zip(_FIGURES, (float(f"{value:.6g}") for value in bounds[position]), strict=True))
        answer["terms"] = {name: float(value[position]) for name, value in terms.items()}


def _describe(answers: list[dict[str, Any]], cases: TrainingCases, index: NDArray[np.intp], metric: str, regime: RegimeColumns) -> None:
    """Note what the width of each interval depends on."""
    from rightfit.estimation.intervals import GROUPS, METRIC_FAMILY, group_codes, interval_models

    family, _ = METRIC_FAMILY[metric]
    model = interval_models()[family]
    columns = {
        "group": np.array([f"{family}-{name}" for name in GROUPS[family]])[np.broadcast_to(group_codes(family, regime), index.shape)],
        "knowledge": model.sigma(regime) / np.exp(model.scale["base"]),
        **{name: getattr(regime, name) for name in ("eager_stack", "fully_sharded", "moe")},
    }
    columns = {name: np.broadcast_to(values, index.shape) for name, values in columns.items()}
    for position, i in enumerate(index):
        named = {name: values[position].item() for name, values in columns.items()}
        answers[int(cases.index[i])]["regime"] = {**named, "device": cases.gpu_names[int(i)]}


def _finish(answer: dict[str, Any], cells: Mapping[str, str]) -> dict[str, Any]:
    """The answer with assumptions as one text and the input's other columns carried through."""
    seen = visible(cells)
    table = table_of(seen)
    told = list(dict.fromkeys([*with_values(answer), *remarks_of(table, visible(cells, table), answer)]))
    answer["assumptions"] = "; ".join([*told, *idle_text(answer, told)])
    for name in ("regime", "taken", "said", "idle"):
        answer.pop(name, None)
    return {**answer, **{name: value for name, value in cells.items() if name not in answer}}


# ---- Batch prediction with runs of one's own: figures moved by what the runs missed,
# and the runs named.


def evidence(runs: Sequence[Run]) -> Evidence:
    """What these runs missed the prediction by."""
    return evidence_of(runs, lambda rows: predict(rows))


def predict_with_runs(rows: Sequence[Mapping[str, Any]], runs: Sequence[Run]) -> list[dict[str, Any]]:
    """As `predict`, with `source` (calibrated or measured, empty where the runs say nothing) and
    `runs` (their ids) in every answer."""
    return predict_with_evidence(rows, evidence(runs))


def predict_with_evidence(rows: Sequence[Mapping[str, Any]], known: Evidence, *, is_piece: bool = False) -> list[dict[str, Any]]:
    """As `predict_with_runs`, of runs whose evidence is known."""
    answers = predict(rows, is_piece=is_piece)
    cells = [{str(name): cell_text(value) for name, value in row.items() if name is not None} for row in rows]
    found = corrections(known, [case_of(row, answer["metric"]) for row, answer in zip(cells, answers, strict=True)])
    for answer, correction in zip(answers, found, strict=True):
        answer["source"], answer["runs"] = "", ""
        if correction is not None and answer["predicted"]:
            is_cost = metrics()[answer["metric"]].sense == "cost"
            figures = moved(correction, answer["predicted"], is_cost=is_cost)
            answer.update({name: float(f"{value:.6g}") for name, value in figures.items()})
            answer["source"], answer["runs"] = correction.source, " ".join(correction.runs)
    return answers
