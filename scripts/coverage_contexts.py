"""A pytest plug-in: coverage keeps which test function ran which lines, all cases of a function
together. scripts/test_power.py reads it."""

from __future__ import annotations

import coverage
import pytest

_last = [""]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Start a context with each new test function."""
    name = item.nodeid.partition("[")[0]
    measuring = coverage.Coverage.current()
    if measuring is not None and name != _last[0]:
        _last[0] = name
        measuring.switch_context(name)
