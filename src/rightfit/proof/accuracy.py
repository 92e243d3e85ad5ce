"""The scores of the accuracy page: every family of figures on the rows that count, and on those
that do not. Pure: rows and answers in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rightfit.errors import MissingComponentError
from rightfit.physics.columns import Array
from rightfit.proof import score
from rightfit.proof.cases.training import TrainingCases, training_cases
from rightfit.proof.figures import FigureFamily, FigurePart, Headline
from rightfit.proof.score import FitScore, GroupScore, Scored, is_memory
from rightfit.proof.tables import clean_row
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.proof.cases.serving import ServingCases


# ---- Rules of thumb that people use instead of a predictor, as rivals on exactly the same rows.
#
# Training: memory is 16 bytes a parameter, divided over the shards; throughput 6 x active
# parameters FLOP a token at 40 % of the peak.
# Serving: a token takes as long as reading the active weights once, a prompt 2 x active parameters
# FLOP a token at 40 % of the peak, memory is the weights and a fifth.

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
    """What the rules say of each row, in the form of predictions (without intervals); rows of other
    metrics have none."""
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


Row = Mapping[str, Any]
Answers = Sequence[Mapping[str, Any]]

COVERAGE_TARGETS = {"80": (0.76, 0.85), "95": (0.93, 0.98)}


@dataclass(frozen=True, slots=True)
class PartScore:
    """One quantity of a family: its rows, their errors together, and the errors of those
    that are not counted."""

    part: FigurePart
    scored: Scored
    group: GroupScore
    other: GroupScore


@dataclass(frozen=True, slots=True)
class HeadlineScore:
    """One headline figure, and the same rows with the withheld column (None where
    nothing is withheld)."""

    headline: Headline
    group: GroupScore
    withheld: GroupScore | None

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without a target or without rows."""
        if self.headline.targets is None or not self.group.rows:
            return None
        median, p90 = self.headline.targets
        return self.group.median_ape <= median and self.group.p90_ape <= p90


@dataclass(frozen=True, slots=True)
class FamilyScores:
    """All that the page says of one family. `answered`: (rows with a prediction, rows that count);
    `asked`: all rows of its tables; `rules` by part;
    `spread`, `source_spread`: differences of repeated measurements by part, within a source
    and between sources."""

    family: FigureFamily
    parts: tuple[PartScore, ...]
    headlines: tuple[HeadlineScore, ...]
    fits: tuple[FitScore, ...]
    answered: tuple[int, int]
    refusals: tuple[tuple[str, int], ...]
    rules: Mapping[str, RuleScore]
    asked: int
    spread: Mapping[str, Sequence[float]]
    source_spread: Mapping[str, Sequence[float]]

    def part(self, name: str) -> PartScore:
        """A part by its name."""
        return next(found for found in self.parts if found.part.name == name)


def family_scores(
    family: FigureFamily,
    rows: Sequence[Row],
    predictions: Answers,
    excluded: Sequence[str],
    *,
    withheld: Answers = (),
) -> FamilyScores:
    """Score the rows that count, and beside them those that stay out.

    `withheld` are predictions of the same rows without the column that the family withholds.
    """
    counted = [index for index, reason in enumerate(excluded) if not reason]
    out = [index for index, reason in enumerate(excluded) if reason]
    kept_rows, kept = [rows[i] for i in counted], [predictions[i] for i in counted]
    scored = score.pair(kept_rows, kept, is_factor=family.is_factor)
    others = score.pair([rows[i] for i in out], [predictions[i] for i in out], is_factor=family.is_factor)
    without = score.pair(kept_rows, [withheld[i] for i in counted], is_factor=family.is_factor) if withheld else None
    return FamilyScores(
        family,
        tuple(_part_score(part, scored, others) for part in family.parts),
        tuple(_headline_score(headline, scored, without) for headline in family.headlines),
        _fit_scores(rows, predictions, kept_rows, kept) if family.has_verdicts else (),
        score.answered_share(kept),
        _refusals(kept),
        rule_scores(family, kept_rows),
        len(rows),
        score.repeat_spread(kept_rows, family.label_of),
        score.source_spread(kept_rows, family.label_of),
    )


def those(scored: Scored, holds: Callable[[Row], bool]) -> Scored:
    """The scored rows for which something holds."""
    return scored.take(np.flatnonzero(np.array([holds(row) for row in scored.rows], dtype=bool)))


