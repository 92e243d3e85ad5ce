"""Does this server, accelerator, cloud, model or claim hold, and what is the right name? Every
answer is derived from the catalog."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from rightfit import facts
from rightfit.errors import InputError, UnknownNameError
from rightfit.facts.expressions import expression
from rightfit.market import offers, server_names
from rightfit.market.denials import affirmed, turned
from rightfit.market.market import Catalog, open_catalog
from rightfit.market.names import find_provider, provider_display
from rightfit.market.offers import PURCHASE_CODES, SUPERSEDED_BY, Floats
from rightfit.market.server_names import Claim, parse_claims
from rightfit.market.verdicts import (
    BRACKETS,
    COUNT_NEAREST,
    CheckResult,
    ClaimVerdict,
    Text,
    by_size,
    cards,
    claim_facts,
    example_row,
    join,
    judge_series,
    judge_server,
    named_shape,
    number,
    overall,
    provider_text,
    result,
    say,
    server_facts,
    shape_text,
    verdict_texts,
    whole_or_zero,
)
from rightfit.messages import Message
from rightfit.units import GIB

# ---- `rightfit check` for servers and series: what a name is, what is wrong about a claim, which
# servers are meant instead.


def exact_server(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult | None:
    """The name itself, or the full name that stands in brackets behind a nickname. A card's name
    means the card, though a cloud calls a server so."""
    for text in (name, *BRACKETS.findall(name), BRACKETS.sub("", name)):
        if facts.match_accelerators(text):
            continue
        if rows := server_names.exact_servers(catalog, text):
            return _about_server(catalog, query, rows, claims=parse_claims(claim_text, subject=text))
    return None


def _about_server(catalog: Catalog, query: str, rows: Sequence[int], *, claims: Sequence[Claim]) -> CheckResult:
    servers, row = catalog.servers(), rows[0]
    verdicts = [judge_server(catalog, claim, row=row) for claim in claims]
    texts = [
        say("server_exists", name=servers.instance_type[row], provider=provider_text(servers.provider[row]), shape=shape_text(catalog, row))
    ]
    if others := sorted({servers.provider[other] for other in rows[1:]}):
        texts.append(say("server_also_at", providers=", ".join(others)))
    texts += verdict_texts(verdicts)
    texts += _remarks(catalog, row, verdicts)
    nearest = _right_servers(catalog, row, verdicts)
    texts += _instead_texts(catalog, nearest)
    if servers.not_recommended[row]:
        status, instead = _withdrawn(catalog, row)
        texts += status
        nearest += [other for other in instead if other not in nearest]
    texts += _announced(servers.provider[row], servers.instance_type[row])
    result_facts = {**server_facts(catalog, row), "claims": claim_facts(verdicts)}
    return result(catalog, query, "server", exists=True, claim=overall(verdicts), facts_=result_facts, nearest=nearest, texts=texts)


def _right_servers(catalog: Catalog, row: int, verdicts: Iterable[ClaimVerdict]) -> list[int]:
    """For each wrong claim, the servers of the same provider that fit it."""
    servers = catalog.servers()
    parts = server_names.NameParts(servers.provider[row], servers.family[row], vcpus=whole_or_zero(servers.vcpus[row]))
    family = tuple(other for other, name in enumerate(servers.family) if (servers.provider[other], name) == (parts.provider, parts.family))
    found: dict[int, None] = {}
    for verdict in verdicts:
        if verdict.word == "wrong":
            fitting = server_names.servers_for_claim(catalog, verdict.claim, provider=parts.provider, parts=parts, family=family)
            found.update(dict.fromkeys(other for other in fitting[:3] if other != row))
    return list(found)


def _instead_texts(catalog: Catalog, rows: Sequence[int]) -> list[Text]:
    """Which servers the wrong claim describes."""
    return [say("claim_describes", names=", ".join(named_shape(catalog, row) for row in rows[:2]))] if rows else []


def _remarks(catalog: Catalog, row: int, verdicts: Sequence[ClaimVerdict]) -> list[Text]:
    """What a right claim leaves out and a reader should know."""
    servers, texts = catalog.servers(), []
    right = [verdict.claim for verdict in verdicts if verdict.word == "right"]
    if any(claim.accelerators and not claim.count for claim in right) and servers.num_accelerators[row] > 1:
        texts.append(say("count_unstated", had=cards(servers, row)))
        one = Claim(text="", accelerators=(servers.accelerator_name[row],), count=1)
        family = tuple(other for other, name in enumerate(servers.family) if name == servers.family[row])
        single = server_names.servers_for_claim(catalog, one, provider=servers.provider[row], family=family)
        if single and servers.num_accelerators[single[0]] == 1:
            texts.append(say("one_card_size", names=servers.instance_type[single[0]]))
    if any(claim.vcpus and "core" in claim.text.casefold() for claim in right) and servers.arch[row] == "x86_64":
        texts.append(say("threads", vcpus=number(float(servers.vcpus[row])), cores=number(float(servers.vcpus[row]) / 2)))
    return texts


def _announced(provider: str, instance_type: str) -> list[Text]:
    """What the provider said about the end of a type."""
    texts, day = [], offers.today()
    for event in offers.events_of(provider, instance_type):
        if event.kind == offers.RETIRED:
            texts.append(say("retired_on" if event.date <= day else "retires_on", family=event.family, date=event.date))
        elif event.date <= day:
            texts.append(say("restricted_on", date=event.date))
    return texts


def _withdrawn(catalog: Catalog, row: int) -> tuple[list[Text], list[int]]:
    """Why a server is not recommended, and what stands in for it."""
    servers = catalog.servers()
    reason = servers.not_recommended[row]
    if reason.startswith("alias of "):
        original = reason.removeprefix("alias of ")
        return [say("status_alias", name=original)], list(server_names.exact_servers(catalog, original))
    if reason.startswith(SUPERSEDED_BY):
        newer = catalog.server_rows[servers.provider[row], reason.removeprefix(SUPERSEDED_BY)]
        return [say("status_superseded", name=servers.instance_type[newer])], [newer]
    instead = successors(catalog, row)
    texts = [say("no_price" if reason == "no price" else f"status_{reason}")]
    if instead:
        texts.append(say("successors", names=", ".join(servers.instance_type[other] for other in instead)))
    return texts, instead


def successors(catalog: Catalog, row: int, *, count: int = 3) -> list[int]:
    """Servers of the same provider that can take over: as many accelerators of the same maker on
    the same kind of host, at least the memory and half the speed and bandwidth of the old one;
    cheapest first, one a family."""
    servers = catalog.servers()
    if servers.num_accelerators[row] <= 0:
        return []
    cheapest = _cheapest_on_demand(catalog)
    able = _able_accelerators(servers.accelerator_name[row])
    fitting = [
        other
        for other, provider in enumerate(servers.provider)
        if provider == servers.provider[row]
        and not servers.not_recommended[other]
        and servers.accelerator_name[other] in able
        and servers.arch[other] == servers.arch[row]
        and servers.num_accelerators[other] == servers.num_accelerators[row]
        and servers.accelerator_memory_bytes[other] >= 0.95 * servers.accelerator_memory_bytes[row]
    ]
    by_family: dict[str, int] = {}
    for other in sorted(fitting, key=lambda other: (cheapest[other], servers.instance_type[other])):
        by_family.setdefault(servers.family[other], other)
    return list(by_family.values())[:count]


def _able_accelerators(name: str) -> frozenset[str]:
    """Accelerators of the same maker with at least half the speed and half the memory bandwidth."""
    old = facts.accelerators()[name]
    speed = max(old.fp16_flops, old.bf16_flops, old.fp32_flops)
    return frozenset(
        new.name
        for new in facts.accelerators().values()
        if new.vendor == old.vendor
        and max(new.fp16_flops, new.bf16_flops, new.fp32_flops) >= 0.5 * speed
        and new.memory_bandwidth >= 0.5 * old.memory_bandwidth
    )


def _cheapest_on_demand(catalog: Catalog) -> Floats:
    """The lowest sound on-demand price of every server; infinity without one."""
    offers = catalog.all_offers(has_accelerator=True)
    sound = (offers.purchase_index == PURCHASE_CODES["on-demand"]) & ~offers.is_quarantined
    cheapest = np.full(len(catalog.servers()), np.inf)
    np.minimum.at(cheapest, offers.server_index[sound], offers.price_usd_per_h[sound])
    return cheapest


def missing_server(catalog: Catalog, query: str, name: str, claim_text: str, *, parts: server_names.NameParts) -> CheckResult:
    claims = parse_claims(claim_text, subject=name)
    texts = [say("server_missing", name=name), *_family_texts(catalog, parts)]
    nearest = list(server_names.nearest_servers(catalog, name, parts=parts, claims=claims, count=COUNT_NEAREST + 1))
    if nearest:
        texts.append(say("nearest", names=", ".join(named_shape(catalog, row) for row in nearest[:3])))
    if claim_text:
        is_card_right = any(claim.accelerators for claim in claims) and all(
            any(server_names.carries(catalog.servers(), row, claim) for row in server_names.family_rows(catalog, parts)) for claim in claims
        )
        texts.append(say("claim_card_right_missing" if is_card_right else "claim_wrong_missing", claim=claim_text))
    known = {"provider": parts.provider, "family": parts.family}
    known["nearest"] = [server_facts(catalog, row) for row in nearest[:3]]  # type: ignore[assignment]
    verdict = "wrong" if claim_text else None
    return result(catalog, query, "server", exists=False, claim=verdict, facts_=known, nearest=nearest, texts=texts)


def _family_texts(catalog: Catalog, parts: server_names.NameParts) -> list[Text]:
    """What the family of a wrong name really holds."""
    servers, rows = catalog.servers(), server_names.family_rows(catalog, parts)
    if not rows and (family := server_names.successor(parts)):
        return [say("family_former", provider=provider_text(parts.provider), family=parts.family, successor=family)]
    if not rows:
        return [say("family_missing", provider=provider_text(parts.provider), family=parts.family)]
    names = sorted({servers.accelerator_name[row] for row in rows if servers.accelerator_name[row]})
    texts = [say("family_sizes" if names else "family_sizes_cpu", family=parts.family, count=len(rows), accelerators=" / ".join(names))]
    if parts.spec and (same := [servers.instance_type[row] for row in rows if f"-{parts.spec}." in servers.instance_type[row]]):
        texts.append(say("spec_only_as", spec=f"{parts.family}-{parts.spec}", sizes=", ".join(same)))
    if parts.provider == "tencent" and (
        same := [servers.instance_type[row] for row in rows if server_names.same_size(catalog, row, parts)]
    ):
        texts.append(say("ram_in_name", sizes=", ".join(same)))
    return texts


def series(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult | None:
    """ "A2" is a Google series and an NVIDIA card: a claim that names another card, or a word such
    as "instance", means the series."""
    rows = server_names.series_members(catalog, name)
    if not rows:
        return None
    bare = server_names.bare_name(name)
    claims = parse_claims(claim_text or " / ".join(BRACKETS.findall(name)), subject=bare)
    as_card = set(facts.match_accelerators(bare))
    names_another = any(claim.accelerators and not set(claim.accelerators) & as_card for claim in claims)
    if as_card and bare == " ".join(name.split()) and not names_another:
        return None
    return _about_series(catalog, query, bare, rows=_one_provider(catalog, rows, claims), claims=claims)


def _about_series(catalog: Catalog, query: str, name: str, *, rows: Sequence[int], claims: Sequence[Claim]) -> CheckResult:
    servers, ordered = catalog.servers(), by_size(catalog, rows)
    verdicts = [judge_series(catalog, claim, rows=rows) for claim in claims]
    fitting = [row for row in rows if any(judge_server(catalog, claim, row=row).word == "right" for claim in claims)]
    example = example_row(catalog, fitting or list(rows))
    provider = servers.provider[example]
    shape = ", ".join(dict.fromkeys(cards(servers, row) or f"{number(float(servers.vcpus[row]))} vCPU" for row in ordered))
    nearest = _right_of_series(catalog, provider, verdicts)
    texts = [say("series_exists", name=name, provider=provider_text(provider), count=len(rows), shape=shape), *verdict_texts(verdicts)]
    texts += _instead_texts(catalog, nearest)
    known = {**server_facts(catalog, example), "series": name, "claims": claim_facts(verdicts)}
    known["members"] = [servers.instance_type[row] for row in ordered]
    return result(catalog, query, "server", exists=True, claim=overall(verdicts), facts_=known, nearest=nearest, texts=texts)


def _one_provider(catalog: Catalog, rows: Sequence[int], claims: Sequence[Claim]) -> tuple[int, ...]:
    """Of providers that share a family name, the one where the claim fits, else the one with
    accelerators, else the first."""
    servers = catalog.servers()
    by_provider: dict[str, list[int]] = {}
    for row in rows:
        by_provider.setdefault(servers.provider[row], []).append(row)

    def fit(provider: str) -> tuple[bool, bool]:
        own = by_provider[provider]
        fits = any(servers.accelerator_name[row] in claim.accelerators for row in own for claim in claims)
        return not fits, not any(servers.num_accelerators[row] > 0 for row in own)

    return tuple(by_provider[min(by_provider, key=fit)])


def _right_of_series(catalog: Catalog, provider: str, verdicts: Iterable[ClaimVerdict]) -> list[int]:
    """For a wrong claim about a series: the provider's servers with that accelerator,
    whole machines first."""
    servers, found = catalog.servers(), {}
    for verdict in verdicts:
        if verdict.word == "wrong":
            rows = server_names.servers_for_claim(catalog, verdict.claim, provider=provider)
            current = [row for row in rows if not servers.not_recommended[row]] or rows
            found.update(dict.fromkeys(sorted(current, key=lambda row: (-servers.num_accelerators[row], servers.instance_type[row]))))
    return list(found)[:COUNT_NEAREST]


# ---- `rightfit check` for clouds, accelerators and models.


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


#: Chinese words that belong to a card's name; a name with others is a sentence.
_CARD_WORDS = re.compile(r"昇腾|英伟达|寒武纪|海光|燧原|天数|壁仞|摩尔线程|沐曦|昆仑芯?|阿里|平头哥|华为|思元|曦云|显卡|加速卡|卡|魔改|版")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")


def accelerator(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult | None:
    names = facts.match_accelerators(server_names.bare_name(name))
    if not names or _CHINESE.search(_CARD_WORDS.sub("", server_names.bare_name(name))):
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
        if server_names.is_amount(text):
            continue  # "4张3090行不行（96G）"
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


_LONGEST_QUERY = 400
_EQUALS = re.compile(r"(?<![<>=!])=")  # ">=" belongs to a claim
_EMBEDDED_CLAIM = re.compile(r"^(?P<name>.+?)\s+(?P<claim>(?:up to|with|has|offers|最多|带)\s*.+)$", re.IGNORECASE)

RuleLookup = Callable[[str], CheckResult | None]


def check(queries: Iterable[str], *, catalog: Catalog | None = None, rule: RuleLookup | None = None) -> list[CheckResult]:
    """Answer each NAME or NAME=CLAIM. `rule(query)` may answer first, for the rules of
    thumb of a higher room."""
    market = catalog or open_catalog()
    return [check_one(query, catalog=market, rule=rule) for query in queries]


# The first that knows the name answers.
_LOOKS = (
    exact_server,
    provider,
    series,
    accelerator,
    bracketed,
    model,
)


def check_one(query: str, *, catalog: Catalog, rule: RuleLookup | None = None) -> CheckResult:
    """Find what the name means, then hold the claim against it; a denial as what it denies, turned
    round."""
    said = affirmed(query)
    return _checked(query, catalog, rule) if said is None else _denial(query, said, _checked(said, catalog, rule))


def _denial(query: str, said: str, found: CheckResult) -> CheckResult:
    """The answer to a denial, from that to what it denies. What is said of a thing that does not
    exist is not right because it is denied."""
    if found.claim is None:
        return dataclasses.replace(found, query=query)
    claim = turned(found.claim) if found.exists else "unknown"
    texts = say(f"denied_{claim}", said=said)
    en, zh = f"{texts.en} {found.explanation_en}".strip(), f"{texts.zh}{found.explanation_zh}"
    return dataclasses.replace(found, query=query, claim=claim, explanation_en=en, explanation_zh=zh)


def _checked(query: str, catalog: Catalog, rule: RuleLookup | None) -> CheckResult:
    name, claim_text = _split(query)
    if claim_text:
        name = _without_cloud(catalog, name)
    else:
        name, claim_text = _claim_about(catalog, name)
    if claim_text and _COMPARES.search(query):  # it asks how two things differ, and says nothing of either
        name, claim_text = query, ""
    elif claim_text and (_ASKS_HOW_MANY.search(claim_text) or _asks_what(query, claim_text)):  # it asks for an amount, and says none
        claim_text = ""
    if not claim_text and rule is not None and (answer := rule(query)) is not None:
        return answer
    is_more = bool(claim_text) and (
        _says_more(name, claim_text) or bool(_OF_DATA.search(query))
    )  # each part of it is judged, not the amount alone
    if is_more and rule is not None and (answer := rule(query)) is not None and answer.claim is not None:
        return answer
    name, claim_text = _embedded(name, claim_text)
    for look in _LOOKS:
        if (answer := look(catalog, query, name, claim_text)) is not None:
            return answer
    if claim_text and rule is not None and server_names.take_apart(catalog, name) is None and (answer := rule(query)) is not None:
        return answer  # "VRAM = parameters x 16 bytes": an equation about no product
    return _missing(catalog, query, name, claim_text)


def _says_more(name: str, claim: str) -> bool:
    """Whether a claim about a card says more of it than its number, its memory and its names."""
    if not facts.match_accelerators(name):
        return False
    others = (word for word in re.findall(r"(?<![\w.-])[A-Za-z]+\d[\w-]*", claim, re.ASCII) if not facts.match_accelerators(word))
    return any(others) or bool(re.search(r"[\u4e00-\u9fff]{3}|[A-Za-z]{4}", _OF_SERIES.sub(" ", claim)))


def _asks_what(query: str, claim: str) -> bool:
    """Whether a question asks what something is, with no figure or card that it says of it."""
    named = any(facts.match_accelerators(word) for word in re.findall(r"[A-Za-z][\w-]*", claim, re.ASCII))
    return bool(_WHAT_IS.search(query)) and not re.search(r"\d", claim) and not named


#: What a thing is.
_WHAT_IS = expression(r"^\s*(?:what(?:'s| is| are)|which)\b|是什么|是啥|什么(?:卡|显卡|配置|机型)|哪[种款]")
#: An amount that is asked for.
_ASKS_HOW_MANY = expression(r"多少|几\s*[张块个台核颗]|\bhow (?:many|much)\b")
#: How two things that are named differ.
_COMPARES = re.compile(
    r"区别|差别|差异|有何不同|有什么不同|哪里不同|\b(?:differences?|differs?|versus|vs|compared? (?:to|with))\b", re.IGNORECASE
)


def _split(query: str) -> tuple[str, str]:
    text = " ".join(query.replace("＝", "=").split())
    if not text or len(text) > _LONGEST_QUERY:
        raise InputError(Message("catalog.check_length", most=_LONGEST_QUERY))
    name, *rest = _EQUALS.split(text, maxsplit=1)
    claim = rest[0] if rest else ""
    if not name.strip():
        raise InputError(Message("catalog.check_no_name", text=text))
    return name.strip(), claim.strip()


#: A name that a cloud could give a server (a dot or a dash in it), or any before a bracket.
_NAME = re.compile(r"(?<![\w.+/-])[A-Za-z][A-Za-z0-9_]*[.\-_][\w.+\-]*\w(?![\w-])", re.ASCII)
_BEFORE_CLAIM = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w./+ -]*?)\s*(?:[(（](?P<bracket>[^()（）]+)[)）]|[:：]\s*(?P<colon>.+)|(?P<said>(?:有|带|搭载|拥有|显存(?:高达|为|是)?)\s*\d.*))$",
    re.ASCII,
)
#: A server of Azure as people write it, with blanks.
_SPACED = re.compile(r"(?<![\w.+/-])(?:Standard[ _])?N[CDGV]\d+\w*[ _]\w+[ _]v\d(?![\w.-])", re.ASCII)
#: What may be the name of a series ("gn7i", "NDv4", "NDm A100 v4").
_SERIES = re.compile(
    r"(?<![\w.+/-])(?:ND\w*[ _]\w+[ _]v\d|N[CDV]\w*_[A-Z]\w*_v\d|[A-Za-z]{1,4}\d[A-Za-z]{0,3}\d?|N[CDV][A-Za-z]*v\d)(?![\w.-])",
    re.ASCII | re.IGNORECASE,
)
#: What may stand beside the cards of a series.
_OF_SERIES = re.compile(
    r"实例|系列|机型|规格|服务器|配备?|搭载|最多|最高|显存|显卡|加速卡|每台|单机|一共|共|版本?|[\d一两二四八]+\s*[张块个卡x×*]|\binstances?\b|\bseries\b|\bup to\b|\bGPUs?\b|\bcards?\b"
    r"|\bmemory\b|\bfamily\b|\b(?:NVIDIA|Tesla|Ampere|Hopper)\b|[(（].*[)）]|[A-Za-z]+\d[\w-]*|\d+\s*Gi?B?",
    re.IGNORECASE,
)
_VERBS = re.compile(
    r"是不是|是否|有没有|是|为|满足|符合|达到|配备?|带有?|搭载|拥有|只?有|的|最低要求|实例|机型|\b(?:is|are|has|have|comes? with|with|meets?|an?|the|one(?!\s+[A-Za-z]+\d)|of)\b",
    re.IGNORECASE,
)


def _claim_about(catalog: Catalog, text: str) -> tuple[str, str]:
    """ "g5.xlarge (1xT4)", "g5.xlarge: T4", "A2 有 16 x A100" and "r7.8xlarge 32核 256G" carry a
    claim about a server or a card: its name and what is said of it."""
    if found := _BEFORE_CLAIM.match(text):
        subject, told = _without_cloud(catalog, found["name"].strip()), (found["bracket"] or found["colon"] or found["said"]).strip()
        is_card = bool(facts.match_accelerators(subject))
        is_more = is_card and re.search(r"带宽|nvlink|功耗|算力|flops|tdp|bandwidth|/s", told, re.IGNORECASE)  # for the reader of cards
        if (is_card or _is_server(catalog, subject)) and not is_more and _says(told):
            return subject, told
    for match in _NAME.finditer(text):
        is_server = _is_server(catalog, match[0]) and not facts.match_accelerators(match[0])
        if is_server and (_says(told := _told_of(text, match)) or _OF_DATA.search(text)):
            return match[0], told
    for match in _SPACED.finditer(text):
        joined = match[0].replace(" ", "_")
        if _is_server(catalog, joined) and _says(told := _told_of(text, match)):
            return joined, told
    for match in _SERIES.finditer(text):
        if server_names.series_members(catalog, match[0]) and _carries_cards(match[0], told := _told_of(text, match)):
            return match[0], told
    return text, ""


#: An amount of data, which is no memory: "500 GB of text".
_OF_DATA = re.compile(
    r"\d+(?:\.\d+)?\s*[TGM]i?B\s*(?:of\s+(?!(?:\w+\s+)?(?:v?ram|memory|storage|disk|ssd|nvme|hbm\w*|g?ddr\w*)\b)\w+|的?\s*(?:训练)?(?:数据|图片|文本|表格))",
    re.IGNORECASE,
)


def _told_of(text: str, name: re.Match[str]) -> str:
    """What a sentence says of a name in it, without the cloud and the verbs."""
    text = text[: name.end()] + _OF_DATA.sub(" ", text[name.end() :])
    rest = f"{text[: name.start()]} {re.split('[?？]', text[name.end() :])[0]}"  # what is asked behind it is another question
    cloud = next((word for word in re.split(r"[\s,，]+", rest) if word and find_provider(word)), "")
    return _VERBS.sub(" ", rest.replace(cloud, " ", 1) if cloud else rest).strip(" ,，。.?？吗()（）:：")


def _carries_cards(series: str, told: str) -> bool:
    """Whether what is said of a series is which cards it has, and nothing of a model or a job:
    "A2" is a card too, unless it is said to be another."""
    as_card = facts.match_accelerators(series)
    claims = parse_claims(told, subject=series)
    named = [claim for claim in claims if claim.accelerators and not set(claim.accelerators) & set(as_card)]
    rest = _OF_SERIES.sub(" ", told)
    return bool(named) and not any(claim.parameters for claim in claims) and not re.search(r"[\u4e00-\u9fff]{3}|[A-Za-z]{4}", rest)


def _without_cloud(catalog: Catalog, name: str) -> str:
    """ "Azure NDv4" is NDv4."""
    cloud, _, rest = name.partition(" ")
    return rest if rest and find_provider(cloud) and _is_server(catalog, rest) else name


def _is_server(catalog: Catalog, name: str) -> bool:
    if server_names.exact_servers(catalog, name) or server_names.series_members(catalog, name):
        return True
    parts = server_names.take_apart(catalog, name)
    return parts is not None and (bool(parts.size) or bool(parts.vcpus))


def _says(told: str) -> bool:
    return any(claim.says_something for claim in parse_claims(told))


def _embedded(name: str, claim: str) -> tuple[str, str]:
    """ "A2 up to 16 x A100" carries its claim in the name."""
    found = _EMBEDDED_CLAIM.match(name)
    if found and not claim:
        return found["name"], found["claim"]
    return (found["name"], claim) if found else (name, claim)


def _missing(catalog: Catalog, query: str, name: str, claim_text: str) -> CheckResult:
    """Nothing of that name: a server if it looks like one, else the nearest of everything. What is
    said of a thing that we do not know cannot be judged."""
    if (parts := server_names.take_apart(catalog, name)) is not None:
        return missing_server(catalog, query, name, claim_text, parts=parts)
    cards_, models = facts.nearest_accelerators(name), _near_models(name)
    servers = server_names.nearest_servers(catalog, name, parts=None, claims=(), count=3)
    types = tuple(catalog.servers().instance_type[row] for row in servers)
    kinds = {"server": types, "accelerator": cards_, "model": models}
    kind = _likeliest(name, kinds)
    near = tuple(dict.fromkeys(kinds[kind][:3] + tuple(names[0] for other, names in kinds.items() if names and other != kind)))
    if not near and (claim_text or _SENTENCE.search(query)):
        texts = [say("not_judged")]
    else:
        texts = [say("missing", name=name)] + ([say("nearest", names=", ".join(near))] if near else [])
        texts += [say("claim_unknown_missing", claim=claim_text)] if claim_text else []
    explanation = join(texts)
    is_claim = claim_text or _SENTENCE.search(query)
    return CheckResult(query, kind, False, "unknown" if is_claim else None, {}, near, explanation.en, explanation.zh)


#: A sentence, not a name: Chinese words with more around them than a name has, or several words.
_SENTENCE = re.compile(r"[\u4e00-\u9fff].*[\u4e00-\u9fff].*[\u4e00-\u9fff].*[\u4e00-\u9fff]|(?:\w+[\s,]+){4}")


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
