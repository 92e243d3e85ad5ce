"""The exported training script trains: a tiny model with random weights, two processes on the
processor, and again from its checkpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import files, taken
from killed import half_copy
from sharded import sharded_job
from tiny import SMALL, make_data, make_llama

from rightfit.exports import find_target

for needed in ("torch", "trl", "peft", "datasets", "tokenizers"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target trl")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 30,000 parameters and a tokenizer of bytes, on the disk."""
    return make_llama(tmp_path_factory.mktemp("model"))


def prepare(folder: Path, model: Path, **changed: object) -> None:
    """The exported script, with the plan's settings made small."""
    found = files("trl", "lora-8b-aws")
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    small = {
        **SMALL,
        "save_every_s": 0,
        "model": str(model),
        "data": str(make_data(folder / "data.jsonl")),
        "output": str(folder / "out"),
        "grad_accum": 1,
    }
    (folder / "train.json").write_text(
        json.dumps({**json.loads(found["train.json"]), **small, "sharding": "none", **changed}), encoding="utf-8"
    )


def alone(folder: Path) -> dict[str, str]:
    """No hub, no cards."""
    words = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **words, "HF_HOME": str(folder / "hf")}


def train(folder: Path, model: Path, *, processes: int, method: str, **changed: object) -> str:
    """Run the exported script as the exported command does."""
    prepare(folder, model, method=method, **changed)
    return started(folder, processes)


