"""A plan counts the driver's share of every card as a question about one card does."""

from __future__ import annotations

import numpy as np
import pytest

from rightfit import Workload, facts
from rightfit.estimation.convert import device_columns
from rightfit.families.language.kind import engine_of
from rightfit.families.language.wish import read_wish
from rightfit.physics.columns import LinkColumns, SetupColumns

CARDS = tuple(facts.accelerators().values())
JOBS = (
    {"method": "lora"},
    {"method": "dpo"},
    {"method": "grpo", "completions": 8, "input_tokens": "256tok", "output_tokens": "256tok"},
)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: str(job["method"]))
def test_search_and_question_agree_on_every_card(job: dict[str, object]) -> None:
    engine = engine_of(read_wish(Workload(model="Qwen/Qwen2.5-0.5B", task="finetune", data="1Mtok", **job)))
    setup, device = SetupColumns.of(micro_batch=1.0, seq_len=512.0, adapter_rank=16.0), device_columns(CARDS)
    searched = np.broadcast_to(engine.memory(setup) - engine.spared(device), (len(CARDS),))
    with np.errstate(divide="ignore", invalid="ignore"):  # times of cards that have no rate for this
        asked = [np.max(engine.details(setup, device_columns([card]), LinkColumns())[0].required_bytes) for card in CARDS]
    wrong = [(card.name, got, want) for card, got, want in zip(CARDS, searched, asked, strict=True) if abs(got - want) > 1e-6 * want]
    assert not wrong
