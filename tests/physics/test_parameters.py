"""Parameter counts, matrix by matrix."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import facts
from rightfit.estimation.convert import model_columns
from rightfit.facts.records import TransformerArchitecture
from rightfit.physics import transformer
from rightfit.physics.columns import ModelColumns

# Families whose layers the formula does not describe, with the reason.
EXPLAINED = {
    "albert": "layers share their weights",
    "deberta": "relative-position projections",
    "xlnet": "relative-position projections",
    "longformer": "a second set of projections for global attention",
    "led-": "a second set of projections for global attention",
    "mobilebert": "bottleneck blocks",
    "layoutlm": "box embeddings",
    "fnet": "no attention",
    "whisper": "convolutions and sinusoids of the audio front end",
    "distil-whisper": "convolutions of the audio front end",
    "chinchilla": "relative-position projections",
    "nemotron-super": "layers of different widths",
    "deepseek-v4": "compressed attention",
    "hy4-preview": "dimensions of the preview's class",
    "inkling-2-mini": "layers that run again",
    "flint": "defaults of the class",
    "trinity-mini": "gates of attention",
    "embeddinggemma-2": "two dense layers behind the pooling",
    "qwen3-reranker-8b": "a head, which other embedding models have not",
    "longcat": "two attention blocks a layer and empty experts",
    "distilbert": "no pooler",
    "electra": "no pooler",
    "sentence-t5": "a dense projection head",
    "bart-base": "embedding norms and a final bias",
}


def _transformers() -> list[TransformerArchitecture]:
    return [record for record in facts.models().values() if isinstance(record, TransformerArchitecture)]


def test_llama_3_8b_to_the_digit() -> None:
    record = facts.model("meta-llama/Meta-Llama-3-8B")
    assert isinstance(record, TransformerArchitecture)
    columns = model_columns([record])
    assert transformer.attention_parameters(columns)[0] == 4096 * (4096 + 2 * 1024) + 4096 * 4096
    assert transformer.mlp_parameters(columns)[0] == 3 * 4096 * 14336
    assert transformer.formula_parameters(columns)[0] == 8_030_261_248


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("openai-community/gpt2", 124_439_808),
        ("google-bert/bert-base-uncased", 109_482_240),
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
    ],
)
def test_known_totals(name: str, total: int) -> None:
    record = facts.model(name)
    assert isinstance(record, TransformerArchitecture)
    assert transformer.formula_parameters(model_columns([record]))[0] == pytest.approx(total, rel=5e-4)


def test_every_bundled_transformer_within_half_a_percent_or_explained() -> None:
    records = [
        record
        for record in _transformers()
        if record.attention_kind not in ("ssm", "hybrid-ssm")
        and record.kind != "vlm"
        and not any(word in record.name.lower() for word in EXPLAINED)
    ]
    columns = model_columns(records)
    error = transformer.formula_parameters(columns) / columns.params_total - 1.0
    outside = [(record.name, float(value)) for record, value in zip(records, error, strict=True) if abs(value) > 0.005]
    assert len(records) > 380
    assert outside == []


def test_total_is_the_published_count_where_there_is_one() -> None:
    columns = model_columns(_transformers())
    np.testing.assert_array_equal(transformer.total_parameters(columns), columns.params_total)


def test_parts_add_up() -> None:
    columns = model_columns(_transformers())
    parts = transformer.embedding_parameters(columns) + transformer.head_parameters(columns) + transformer.body_parameters(columns)
    dense = columns.params_total >= transformer.embedding_parameters(columns) + transformer.head_parameters(columns)
    np.testing.assert_allclose(parts[dense], columns.params_total[dense])
    assert np.all(transformer.linear_parameters(columns) <= transformer.body_parameters(columns))
    assert np.all(transformer.routed_expert_parameters(columns) <= transformer.body_parameters(columns))


def test_active_parameters_of_a_mixture() -> None:
    record = facts.model("mistralai/Mixtral-8x7B-v0.1")
    assert isinstance(record, TransformerArchitecture)
    columns = model_columns([record])
    idle = transformer.routed_expert_parameters(columns) * (1 - 2 / 8)
    assert (columns.params_total - idle)[0] == pytest.approx(12_879_925_248, rel=1e-6)


def test_lora_adapter_of_llama_2_7b() -> None:
    record = facts.model("meta-llama/Llama-2-7b-hf")
    assert isinstance(record, TransformerArchitecture)
    columns = model_columns([record])
    one, zero = np.ones(1), np.zeros(1)
    count = transformer.adapter_parameters(columns, rank=8 * one, query=one, key_value=one, output=zero, up=zero, down=zero, experts=zero)
    assert count[0] == 32 * 8 * 2 * (4096 + 4096)  # 4,194,304: what PEFT prints for r=8 on q_proj and v_proj


def test_mla_of_deepseek_v3() -> None:
    record = facts.model("deepseek-ai/DeepSeek-V3")
    assert isinstance(record, TransformerArchitecture)
    columns = model_columns([record])
    expected = 7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) + 512 + 512 * 128 * (128 + 128) + 128 * 128 * 7168
    assert transformer.attention_parameters(columns)[0] == expected


def test_columns_without_anything_count_nothing() -> None:
    assert transformer.formula_parameters(ModelColumns())[0] == 0.0
