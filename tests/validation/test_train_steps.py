"""The measuring script's arguments, on a machine without a GPU."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "validation" / "measure" / "train_steps.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


def test_dry_run_lists_every_combination() -> None:
    done = run(
        "--dry-run", "--models", "a/b,c/d", "--methods", "lora,full", "--micro-batches", "1,2", "--seq-lens", "512", "--recompute", "both"
    )
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * 2 * 2 * 1 * 2
    assert lines[0] == "a/b lora micro_batch=1 seq_len=512 recompute=none"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--methods", "dora"), "unknown method 'dora'; choose from full, lora, qlora"),
        (("--micro-batches", "0"), "numbers must be 1 or more"),
        (("--seq-lens", "long"), "is not a list of whole numbers"),
        (("--steps", "0"), "must be 1 or more"),
        (("--recompute", "some"), "invalid choice"),
        (("--seconds", "0"), "--seconds more than 0"),
    ],
)
def test_bad_arguments_exit_2_with_one_line(arguments: tuple[str, ...], says: str) -> None:
    done = run("--dry-run", *arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_gpu_it_says_so() -> None:
    torch = pytest.importorskip("torch") if "torch" in sys.modules else None
    if torch is not None and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    done = run("--models", "Qwen/Qwen2.5-0.5B", "--methods", "full")
    assert done.returncode == 3
    assert done.stderr.startswith("train_steps: ")
    assert len(done.stderr.splitlines()) == 1


def test_rows_have_the_columns_of_the_measured_tables() -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    import train_steps

    from rightfit.proof.tables import read_cases

    truth = SCRIPT.parents[1] / "truth"
    assert list(train_steps.MEMORY_COLUMNS) == list(read_cases(truth / "train_memory.csv.gz")[0])
    assert list(train_steps.THROUGHPUT_COLUMNS) == list(read_cases(truth / "train_throughput.csv.gz")[0])


def test_what_it_writes_can_be_scored(tmp_path) -> None:
    sys.path.insert(0, str(SCRIPT.parent))
    import train_steps

    from rightfit.proof.validate import validate

    options = train_steps.parser().parse_args(["--source", "mine"])
    case = train_steps.Case("Qwen/Qwen2.5-0.5B", "lora", 2, 1024, recompute=False)
    row = train_steps.row_of(case, options, gpu="A100-SXM-80GB", memory_gib=79.15, versions="torch x")
    ran = train_steps.Outcome(4 * 2**30, 5 * 2**30, 6 * 2**30, 20000.0)
    failed = train_steps.Outcome(out_of_memory=True)
    memory = train_steps.memory_rows(row, ran) + train_steps.memory_rows(row, failed)
    train_steps.write_table(tmp_path / "train_memory.csv", train_steps.MEMORY_COLUMNS, memory, prefix="OM")
    train_steps.write_table(
        tmp_path / "train_throughput.csv", train_steps.THROUGHPUT_COLUMNS, train_steps.throughput_rows(row, ran), prefix="OT"
    )
    with (tmp_path / "train_memory.csv").open() as stream:
        assert [(r["id"], r["mem_kind"], r["measured"]) for r in csv.DictReader(stream)] == [
            ("OM00001", "allocated", "4.0"),
            ("OM00002", "reserved", "5.0"),
            ("OM00003", "nvidia-smi", "6.0"),
            ("OM00004", "unknown", ""),
        ]
    (training,) = validate(tmp_path).families
    assert training.answered == (5, 5)
    assert {found.part.name: found.group.rows for found in training.parts}["memory"] == 3
    assert training.fits[0].out_of_memory == 1