def started(folder: Path, processes: int) -> str:
    """What the script says, whose files lie there."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes), "train.py", "train.json"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=alone(folder), check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout + ran.stderr


@pytest.mark.parametrize(("method", "processes"), [("lora", 2), ("full", 1)])
def test_it_trains_and_one_process_goes_on_from_its_checkpoint(method: str, processes: int, model: Path, tmp_path: Path) -> None:
    train(tmp_path, model, processes=processes, steps=3, method=method)
    out = tmp_path / "out"
    assert (out / ("adapter_model.safetensors" if method == "lora" else "model.safetensors")).stat().st_size > 1_000
    state = json.loads((sorted(out.glob("checkpoint-*"))[-1] / "trainer_state.json").read_text(encoding="utf-8"))
    assert state["global_step"] == 3
    if processes > 1:
        return  # PyTorch cannot restore the optimizer of several processes on processors ("cpu:0" is no device to it); cards are restored
    train(tmp_path, model, processes=processes, steps=5, method=method)
    last = max(out.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    state = json.loads((last / "trainer_state.json").read_text(encoding="utf-8"))
    assert state["global_step"] == 5
    assert [entry["step"] for entry in state["log_history"] if "loss" in entry] == [1, 2, 3, 4, 5]


def test_a_run_that_is_told_to_stop_keeps_what_it_has(model: Path, tmp_path: Path) -> None:
    """SIGTERM to the program and those that load its data: a whole checkpoint and no model; a
    checkpoint that was cut off is passed over, and the losses are those of a run that nobody
    stopped."""
    settings, whole = {"steps": 8, "optimizer": "sgd"}, tmp_path / "whole"
    whole.mkdir()
    assert train(whole, model, processes=1, method="full", **settings)
    prepare(tmp_path, model, method="full", **settings, save_every_s=1e6, workers=2)
    started = subprocess.Popen(
        [sys.executable, "train.py", "train.json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=alone(tmp_path),
        start_new_session=True,
    )
    assert started.stdout is not None
    assert next((line for line in started.stdout if "'loss'" in line), "")
    os.killpg(started.pid, signal.SIGTERM)
    _, said = started.communicate(timeout=120)
    out = tmp_path / "out"
    assert started.returncode == 143, said[-2000:]
    assert not (out / "model.safetensors").exists()
    (done,) = out.glob("checkpoint-*")
    assert (done / "trainer_state.json").is_file()
    half_copy(out, "checkpoint-", 7)
    train(tmp_path, model, processes=1, method="full", **settings)
    assert logged(out, 8) == pytest.approx(logged(whole / "out", 8), rel=1e-3)


CONVERSATION = [{"role": "user", "content": "What follows 1?"}, {"role": "assistant", "content": "2 follows 1."}]


@pytest.mark.parametrize(
    ("form", "row"),
    [
        ("rows.parquet", {"text": "one two three four. " * 8, "source": "x"}),
        ("rows.csv", {"prompt": "What follows 1? " * 4, "completion": "2 follows 1. " * 4}),
        ("rows.jsonl", {"messages": CONVERSATION * 3, "id": 1}),
    ],
)
def test_data_of_a_folder_or_a_store_in_any_form(form: str, row: dict[str, object], model: Path, tmp_path: Path) -> None:
    """Each form of file with each form of row, fetched by its address; a base model has no chat
    template, and gets one."""
    import datasets

    (tmp_path / "rows").mkdir()
    rows = datasets.Dataset.from_list([row] * 24)
    getattr(rows, {"parquet": "to_parquet", "csv": "to_csv", "jsonl": "to_json"}[form.partition(".")[2]])(str(tmp_path / "rows" / form))
    train(tmp_path, model, processes=1, steps=1, method="lora", data=f"file://{tmp_path / 'rows'}")
    assert (tmp_path / "out/adapter_model.safetensors").exists()


def test_data_without_what_it_needs_are_refused_in_a_line(model: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.jsonl").write_text('{"question": "a", "reply": "b"}\n', encoding="utf-8")
    with pytest.raises(AssertionError, match="has the columns question, reply; this needs messages or prompt, completion or text"):
        train(tmp_path, model, processes=1, steps=1, method="lora", data=str(tmp_path / "wrong.jsonl"))


def logged(out: Path, step: int) -> list[float]:
    """Loss of each step as the checkpoint of `step` has it."""
    state = json.loads((out / f"checkpoint-{step}" / "trainer_state.json").read_text(encoding="utf-8"))
    return [entry["loss"] for entry in state["log_history"] if "loss" in entry]


def test_trained_weights_stay_in_32_bit(model: Path, tmp_path: Path) -> None:
    """Full fine-tuning computes in bf16 and keeps fp32, as the plan counts it: small
    updates would round away."""
    import torch
    from safetensors.torch import load_file

    train(tmp_path, model, processes=1, steps=1, method="full", precision="bf16")
    assert {weight.dtype for weight in load_file(tmp_path / "out/model.safetensors").values()} == {torch.float32}


def test_a_4_bit_base_in_shards_learns_what_a_whole_one_does(tmp_path: Path) -> None:
    """Two processes with half the base each, with and without its weights on the host, and one with
    all of it have the same losses; a stopped run goes on from its checkpoint."""
    pytest.importorskip("bitsandbytes")
    told = json.loads(find_target("trl").files(sharded_job(offload="params"))["train.json"])
    assert (told["method"], told["sharding"], told["offload"]) == ("qlora", "zero-3", True)
    wide = make_llama(tmp_path, hidden_size=64, intermediate_size=128)
    assert told["recompute"] == "full", "adapters are sharded one by one"
    kept = {name: told[name] for name in ("sharding", "offload", "spread_by")}
    small = {
        "method": "qlora",
        "precision": "bf16",
        "gradient_checkpointing": True,
        "recompute": told["recompute"],
        "lora_rank": 4,
        "learning_rate": 0.01,
        "optimizer": "adamw_torch",
    }
    found = {}
    for name, processes, changed in (
        ("whole", 1, {"grad_accum": 2, "steps": 4}),
        ("sharded", 2, {**kept, "offload": False, "steps": 4}),
        ("on-host", 2, {**kept, "steps": 2}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "sitecustomize.py").write_text((Path(__file__).parent / "fsdp_on_cpu.py").read_text(encoding="utf-8"), encoding="utf-8")
        prepare(folder, wide, **small, **changed)
        started(folder, processes)
        if name == "on-host":  # and once more, from the checkpoint
            settings = json.loads((folder / "train.json").read_text(encoding="utf-8"))
            (folder / "train.json").write_text(json.dumps({**settings, "steps": 4}), encoding="utf-8")
            started(folder, processes)
        found[name] = logged(folder / "out", 4)
        weights = (folder / "out/adapter_model.safetensors").stat().st_size
        assert 5_000 < weights < 50_000, "adapters alone, gathered from the shards"
    assert len(found["whole"]) == 4
    for name, losses in found.items():
        assert losses[:2] == pytest.approx(found["whole"][:2], rel=2e-3), (name, "the same base: adapters begin as nothing")
        assert losses[-1] < losses[0] - 0.01, name
    assert found["sharded"] == pytest.approx(found["whole"], rel=1e-2), "adapters begin with other random numbers"


@pytest.mark.parametrize("name", taken("trl"))
def test_settings_are_the_plan_s(name: str) -> None:
    from jobs import job

    found, layout = json.loads(files("trl", name)["train.json"]), job(name).option.layout
    assert (found["micro_batch"], found["grad_accum"], found["precision"]) == (layout.micro_batch, layout.grad_accum, layout.precision)
    assert found["gradient_checkpointing"] == (layout.recompute != "none")
    compile(files("trl", name)["train.py"], "train.py", "exec")
