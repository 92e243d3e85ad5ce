"""Options say beside their figures exactly what search/option_facts.py names for
their kind of work."""

from __future__ import annotations

from typing import Any

import pytest
from answers import planned

from rightfit.search.option_facts import BatchFacts, ServiceFacts, Stated, TableFacts, TrainingFacts

WISHES = {
    "language/qlora-8b": (TrainingFacts, {"seq_len", "tokens"}),
    "samples/resnet50": (TrainingFacts, {"samples", "sample", "params"}),
    "serving/chat-8b": (ServiceFacts, set()),
    "serving/batch-8b": (ServiceFacts, set(BatchFacts.__annotations__)),
    "passes/resnet-service": (ServiceFacts, set()),
    "passes/xgboost-service": (ServiceFacts, {"library", "workers", "columns"}),
    "tables/xgboost": (TableFacts, set()),
    "tables/prepare-text": (TableFacts, set()),
}


@pytest.mark.parametrize("name", WISHES)
def test_facts_are_those_of_their_kind(name: str) -> None:
    kind, more = WISHES[name]
    facts: dict[str, Any] = dict(planned(name).best.facts)
    named = kind.__required_keys__ | kind.__optional_keys__ | set(BatchFacts.__annotations__) | set(Stated.__annotations__)
    assert kind.__required_keys__ <= facts.keys(), f"{name} lacks {sorted(kind.__required_keys__ - facts.keys())}"
    assert facts.keys() <= named, f"name in search/option_facts.py: {sorted(facts.keys() - named)}"
    assert more <= facts.keys()
