"""The five posts' statements about cost: the figures follow from the catalog's rows, and the
verdict from the figures."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rightfit import api
from rightfit.catalog import open_catalog
from rightfit.catalog.offers import PURCHASE_CODES
from rightfit.explain.market_statements import Statement, judge_statement, price_ratios, statements
from rightfit.explain.messages import fields_of


@functools.cache
def judged(name: str) -> Statement:
    return judge_statement(name, open_catalog())


@pytest.mark.parametrize("name", statements())
def test_every_statement_has_figures_a_verdict_and_both_languages(name: str) -> None:
    found = judged(name)
    assert found.verdict in ("holds", "fails", "misleading")
    assert all(np.isfinite(value) for value in found.figures.values())
    assert fields_of(found.entry["told"]["en"]) == fields_of(found.entry["told"]["zh"])
    assert fields_of(found.entry["told"]["en"]) <= {*found.figures, *found.texts}
    assert found.reason("en") != found.reason("zh")
    assert 0 <= found.entry["post"] <= 4


def test_ratios_are_those_of_quoted_prices_beside_each_other() -> None:
    table = open_catalog().all_offers(has_accelerator=True)
    names = list(zip(table.servers.provider, table.servers.instance_type, strict=True))
    part = table.take(table.server_index == names.index(("gcp", "a2-highgpu-1g")))
    rows = [part.row(at) for at in range(len(part)) if not part.is_quarantined[at] and not part.is_estimate[at]]
    price = {(row["region"], row["purchase"]): row["price_usd_per_h"] for row in rows}
    expected = sorted(
        value / price[region, "on-demand"] for (region, mode), value in price.items() if mode == "spot" and (region, "on-demand") in price
    )
    assert sorted(price_ratios(part, ("spot",))) == pytest.approx(expected)
    assert expected
    assert PURCHASE_CODES["spot"] == 2


def test_spot_saves_what_the_posts_say_for_most_but_not_for_all() -> None:
    found = judged("market_spot_saves_50_to_90")
    assert found.verdict == "holds"
    assert 0.5 < found.figures["share"] < 1.0
    assert found.figures["low"] < found.figures["figure"] < found.figures["high"]


def test_a_commitment_pays_from_so_many_hours() -> None:
    found = judged("market_subscription_for_long_use")
    assert found.verdict == "holds"
    assert found.figures["hours"] == pytest.approx(730 * found.figures["figure"])


def test_serverless_is_for_light_use_by_hand() -> None:
    found = judged("market_serverless_for_light_inference")
    second = 0.0001867 + 4 * 0.000018 + 16 * 0.000002
    assert found.figures["figure"] == pytest.approx(found.figures["server"] / (second * 3600))
    assert found.verdict == "holds"


def test_asked_for_in_its_own_words() -> None:
    result = api.check("serverless for light inference", catalog=open_catalog())[0]
    assert (result.kind, result.claim, result.nearest) == ("rule", "right", ("market_serverless_for_light_inference",))
    assert result.facts["verdict"] == "holds"
