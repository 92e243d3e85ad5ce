"""The README of a bundle is done from top to bottom with the plan's own program: what the server
runs is what was exported, on a model of a few thousand parameters. The first server is lost after
three steps; the second goes on, and what it makes is at home in the end. A job that cannot read its
data gives its server back."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bundles import Bundle
from stand_ins import PROGRESS
from tiny import SMALL, make_bert, make_data, make_llama

TEXT = {**SMALL, "grad_accum": 1, "steps": 30}
SAMPLES = {**TEXT, "learning_rate": 1e-3}
del SAMPLES["seq_len"], SAMPLES["attention"]
NO_CARDS = {"replicas_per_node": 1, "part_rows": 4}


def texts(folder: Path) -> None:
    folder.mkdir()
    make_data(folder / "rows.jsonl")


def recordings(folder: Path) -> None:
    from test_samples_training import make_recordings

    make_recordings(folder, count=7)


def pictures(folder: Path) -> None:
    from test_samples_training import make_pictures

    make_pictures(folder)


def rows_of_numbers(folder: Path) -> None:
    from test_table_jobs import make_table

    make_table(folder)


def many_texts(folder: Path) -> None:
    folder.mkdir()
    for number in range(24):
        make_data(folder / f"{number}.jsonl", samples=200)


def samples_model(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        import test_samples_training

        return Path(getattr(test_samples_training, f"make_{name}")(folder))

    return make


def fast_whisper(folder: Path) -> Path:
    from test_batch_jobs import make_fast_whisper

    return make_fast_whisper(folder)


def tokenizer(folder: Path) -> Path:
    from test_table_jobs import make_tokenizer_file

    folder.mkdir()
    make_tokenizer_file(folder / "tokenizer.json")
    return folder


CASES: dict[str, tuple[tuple[str, ...], Callable[[Path], Path] | None, Callable[[Path], None], dict[str, Any], str]] = {
    "lora-8b-aws": (("trl", "peft"), make_llama, texts, TEXT, "adapter_model.safetensors"),
    "full-8b-gcp": (("trl",), make_llama, texts, {**TEXT, "sharding": "none"}, "model.safetensors"),
    "pretrain-1b-alicloud": (("transformers", "datasets"), make_llama, texts, {**TEXT, "gpus_per_node": 1}, "model/model.safetensors"),
    "bert-azure": (("transformers", "datasets"), make_bert, texts, TEXT, "model/model.safetensors"),
    "whisper-train-aws": (
        ("transformers", "soundfile"),
        samples_model("whisper"),
        recordings,
        {**SAMPLES, "longest_s": 2.0},
        "model/model.safetensors",
    ),
    "segformer-train": (
        ("transformers", "PIL"),
        samples_model("segformer"),
        pictures,
        {**SAMPLES, "height": 32, "width": 32},
        "model/model.safetensors",
    ),
    "bge-batch": (
        ("sentence_transformers",),
        make_bert,
        texts,
        {**NO_CARDS, "backend": "torch", "engine": {}, "half": False, "batch": 2},
        "results/complete.json",
    ),
    "whisper-batch-aws": (
        ("faster_whisper", "soundfile"),
        fast_whisper,
        recordings,
        {**NO_CARDS, "part_rows": 1, "batch": 1, "engine": {"device": "cpu", "compute_type": "float32", "cpu_threads": 1}},
        "results/complete.json",
    ),
    "xgboost-train-aws": (
        ("xgboost", "pyarrow"),
        None,
        rows_of_numbers,
        {"trees": 1500, "threads": 1, "save_every_s": 0},
        "model/model.ubj",
    ),
    "tokenize-aws": (("ray", "tokenizers"), tokenizer, many_texts, {"threads": 1}, "results/complete.json"),
}
"""Plan: (what its program needs, its model, its data, its settings made small, what lies in
result/ in the end)."""


def bundle_of(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """The bundle with data, and with the settings and model that its program gets in the
    place of the plan's."""
    needed, model, data, small, _ = CASES[name]
    for package in ("torch", *needed) if model and model is not tokenizer else needed:
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    bundle = Bundle(name, folder, monkeypatch)
    shutil.rmtree(bundle.folder / "data")
    data(bundle.folder / "data")
    place = model(bundle.box / "model") if model else None
    of_model = {"model": str(place)} if place and model is not tokenizer else {}
    (bundle.box / "small.json").write_text(json.dumps({**small, **of_model}))
    return bundle


def begun(bundle: Bundle) -> list[str]:
    """What each start of the program printed."""
    return re.split(r"^begun .*$", (bundle.box / "log").read_text(), flags=re.MULTILINE)[1:]


