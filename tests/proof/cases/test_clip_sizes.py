"""Sampling of clips ("8x8x1") is frames, and what the network sees of a stored video is a crop."""

from __future__ import annotations

import pytest

from rightfit.proof.cases.samples import image_size


@pytest.mark.parametrize(
    ("text", "side", "frames"),
    [
        ("short-side 256 frames 8x8x1", 224.0, 8.0),
        ("short-side 320 frames 4x16x1", 224.0, 4.0),
        ("340x256 frames 1x1x16", 224.0, 16.0),
        ("height 100 frames 1x1x8", 224.0, 8.0),
        ("128x171 frames 16x1x1", 112.0, 16.0),
        ("frames 32x2x1", 224.0, 32.0),
        ("frames 2x4x3", 224.0, 6.0),
    ],
)
def test_stored_sizes_are_cropped_and_clips_counted(text: str, side: float, frames: float) -> None:
    found = image_size(text)
    assert (found.height, found.width, found.frames) == (side, side, frames)


@pytest.mark.parametrize(("text", "frames"), [("49x480x720", 49.0), ("16 frames 224x224", 16.0), ("224x224", 0.0)])
def test_other_sizes_stay_what_they_say(text: str, frames: float) -> None:
    found = image_size(text)
    assert found.frames == frames
    assert found.height != 112.0
