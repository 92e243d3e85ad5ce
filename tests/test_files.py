"""Files in the cache folder are written whole or not at all; tables of TOML are read by section."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from rightfit import files


def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(Path, "replace", full)
    (tmp_path / "new").mkdir()
    with pytest.raises(OSError, match="No space"):
        files.write_whole(tmp_path / "new" / "a.json", "text")
    assert not list((tmp_path / "new").iterdir())


def test_tables_by_section_say_what_the_whole_text_says() -> None:
    paths = sorted(Path(files.__file__).parent.rglob("*.toml"))
    assert len(paths) > 70
    for path in paths:
        text = path.read_text(encoding="utf-8")
        whole, sections = tomllib.loads(text), files.Sections(text)
        assert list(sections) == list(whole), path
        assert dict(sections) == whole, path


def test_a_section_is_parsed_when_it_is_asked_for() -> None:
    sections = files.Sections("top = 1\n[one]\nx = 2\n[two]\nthis is no TOML\n[one.more]\ny = 3\n")
    assert (sections["top"], sections["one"], len(sections)) == (1, {"x": 2, "more": {"y": 3}}, 3)
    assert "two" in sections
    with pytest.raises(tomllib.TOMLDecodeError):
        sections["two"]
    with pytest.raises(KeyError):
        sections["three"]
