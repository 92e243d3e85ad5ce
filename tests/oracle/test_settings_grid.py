"""One record of settings, two engines: what the formulas keep against what PyTorch keeps, by model,
width and recomputation. Needs PyTorch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pytest

pytest.importorskip("torch", reason="SKIPPED LOUDLY: the grid of settings needs PyTorch, which is not installed here")

from rightfit import facts
from rightfit.estimation import traced
from rightfit.estimation.convert import model_columns
from rightfit.estimation.training_setup import setup_fields
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics import memory_states as states
from rightfit.physics import transformer
from rightfit.physics.columns import Dtype, Recompute, SetupColumns
from rightfit.physics.memory_peak import kept_and_working
from rightfit.proof.cases.training import SettingWords, training_case

LAYERS, SEQ_LEN = 2, 512
MODELS = ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "Qwen/Qwen2.5-0.5B", "openai-community/gpt2", "google/gemma-2b")


def shallow(name: str) -> TransformerArchitecture:
    record = facts.model(name, network=False)
    assert isinstance(record, TransformerArchitecture)
    return dataclasses.replace(record, num_layers=LAYERS, params_total=0, params_active=0)


def trace(record: TransformerArchitecture, fields: Mapping[str, float], layers: int) -> traced.TracedMemory:
    config = traced.module_config(dataclasses.replace(record, num_layers=layers))
    return traced.trace_config(
        config,
        micro_batch=1,
        seq_len=SEQ_LEN,
        dtype="fp32" if fields["linear_weight_bytes"] > 2.0 else Dtype(int(fields["compute_dtype"])).name.lower(),
        recompute=fields["recompute"] == Recompute.FULL,
        dropout=fields["dropout"] > 0,
    )


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("weights", ["bf16", "fp32"])
@pytest.mark.parametrize("name", MODELS)
def test_a_layer_keeps_what_pytorch_keeps(name: str, weights: str, recompute: str) -> None:
    record = shallow(name)
    words: SettingWords = {"framework": "transformers", "weights_dtype": weights, "precision": weights, "recompute": recompute}
    fields = setup_fields(training_case(record, **words, attention="sdpa", flags="dropout=0"))
    columns, model = SetupColumns.of(**fields, micro_batch=1, seq_len=SEQ_LEN), model_columns([record])
    kept, _ = kept_and_working(model, columns)
    more, fewer = (trace(record, fields, layers).saved_activations_bytes for layers in (LAYERS + 1, LAYERS))
    assert float(kept[0]) * SEQ_LEN == pytest.approx(more - fewer, rel=0.03)


@pytest.mark.parametrize("weights", ["bf16", "fp32"])
def test_states_of_the_record_are_those_of_the_graph(weights: str) -> None:
    record = shallow(MODELS[1])
    fields = setup_fields(training_case(record, framework="own PyTorch trainer", weights_dtype=weights, precision=weights))
    columns, model = SetupColumns.of(**fields), model_columns([record])
    found = trace(record, fields, LAYERS)
    share = states.parameter_share(model, columns, first=True, last=True)
    dense, experts = states.trained_share(share, model, columns)
    assert found.num_parameters == pytest.approx(float(transformer.total_parameters(model)[0]), rel=1e-3)
    assert found.parameters_bytes == pytest.approx(float(states.weights_bytes(share, columns)[0]), rel=0.01)
    assert found.optimizer_bytes == pytest.approx(float(states.optimizer_bytes(dense, experts, columns)[0]), rel=0.01)
    assert found.optimizer_bytes / 2 == pytest.approx(float(states.step_scratch_bytes(dense, experts, columns)[0]), rel=0.01)
