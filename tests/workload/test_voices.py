"""Models that speak, of which nothing is known here: tuned on recordings of a voice."""

from __future__ import annotations

import pytest

from rightfit.facts import tables
from rightfit.units import parse_data
from rightfit.workload.ask import understand
from rightfit.workload.ask.voices import speaks

#: Sentences and the seconds of sound that they tell.
TUNED = {
    "{name}克隆我自己的声音，录了20分钟": 1200,
    "fine-tune {name} on 3 hours of my voice": 10800,
    "{name}微调，30小时音频，单卡": 108000,
    "声音克隆，用{name}，录音10分钟": 600,
    "clone my voice with {name}, 45 min of clean audio, within 6 hours": 2700,
}
NAMES = ("XTTS v2", "F5-TTS", "GPT-SoVITS", "CosyVoice2", "fish-speech", "ChatTTS")


@pytest.mark.parametrize("form", TUNED)
@pytest.mark.parametrize("name", NAMES)
def test_a_voice_is_learned_as_tokens_of_sound(form: str, name: str) -> None:
    found = understand(form.format(name=name))
    assert not found.weighty
    assert found.wishes["task"] == "finetune"
    each = tables.coefficients("planning")["voice_tokens_per_s"]
    assert parse_data(found.wishes["data"]).tokens == TUNED[form] * each
    said = next(one for one in found.assumed if one.key == "workload.assumed_voice")
    assert said.fields["name"] == name


def test_the_size_that_is_told_is_taken() -> None:
    assert understand("fine-tune orpheus 3b tts on 10 hours of audio").wishes["model"] == "3B"


@pytest.mark.parametrize("sentence", ["serve XTTS for 20 users", "部署CosyVoice，10路并发"])
def test_who_only_speaks_learns_nothing(sentence: str) -> None:
    found = understand(sentence)
    assert "data" not in found.wishes
    assert speaks(sentence)
