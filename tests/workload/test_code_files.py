"""Training scripts are read without running them: what they say comes out, what they work out is
told as not used."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import FileInputError
from rightfit.workload.code_files import read_code

SCRIPTS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parents[1] / "data" / "scripts.toml").read_text())


def test_sixty_kinds_of_script() -> None:
    assert len(SCRIPTS) >= 65


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_says_its_wish(name: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(SCRIPTS[name]["code"])
    found = read_code(file)
    told = {key: found.wishes.get(key) for key in SCRIPTS[name]["wishes"]}
    assert told == SCRIPTS[name]["wishes"]
    unused = [key for key, _ in found.unused]
    assert [word for word in SCRIPTS[name].get("unused", ()) if word not in unused] == []
    assert {option for option, _, where in found.told if not where.startswith("train.py")} <= {
        "task"
    }  # the task is taken where none is told


def test_a_folder_and_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("batch_size = 99\n")
    (tmp_path / "train.py").write_text(SCRIPTS["sft_lora"]["code"])
    assert read_code(tmp_path).wishes["micro_batch"] == 4  # the script that trains before those that help
    notebook = tmp_path / "a.ipynb"
    notebook.write_text('{"cells": [{"cell_type": "code", "source": ["!pip install x\\n", "m = AutoModel.from_pretrained(\\"gpt2\\")"]}]}')
    assert read_code(notebook).wishes["model"] == "gpt2"


@pytest.mark.parametrize("text", ["", "x = (", "print('hello')", "\x00", "def f():\n  return 1"])
def test_a_script_that_says_nothing_is_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(text)
    with pytest.raises(FileInputError, match="names no model, trainer or data set"):
        read_code(file)


@pytest.mark.parametrize("setting", ["True", "False", "args.on"])
def test_what_is_done_where_a_setting_says_so_is_not_taken_for_done(setting: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        f"model = AutoModelForCausalLM.from_pretrained('gpt2')\nrecompute = {setting}\nif recompute:\n    model.gradient_checkpointing_enable()\n"
    )
    found = read_code(file)
    assert found.wishes.get("recompute") == ("full" if setting == "True" else None)
    assert any("gradient_checkpointing_enable" in key for key, _ in found.unused) is (setting == "args.on")


@pytest.mark.parametrize("inner", ["hidden_dim", "d_ff", "dim_feedforward", "intermediate_size"])
@pytest.mark.parametrize("width", ["emb_dim", "d_model", "n_embd"])
def test_a_decoder_of_ones_own_has_its_inner_width_and_is_trained(inner: str, width: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        f"config = {{'vocab_size': 50257, '{width}': 512, 'n_heads': 8, 'n_layers': 8, '{inner}': 1024, 'context_length': 256}}\ntrainer = pl.Trainer(max_epochs=3)\n"
    )
    found = read_code(file)
    assert (found.wishes["task"], found.wishes["seq_len"], found.wishes["epochs"]) == ("train", 256, 3.0)
    assert "ffn=1024" in found.wishes["model"]


def test_an_inner_width_alone_is_no_decoder(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("hidden_dim = 128\nbatch_size = 32\n")
    assert "model" not in read_code(file).wishes
