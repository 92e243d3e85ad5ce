"""The page of fleets: a file in, calendar and purchase list out, and one line for what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from nicegui.testing import User
from tests.web.conftest import one, sees, settled, texts

from rightfit.web.words import word

LANGS = ["en", "zh"]
SMALL = "start: 2026-12-01\nhorizon: 1w\njobs:\n- {name: tune, deadline: 3d, workload: {model: 7B, method: qlora, data: 50Mtok}}\nlimits: {clouds: aws}\n"


@pytest.mark.parametrize("lang", LANGS)
def test_a_fleet_is_planned(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/fleet?lang={lang}")
        one(user, "fleet-file").value = SMALL
        one(user, "fleet-futures").value = 2
        user.find(marker="fleet-submit").click()
        await settled(user, "fleet-json")
        await sees(user, word("fleet.futures_told", lang))  # type: ignore[arg-type]
        assert "<rect" in one(user, "fleet-calendar").content
        await sees(user, word("fleet.purchases", lang))  # type: ignore[arg-type]
        assert any("aws/" in text for text in texts(user))
        assert "tune" in texts(user)

    visit(steps)


@pytest.mark.parametrize(
    ("source", "told"),
    [("jobs: [", "not valid YAML"), ("job: []", "did you mean jobs"), ("jobs: []", "0 jobs"), ("- a", "a fleet is a mapping")],
)
def test_what_is_wrong_is_said_in_one_line(visit: Any, source: str, told: str) -> None:
    async def steps(user: User) -> None:
        await user.open("/fleet?lang=en")
        one(user, "fleet-file").value = source
        user.find(marker="fleet-submit").click()
        await sees(user, told)

    visit(steps)


def test_a_name_is_never_markup(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open("/fleet?lang=en")
        one(user, "fleet-file").value = SMALL.replace("name: tune", 'name: "<script>x</script>"')
        user.find(marker="fleet-submit").click()
        await settled(user, "fleet-json")
        assert "<script" not in one(user, "fleet-calendar").content

    visit(steps)
