"""Models whose arithmetic nobody counted are timed by what they take in, or refused; never as
networks of pictures."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.estimation.forward_models import forward_work
from rightfit.estimation.pass_records import PassInput
from rightfit.facts.records import OtherModel
from rightfit.families.passes.forward import is_taken_for_a_picture
from rightfit.families.samples.wish import read_sample_wish
from rightfit.workload import Workload

UNCOUNTED = [
    name
    for name, one in facts.models().items()
    if isinstance(one, OtherModel) and not one.forward_flops and one.kind != "trees" and one.params_total
]


def test_there_are_such_models() -> None:
    assert len(UNCOUNTED) > 60


@pytest.mark.parametrize("name", UNCOUNTED)
def test_none_is_served_or_trained_as_pictures(name: str) -> None:
    record = facts.model(name)
    work = forward_work(PassInput(name))
    assert work is None or is_taken_for_a_picture(record, work) or work.modality in ("audio", "text", "other")
    try:
        found = read_sample_wish(Workload(model=name, task="finetune", data="1000samples"))
    except RightfitError as refused:
        told = str(refused)
    else:
        told = ""
        assert found.work.modality not in ("classification", "segmentation", "detection")
    assert "\n" not in told


@pytest.mark.parametrize(("name", "modality"), [("UsefulSensors/moonshine-tiny", "audio"), ("EvolutionaryScale/esmc-300m-2024-12", "text")])
def test_what_hears_or_reads_is_timed_by_it(name: str, modality: str) -> None:
    work = forward_work(PassInput(name))
    assert work is not None
    assert work.modality == modality
