"""The traced engine against itself and the committed reference. Needs PyTorch: `scripts/test` runs
this folder in an environment of its own."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest
from loaded import load_module

pytest.importorskip("torch", reason="SKIPPED LOUDLY: the traced engine's oracle tests need PyTorch, which is not installed here")

from rightfit.errors import FileInputError, InputError
from rightfit.estimation import traced

ROOT = Path(__file__).parent.parent.parent
TINY = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 1000, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def reference_rows() -> list[dict[str, str]]:
    with (ROOT / "validation/traced_reference.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["num_layers"] == "2" and row["seq_len"] == "512" and row["attention"] == "sdpa"]


@pytest.fixture(scope="module")
def trace_reference():
    return load_module(ROOT / "validation/trace_reference.py")


@pytest.mark.parametrize("row", reference_rows(), ids=lambda row: f"{row['family']}-{row['recompute']}")
def test_the_committed_reference_is_what_pytorch_says(row, trace_reference) -> None:
    again = trace_reference.trace_row(
        row["family"],
        num_layers=2,
        micro_batch=int(row["micro_batch"]),
        seq_len=512,
        recompute=row["recompute"] == "full",
        attention="sdpa",
    )
    assert again["num_parameters"] == int(row["num_parameters"])
    assert again["saved_activations_bytes"] == pytest.approx(int(row["saved_activations_bytes"]), rel=1e-3)
    assert again["peak_bytes"] == pytest.approx(int(row["peak_bytes"]), rel=1e-3)


def test_states_of_adamw_in_bf16_are_exact() -> None:
    result = traced.trace_config(TINY, micro_batch=1, seq_len=64)
    assert result.parameters_bytes == pytest.approx(2 * result.num_parameters, rel=0.01)
    assert result.optimizer_bytes == pytest.approx(4 * result.num_parameters, rel=0.01)


def test_sharding_over_four_ranks_keeps_a_quarter_of_the_optimizer_state() -> None:
    whole = traced.trace_config(TINY, micro_batch=1, seq_len=64)
    sharded = traced.trace_config(TINY, micro_batch=1, seq_len=64, shard_degree=4)
    assert sharded.optimizer_bytes == pytest.approx(whole.optimizer_bytes / 4, rel=0.02)
    assert sharded.peak_bytes < whole.peak_bytes


def test_recomputation_saves_less() -> None:
    plain = traced.trace_config(TINY, micro_batch=2, seq_len=128)
    recomputed = traced.trace_config(TINY, micro_batch=2, seq_len=128, recompute=True)
    assert recomputed.saved_activations_bytes < plain.saved_activations_bytes


def test_a_users_own_module(tmp_path, monkeypatch) -> None:
    (tmp_path / "mymodel.py").write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.embed = torch.nn.Embedding(32000, 64)\n"
        "        self.head = torch.nn.Linear(64, 32000)\n"
        "    def forward(self, input_ids, labels):\n"
        "        return torch.nn.functional.cross_entropy(self.head(self.embed(input_ids)).flatten(0, 1), labels.flatten())\n"
        "def build():\n"
        "    return Net()\n"
    )
    monkeypatch.chdir(tmp_path)
    result = traced.trace_function("mymodel:build", micro_batch=2, seq_len=16, dtype="fp32")
    sys.modules.pop("mymodel", None)
    assert result.num_parameters == 32000 * 64 * 2 + 32000
    assert result.parameters_bytes == pytest.approx(4 * result.num_parameters, rel=0.01)


@pytest.mark.parametrize("target", ["nomodule", "os:nothing", "no.such.module:f", "os:name"])
def test_a_wrong_target_is_one_clear_line(target) -> None:
    with pytest.raises(InputError) as caught:
        traced.trace_function(target, micro_batch=1, seq_len=8)
    assert "\n" not in str(caught.value)


def test_a_config_without_model_type(tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileInputError, match="model_type"):
        traced.trace_config(tmp_path, micro_batch=1, seq_len=8)


def test_an_estimate_adds_what_no_tracker_sees() -> None:
    from rightfit.estimation.traced import traced_estimate

    found = traced_estimate("openai-community/gpt2", micro_batch=1, seq_len=128, accelerator="T4")
    assert found.num_parameters == 124_439_808
    assert found.peak_bytes == pytest.approx(sum(found.terms.values()))
    assert found.terms["context"] > 0
    assert found.terms["slack"] > 0
    assert found.fits is True
