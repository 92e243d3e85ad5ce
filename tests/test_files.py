"""Files in the cache folder are written whole or not at all."""

from __future__ import annotations

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
