"""Records become columns."""

from __future__ import annotations

from rightfit import facts
from rightfit.estimation.convert import device_columns, model_columns
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics.columns import AttentionKind, Kind, Mlp, Norm


def _record(name: str) -> TransformerArchitecture:
    record = facts.model(name)
    assert isinstance(record, TransformerArchitecture)
    return record


def test_llama_and_bert() -> None:
    columns = model_columns([_record("meta-llama/Meta-Llama-3-8B"), _record("google-bert/bert-base-uncased")])
    assert columns.num_rows == 2
    assert columns.kind.tolist() == [Kind.DECODER, Kind.ENCODER]
    assert columns.mlp.tolist() == [Mlp.SWIGLU, Mlp.GELU]
    assert columns.norm.tolist() == [Norm.RMSNORM, Norm.LAYERNORM]
    assert columns.attention_kind.tolist() == [AttentionKind.GQA, AttentionKind.MHA]
    assert columns.num_kv_heads.tolist() == [8, 12]


def test_both_stacks_of_an_encoder_decoder() -> None:
    columns = model_columns([_record("google-t5/t5-large")])
    assert columns.num_layers[0] == 48
    assert columns.num_decoder_layers[0] == 24


def test_embedding_models_have_no_head() -> None:
    assert model_columns([_record("BAAI/bge-m3")]).has_lm_head[0] == 0


def test_vision_tower() -> None:
    columns = model_columns([_record("Qwen/Qwen2.5-VL-7B-Instruct")])
    assert columns.params_vision[0] == 676_550_144


def test_every_transformer_converts() -> None:
    records = [record for record in facts.models().values() if isinstance(record, TransformerArchitecture)]
    columns = model_columns(records)
    assert columns.num_rows == len(records) > 500
    assert (columns.params_total > 0).all()


def test_devices() -> None:
    columns = device_columns([facts.accelerator("A100-SXM-80GB"), facts.accelerator("T4"), facts.accelerator("RTX-4090")])
    assert columns.memory_bytes[0] == 80 * 2**30
    assert columns.bf16_flops.tolist()[1] == 0
    assert columns.price_class.tolist() == [0, 0, 1]
    assert device_columns(facts.accelerators().values()).num_rows == len(facts.accelerators())
