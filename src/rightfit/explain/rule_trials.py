"""The rules of thumb held against a plan: gathers our figures from search and the catalog, and
judges every rule that speaks about the workload."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rightfit.errors import AmbiguousNameError
from rightfit.explain.rule_measures import Measures, measures
from rightfit.explain.rules import RuleCheck, RuleOfThumb, check_measures
from rightfit.explain.trials import SetupOutcome, need_on_one_card, outcome_of, saving_fractions
from rightfit.search.answer import Option, Plan

if TYPE_CHECKING:
    from rightfit.market import Catalog

FAST_LINKS = frozenset({"nvlink", "nvswitch", "xgmi", "ici", "neuronlink", "roce"})


def check_rules(plan: Plan, *, option: Option | None = None, catalog: Catalog | None = None, with_setups: bool = False) -> list[RuleCheck]:
    """Every rule of thumb that speaks about this plan's workload, judged by the figures of its best
    option (or of `option`).

    `with_setups` also evaluates the rules that name a model on named servers (a search each). An
    empty list where nothing is feasible.
    """
    chosen = option or plan.best
    if chosen is None:
        return []
    outcomes = (lambda rule: setup_outcomes(rule, catalog=catalog)) if with_setups else None
    return check_measures(measures_of(chosen, plan.workload, catalog=catalog), outcomes=outcomes)


def setup_outcomes(rule: RuleOfThumb, *, catalog: Catalog | None = None) -> tuple[SetupOutcome, ...]:
    """The servers that a rule names, each evaluated with the rule's own workload."""
    servers = (*rule.servers, rule.smaller) if rule.smaller else rule.servers
    return tuple(outcome_of(rule.setup, server, catalog=catalog) for server in servers)


def _parameters(model: str) -> float:
    """Parameters of a model; not known of a name that several have, of which the plan took the
    usual one by its own table."""
    from rightfit import facts

    try:
        return float(getattr(facts.model(model), "params_total", math.nan))
    except AmbiguousNameError:
        return math.nan


def measures_of(option: Option, workload: Any, *, catalog: Catalog | None = None) -> Measures:
    """Our own figures for one option: of the model from facts, of prices and links from the
    catalog, of the bare need from search."""
    from rightfit.search.offers import open_priced

    market = catalog or open_priced()
    row = market.server_rows.get((option.provider, option.instance_type))
    return measures(
        option,
        workload,
        params=_parameters(workload.model),
        savings=saving_fractions(market, provider=option.provider, instance_type=option.instance_type, region=option.region),
        has_nvlink=row is not None and market.servers().gpu_interconnect[row] in FAST_LINKS,
        need_bytes=need_on_one_card(workload, catalog=market),
    )
