"""What a short answer says whatever else it has room for."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit.explain.sheets import EXTENTS, short_sheet

SMALL = "Qwen/Qwen2.5-7B-Instruct"
WITH_AN_API: list[dict[str, Any]] = [
    {"model": SMALL, "task": "batch", "data": "3Msamples", "input_tokens": 600, "output_tokens": 150, "deadline": "24h"},
    {"model": SMALL, "task": "batch", "data": "1ksamples", "input_tokens": 600, "output_tokens": 150},
    {"model": SMALL, "task": "serve", "rate": "0.1/s"},
    {"model": SMALL, "task": "serve", "rate": "50/s"},
    {"model": "Qwen/Qwen3-32B", "task": "batch", "data": "1Msamples"},
]


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("wish", WITH_AN_API, ids=str)
def test_whether_an_api_is_cheaper_is_said_once_whichever_is(wish: dict[str, Any], lang: str) -> None:
    found = rightfit.plan(**wish, top=3)
    assert any(section.reasons for section in found.sections if section.name == "api")
    for extent in EXTENTS:
        lines = [line for part in short_sheet(found, lang, extent=extent) if isinstance(part, str) for line in part.splitlines()]
        assert sum(line.startswith(("API:", "API：")) for line in lines) == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PaddleOCR", "PaddlePaddle/PaddleOCR-VL"),
        ("Qwen2.5 7B", ""),
        ("deepseek r1", ""),
        ("Qwen/Qwen2.5-7B-Instruct", ""),
    ],
)
def test_a_name_with_less_than_the_model_that_it_is_read_as_says_so(name: str, meant: str, lang: str) -> None:
    found = rightfit.plan(model=name, task="batch", data="1ksamples", top=3)
    assert [one.value for one in found.assumptions if one.why.key == "assumed_name_meant"] == ([meant] if meant else [])
    for extent in EXTENTS:
        text = "\n".join(part for part in short_sheet(found, lang, extent=extent) if isinstance(part, str))
        assert not meant or meant in text
