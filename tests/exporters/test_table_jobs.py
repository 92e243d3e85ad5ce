"""Training on tables, scoring them, and preparing data run to their end on the processor; killed,
they do what is missing, and what they leave is what an undisturbed run leaves."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from killed import lines
from tiny import environment, run
from typical_plans import plan_values

from rightfit.exports import ExportSettings, Job, files_of, find_target, job_of, plan_document
from rightfit.exports.model_words import PORT
from rightfit.exports.stack import stack_name, stack_problem
from rightfit.facts import table

for needed in ("numpy", "pyarrow", "xgboost", "sklearn", "ray", "polars", "cv2", "tokenizers"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the targets tabular and prepare")

COMMAND = [sys.executable, "run.py", "run.json"]


def job(plan: str, *, name: str = "", **layout: Any) -> Job:
    """The job of a typical plan, with another algorithm, library or device."""
    values = plan_values(plan)
    option = values["options"][0]
    facts = {**option["facts"], **({"name": name} if name else {})}
    return job_of(plan_document({**values, "options": [{**option, "facts": facts, "layout": {**option["layout"], **layout}}]}))


def put(folder: Path, given: Job, **changed: Any) -> None:
    """The exported files, the settings made small."""
    found = find_target(stack_name(given)).files(given)
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = json.loads(found["run.json"])
    changed = {"output": str(folder / "out"), "data": str(folder / "data"), "threads": 1, **changed}
    assert set(changed) <= set(settings), set(changed) - set(settings)
    (folder / "run.json").write_text(json.dumps(settings | changed), encoding="utf-8")


def make_table(folder: Path, *, files: int = 3) -> None:
    """Numbers whose label follows from them."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    chance = np.random.default_rng(0)
    for number in range(files):
        values = chance.normal(size=(200, 4)).astype("float32")
        columns = {f"x{place}": values[:, place] for place in range(4)}
        pq.write_table(pa.table({**columns, "label": (values[:, 0] + values[:, 1] > 0).astype("int64")}), folder / f"{number}.parquet")


def told_until(folder: Path, word: str, how: int) -> int:
    """Exit code of a run that is killed when it has told of something."""
    started = subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(folder))
    assert started.stdout is not None
    assert next((line for line in started.stdout if word in line), ""), (started.communicate()[1] or "")[-2000:]
    started.send_signal(how)
    started.communicate(timeout=120)
    return started.returncode


def asked(address: str, rows: list[list[float]]) -> list[float]:
    """What a service says of rows, when it has started."""
    told = {"Authorization": "Bearer key", "Content-Type": "application/json"}
    for _ in range(300):
        try:
            request = urllib.request.Request(f"{address}/v1/score", json.dumps({"rows": rows}).encode(), told)
            with urllib.request.urlopen(request, timeout=20) as answer:
                found: list[float] = json.load(answer)["scores"]
                return found
        except urllib.error.URLError:
            time.sleep(0.2)
    raise AssertionError("the service does not answer")


