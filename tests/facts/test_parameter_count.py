"""The counting formula against every bundled transformer and hand-worked figures."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.facts import parameter_count
from rightfit.facts.parameter_count import count_parameters
from rightfit.facts.records import TransformerArchitecture

TOLERANCE = 0.005


def transformers() -> list[TransformerArchitecture]:
    return [record for record in facts.models().values() if isinstance(record, TransformerArchitecture)]


def relative(record: TransformerArchitecture) -> tuple[float, float]:
    count = count_parameters(record)
    return count.total / record.params_total - 1, count.active / record.params_active - 1


def test_llama_3_8b_by_hand() -> None:
    record = facts.model("meta-llama/Meta-Llama-3-8B")
    attention = 4096 * 4096 * 2 + 4096 * 1024 * 2
    feed_forward = 3 * 4096 * 14336
    assert parameter_count.attention_parameters(record) == attention == 41_943_040
    assert parameter_count.mlp_parameters(record) == feed_forward == 176_160_768
    layer = attention + feed_forward + 2 * 4096
    count = count_parameters(record)
    assert count.layers == 32 * layer
    assert count.total == 2 * 128256 * 4096 + 32 * layer + 4096 == 8_030_261_248


def test_deepseek_v3_by_hand() -> None:
    record = facts.model("deepseek-ai/DeepSeek-V3")
    query = 7168 * 1536 + 1536 + 1536 * 128 * 192
    key_value = 7168 * 576 + 512 + 512 * 128 * 256
    assert parameter_count.attention_parameters(record) == query + key_value + 128 * 128 * 7168
    count = count_parameters(record)
    assert count.routed_experts == 58 * 256 * 3 * 7168 * 2048
    assert count.total == record.params_total == 671_026_404_352
    assert count.active == pytest.approx(37.55e9, rel=0.001)


def test_every_bundled_transformer_within_half_a_percent_or_explained() -> None:
    explained = {row["name"]: row for row in facts.table("parameter_exceptions")}
    for record in transformers():
        total, active = relative(record)
        if max(abs(total), abs(active)) <= TOLERANCE:
            assert record.name not in explained, f"{record.name} agrees now; its exception is stale"
            continue
        row = explained.pop(record.name, None)
        assert row, (
            f"{record.name}: params_total is {record.params_total:,}, params_active {record.params_active:,}; its dimensions give "
            f"{count_parameters(record).total:,} and {count_parameters(record).active:,}: put the row right, or say why in parameter_exceptions.csv"
        )
        assert row["reason"]
        assert 100 * total == pytest.approx(float(row["total_difference_percent"]), abs=0.01)
        assert 100 * active == pytest.approx(float(row["active_difference_percent"]), abs=0.01)
    assert not explained


def test_plain_decoders_need_no_exception_but_four() -> None:
    """Dense and MoE decoders with attention in every layer: what the tool is mostly asked about."""
    explained = {row["name"] for row in facts.table("parameter_exceptions")}
    plain = [one for one in transformers() if one.kind == "decoder" and "ssm" not in one.attention_kind]
    assert len(plain) > 240
    assert {one.name for one in plain} & explained == {
        "facebook/opt-350m",
        "deepmind/chinchilla-70b",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
    }


def test_published_counts_that_were_read_agree_or_are_explained() -> None:
    """Where a figure was read that names the model, the record's count is within 0.5 % or
    the table says why."""
    explained = {row["name"]: row["reason"] for row in facts.table("published_differences")}
    for record in transformers():
        if record.params_published_basis != "read" or not record.params_published:
            continue
        difference = record.params_total / record.params_published - 1
        if abs(difference) > TOLERANCE:
            assert explained.pop(record.name, ""), (
                f"{record.name}: {record.params_total:,} parameters, {record.params_published:,} were published: put the row right, or say why in published_differences.csv"
            )
    assert not explained


def test_more_of_anything_is_never_fewer_parameters() -> None:
    base = facts.model("layers=8,hidden=512,heads=8,kv_heads=4,ffn=1024,vocab=1000")
    for larger in (
        "layers=9,hidden=512,heads=8,kv_heads=4,ffn=1024,vocab=1000",
        "layers=8,hidden=512,heads=8,kv_heads=8,ffn=1024,vocab=1000",
    ):
        assert facts.model(larger).params_total > base.params_total
