"""Models against a review of November 2026: shapes, contexts and formats of checkpoints.

tests/data/reviewed_models.csv holds what the review read for each name and field; two values where
its own sources differ, either of which will do.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit import facts
from rightfit.facts import engines

TABLE = Path(__file__).parents[1] / "data/reviewed_models.csv"
#: Where the catalog goes by another source: field -> names.
DISPUTED = {
    "max_position": {
        # the recipe names a length for its cards, the config of the checkpoint another
        *(f"google/gemma-4-{size}" for size in ("12B-it", "12B-it-qat-w4a16-ct", "26B-A4B-it")),
        *(f"RedHatAI/gemma-4-26B-A4B-it-{form}" for form in ("FP8-dynamic", "NVFP4")),
        "nvidia/Gemma-4-26B-A4B-NVFP4",
        *(f"stepfun-ai/Step-3.7-Flash{form}" for form in ("", "-FP8", "-NVFP4")),
        "zai-org/glm-4-9b-hf",
        "nvidia/MiniMax-M2.7-NVFP4",
        "Qwen/Qwen3-235B-A22B-FP8",  # the length of the release of 2507
        "openai/whisper-large-v3",  # tokens that it writes; ours are frames that it hears
    },
    "format": {
        "baidu/ERNIE-4.5-VL-424B-A47B-PT",  # published in bf16; fp8 is what the recipe loads it as
        *(f"google/gemma-4-E{size}B-it-qat-mobile-ct" for size in "24"),  # mixed widths that no card's engine loads
    },
}
#: What our tables call the formats of the review.
FORMATS = {
    "bf16": {"", "bf16"},
    "int4": {"int4", "int4-awq", "int4-gptq", "int4-experts"},
    "fp4-experts+fp8": {"fp8-fp4-experts"},
    "nvfp4-experts+fp8": {"nvfp4"},
    "nvfp4+fp8": {"nvfp4"},
    "mxfp8": {"fp8"},
}


def reviewed() -> list[dict[str, str]]:
    with TABLE.open(newline="", encoding="utf-8") as stream:
        return [row for row in csv.DictReader(stream) if row["model"] not in DISPUTED.get(row["field"], ())]


def faults(row: dict[str, str]) -> Iterator[str]:
    """What is said otherwise than the review: counts of parameters by more than 2 %."""
    name, field, values = row["model"], row["field"], row["value"].split()
    if field == "format":
        published = engines.published_format(name) or ""
        if not any(published in FORMATS.get(value, {value}) for value in values):
            yield f"{name}: published in {published or 'bf16'}, read as {row['value']}"
        return
    found = facts.resolve_offline(name)
    ours = getattr(found.record if found else facts.search_models(name)[0], field, None)
    if ours is None:
        return  # known by its size only, or of a kind that has no such field
    room = 0.02 if field.endswith(("_params", "params_total")) else 0.0
    if not any(ours == pytest.approx(float(value), rel=room, abs=0) for value in values):
        yield f"{name}: {field} {ours}, read as {row['value']}"


def test_every_model_is_as_the_review_read_it() -> None:
    rows = reviewed()
    assert len(rows) > 1300
    assert [fault for row in rows for fault in faults(row)] == []


def test_what_is_disputed_still_differs() -> None:
    with TABLE.open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["model"] in DISPUTED.get(row["field"], ())]
    assert len(rows) == sum(len(names) for names in DISPUTED.values())
    assert [row["model"] for row in rows if not any(faults(row))] == []