def _part_score(part: FigurePart, scored: Scored, others: Scored) -> PartScore:
    mine = those(scored, part.holds)
    left_out = score.group_score(f"not counted: {part.label}", those(others, part.holds))
    return PartScore(part, mine, score.group_score(part.label, mine), left_out)


def _headline_score(headline: Headline, scored: Scored, without: Scored | None) -> HeadlineScore:
    found = [score.group_score(headline.name, those(each, headline.holds)) if each is not None else None for each in (scored, without)]
    assert found[0] is not None
    return HeadlineScore(headline, found[0], found[1])


def _fit_scores(rows: Sequence[Row], predictions: Answers, kept_rows: Sequence[Row], kept: Answers) -> tuple[FitScore, ...]:
    """Usable rows by kind, and every row of the tables that says whether it ran."""

    def part(name: str, group: str) -> FitScore:
        index = [i for i, row in enumerate(kept_rows) if score.is_memory(row) and score.headline_group(row) == group]
        return score.fits_score(name, [kept_rows[i] for i in index], [kept[i] for i in index])

    return (
        score.fits_score("usable rows", kept_rows, kept),
        part("of these, full", "memory, full"),
        part("of these, adapters", "memory, adapters"),
        score.fits_score("all rows, usable or not", rows, predictions),
    )


def _refusals(predictions: Answers) -> tuple[tuple[str, int], ...]:
    counts: dict[str, int] = {}
    for answer in predictions:
        if answer.get("error"):
            counts[str(answer["error"])] = counts.get(str(answer["error"]), 0) + 1
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def headline_numbers(families: Sequence[FamilyScores]) -> dict[str, float]:
    """The figures that must not get worse."""
    numbers: dict[str, float] = {}
    for found in families:
        for headline in found.headlines:
            numbers[f"{headline.headline.name}: median APE"] = headline.group.median_ape
            numbers[f"{headline.headline.name}: P90 APE"] = headline.group.p90_ape
        for part in found.parts:
            numbers[f"{part.part.label}: width of 80 % interval"] = part.group.width80
            numbers[f"{part.part.label}: outside 95 % interval"] = 1 - part.group.coverage95
        numbers |= _verdict_numbers(found)
        prefix = "" if found.family.has_verdicts else f"{found.family.name}: "
        numbers[f"{prefix}rows not answered"] = 1 - found.answered[0] / max(found.answered[1], 1)
    return {name: round(value, 4) for name, value in numbers.items() if not math.isnan(value)}


def _verdict_numbers(scores: FamilyScores) -> dict[str, float]:
    """Wrong verdicts of fits, as shares; nothing where the family has none."""
    if not scores.fits:
        return {}
    usable = scores.fits[0]
    return {
        "false fits at the 95 % bound": usable.false_fits / max(usable.out_of_memory, 1),
        "false refusals": usable.false_refusals / max(usable.ran, 1),
    }


# ---- Plots of the accuracy page, three for each family of figures, through the optional extra
# `plot` (matplotlib).

_COLOURS = ("#3b6ea8", "#c4572b", "#4f8a4c", "#8a5ea8", "#a8893b", "#5b5b5b")
_SHOWN_SOURCES = 16
_FEWEST_LINES = 5  # room of a panel with few sources, so that its bars are not thick
_DOTS_PER_INCH = 160  # of the points of scatter plots, which are pixels: thousands of vector marks would make the file large


def _pyplot() -> Any:
    try:
        import matplotlib as mpl
    except ImportError:
        raise MissingComponentError("the plots need matplotlib: pip install 'rightfit[plot]'") from None
    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "rightfit", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}
    )
    from matplotlib import pyplot as plt

    return plt


def write_plots(families: Sequence[FamilyScores], folder: Path) -> list[Path]:
    """Write the plots of every family into `folder`; the same scores give the same bytes. Raises
    MissingComponentError without matplotlib."""
    plt = _pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for found in families:
        for kind, draw in _KINDS.items():
            figure = draw(plt, [part for part in found.parts if part.group.rows])
            written.append(folder / f"{found.family.plot}{kind}.svg")
            figure.savefig(written[-1], metadata={"Date": None, "Creator": "rightfit"}, dpi=_DOTS_PER_INCH)
            plt.close(figure)
    return written


