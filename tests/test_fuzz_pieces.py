"""benchmarks/fuzz.py finds what it is there to find, and finds nothing in its first inputs."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from loaded import load_module

for name in ("onnx", "mcp", "starlette", "nicegui"):
    pytest.importorskip(name)

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "fuzz.py"


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    return load_module(SCRIPT)


def test_the_first_inputs_of_every_door_are_answered_or_refused(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fuzz.py", "--count", "270"])
    assert fuzz.main() == 0
    shown = capsys.readouterr().out
    assert "270 inputs (numbers 0 to 269)" in shown
    assert "0 findings" in shown
    for door in fuzz.DOORS:
        assert f"{door:10}      30:" in shown


def test_an_exception_that_is_not_ours_and_a_hang_are_findings(fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rightfit.errors import InputError

    def broken(*_: object) -> str:
        raise KeyError("lost")

    def honest(*_: object) -> str:
        raise InputError("for example")

    monkeypatch.setattr(fuzz, "LONGEST_S", 0.2)
    assert fuzz.tried(broken, 1, "x", tmp_path) == ("finding", "KeyError: 'lost'")
    assert fuzz.tried(honest, 1, "x", tmp_path) == ("refused", "")
    assert fuzz.tried(lambda *_: time.sleep(5), 1, "x", tmp_path) == ("finding", "longer than 0.2 s")


def test_an_input_is_the_same_each_time(fuzz: ModuleType) -> None:
    def make() -> list[str]:
        return [fuzz.damaged(fuzz.BOOK, random.Random(f"files {number}")) for number in range(50)]

    assert make() == make()
    assert len(set(make())) > 40
