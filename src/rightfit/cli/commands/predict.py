"""Batch prediction and validation of the predictors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rightfit.cli.output import View
from rightfit.errors import UnavailableError


def predict(
    cases: Annotated[
        Path, typer.Argument(help="CSV file with one case a row; - is standard input.", metavar="CASES.csv", show_default=False)
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write here instead of standard output.", metavar="PRED.csv")] = None,
    *,
    view: View,
) -> None:
    """Predict memory or speed for each row of a table.

    Example: rightfit predict cases.csv --out predictions.csv
    """
    raise UnavailableError("rightfit predict is not in this version")


def validate(
    truth: Annotated[Path | None, typer.Option("--truth", help="Folder with measured tables.", metavar="DIR")] = None,
    *,
    view: View,
) -> None:
    """Score the predictors against measured figures.

    Example: rightfit validate
    """
    raise UnavailableError("rightfit validate is not in this version")
