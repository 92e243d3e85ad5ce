"""Plots of the accuracy page, three for each family of figures, through the optional extra `plot` (matplotlib)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rightfit.errors import MissingComponentError
from rightfit.proof import score
from rightfit.proof.accuracy import FamilyScores, PartScore
from rightfit.proof.score import Scored

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
    """Write the plots of every family into `folder`; the same scores give the same bytes. Raises MissingComponentError without
    matplotlib."""
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
