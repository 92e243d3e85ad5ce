"""A machine at home, in an office or in a rented rack is not a server room."""

from __future__ import annotations

import pytest

from rightfit.cli import main
from rightfit.errors import UnknownNameError
from rightfit.estimation.ownership import PLACES, defaults, habits_of, own_server
from rightfit.market import Catalog
from rightfit.search.ownership import own_of


@pytest.mark.parametrize("place", PLACES)
def test_a_place_changes_known_habits_within_their_limits(place: str) -> None:
    rows = habits_of(place)
    assert rows
    assert set(rows) <= set(defaults())
    assert all(row.low <= row.value <= row.high and row.source and row.zh for row in rows.values())


def test_home_is_cheaper_than_a_server_room_and_own_figures_win() -> None:
    room, home = (own_server("RTX-4090", 2, place=place) for place in ("", "home"))
    assert home.usd_per_busy_h < 0.6 * room.usd_per_busy_h
    assert home.full_w < room.full_w
    dear = own_server("RTX-4090", 2, {"electricity_usd_per_kwh": 0.34}, place="home")
    assert dear.usd_per_busy_h > home.usd_per_busy_h


def test_the_place_is_read_in_both_languages_or_refused(catalog: Catalog) -> None:
    english, chinese = (own_of("RTX-4090", count=2, place=place, catalog=catalog).content["usd_per_busy_h"] for place in ("home", "家里"))
    assert english == chinese
    with pytest.raises(UnknownNameError) as error:
        own_of("RTX-4090", place="hom", catalog=catalog)
    assert error.value.nearest == ("home",)


def test_the_command_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["own", "RTX-4090", "--count", "2", "--place", "home"]) == 0
    assert "RTX-4090" in capsys.readouterr().out
