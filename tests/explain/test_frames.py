"""Options as data frames: what needs neither library. tests/faces/test_frames.py has the rest, with
pandas and polars."""

from __future__ import annotations

import importlib.util

import pytest

import rightfit
from rightfit.explain import voices


def test_an_unknown_library_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(rightfit.InputError, match="unknown data frame 'spark'; allowed: pandas, polars"):
        voices.data_frame([{"a": 1}], backend="spark")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(rightfit.MissingComponentError, match=r"needs pandas or polars; install it with: pip install pandas") as found:
        voices.data_frame([{"a": 1}])
    assert found.value.exit_code == 3
    with pytest.raises(rightfit.MissingComponentError, match=r"pip install polars"):
        voices.data_frame([{"a": 1}], backend="polars")
