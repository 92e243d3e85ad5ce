"""What one more row costs: the column-wise predictors at a small and a large number of rows, side
by side in one run.

    python benchmarks/bench_columns.py [--repeats 5]

Each line gives processor time per row at both sizes and their ratio: where work is done on whole
columns, a row of the large table costs a small part of a row of the small one, and the ratio falls;
where rows are walked one by one, it stays near 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np

SMALL, LARGE = 100, 10_000


def training() -> Callable[[int], object]:
    """Step time and memory of language training, from columns that are there."""
    from rightfit.estimation.training import step_columns
    from rightfit.proof.cases.training import training_cases

    case = {"model": "llama-2-7b", "gpu": "A100-SXM-80GB", "n_gpus": "8", "seq_len": "4096", "micro_batch": "2", "method": "full"}
    cases = training_cases([case])

    def work(rows: int) -> object:
        setup = cases.setup.replace(micro_batch=np.resize([1.0, 2.0, 4.0, 8.0], rows), tensor=np.resize([1.0, 2.0, 4.0], rows))
        return step_columns(cases.model, setup, cases.device, cases.links)

    return work


def cases_of(case: dict[str, str], column: str, values: int) -> Callable[[int], object]:
    """Rows as a user gives them, from words to figures, one column different in each."""
    from rightfit.proof.predict import predict

    def work(rows: int) -> object:
        answers = predict([case | {column: str(1 + number % values), "id": str(number)} for number in range(rows)])
        refused = [answer["error"] for answer in answers if answer["error"]]
        if refused:
            raise SystemExit(refused[0])
        return answers

    return work


def seconds_per_row(work: Callable[[int], object], rows: int, repeats: int) -> float:
    """Median processor time of one row [s], after a round that warms up."""
    work(rows)
    spans = []
    for _ in range(repeats):
        began = time.process_time()
        work(rows)
        spans.append(time.process_time() - began)
    return statistics.median(spans) / rows


def main() -> None:
    """A line for each predictor."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    common = {"gpu": "A100-SXM-80GB", "n_gpus": "1"}
    llama = common | {"model": "llama-2-7b", "framework": "HF Transformers", "method": "lora", "seq_len": "2048", "precision": "bf16"}
    subjects = {
        "training columns": training(),
        "rows: step time": cases_of(llama | {"metric": "step_time_s"}, "micro_batch", 32),
        "rows: peak memory": cases_of(llama | {"metric": "peak_mem_gib_per_gpu"}, "micro_batch", 32),
        "rows: time per token": cases_of(
            common | {"model": "llama-2-7b", "framework": "vllm", "metric": "tpot_ms", "input_tokens": "512", "output_tokens": "128"},
            "batch_or_concurrency",
            64,
        ),
        "rows: images a second": cases_of(
            {"model": "resnet50", "device": "A100-SXM-80GB", "weights_dtype": "fp16", "metric": "images_per_s"}, "batch_or_concurrency", 500
        ),
    }
    print(f"{'processor time per row':28}{f'{SMALL} rows':>14}{f'{LARGE} rows':>14}{'ratio':>8}")
    for name, work in subjects.items():
        small, large = seconds_per_row(work, SMALL, repeats), seconds_per_row(work, LARGE, repeats)
        print(f"{name:28}{small * 1e6:>11.1f} us{large * 1e6:>11.1f} us{large / small:>8.2f}")


if __name__ == "__main__":
    main()
