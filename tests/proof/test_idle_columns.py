"""Each listed column, varied alone, moves the figure or is named as not used."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from rightfit.proof.case_columns import TABLES, case_columns, visible
from rightfit.proof.predict import predict, table_of
from rightfit.proof.tables import read_table

TRUTH = Path(__file__).resolve().parents[2] / "validation" / "truth"
FIGURES = ("predicted", "low80", "high80", "low95", "high95", "error")
ROWS, VALUES = 50, 8
#: What people write in columns that no measured row has.
WRITTEN = {
    "nodes": ["2", "4"], "interconnect": ["ethernet", "nvlink", "10", "100 Gbps", "infiniband"], "release": ["4.40.0", "2.1"], "parallel": ["zero3", "tp2"],
    "samples": ["1000", "50000"], "epochs": ["1", "3"], "steps": ["100", "1000"], "replicas": ["2", "4"], "max_tokens": ["128", "2048"], "max_num_seqs": ["1", "256"],
    "max_num_batched_tokens": ["512", "8192"], "prefix_share": ["0.5", "0.9"], "draft": ["eagle", "meta-llama/Llama-3.2-1B"], "slo_ttft_ms": ["200", "2000"],
    "slo_tpot_ms": ["20", "100"], "gpu_memory_utilization": ["0.5", "0.9"], "global_batch": ["64", "1024"], "grad_accum": ["1", "8"], "variant": ["hist", "exact"],
}  # fmt: skip


def _rows(kind: str) -> list[dict[str, str]]:
    rows = [dict(row) for name in TABLES[kind] for row in read_table(TRUTH, name)]
    random.Random(7).shuffle(rows)
    return rows


def _values(pool: set[str], own: str, chance: random.Random) -> list[str]:
    """Other values of a column, the last of them none: several words may mean the same, and then
    none tells."""
    others = sorted(pool - {own}) or ["1"]
    chance.shuffle(others)
    return [others[at % len(others)] for at in range(VALUES - 1)] + ["" if own else others[-1]]


def _multiples(text: str) -> list[str]:
    """Twice and eight times a number, and none: what a threshold may lie between."""
    return ["", *([f"{float(text) * 2:g}", f"{float(text) * 8:g}"] if text.replace(".", "", 1).isdigit() else [])]


def _moved_by_any(row: dict[str, str], name: str, values: list[str]) -> bool:
    """Whether any of the values of a column gives another figure."""
    told = [row, *({**row, name: value} for value in values)]
    first, *others = predict(told * -(-201 // len(told)))  # a long table: figures alone
    return any(other[figure] != first[figure] for other in others for figure in FIGURES)


def _silent(kind: str, count: int) -> dict[str, tuple[object, ...]]:
    """Columns that neither move a figure nor are named, with a row and the two values of each."""
    chance = random.Random(kind)
    rows = _rows(kind)
    base = [(row, answer) for row, answer in zip(rows[:2000], predict(rows[:2000]), strict=True) if answer["predicted"]]
    base = [(row, answer) for row, answer in base if table_of(visible(row)) == kind][:count]
    assert len(base) == count
    silent: dict[str, tuple[object, ...]] = {}
    for column in (one for one in case_columns(kind) if one.column not in ("id", "metric")):
        name = column.column
        pool = {row[name] for row in rows if row.get(name)} | {word for word in column.allowed.split("|") if word and column.unit == "word"}
        pool |= set(WRITTEN.get(name, ()))
        assert pool, f"nothing is known to write in {name}"
        tried = [[{**row, name: value} for value in _values(pool, row.get(name, ""), chance)] for row, _ in base]
        found = predict([row for several in tried for row in several] * -(-201 // (count * VALUES)))  # a long table: figures alone
        still = []
        for at, (_, answer) in enumerate(base):
            others = found[at * VALUES : (at + 1) * VALUES]
            if all(other[figure] == answer[figure] for other in others for figure in FIGURES) and tried[at][0][name]:
                still.append(at)
        still = [at for at in still if not _moved_by_any(tried[at][0], name, [*sorted(pool)[:60], *_multiples(tried[at][0][name])])]
        for at, answer in zip(still, predict([tried[at][0] for at in still]), strict=True):
            if name not in str(answer["assumptions"]):
                silent.setdefault(name, (base[at][0].get("id"), base[at][0].get(name), tried[at][0][name], answer["assumptions"]))
    return silent


@pytest.mark.parametrize("kind", TABLES)
def test_a_column_moves_the_figure_or_is_named(kind: str) -> None:
    assert _silent(kind, 4) == {}


@pytest.mark.deep
@pytest.mark.parametrize("kind", TABLES)
def test_every_column_of_fifty_rows_moves_the_figure_or_is_named(kind: str) -> None:
    assert _silent(kind, ROWS) == {}


def test_a_long_table_is_not_tried_cell_by_cell() -> None:
    row = next(row for row in _rows("training") if row.get("heads"))
    assert "not used for this figure" in predict([row])[0]["assumptions"]
    assert "not used for this figure" not in predict([row] * 201)[0]["assumptions"]


@pytest.mark.parametrize(("written", "same"), [("10", "10 Gbps"), ("100", "100 Gbps")])
def test_a_plain_number_is_a_rate_of_the_links(written: str, same: str) -> None:
    row = {
        "metric": "step_time_s", "model": "meta-llama/Llama-2-7b-hf", "gpu": "A100-SXM-80GB", "n_gpus": "16", "nodes": "2", "method": "full",
        "micro_batch": "1", "seq_len": "1024", "zero": "3",
    }  # fmt: skip
    plain, told, none = (predict([{**row, "interconnect": text}])[0]["predicted"] for text in (written, same, ""))
    assert plain == told != none
