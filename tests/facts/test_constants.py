"""Figures that composition takes as given: each has a unit, a source and a use."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit.errors import InputError
from rightfit.facts import tables as module
from rightfit.facts.tables import DATA, constant_group, constants

ROOMS = sorted(path.stem for path in (DATA / "constants").glob("*.csv"))
PLACES = (Path(module.__file__).parents[1], Path(__file__).parents[2] / "validation")
SOURCES = "\n".join(path.read_text(encoding="utf-8") for place in PLACES for path in sorted(place.rglob("*.py")))


def lines(room: str) -> Iterator[dict[str, str]]:
    with (DATA / "constants" / f"{room}.csv").open(encoding="utf-8", newline="") as stream:
        yield from csv.DictReader(stream)


@pytest.mark.parametrize("room", ROOMS)
def test_every_figure_has_a_unit_and_a_source_and_stands_once(room: str) -> None:
    found = list(lines(room))
    assert list(found[0]) == ["name", "value", "unit", "source"]
    assert all(row["unit"].strip() and len(row["source"].split()) > 1 for row in found if row["source"] != "memory"), room
    assert len({row["name"] for row in found}) == len(found) == len(constants(room))


@pytest.mark.parametrize("room", ROOMS)
def test_every_figure_is_used(room: str) -> None:
    for row in lines(room):
        asked = row["name"].partition(".")[0]
        assert f'"{asked}"' in SOURCES, f"nobody asks for {room}/{row['name']}"


def test_a_group_is_the_figures_of_one_name() -> None:
    assert constant_group("training_work", "usual_epochs") == {"speech": 20.0, "graph": 1.0, "points": 1.0}


def test_a_figure_without_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "table", lambda name: [{"name": "odd", "value": "3", "unit": "pixels", "source": " "}])
    with pytest.raises(InputError, match="odd has no unit or no source"):
        constants.__wrapped__("nowhere")
