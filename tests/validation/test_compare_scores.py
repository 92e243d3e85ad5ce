"""Two checkouts on the same rows: what is asked, what is counted, and when a figure is worse."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
sys.path.insert(0, str(VALIDATION))

import compare_scores  # noqa: E402
from compare_scores import Asked, asked_of, figures_over_sets, lines_of, page, worse  # noqa: E402
from rightfit.proof.left_out import SOFTWARE  # noqa: E402

FIGURE = "serving, time per token"
SOURCES = ("lab-a", "lab-a", "lab-b", "lab-c")


def asked(rows_of: str = "first") -> list[Asked]:
    return [Asked(rows_of, "inference", FIGURE, source, 10.0, {}) for source in SOURCES]


@pytest.mark.parametrize("table", SOFTWARE)
def test_a_case_names_no_software_and_nothing_that_was_found_out(table: str) -> None:
    row = {"id": "lab-1", "metric": "tpot_ms", "measured": "3", "source": "lab", "source_where": "here", "notes": "fast", "usable": "1"}
    row |= {SOFTWARE[table]: "vLLM", "model": "m", "is_oom": ""}
    failed, unusable, nothing = row | {"is_oom": "1"}, row | {"usable": "0"}, row | {"measured": ""}
    (one,) = asked_of("third", table, [row, failed, unusable, nothing])
    assert one.measured == 3.0
    assert {name: cell for name, cell in one.case.items() if cell} == {"metric": "tpot_ms", "model": "m"}


def test_medians_are_over_sources_of_both_sides() -> None:
    before, after = [11.0, 13.0, 12.0, 20.0], [10.0, 14.0, 15.0, math.nan]
    (figure,), sources = lines_of(asked(), before, after)
    assert figure.rows == (4, 3)
    assert figure.by_source == pytest.approx((20.0, 35.0))  # of 20, 20, 100 and of 20, 50
    assert [source.source for source in sources] == ["lab-a", "lab-b", "lab-c"]
    assert sources[0].median == pytest.approx((20.0, 20.0))
    (both,) = figures_over_sets(asked(), before, after)  # lab-c is not answered on both sides
    assert both.rows == (3, 3)
    assert both.by_source == pytest.approx((20.0, 35.0))
    text = page([both], [figure], sources, 1.0)
    assert f"| {FIGURE} | first | 4 to 3 | " in text
    assert f"| {FIGURE} | first | lab-c | 1 to 0 | 100 to - |" in text


@pytest.mark.parametrize(("after", "is_worse"), [(12.0, False), (12.05, False), (12.2, True), (8.0, False), (7.5, True)])
def test_a_figure_is_worse_beyond_the_share(after: float, is_worse: bool) -> None:
    lines = figures_over_sets(asked(), [12.0] * 4, [after] * 4)
    assert bool(worse(lines, 0.05)) is is_worse


def test_a_commit_is_taken_out_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with compare_scores.checkout_of(str(VALIDATION.parent)) as folder:
        assert folder == VALIDATION.parent
    with pytest.raises(SystemExit, match="neither a checkout nor a commit"), compare_scores.checkout_of("no-such-commit"):
        pass