@pytest.mark.parametrize("name", CASES)
def test_the_exported_program_ends_in_the_result_after_a_lost_server(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = bundle_of(name, tmp_path, monkeypatch)
    told = {"RIGHTFIT_REAL": str(bundle.box / "small.json")}
    bundle.run(bundle.until_started, JOB_KILLED="1", **told)
    assert len(begun(bundle)) == 1
    assert not list((bundle.box / "store").rglob(f"{bundle.job.name}/{CASES[name][-1]}"))
    done = bundle.run(bundle.from_start, **told)
    assert "FAILED" not in done.stderr, done.stderr[-3000:] + begun(bundle)[-1][-3000:]
    assert (bundle.folder / "result" / CASES[name][-1]).stat().st_size > 20, begun(bundle)[-1][-3000:]
    lost, last = (PROGRESS.findall(text) for text in begun(bundle))
    assert len(lost) >= 3  # what it had printed when it was killed
    steps = CASES[name][3].get("steps")
    assert last, begun(bundle)[-1][-3000:]
    assert not steps or len(last) < steps, "it began again from the start"


@pytest.mark.parametrize("name", ["lora-8b-aws", "tokenize-aws"])
def test_a_job_that_cannot_read_its_data_gives_its_server_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = bundle_of(name, tmp_path, monkeypatch)
    shutil.rmtree(bundle.folder / "data")
    (bundle.folder / "data").mkdir()
    (bundle.folder / "data/rows.jsonl").write_text('{"other": "a column that it has no use for"}\n' * 4)
    bundle.run(bundle.until_started, RIGHTFIT_REAL=str(bundle.box / "small.json"))
    assert "other" in begun(bundle)[0] or "text" in begun(bundle)[0]
    assert re.search(r"server ended [1-9]\d*\ngiven back", bundle.calls), bundle.calls


@pytest.mark.parametrize("name", ["lora-8b-aws", "bert-azure", "segformer-train", "xgboost-train-aws", "tokenize-aws"])
def test_one_step_is_taken_on_the_spot(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the plan is changed for it but what check.sh itself makes small."""
    bundle = bundle_of(name, tmp_path, monkeypatch)
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    if name == "tokenize-aws":  # the tokenizer comes from the hub
        environment |= {"PATH": f"{bundle.box}/hub:{environment['PATH']}", "RIGHTFIT_REAL": str(bundle.box / "small.json")}
        (bundle.box / "hub").mkdir()
        shutil.copy(bundle.box / "bin/hf", bundle.box / "hub/hf")
    elif (bundle.box / "model").exists():
        environment["RIGHTFIT_CHECK_MODEL"] = str(bundle.box / "model")
    done = bundle.run("sh check.sh step", **environment)
    assert done.returncode == 0, done.stderr[-3000:]
    out = re.search(r"one step is taken: (\S+)", done.stdout)
    assert out is not None
    made = CASES[name][-1]
    assert (Path(out[1]) / made).stat().st_size > 20
    assert len(PROGRESS.findall(done.stdout + done.stderr)) == 1
    shutil.rmtree(Path(out[1]).parent)


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_one_request_is_answered_by_the_service_of_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    for needed in ("torch", "onnx", "onnxruntime", "fastapi", "uvicorn"):
        pytest.importorskip(needed)
    bundle = Bundle("bert-service-azure", tmp_path, monkeypatch)
    make_onnx(bundle.folder / "onnx-service/model.onnx")
    words = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
    server = subprocess.Popen(words, cwd=bundle.folder / "onnx-service", env={**os.environ, "RIGHTFIT_API_KEY": "k", "PYTHONPATH": ""})
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        asked = f"sh check.sh request http://127.0.0.1:{port}"
        done = bundle.run(asked)
        assert (done.returncode, done.stdout) == (0, "outputs: logits\nit answers\n"), done.stderr
        wrong = bundle.run(asked, RIGHTFIT_API_KEY="another")
        assert (wrong.returncode, wrong.stdout) == (1, "")
        assert "401" in wrong.stderr
    finally:
        server.terminate()
        server.wait(timeout=20)
    gone = bundle.run(asked)
    assert gone.returncode == 1
    assert "it answers" not in gone.stdout


def make_onnx(path: Path) -> None:
    """Two inputs of token numbers of any length, as an exported encoder has them."""
    import onnx
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")]
    output = helper.make_tensor_value_info("logits", TensorProto.INT64, ["batch", "length"])
    graph = helper.make_graph([helper.make_node("Mul", ["input_ids", "attention_mask"], ["logits"])], "encoder", inputs, [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))
