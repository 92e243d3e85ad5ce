"""Tables that are parsed once: the same as if they were parsed each time, whatever happens to the folder."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit import kept

SOURCE = Path(rightfit.__file__).parent
TEXT = 'a = 1\nb = [1.5, inf]\n[c]\nd = "中"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIGHTFIT_CACHE_DIR", str(tmp_path))
    return tmp_path / "derived-2"


@pytest.fixture
def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are parsed."""
    seen: list[str] = []

    def parse(text: str) -> Any:
        seen.append(text)
        return tomllib.loads(text)

    monkeypatch.setattr(kept, "_parsed", parse)
    return seen


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.toml")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_of_the_package_reads_the_same_kept_or_parsed(path: Path, folder: Path) -> None:
    plain = tomllib.loads(path.read_text(encoding="utf-8"))
    assert kept.toml_file(path) == plain  # parsed
    assert kept.toml_file(path) == plain  # kept
    assert repr(kept.toml_file(path)) == repr(plain), "whole numbers stay whole, and keys in order"
    assert len(list(folder.iterdir())) == 1


def test_a_text_is_parsed_once_and_again_when_it_changed(folder: Path, parses: list[str]) -> None:
    for text in (TEXT, TEXT, TEXT.replace("1.5", "2.5"), TEXT):
        assert kept.toml(text) == tomllib.loads(text)
    assert parses == [TEXT, TEXT.replace("1.5", "2.5")]


@pytest.mark.parametrize("damage", ["", "{", "[1]", '"x"', "\x00", '{"text": 1', '{"text": 1}', "{}"])
def test_a_damaged_file_is_written_anew(folder: Path, parses: list[str], damage: str) -> None:
    kept.toml(TEXT)
    (file,) = folder.iterdir()
    file.write_text(damage, encoding="utf-8")
    assert kept.toml(TEXT) == tomllib.loads(TEXT)
    assert json.loads(file.read_text(encoding="utf-8"))["result"]["a"] == 1
    assert len(parses) == 2


def test_a_folder_that_cannot_be_used_costs_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parses: list[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("RIGHTFIT_CACHE_DIR", str(blocked))
    for _ in range(2):
        assert kept.toml(TEXT) == tomllib.loads(TEXT)

    def homeless() -> Path:
        raise FileNotFoundError("no home")

    monkeypatch.setattr(kept, "cache_folder", homeless)
    assert kept.toml(TEXT) == tomllib.loads(TEXT)
    assert (len(parses), blocked.read_text()) == (3, "no folder")


def test_dates_are_parsed_each_time(folder: Path, parses: list[str]) -> None:
    for _ in range(2):
        assert kept.toml("day = 2026-01-02") == tomllib.loads("day = 2026-01-02")
    assert len(parses) == 2
    assert not list(folder.glob("*")), "nothing half written is left"


def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        kept.write_whole(tmp_path / "new" / "a.json", "text")
    assert not list((tmp_path / "new").iterdir())


def test_old_files_make_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_MOST", 10)
    for number in range(30):
        kept.toml(f"a = {number}")
    assert len(list(folder.iterdir())) <= 10


def test_another_text_in_the_place_of_a_text_is_not_taken_for_it(folder: Path, parses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are named by a checksum, and the text beside the result decides."""
    monkeypatch.setattr(kept.zlib, "crc32", lambda _: 7)
    for text in ("a = 1", "b = 2", "a = 1"):
        assert kept.toml(text) == tomllib.loads(text)
    assert parses == ["a = 1", "b = 2", "a = 1"]
    assert len(list(folder.iterdir())) == 1


def test_cores_of_servers_are_the_same_kept_or_looked_for(folder: Path) -> None:
    from rightfit.facts import machines

    texts = [
        f"{word} {number}"
        for word in ("AMD EPYC 9654", "Xeon Platinum 8481C", "graviton4", "GH200", "m5.large", "?")
        for number in range(40)
    ]
    looked_for = [machines.core_named(text) for text in texts]
    assert [machines.cores_named(texts) for _ in range(2)] == [looked_for] * 2
    (file,) = folder.iterdir()
    told = json.loads(file.read_text(encoding="utf-8"))
    told["result"] = dict.fromkeys(texts, "no such core")
    file.write_text(json.dumps(told), encoding="utf-8")
    assert machines.cores_named(texts) == looked_for
