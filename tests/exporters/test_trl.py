"""The exported training script trains: a tiny model with random weights, two processes on the processor, and again from its checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import files, taken

for needed in ("torch", "trl", "peft", "datasets", "tokenizers"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target trl")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of 30,000 parameters and a tokenizer of bytes, on the disk."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("model")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate([*alphabet, "</s>"])}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", pad_token="</s>").save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(alphabet) + 1, max_position_embeddings=128, **sizes)).save_pretrained(folder)
    return folder


def train(folder: Path, model: Path, *, processes: int, steps: int, method: str) -> str:
    """Run the exported script as the exported command does, with the plan's settings made small."""
    found = files("trl", "lora-8b-aws")
    (folder / "train.py").write_text(found["train.py"], encoding="utf-8")
    data = folder / "data.jsonl"
    data.write_text(
        "\n".join(json.dumps({"text": f"number {number} is followed by {number + 1}. " * 8}) for number in range(64)), encoding="utf-8"
    )
    small = {
        "model": str(model),
        "data": str(data),
        "output": str(folder / "out"),
        "seq_len": 64,
        "micro_batch": 2,
        "grad_accum": 1,
        "steps": steps,
    }
    small |= {
        "precision": "fp32",
        "attention": "sdpa",
        "optimizer": "adamw_torch",
        "method": method,
        "workers": 0,
        "save_every_s": 0,
        "sharding": "none",
    }
    (folder / "train.json").write_text(json.dumps(json.loads(found["train.json"]) | small), encoding="utf-8")
    environment = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": "",
        "HF_HOME": str(folder / "hf"),
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes), "train.py", "train.json"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False, timeout=300)
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


@pytest.mark.parametrize("name", taken("trl"))
def test_settings_are_the_plan_s(name: str) -> None:
    from jobs import job

    found, layout = json.loads(files("trl", name)["train.json"]), job(name).option.layout
    assert (found["micro_batch"], found["grad_accum"], found["precision"]) == (layout.micro_batch, layout.grad_accum, layout.precision)
    assert found["gradient_checkpointing"] == (layout.recompute != "none")
    compile(files("trl", name)["train.py"], "train.py", "exec")
