"""The script that measures forward passes, training on samples and generation, on a
machine without a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rightfit.proof.case_columns import case_columns
from rightfit.proof.predict import predict

SCRIPT = Path(__file__).resolve().parents[2] / "validation" / "measure" / "passes.py"
sys.path.insert(0, str(SCRIPT.parent))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_dry_run_lists_the_cases_of_a_kind() -> None:
    every, some = run("--dry-run"), run("--dry-run", "--only", "generate")
    assert every.returncode == some.returncode == 0
    assert set(some.stdout.splitlines()) < set(every.stdout.splitlines())
    assert {line.split()[0] for line in some.stdout.splitlines()} == {"generate"}


def test_bad_arguments_exit_2_with_one_line() -> None:
    for arguments in (("--seconds", "0"), ("--answer", "1"), ("--only", "sleep")):
        done = run("--dry-run", *arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_rows_are_columns_that_predict_reads_and_models_that_it_knows() -> None:
    import passes

    said = {"id", "measured", "source", "source_where", "engine_version", "notes"}
    assert set(passes.PASS_COLUMNS) - said <= {column.column for column in case_columns("inference")}
    assert set(passes.SAMPLE_COLUMNS) - said <= {column.column for column in case_columns("samples")}
    tokens = dict.fromkeys((*passes.ENCODERS, *passes.WRITERS), "input_tokens")
    rows = []
    for case in passes.cases():
        place = passes.TRAINED.get(case.model)
        if case.kind == "train":
            assert place is not None
            rows.append({"metric": "images_per_s_total", "task": place[2], "model": case.model, "precision": case.precision, "gpu": "H100"})
            rows[-1] |= {"batch_per_gpu": str(case.batch), "image_size": str(case.size)}
        else:
            metric = "tpot_ms" if case.kind == "generate" else "latency_ms"
            rows.append({"metric": metric, "model": case.model, "device": "H100", "batch_or_concurrency": str(case.batch)})
            rows[-1] |= {"weights_dtype": case.precision, tokens.get(case.model, "image_size"): str(case.size), "output_tokens": "64"}
    tables = [[row for row in rows if ("task" in row) is trained] for trained in (True, False)]
    answers = [(row, answer) for table in tables for row, answer in zip(table, predict(table), strict=True)]
    refused = {(row["model"], answer["error"]) for row, answer in answers if answer.get("error")}
    assert refused == set()
