"""The exported service of tables answers rows of a model that was trained here, alone and many at
once, and tells what is wrong with a request."""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from jobs import job

from rightfit.exports import find_target
from rightfit.exports.targets.model_servers import table_files

np = pytest.importorskip("numpy")
testclient = pytest.importorskip("fastapi.testclient")

ROWS, WIDTH = 200, 3
KEY = {"Authorization": "Bearer key"}


def train(library: str, folder: Path) -> Any:
    """A small model of a library as the exported script keeps it; what it says of the rows."""
    rows = np.random.default_rng(0).random((ROWS, WIDTH)).astype(np.float32)
    labels = (rows[:, 0] > 0.5).astype(int)
    found = importlib.import_module("sklearn.ensemble" if library == "sklearn" else library)
    if library == "xgboost":
        model = found.train({"objective": "binary:logistic"}, found.DMatrix(rows, labels), 5)
        model.save_model(str(folder / "model.ubj"))
        return rows, model.inplace_predict(rows)
    if library == "lightgbm":
        model = found.train({"objective": "binary", "verbosity": -1}, found.Dataset(rows, labels), 5)
        model.save_model(str(folder / "model.txt"))
        return rows, model.predict(rows)
    model = found.RandomForestClassifier(5, random_state=0).fit(rows, labels)
    (folder / "model.pickle").write_bytes(pickle.dumps(model))
    return rows, model.predict(rows)


@pytest.fixture(params=["xgboost", "lightgbm", "sklearn"])
def service(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """(A client of the service, rows, their scores)."""
    pytest.importorskip(request.param)
    given = job("xgboost-service-aws")
    assert set(table_files(given, request.param)) < set(find_target("tabular-service").files(given))
    for name, text in table_files(given, request.param).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert json.loads((tmp_path / "service.json").read_text(encoding="utf-8"))["library"] == request.param
    rows, scores = train(request.param, tmp_path)
    monkeypatch.setenv("RIGHTFIT_API_KEY", "key")
    spec = importlib.util.spec_from_file_location("service", tmp_path / "service.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "service", module)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "service_core", raising=False)
    spec.loader.exec_module(module)
    with testclient.TestClient(module.app) as client:
        yield client, rows, scores


def test_rows_get_their_scores_whoever_asks_beside(service: Any) -> None:
    client, rows, scores = service
    answer = client.post("/v1/score", json={"rows": rows.tolist()}, headers=KEY)
    assert answer.json()["scores"] == pytest.approx(scores.tolist(), abs=1e-5)

    def ask(number: int) -> list[float]:
        found: list[float] = client.post("/v1/score", json={"rows": rows[number : number + 2].tolist()}, headers=KEY).json()["scores"]
        return found

    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(ask, range(40))):
            assert found == pytest.approx(scores[number : number + 2].tolist(), abs=1e-5)


def test_a_wrong_request_is_told_what_is_wrong(service: Any) -> None:
    client, _, _ = service
    assert client.get("/health").status_code == 200
    assert client.post("/v1/score", json={"rows": [[1, 2, 3]]}).status_code == 401
    for rows, said in ([[[1, 2]], "3 numbers, not 2"], [[[1, 2, 3], [1]], "as many numbers"]):
        answer = client.post("/v1/score", json={"rows": rows}, headers=KEY)
        assert answer.status_code == 422
        assert said in answer.text
    assert client.post("/v1/score", json={"rows": [["a", 2, 3]]}, headers=KEY).status_code == 422
