"""What an option is for is said in Chinese under --lang zh, for every option that
some family refuses."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rightfit.cli import main
from rightfit.families import registry
from rightfit.messages import contradiction
from rightfit.search.request_checks import PURPOSES, leave_out
from rightfit.workload import Workload

KINDS = tomllib.loads((Path(__file__).parents[1] / "data" / "options.toml").read_text(encoding="utf-8"))["kinds"]


def test_every_reason_is_said_in_chinese() -> None:
    """The general purpose of options, and what families say themselves."""
    own = {reason for wish in KINDS.values() for reason in registry.honours_of(Workload(**wish)).because.values()}
    reasons = {leave_out(purpose) for purpose in PURPOSES.values()} | own
    said = {str(reason): contradiction("trees", "7B", kind="model", why=reason).text("zh") for reason in reasons}
    assert len(said) > 25
    faults = [text for reason, text in said.items() if not text.startswith("trees 与模型 7B 矛盾：") or reason in text]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("7B --method lora --trees 5", "trees 与模型 7B 矛盾"),
        ("7B --method lora --lora-targets zork", "没有名为“zork”的层"),
        ("7B --method lora --framework tranformers", "您是否想用：transformers"),
    ],
)
def test_errors_of_the_command_line_are_chinese(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", *words.split(), "--lang", "zh"]
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("错误：")
    assert told in printed
