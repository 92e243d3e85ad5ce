"""Answers about a reader's own market in its currency, where nobody chose one."""

from __future__ import annotations

import dataclasses

from rightfit.search.answer import Assumption, Plan, Reason
from rightfit.workload.amounts import exchange_rates


def in_home_currency(plan: Plan, lang: str) -> Plan:
    """The plan in the currency in which its server is sold, where its reader's language is that of
    the country; the rate and its day are told. Amounts inside stay in dollars."""
    best, workload = plan.best, plan.workload
    if best is None or "currency" not in workload.assumed or workload.budget:
        return plan
    home = next((rate for rate in exchange_rates().values() if (rate.lang, rate.country) == (lang, best.facts.get("country"))), None)
    if home is None:
        return plan
    told = {"value": home.currency, "rate": home.units_per_usd, "as_of": home.as_of}
    why = Assumption("currency", home.currency, Reason("assumed_home_currency", told))
    return dataclasses.replace(plan, workload=workload.settled(currency=home.currency), assumptions=(why, *plan.assumptions))
