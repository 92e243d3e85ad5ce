"""`rightfit check` for clouds, accelerators and models."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.catalog import server_names
from rightfit.catalog.check_answers import BRACKETS, CheckResult, claim_facts, example_row, overall, provider_text, result, verdict_texts
from rightfit.catalog.check_servers import series
from rightfit.catalog.claims import Claim, parse_claims
from rightfit.catalog.market import Catalog
from rightfit.catalog.names import find_provider, provider_display
from rightfit.catalog.offers import PURCHASE_CODES
from rightfit.catalog.verdicts import ClaimVerdict, Text, number, say
from rightfit.errors import InputError
from rightfit.units import GIB


def provider(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult | None:
    code = find_provider(name)
    if code is None:
        return None
    servers, offers = catalog.servers(), catalog.all_offers()
    own = np.array([provider == code for provider in servers.provider])
    accelerated = np.flatnonzero(own & (servers.num_accelerators > 0))
    spots = int(np.count_nonzero(own[offers.server_index] & (offers.purchase_index == PURCHASE_CODES["spot"])))
    example = servers.instance_type[example_row(catalog, accelerated.tolist() or np.flatnonzero(own).tolist())]
    spot = say("provider_spot", count=spots) if spots else say("provider_no_spot")
    verdicts = [_judge_provider(claim, is_accelerated=bool(len(accelerated))) for claim in parse_claims(claim_text, subject=name)]
    text = say("provider_exists", name=provider_text(code), types=int(own.sum()), accelerated=len(accelerated), example=example, spot=spot)
    known = {"provider": code, "name": provider_display(code), "servers": int(own.sum()), "accelerated_servers": len(accelerated)}
    known |= {"spot_prices": spots, "example": example, "claims": claim_facts(verdicts)}
    texts = [text, *verdict_texts(verdicts)]
    return result(catalog, query, "provider", exists=True, claim=overall(verdicts), facts_=known, nearest=[], texts=texts)


def _judge_provider(claim: Claim, *, is_accelerated: bool) -> ClaimVerdict:
    if claim.is_provider and re.search(r"gpu|accelerat|显卡|加速", claim.text, re.IGNORECASE) and not is_accelerated:
        return ClaimVerdict(claim, "wrong", (say("provider_not_accelerated"),))
    return ClaimVerdict(claim, "right" if claim.is_provider else "unknown")


def accelerator(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult | None:
    names = facts.match_accelerators(server_names.bare_name(name))
    if not names:
        return None
    records = [facts.accelerators()[one] for one in names]
    servers = catalog.servers(has_accelerator=True)
    carrying = [row for row, one in enumerate(servers.accelerator_name) if one in names and not servers.not_recommended[row]]
    providers = sorted({servers.provider[row] for row in carrying})
    variants = ", ".join(f"{record.name} ({number(record.memory_bytes / GIB)} GiB)" for record in records)
    claims = parse_claims(claim_text)
    verdicts = [_judge_accelerator(claim, names=names) for claim in claims]
    key = "accelerator_exists" if carrying else "accelerator_not_rentable"
    texts = [say(key, name=name, variants=variants, servers=len(carrying), providers=", ".join(providers)), *verdict_texts(verdicts)]
    known: dict[str, Any] = {
        "variants": [{"name": record.name, "memory_bytes": record.memory_bytes, "source": record.source} for record in records]
    }
    known |= {"servers": len(carrying), "providers": providers, "claims": claim_facts(verdicts)}
    found = result(catalog, query, "accelerator", exists=True, claim=overall(verdicts), facts_=known, nearest=[], texts=texts)
    return dataclasses.replace(found, nearest=names if len(names) > 1 else ())


def _judge_accelerator(claim: Claim, *, names: Sequence[str]) -> ClaimVerdict:
    """Memory of any variant, or another name of the same card."""
    if claim.accelerators and not set(claim.accelerators) & set(names):
        return ClaimVerdict(claim, "wrong", (say("wrong_other_accelerator"),))
    claimed = claim.memory_bytes or claim.accelerator_memory_bytes
    if not claimed:
        return ClaimVerdict(claim, "right" if claim.accelerators else "unknown")
    sizes = sorted({facts.accelerators()[one].memory_bytes for one in names})
    if any(server_names.memory_agrees(claimed, size) for size in sizes):
        return ClaimVerdict(claim, "right")
    had = " / ".join(f"{number(size / GIB)} GiB" for size in sizes)
    return ClaimVerdict(claim, "wrong", (say("wrong_variant_memory", had=had, claimed=number(claimed / 1e9)),))


def bracketed(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult | None:
    """A nickname nobody knows, with a better name in brackets."""
    for text in BRACKETS.findall(name):
        if (found := series(catalog, query, text, claim_text)) or (found := accelerator(catalog, query, text, claim_text)):
            return found
    return None


def model(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult | None:
    if server_names.take_apart(catalog, name) is not None:
        return None
    try:
        record = facts.model(name)
    except InputError:
        return None
    parameters = float(getattr(record, "params_total", 0) or getattr(record, "total_params", 0))
    active = float(getattr(record, "params_active", 0) or parameters)
    verdicts = [_judge_model(claim, sizes=(parameters, active)) for claim in parse_claims(claim_text)]
    context = getattr(record, "max_position", 0)
    tail = Text(f", context {context}" if context else "", f"，上下文 {context}" if context else "")
    texts = [say("model_exists", name=record.name, parameters=number(parameters / 1e9), context=tail), *verdict_texts(verdicts)]
    known = {
        "name": record.name,
        "parameters": parameters,
        "active_parameters": active,
        "context": context or None,
        "source": record.source,
    }
    known["claims"] = claim_facts(verdicts)
    return result(catalog, query, "model", exists=True, claim=overall(verdicts), facts_=known, nearest=[], texts=texts)


def _judge_model(claim: Claim, *, sizes: Sequence[float]) -> ClaimVerdict:
    """Names round: an "8B" has 8.03 billion parameters, a "7B" 6.7 to 7.6."""
    if not claim.parameters or not sizes[0]:
        return ClaimVerdict(claim, "unknown")
    if any(abs(claim.parameters / size - 1) <= 0.1 for size in sizes):
        return ClaimVerdict(claim, "right")
    return ClaimVerdict(claim, "wrong", (say("wrong_parameters", had=number(sizes[0] / 1e9), claimed=number(claim.parameters / 1e9)),))
