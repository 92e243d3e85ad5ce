"""`rightfit plan` for classical machine learning and data preparation as a process:
output, JSON, exit codes."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest

from rightfit.cli.run import run

BOOSTING = ["plan", "xgboost", "--task", "train", "--data", "11Mrows x 28cols"]
TOKENS = ["plan", "--task", "prepare", "--data", "500GB", "--operation", "tokenize"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (BOOSTING, 0),
        ([*BOOSTING, "--library", "xgboost", "--gpu", "T4"], 0),
        (TOKENS, 0),
        (["plan", "xgboost", "--data", "1B x 5000"], 1),
        (["estimate", "random-forest", "--data", "5GB", "--on", "aws/t3.large"], 1),
        (["estimate", "lightgbm", "--data", "HIGGS", "--on", "aws/g5.xlarge"], 0),
    ],
)
def test_json_follows_the_schema(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--format", "json"]) == code
    data = json.loads(capsys.readouterr().out)
    schema = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(data)
    assert bool(data["options"]) == (code == 0)
    assert all(isinstance(line, str) for line in data["advice"])


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("arguments", [BOOSTING, TOKENS, ["why", "aws/m5.xlarge", "random-forest", "--data", "9GB"]])
def test_text_in_both_languages(arguments: list[str], lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--lang", lang, "--verbose"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) > 20
    assert ("RAM at the peak" if lang == "en" else "内存峰值") in printed


def test_csv_has_a_line_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*TOKENS, "--format", "csv", "--top", "4"]) == 0
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 5
    assert "layout_library" in lines[0]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["plan", "xgboost", "--task", "serve", "--rate", "1000/s", "--latency", "10ms"], 2, "columns: how many features per request?"),
        (["plan", "xgboost", "--task", "serve", "--columns", "30", "--gpu", "T4"], 2, "gpu contradicts model xgboost"),
        (["plan", "dbscan", "--task", "serve", "--columns", "30"], 3, "does not score single rows"),
        (["plan", "xgboost", "--task", "serve", "--rate", "1/s", "--tpot", "30ms"], 2, "tpot contradicts model xgboost"),
        (["plan", "xgboost", "--data", "11Mrows x 0cols"], 2, "at least one row and one column"),
        (["plan", "xgboost", "--data", "HIGS"], 2, "did you mean HIGGS"),
        (["plan", "xgbost", "--data", "HIGGS"], 2, "did you mean xgboost"),
        (["plan", "xgboost", "--method", "lora"], 2, "method contradicts model xgboost"),
        (["plan", "xgboost", "--task", "finetune", "--data", "HIGGS"], 2, "use task train"),
        (["plan", "7B", "--trees", "5"], 2, "trees contradicts model 7B"),
        (["plan", "7B", "--task", "train", "--operation", "sort"], 2, "operation contradicts task train"),
        (["plan", "--task", "prepare", "--data", "5GB"], 2, "operation: how should the data be prepared"),
        (["plan", "--task", "prepare", "--data", "5GB", "--operation", "sotr"], 2, "did you mean sort"),
        (["plan", "svm", "--data", "5GB x 20cols", "--columns", "30"], 2, "columns 30 contradicts data"),
        (["plan", "xgboost", "--data", "1M x 10", "--depth", "500"], 2, "allowed 1 to 64"),
        (["estimate", "xgboost", "--data", "1M x 10", "--on", "aws/m5.xlarg"], 2, "did you mean aws/m5.xlarge"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err
