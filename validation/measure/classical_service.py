"""Measure what one request to a classical model costs: CPU time of a call with one row and with
many, memory of the model, and the web server around it.

    python classical_service.py measured_classical_service.csv [--only WORD]

Run it with a Python that has scikit-learn, xgboost, lightgbm, catboost, fastapi, uvicorn, httpx
and psutil; rightfit itself is not needed. Every case runs in a fresh process with one thread. CPU
time, not wall time, is kept, and the least of several rounds: others use the machine too. `rows`
are those of one call; `work` counts elementary operations of a row as
estimate/classical_service.py does (trees x depth x outputs, columns x outputs, ...). The line of
the library `fastapi` is a request of `cols` numbers to a service that only sums them: JSON,
validation and HTTP, CPU time of the server.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COLUMNS = [
    "library",
    "version",
    "algorithm",
    "cols",
    "trees",
    "depth",
    "fitted_rows",
    "rows",
    "work",
    "cpu_s",
    "model_mib",
    "loaded_mib",
    "hardware",
]
ROUNDS = 7
HARDWARE = "AMD EPYC Turin (Zen 5), 2 cores of a virtual machine that others use too"
SERVICE = """
from fastapi import FastAPI
from pydantic import BaseModel
class Row(BaseModel):
    features: list[float]
app = FastAPI()
@app.post("/predict")
def predict(row: Row) -> dict[str, float]:
    return {"score": sum(row.features)}
"""


def cases() -> Iterator[dict[str, Any]]:
    """Every case: library, algorithm, cols, trees, depth."""
    for cols in (30, 300):
        for library in ("xgboost", "lightgbm", "catboost"):
            for trees, depth in ((100, 6), (1000, 6), (100, 10)):
                yield {"library": library, "algorithm": "gradient boosting", "cols": cols, "trees": trees, "depth": depth}
        for trees, depth in ((100, 6), (100, 12), (500, 12)):
            yield {"library": "scikit-learn", "algorithm": "random forest", "cols": cols, "trees": trees, "depth": depth}
        yield {"library": "scikit-learn", "algorithm": "hist gradient boosting", "cols": cols, "trees": 100, "depth": 6}
        for algorithm in ("logistic regression", "linear svm", "naive bayes", "kmeans", "pca", "mlp", "svm", "knn"):
            yield {"library": "scikit-learn", "algorithm": algorithm, "cols": cols, "trees": 0, "depth": 0}
    for cols in (10, 30, 100, 300, 1000):
        yield {"library": "fastapi", "algorithm": "request", "cols": cols, "trees": 0, "depth": 0}


def main() -> None:
    """Measure what the output does not have yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--case", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        json.dump(measure(json.loads(options.case)), sys.stdout)
        return
    done = set()
    if options.out.exists():
        with options.out.open(newline="") as lines:
            done = {tuple(row[name] for name in ("library", "algorithm", "cols", "trees", "depth")) for row in csv.DictReader(lines)}
    for case in cases():
        key = tuple(str(case[name]) for name in ("library", "algorithm", "cols", "trees", "depth"))
        if key not in done and options.only in " ".join(key):
            append(options.out, run(case))


