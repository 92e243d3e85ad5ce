"""What is said of one input reaches the physics as it was said."""

from __future__ import annotations

import pytest

from rightfit.families.passes.kind import read_pass_wish
from rightfit.workload import Workload


@pytest.mark.parametrize(
    ("text", "sides"),
    [("8", (8, 8)), ("224", (224, 224)), ("300x200", (300, 200)), ("16384", (16384, 16384)), ("20000x10000", (20000, 10000))],
)
def test_a_picture_has_the_sides_that_were_asked_for_however_many_digits_they_have(text: str, sides: tuple[int, int]) -> None:
    one = read_pass_wish(Workload(model="resnet50", task="serve", rate="1/s", image_size=text)).one_input
    assert one is not None
    assert (one.height, one.width) == sides


def test_sound_steps_and_frames_are_numbers() -> None:
    video = read_pass_wish(Workload(model="tencent/HunyuanVideo", task="serve", rate="1/h", frames=61, denoise_steps=25)).one_input
    sound = read_pass_wish(Workload(model="openai/whisper-small", task="serve", rate="1/s", audio_length="1234.567s")).one_input
    assert video is not None
    assert sound is not None
    assert (video.frames, video.steps, sound.audio_s) == (61, 25, 1234.567)
