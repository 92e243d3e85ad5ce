"""Batch prediction of inference rows: language models here, everything that is one forward pass
in forward_predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rightfit.errors import RightfitError
from rightfit.facts.image_tokens import has_two_towers
from rightfit.facts.records import TransformerArchitecture
from rightfit.facts.tables import says
from rightfit.physics.columns import Array
from rightfit.units import GIB

if TYPE_CHECKING:
    from rightfit.estimation.figures import FigureColumns
    from rightfit.proof.cases.serving import ServingCases

MEMORY_METRIC = "peak_mem_gib"
#: Metrics that only generation of text has.
TOKEN_METRICS = (
    "decode_tok_per_s_single",
    "tpot_ms",
    "ttft_ms",
    "prefill_tok_per_s",
    "output_tok_per_s_total",
    "total_tok_per_s",
)
#: Metrics that one forward pass has too.
SHARED_METRICS = ("latency_ms", "req_per_s", MEMORY_METRIC)
FORWARD_METRICS = ("images_per_s", "sequences_per_s", "denoise_steps_per_s")
INFERENCE_METRICS = (*TOKEN_METRICS, *SHARED_METRICS, *FORWARD_METRICS)

_GENERATING = ("decoder", "moe-decoder", "vlm")
_FIGURES = ("predicted", "low80", "high80", "low95", "high95")
#: Bytes of a parameter of 4 bits.
_PACKED = 0.5


def is_generation(row: Mapping[str, str]) -> bool:
    """Whether the row is about a language model that generates text: by its metric and
    its model's record."""
    metric = row.get("metric", "")
    if metric in FORWARD_METRICS:
        return False
    record, assumption = _record(row)
    if record is None or "usual shape" in assumption:
        # A name that nobody knows: the metric tells, or an answer of several tokens by software
        # that serves language models.
        return metric in TOKEN_METRICS or _serves_language(row)
    if not isinstance(record, TransformerArchitecture):
        return False
    if metric == "latency_ms" and not row.get("output_tokens") and record.kind == "vlm":
        return False
    return (record.kind in _GENERATING and not has_two_towers(record)) or (record.kind == "encoder-decoder" and metric in TOKEN_METRICS[:3])


def _serves_language(row: Mapping[str, str]) -> bool:
    """Whether the words of a row are those of a language model: a length of answers, or an engine
    that serves nothing else."""
    if says("forward", "denoiser", f"{row.get('model', '')} {row.get('engine', '')}", ignore_case=True):
        return False
    answers = _positive(row.get("output_tokens", "").replace(",", "")) > 1
    return answers or (row.get("metric") == MEMORY_METRIC and says("serving", "language_engine", row.get("engine", ""), ignore_case=True))


def _record(row: Mapping[str, str]) -> tuple[object | None, str]:
    from rightfit.proof.cases.serving import architecture

    try:
        return architecture(row.get("model", "").strip(), _positive(row.get("params_b", "")))
    except RightfitError:
        return None, ""


def _positive(text: str) -> float:
    try:
        return max(float(text), 0.0)
    except ValueError:
        return 0.0


