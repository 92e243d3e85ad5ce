"""What is asked beside several models is answered for each of them, and once for models that take
turns on one GPU."""

from __future__ import annotations

import pytest

from rightfit.cli import main

ASKED = {
    "ComfyUI 跑 SDXL 和 Flux，每天用三四个小时，租云还是买卡划算": "自购",
    "Run SDXL and Flux for 4 hours a day, should I buy or rent?": "own",
}


@pytest.mark.parametrize("sentence", ASKED)
def test_rent_or_buy_is_answered_for_models_that_take_turns(sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--ask", sentence]) == 0
    told = [part for part in capsys.readouterr().out.split("\n\n") if "rightfit plan" in part]
    assert len(told) == 1
    assert "SDXL" in told[0]
    assert "Flux" in told[0]
    assert all(ASKED[sentence] in part and "%" in part for part in told)
