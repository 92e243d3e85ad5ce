"""How long training is said to take on named cards ("ResNet-50 on ImageNet takes 8 V100 4 hours"),
held against the plan of that job on those cards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.statement_parts import both, word
from rightfit.explain.trials import best_for
from rightfit.messages import LANGS

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

_NUMBER = r"\d+(?:\.\d+)?|[一两二三四五六七八九十半]+|an?|one|two|three"
_TIME = re.compile(
    rf"(?:(?P<first>{_NUMBER})\s*(?:-|~|～|–|到|至|to)\s*)?(?P<last>{_NUMBER})\s*(?:个)?(?P<unit>分钟|小时|天|日|周|minutes?|hours?|days?|weeks?)(?P<half>半)?",
    re.IGNORECASE,
)
_TRAINED = re.compile(r"训|微调|跑完|跑满|train|tun", re.IGNORECASE)
_SPOKEN = {
    "一": 1,
    "两": 2,
    "二": 2,
    "三": 3,
    "四": 4,
    "五": 5,
    "六": 6,
    "七": 7,
    "八": 8,
    "九": 9,
    "十": 10,
    "半": 0.5,
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
}
#: A tuned stack and a fast way to load data make so much beside the usual ones: a time outside the
#: interval by less is not called wrong.
_STACK = 2.0
#: What stands about a time and says no more once it is taken out.
_AROUND = re.compile(r"大约|大概|左右|约\s|就能|跑满|预算有限的?话?|about|roughly", re.IGNORECASE)
_UNITS = {"分": 60.0, "m": 60.0, "小": 3600.0, "h": 3600.0, "天": 86400.0, "日": 86400.0, "d": 86400.0, "周": 604800.0, "w": 604800.0}
#: Only what is claimed to be done by then may take less.
_BY_THEN = re.compile(r"以内|之内|内|就能|就可以|不到|不用|足够|within|under|less than|can|at most", re.IGNORECASE)


def time_lookup(query: str, catalog: Catalog) -> CheckResult | None:
    """The verdict on a time of training; None where none, no model or no card is told."""
    from rightfit.market.verdicts import CheckResult
    from rightfit.workload.ask import understand

    found = _TIME.search(query)
    if found is None or not _TRAINED.search(query) or word("spot").search(query):
        return None
    try:
        wishes = dict(understand(_AROUND.sub(" ", _TIME.sub(" ", query, count=1))).settled())
    except RightfitError:
        return None
    if not {"model", "gpu"} <= set(wishes):
        return None
    for name in ("deadline", "objective", "budget"):
        wishes.pop(name, None)
    if wishes.get("task") not in ("train", "finetune"):
        wishes["task"] = "train"
    wishes["objective"] = "time"  # what these cards can do, not what the cheapest server with them does
    if "data" not in wishes:
        return CheckResult(query, "rule", True, "unknown", {}, (), *(both("time_open")[lang] for lang in LANGS))
    best = best_for(wishes, catalog)
    if best is None or "total_time_s" not in best.estimate:
        return None
    low, high = _stated(found)
    time = best.estimate["total_time_s"]
    is_most = bool(_BY_THEN.search(query))
    holds = time.low95 <= high and (is_most or low <= time.high95)
    is_near = time.low95 / _STACK <= high and (is_most or low <= time.high95 * _STACK)
    claim = "right" if holds else "unknown" if is_near else "wrong"
    where = f"{best.num_accelerators * 1.0:g} x {best.accelerator.name}"
    spans = {lang: [q.duration_text(one, lang) for one in (time.mid, time.low80, time.high80)] for lang in LANGS}
    texts = [both("time", where=where, time=spans[lang][0], low=spans[lang][1], high=spans[lang][2])[lang] for lang in LANGS]
    facts = {"seconds": time.mid, "low95": time.low95, "high95": time.high95, "stated": [low, high], "wishes": wishes}
    return CheckResult(query, "rule", True, claim, facts, (), texts[0], texts[1])


def _stated(found: re.Match[str]) -> tuple[float, float]:
    """The span of time that is stated [s]."""
    unit = _UNITS[found["unit"][0].casefold()]
    last = _amount(found["last"]) + (0.5 if found["half"] else 0.0)
    first = _amount(found["first"]) if found["first"] else last
    return first * unit, last * unit


def _amount(text: str) -> float:
    return float(_SPOKEN[text.casefold()]) if text.casefold() in _SPOKEN else float(text) if text[0].isdigit() else 1.0
