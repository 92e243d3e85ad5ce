"""How a named setup does on named servers: what rules and scenarios that name a server are judged by."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, join, say, say_or


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One server evaluated: does the job fit (None: could not be evaluated, `why` says so), at what peak, with which helps beyond plain training."""

    server: str
    fits: bool | None
    peak_bytes: float = 0.0
    limit_bytes: float = 0.0
    helps: tuple[str, ...] = ()
    why: str = ""


def outcomes_text(outcomes: Sequence[Outcome], lang: Lang) -> str:
    """All outcomes in one line."""
    return ("；" if lang == "zh" else "; ").join(outcome_text(outcome, lang) for outcome in outcomes)


def outcome_text(outcome: Outcome, lang: Lang) -> str:
    """One outcome: fits or not, the peak, and what makes it fit."""
    if outcome.fits is None:
        return say("rule_words.fits_unknown", lang, where=outcome.server, why=outcome.why)
    fields = {"where": outcome.server, "peak": q.memory_text(outcome.peak_bytes), "limit": q.memory_text(outcome.limit_bytes)}
    if not outcome.fits:
        return say("rule_words.fits_not", lang, **fields)
    helps = join([say_or(f"choice.{help_}", lang, help_) for help_ in outcome.helps], lang)
    return say("rule_words.fits", lang, **fields, helps=say("rule_words.helps", lang, helps=helps) if helps else "")
