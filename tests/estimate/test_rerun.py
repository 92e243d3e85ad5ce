"""The section of the rivals that we ran ourselves."""

from __future__ import annotations

from pathlib import Path

from rightfit.estimate.rerun import read_rerun, rerun_text

RIVALS = Path(__file__).resolve().parents[2] / "validation" / "rivals.csv"


def test_rivals_run_by_us_are_shown() -> None:
    text = rerun_text(read_rerun(RIVALS))
    assert "| Train-in-Silence | 0.1.6 |" in text
    assert "566 of 566 | 48.1 % | -45.3 % |" in text
    assert "31 of 74 | 14 of 566 |" in text
    assert "Throughput:" in text


def test_without_the_file_there_is_no_section(tmp_path: Path) -> None:
    assert rerun_text(read_rerun(tmp_path / "rivals.csv")) == ""
