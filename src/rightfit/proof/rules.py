"""Rules of thumb that people use instead of a predictor, as rivals on exactly the same rows.

Training: memory is 16 bytes a parameter, divided over the shards; throughput 6 x active parameters FLOP a token at 40 % of the peak.
Serving: a token
takes as long as reading the active weights once, a prompt 2 x active parameters FLOP a token at 40 % of the peak, memory is the weights and
a fifth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.physics.columns import Array
from rightfit.proof import score
from rightfit.proof.cases.training import TrainingCases, training_cases
from rightfit.proof.score import FitScore, GroupScore, is_memory
from rightfit.proof.tables import clean_row
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.proof.cases.serving import ServingCases
    from rightfit.proof.figures import FigureFamily

BYTES_PER_PARAMETER = 16.0
PEAK_SHARE = 0.4
MEMORY_MARGIN = 1.2

MEMORY_RULE = "rule: 16 bytes a parameter"
TIME_RULE = "rule: 6 N D / (0.4 peak)"
DECODE_RULE = "rule: weights / bandwidth"
PROMPT_RULE = "rule: 2 N D / (0.4 peak)"
WEIGHTS_RULE = "rule: weights + 20 %"

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RuleScore:
    """A rule of thumb on exactly our rows; `fit` where it tells fits from does not fit."""

    name: str
    group: GroupScore
    fit: FitScore | None = None


def memory_rule_gib(cases: TrainingCases) -> Array:
    """16 bytes a parameter over tensor, pipeline and shards [GiB per GPU]."""
    setup = cases.setup
    parts = setup.tensor * setup.pipeline * np.maximum(setup.shard_degree, 1.0)
    result: Array = cases.model.params_total * BYTES_PER_PARAMETER / parts / 2.0**30
    return result


def throughput_rule(cases: TrainingCases) -> Array:
    """0.4 of the peak over 6 FLOP a parameter and token [tokens/s per GPU]."""
    peak = cases.device.peak_flops(cases.setup.compute_dtype)
    result: Array = PEAK_SHARE * peak / (6.0 * np.maximum(cases.model.params_active, 1.0))
    return result


def rule_predictions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the rules say of each row, in the form of predictions (without intervals); rows of other metrics have none."""
    answers: list[dict[str, Any]] = [{"predicted": None} for _ in rows]
    cases = training_cases([clean_row(row)[0] for row in rows])
    memory, time = np.broadcast_to(memory_rule_gib(cases), cases.index.shape), np.broadcast_to(throughput_rule(cases), cases.index.shape)
    capacity = np.broadcast_to(cases.device.memory_bytes, cases.index.shape) / 2.0**30
    for i, position in enumerate(cases.index):
        row = rows[int(position)]
        if is_memory(row):
            fits = int(memory[i] <= capacity[i])
            answers[int(position)] = {"predicted": float(memory[i]), "fits": fits, "fits95": fits}
        elif row.get("metric") == "tokens_per_s_per_gpu":
            answers[int(position)] = {"predicted": float(time[i])}
    return answers


def serving_rule_predictions(rows: Rows) -> list[dict[str, Any]]:
    """What the rules say of rows of serving; metrics without a rule have none."""
    from rightfit.proof.cases.serving import serving_cases

    answers: list[dict[str, Any]] = [{"predicted": None} for _ in rows]
    cases = serving_cases([clean_row(row)[0] for row in rows])
    values = _serving_values(cases)
    for i, position in enumerate(cases.index):
        found = values.get(str(rows[int(position)].get("metric")))
        if found is not None and np.isfinite(found[i]):
            answers[int(position)] = {"predicted": float(found[i])}
    return answers


def _serving_values(cases: ServingCases) -> dict[str, Array]:
    """Metrics by the rules: seconds of a token and of a prompt, GiB of one device."""
    model, serve, device, shape = cases.model, cases.serve, cases.device, cases.index.shape
    devices = serve.tensor * serve.pipeline
    token_s = np.broadcast_to(model.params_active * serve.linear_bytes / (device.memory_bandwidth * serve.tensor), shape)
    peak = np.maximum(device.bf16_flops, device.fp16_flops)
    with np.errstate(divide="ignore"):
        prompt_token_s = np.broadcast_to(2.0 * model.params_active / (PEAK_SHARE * peak * devices), shape)
    return {
        "tpot_ms": token_s * 1e3,
        "decode_tok_per_s_single": 1.0 / token_s,
        "prefill_tok_per_s": 1.0 / prompt_token_s,
        "ttft_ms": np.broadcast_to(serve.input_tokens, shape) * prompt_token_s * 1e3,
        "peak_mem_gib": np.broadcast_to(MEMORY_MARGIN * model.params_total * serve.linear_bytes / devices / 2.0**30, shape),
    }


#: By family: what predicts its rows by the rules, and the rule of each part.
RULES: Mapping[str, tuple[Callable[[Rows], list[dict[str, Any]]], Mapping[str, str]]] = {
    "training": (rule_predictions, {"memory": MEMORY_RULE, "time": TIME_RULE}),
    "serving": (
        serving_rule_predictions,
        {"time per token": DECODE_RULE, "first token": PROMPT_RULE, "prefill": PROMPT_RULE, "memory": WEIGHTS_RULE},
    ),
}


def rule_scores(family: FigureFamily, rows: Rows) -> dict[str, RuleScore]:
    """The rules of thumb on the rows of a family that count, by part."""
    if family.name not in RULES or not rows:
        return {}
    predict, names = RULES[family.name]
    answers = predict(rows)
    out = {}
    for part in family.parts:
        if part.name in names:
            index = [i for i, row in enumerate(rows) if part.holds(row)]
            mine, said = [rows[i] for i in index], [answers[i] for i in index]
            fit = score.fits_score("rule", mine, said) if family.has_verdicts and part.name == "memory" else None
            out[part.name] = RuleScore(names[part.name], score.group_score(names[part.name], score.pair(mine, said)), fit)
    return out