def _panels(plt: Any, parts: Sequence[PartScore], *, height: float, **more: Any) -> tuple[Any, list[Any]]:
    """A figure with one axis a part, at most three in a row."""
    columns = 2 if len(parts) <= 2 else 3
    lines = max(1, -(-len(parts) // columns))
    figure, axes = plt.subplots(
        lines, columns, figsize=(5 * columns if columns == 2 else 12, height * lines), layout="constrained", squeeze=False, **more
    )
    flat = axes.ravel().tolist()
    for axis in flat[len(parts) :]:
        axis.set_visible(False)
    return figure, flat[: len(parts)]


def _predicted_measured(plt: Any, parts: Sequence[PartScore]) -> Any:
    figure, axes = _panels(plt, parts, height=4.4)
    for axis, found in zip(axes, parts, strict=True):
        scored = found.scored
        names = [found.part.colour(row) for row in scored.rows]
        shown = [name for name, _ in Counter(names).most_common(len(_COLOURS))]
        if len(set(names)) > len(shown):
            shown[-1:] = ["other"]
        labels = np.array([name if name in shown else "other" for name in names])
        for colour, name in zip(_COLOURS, sorted(shown), strict=False):
            here = labels == name
            marks = {"s": 7, "alpha": 0.5, "color": colour, "label": name, "linewidths": 0, "rasterized": True}
            axis.scatter(scored.measured[here], scored.predicted[here], **marks)
        low, high = float(scored.measured.min()) / 1.5, float(scored.measured.max()) * 1.5
        axis.plot([low, high], [low, high], color="black", linewidth=0.8)
        axis.plot([low, high], [1.2 * low, 1.2 * high], [low, high], [low / 1.2, high / 1.2], color="grey", linewidth=0.5, linestyle="--")
        axis.legend(frameon=False, fontsize=7, loc="upper left", markerscale=1.5)
        axis.set(xscale="log", yscale="log", xlabel=f"measured {found.part.unit}", ylabel="predicted (dashed: 20 % off)")
        axis.set_title(found.part.title, fontsize=9)
    return figure


def _error_by_source(plt: Any, parts: Sequence[PartScore]) -> Any:
    figure, axes = _panels(plt, parts, height=_height(parts))
    for axis, found in zip(axes, parts, strict=True):
        groups = score.by(found.scored, _source)[:_SHOWN_SOURCES][::-1]
        errors = [_errors_of(found.scored, group.group) for group in groups]
        axis.boxplot(errors, orientation="horizontal", widths=0.6, whis=(5, 95), showfliers=False, medianprops={"color": _COLOURS[1]})
        axis.set_yticks(range(1, len(groups) + 1), [f"{group.group} ({group.rows})" for group in groups], fontsize=7)
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set(xlabel="predicted / measured - 1, %", xlim=(-100, 150), ylim=(0.3, max(len(groups), _FEWEST_LINES) + 0.7))
        axis.set_title(found.part.title, fontsize=9)
    return figure


_source = score.text_group("source")


def _height(parts: Sequence[PartScore]) -> float:
    """Inches of a panel with one line a source."""
    most = max((found.group.sources for found in parts), default=1)
    return 1.4 + 0.24 * max(_FEWEST_LINES, min(most, _SHOWN_SOURCES))


def _errors_of(scored: Scored, source: str) -> Any:
    here = np.array([_source(row) == source for row in scored.rows])
    return 100 * scored.error[here]


def _coverage(plt: Any, parts: Sequence[PartScore]) -> Any:
    figure, axes = _panels(plt, parts, height=_height(parts), sharex=True)
    for axis, found in zip(axes, parts, strict=True):
        groups = score.by(found.scored, _source)[:_SHOWN_SOURCES][::-1]
        place = np.arange(len(groups))
        for colour, offset, name in ((_COLOURS[0], 0.2, "coverage80"), (_COLOURS[1], -0.2, "coverage95")):
            values = [100 * getattr(group, name) for group in groups]
            axis.barh(place + offset, values, height=0.35, color=colour, label=f"inside the {name[-2:]} % interval")
        for colour, value in ((_COLOURS[0], 80), (_COLOURS[1], 95)):
            axis.axvline(value, color=colour, linewidth=0.8, linestyle="--")
        axis.set_yticks(place, [f"{group.group} ({group.rows})" for group in groups], fontsize=7)
        axis.set(xlabel="inside the interval, %", ylim=(-0.7, max(len(groups), _FEWEST_LINES) - 0.3))
        axis.set_title(found.part.title, fontsize=9)
    if axes:
        figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=2)
    return figure


_KINDS: dict[str, Callable[[Any, Sequence[PartScore]], Any]] = {
    "predicted_measured": _predicted_measured,
    "error_by_source": _error_by_source,
    "coverage": _coverage,
}
