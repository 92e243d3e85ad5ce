"""How a named setup does on named servers: what rules and scenarios that name a server are judged by."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, say
from rightfit.explain.reasons import offload_text
from rightfit.records import dataclass


@dataclass(frozen=True, slots=True)
class SetupOutcome:
    """One server evaluated for a job.

    `fits`: with the cards alone, or with `helps` (what is moved to host RAM); None where it could not be evaluated, `why` says so.
    `peak_bytes` of `limit_bytes` per card with those helps; `plain_bytes` what a card would need without any. `host_needed_bytes` of
    `host_bytes` is what the helps ask of the host (NaN: the provider does not publish it).
    """

    server: str
    fits: bool | None
    peak_bytes: float = 0.0
    limit_bytes: float = 0.0
    helps: tuple[str, ...] = ()
    plain_bytes: float = 0.0
    host_needed_bytes: float = 0.0
    host_bytes: float = math.nan
    why: str = ""


def outcomes_text(outcomes: Sequence[SetupOutcome], lang: Lang) -> str:
    """All outcomes in one line."""
    return ("；" if lang == "zh" else "; ").join(outcome_text(outcome, lang) for outcome in outcomes)


def outcome_text(outcome: SetupOutcome, lang: Lang) -> str:
    """One outcome: fits or not, at what peak, what makes it fit or what is missing."""
    if outcome.fits is None:
        return say("rule_words.fits_unknown", lang, where=outcome.server, why=outcome.why)
    key = "fits" if outcome.fits else "fits_not"
    if not outcome.fits and outcome.plain_bytes <= outcome.limit_bytes:
        key = "fits_not_host"
    elif outcome.helps:
        key += "_helped" if math.isfinite(outcome.host_bytes) else "_helped_host_unknown"
    names = ("peak", "limit", "plain", "host_needed", "host")
    fields = {name: q.memory_text(getattr(outcome, f"{name}_bytes")) for name in names}
    return say(f"rule_words.{key}", lang, where=outcome.server, helps=offload_text("+".join(outcome.helps), lang), **fields)
