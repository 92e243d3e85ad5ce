"""The family of samples: training of vision, detection, diffusion, speech, recommendation and graphs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from rightfit.estimate.data_path import DataLoad
from rightfit.families.samples.advice import sample_advice
from rightfit.families.samples.engine import SampleEngine
from rightfit.families.samples.explore import refuse_what_never_fits, sample_base, sample_fleet, sample_limits
from rightfit.families.samples.options import evaluate_rows, facts_of, layout_of
from rightfit.families.samples.sample_wish import SampleWish
from rightfit.families.samples.wish import read_sample_wish
from rightfit.search.market import Volume
from rightfit.search.training.found import Craft
from rightfit.search.training.kind import training_family

if TYPE_CHECKING:
    from rightfit.search.training.machines import Machines


def engine_of(wish: SampleWish, machines: Machines) -> SampleEngine:
    """The physics of a wish; refuses a sample that no card holds."""
    engine = SampleEngine.of(wish)
    refuse_what_never_fits(wish, engine, machines)
    return engine


def load_of(wish: SampleWish, volume: Volume) -> DataLoad:
    """The data of a run: what the wish says of them, with the weights that are read beside."""
    return dataclasses.replace(wish.load, weights_bytes=volume.weights_bytes)


CRAFT = Craft(
    read=read_sample_wish,
    limits=sample_limits,
    fleet=lambda servers, wish: sample_fleet(servers, wish.workload.precision or ""),
    base=lambda _wish, machines: sample_base(machines),
    engine=engine_of,
    load=load_of,
    evaluate=evaluate_rows,
    layout=layout_of,
    facts=facts_of,
    unit_cost=lambda wish: ("per_million_samples_usd", wish.amount.samples),
)
FAMILY = training_family("samples", CRAFT, more=sample_advice)
