"""Predictions over a big table: one process, processes and Ray with two workers on one table in one
run, and the processor time of whoever hands pieces out.

python benchmarks/bench_ray.py [--rows 50000] [--workers 2]   (needs the extra ray; without it Ray
                                                              is left out)
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import random
import tempfile
import time
from pathlib import Path

from rightfit.spread.pieces import predict_table
from rightfit.spread.places import place_of

MODELS = ("meta-llama/Meta-Llama-3-8B", "Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.1", "7B", "13B", "70B")


def write_cases(path: Path, rows: int) -> None:
    """A table of distinct training cases."""
    draw = random.Random(3)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("id", "metric", "model", "method", "gpu", "n_gpus", "micro_batch", "seq_len", "recompute"))
        for row in range(rows):
            metric, method = draw.choice(("peak_mem_gib_per_gpu", "tokens_per_s_per_gpu")), draw.choice(("full", "lora", "qlora"))
            setting = (draw.choice((1, 8, 16)), draw.randint(1, 16), draw.choice((512, 2048, 4096)), draw.choice(("none", "full")))
            writer.writerow((row, metric, draw.choice(MODELS), method, draw.choice(("A100-SXM-80GB", "H100-SXM", "L40S")), *setting))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases, out, first = Path(folder) / "cases.csv", Path(folder) / "out.csv", b""
        write_cases(cases, asked.rows)
        for on in ("here", "processes", *(("ray",) if importlib.util.find_spec("ray") else ())):
            began, used = time.monotonic(), time.process_time()
            predict_table(cases, out, place=place_of(on, workers=asked.workers))
            seconds, used = time.monotonic() - began, time.process_time() - used
            first = first or out.read_bytes()
            same = "same text" if out.read_bytes() == first else "OTHER TEXT"
            print(
                f"{on:10} {asked.rows:,} rows in {seconds:6.1f} s: {asked.rows / seconds:8,.0f} rows/s, {same}; this process alone {used:.2f} s"
            )


if __name__ == "__main__":
    main()
