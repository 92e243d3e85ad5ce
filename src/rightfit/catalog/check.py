"""Does this server, accelerator, cloud, model or claim hold, and what is the right name? Every answer is derived from the catalog."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from rightfit import facts
from rightfit.catalog import check_kinds, check_servers, server_names
from rightfit.catalog.check_answers import CheckResult
from rightfit.catalog.market import Catalog, open_catalog
from rightfit.catalog.verdicts import join, say
from rightfit.errors import InputError, UnknownNameError
from rightfit.messages import Message

_LONGEST_QUERY = 400
_EQUALS = re.compile(r"(?<![<>=!])=")  # ">=" belongs to a claim
_EMBEDDED_CLAIM = re.compile(r"^(?P<name>.+?)\s+(?P<claim>(?:up to|with|has|offers|最多|带)\s*.+)$", re.IGNORECASE)

RuleLookup = Callable[[str], CheckResult | None]


def check(queries: Iterable[str], *, catalog: Catalog | None = None, rule: RuleLookup | None = None) -> list[CheckResult]:
    """Answer each NAME or NAME=CLAIM. `rule(query)` may answer first, for the rules of thumb of a higher room."""
    market = catalog or open_catalog()
    return [check_one(query, catalog=market, rule=rule) for query in queries]


# The first that knows the name answers.
_LOOKS = (
    check_servers.exact_server,
    check_kinds.provider,
    check_servers.series,
    check_kinds.accelerator,
    check_kinds.bracketed,
    check_kinds.model,
)


def check_one(query: str, *, catalog: Catalog, rule: RuleLookup | None = None) -> CheckResult:
    """Find what the name means, then hold the claim against it."""
    if rule is not None and (answer := rule(query)) is not None:
        return answer
    name, claim_text = _split(query)
    name, claim_text = _embedded(name, claim_text)
    for look in _LOOKS:
        if (answer := look(catalog, query, name, claim_text)) is not None:
            return answer
    return _missing(catalog, query, name, claim_text)


def _split(query: str) -> tuple[str, str]:
    text = " ".join(query.replace("＝", "=").split())
    if not text or len(text) > _LONGEST_QUERY:
        raise InputError(Message("catalog.check_length", most=_LONGEST_QUERY))
    name, *rest = _EQUALS.split(text, maxsplit=1)
    claim = rest[0] if rest else ""
    if not name.strip():
        raise InputError(Message("catalog.check_no_name", text=text))
    return name.strip(), claim.strip()


def _embedded(name: str, claim: str) -> tuple[str, str]:
    """ "A2 up to 16 x A100" carries its claim in the name."""
    found = _EMBEDDED_CLAIM.match(name)
    if found and not claim:
        return found["name"], found["claim"]
    return (found["name"], claim) if found else (name, claim)


def _missing(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult:
    """Nothing of that name: a server if it looks like one, else the nearest of everything."""
    if (parts := server_names.take_apart(catalog, name)) is not None:
        return check_servers.missing_server(catalog, query, name, claim_text, parts=parts)
    cards_, models = facts.nearest_accelerators(name), _near_models(name)
    servers = server_names.nearest_servers(catalog, name, parts=None, claims=(), count=3)
    types = tuple(catalog.servers().instance_type[row] for row in servers)
    kinds = {"server": types, "accelerator": cards_, "model": models}
    kind = _likeliest(name, kinds)
    near = tuple(dict.fromkeys(kinds[kind][:3] + tuple(names[0] for other, names in kinds.items() if names and other != kind)))
    texts = [say("missing", name=name)] + ([say("nearest", names=", ".join(near))] if near else [])
    texts += [say("claim_wrong_missing", claim=claim_text)] if claim_text else []
    explanation = join(texts)
    return CheckResult(query, kind, False, "wrong" if claim_text else None, {}, near, explanation.en, explanation.zh)


def _near_models(name: str) -> tuple[str, ...]:
    try:
        facts.model(name)
    except UnknownNameError as error:
        return error.nearest
    except InputError:
        pass
    return ()


def _likeliest(name: str, kinds: dict[str, tuple[str, ...]]) -> str:
    """The kind whose nearest name is spelled most like the text."""
    from difflib import SequenceMatcher

    def likeness(kind: str) -> float:
        return max((SequenceMatcher(None, name.casefold(), near.casefold()).ratio() for near in kinds[kind]), default=0.0)

    return max(kinds, key=likeness)
