"""Requests drawn and read; hourly profiles; malformed traces name their line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rightfit.errors import FileInputError, InputError, QuantityError, UnknownNameError
from rightfit.workload import traces
from rightfit.workload.traces import Lengths, Requests, draw_requests, read_trace


def written(folder: Path, text: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_is_sorted_and_counted_from_the_first(tmp_path: Path) -> None:
    found = read_trace(written(tmp_path, "arrival_s,input_tokens,output_tokens\n12,100,20\n\n10.5,300,1\n"))
    assert found.arrival_s.tolist() == [0.0, 1.5]
    assert found.input_tokens.tolist() == [300, 100]
    assert found.output_tokens.tolist() == [1, 20]


def test_published_formats(tmp_path: Path) -> None:
    azure = read_trace(
        written(
            tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
        )
    )
    assert azure.arrival_s[1] == pytest.approx(4.314579, abs=1e-5)
    assert azure.input_tokens.tolist() == [374, 396]
    lines = read_trace(
        written(
            tmp_path,
            '{"timestamp_ms": 0, "input_length": 6758, "output_length": 500}\n{"timestamp_ms": 3000, "input_length": 7, "output_length": 5}\n',
            "m.jsonl",
        )
    )
    assert lines.arrival_s.tolist() == [0.0, 3.0]
    burst = read_trace(written(tmp_path, "Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n45,ChatGPT,1087,230\n"))
    assert burst.output_tokens.tolist() == [18, 230]
    listed = read_trace(
        written(
            tmp_path,
            '[\n {"time": 1, "input_tokens": 5, "output_tokens": 6},\n {"time": 4, "input_tokens": 7, "output_tokens": 8}\n]',
            "l.json",
        )
    )
    assert listed.arrival_s.tolist() == [0.0, 3.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arrival_s,input_tokens,output_tokens\n1,5,5\n2,x,5\n", "line 3: input_tokens 'x' is no token count"),
        ("arrival_s,input_tokens,output_tokens\n1,5\n", "line 2: 2 cells, the header has 3"),
        ("arrival_s,input_tokens,output_tokens\nsoon,5,5\n", "line 2: arrival_s 'soon' is not a time"),
        ("arrival_s,input_tokens,output_tokens\nnan,5,5\n", "line 2: arrival_s 'nan' is not a time"),
        ("arrival_s,input_tokens,output_tokens\n1,5,0\n", "line 2: output_tokens '0' is no token count"),
        ("arrival_s,input_tokens,output_tokens\n1,5,1.5\n", "line 2: output_tokens '1.5'"),
        ("arrival_s,input_tokens,output_tokens\n1,5,1e400\n", "line 2: output_tokens '1e400'"),
        ("arrival_s,input_tokens,output_tokens\n", "has no requests"),
        ("", "has no requests"),
        ("when,input_tokens,output_tokens\n1,5,5\n", "line 2: no column for time among when, input_tokens"),
        ('{"time": 1, "input_tokens": 5, "output_tokens": 6}\n{"time": 1,\n', "line 2: not JSON"),
        ('[{"time": 1, "input_tokens": 5, "output_tokens": 6},\n5]', "line 2: '5' is no object"),
        ('[{"time": 1, "input_tokens": 5, "output_tokens": 6},\n', "line 2: the list is not closed"),
        ('[{"time": 1, "input_tokens": true, "output_tokens": 6}]', "line 1: input_tokens 'True'"),
        ("a\x00b\n", "line 1: not a text file"),
    ],
)
def test_malformed_traces_name_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FileInputError) as problem:
        read_trace(written(tmp_path, text))
    assert message in str(problem.value)
    assert "\n" not in str(problem.value)
    assert problem.value.exit_code == 2


def test_missing_folder_and_bytes(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match="no such file"):
        read_trace(tmp_path / "none.csv")
    with pytest.raises(FileInputError, match="cannot read"):
        read_trace(tmp_path)
    (tmp_path / "b.csv").write_bytes(b"arrival_s,input_tokens,output_tokens\n\xff,1,1\n")
    with pytest.raises(FileInputError, match="line 2: not UTF-8"):
        read_trace(tmp_path / "b.csv")


def test_drawn_requests_have_their_moments() -> None:
    found = draw_requests(100_000, rate_per_s=20.0, inputs=Lengths(500, 1.0), outputs=Lengths(100), variation=2.0, seed=1)
    gaps = np.diff(found.arrival_s)
    assert found.rate_per_s == pytest.approx(20.0, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.03)
    assert found.input_tokens.mean() == pytest.approx(500, rel=0.02)
    assert found.input_tokens.std() == pytest.approx(500, rel=0.05)
    assert set(found.output_tokens.tolist()) == {100}
    assert found.at_rate(5.0).rate_per_s == pytest.approx(5.0)


def test_quantiles_of_a_length_law() -> None:
    law = Lengths(1000, 0.5, 10, 3000)
    shares = np.array([0.001, 0.5, 0.9999])
    assert law.quantiles(shares)[1] == pytest.approx(1000 / np.sqrt(1.25))
    assert law.quantiles(shares)[2] == 3000
    assert Lengths(7).quantiles(shares).tolist() == [7, 7, 7]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Lengths(0),
        lambda: Lengths(10, -1),
        lambda: Lengths(10, 1.0, 5, 4),
        lambda: draw_requests(0, rate_per_s=1, inputs=Lengths(1), outputs=Lengths(1)),
        lambda: draw_requests(5, rate_per_s=0, inputs=Lengths(1), outputs=Lengths(1)),
        lambda: draw_requests(5, rate_per_s=1, inputs=Lengths(1), outputs=Lengths(1), variation=-1),
        lambda: Requests(np.zeros(3), np.ones(3, dtype=np.int64), np.ones(3, dtype=np.int64)).at_rate(2.0),
        lambda: traces.hourly_rates("1,2,3", peak_per_s=1),
        lambda: traces.hourly_rates(",".join(["x"] * 24), peak_per_s=1),
        lambda: traces.hourly_rates(",".join(["0"] * 24), peak_per_s=1),
        lambda: traces.hourly_rates("flat", peak_per_s=0),
    ],
)
def test_nonsense_is_refused(wrong) -> None:
    with pytest.raises(QuantityError) as problem:
        wrong()
    assert isinstance(problem.value, InputError)


def test_profiles() -> None:
    office = traces.hourly_rates("office", peak_per_s=40.0)
    assert (office.shape, office.max(), office[3]) == ((24,), 40.0, 4.0)
    typed = traces.hourly_rates(",".join(str(hour) for hour in range(24)), peak_per_s=46.0)
    assert typed[12] == pytest.approx(24.0)
    with pytest.raises(UnknownNameError, match="did you mean office"):
        traces.hourly_rates("ofice", peak_per_s=1.0)


def test_profile_of_a_trace() -> None:
    day = np.concatenate([np.arange(0, 7200, 10.0), np.arange(7200, 10_800, 2.0), [10_799.9]])
    found = traces.profile_of(Requests(day, np.ones(day.size, dtype=np.int64), np.ones(day.size, dtype=np.int64)))
    assert found[:3] == pytest.approx([0.1, 0.1, 0.5], rel=0.01)
    assert found[5] == pytest.approx(day.size / 10_800, rel=0.01)


@pytest.mark.parametrize(
    ("columns", "second"),
    [
        (("timestamp", "input_length", "output_length"), 1000),
        (("timestamp", "contexttokens", "generatedtokens"), 1),
        (("Timestamp", "Request tokens", "Response tokens"), 1),
        (("timestamp_ms", "input_length", "output_length"), 1000),
        (("arrival_s", "input_length", "output_length"), 1),
    ],
)
@pytest.mark.parametrize("form", ["jsonl", "csv", "json"])
def test_the_times_of_published_traces_are_seconds(columns: tuple[str, str, str], second: int, form: str, tmp_path: Path) -> None:
    """Mooncake counts milliseconds under a name that says nothing of it."""
    rows = [dict(zip(columns, (at * second, 100, 10), strict=True)) for at in (0, 3, 9)]
    lines = {"jsonl": "\n".join(map(json.dumps, rows)), "json": json.dumps(rows)}
    lines["csv"] = "\n".join([",".join(columns), *(",".join(map(str, row.values())) for row in rows)])
    path = tmp_path / f"trace.{form}"
    path.write_text(lines[form])
    assert read_trace(path).arrival_s.tolist() == [0.0, 3.0, 9.0]
