"""The law of AWS spot prices on families that its fit has not seen."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from loaded import load_module

SCRIPT = Path(__file__).parents[2] / "validation" / "market" / "fit_prices.py"


@pytest.fixture(scope="module")
def fit() -> ModuleType:
    return load_module(SCRIPT)


def test_four_in_five_later_prices_of_families_left_out_lie_in_the_interval(fit: ModuleType) -> None:
    pairs = fit.aws_pairs("advisor", "feed", prior=2.58)
    family = np.array([kind.split(".")[0] for kind in pairs.types])
    held, bias_quote, bias_expected = [], [], []
    for name in np.unique(family):
        row = fit.fitted(pairs.of(family != name), group="", age_days=0, source="")
        one = pairs.of(family == name)
        off = one.later - fit.predicted(one, row)
        held += ((off >= np.log(row.low80)) & (off <= np.log(row.high80))).tolist()
        cheap = one.now - one.centre <= np.quantile(pairs.now - pairs.centre, 0.1)
        bias_quote += (one.later - one.now)[cheap].tolist()
        bias_expected += off[cheap].tolist()
    assert 0.75 <= np.mean(held) <= 0.85
    assert np.exp(np.mean(bias_quote)) > 2.0  # what looked cheapest cost over twice as much later
    assert np.exp(np.mean(bias_expected)) < 1.3


def test_the_table_of_the_product_is_what_the_fit_writes(fit: ModuleType) -> None:
    """The rows that need no clone of a history."""
    known = {(row["group"], int(row["age_days"])): row for row in fit._table()}
    rows = [*fit.fit_aws(), *fit.fit_lists(), *fit.STEADY]
    for row in rows:
        for name in fit.COLUMNS[2:8]:
            assert float(known[row.group, row.age_days][name]) == pytest.approx(getattr(row, name), rel=1e-3, abs=1e-3)
