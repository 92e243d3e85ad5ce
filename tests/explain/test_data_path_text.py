"""The data path in words, in both languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from rightfit.explain.plan_words import data_path_lines
from rightfit.messages import LANGS, Lang
from rightfit.search.answer import Option


@pytest.fixture
def part(option_of: Callable[..., Option]) -> Mapping[str, Any]:
    return option_of().data_path


def test_lines_of_a_volume(part: Mapping[str, Any]) -> None:
    lines = data_path_lines(part, "en")
    assert lines[0] == "Copy the 200 MB of data to a volume (gp3) first (1.6 s). The volume reads at 125 MB/s; the job needs 2.5 MB/s."
    assert lines[1] == "Data stalls: 0% of the time (recommended limit 20%). Loading takes 2% of compute time and overlaps with it."
    assert lines[2] == "An epoch takes 80 s."
    assert lines[3] == "Data loaders: 625 k tokens/s (tokenized) need 0.1 of 7 free cores; 2 workers per GPU."
    assert lines[4].startswith(
        "Checkpoints: 40 MB every 20 min (16 in the run); 320 ms to write to disk, 50 ms more to upload to object storage"
    )


def test_cards_that_starve_are_told_why(part: Mapping[str, Any]) -> None:
    starved = {**part, "stall_share": 0.6, "limit": "prepare", "needed_cores": 20.0, "decode": "text"}
    assert data_path_lines(starved, "en")[1] == (
        "Data stalls: 60% of the time, over the recommended limit of 20%; CPU preprocessing is the bottleneck: 20 cores needed, 7 free."
    )
    assert "20 个核" in data_path_lines(starved, "zh")[1]


def test_a_shorter_later_epoch_is_told(part: Mapping[str, Any]) -> None:
    assert data_path_lines({**part, "first_epoch_s": 200.0}, "en")[2] == "First epoch 3.3 min, later epochs 80 s."


def test_data_from_elsewhere_are_brought_first(part: Mapping[str, Any]) -> None:
    lines = data_path_lines({**part, "upload_s": 7200.0, "moved_usd": 18.0}, "en")
    assert "Copy the data to this region's object store before renting: 2 h at 1 Gbit/s, $18.00 transfer cost." in lines


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("why", ["volume", "cached", "local", "memory", "stream", "asked"])
def test_every_place_has_a_sentence(part: Mapping[str, Any], why: str, lang: Lang) -> None:
    first = data_path_lines({**part, "why": why}, lang)[0]
    assert "200 MB" in first
    assert "{" not in first


def test_services_have_no_data_path() -> None:
    assert data_path_lines({}, "en") == ()
