"""Own servers from the facts: sources, prices of parts and hosts, overrides and their refusals."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.errors import InputError, QuantityError, UnknownNameError
from rightfit.estimation.ownership import can_be_bought, defaults, own_server


def test_every_row_has_a_source_and_lies_within_its_range() -> None:
    for row in facts.table("ownership"):
        assert row["source"], row["name"]
        assert float(row["low"]) <= float(row["value"]) <= float(row["high"]), row["name"]
        assert row["kind"] in ("default", "home", "office", "colocation") or row["name"] in facts.accelerators()
    assert all(row.en and row.zh for row in defaults().values())


def test_a_server_of_modules_is_priced_whole_and_a_part_in_proportion() -> None:
    whole, part = own_server("H100-SXM-80GB", 8), own_server("H100-SXM-80GB", 2)
    assert whole.values["capex_usd"] == 310_000
    assert part.values["capex_usd"] == 310_000 / 4
    assert (whole.is_part, part.is_part) == (False, True)
    assert whole.full_w == pytest.approx(8 * 700 * 1.55 + 400)
    assert part.usd_per_busy_h == pytest.approx(whole.usd_per_busy_h / 4)


def test_cards_need_a_host() -> None:
    assert own_server("L4", 4).values["capex_usd"] == 12_000 + 4 * 2_800
    assert own_server("L4", 1).values["capex_usd"] == 12_000 * 0.625 + 2_800


def test_overrides_are_used_and_named() -> None:
    server = own_server("H100-SXM-80GB", 8, {"capex_usd": 200_000.0, "years": 3.0, "utilisation": 1.0})
    assert server.given == {"capex_usd", "years", "utilisation"}
    assert server.yearly_terms()["purchase_usd"] == pytest.approx(200_000 * 1.12 * 0.8 / 3)
    assert server.break_even(20.0)[1] == server.break_even(20.0)[2]  # a given price has no range
    assert server.break_even(20.0)[0] < own_server("H100-SXM-80GB", 8).break_even(20.0)[0]


def test_a_sum_of_terms_is_the_year() -> None:
    server = own_server("A100-SXM-80GB", 8)
    assert sum(server.yearly_terms().values()) == pytest.approx(server.usd_per_busy_h * 8760 * server.utilisation)


def test_the_literature_s_range_of_an_h100_hour() -> None:
    """Published analyses put an owned H100 at about 1.2 to 2.5 USD an hour at high utilisation and
    a node at 450,000-650,000 USD over three years."""
    server = own_server("H100-SXM-80GB", 8, {"utilisation": 0.9, "years": 3.0})
    assert 1.2 < server.usd_per_busy_h / 8 < 2.8
    assert 380_000 < 3 * sum(server.yearly_terms().values()) < 650_000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"utilisation": 0.0}, "utilisation: 0 is out of range; usual 0.02 to 1 share"),
        ({"residual_share": 1.5}, "residual_share: 1.5 is over 100%"),
        ({"years": -1.0}, "years: -1 is out of range"),
        ({"pue": 0.9}, "pue: 0.9 is out of range"),
        ({"capex_usd": 0.0}, "capex_usd: 0 is out of range; give a positive price"),
        ({"staff_usd_per_year": float("nan")}, "is not a number"),
    ],
)
def test_absurd_figures_are_refused(given: dict[str, float], message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        own_server("H100-SXM-80GB", 8, given)


def test_what_is_not_sold_needs_a_price() -> None:
    assert not can_be_bought("TPU-v5e")
    with pytest.raises(UnknownNameError, match="it is not for sale or has no known price"):
        own_server("TPU-v5e", 8)
    with pytest.raises(InputError, match="the power draw of TPU-v5e is unknown"):
        own_server("TPU-v5e", 8, {"capex_usd": 1e5})
    with pytest.raises(UnknownNameError, match="unknown ownership cost 'yeers'"):
        own_server("L4", 1, {"yeers": 3.0})