def predict_inference(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Fill the answers of inference rows, each by the part that knows its kind of model."""
    generation = [is_generation(row) for row in rows]
    for chosen, work in ((True, _predict_generation), (False, _predict_forward)):
        index = [i for i, flag in enumerate(generation) if flag is chosen]
        if index:
            work([rows[i] for i in index], [answers[i] for i in index])


def _predict_forward(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Encoders, vision, diffusion, speech."""
    from rightfit.estimation.figures import serving_interval, serving_interval_group
    from rightfit.proof.family_predict import predict_forward

    for row, answer, (value, error, regime) in zip(rows, answers, predict_forward(rows), strict=True):
        answer["error"] = error
        if value is not None:
            doubts = np.array([float(regime["doubts"])])
            figures = serving_interval(row.get("metric", ""), np.array([value]), doubts=doubts, modality=regime["modality"])
            _write(answer, figures, 0)
            answer["assumptions"] += regime["assumptions"]
            answer["taken"] = regime["taken"]
            answer["regime"] = {"group": _named(serving_interval_group(row.get("metric", ""), modality=regime["modality"]), "forward")}
            answer["regime"]["knowledge"] = regime["doubt"]
            if regime["room"] is not None and row.get("metric") == MEMORY_METRIC:
                answer["regime"]["room"] = regime["room"]
            elif row.get("metric") == MEMORY_METRIC:
                answer["assumptions"].append(_NO_MEMORY)


def _predict_generation(rows: list[dict[str, str]], answers: list[dict[str, Any]]) -> None:
    """Language models: one evaluation of the physics for all rows, then each row in the
    metric that it asks for."""
    from rightfit.proof.cases.serving import serving_cases

    cases = serving_cases(rows)
    for index, reason in cases.refused.items():
        answers[index]["error"] = reason
    if not len(cases.index):
        return
    values, terms, saturated = generation_values(cases)
    for i in cases.index[saturated]:
        answers[int(i)]["assumptions"].append(_KEPT_UP)
    metrics = np.array([answers[int(i)]["metric"] for i in cases.index])
    for metric in np.unique(metrics):
        here = np.flatnonzero(metrics == metric)
        if str(metric) not in values:
            _refuse(answers, cases, here, f"metric {str(metric)[:60]!r} is not predicted; the metrics are {', '.join(INFERENCE_METRICS)}")
            continue
        shares = terms["memory" if metric == MEMORY_METRIC else "time"]
        _answer(answers, cases, here, str(metric), values[str(metric)][here], {name: share[here] for name, share in shares.items()})
        if metric == MEMORY_METRIC:
            _judge(answers, cases, here)
            _note_floors(answers, cases, rows, here)
        else:
            _note_bounds(answers, cases, rows, here, str(metric))


def _judge(answers: list[dict[str, Any]], cases: ServingCases, index: NDArray[np.intp]) -> None:
    """Whether each case fits its device: what is left beside its weights over what it
    needs beside them."""
    from rightfit.estimation.serving import fit_room

    room = np.broadcast_to(fit_room(cases.model, cases.serve, cases.device), cases.index.shape)
    for i in index:
        answer = answers[int(cases.index[i])]
        if answer["error"] or any(text.startswith("device not stated") for text in cases.assumptions[int(i)]):
            continue
        if np.isfinite(room[i]):
            answer["regime"]["room"] = float(room[i])
        else:
            answer["assumptions"].append(_NO_MEMORY)


def _note_floors(answers: list[dict[str, Any]], cases: ServingCases, rows: Sequence[Mapping[str, str]], index: NDArray[np.intp]) -> None:
    """Note the bytes of weights that certainly lie on the devices that are counted."""
    from rightfit.proof.case_columns import certain_weights

    formats = np.broadcast_to(cases.serve.linear_bytes, cases.index.shape)
    spread = np.broadcast_to(cases.serve.num_devices, cases.index.shape)
    for i in index:
        answer, row = answers[int(cases.index[i])], rows[int(cases.index[i])]
        if not answer["error"] and not any("usual shape" in text for text in cases.assumptions[int(i)]):
            held = answer["terms"]["weights"] * answer["predicted"]
            answer["regime"]["floor"] = certain_weights(row, held, narrowest=_PACKED / float(formats[i]), devices=float(spread[i]))


def _note_bounds(
    answers: list[dict[str, Any]], cases: ServingCases, rows: Sequence[Mapping[str, str]], index: NDArray[np.intp], metric: str
) -> None:
    """Note what the device's data sheet allows, where device and weights are told, no draft
    proposes tokens and no prompt is known before."""
    from rightfit.estimation.serving import metric_bounds

    least, most = (
        {name: np.broadcast_to(values, cases.index.shape) for name, values in one.items()}
        for one in metric_bounds(cases.model, cases.serve, cases.device)
    )
    for i in index:
        answer, row = answers[int(cases.index[i])], rows[int(cases.index[i])]
        told = cases.device_names[int(i)] and row.get("weights_dtype") and not row.get("draft") and not row.get("prefix_share")
        if (
            answer["error"]
            or not told
            or any(text.startswith("device not stated") or "usual shape" in text for text in cases.assumptions[int(i)])
        ):
            continue
        answer["regime"] |= {name: float(one[metric][i]) for name, one in (("floor", least), ("ceiling", most)) if metric in one}


_NO_MEMORY = "memory of the device not stated: whether it fits is not told"


_KEPT_UP = "the stated rate is more than is predicted to be kept up with: latencies are those of a load that is"


def generation_values(cases: ServingCases) -> tuple[dict[str, Array], dict[str, dict[str, Array]], NDArray[np.bool_]]:
    """Every metric of every case, the shares of its terms, of a decode step ("time") and of memory
    ("memory"), and whether it has more load than it takes."""
    from rightfit.estimation.serving import metric_values, peak_memory_bytes, served_columns

    shape = cases.index.shape
    times = served_columns(cases.model, cases.serve, cases.device, cases.links)
    memory = {name: np.broadcast_to(term, shape) for name, term in peak_memory_bytes(cases.model, cases.serve, cases.device).items()}
    total = np.sum(list(memory.values()), axis=0)
    values = {name: np.broadcast_to(value, shape) for name, value in metric_values(cases.serve, times).items()}
    values[MEMORY_METRIC] = total / GIB
    shares = {
        "time": {name: term / times.step_s for name, term in times.decode_terms.items()},
        "memory": {name: term / total for name, term in memory.items()},
    }
    return values, shares, np.broadcast_to(times.saturated, shape)


def _refuse(answers: list[dict[str, Any]], cases: ServingCases, index: NDArray[np.intp], reason: str) -> None:
    for i in index:
        answers[int(cases.index[i])]["error"] = reason


def case_doubts(cases: ServingCases) -> Array:
    """How many inputs of each case were assumed; those that hardly matter are not counted."""
    return np.array([float(sum(not text.startswith("device '") for text in texts)) for texts in cases.assumptions])


def _answer(
    answers: list[dict[str, Any]], cases: ServingCases, index: NDArray[np.intp], metric: str, mid: Array, shares: Mapping[str, Array]
) -> None:
    """Write figures, assumptions and term shares of these cases."""
    from rightfit.estimation.figures import serving_interval, serving_interval_group

    group, moe = _named(serving_interval_group(metric), "serving"), np.broadcast_to(cases.model.num_experts > 1, cases.index.shape)
    figures = serving_interval(metric, mid, doubts=case_doubts(cases)[index])
    usable = np.isfinite(mid) & (mid > 0)
    fields = {name: getattr(cases.serve, name) for name in (*_TAKEN.values(), *_TAKEN_AS_WORDS)} | {"num_experts": cases.model.num_experts}
    columns = {name: np.broadcast_to(values, cases.index.shape).tolist() for name, values in fields.items()}
    for position, i in enumerate(index):
        answer = answers[int(cases.index[i])]
        answer["assumptions"] += cases.assumptions[int(i)]
        if not usable[position]:
            answer["error"] = answer["error"] or "the estimate is not a finite positive number: the row's values make no sense together"
            continue
        _write(answer, figures, position)
        answer["terms"] = {name: float(value[position]) for name, value in shares.items()}
        answer["regime"] = {"group": group, "device": cases.device_names[int(i)], "moe": float(moe[int(i)])}
        answer["taken"] = _taken(columns, int(i), metric)


#: Column of a case -> field of the serving setup that stands for it.
_TAKEN = {
    "n_devices": "num_devices",
    "tp": "tensor",
    "pp": "pipeline",
    "dp": "attention_data",
    "replicas": "data",
    "ep": "expert",
    "batch_or_concurrency": "batch",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "max_num_seqs": "max_batch",
}


_TAKEN_AS_WORDS = ("load", "engine", "weight_format", "kv_bytes", "counter")


def _taken(columns: Mapping[str, Sequence[float]], index: int, metric: str) -> dict[str, str]:
    """What was taken for each column that a case may have left empty."""
    from rightfit.facts.engines import engine_classes, format_names
    from rightfit.physics.serving_columns import Load, ServingCounter

    def one(name: str) -> float:
        return columns[name][index]

    found = {column: f"{one(name):g}" for column, name in _TAKEN.items()}
    words = {
        "arrival": Load(int(one("load"))).name.lower(),
        "engine": f"{engine_classes()[int(one('engine'))]} kernels",
        "weights_dtype": format_names()[int(one("weight_format"))],
        "kv_dtype": f"{one('kv_bytes'):g} bytes an element",
        "counter": ServingCounter(int(one("counter"))).name.lower().replace("_", ", "),
    }
    loaded = one("load") in (float(Load.OFFLINE), float(Load.OPEN))
    left_out = {"batch_or_concurrency"} if loaded else set() if one("batch") > 1 else {"max_num_seqs"}
    left_out |= set() if one("num_devices") > 1 else {"tp", "pp", "dp", "replicas", "ep"}
    left_out |= set() if one("num_experts") > 1 else {"ep"}
    left_out |= set() if metric == MEMORY_METRIC else {"counter"}
    return {column: value for column, value in (found | words).items() if column not in left_out}


def _named(group: str, family: str) -> str:
    """The group with its family in front."""
    return group if group.startswith(family) else f"{family}-{group}"


def _write(answer: dict[str, Any], figures: FigureColumns, position: int) -> None:
    columns = (figures.mid, figures.low80, figures.high80, figures.low95, figures.high95)
    answer.update({name: float(f"{column[position]:.6g}") for name, column in zip(_FIGURES, columns, strict=True)})
