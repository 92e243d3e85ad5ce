"""What the prices and speeds of a post come to, worked out from its own numbers."""

from __future__ import annotations

import re

import pytest

from rightfit.explain.told_prices import price_lines
from rightfit.search.offers import open_priced

HOURS_A_MONTH = 730


def _numbers(lines: list[str]) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", "\n".join(lines))]


@pytest.mark.parametrize(("count", "price", "paid"), [(8, 2.35, 31_000), (4, 3.1, 5_000)])
def test_a_quote_is_told_by_the_month_beside_what_is_paid(count: int, price: float, paid: int) -> None:
    post = (
        f"A vendor offers us {count}x H100 SXM at ${price} per GPU-hour with a 12 month commit. We currently burn around ${paid} a month."
    )
    lines = price_lines(post, {}, open_priced(), "en")
    month = count * price * HOURS_A_MONTH
    assert any(abs(number - month) < 1.0 for number in _numbers(lines))
    assert any(f"{abs(1 - month / paid):.0%} {'less' if month < paid else 'more'}" in line for line in lines)


@pytest.mark.parametrize(("lump", "hours", "word"), [(12_000, 12, "继续按小时租"), (3_000, 60, "包年就划算")])
def test_a_year_is_held_against_the_hours_of_use(lump: int, hours: int, word: str) -> None:
    post = f"看到某云4090包年{lump}，AutoDL按时2.1元。我一周大概{hours}小时。到底要不要包年？"
    told = "\n".join(price_lines(post, {}, open_priced(), "zh"))
    assert word in told
    assert f"{lump / 2.1:,.0f}" in told


def test_measured_runs_are_compared_at_their_prices() -> None:
    post = "I've 4x RTX 4090 rented at 0.42 each, getting 5,100 tok/s total. A colleague gets 17k on 2x A100 NVLink. His cost is 1.60 per card."
    told = [line for line in price_lines(post, {"data": "900M tokens"}, open_priced(), "en") if "takes" in line]
    assert len(told) == 2
    costs = sorted(_numbers([line.rpartition("costs")[2]])[0] for line in told)
    assert costs == pytest.approx([9e8 / 17_000 / 3600 * 2 * 1.60, 9e8 / 5_100 / 3600 * 4 * 0.42], abs=0.01)


def test_two_quotes_are_compared_by_what_they_do_for_the_money() -> None:
    post = "Quote A: 32xH100 with InfiniBand reserved 3 months $1.95/gpu/h, quote B: 32xA100 80G with ethernet at $1.10."
    told = price_lines(post, {}, open_priced(), "en")
    assert any("1.8 times as much" in line and "H100" in line for line in told)


def test_a_post_without_prices_is_told_nothing() -> None:
    assert price_lines("We fine-tune Mistral 7B with LoRA on 50k samples of 300 tokens. What would you do?", {}, open_priced(), "en") == []
