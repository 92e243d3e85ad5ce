"""Errors on sources that the program had not seen, as the law of intervals is fitted to them: one
line a row, by source.

    python validation/residuals.py FOLDER_OF_TABLES --out validation/residuals/second.csv
    python validation/residuals.py FOLDER_OF_TABLES --verdicts --out
        validation/residuals/second_now.csv

`left_out` gives those of validation/truth, each source predicted with coefficients fitted without
it. The files in residuals/ hold those of the second and the third set, whose rows are not in this
repository: as they were at first contact (validation/first_contact), the program being the one of
that day (that of the third set: commit 194bc2a). Rows are put as a user's case is: without remarks,
source and place.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from numpy.typing import NDArray

from first_contact import STATEMENTS, case_of, number, read_rows
from rightfit.proof.case_columns import CONDITIONS, conditions_of
from rightfit.proof.left_out import read_folds, substituted
from rightfit.proof.predict import answered
from rightfit.proof.tables import read_truth

VALIDATION = Path(__file__).resolve().parent
SECOND = VALIDATION / "residuals" / "second.csv"
THIRD = VALIDATION / "residuals" / "third.csv"
#: The same rows as the program answers them now, of the tables with verdicts: thresholds of fitting
#: are chosen on these.
NOW = VALIDATION / "residuals" / "second_now.csv"
#: What a line holds. `log_error` is empty where the run failed, `room` (the log of capacity /
#: required) where no card is named; `below95` and `above95` are the ends of the interval before the
#: law, in the log; `device` is the accelerator.
COLUMNS = ("group", "source", "device", "log_error", "failed", "room", "fitted", "below95", "above95", "knowledge", *CONDITIONS)
#: Rounds of one benchmark are of one publisher.
_PUBLISHER = re.compile(r"mlperf|mlcommons|training_results|inference_results", re.IGNORECASE)


class Residuals(NamedTuple):
    """Lines as arrays."""

    text: Mapping[str, NDArray[np.str_]]
    value: Mapping[str, NDArray[np.float64]]

    @property
    def size(self) -> int:
        """Number of lines."""
        return len(self.text["group"])

    def take(self, index: NDArray[Any]) -> Residuals:
        """Lines `index`."""
        return Residuals({name: of[index] for name, of in self.text.items()}, {name: of[index] for name, of in self.value.items()})


def publisher(source: str) -> str:
    """Who a source is, where rounds of one benchmark are several sources."""
    return "MLPerf" if _PUBLISHER.search(source) else source


def lines_of(rows: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Lines of measured rows under the coefficients in force."""
    cells, answers = answered([case_of(dict(row), "x") for row in rows])
    kept = [i for i, answer in enumerate(answers) if answer.get("regime") and answer["predicted"]]
    conditions = conditions_of([cells[i] for i in kept], [answers[i] for i in kept], {})
    lines = []
    for at, i in enumerate(kept):
        row, answer = rows[i], answers[i]
        statement = row["metric"] in STATEMENTS
        failed = (row["metric"] == "fits") != (number(row["measured"]) > 0) if statement else row.get("is_oom", "") in ("1", "1.0")
        measured = float("nan") if statement or failed else number(row.get("measured"))
        if not (measured > 0 or (np.isfinite(answer["regime"].get("room", np.nan)) and (failed or statement))):
            continue
        log_mid = np.log(answer["predicted"])
        figures = {
            "log_error": np.log(measured) - log_mid if measured > 0 else float("nan"),
            "room": answer["regime"].get("room", float("nan")),
            "below95": np.log(answer["low95"]) - log_mid,
            "above95": np.log(answer["high95"]) - log_mid,
            **{name: values[at] for name, values in conditions.items()},
        }
        words = {"group": answer["regime"]["group"], "source": row["source"], "device": answer["regime"].get("device", "")}
        lines.append(words | {"failed": str(int(failed))} | {name: f"{value:.4g}" for name, value in figures.items() if np.isfinite(value)})
    return lines


def left_out(folder: Path | None = None) -> list[dict[str, str]]:
    """Lines of validation/truth, each source with the coefficients of its fold."""
    # As a stranger writes them down: what only the notes of these rows said is unknown, so that the
    # law knows how far off such cases are.
    truth, folds = read_truth(folder, from_notes=False), read_folds(VALIDATION / "folds")
    rows = [
        {name: cell or "" for name, cell in row.items() if name} for row, why in zip(truth.rows, truth.excluded, strict=True) if not why
    ]
    lines = []
    for source in dict.fromkeys(row["source"] for row in rows):
        with substituted(folds.get(source, {})):
            lines += lines_of([row for row in rows if row["source"] == source])
    return [{**line, "fitted": "1"} for line in lines]


def read_lines(path: Path) -> list[dict[str, str]]:
    """Lines of a file."""
    return [{**line, "fitted": "0"} for line in read_rows(path)]


def as_arrays(lines: Sequence[Mapping[str, str]]) -> Residuals:
    """Lines as arrays; a cell that is not there is NaN."""
    words = ("group", "source", "device")
    text = {name: np.array([line.get(name, "") for line in lines]) for name in words}
    return Residuals(text, {name: np.array([number(line.get(name)) for line in lines]) for name in COLUMNS if name not in words})


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=SECOND)
    parser.add_argument("--verdicts", action="store_true", help="only rows that say whether a card holds the job")
    options = parser.parse_args()
    lines = []
    for path in sorted(options.folder.glob("*.csv")):
        lines += lines_of([row for row in read_rows(path) if row.get("usable", "1") == "1"])
    lines = [line for line in lines if not options.verdicts or line.get("room")]
    options.out.parent.mkdir(exist_ok=True)
    with options.out.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, [name for name in COLUMNS if name != "fitted"], lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(lines)
    print(f"{len(lines)} lines in {options.out}")


if __name__ == "__main__":
    main()
