"""Error statistics on numbers worked by hand."""

from __future__ import annotations

import math

import pytest

from rightfit.proof import score


def row(measured: float | str, *, source: str = "a", **more: object) -> dict[str, object]:
    return {"metric": "peak_mem_gib_per_gpu", "measured": measured, "source": source, "method": "full", **more}


def answer(predicted: float | None, low: float = 0.0, high: float = 0.0, **more: object) -> dict[str, object]:
    return {"predicted": predicted, "low80": low, "high80": high, "low95": low / 2, "high95": high * 2, **more}


def test_errors_coverage_and_width() -> None:
    rows = [row(10), row(10), row(10), row(20, source="b"), row("")]
    answers = [answer(11, 9, 12), answer(8, 7, 9), answer(15, 14, 16), answer(20, 19, 21), answer(5, 4, 6)]
    result = score.group_score("all", score.pair(rows, answers))
    assert (result.rows, result.sources) == (4, 2)
    assert result.median_ape == pytest.approx(0.15)  # of 0.1, 0.2, 0.5, 0
    assert result.signed_median == pytest.approx(0.05)  # of 0.1, -0.2, 0.5, 0
    assert result.by_source_median_ape == pytest.approx(0.1)  # of 0.2 and 0
    assert result.p90_ape == pytest.approx(0.41)
    assert result.within_20 == pytest.approx(0.75)
    assert result.coverage80 == pytest.approx(0.5)
    assert result.coverage95 == pytest.approx(1.0)
    assert result.width80 == pytest.approx(
        (3 / 11 + 2 / 8) / 2 - (3 / 11 + 2 / 8) / 2 + sorted([3 / 11, 0.25, 2 / 15, 0.1])[1] / 2 + 0.25 / 2
    )


def test_nothing_to_score_is_not_a_crash() -> None:
    result = score.group_score("none", score.pair([row(1)], [answer(None)]))
    assert result.rows == 0
    assert math.isnan(result.median_ape)


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="1 rows but 0 predictions"):
        score.pair([row(1)], [])


def test_confusion_of_fits() -> None:
    rows = [row(10), row("", is_oom="0"), row("", is_oom="1"), row("", is_oom="1"), row("", is_oom="1")]
    answers = [
        answer(9, fits=1, fits95=1),
        answer(9, fits=0, fits95=0),
        answer(9, fits=1, fits95=1),
        answer(9, fits=1, fits95=0),
        answer(9, fits=0, fits95=0),
    ]
    assert score.fits_score("x", rows, answers) == score.FitScore(
        "x", ran=2, false_refusals=1, out_of_memory=3, false_fits=1, false_fits_mid=2
    )


@pytest.mark.parametrize(
    ("cells", "group"),
    [
        ({"metric": "peak_mem_gib_per_gpu", "method": "full"}, "memory, full"),
        ({"metric": "peak_mem_gib_per_gpu", "method": "qlora"}, "memory, adapters"),
        ({"metric": "mfu", "n_gpus": "8"}, "time, one node"),
        ({"metric": "mfu", "n_gpus": ""}, "time, one node"),
        ({"metric": "step_time_s", "n_gpus": "16"}, "time, many nodes"),
    ],
)
def test_headline_groups(cells: dict[str, str], group: str) -> None:
    assert score.headline_group(cells) == group


def test_slices_name_every_row() -> None:
    scored = score.pair([row(10, gpu="T4", params="7e9", strategy="zero3/fsdp", tp="2")], [answer(10, 9, 11)])
    assert {name: score.by(scored, key)[0].group for name, key in score.SLICES.items()} == {
        "source": "a",
        "method": "full",
        "accelerator": "T4",
        "size": "4B to 10B",
        "parallelism": "zero3/fsdp, tp/pp/cp/ep",
        "framework": "unknown",
    }


def test_worst_rows_come_first_whatever_their_sign() -> None:
    scored = score.pair([row(10, id="near"), row(10, id="low"), row(10, id="high")], [answer(11), answer(2), answer(40)])
    assert [scored.rows[at]["id"] for at in score.worst(scored, 2)] == ["low", "high"]


def test_spread_of_repeats_is_between_neighbours_of_one_configuration() -> None:
    rows = [row(10, gpu="T4", id="a"), row(12, gpu="T4", id="b"), row(15, gpu="T4", id="c"), row(99, gpu="L4", id="d"), row("", gpu="T4")]
    found = score.repeat_spread(rows, lambda _: "memory")
    assert found == {"memory": [pytest.approx(0.2), pytest.approx(0.25)]}


def test_spread_between_sources_is_of_their_medians() -> None:
    cells = {"gpu": "A100", "seq_len": "512"}
    rows = [{**cells, "source": name, "notes": name, "measured": value} for name, value in (("a", "10"), ("a", "12"), ("b", "22"))]
    assert score.source_spread(rows, lambda _: "time") == {"time": [pytest.approx(1.0)]}  # medians 11 and 22
    assert score.source_spread(rows[:2], lambda _: "time") == {"time": []}


def test_a_free_factor_per_source_takes_away_what_its_rows_share() -> None:
    rows = [row(10, source=source, framework=framework) for source, framework in (("a", "x"), ("a", "x"), ("a", "y"), ("b", "x"))]
    scored = score.pair(rows, [answer(20), answer(20), answer(25), answer(7)])
    assert score.after_free_factor(scored) == pytest.approx((0.0, 0.175))  # errors 0, 0, 25 % and 0 after factors 2 and 0.7
    assert score.after_free_factor(scored, by_software=True) == pytest.approx((0.0, 0.0))


def test_errors_as_factors_count_alike_either_way() -> None:
    rows = [{"measured": "10", "source": "a"}, {"measured": "10", "source": "a"}]
    found = score.pair(rows, [{"predicted": 20.0}, {"predicted": 5.0}], is_factor=True)
    assert list(found.ape) == pytest.approx([1.0, 1.0])
    assert list(score.pair(rows, [{"predicted": 20.0}, {"predicted": 5.0}]).ape) == pytest.approx([1.0, 0.5])
