"""The rivals that `validation/rivals.py` ran on the usable rows of our tables, as a section of the accuracy page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rightfit.estimate import score
from rightfit.estimate.accuracy import percent, table
from rightfit.estimate.tables import cell_text, read_cases

_RERUN_NOTE = """Rivals that install today, run by `validation/rivals.py` on exactly the usable rows of these tables; rows that a tool has no input for are not
counted for it (which ones is in that script).
"""
_RERUN_HEADER = ("tool", "version", "run on", "rows it can express", "median APE", "signed", "P90", "by source", "within 20 %")
_RERUN_FITS = ("false fits", "false refusals")


def read_rerun(path: Path) -> list[dict[str, str]]:
    """The lines of rivals.csv; none without the file."""
    if not path.is_file():
        return []
    return [{name: cell_text(cell) for name, cell in line.items()} for line in read_cases(path)]


def rerun_text(lines: Sequence[Mapping[str, str]]) -> str:
    """The rivals that `validation/rivals.py` ran on the usable rows of these tables; nothing without lines."""
    if not lines:
        return ""
    parts = []
    for figure, title, more in (("memory", "peak memory", _RERUN_FITS), ("throughput", "throughput", ())):
        cells = [_rerun_cells(line) + (_rerun_fit_cells(line) if more else []) for line in lines if line["figure"] == figure]
        parts.append(f"{title.capitalize()}:\n\n{table((*_RERUN_HEADER, *more), cells)}")
    return "### Re-run by us\n\n" + _RERUN_NOTE + "\n" + "\n".join(parts)


def _rerun_cells(line: Mapping[str, str]) -> list[str]:
    rows = f"{int(line['rows']):,} of {int(line['asked']):,}"
    median, signed = percent(score.number(line["median_ape"])), percent(score.number(line["signed"]), signed=True)
    others = [percent(score.number(line[name])) for name in ("p90", "by_source", "within_20")]
    return [line["tool"], line["version"], line["date"], rows, median, signed, *others]


def _rerun_fit_cells(line: Mapping[str, str]) -> list[str]:
    return [f"{line['false_fits']} of {line['out_of_memory']}", f"{line['false_refusals']} of {line['ran']}"]
