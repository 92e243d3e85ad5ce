"""BentoML itself: its build file is parsed, and the exported service runs on the processor with a
small model and answers in batches."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from jobs import files, hostile, job, taken

for needed in ("bentoml", "onnx", "onnxruntime", "httpx"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target bentoml")


@pytest.mark.parametrize("name", taken("bentoml"))
def test_the_build_file_is_bentoml_s(name: str) -> None:
    from bentoml._internal.bento.build_config import BentoBuildConfig

    for maker in (files, hostile):
        text = maker("bentoml", name)["bentofile.yaml"]
        found = BentoBuildConfig.from_yaml(io.StringIO(text))
        assert found.service == "service:Model"
        assert found.labels is not None
        assert found.labels["rightfit-plan"] == job(name).plan_id or maker is hostile
    with pytest.raises(Exception, match="structuring"):
        BentoBuildConfig.from_yaml(io.StringIO(text.replace("labels:", "labelz:")))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The exported program under `bentoml serve`, with a model that doubles a vector of three
    numbers. Gives its address."""
    import onnx
    from onnx import TensorProto, helper

    folder = tmp_path_factory.mktemp("bento")
    for path, text in files("bentoml", taken("bentoml")[0]).items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = json.loads((folder / "service.json").read_text(encoding="utf-8"))
    (folder / "service.json").write_text(json.dumps({**settings, "max_batch": 4}), encoding="utf-8")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(folder / "model.onnx"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "RIGHTFIT_API_KEY": "secret",
        "PYTHONPATH": "",
        "BENTOML_DO_NOT_TRACK": "True",
        "BENTOML_HOME": str(folder / "home"),
    }
    program = str(Path(sys.executable).with_name("bentoml"))
    words = [program, "serve", "service:Model", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(words, cwd=folder, env=environment)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(timeout=30)


def test_it_answers_batches_and_refuses_what_is_wrong(service: str) -> None:
    import httpx

    with httpx.Client(base_url=service, headers={"Authorization": "Bearer secret"}, timeout=30) as client:
        for _ in range(300):
            try:
                if client.get("/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.2)

        def ask(*vectors: list[float]) -> httpx.Response:
            return client.post("/infer", json={"samples": [{"inputs": {"x": vector}} for vector in vectors]})

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: ask([number, 1, 2]), range(24)))
        assert [answer.json() for answer in answers] == [[{"y": [2.0 * number, 2.0, 4.0]}] for number in range(24)]
        assert ask([1, 1, 1], [2, 2, 2]).json() == [{"y": [2.0, 2.0, 2.0]}, {"y": [4.0, 4.0, 4.0]}]
        assert client.post("/infer", json={"samples": [{"inputs": {"z": [1]}}]}).status_code == 400
        assert client.post("/infer", json={"samples": [{"inputs": {}}]}).status_code in (400, 422)
        assert client.post("/infer", json={"samples": []}, headers={"Authorization": "Bearer wrong"}).status_code == 401
