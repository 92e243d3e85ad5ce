"""Every setting that is taken of a training stack is named, and the flags of
the case overrule it."""

from __future__ import annotations

import pytest

from rightfit.errors import InputError
from rightfit.proof.cases.training import row_settings, stated_habits
from rightfit.proof.predict import predict

CASE = {"model": "meta-llama/Meta-Llama-3-8B", "method": "lora", "gpu": "A100-SXM-80GB", "micro_batch": "1", "seq_len": "4096"}


def named() -> list[str]:
    """Settings that an answer names."""
    (answer,) = predict([CASE])
    text = next(part for part in answer["assumptions"].split("; ") if part.startswith("taken of the stack"))
    return [pair.split("=")[0] for pair in text.partition(": ")[2].split(", ")]


@pytest.mark.parametrize("name", named())
def test_what_is_named_can_be_given(name: str) -> None:
    rules = row_settings(method="lora")
    value = "fused" if name == "loss" else f"{float(rules[name]) + 1:g}" if rules[name][0].isdigit() else "2"
    assert row_settings(method="lora", flags=f"{name}={value}")[name] == value
    (answer,) = predict([{**CASE, "extra_flags": f"{name}={value}"}])
    assert not answer["error"]
    text = next(part for part in answer["assumptions"].split("; ") if part.startswith("taken of the stack"))
    assert f" {name}=" not in text
    assert "not understood" not in answer["assumptions"]


def test_a_logit_that_is_given_decides() -> None:
    narrow, usual = predict([{**CASE, "extra_flags": "logit=4"}, CASE])
    assert narrow["predicted"] < usual["predicted"]


@pytest.mark.parametrize("flags", ["logit=many", "loss=6", "dropout=-1"])
def test_a_value_that_is_none_is_one_clear_line(flags: str) -> None:
    with pytest.raises(InputError) as caught:
        stated_habits(flags)
    assert flags.split("=")[0] in str(caught.value)
    assert "give" in str(caught.value)
    (answer,) = predict([{**CASE, "extra_flags": flags}])
    assert answer["predicted"] is None
    assert "give" in answer["error"]


@pytest.mark.parametrize("flags", ["lora_dropout=0.05", "no-fused=1", "padding=packed"])
def test_other_words_are_left_alone(flags: str) -> None:
    assert stated_habits(flags) == {}