def test_what_was_trained_is_served_as_exported(tmp_path: Path) -> None:
    """`--then serve`: the run, then its serve.sh, which answers as the model does that the run
    left."""
    pytest.importorskip("uvicorn")
    import numpy as np
    import xgboost

    make_table(tmp_path / "data")
    given = job("xgboost-train-aws", library="xgboost", name="xgboost")
    put(tmp_path, given, trees=20, depth=3)
    run(COMMAND, tmp_path)
    settings = ExportSettings(then="serve")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for path, text in files_of(job_of(plan_document(plan_values("xgboost-train-aws")), settings=settings), "tabular").items():
        if path.startswith("then-serve/"):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text.replace(f"--port {PORT}", f"--port {port}"), encoding="utf-8")
    words = ["sh", "then-serve/serve.sh", "out"]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    service = subprocess.Popen(words, cwd=tmp_path, env=environment(tmp_path, RIGHTFIT_API_KEY="key", PATH=path))
    rows = np.random.default_rng(1).normal(size=(8, 4)).astype("float32")
    try:
        found = asked(f"http://127.0.0.1:{port}", rows.tolist())
    finally:
        service.terminate()
        service.wait(timeout=30)
    model = xgboost.Booster(model_file=str(tmp_path / "out/model/model.ubj"))
    assert found == pytest.approx(model.inplace_predict(rows).tolist(), abs=1e-5)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_boosted_trees_go_on_from_their_last_round(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    make_table(tmp_path / "data")
    given = job("xgboost-train-aws", library=library, name=library)
    put(tmp_path, given, trees=300, depth=4, save_every_s=0)
    run(COMMAND, tmp_path)
    name = {"xgboost": "model.ubj", "lightgbm": "model.txt"}[library]
    whole = (tmp_path / "out/model" / name).read_bytes()
    about = json.loads((tmp_path / "out/model/about.json").read_text(encoding="utf-8"))
    assert (about["rows"], about["columns"], about["classes"]) == (600, 4, [0, 1])
    shutil.rmtree(tmp_path / "out")
    assert told_until(tmp_path, '"round": 20', signal.SIGKILL) == -signal.SIGKILL
    assert told_until(tmp_path, '"round": 100', signal.SIGTERM) == 143
    assert not (tmp_path / "out/model").exists()
    begun = lines(run(COMMAND, tmp_path))[0]
    assert 100 <= begun["start"] < 300
    assert scores(tmp_path, library, (tmp_path / "out/model" / name).read_bytes(), name) == pytest.approx(
        scores(tmp_path, library, whole, name), abs=1e-5
    )
    assert lines(run(COMMAND, tmp_path)) == [{"done": True}]


def scores(folder: Path, library: str, model: bytes, name: str) -> list[float]:
    """What a model says to the first file."""
    import pyarrow.parquet as pq

    (folder / name).write_bytes(model)
    numbers = pq.read_table(folder / "data/0.parquet").drop_columns(["label"]).to_pandas().to_numpy()
    if library == "xgboost":
        import xgboost

        return list(map(float, xgboost.Booster(model_file=str(folder / name)).inplace_predict(numbers)))
    import lightgbm

    return list(map(float, lightgbm.Booster(model_file=str(folder / name)).predict(numbers)))


@pytest.mark.parametrize("name", ["random-forest", "k-means", "ridge"])
def test_estimators_are_fitted(name: str, tmp_path: Path) -> None:
    import pickle

    make_table(tmp_path / "data")
    put(tmp_path, job("xgboost-train-aws", name=name, library="sklearn"), trees=5)
    run(COMMAND, tmp_path)
    model = pickle.loads((tmp_path / "out/model/model.pickle").read_bytes())
    assert hasattr(model, "predict")
    assert (tmp_path / "out/model/complete.json").exists()


def test_every_algorithm_is_where_the_table_says() -> None:
    """Of scikit-learn each is looked up; what a plan of the family may name is written for
    or refused in words."""
    import importlib

    for row in table("classical_estimators"):
        for path in filter(None, (row["sklearn"], row["regressor"])):
            module, _, kind = path.rpartition(".")
            assert hasattr(getattr(importlib.import_module(module), kind), "fit")
    for row in table("classical_models"):
        for library in ("sklearn", "cuml", row["library"]):
            problem = find_target("tabular").problem(job("xgboost-train-aws", name=row["name"], library=library))
            assert not problem or "there is no script for" in str(problem)


def test_a_table_is_scored_file_by_file(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    make_table(tmp_path / "data")
    put(tmp_path, job("xgboost-train-aws"), trees=5)
    run(COMMAND, tmp_path)
    model = shutil.move(tmp_path / "out/model/model.ubj", tmp_path / "model.ubj")
    put(tmp_path, job("xgboost-score-aws"), model=str(model), output=str(tmp_path / "scored"))
    run(COMMAND, tmp_path)
    parts = sorted((tmp_path / "scored/results").glob("part-*.parquet"))
    assert [pq.read_table(part).num_rows for part in parts] == [200, 200, 200]
    parts[1].unlink()
    told = lines(run(COMMAND, tmp_path))
    assert [line["part"] for line in told if "part" in line] == [1]


def make_texts(folder: Path) -> None:
    """Three files with texts, among them doubles and one without words."""
    folder.mkdir()
    good = "the quick brown fox jumps over the lazy dog and then it rests for a while under an old tree near the river. " * 3
    for number in range(3):
        texts = [f"{good} number {number}", good.upper() if number else good, "# # #", f"short {number}"]
        (folder / f"{number}.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")


def make_tokenizer_file(path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    alphabet = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<|endoftext|>"]
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.save(str(path))


def left(folder: Path) -> dict[str, str]:
    """Name and content of each result."""
    results = folder / "out/results"
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in results.iterdir() if path.name != "complete.json"}


def make_inputs(folder: Path, operation: str) -> None:
    if operation in ("tokenize", "filter-text", "dedup-text"):
        make_texts(folder / "data")
        return
    (folder / "data").mkdir()
    for number in range(3):
        if operation in ("resize-images", "encode-images"):
            import cv2
            import numpy as np

            cv2.imwrite(str(folder / f"data/{number}.png"), np.full((60, 90, 3), 40 * number, np.uint8))
        else:
            (folder / f"data/{number}.csv").write_text("a,b\n1,x\n1,x\n" + f"{number},y\n", encoding="utf-8")


OPERATIONS = ("tokenize", "filter-text", "dedup-text", "resize-images", "encode-images", "convert", "dedup", "shuffle")
LIBRARIES = {
    "tokenize": "tokenizers",
    "resize-images": "opencv",
    "encode-images": "opencv",
    "filter-text": "python",
    "dedup-text": "python",
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_ends_and_does_what_is_missing(operation: str, tmp_path: Path) -> None:
    make_inputs(tmp_path, operation)
    make_tokenizer_file(tmp_path / "tokenizer.json")
    given = job("tokenize-aws", name=operation, library=LIBRARIES.get(operation, "polars"))
    put(tmp_path, given, **({"pixels": 30} if operation.endswith("images") else {}))
    run(COMMAND, tmp_path)
    whole = left(tmp_path)
    assert (tmp_path / "out/results/complete.json").exists()
    checked(operation, tmp_path / "out/results")
    # A killed run: no mark, a result less, a half one more.
    (tmp_path / "out/results/complete.json").unlink()
    sorted((tmp_path / "out/results").iterdir())[0].unlink()
    (tmp_path / "out/results/.half.part").write_text("half", encoding="utf-8")
    told = lines(run(COMMAND, tmp_path))
    assert left(tmp_path) == whole
    if len(whole) > 1:
        assert [line["to_do"] for line in told if "to_do" in line][-1] == 1
    assert lines(run(COMMAND, tmp_path)) == [{"done": True}]


def checked(operation: str, results: Path) -> None:
    """That the results are what the operation makes."""
    import numpy as np
    import polars

    files = sorted(path for path in results.iterdir() if path.name != "complete.json")
    if operation == "tokenize":
        tokens = np.load(files[0])
        assert tokens.dtype == np.uint16
        assert (tokens == 256).sum() == 4
    elif operation.endswith("text"):
        texts = [json.loads(line)["text"] for path in files for line in path.read_text(encoding="utf-8").splitlines()]
        assert len(texts) == (6 if operation == "filter-text" else 8)
    elif operation.endswith("images"):
        import cv2

        assert cv2.imread(str(files[0])).shape[:2] == ((30, 45) if operation.startswith("resize") else (60, 90))
    else:
        rows = polars.read_parquet(files)
        assert rows.height == {"convert": 9, "dedup": 4, "shuffle": 9}[operation]


def test_a_preparation_that_is_killed_goes_on(tmp_path: Path) -> None:
    make_texts(tmp_path / "data")
    for number in range(3, 40):
        shutil.copy(tmp_path / "data/0.jsonl", tmp_path / f"data/{number}.jsonl")
    put(tmp_path, job("tokenize-aws", name="filter-text", library="python"))
    assert told_until(tmp_path, '"count"', signal.SIGTERM) in (143, -signal.SIGTERM)
    time.sleep(2)
    done = len(list((tmp_path / "out/results").glob("*.jsonl")))
    told = lines(run(COMMAND, tmp_path))
    assert told[0]["to_do"] == 40 - done
    assert len(list((tmp_path / "out/results").glob("*.jsonl"))) == 40


@pytest.mark.skipif(not shutil.which("java"), reason="Spark needs Java")
@pytest.mark.parametrize(("operation", "count"), [("convert", 9), ("dedup", 4)])
def test_spark_works_where_it_is_chosen(operation: str, count: int, tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    import polars

    make_inputs(tmp_path, operation)
    put(tmp_path, job("parquet-aws", name=operation, library="spark"), memory="1g")
    run(COMMAND, tmp_path)
    assert polars.read_parquet(tmp_path / "out/results/*.parquet").height == count
    assert (tmp_path / "out/results/_SUCCESS").exists()
    assert lines(run(COMMAND, tmp_path))[-1] == {"done": True}


@pytest.mark.parametrize(
    "plan", ["xgboost-train-aws", "xgboost-score-aws", "tokenize-aws", "parquet-aws", "whisper-batch-aws", "bge-batch"]
)
def test_plans_that_had_no_program_are_started(plan: str) -> None:
    assert not stack_problem(job(plan))
    for target in ("kubernetes", "slurm", "skypilot"):
        problem = find_target(target).problem(job(plan))
        assert "no launcher is written" not in str(problem)
