"""Processes that listen at one address leave a new connection to the one that
has the least to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit.rest import settings
from rightfit.rest.settings import Turns, TurnTaking

from .conftest import SOURCE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="processes of other systems do not share a socket")
OTHER = """
import sys, time
from pathlib import Path
from rightfit.rest.settings import Turns
shared = Turns(Path(sys.argv[1]))
for line in sys.stdin:
    shared.write(float(line))
    print("written", flush=True)
"""


class Other:
    """Another process that shares the turns."""

    def __init__(self, path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", OTHER, str(path)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.has(0)

    def has(self, load: int) -> None:
        """It has so many questions under way."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(load, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "written\n"

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(settings.shared_file(str(tmp_path)))


@pytest.fixture
def ours(path: Path) -> Iterator[Turns]:
    found = Turns(path)
    yield found
    found.close()


@pytest.fixture
def other(path: Path) -> Iterator[Other]:
    found = Other(path)
    yield found
    found.end()


def test_who_has_more_to_do_leaves_the_connection(ours: Turns, other: Other) -> None:
    for here, there, is_ours in [(0, 0, True), (1, 0, False), (1, 1, True), (2, 1, False), (0, 3, True)]:
        ours.write(here)
        other.has(there)
        assert ours.is_mine() is is_ours, (here, there)


def test_alone_every_turn_is_its_own(ours: Turns) -> None:
    ours.write(7)
    assert ours.is_mine()


def test_a_process_that_hangs_is_not_waited_for(ours: Turns, other: Other) -> None:
    ours.write(1)
    began, waited = time.monotonic(), 0.0
    while not ours.is_mine():
        waited = time.monotonic() - began
        assert waited < 5
    assert 0.1 < waited < 5, "left to the other first, then taken all the same"
    assert not ours.is_mine(), "and the next one is left to it again"


def test_a_place_is_free_again_when_its_process_was_killed(path: Path) -> None:
    places = []
    for _ in range(3):
        killed = Other(path)
        data = path.read_bytes()
        places.append([number for number in range(64) if data[number * 16 : number * 16 + 8] == bytes(8)])
        killed.end()
    assert places == [[0], [0], [0]]


def test_a_connection_that_was_taken_counts_until_its_question_arrives(ours: Turns, other: Other) -> None:
    ours.taken()
    assert not ours.is_mine()
    time.sleep(0.05)
    assert ours.is_mine()


def test_the_socket_has_nothing_to_accept_while_it_is_not_its_turn(ours: Turns, other: Other, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_MINE", [ours])
    with settings.taking_turns(socket.create_server(("127.0.0.1", 0))) as listener, socket.create_connection(listener.getsockname()):
        ours.write(1)
        with pytest.raises(BlockingIOError):
            listener.accept()
        ours.write(0)
        accepted, _ = listener.accept()
        accepted.close()


def test_the_socket_reaches_another_process_as_what_it_is() -> None:
    with settings.taking_turns(socket.create_server(("127.0.0.1", 0))) as listener:
        rebuild, parts = settings._reduced(listener)
        assert rebuild is settings._rebuilt
        assert len(parts) == 4
        duplicate = type("Duplicate", (), {"detach": lambda _: os.dup(listener.fileno())})()
        with settings._rebuilt(duplicate, *parts[1:]) as again:
            assert isinstance(again, TurnTaking)
            assert again.getsockname() == listener.getsockname()


def test_without_a_shared_file_nothing_changes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for value in ("", str(tmp_path / "nothing")):
        monkeypatch.setenv(settings.TURNS_VARIABLE, value)
        monkeypatch.setattr(settings, "_MINE", [])
        assert settings.mine() is None
