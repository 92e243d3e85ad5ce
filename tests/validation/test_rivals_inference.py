"""How rows are put to the rivals, and how their two times become a row's metric. The rivals
themselves are not needed."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

VALIDATION = Path(__file__).resolve().parents[2] / "validation"
sys.path.insert(0, str(VALIDATION))

import rivals_inference as rivals  # noqa: E402
from rivals import merge_lines  # noqa: E402

ROW = {
    "metric": "tpot_ms", "measured": "10", "model": "deepseek-ai/DeepSeek-R1", "params_b": "671", "weights_dtype": "fp8", "kv_dtype": "",
    "engine": "SGLang", "device": "H200-SXM-141GB", "n_devices": "8", "tp": "2", "pp": "1", "input_tokens": "1024", "output_tokens": "101",
    "batch_or_concurrency": "16", "request_rate": "", "notes": "closed-loop concurrency=16; attn_dp=4 moe_tp=1 moe_ep=8; x",
}  # fmt: skip


PER_REQUEST_S = 0.5 + 100 * 0.01


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("ttft_ms", 500.0),
        ("tpot_ms", 10.0),
        ("decode_tok_per_s_single", 100.0),
        ("output_tok_per_s_total", 16 * 101 / PER_REQUEST_S),
        ("total_tok_per_s", 16 * 1125 / PER_REQUEST_S),
        ("req_per_s", 16 / PER_REQUEST_S),
    ],
)
def test_metrics_from_two_times(metric: str, value: float) -> None:
    # 0.5 s to the first token and 100 further ones of 10 ms: 1.5 s a request.
    assert rivals.value_of({**ROW, "metric": metric}, rivals.Timing(0.5, 0.01)) == {"predicted": pytest.approx(value)}
    assert rivals.value_of({**ROW, "metric": metric}, None) == {}


def test_aiconfigurator_is_asked_for_the_row() -> None:
    asked = rivals.aic_arguments(ROW)
    assert asked == {
        "model_path": "deepseek-ai/DeepSeek-V3", "system_name": "h200_sxm", "backend_name": "sglang", "mode": "agg", "isl": 1024, "osl": 101,
        "batch_size": 4, "tp_size": 2, "pp_size": 1, "attention_dp_size": 4, "moe_tp_size": 1, "moe_ep_size": 8,
    }  # fmt: skip
    assert rivals.aic_arguments({**ROW, "request_rate": "4"}) is None
    assert rivals.aic_arguments({**ROW, "engine": "llama.cpp"}) is None
    assert rivals.aic_arguments({**ROW, "device": "T4"}) is None
    assert rivals.aic_arguments({**ROW, "batch_or_concurrency": "max"}) is None


def test_models_that_a_rival_does_not_hold_are_described_by_their_dimensions() -> None:
    plain = {
        **ROW,
        "model": "meta-llama/Llama-2-7b-hf",
        "params_b": "7",
        "weights_dtype": "int4-awq",
        "n_devices": "1",
        "tp": "1",
        "notes": "",
    }
    asked = rivals.aic_arguments(plain)
    assert asked is not None
    assert (asked["mode"], asked["gemm_quant_mode"], asked["tp_size"]) == ("static", "int4_wo", 1)
    config = json.loads((Path(asked["model_path"]) / "config.json").read_text())
    assert (config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]) == (4096, 11008, 32)
    assert rivals.plain_record({**plain, "device": "A100-80GB"}, rivals.GENZ_SYSTEMS).num_layers == 32
    assert rivals.plain_record(plain, rivals.GENZ_SYSTEMS) is None  # it has no H200
    assert rivals.plain_record({**ROW, "device": "A100-80GB", "tp": "8"}, rivals.GENZ_SYSTEMS) is None  # not dense


def test_lines_of_other_rivals_stay(tmp_path: Path) -> None:
    path = tmp_path / "rivals.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ("figure", "tool", "rows"))
        writer.writeheader()
        writer.writerows([{"figure": "memory", "tool": "a", "rows": "1"}, {"figure": "throughput", "tool": "a", "rows": "2"}])
    merged = merge_lines([{"figure": "memory", "tool": "b", "rows": "3"}, {"figure": "throughput", "tool": "a", "rows": "4"}], path)
    assert [(line["figure"], line["tool"], line["rows"]) for line in merged] == [
        ("memory", "a", "1"),
        ("memory", "b", "3"),
        ("throughput", "a", "4"),
    ]


def test_requests_that_come_all_at_once_are_asked_for_as_a_steady_state() -> None:
    row = {**ROW, "request_rate": "inf", "notes": "", "batch_or_concurrency": "1000"}
    assert rivals.is_stated(row)
    asked = rivals.aic_arguments(row)
    assert asked is not None
    assert asked["mode"] == "agg"
    timing = rivals.Timing(0.5, 0.01, requests_per_s=3.0)
    assert rivals.value_of({**row, "metric": "output_tok_per_s_total"}, timing) == {"predicted": pytest.approx(3.0 * 101)}
    assert rivals.value_of({**row, "metric": "ttft_ms"}, timing) == {}  # of a queue that it has not
    assert rivals.plain_record({**row, "model": "meta-llama/Llama-2-7b-hf", "tp": "8"}, {"H200-SXM-141GB": ""}) is None


def test_a_rival_that_refuses_a_row_has_no_answer_for_it() -> None:
    import rivals as training

    def refuses(row: rivals.Row) -> rivals.Answer:
        raise ValueError(row["method"])

    assert training.answer_of(refuses, {"id": "a", "method": "dora"}) == {}
    assert training.answer_of(lambda row: {"predicted": 1.0}, {"id": "a"}) == {"predicted": 1.0}


def test_errors_are_paired_on_the_rows_that_the_rival_answers() -> None:
    import rivals as training
    from rightfit.proof.tables import read_table

    rows = [row for row in read_table(VALIDATION / "truth", "train_memory") if row["usable"] == "1" and row["measured"]][:4]
    answers = [{"predicted": 2.0 * float(row["measured"])} for row in rows[:3]] + [{}]
    found = training.paired_cells("memory", rows, answers)
    assert (found["rows"], found["their_median_ape"]) == ("3", "1.0000")
    assert 0.0 < float(found["our_median_ape"]) < 0.6


def test_the_pages_of_comparison_hold_the_paired_table() -> None:
    import subprocess

    script = VALIDATION.parent / "scripts" / "write_rivals_paired.py"
    ran = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    with (VALIDATION / "rivals_paired.csv").open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert {line["rows_of"] for line in lines} == {"own", "second"}
    assert all(float(line["our_median_ape"]) < float(line["their_median_ape"]) for line in lines), (
        "behind a rival: say where and why, then change this test"
    )
