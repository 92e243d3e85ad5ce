"""Engines of one forward pass are offered only for the models that they run."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.errors import UnknownNameError
from rightfit.facts.records import OtherModel
from rightfit.families.passes.forward import read_forward_choice
from rightfit.workload.model import Workload

HEARING = [name for name, one in facts.models().items() if isinstance(one, OtherModel) and one.task.startswith(("asr", "speech"))]


@pytest.mark.parametrize("model", [*HEARING[::4], "openai/whisper-large-v3", "distil-large-v3", "whisper-tiny"])
def test_only_whispers_are_served_by_the_engine_for_whispers(model: str) -> None:
    names = {one.name for one in read_forward_choice(Workload(model=model, task="serve", rate="1/s"), "audio").engines}
    found = facts.resolve_offline(model)
    assert ("faster-whisper" in names) is (found is not None and "whisper" in found.record.name)
    assert "PyTorch" in names


def test_naming_it_for_another_model_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="allowed for this model: PyTorch"):
        read_forward_choice(Workload(model="nvidia/canary-1b-v2", task="serve", rate="1/s", framework="faster-whisper"), "audio")
