"""The section of the rivals that we ran ourselves."""

from __future__ import annotations

from pathlib import Path

from rightfit.proof.accuracy import family_scores
from rightfit.proof.figures import family
from rightfit.proof.validate import read_rerun, rerun_text

RIVALS = Path(__file__).resolve().parents[2] / "validation" / "rivals.csv"


def test_rivals_run_by_us_are_shown() -> None:
    text = rerun_text(read_rerun(RIVALS))
    assert "| Train-in-Silence | 0.1.6 |" in text
    assert "566 of 566 | 48.1 % | -45.3 % |" in text
    assert "31 of 74 | 14 of 566 |" in text
    assert "Throughput of training:" in text


def test_our_line_and_the_rule_stand_above_the_rivals() -> None:
    row = {"model": "meta-llama/Llama-2-7b-hf", "device": "A100-SXM4-80GB", "engine": "vLLM", "weights_dtype": "fp16", "source": "a"}
    row |= {"metric": "tpot_ms", "measured": "10"}
    found = family_scores(family("serving"), [row], [{"predicted": 12, "low80": 9, "high80": 14, "low95": 8, "high95": 15}], [""])
    line = {"figure": "serving, time per token", "tool": "other", "version": "1", "date": "2026-01-01", "rows": "1", "asked": "2"}
    line |= {"median_ape": "0.5", "signed": "0.5", "p90": "0.5", "by_source": "0.5", "within_20": "0", "ran": ""}
    rows = [text for text in rerun_text([line], [found]).splitlines() if text.startswith("| ")]
    assert rows[2] == "| **rightfit** |  |  | 1 of 1 | 20.0 % | +20.0 % | 20.0 % | 20.0 % | 100.0 % |"
    assert rows[3].startswith("| rule: weights / bandwidth |  |  | 1 of 1 | 33.9 % | -33.9 % |")
    assert rows[4].startswith("| other | 1 | 2026-01-01 | 1 of 2 | 50.0 % |")


def test_without_the_file_there_is_no_section(tmp_path: Path) -> None:
    assert rerun_text(read_rerun(tmp_path / "rivals.csv")) == ""
