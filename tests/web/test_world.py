"""The map of a server's prices: a point a place, where it is, with its least price, and the
same in the table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import MARKET, sees, settled, texts

from rightfit.explain.listings import priced_places, region_prices
from rightfit.web.market_charts import VIEW, outline
from rightfit.web.words import word

REGIONS = "/?model=Llama-3-8B&task=finetune&data=50k+samples&cloud=aws&region=us-east-1&gpu=A10G&tab=regions"


def test_places_are_those_of_the_table_and_the_least_price_is_that_of_their_regions() -> None:
    catalog = MARKET.catalog()
    places, lines = priced_places("aws", "g5.xlarge", catalog=catalog), region_prices("aws", "g5.xlarge", "en", catalog=catalog)
    least = {}
    for record in lines.records:
        prices = [
            record[column.key] for column in lines.columns if column.right and column.key != "as_of" and record[column.key] is not None
        ]
        least[record["region"]] = min(prices)
    assert len(places) > 15
    assert sum(len(place.regions) for place in places) == len(lines.records)
    assert [place.usd_per_h for place in places] == sorted(place.usd_per_h for place in places)
    by_region = {region: place for place in places for region in place.regions}
    assert by_region["us-east-1"].usd_per_h == pytest.approx(min(value for name, value in least.items() if "us-east-1" in name))
    assert by_region["ap-northeast-1"].longitude > 100
    assert by_region["sa-east-1"].latitude < 0
    assert priced_places("aws", "no-such", catalog=catalog) == ()


def test_every_place_is_within_the_map_and_the_land_is() -> None:
    west, north, width, height = VIEW
    catalog = MARKET.catalog()
    for provider, name in (
        ("aws", "g5.xlarge"),
        ("azure", "Standard_NC24ads_A100_v4"),
        ("gcp", "a2-highgpu-1g"),
        ("alicloud", "ecs.gn7i-c8g1.2xlarge"),
    ):
        found = priced_places(provider, name, catalog=catalog)
        assert found, name
        for place in found:
            assert west < place.longitude < west + width
            assert north < -place.latitude < north + height
    rings = outline().split()
    assert len(rings) > 1000
    numbers = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", outline())]
    assert -168 <= min(numbers) < -165
    assert 175 < max(numbers) <= 180


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_regions_of_a_plan_are_a_map_and_a_table(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        from nicegui import ElementFilter

        await user.open(f"{REGIONS}&lang={lang}")
        await settled(user, "tab-regions")
        await sees(user, word("world.note", lang, least="", most="").partition("{")[0].split("$")[0][:3])  # type: ignore[arg-type]
        with user:
            every = list(ElementFilter())
        points = [element for element in every if "place" in element.classes and element.tag == "circle"]
        assert len(points) > 15
        assert len([element for element in every if "chosen" in element.classes]) == 1
        [picture] = [element for element in every if element.tag == "svg"]
        assert picture.props["role"] == "img"
        assert str(len(points)) in picture.props["aria-label"]
        titles = [text for text in texts(user) if text.count("$") == 1 and "us-east-1" in text]
        assert titles
        assert [element for element in every if element.tag == "table"]
        await sees(user, word("chart.moves", lang), word("chart.moves_none", lang))  # type: ignore[arg-type]

    visit(steps)


def test_the_page_of_a_server_has_the_map_too(visit: Any) -> None:
    async def steps(user: User) -> None:
        from nicegui import ElementFilter

        await user.open("/server?name=aws/g5.12xlarge&lang=en")
        await sees(user, "192 GiB")
        with user:
            assert len([element for element in ElementFilter() if "place" in element.classes]) > 10

    visit(steps)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_prices_that_moved_are_lines_of_their_dates(visit: Any, lang: str) -> None:
    from rightfit.market.refresh_rows import PricePoint
    from rightfit.web.market_charts import moves_chart, moves_of

    lines = moves_of("nebius/gpu-h100-sxm_1gpu-16vcpu-200gb", catalog=MARKET.catalog())
    assert lines
    assert lines[0][0].purchase == "spot"
    assert all(len({point.as_of for point in line}) > 1 for line in lines)
    assert all([point.as_of for point in line] == sorted(point.as_of for point in line) for line in lines)
    spot = tuple(
        PricePoint("c", "s", "r", "spot", day, usd, 0.0, "") for day, usd in (("2026-01-01", 2.0), ("2026-03-01", 1.5), ("2026-06-01", 1.8))
    )
    chart = moves_chart([spot], lang, currency="usd")  # type: ignore[arg-type]
    assert chart["series"][0]["data"] == [["2026-01-01", 2.0], ["2026-03-01", 1.5], ["2026-06-01", 1.8]]
    assert chart["series"][0]["step"] == "end"

    async def steps(user: User) -> None:
        await user.open(f"/server?name=nebius/gpu-h100-sxm_1gpu-16vcpu-200gb&lang={lang}")
        await sees(user, word("chart.moves", lang))  # type: ignore[arg-type]
        assert {lines[0][0].as_of, lines[0][-1].as_of} <= set(texts(user))

    visit(steps)
