"""Tables in pieces: the text of one call, wherever the work is done; what is done stays done; a
changed question begins anew."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.errors import FileInputError, InputError, MissingComponentError
from rightfit.spread.pieces import PLAN_COLUMNS, PREDICT_ROWS, pieces_folder, predicted, through
from rightfit.spread.places import Here, Numbered, Processes, Work, place_of

COLUMNS = ("id", "metric", "model", "method", "gpu", "micro_batch", "seq_len", "my own")
MODELS = ("7B", "meta-llama/Meta-Llama-3-8B", "no-such-model", "", "=HYPERLINK(1)")


def cases(rows: int) -> list[dict[str, str]]:
    """Cases of two metrics, some that nobody can predict, some text that a sheet would run."""
    draw = random.Random(rows)
    return [
        {
            "id": f"row {number}",
            "metric": draw.choice(("peak_mem_gib_per_gpu", "tokens_per_s_per_gpu", "")),
            "model": draw.choice(MODELS),
            "method": draw.choice(("lora", "full", "qlora")),
            "gpu": draw.choice(("A100-SXM-80GB", "L4")),
            "micro_batch": draw.choice(("1", "8", "-1")),
            "seq_len": "2048",
            "my own": draw.choice(("+1", "a,b", 'a "b"', "")),
        }
        for number in range(rows)
    ]


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def at_once(rows: list[dict[str, str]]) -> str:
    """What one piece of all rows is."""
    from rightfit.spread.pieces import csv_lines

    text = predicted(None, rows)
    return csv_lines([text.columns]) + text.lines


@pytest.mark.parametrize("on", ["here", "processes"])
@pytest.mark.parametrize("name", ["cases.csv", "cases.csv.gz"])
def test_pieces_are_the_text_of_one_call(tmp_path: Path, on: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = cases(230)
    monkeypatch.setattr("rightfit.spread.pieces.predict_table.__kwdefaults__", {**_defaults(), "piece_rows": 50})
    done = rightfit.predict_table(written(tmp_path / name, rows), tmp_path / "out.csv", on=on, workers=2)
    assert (tmp_path / "out.csv").read_text("utf-8") == at_once(rows)
    assert (done.rows, done.earlier) == (230, 0)
    assert done.refused == sum(bool(answer["error"]) for answer in rightfit.predict(rows)) > 0
    assert not pieces_folder(tmp_path / "out.csv").exists()


def _defaults() -> dict[str, Any]:
    from rightfit.spread import pieces

    assert pieces.predict_table.__kwdefaults__["piece_rows"] == PREDICT_ROWS
    return dict(pieces.predict_table.__kwdefaults__)


class StoppedError(Exception):
    """What an interruption is here."""


class Short:
    """A place that is interrupted after some pieces."""

    workers = 1

    def __init__(self, pieces: int) -> None:
        self.left, self.asked = pieces, list[int]()

    def results(self, work: Work, pieces: Numbered, shared: Any) -> Iterator[tuple[int, Any]]:
        for number, piece in pieces:
            if not self.left:
                raise StoppedError
            self.left -= 1
            self.asked.append(number)
            yield number, work(shared, piece)


def run(source: Path, out: Path, place: Any, **question: Any) -> Any:
    return through(source, out, work=predicted, shared=None, question=question, place=place, piece_rows=10)


def test_an_interrupted_table_goes_on(tmp_path: Path) -> None:
    rows, out = cases(95), tmp_path / "out.csv"
    source = written(tmp_path / "cases.csv", rows)
    with pytest.raises(StoppedError):
        run(source, out, Short(4))
    assert not out.exists()
    rest = Short(99)
    done = run(source, out, rest)
    assert rest.asked == [4, 5, 6, 7, 8, 9]
    assert (done.rows, done.earlier) == (95, 40)
    assert done.refused == sum(bool(answer["error"]) for answer in rightfit.predict(rows))
    assert out.read_text("utf-8") == at_once(rows)


def test_what_was_done_for_another_question_is_not_taken(tmp_path: Path) -> None:
    out, source = tmp_path / "out.csv", written(tmp_path / "cases.csv", cases(40))
    with pytest.raises(StoppedError):
        run(source, out, Short(2), runs="mine")
    with pytest.raises(StoppedError):
        run(source, out, again := Short(2), runs="other")
    assert again.asked == [0, 1]
    written(source, cases(39))
    done = run(source, out, last := Short(9), runs="other")
    assert last.asked == [0, 1, 2, 3]
    assert done.earlier == 0
    assert out.read_text("utf-8") == at_once(cases(39))


def test_a_half_written_piece_is_no_piece(tmp_path: Path) -> None:
    out, source = tmp_path / "out.csv", written(tmp_path / "cases.csv", cases(30))
    with pytest.raises(StoppedError):
        run(source, out, Short(1))
    (pieces_folder(out) / ".0000001.10.0.csv.x.part").write_text("half")
    run(source, out, place := Short(9))
    assert place.asked == [1, 2]
    assert out.read_text("utf-8") == at_once(cases(30))


def test_a_folder_of_other_files_is_left_alone(tmp_path: Path) -> None:
    out, source = tmp_path / "out.csv", written(tmp_path / "cases.csv", cases(5))
    pieces_folder(out).mkdir()
    (pieces_folder(out) / "thesis.txt").write_text("mine")
    with pytest.raises(FileInputError, match="contains other files"):
        run(source, out, Here())
    assert (pieces_folder(out) / "thesis.txt").read_text() == "mine"


def test_progress_tells_every_piece(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    source = written(tmp_path / "cases.csv", cases(25))
    through(
        source, tmp_path / "out.csv", work=predicted, shared=None, question={}, place=Here(), piece_rows=10,
        progress=lambda done, total, rate: told.append((done, total)) if rate > 0 else None,
    )  # fmt: skip
    assert told == [(10, 25), (20, 25), (25, 25)]


def test_plans_of_a_table(tmp_path: Path) -> None:
    source, out = tmp_path / "wishes.csv", tmp_path / "plans.csv"
    source.write_text("id,model,seq-len,data\na,7B,2048,10Mtok\nb,no-such-model,,10Mtok\nc,7B,2048,10Mtok\nd,7B,,\n", "utf-8")
    done = rightfit.plan_table(source, out, method="qlora", cloud="aws")
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["id", "model", "seq-len", "data", *PLAN_COLUMNS]
    best = rightfit.plan("7B", method="qlora", cloud="aws", data="10Mtok", seq_len="2048", top=1).best
    assert best is not None
    for row in (rows[0], rows[2]):
        assert (row["provider"], row["instance_type"], row["region"]) == ("aws", best.instance_type, best.region)
        assert float(row["total_usd"]) == best.cost.total_usd
        assert row["feasible"] == "1"
    assert "no-such-model" in rows[1]["error"]
    assert rows[1]["feasible"] == rows[1]["provider"] == ""
    assert (done.rows, done.refused) == (4, 1 + bool(rows[3]["error"]))


@pytest.mark.parametrize(
    ("word", "says"),
    [("rai", "did you mean ray"), ("cluster", "use here, processes, ray"), ("here:1", "unknown place"), ("", "unknown place")],
)
def test_places_that_are_none(word: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        place_of(word)


def test_places() -> None:
    assert isinstance(place_of("here"), Here)
    assert isinstance(place_of("Processes", workers=3), Processes)
    assert place_of("processes", workers=3).workers == 3
    with pytest.raises(InputError, match="1 or more"):
        place_of("processes", workers=0)


def test_ray_that_is_not_installed(tmp_path: Path) -> None:
    try:
        import ray  # noqa: F401
    except ImportError:
        with pytest.raises(MissingComponentError, match=r"pip install 'rightfit\[ray\]'"):
            rightfit.predict_table(written(tmp_path / "cases.csv", cases(3)), tmp_path / "out.csv", on="ray")
    else:
        pytest.skip("ray is installed here")


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "is empty"), ("id,model\n", "no rows"), ("id,modell\n1,7B\n", "did you mean model"), ("a,b\n", "no such column")],
)
def test_tables_that_are_none(tmp_path: Path, text: str, says: str) -> None:
    source = tmp_path / "wishes.csv"
    source.write_text(text, "utf-8")
    with pytest.raises(InputError, match=says):
        rightfit.plan_table(source, tmp_path / "out.csv")


def test_prices_of_ones_own_stay_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "wishes.csv"
    source.write_text("model\n7B\n", "utf-8")
    monkeypatch.setenv("RIGHTFIT_PRICE_BOOK", str(tmp_path / "book.toml"))
    with pytest.raises(InputError, match="works in this process only"):
        rightfit.plan_table(source, tmp_path / "out.csv", on="processes")
