"""A reader of Chinese sees what mainland China sells in yuan, with the rate and its day."""

from __future__ import annotations

import pytest

from rightfit import api
from rightfit.planner.home_currency import in_home_currency
from rightfit.workload.amounts import exchange_rate

WISH = {"method": "lora", "data": "50Mtok"}


@pytest.mark.parametrize(
    ("more", "lang", "currency"),
    [
        ({"cloud": "alicloud"}, "zh", "cny"),
        ({"cloud": "alicloud"}, "en", "usd"),
        ({"cloud": "alicloud", "currency": "usd"}, "zh", "usd"),
        ({"cloud": "alicloud", "budget": "500usd"}, "zh", "usd"),
        ({"cloud": "aws"}, "zh", "usd"),
    ],
)
def test_the_currency_is_that_of_reader_and_market(more: dict[str, str], lang: str, currency: str) -> None:
    plan = api.plan("Qwen/Qwen2.5-7B", **WISH, **more)
    told = in_home_currency(plan, lang)
    assert told.workload.currency == currency
    assert told.options == plan.options  # amounts inside are in dollars
    if currency == "cny":
        (why,) = (one.why for one in told.assumptions if one.field == "currency")
        assert (why.params["rate"], why.params["as_of"]) == (exchange_rate("cny").units_per_usd, exchange_rate("cny").as_of)
    else:
        assert told is plan
