"""Laws of lengths as typed, daily profiles from files, and how a Workload keeps them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from rightfit.errors import FileInputError, InputError, QuantityError, UnknownNameError
from rightfit.workload import Workload
from rightfit.workload.traces import Lengths, hourly_rates, read_lengths, shape_of


def test_range_is_even() -> None:
    law = read_lengths("200..4000")
    assert (law.mean, law.smallest, law.largest) == (2100.0, 200, 4000)
    drawn = law.draw(100_000, dice=np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(2100, rel=0.01)
    assert (drawn.min(), drawn.max()) == (200, 4000)
    assert law.quantiles(np.array([0.0, 0.5, 1.0])).tolist() == [200.0, 2100.0, 4000.0]


def test_two_percentiles_come_back() -> None:
    law = read_lengths("p50=500, p95=3000")
    assert law.quantiles(np.array([0.5, 0.95])) == pytest.approx([500.0, 3000.0])
    assert np.quantile(law.draw(200_000, dice=np.random.default_rng(2)), [0.5, 0.95]) == pytest.approx([500, 3000], rel=0.02)


def test_mean_and_variation_and_cuts() -> None:
    law = read_lengths("mean=512,cv=1,max=2k")
    assert (law.mean, law.variation, law.largest) == (512.0, 1.0, 2048)
    assert law.draw(10_000, dice=np.random.default_rng(3)).max() <= 2048
    assert read_lengths("p50=500,cv=1").mean == pytest.approx(500 * math.sqrt(2.0))


def test_mean_and_a_percentile_come_back() -> None:
    for mean, share, high in ((2317, 99, 18000), (500, 95, 900), (1200, 90, 1200), (300, 99.9, 4000)):
        law = read_lengths(f"mean={mean},p{share}={high}")
        assert law.mean == mean
        assert law.quantiles(np.array([share / 100.0])) == pytest.approx([high]) if high > mean else law.variation == 0
    for impossible in ("mean=500,p99=400", "mean=500,p90=5000", "mean=500,p40=600"):
        with pytest.raises(QuantityError):
            read_lengths(impossible)


def test_what_the_context_leaves() -> None:
    assert read_lengths("200..4000").capped(1000) == Lengths(600.0, 0.0, 200, 1000, even=True)
    assert read_lengths("mean=512,cv=1").capped(1000).largest == 1000


@pytest.mark.parametrize(
    "text", ["4000..200", "p50=3000,p95=10", "abc=3", "200..x", "0..10", "p95=300", "mean=5,p50=3", "..", "=", "1..2..3"]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        read_lengths(text)


def test_workload_keeps_the_law_and_its_mean() -> None:
    workload = Workload(model="7B", rate="1/s", input_tokens="200..4000", output_tokens="mean=200,cv=0.5")
    assert (workload.input_tokens, workload.input_law) == (2100, "200..4000")
    assert Workload(**workload.to_dict()) == workload
    assert Workload(**workload.wishes()) == workload
    plain = workload.with_changes(input_tokens=512)
    assert (plain.input_tokens, plain.input_law, plain.output_law) == (512, None, "mean=200,cv=0.5")


def test_profile_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("hour,rate\n" + "\n".join(f"{hour},{hour + 1}" for hour in range(24)))
    assert shape_of(str(path)).tolist() == [float(hour + 1) for hour in range(24)]
    path.write_text(",".join(["1"] * 23 + ["4"]))
    assert hourly_rates(str(path), peak_per_s=8.0).tolist() == [2.0] * 23 + [8.0]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("1,2,3", QuantityError, "24 hours; 3 numbers"),
        (",".join(["x"] * 24), QuantityError, "hour 0"),
        ("ofice", UnknownNameError, "office"),
        ("./nothing.csv", FileInputError, "no such file"),
    ],
)
def test_bad_profiles(text: str, error: type[InputError], says: str) -> None:
    with pytest.raises(error, match=says):
        hourly_rates(text, peak_per_s=1.0)


def test_bad_profile_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "load.txt"
    path.write_text("\n".join(["1"] * 20 + ["many"] + ["1"] * 3))
    with pytest.raises(QuantityError, match=r"load\.txt: hour 20"):
        shape_of(str(path))
