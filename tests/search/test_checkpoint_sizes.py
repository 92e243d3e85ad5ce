"""Files of checkpoints whose size somebody read: the format in which they were published, and what
that makes of their parameters."""

from __future__ import annotations

import dataclasses

import pytest

from rightfit import facts
from rightfit.facts.engines import published_format
from rightfit.facts.records import TransformerArchitecture
from rightfit.search.sources import _decoder_bytes

#: GB of the repository, as the recipes of vllm-project/recipes@8959cf64 say it.
READ = {
    "deepseek-ai/DeepSeek-V4-Flash": ("fp8-fp4-experts", 160.0),
    "deepseek-ai/DeepSeek-V4-Pro": ("fp8-fp4-experts", 865.0),
    "MiniMaxAI/MiniMax-M2": ("fp8", 220.0),
    "MiniMaxAI/MiniMax-M2.5": ("fp8", 220.0),
    "moonshotai/Kimi-K2.5": ("int4-experts", 595.0),
    "moonshotai/Kimi-K2.6": ("int4-experts", 595.0),
}
#: Names that say less than the table does: one family in two formats.
FORMATS = {
    "moonshotai/Kimi-K2-Instruct": "fp8",
    "moonshotai/Kimi-K2-Thinking": "int4-experts",
    "moonshotai/Kimi-K3": "mxfp4",
    "mistralai/Ministral-3-8B-Instruct-2512": "fp8",
    "mistralai/Mistral-Large-3-675B-Instruct-2512": "fp8",
    "XiaomiMiMo/MiMo-V2.5": "fp8",
    "Qwen/Qwen3-32B": "",
    "Qwen/Qwen3-32B-AWQ": "int4-awq",
}


@pytest.mark.parametrize("name", READ)
def test_a_checkpoint_is_as_large_as_was_read(name: str) -> None:
    form, size = READ[name]
    assert published_format(name) == form
    record = facts.model(name)
    assert isinstance(record, TransformerArchitecture)
    assert _decoder_bytes(dataclasses.replace(record, name=name)) == pytest.approx(size * 1e9, rel=0.08)


def test_a_checkpoint_has_its_own_format_and_not_its_family_s() -> None:
    assert {name: published_format(name) for name in FORMATS} == FORMATS
