"""Users of a speech model speak: what they send in a second is as long as they are many."""

from __future__ import annotations

import pytest

import rightfit

WHISPER = "openai/whisper-large-v3"


@pytest.mark.parametrize(("users", "seconds"), [(60, 30), (200, 10), (12, 5)])
def test_live_users_are_a_rate_of_windows(users: int, seconds: int) -> None:
    wish = {"task": "serve", "audio_length": f"{seconds}s", "latency": "10s", "top": 1, "gpu": "L40S"}
    live = rightfit.plan(WHISPER, users=users, **wish)
    rated = rightfit.plan(WHISPER, rate=f"{users / seconds}/s", **wish)
    assert live.best is not None
    assert rated.best is not None
    assert live.best.facts["rate_per_s"] == pytest.approx(users / seconds)
    assert (live.best.instance_type, live.best.layout.data) == (rated.best.instance_type, rated.best.layout.data)
    assert any("live" in taken.why.key for taken in live.assumptions)