def run(case: dict[str, Any]) -> list[dict[str, Any]]:
    """One case in a fresh process of one thread."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, "1")}
    command = [sys.executable, __file__, "unused.csv", "--case", json.dumps(case)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if found.returncode:
        sys.stderr.write(f"{case}: {found.stderr.strip().splitlines()[-1]}\n")
        return []
    return list(json.loads(found.stdout))


def append(out: Path, rows: list[dict[str, Any]]) -> None:
    """Add lines to the table."""
    fresh = not out.exists()
    with out.open("a", newline="") as target:
        writer = csv.DictWriter(target, COLUMNS)
        if fresh:
            writer.writeheader()
        writer.writerows(rows)


def measure(case: dict[str, Any]) -> list[dict[str, Any]]:
    """CPU seconds of a call with 1, 100 and 10,000 rows."""
    return _service(case) if case["library"] == "fastapi" else _library(case)


def _library(case: dict[str, Any]) -> list[dict[str, Any]]:
    import numpy as np
    import psutil

    rng = np.random.default_rng(0)
    fitted = 2000 if case["algorithm"] in ("svm", "knn") else 20000
    table = rng.standard_normal((fitted, case["cols"]), dtype=np.float32)
    labels = (table[:, 0] + table[:, 1] + rng.standard_normal(fitted) > 0).astype(int)
    before = psutil.Process().memory_info().rss
    model, call, work = build(case, table, labels)
    loaded = psutil.Process().memory_info().rss
    size = _size(model)
    common = {name: case[name] for name in ("library", "algorithm", "cols", "trees", "depth")}
    common |= {"version": _version(case["library"]), "fitted_rows": fitted, "work": f"{work:g}", "hardware": HARDWARE}
    common |= {"model_mib": f"{size / 2**20:.3f}", "loaded_mib": f"{(loaded - before) / 2**20:.1f}"}
    sample = rng.standard_normal((10000, case["cols"]), dtype=np.float32)
    return [{**common, "rows": count, "cpu_s": f"{_least(call, sample[:count]):.4g}"} for count in (1, 100, 10000)]


def _least(call: Callable[[Any], object], rows: Any) -> float:
    """The least CPU time of a call over several rounds of about a fifth of a second."""
    call(rows)
    start = time.process_time()
    call(rows)
    count = max(1, min(500, int(0.2 / max(time.process_time() - start, 1e-6))))
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(count):
            call(rows)
        rounds.append((time.process_time() - start) / count)
    return min(rounds)


def build(case: dict[str, Any], table: Any, labels: Any) -> tuple[Any, Callable[[Any], object], float]:
    """A fitted model, the call that scores rows, and the operations of one row."""
    kind, trees, depth, cols = case["algorithm"], case["trees"], case["depth"], case["cols"]
    if case["library"] == "xgboost":
        import xgboost

        model: Any = xgboost.XGBClassifier(n_estimators=trees, max_depth=depth, tree_method="hist", n_jobs=1).fit(table, labels)
        return model, model.predict_proba, trees * depth
    if case["library"] == "lightgbm":
        import lightgbm

        model = lightgbm.LGBMClassifier(n_estimators=trees, max_depth=depth, num_leaves=2**depth - 1, n_jobs=1, verbose=-1).fit(
            table, labels
        )
        return model, model.predict_proba, trees * depth
    if case["library"] == "catboost":
        import catboost

        model = catboost.CatBoostClassifier(iterations=trees, depth=depth, thread_count=1, verbose=0, allow_writing_files=False).fit(
            table, labels
        )
        return model, lambda rows: model.predict_proba(rows, thread_count=1), trees * depth
    return _scikit(kind, table, labels, trees=trees, depth=depth, cols=cols)


def _scikit(kind: str, table: Any, labels: Any, *, trees: int, depth: int, cols: int) -> tuple[Any, Callable[[Any], object], float]:
    from sklearn import cluster, decomposition, ensemble, linear_model, naive_bayes, neighbors, neural_network, svm

    rows = table.shape[0]
    if kind == "random forest":
        model: Any = ensemble.RandomForestClassifier(n_estimators=trees, max_depth=depth, n_jobs=1).fit(table, labels)
        return model, model.predict_proba, trees * depth
    if kind == "hist gradient boosting":
        model = ensemble.HistGradientBoostingClassifier(max_iter=trees, max_depth=depth, early_stopping=False).fit(table, labels)
        return model, model.predict_proba, trees * depth
    made: dict[str, Callable[[], tuple[Any, str, float]]] = {
        "logistic regression": lambda: (linear_model.LogisticRegression(), "predict_proba", cols),
        "linear svm": lambda: (svm.LinearSVC(), "predict", cols),
        "naive bayes": lambda: (naive_bayes.GaussianNB(), "predict_proba", 2 * cols),
        "kmeans": lambda: (cluster.KMeans(8, n_init=1), "predict", 8 * cols),
        "pca": lambda: (decomposition.PCA(10), "transform", 10 * cols),
        "mlp": lambda: (neural_network.MLPClassifier((100,), max_iter=5), "predict_proba", 100 * cols + 200),
        "svm": lambda: (svm.SVC(), "predict", 0.0),
        "knn": lambda: (neighbors.KNeighborsClassifier(algorithm="brute"), "predict", rows * cols),
    }
    import warnings

    model, method, work = made[kind]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(table, labels)
    if kind == "svm":
        work = float(model.support_vectors_.size)
    return model, getattr(model, method), work


def _size(model: Any) -> int:
    import pickle

    return len(pickle.dumps(model))


def _version(library: str) -> str:
    from importlib.metadata import version

    return version(library)


def _service(case: dict[str, Any]) -> list[dict[str, Any]]:
    """CPU seconds of the server for one request, over one kept connection."""
    import socket
    import tempfile

    import httpx
    import psutil

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "service.py").write_text(SERVICE)
        command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port), "--log-level", "error"]
        server = subprocess.Popen(command, cwd=folder)
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
                _wait(client)
                body = {"features": [float(at) / 7.0 for at in range(case["cols"])]}
                process, rounds = psutil.Process(server.pid), []
                for _ in range(ROUNDS):
                    start = sum(process.cpu_times()[:2])
                    for _ in range(400):
                        client.post("/predict", json=body).raise_for_status()
                    rounds.append((sum(process.cpu_times()[:2]) - start) / 400)
                memory = process.memory_info().rss
        finally:
            server.terminate()
            server.wait()
    common = {name: case[name] for name in ("library", "algorithm", "cols", "trees", "depth")}
    common |= {"version": _version("fastapi"), "fitted_rows": 0, "rows": 1, "work": case["cols"], "hardware": HARDWARE, "model_mib": 0}
    return [{**common, "cpu_s": f"{min(rounds):.4g}", "loaded_mib": f"{memory / 2**20:.1f}"}]


def _wait(client: Any) -> None:
    for _ in range(100):
        try:
            client.get("/docs")
        except OSError:
            time.sleep(0.1)
        except Exception:
            time.sleep(0.1)
        else:
            return


if __name__ == "__main__":
    if platform.system() != "Linux":
        sys.exit("CPU time of another process is read as Linux counts it")
    main()
