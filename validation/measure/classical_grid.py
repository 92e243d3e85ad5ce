"""Measure classical machine learning and data preparation with the real libraries: time, CPU time
and peak resident memory.

    python classical_grid.py measured_classical.csv [--only WORD] [--repeats 2] [--timeout 90]

Run it with a Python that has scikit-learn, xgboost, lightgbm, catboost, umap-learn, pandas, polars,
duckdb, pyarrow, tokenizers, Pillow and OpenCV; rightfit itself is not needed. Each case runs in a
fresh process, `repeats` times, and the least wall time, CPU time and peak of them is kept: on a
machine that others use too the least is the closest to the truth, and with one thread the CPU time
is closer still.
Data are standard normal float32 (trees then never run out of splits), labels a noisy linear rule.
The peak is that of the resident set during the call, data and imported libraries included (the
kernel's high-water mark, reset just before). `before_mib` is the resident set before the call.
Lines already in the output are not measured again.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

COLUMNS = [
    "task",
    "library",
    "version",
    "algorithm",
    "rows",
    "cols",
    "threads",
    "settings",
    "wall_s",
    "cpu_s",
    "peak_mib",
    "before_mib",
    "imported_mib",
    "bytes_in",
    "hardware",
]


def cases() -> Iterator[dict[str, Any]]:
    """Every case: task, library, algorithm, rows, cols, threads, settings."""
    for threads in (1, 2):
        yield from _tree_cases(threads)
        yield from _other_cases(threads)
        yield from _table_cases(threads)
    yield from _text_and_image_cases()


def _case(task: str, library: str, algorithm: str, rows: float, cols: int, threads: int, **settings: Any) -> dict[str, Any]:
    return {
        "task": task,
        "library": library,
        "algorithm": algorithm,
        "rows": int(rows),
        "cols": cols,
        "threads": threads,
        "settings": settings,
    }


def _tree_cases(threads: int) -> Iterator[dict[str, Any]]:
    shapes = [(1e4, 20), (1e5, 20), (1e5, 100), (1e6, 20)] if threads == 1 else [(1e5, 20), (1e6, 20)]
    for rows, cols in shapes:
        trees = 20 if rows * cols > 5e6 else 50
        for library in ("xgboost", "lightgbm", "catboost", "scikit-learn"):
            yield _case("train", library, "gradient boosting", rows, cols, threads, trees=trees, depth=6, leaves=31)
    for rows, trees in ((1e5, 20), (1e6, 10)) if threads == 1 else ((1e6, 10),):
        for library in ("xgboost", "lightgbm", "catboost"):
            yield _case("train", library, "gradient boosting", rows, 8, threads, trees=trees, depth=10, leaves=512, categorical=6)
        if threads == 1 and rows < 1e6:
            for algorithm in ("logistic regression", "random forest"):
                yield _case("train", "scikit-learn", algorithm, rows, 8, threads, trees=5, categorical=6)
    if threads == 1:
        for library in ("xgboost", "lightgbm", "catboost", "scikit-learn"):
            yield _case("train", library, "gradient boosting", 1e5, 20, threads, trees=20, depth=10, leaves=255)
            yield _case("train", library, "gradient boosting", 1e5, 20, threads, trees=10, depth=6, leaves=31, classes=5)
            yield _case("train", library, "gradient boosting", 3e6, 10, threads, trees=10, depth=6, leaves=31)
            yield _case("predict", library, "gradient boosting", 1e5, 20, threads, trees=50, depth=6, leaves=31)
        for rows, cols, trees in ((1e4, 20, 20), (1e5, 20, 5), (1e5, 100, 2), (5e5, 20, 1)):
            yield _case("train", "scikit-learn", "random forest", rows, cols, threads, trees=trees)
            yield _case("train", "scikit-learn", "extra trees", rows, cols, threads, trees=trees)
        yield _case("train", "scikit-learn", "random forest", 1e5, 20, threads, trees=10, depth=8)
        yield _case("train", "scikit-learn", "gradient boosting exact", 1e4, 20, threads, trees=20, depth=6)
        yield _case("train", "scikit-learn", "gradient boosting exact", 5e4, 20, threads, trees=10, depth=3)
        yield _case("train", "scikit-learn", "decision tree", 1e5, 20, threads)
        yield _case("train", "scikit-learn", "isolation forest", 1e5, 20, threads, trees=100)
        yield _case("predict", "scikit-learn", "random forest", 1e5, 20, threads, trees=10)


def _other_cases(threads: int) -> Iterator[dict[str, Any]]:
    for rows, cols in ((1e4, 100), (1e5, 20), (1e5, 200), (1e6, 20)) if threads == 1 else ((1e5, 200),):
        for algorithm in ("logistic regression", "linear regression", "ridge", "k-means", "pca"):
            yield _case("train", "scikit-learn", algorithm, rows, cols, threads, k=16)
    if threads != 1:
        return
    for rows, cols in ((1e5, 20), (1e6, 20), (1e5, 200)):
        for algorithm in ("naive bayes", "sgd", "standard scaler", "mini-batch k-means"):
            yield _case("train", "scikit-learn", algorithm, rows, cols, threads, k=16)
    for rows, cols in ((2e3, 20), (5e3, 20), (1e4, 20), (5e3, 200)):
        yield _case("train", "scikit-learn", "svm rbf", rows, cols, threads)
    for rows, cols in ((1e4, 20), (1e5, 20), (2e4, 200)):
        yield _case("train", "scikit-learn", "linear svm", rows, cols, threads)
        yield _case("train", "scikit-learn", "lasso", rows, cols, threads)
        yield _case("train", "scikit-learn", "randomized svd", rows, cols, threads, k=10)
    for rows, cols in ((5e3, 20), (2e4, 20), (2e4, 100)):
        for algorithm in ("knn brute", "knn tree", "dbscan"):
            yield _case("train", "scikit-learn", algorithm, rows, cols, threads, k=10)
    for rows, cols in ((2e3, 50), (6e3, 50)):
        yield _case("train", "scikit-learn", "t-sne", rows, cols, threads)
    for rows, cols in ((3e3, 50), (1e4, 50), (3e4, 50)):
        yield _case("train", "umap-learn", "umap", rows, cols, threads, k=15)
    for rows, cols in ((1e4, 10), (3e4, 10)):
        yield _case("train", "hdbscan", "hdbscan", rows, cols, threads)
    yield _case("train", "scikit-learn", "mlp", 1e5, 20, threads, iterations=3)


OPERATIONS = ("csv-read", "csv-to-parquet", "parquet-read", "filter", "group", "join", "sort", "dedup", "features", "shuffle", "one-hot")


def _table_cases(threads: int) -> Iterator[dict[str, Any]]:
    for library in ("pandas", "polars", "duckdb", "pyarrow"):
        for operation in OPERATIONS:
            if (library, operation) in UNSUPPORTED:
                continue
            for rows in (3e5, 1.5e6) if threads == 1 else (1.5e6,):
                if threads == 1 or library != "pandas":
                    yield _case("prepare", library, operation, rows, 12, threads)


UNSUPPORTED = {("pyarrow", "features"), ("pyarrow", "one-hot"), ("pyarrow", "dedup"), ("duckdb", "one-hot"), ("pyarrow", "shuffle")}


def _text_and_image_cases() -> Iterator[dict[str, Any]]:
    for threads in (1, 2):
        for algorithm in ("bpe", "wordpiece"):
            yield _case("prepare", "tokenizers", f"tokenize {algorithm}", 2e7, 1, threads)
    yield _case("prepare", "tokenizers", "train tokenizer", 2e7, 1, 1)
    yield _case("prepare", "hashlib", "dedup text exact", 2e7, 1, 1)
    yield _case("prepare", "numpy", "dedup text minhash", 2e6, 1, 1)
    yield _case("prepare", "python", "filter text", 2e7, 1, 1)
    for library in ("pillow", "opencv"):
        for operation in ("decode", "resize", "augment", "encode"):
            for side in (400, 1600):
                yield _case("prepare", library, f"{operation} image", 200 if side == 400 else 20, side, 1)


# ---------------------------------------------------------------- one case, in its own process


def _dense(rows: int, cols: int, kind: str = "float32") -> Any:
    import numpy as np

    rng = np.random.default_rng(1)
    data = np.empty((rows, cols), dtype=kind)
    for start in range(0, rows, 50_000):
        data[start : start + 50_000] = rng.standard_normal((min(50_000, rows - start), cols), dtype=np.float32)
    return data


def _labels(data: Any, classes: int) -> Any:
    import numpy as np

    score = data[:, 0] + 0.5 * data[:, 1] + np.random.default_rng(2).standard_normal(len(data), dtype=np.float32)
    return np.digitize(score, np.quantile(score[:10_000], np.arange(1, classes) / classes)).astype(np.int32)


def _boosting(case: dict[str, Any]) -> Any:
    s, threads = case["settings"], case["threads"]
    if case["library"] == "xgboost":
        import xgboost

        return xgboost.XGBClassifier(n_estimators=s["trees"], max_depth=s["depth"], tree_method="hist", n_jobs=threads, learning_rate=0.1)
    if case["library"] == "lightgbm":
        import lightgbm

        return lightgbm.LGBMClassifier(n_estimators=s["trees"], num_leaves=s["leaves"], n_jobs=threads, verbose=-1)
    if case["library"] == "catboost":
        import catboost

        return catboost.CatBoostClassifier(
            iterations=s["trees"], depth=s["depth"], thread_count=threads, verbose=False, allow_writing_files=False
        )
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=s["trees"], max_leaf_nodes=s["leaves"], early_stopping=False)


def _estimator(case: dict[str, Any]) -> Any:
    from sklearn import cluster, decomposition, ensemble, linear_model, manifold, naive_bayes, neural_network, preprocessing, svm, tree

    s, threads, k = case["settings"], case["threads"], case["settings"].get("k", 8)
    forest = {"n_estimators": s.get("trees", 10), "n_jobs": threads, "max_depth": s.get("depth")}
    makers: dict[str, Callable[[], Any]] = {
        "random forest": lambda: ensemble.RandomForestClassifier(**forest),
        "extra trees": lambda: ensemble.ExtraTreesClassifier(**forest),
        "isolation forest": lambda: ensemble.IsolationForest(n_estimators=s["trees"], n_jobs=threads),
        "decision tree": lambda: tree.DecisionTreeClassifier(),
        "gradient boosting exact": lambda: ensemble.GradientBoostingClassifier(n_estimators=s["trees"], max_depth=s["depth"]),
        "logistic regression": lambda: linear_model.LogisticRegression(),
        "linear regression": lambda: linear_model.LinearRegression(),
        "ridge": lambda: linear_model.Ridge(),
        "lasso": lambda: linear_model.Lasso(alpha=0.01),
        "sgd": lambda: linear_model.SGDClassifier(max_iter=5, tol=None),
        "linear svm": lambda: svm.LinearSVC(),
        "svm rbf": lambda: svm.SVC(),
        "k-means": lambda: cluster.KMeans(k, n_init=1, max_iter=20, tol=0.0),
        "mini-batch k-means": lambda: cluster.MiniBatchKMeans(k, n_init=1),
        "pca": lambda: decomposition.PCA(min(k, case["cols"])),
        "randomized svd": lambda: decomposition.TruncatedSVD(min(k, case["cols"])),
        "naive bayes": lambda: naive_bayes.GaussianNB(),
        "standard scaler": lambda: preprocessing.StandardScaler(),
        "dbscan": lambda: cluster.DBSCAN(eps=1.0, n_jobs=threads),
        "t-sne": lambda: manifold.TSNE(n_jobs=threads),
        "mlp": lambda: neural_network.MLPClassifier((200, 200), max_iter=s["iterations"]),
    }
    return makers[case["algorithm"]]()


_LEVELS = (12, 31, 7, 22, 300, 300)  # of the categorical columns of flight records: month, day, weekday, carrier, two airports


def _categorical(case: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    """Two numbers and six categories: one-hot sparse for XGBoost and scikit-learn, native for
    LightGBM and CatBoost."""
    import numpy as np
    import pandas as pd

    rng, rows = np.random.default_rng(5), case["rows"]
    codes = [rng.integers(0, levels, rows).astype(np.int32) for levels in _LEVELS]
    numbers = _dense(rows, 2)
    effects = sum(rng.standard_normal(levels)[code] for levels, code in zip(_LEVELS, codes, strict=True))
    labels = (effects + numbers[:, 0] + rng.standard_normal(rows) > 0).astype(np.int32)
    model = _boosting(case) if case["algorithm"] == "gradient boosting" else _estimator(case)
    if case["library"] in ("xgboost", "scikit-learn"):
        from scipy import sparse

        offsets = np.concatenate([[0], np.cumsum(_LEVELS)])
        columns = np.stack(
            [code + offset + 2 for code, offset in zip(codes, offsets[:-1], strict=True)] + [np.full(rows, 0), np.full(rows, 1)], axis=1
        )
        values = np.concatenate([np.ones((rows, 6), dtype=np.float32), numbers], axis=1)
        starts = np.arange(0, rows * 8 + 1, 8)
        data = sparse.csr_matrix((values.ravel(), columns.ravel().astype(np.int32), starts), shape=(rows, 2 + sum(_LEVELS)))
        return (lambda: model.fit(data, labels)), rows * 8 * 8
    names = [f"c{i}" for i in range(6)]
    frame = pd.DataFrame(dict(zip(names, codes, strict=True)) | {"x0": numbers[:, 0], "x1": numbers[:, 1]})
    if case["library"] == "lightgbm":
        frame = frame.astype(dict.fromkeys(names, "category"))
        model.set_params(max_depth=case["settings"]["depth"])
        return (lambda: model.fit(frame, labels)), rows * 32
    return (lambda: model.fit(frame, labels, cat_features=names)), rows * 32


def _learning(case: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    if case["settings"].get("categorical"):
        return _categorical(case)
    data = _dense(case["rows"], case["cols"])
    labels = _labels(data, case["settings"].get("classes", 2))
    algorithm = case["algorithm"]
    if algorithm.startswith("knn"):
        from sklearn.neighbors import NearestNeighbors

        finder = NearestNeighbors(n_neighbors=10, algorithm="brute" if "brute" in algorithm else "kd_tree", n_jobs=case["threads"])
        return (lambda: finder.fit(data).kneighbors(data)), data.nbytes
    if algorithm == "umap":
        import umap

        reducer = umap.UMAP(n_neighbors=15, n_jobs=case["threads"])
        umap.UMAP(n_neighbors=5, n_epochs=2).fit(data[:200])  # compiles
        return (lambda: reducer.fit(data)), data.nbytes
    if algorithm == "hdbscan":
        import hdbscan

        return (lambda: hdbscan.HDBSCAN(core_dist_n_jobs=case["threads"]).fit(data)), data.nbytes
    model = _boosting(case) if algorithm == "gradient boosting" else _estimator(case)
    if case["task"] == "predict":
        model.fit(data[:20_000], labels[:20_000])
        return (lambda: model.predict(data)), data.nbytes
    return (lambda: model.fit(data, labels)), data.nbytes


def _table(rows: int) -> Any:
    """Twelve columns as in event logs: keys, categories, short text, measurements. About 110
    bytes a row as CSV."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(3)
    words = np.array([f"category-{i:03d}" for i in range(200)])
    columns: dict[str, Any] = {"id": np.arange(rows), "user": rng.integers(0, max(rows // 20, 1), rows), "day": rng.integers(0, 365, rows)}
    columns |= {"name": words[rng.integers(0, 200, rows)], "kind": words[rng.integers(0, 10, rows)]}
    columns |= {f"x{i}": rng.standard_normal(rows).round(5) for i in range(7)}
    return pd.DataFrame(columns)


def _tabular(case: dict[str, Any], folder: Path) -> tuple[Callable[[], Any], int]:
    rows, library, operation = case["rows"], case["library"], case["algorithm"]
    text, packed, out = folder / f"t{rows}.csv", folder / f"t{rows}.parquet", folder / f"out-{library}.parquet"
    if not packed.exists():
        maker = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import classical_grid as g; t = g._table({rows}); t.to_csv({str(text)!r}, index=False); t.to_parquet({str(packed)!r})"
        subprocess.run([sys.executable, "-c", maker], check=True)
    functions = {"pandas": _pandas, "polars": _polars, "duckdb": _duckdb, "pyarrow": _pyarrow}
    work = functions[library](operation, text, packed, out, case["threads"])
    size = text.stat().st_size if operation.startswith("csv") else packed.stat().st_size
    return work, size if operation in ("csv-read", "csv-to-parquet", "parquet-read") else _held_bytes(rows)


def _held_bytes(rows: int) -> int:
    """Bytes of the table in memory: ten numbers of 8 bytes and two texts of 12
    with offsets of 8."""
    return rows * (10 * 8 + 2 * (12 + 8))


def _pandas(operation: str, text: Path, packed: Path, out: Path, threads: int) -> Callable[[], Any]:
    import pandas as pd

    if operation == "csv-read":
        return lambda: pd.read_csv(text)
    if operation == "csv-to-parquet":
        return lambda: pd.read_csv(text).to_parquet(out)
    if operation == "parquet-read":
        return lambda: pd.read_parquet(packed)
    frame = pd.read_parquet(packed)
    return {
        "filter": lambda: frame[frame.x0 > 0],
        "group": lambda: frame.groupby(["user", "kind"]).agg({"x0": "mean", "x1": "sum", "x2": "max"}),
        "join": lambda: frame.merge(frame.groupby("user").x0.mean().rename("m").reset_index(), on="user"),
        "sort": lambda: frame.sort_values(["user", "x0"]),
        "dedup": lambda: frame.drop_duplicates(["user", "day"]),
        "shuffle": lambda: frame.sample(frac=1.0, random_state=1),
        "one-hot": lambda: pd.get_dummies(frame, columns=["name", "kind"]),
        "features": lambda: frame.assign(
            r=frame.x0 / frame.x1, s=frame.x2 * frame.x3, z=(frame.x4 - frame.x4.mean()) / frame.x4.std(), u=frame.name.str.upper()
        ),
    }[operation]


def _polars(operation: str, text: Path, packed: Path, out: Path, threads: int) -> Callable[[], Any]:
    import polars as pl

    if operation == "csv-read":
        return lambda: pl.read_csv(text)
    if operation == "csv-to-parquet":
        return lambda: pl.read_csv(text).write_parquet(out)
    if operation == "parquet-read":
        return lambda: (
            pl.read_parquet(packed, memory_map=False) if "memory_map" in pl.read_parquet.__code__.co_varnames else pl.read_parquet(packed)
        )
    frame, c = pl.read_parquet(packed), pl.col
    return {
        "filter": lambda: frame.filter(c("x0") > 0),
        "group": lambda: frame.group_by("user", "kind").agg(c("x0").mean(), c("x1").sum(), c("x2").max()),
        "join": lambda: frame.join(frame.group_by("user").agg(c("x0").mean().alias("m")), on="user"),
        "sort": lambda: frame.sort("user", "x0"),
        "dedup": lambda: frame.unique(["user", "day"]),
        "shuffle": lambda: frame.sample(fraction=1.0, shuffle=True, seed=1),
        "one-hot": lambda: frame.to_dummies(["name", "kind"]),
        "features": lambda: frame.with_columns(
            (c("x0") / c("x1")).alias("r"),
            (c("x2") * c("x3")).alias("s"),
            ((c("x4") - c("x4").mean()) / c("x4").std()).alias("z"),
            c("name").str.to_uppercase().alias("u"),
        ),
    }[operation]


def _duckdb(operation: str, text: Path, packed: Path, out: Path, threads: int) -> Callable[[], Any]:
    import duckdb

    base = duckdb.connect()
    base.execute(f"SET threads TO {threads}")
    if operation == "csv-read":
        return lambda: base.execute(f"CREATE TABLE t AS SELECT * FROM read_csv('{text}')")
    if operation == "csv-to-parquet":
        return lambda: base.execute(f"COPY (SELECT * FROM read_csv('{text}')) TO '{out}' (FORMAT parquet)")
    if operation == "parquet-read":
        return lambda: base.execute(f"CREATE TABLE t AS SELECT * FROM '{packed}'")
    base.execute(f"CREATE TABLE t AS SELECT * FROM '{packed}'")
    query = {
        "filter": "SELECT * FROM t WHERE x0 > 0",
        "group": 'SELECT "user", kind, avg(x0) a, sum(x1) b, max(x2) c FROM t GROUP BY ALL',
        "join": 'SELECT t.*, m FROM t JOIN (SELECT "user", avg(x0) m FROM t GROUP BY ALL) s ON t."user" = s."user"',
        "sort": 'SELECT * FROM t ORDER BY "user", x0',
        "dedup": 'SELECT DISTINCT ON ("user", day) * FROM t',
        "shuffle": "SELECT * FROM t ORDER BY random()",
        "features": "SELECT *, x0 / x1 r, x2 * x3 s, (x4 - avg(x4) OVER ()) / stddev(x4) OVER () z, upper(name) u FROM t",
    }[operation]
    return lambda: base.execute(f"CREATE TABLE o AS {query}")


def _pyarrow(operation: str, text: Path, packed: Path, out: Path, threads: int) -> Callable[[], Any]:
    import pyarrow.compute as pc
    import pyarrow.csv
    import pyarrow.parquet as pq

    if operation == "csv-read":
        return lambda: pyarrow.csv.read_csv(text)
    if operation == "csv-to-parquet":
        return lambda: pq.write_table(pyarrow.csv.read_csv(text), out)
    if operation == "parquet-read":
        return lambda: pq.read_table(packed)
    frame = pq.read_table(packed)
    return {
        "filter": lambda: frame.filter(pc.greater(frame["x0"], 0)),
        "group": lambda: frame.group_by(["user", "kind"]).aggregate([("x0", "mean"), ("x1", "sum"), ("x2", "max")]),
        "join": lambda: frame.join(frame.group_by("user").aggregate([("x0", "mean")]), "user"),
        "sort": lambda: frame.sort_by([("user", "ascending"), ("x0", "ascending")]),
    }[operation]


def _corpus(size: int) -> list[str]:
    """English-like text of `size` bytes from the documentation strings of installed packages, in
    documents of about 2 kB."""
    import sysconfig

    parts, total = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "test" in path.parts or "encodings" in path.parts:
            continue
        for found in re.findall(r'"""(.{80,}?)"""', path.read_text(encoding="utf-8", errors="ignore"), re.S):
            parts.append(found)
            total += len(found)
    joined = "\n".join(parts)
    joined = (joined * (size // len(joined) + 1))[:size]
    return [joined[i : i + 2000] for i in range(0, len(joined), 2000)]


def _textual(case: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    import hashlib

    documents, operation = _corpus(case["rows"]), case["algorithm"]
    size = sum(len(document.encode()) for document in documents)
    if operation in ("tokenize bpe", "tokenize wordpiece", "train tokenizer"):
        import tokenizers
        from tokenizers import models, pre_tokenizers, trainers

        word = operation.endswith("wordpiece")
        model = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]") if word else models.BPE())
        model.pre_tokenizer = pre_tokenizers.BertPreTokenizer() if word else pre_tokenizers.ByteLevel()
        trainer = trainers.WordPieceTrainer(vocab_size=30_000, special_tokens=["[UNK]"]) if word else trainers.BpeTrainer(vocab_size=30_000)
        if operation == "train tokenizer":
            return (lambda: model.train_from_iterator(documents, trainer)), size
        model.train_from_iterator(documents[:2000], trainer)
        return (lambda: [len(e.ids) for i in range(0, len(documents), 1000) for e in model.encode_batch(documents[i : i + 1000])]), size
    if operation == "dedup text exact":
        return (lambda: len({hashlib.sha1(document.encode()).digest() for document in documents})), size
    if operation == "filter text":
        alphabetic = re.compile(r"[A-Za-z]+")
        return (lambda: [d for d in documents if len(alphabetic.findall(d)) > 50 and d.count("http") < 5]), size
    return (lambda: [_minhash(document) for document in documents]), size


def _minhash(document: str, permutations: int = 128) -> Any:
    import zlib

    import numpy as np

    words = document.split()
    shingles = np.array([zlib.crc32(" ".join(words[i : i + 5]).encode()) for i in range(max(len(words) - 4, 1))], dtype=np.uint64)
    rng = np.random.default_rng(1)
    a, b = rng.integers(1, 2**31, permutations, dtype=np.uint64), rng.integers(0, 2**31, permutations, dtype=np.uint64)
    return ((shingles[:, None] * a + b) % np.uint64(2**31 - 1)).min(axis=0)


def _pictures(case: dict[str, Any]) -> tuple[Callable[[], Any], int]:
    import io

    import cv2
    import numpy as np
    from PIL import Image

    count, side, library, operation = case["rows"], case["cols"], case["library"], case["algorithm"].split()[0]
    rng = np.random.default_rng(4)
    shape = (side, side * 5 // 4, 3)
    coarse = rng.integers(0, 255, (side // 8, side * 5 // 32, 3)).astype(np.uint8)
    smooth = cv2.resize(coarse, (shape[1], shape[0]), interpolation=cv2.INTER_CUBIC).astype(np.int16)
    image = np.clip(smooth + rng.normal(0, 6, shape), 0, 255).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=90)
    coded, picture = buffer.getvalue(), Image.fromarray(image)
    cv2.setNumThreads(1)
    crop = image[side // 8 : side, side // 8 : side]

    def finish(part: Any) -> Any:
        return (np.ascontiguousarray(part[:, ::-1]).astype(np.float32) / 255.0 - 0.45) / 0.22

    pillow = {
        "decode": lambda: Image.open(io.BytesIO(coded)).convert("RGB"),
        "resize": lambda: picture.resize((224, 224), Image.BILINEAR),
        "augment": lambda: finish(np.asarray(Image.fromarray(crop).resize((224, 224), Image.BILINEAR))),
        "encode": lambda: picture.save(io.BytesIO(), "JPEG", quality=90),
    }
    opencv = {
        "decode": lambda: cv2.imdecode(np.frombuffer(coded, np.uint8), cv2.IMREAD_COLOR),
        "resize": lambda: cv2.resize(image, (224, 224)),
        "augment": lambda: finish(cv2.resize(crop, (224, 224))),
        "encode": lambda: cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 90]),
    }
    once = (pillow if library == "pillow" else opencv)[operation]
    return (lambda: [once() for _ in range(count)] and None), len(coded) * count


def _status_mib(field: str) -> float:
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))
    assert found
    return float(found[1]) / 1024.0


def _versions(library: str) -> str:
    from importlib import metadata

    package = {"opencv": "opencv-python-headless", "hashlib": "", "python": ""}.get(library, library)
    return metadata.version(package) if package else platform.python_version()


def run_one(case: dict[str, Any], folder: Path) -> dict[str, float]:
    """Prepare and run one case here; seconds, CPU seconds and the peak during the call."""
    algorithm = case["algorithm"]
    if case["library"] in ("pandas", "polars", "duckdb", "pyarrow"):
        work, size = _tabular(case, folder)
    elif algorithm.endswith("image"):
        work, size = _pictures(case)
    elif case["task"] == "prepare":
        work, size = _textual(case)
    else:
        work, size = _learning(case)
    before = _status_mib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    cpu, wall = time.process_time(), time.perf_counter()
    kept = work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = _status_mib("VmHWM")
    del kept
    return {
        "wall_s": wall,
        "cpu_s": cpu,
        "peak_mib": peak,
        "before_mib": before,
        "bytes_in": float(size),
        "imported_mib": before - size / 2**20,
    }


def _measure(case: dict[str, Any], *, repeats: int, timeout: float, folder: Path) -> dict[str, Any] | str:
    threads = str(case["threads"])
    names = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMBA_NUM_THREADS POLARS_MAX_THREADS RAYON_NUM_THREADS ARROW_NUM_THREADS LOKY_MAX_CPU_COUNT"
    environment = os.environ | dict.fromkeys(names.split(), threads) | {"TOKENIZERS_PARALLELISM": "true", "PYTHONWARNINGS": "ignore"}
    found: list[dict[str, float]] = []
    for _ in range(repeats):
        command = [sys.executable, __file__, "--one", json.dumps(case), "--folder", str(folder)]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            return "timeout"
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return {name: min(one[name] for one in found) for name in found[0]}


def _hardware() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    name, family = re.search(r"model name\s*: (.*)", text), re.search(r"cpu family\s*: (\d+)", text)
    kind = " Turin (Zen 5)" if name and "AMD" in name[1] and family and family[1] == "26" else ""
    return f"{name[1] if name else 'unknown'}{kind}, {os.cpu_count()} cores of a virtual machine that others use too"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--one")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/classical_grid"))
    parser.add_argument("--only", default="")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=90.0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    if arguments.one:
        print(json.dumps(run_one(json.loads(arguments.one), arguments.folder)))
        return
    new = not arguments.output.exists()
    done = set()
    if not new:
        with arguments.output.open(encoding="utf-8") as stream:
            done = {
                tuple(row[c] for c in ("task", "library", "algorithm", "rows", "cols", "threads", "settings"))
                for row in csv.DictReader(stream)
            }
    with arguments.output.open("a", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if new:
            writer.writeheader()
        for case in cases():
            settings = ", ".join(f"{value} {name}" if name != "depth" else f"depth {value}" for name, value in case["settings"].items())
            key = (case["task"], case["library"], case["algorithm"], str(case["rows"]), str(case["cols"]), str(case["threads"]), settings)
            if key in done or (arguments.only and arguments.only not in " ".join(key)):
                continue
            result = _measure(case, repeats=arguments.repeats, timeout=arguments.timeout, folder=arguments.folder)
            if isinstance(result, str):
                print("left out:", *key, result, file=sys.stderr, flush=True)
                continue
            numbers = {name: f"{value:.4g}" if name != "bytes_in" else f"{value:.0f}" for name, value in result.items()}
            writer.writerow(case | numbers | {"settings": settings, "version": _versions(case["library"]), "hardware": _hardware()})
            stream.flush()


if __name__ == "__main__":
    main()
