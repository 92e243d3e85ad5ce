"""What an option is for is said in Chinese under --lang zh, for every option that some family refuses."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rightfit.cli import main
from rightfit.errors import ContradictionError
from rightfit.explain.problems import problems_of
from rightfit.families import registry
from rightfit.messages.catalogs import catalog
from rightfit.search.honours import PURPOSES
from rightfit.workload import Workload

KINDS = tomllib.loads((Path(__file__).parents[1] / "data" / "options.toml").read_text(encoding="utf-8"))["kinds"]
#: Why a family takes an option not: the general purpose, and what families say themselves.
REASONS = {f"{text}; leave it out" for text in PURPOSES.values()} | {
    text for wish in KINDS.values() for text in registry.honours_of(Workload(**wish)).because.values()
}


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_is_said_in_chinese(reason: str) -> None:
    assert reason.removesuffix("; leave it out") in set(catalog("purposes", "en").values())
    error = ContradictionError(f"trees contradicts model 7B: {reason}", field="trees")
    message = problems_of(error, "zh")[0].message
    assert message.startswith("trees")
    assert reason not in message
    assert any("\u4e00" <= char <= "\u9fff" for char in message)


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
