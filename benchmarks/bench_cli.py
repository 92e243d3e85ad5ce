"""Whole-process figures: cold plan, first use, import, peak memory; beside a rival
where one is installed.

Usage: python benchmarks/bench_cli.py [--runs N] [--rival PATH_TO_tis] The rival is Train-in-Silence
(`pip install train-in-silence==0.1.6` in an environment of its own); the two commands run in turn,
A B A B ..., and the ratio is taken pair by pair, so that it holds when the machine's speed drifts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PLAN = ["plan", "meta-llama/Meta-Llama-3-8B", "--task", "finetune", "--method", "qlora", "--data", "50Mtok"]
OTHERS = {
    "rightfit plan --ask, cold process": ["plan", "--ask", "微调Qwen2.5-7B一万条数据"],
    "rightfit check, cold process": ["check", "T4比A10便宜吗"],
    "rightfit plan of a service": ["plan", "Qwen/Qwen2.5-7B", "--task", "serve", "--rate", "2/s"],
}
"""Timed in turns with the plan, so that their ratios hold on a busy machine."""
RIVAL_REQUEST = """\
workload:
  model: {name: meta-llama/Meta-Llama-3-8B, params: 8030261248, hidden_dim: 4096, num_layers: 32, num_heads: 32, num_kv_heads: 8, vocab_size: 128256}
  training: {method: qlora}
  data: {dataset_tokens: 50000000}
"""


def run_once(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall seconds and peak resident MiB of one process."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(command)} exited with {process.returncode}")
    return wall_s, usage.ru_maxrss / 1024


def report(name: str, runs: list[tuple[float, float]]) -> None:
    """One line: minimum, median, maximum wall time and peak memory."""
    walls, peaks = [run[0] for run in runs], [run[1] for run in runs]
    print(
        f"{name:<34} wall s  min {min(walls):.3f}  median {statistics.median(walls):.3f}  max {max(walls):.3f}   peak MiB {statistics.median(peaks):.0f}"
    )


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--rival", default=shutil.which("tis") or "")
    options = parser.parse_args()
    rightfit = [sys.executable, "-m", "rightfit"]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, RIGHTFIT_CACHE_DIR=folder, PYTHONDONTWRITEBYTECODE="")
        request = Path(folder, "request.yaml")
        request.write_text(RIVAL_REQUEST)
        first = [run_once([*rightfit, *PLAN], dict(environment, RIGHTFIT_CACHE_DIR=f"{folder}/{number}")) for number in range(3)]
        run_once([*rightfit, *PLAN], environment)
        ours, theirs = [], []
        others: dict[str, list[tuple[float, float]]] = {name: [] for name in OTHERS}
        for _ in range(options.runs):
            ours.append(run_once([*rightfit, *PLAN], environment))
            for name, command in OTHERS.items():
                others[name].append(run_once([*rightfit, *command], environment))
            if options.rival:
                theirs.append(run_once([options.rival, "recommend", str(request)], environment))
        bare = [run_once([sys.executable, "-c", "pass"], environment) for _ in range(options.runs)]
        imported = [run_once([sys.executable, "-c", "import rightfit"], environment) for _ in range(options.runs)]
    report("rightfit plan, first use", first)
    report("rightfit plan, cold process", ours)
    for name, runs in others.items():
        report(name, runs)
    report("python -c pass", bare)
    report("python -c 'import rightfit'", imported)
    if theirs:
        report("tis recommend (36 offers)", theirs)
        ratios = [a[0] / b[0] for a, b in zip(ours, theirs, strict=True)]
        print(f"ratio rightfit / tis, pair by pair: min {min(ratios):.2f}  median {statistics.median(ratios):.2f}  max {max(ratios):.2f}")


if __name__ == "__main__":
    main()
