"""Advice that only training on samples knows: compiled kernels, and decoding that does not starve the cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rightfit.errors import RightfitError
from rightfit.families.samples.sample_wish import SampleWish
from rightfit.search.advice import cheapest, effect_of
from rightfit.search.answer import Option, Reason
from rightfit.search.training.explore import explore
from rightfit.search.training.found import Exploration

if TYPE_CHECKING:
    from collections.abc import Iterable

COMPILED = "torch.compile"
FASTER_DECODERS = ("dali", "ffcv")
WORTHWHILE = 0.9
#: Networks of many small kernels, which compilation joins; tables and graphs are not bound by them, detectors change shape from image to
#: image.
_COMPILABLE = ("conv", "grouped", "depthwise", "convnext", "window", "transformer", "unet", "denoiser", "dit")


def sample_advice(exploration: Exploration, best: Option | None) -> Iterable[Reason]:
    """Each with the option that it makes possible: the best one under the changed wish."""
    wish = exploration.wish
    if best is None:
        return
    assert isinstance(wish, SampleWish)
    if not wish.workload.framework and wish.work.kind in _COMPILABLE:
        yield from _tried(exploration, best, "compile", framework=COMPILED)
    if wish.load.decode == "pillow" and not wish.workload.decode and _loading_matters(best):
        for decoder in FASTER_DECODERS[:1]:
            yield from _tried(exploration, best, "decoder", decode=decoder)


def _loading_matters(best: Option) -> bool:
    """Whether preparing the data keeps a good part of the host busy."""
    return float(best.data_path.get("loading_share", 0.0)) > 0.5


def _tried(exploration: Exploration, best: Option, key: str, **changes: str) -> Iterable[Reason]:
    """What the best option would be with one change of the recipe, if that saves a tenth of money, or of time where time is asked for."""
    try:
        wish = exploration.craft.read(exploration.wish.workload.with_changes(**changes))
    except RightfitError:
        return
    there = explore(wish, exploration.market, exploration.wanted, exploration.craft, node_counts=(best.nodes,))
    objective = exploration.wish.workload.objective
    at = cheapest(there, there.bits == 0, objective)
    if at is None:
        return
    now, then = (
        (best.estimate["total_time_s"].mid, float(there.bill.total_s[at]))
        if objective == "time"
        else (best.cost.total_usd, float(there.bill.total_usd[at]))
    )
    if then < WORTHWHILE * now:
        yield Reason(key, {**effect_of(there, at, best), **changes})
