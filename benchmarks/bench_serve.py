"""Load on `rightfit serve`: a mixed set of 50 workloads, first never asked before (cold), then
again and again (warm). Needs the extra web and locust.

Usage: python benchmarks/bench_serve.py [--seconds 30] [--workers 2] [--users 8] [--rate 0]
[--new-percent 0] `--rate`: plans a second that are asked for, 0: as many as can be had.
`--new-percent`: share of questions never asked before. Prints JSON: plans/s and percentiles [ms]
cold and warm, and memory of all processes of the server [MB] over time.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORKLOADS: list[dict[str, Any]] = json.loads((HERE / "serve/workloads.json").read_text(encoding="utf-8"))


def ask(address: str, workload: dict[str, Any]) -> float:
    """Milliseconds of one plan."""
    began_s = time.perf_counter()
    request = urllib.request.Request(f"{address}/api/v1/plan", json.dumps(workload).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert answer.status == 200
        answer.read()
    return (time.perf_counter() - began_s) * 1e3


def percentiles(times_ms: list[float]) -> dict[str, float]:
    """Median, 95th, 99th and worst."""
    ordered = sorted(times_ms)
    return {
        name: round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
    }


def memory_mb(pid: int) -> float:
    """Resident memory of a process and its children."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,rss"], capture_output=True, text=True, check=True).stdout.splitlines()[1:]
    rows = [tuple(map(int, line.split())) for line in listed]
    family = {pid}
    for _ in range(4):
        family |= {one for one, parent, _ in rows if parent in family}
    return round(sum(rss for one, _, rss in rows if one in family) / 1024, 1)


def start(workers: int, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A server that is ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "RIGHTFIT_DATA_DIR": str(folder), "PYTHONPATH": str(HERE.parent / "src")}
    command = [sys.executable, "-m", "rightfit", "serve", "--port", str(port), "--workers", str(workers), "--no-page", "--rate", "1000000"]
    server = subprocess.Popen(command, env=environment, stderr=(folder / "log").open("wb"))
    address = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{address}/api/v1/ready", timeout=5)
            return server, address
        except OSError:
            time.sleep(0.1)
    raise SystemExit((folder / "log").read_text())


def cold(address: str, workers: int) -> dict[str, Any]:
    """Every workload once, by as many clients as there are workers."""
    began_s = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        times = list(pool.map(lambda workload: ask(address, workload), WORKLOADS))
    return {"plans": len(times), "plans_per_s": round(len(times) / (time.perf_counter() - began_s), 1), **percentiles(times)}


def fill(address: str, workers: int) -> None:
    """Ask until every worker has seen every workload."""
    with ThreadPoolExecutor(2 * workers) as pool:
        for _ in range(3 * workers):
            list(pool.map(lambda workload: ask(address, workload), WORKLOADS))


def warm(address: str, *, users: int, seconds: int, folder: Path, rate: int, new_percent: float) -> dict[str, Any]:
    """Locust for a while."""
    options = [
        "--headless",
        "-H",
        address,
        "-u",
        str(users),
        "-r",
        "50",
        "-t",
        f"{seconds}s",
        "--csv",
        str(folder / "load"),
        "--only-summary",
    ]
    command = [sys.executable, "-m", "locust", "-f", str(HERE / "serve/locustfile.py"), *options, "--loglevel", "ERROR"]
    environment = {**os.environ, "RIGHTFIT_LOAD_PER_S": str(rate / users), "RIGHTFIT_LOAD_NEW": str(new_percent / 100)}
    subprocess.run(command, check=False, capture_output=True, env=environment)
    with (folder / "load_stats.csv").open(encoding="utf-8") as stream:
        row = next(row for row in csv.DictReader(stream) if row["Name"] == "plan")
    found = {"plans": int(row["Request Count"]), "failures": int(row["Failure Count"]), "plans_per_s": round(float(row["Requests/s"]), 1)}
    return {**found, **{name: float(row[key]) for name, key in (("p50", "50%"), ("p95", "95%"), ("p99", "99%"), ("max", "100%"))}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("seconds", 30), ("workers", 2), ("users", 8), ("rate", 0), ("new-percent", 0.0)):
        parser.add_argument(f"--{name}", type=type(value), default=value)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        server, address = start(given.workers, folder)
        try:
            result: dict[str, Any] = {"workers": given.workers, "users": given.users, "cold_ms": cold(address, given.workers)}
            fill(address, given.workers)
            memory, done = [memory_mb(server.pid)], threading.Event()

            def watch() -> None:
                while not done.wait(max(given.seconds / 20, 1)):
                    memory.append(memory_mb(server.pid))

            watcher = threading.Thread(target=watch)
            watcher.start()
            result["warm_ms"] = warm(
                address, users=given.users, seconds=given.seconds, folder=folder, rate=given.rate, new_percent=given.new_percent
            )
            done.set()
            watcher.join()
            result["memory_mb"] = memory
        finally:
            server.terminate()
            result["exit_code"] = server.wait(30)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
