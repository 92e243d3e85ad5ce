"""An option that was read wrongly from a long post costs a line, never the plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rightfit.workload.ask import understand

SPEECH = (
    "Hello, first post here. I work for a small museum and we collected 60 hours of interviews in Breton, all of them transcribed by hand, "
    "cut to max 25 sec pieces. I want to fine-tune whisper-large-v3 with LoRA for 3 epochs and have 50 euro for it. "
    "My laptop has no GPU at all, so I would have to rent something for an evening. What should I take, and how long will it run?"
)
ROBOT = (
    "We teach an arm to fold shirts. There are 150k images from three cameras, recorded at 30 Hz over the last months in our lab, and we want to "
    "fine-tune ViT-L/16 on them for 5 epochs. My professor pays up to 150 dollars, not more. One A100 would be nice, but I never rented "
    "anything before and do not know what is normal here. Which card is enough, and what will the whole thing cost us in the end?"
)


@pytest.mark.parametrize("post", [SPEECH, ROBOT])
def test_the_rest_is_planned(run: Callable[..., Any], post: str) -> None:
    done = run("plan", "--ask", post)
    assert done.code == 0, done.err
    assert "Read from your post:" in done.out
    assert "Rent " in done.out


def test_what_contradicts_the_rest_is_said(run: Callable[..., Any]) -> None:
    assert "seq_len" in understand(SPEECH).wishes, "the post is read rightly now: take another"
    out = run("plan", "--ask", SPEECH).out
    assert "Left out, as it contradicts the rest: seq_len = 25" in out


@pytest.mark.parametrize("data", ["a program", "a short wish"])
def test_elsewhere_it_is_refused_as_before(run: Callable[..., Any], data: str) -> None:
    asked = (
        ["--ask", SPEECH, "--format", "json"] if data == "a program" else ["--ask", "LoRA of whisper-large-v3 on 60 hours, context 4096"]
    )
    done = run("plan", *asked)
    assert done.code == 2
    assert "seq_len" in done.err or "seq-len" in done.err


def test_numerals_are_digits() -> None:
    assert understand("部署32B，五个人同时用").wishes["users"] == "5"
    assert understand("LoRA 微调 Qwen2.5-7B 一个epoch").wishes["epochs"] == "1"
