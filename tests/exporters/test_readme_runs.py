"""The README of a bundle is done from top to bottom with the plan's own program: what the server
runs is what was exported, on a model of a few thousand parameters. The first server is lost after
three steps; the second goes on, and what it makes is at home in the end. A job that cannot read its
data gives its server back."""

from __future__ import annotations

import importlib
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
from tiny import SMALL, make_bert, make_data, make_llama, make_nllb, make_t5
from walked import OWN_PROGRAM

TEXT = {**SMALL, "grad_accum": 1, "steps": 30}
SAMPLES = {**TEXT, "learning_rate": 1e-3}
del SAMPLES["seq_len"], SAMPLES["attention"]
TINY = {"height": 32, "width": 32}
NETWORK = {**SAMPLES, "micro_batch": 16}
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


def rows(*kinds: dict[str, Any], count: int = 40) -> Callable[[Path], None]:
    """Rows of these kinds, one after the other."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "rows.jsonl").write_text("\n".join(json.dumps(kinds[number % len(kinds)]) for number in range(count)))

    return make


def made(module: str, name: str, **further: Any) -> Callable[[Path], Any]:
    """What another test of exported programs makes its data or its model with."""

    def make(folder: Path) -> Any:
        return getattr(importlib.import_module(module), name)(folder, **further)

    return make


def flux(folder: Path) -> Path:
    from test_pictures_training import make_flux

    return make_flux(folder, folder.with_name("words"))


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
    "table-train": (
        ("lightgbm", "pyarrow"),
        None,
        rows_of_numbers,
        {"trees": 1500, "threads": 1, "save_every_s": 0},
        "model/model.txt",
    ),
    "tokenize-aws": (("ray", "tokenizers"), tokenizer, many_texts, {"threads": 1}, "results/complete.json"),
    "dpo-lora": (
        ("trl", "peft"),
        make_llama,
        rows({"prompt": "What follows 1? ", "chosen": "2 follows 1.", "rejected": "Nothing does."}),
        TEXT,
        "adapter_model.safetensors",
    ),
    "embedding-pairs": (
        ("transformers", "datasets"),
        make_bert,
        rows({"anchor": "one", "positive": "1"}, {"anchor": "two", "positive": "2"}),
        TEXT,
        "model/model.safetensors",
    ),
    "reranker": (
        ("transformers", "datasets"),
        make_bert,
        rows({"query": "one", "text": "1", "label": 1}, {"query": "one", "text": "2", "label": 0}),
        TEXT,
        "model/model.safetensors",
    ),
    "text-to-text": (
        ("transformers", "peft"),
        make_t5,
        rows({"prompt": "after a", "completion": "b"}, {"prompt": "after b", "completion": "c"}),
        {**TEXT, "attention": "eager"},
        "model/adapter_model.safetensors",
    ),
    "translation": (
        ("transformers", "peft"),
        make_nllb,
        rows({"prompt": "one", "completion": "un", "source_language": "eng_Latn", "target_language": "fra_Latn"}),
        {**TEXT, "attention": "eager"},
        "model/adapter_model.safetensors",
    ),
    "vision-full": (("transformers", "PIL"), samples_model("vit"), pictures, {**SAMPLES, **TINY}, "model/model.safetensors"),
    "segmentation-frozen": (("transformers", "PIL"), samples_model("segformer"), pictures, {**SAMPLES, **TINY}, "model/model.safetensors"),
    "clip-lora": (
        ("transformers", "peft", "PIL"),
        made("test_samples_training", "make_both", kind="CLIP"),
        pictures,
        {**SAMPLES, "lora_rank": 2},
        "model/adapter_model.safetensors",
    ),
    "wav2vec-train": (
        ("transformers", "soundfile"),
        samples_model("wav2vec"),
        recordings,
        {**SAMPLES, "longest_s": 2.0},
        "model/model.safetensors",
    ),
    "detr": (
        ("transformers", "torchvision"),
        made("test_pictures_training", "make_yolos"),
        made("test_pictures_training", "make_scenes"),
        {**SAMPLES, "height": 64, "width": 96},
        "model/model.safetensors",
    ),
    "flux-lora-swapped": (
        ("transformers", "peft", "diffusers"),
        flux,
        made("test_pictures_training", "make_pictures"),
        {**SAMPLES, **TINY, "text_tokens": 16, "lora_rank": 4},
        "model/pytorch_lora_weights.safetensors",
    ),
    "graphsage": (
        ("numpy",),
        None,
        made("test_graph_and_clicks", "make_graph"),
        {**NETWORK, "hidden": 16, "neighbours": [4, 3]},
        "model/model.pt",
    ),
    "dcn": (
        ("numpy",),
        None,
        made("test_graph_and_clicks", "make_clicks"),
        {**NETWORK, "optimizer": "adagrad", "width": 8, "below": [16], "above": [16], "most_rows": 50},
        "model/part-0.pt",
    ),
}
"""Plan: (what its program needs, its model, its data, its settings made small, what lies in
result/ in the end)."""


OF_ARRAYS = ("graphsage", "dcn", "xgboost-train-aws", "table-train", "whisper-batch-aws")
"""Plans whose data are no rows of text: they look for files of their own."""


def test_the_documented_plans_are_those_that_are_run() -> None:
    assert set(CASES) == set(OWN_PROGRAM)


def bundle_of(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bundle:
    """The bundle with data, and with the settings and model that its program gets in the
    place of the plan's."""
    needed, model, data, small, _ = CASES[name]
    for package in needed if needed[0] in ("xgboost", "lightgbm", "ray") else ("torch", *needed):
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    bundle = Bundle(name, folder, monkeypatch)
    shutil.rmtree(bundle.folder / "data")
    data(bundle.folder / "data")
    place = model(bundle.box / "model") if model else None
    of_model = {"model": str(place)} if place and model is not tokenizer else {}
    (bundle.box / "small.json").write_text(json.dumps({**small, **of_model}))
    return bundle


def columns_of(bundle: Bundle) -> list[list[str]]:
    """What a row of the data must hold, by the settings of the bundle's program."""
    settings = [json.loads(path.read_text()) for path in bundle.folder.rglob("*.json") if path.name in ("train.json", "run.json")]
    return next((found["data_columns"] for found in settings if found.get("data_columns")), [["text"]])


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


@pytest.mark.parametrize("name", [name for name in CASES if name not in OF_ARRAYS])
def test_a_job_that_cannot_read_its_data_gives_its_server_back(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = bundle_of(name, tmp_path, monkeypatch)
    shutil.rmtree(bundle.folder / "data")
    (bundle.folder / "data").mkdir()
    (bundle.folder / "data/rows.jsonl").write_text('{"other": "a column that it has no use for"}\n' * 4)
    bundle.run(bundle.until_started, RIGHTFIT_REAL=str(bundle.box / "small.json"))
    columns = {column for names in columns_of(bundle) for column in names}
    assert any(word in begun(bundle)[0] for word in ("other", *columns)), begun(bundle)[0][-2000:]
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
