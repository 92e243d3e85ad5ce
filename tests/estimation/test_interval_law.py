"""The law of intervals: symmetric in the log, wider where less is known, probabilities that agree
with its intervals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from rightfit.estimation.intervals import ALL, FAMILIES, LEVELS, IntervalLaw, LawLine, family_of, interval_law, parse_law, tail
from rightfit.proof.case_columns import COLUMNS, is_known_software

LAW = interval_law()
GROUPS = tuple(LAW.quantiles)


def test_every_family_has_quantiles_that_rise() -> None:
    assert {family_of(group) for group in GROUPS} - {ALL} == set(FAMILIES)
    for group, values in LAW.quantiles.items():
        assert len(values) == len(LEVELS), group
        assert all(low <= high for low, high in itertools.pairwise(values)), group
        assert values[0] > 0, group


def test_no_condition_narrows_and_what_is_not_known_widens() -> None:
    for family, factors in LAW.factors.items():
        assert min(factors.values()) >= 0, family
        if "unknowns" in factors:
            assert factors["unknowns"] > 0, family
        if "no_software" in factors:
            assert factors["no_software"] > 0, family


@pytest.mark.parametrize("group", GROUPS)
def test_an_interval_is_symmetric_in_the_log_and_its_probability_agrees(group: str) -> None:
    scale, mid = np.array([1.0, 1.7]), np.array([3.0, 3.0])
    found = LAW.bounds([group, group], scale, mid)
    assert found.low95 * found.high95 == pytest.approx(mid**2)
    assert found.high95[1] / mid[1] == pytest.approx((found.high95[0] / mid[0]) ** 1.7)
    assert np.all((found.low95 <= found.low80) & (found.low80 < mid) & (mid < found.high80) & (found.high80 <= found.high95))
    half = LAW.half_widths([group, group], scale, 0.95)
    assert np.all(LAW.probability_over([group, group], scale, half * 1.001) <= 0.0251)
    assert np.all(LAW.probability_over([group, group], scale, -half * 1.001) >= 0.9749)
    assert np.all(LAW.probability_over([group, group], scale, half * 0.5) >= 0.0249)
    assert LAW.probability_over([group, group], scale, np.zeros(2)) == pytest.approx(np.full(2, 0.5))


def test_a_tail_falls_all_the_way() -> None:
    quantiles = LAW.quantiles[ALL]
    shares = [tail(score, quantiles) for score in np.linspace(0, 4 * quantiles[-1], 200)]
    assert shares[0] == 1.0
    assert all(a >= b for a, b in itertools.pairwise(shares))
    assert 0 <= shares[-1] < 0.01


def test_a_group_without_a_line_takes_its_family_and_then_all() -> None:
    assert LAW.quantiles_of("samples-time-unheard-of") == LAW.quantiles["samples-time"]
    assert LAW.quantiles_of("unheard-of") == LAW.quantiles[ALL]


def test_conditions_of_one_family_do_not_touch_another() -> None:
    law = IntervalLaw({ALL: LAW.quantiles[ALL]}, {"time": {"moe": 0.5}}, {}, {})
    assert law.scale(["time-one-node", "memory-full"], {"moe": np.ones(2)}).tolist() == [math.exp(0.5), 1.0]


def test_the_file_is_read_line_by_line() -> None:
    lines = [
        ("quantile", "all", "0.1", "0.2"),
        ("risk", "memory", "", "0.3"),
        ("device", "time", "A100", ""),
        ("factor", "time", "moe", "0.1"),
    ]
    law = parse_law(LawLine(*line) for line in lines)
    assert law.quantiles == {"all": (0.2,)}
    assert (law.most_risk("memory-full"), law.most_risk("time-one-node")) == (0.3, 0.5)
    assert law.devices == {"time": frozenset({"A100"})}
    assert law.factors == {"time": {"moe": 0.1}}


@pytest.mark.parametrize("kind", COLUMNS)
def test_software_is_known_by_its_own_names_only(kind: str) -> None:
    usual = {"training": "torchtune", "serving": "vLLM", "forward": "PyTorch (timm)", "samples": "PyTorch", "classical": "lightgbm 4.1"}
    assert is_known_software(kind, usual[kind])
    assert not is_known_software(kind, "")
    assert not is_known_software(kind, "zzqq stack 3")
