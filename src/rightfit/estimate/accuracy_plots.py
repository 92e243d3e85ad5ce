"""Plots of the accuracy page, through the optional extra `plot` (matplotlib)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rightfit.errors import MissingComponentError
from rightfit.estimate import score
from rightfit.estimate.accuracy import Accuracy
from rightfit.estimate.score import Scored

_COLOURS = ("#3b6ea8", "#c4572b", "#4f8a4c", "#8a5ea8", "#a8893b", "#5b5b5b")
_SHOWN_SOURCES = 16


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


def write_plots(page: Accuracy, folder: Path) -> list[Path]:
    """Write the plots of the page into `folder`; the same scores give the same bytes. Raises MissingComponentError without matplotlib."""
    plt = _pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    figures = {
        "predicted_measured": _predicted_measured(plt, page),
        "error_by_source": _error_by_source(plt, page),
        "coverage": _coverage(plt, page),
    }
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": "rightfit"})
        plt.close(figure)
    return [folder / f"{name}.svg" for name in figures]


def _predicted_measured(plt: Any, page: Accuracy) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    for axis, scored, unit in ((axes[0], page.memory, "peak memory per GPU, GiB"), (axes[1], page.time, "tokens/s per GPU")):
        groups = [score.headline_group(row) for row in scored.rows]
        for colour, name in zip(_COLOURS, sorted(set(groups)), strict=False):
            here = np.array([group == name for group in groups])
            axis.scatter(scored.measured[here], scored.predicted[here], s=7, alpha=0.5, color=colour, label=name, linewidths=0)
        if len(groups):
            low, high = float(scored.measured.min()) / 1.5, float(scored.measured.max()) * 1.5
            axis.plot([low, high], [low, high], color="black", linewidth=0.8)
            axis.plot(
                [low, high], [1.2 * low, 1.2 * high], [low, high], [low / 1.2, high / 1.2], color="grey", linewidth=0.5, linestyle="--"
            )
            axis.legend(frameon=False)
        axis.set(xscale="log", yscale="log", xlabel=f"measured {unit}", ylabel="predicted (dashed: 20 % off)")
    return figure


def _error_by_source(plt: Any, page: Accuracy) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained")
    for axis, scored, title in ((axes[0], page.memory, "memory"), (axes[1], page.time, "throughput")):
        groups = score.by(scored, score.SLICES["source"])[:_SHOWN_SOURCES][::-1]
        errors = [_errors_of(scored, group.group) for group in groups]
        if errors:
            axis.boxplot(errors, orientation="horizontal", widths=0.6, whis=(5, 95), showfliers=False, medianprops={"color": _COLOURS[1]})
            axis.set_yticks(range(1, len(groups) + 1), [f"{group.group} ({group.rows})" for group in groups])
        axis.axvline(0, color="black", linewidth=0.8)
        axis.set(xlabel="predicted / measured - 1, %", xlim=(-100, 150), title=title)
    return figure


def _errors_of(scored: Scored, source: str) -> Any:
    here = np.array([score.SLICES["source"](row) == source for row in scored.rows])
    return 100 * scored.error[here]


def _coverage(plt: Any, page: Accuracy) -> Any:
    figure, axes = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained", sharex=True)
    for axis, scored, title in ((axes[0], page.memory, "memory"), (axes[1], page.time, "throughput")):
        groups = score.by(scored, score.SLICES["source"])[:_SHOWN_SOURCES][::-1]
        place = np.arange(len(groups))
        for colour, offset, name in ((_COLOURS[0], 0.2, "coverage80"), (_COLOURS[1], -0.2, "coverage95")):
            values = [100 * getattr(group, name) for group in groups]
            axis.barh(place + offset, values, height=0.35, color=colour, label=f"inside the {name[-2:]} % interval")
        for colour, value in ((_COLOURS[0], 80), (_COLOURS[1], 95)):
            axis.axvline(value, color=colour, linewidth=0.8, linestyle="--")
        axis.set_yticks(place, [f"{group.group} ({group.rows})" for group in groups])
        axis.set(xlabel="measured values inside the interval, %", title=title)
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=2)
    return figure
