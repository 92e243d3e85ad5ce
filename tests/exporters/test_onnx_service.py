"""The exported service answers: a small model on the processor, many requests at once, wrong ones
refused, the key asked for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from jobs import files, taken

for needed in ("onnx", "onnxruntime", "fastapi", "uvicorn", "httpx"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target onnx-service")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The exported program under uvicorn, with a model that doubles a vector of three numbers.
    Gives its address."""
    import onnx
    from onnx import TensorProto, helper

    folder = tmp_path_factory.mktemp("service")
    for path, text in files("onnx-service", taken("onnx-service")[0]).items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = json.loads((folder / "service.json").read_text(encoding="utf-8"))
    (folder / "service.json").write_text(json.dumps({**settings, "max_batch": 4, "wait_s": 0.02}), encoding="utf-8")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(folder / "model.onnx"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "RIGHTFIT_API_KEY": "secret", "PYTHONPATH": ""}
    server = subprocess.Popen(
        [sys.executable, "-m", "uvicorn", "service:app", "--host", "127.0.0.1", "--port", str(port)], cwd=folder, env=environment
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=20)


def test_it_answers_batches_and_refuses_what_is_wrong(service: str) -> None:
    import httpx

    with httpx.Client(base_url=service, headers={"Authorization": "Bearer secret"}, timeout=30) as client:
        for _ in range(100):
            try:
                if client.get("/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda number: client.post("/v1/infer", json={"inputs": {"x": [number, 1, 2]}}), range(40)))
        assert [answer.json()["y"] for answer in answers] == [[2.0 * number, 2.0, 4.0] for number in range(40)]
        assert client.post("/v1/infer", json={"inputs": {"z": [1]}}).status_code == 422
        assert client.post("/v1/infer", json={"inputs": {"x": ["a", "b", "c"]}}).status_code == 422
        assert client.post("/v1/infer", json={"inputs": {"x": [1, 2]}}).status_code == 422
        assert client.post("/v1/infer", content=b"{").status_code == 422
        assert client.post("/v1/infer", json={"inputs": {"x": [1, 2, 3]}}, headers={"Authorization": "Bearer wrong"}).status_code == 401
        assert client.post("/v1/infer", json={"inputs": {"x": [1, 2, 3]}}).json() == {"y": [2.0, 4.0, 6.0]}
