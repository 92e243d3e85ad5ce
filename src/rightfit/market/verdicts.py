"""Is a claim about a server right? Each part of it is held against the catalog; what is wrong is a
reason in both languages."""

from __future__ import annotations

import functools
import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rightfit.market.market import Catalog
from rightfit.market.names import names_data, provider_display
from rightfit.market.offers import PURCHASE_CODES, OfferTable, ServerTable
from rightfit.market.packed_tables import data_bytes
from rightfit.market.server_names import Claim, memory_agrees
from rightfit.records import dataclass
from rightfit.units import GIB

_PRICE_TOLERANCE = 0.05
_COUNT_WORDS = {"right": 0, "unknown": 1, "wrong": 2}


@dataclass(frozen=True, slots=True)
class Text:
    """One sentence in both languages."""

    en: str
    zh: str


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """right, wrong or unknown, and for wrong the reasons."""

    claim: Claim
    word: str
    reasons: tuple[Text, ...] = ()


@functools.cache
def _templates() -> dict[str, dict[str, str]]:
    return tomllib.loads(data_bytes("check_texts.toml").decode())


def say(key: str, **values: Any) -> Text:
    """A sentence of check_texts.toml with its blanks filled; a blank may itself be a Text."""
    template = _templates()[key]

    def fill(lang: str) -> str:
        return template[lang].format(**{name: getattr(value, lang) if isinstance(value, Text) else value for name, value in values.items()})

    return Text(fill("en"), fill("zh"))


def join(texts: Iterable[Text], *, en: str = "; ", zh: str = "；") -> Text:
    """Sentences one after the other."""
    parts = tuple(texts)
    return Text(en.join(part.en for part in parts), zh.join(part.zh for part in parts))


def number(value: float) -> str:
    """A figure without needless decimals."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def cards(servers: ServerTable, row: int) -> str:
    """Accelerators of a server: "8 x A100-SXM-40GB"; empty without one."""
    count = float(servers.num_accelerators[row])
    return f"{number(count)} x {servers.accelerator_name[row]}" if count > 0 else ""


def judge_series(catalog: Catalog, claim: Claim, *, rows: Sequence[int]) -> ClaimVerdict:
    """A claim about a series holds when one of its sizes fits; "up to n" when no size has more.
    Else the reasons of the closest size."""
    servers = catalog.servers()
    verdicts = [judge_server(catalog, claim, row=row) for row in rows]
    best = min(verdicts, key=lambda verdict: (_COUNT_WORDS[verdict.word], len(verdict.reasons)))
    if best.word == "right" and claim.up_to and claim.count:
        most = max(float(servers.num_accelerators[row]) for row in rows if servers.accelerator_name[row] in claim.accelerators)
        if most != claim.count:
            return ClaimVerdict(claim, "wrong", (say("wrong_count", had=number(most), claimed=claim.count),))
    if best.word == "wrong" and claim.accelerators and not any(servers.accelerator_name[row] in claim.accelerators for row in rows):
        names = ", ".join(sorted({servers.accelerator_name[row] for row in rows if servers.accelerator_name[row]}))
        key = "wrong_accelerator" if names else "wrong_no_accelerator"
        return ClaimVerdict(claim, "wrong", (say(key, had=names, claimed=claim.accelerator_words),))
    return best


def judge_server(catalog: Catalog, claim: Claim, *, row: int) -> ClaimVerdict:
    """A claim about one server type."""
    if not claim.says_something:
        return ClaimVerdict(claim, "unknown")
    servers = catalog.servers()
    reasons: list[Text] = []
    unknown = False
    for part in (_accelerator, _shape, _network, functools.partial(_price, catalog)):
        found, is_unknown = part(claim, servers, row)
        reasons += found
        unknown |= is_unknown
    if claim.is_provider and not claim.cpu_only:
        reasons.append(say("wrong_not_server"))
    unknown |= bool(claim.parameters)  # what a model needs is not what a server has
    return ClaimVerdict(claim, "wrong" if reasons else "unknown" if unknown else "right", tuple(reasons))


def _accelerator(claim: Claim, servers: ServerTable, row: int) -> tuple[list[Text], bool]:
    had = cards(servers, row)
    if claim.cpu_only and had:
        return [say("wrong_has_accelerator", had=had)], False
    says_cards = claim.accelerators or claim.accelerator_memory_bytes or claim.count or claim.total_memory_bytes
    if not says_cards:
        return [], False
    if not had and not claim.total_memory_bytes:
        return [say("wrong_no_accelerator", claimed=claim.accelerator_words or claim.text)], False
    if claim.accelerators and servers.accelerator_name[row] not in claim.accelerators:
        return [say("wrong_accelerator", had=had, claimed=claim.accelerator_words)], False
    reasons = []
    if claim.count and claim.count != servers.num_accelerators[row]:
        reasons.append(say("wrong_count", had=number(float(servers.num_accelerators[row])), claimed=claim.count))
    memory = float(servers.accelerator_memory_bytes[row])
    if claim.total_memory_bytes:
        sums = (memory * float(servers.num_accelerators[row]), float(servers.memory_bytes[row]))
        if all(math.isnan(one) for one in sums):
            return reasons, True
        if not any(memory_agrees(claim.total_memory_bytes, one) for one in sums):
            each = f"{number(float(servers.num_accelerators[row]))} x {number(memory / GIB)} GiB = {number(sums[0] / GIB)} GiB"
            reasons.append(say("wrong_total_memory", had=each, claimed=number(claim.total_memory_bytes / 1e9)))
    is_unknown = bool(claim.accelerator_memory_bytes) and math.isnan(memory)
    is_all = not claim.accelerators and memory_agrees(claim.accelerator_memory_bytes, memory * float(servers.num_accelerators[row]))
    if claim.accelerator_memory_bytes and not is_unknown and not is_all and not memory_agrees(claim.accelerator_memory_bytes, memory):
        reasons.append(say("wrong_accelerator_memory", had=number(memory / GIB), claimed=number(claim.accelerator_memory_bytes / 1e9)))
    return reasons, is_unknown


def _shape(claim: Claim, servers: ServerTable, row: int) -> tuple[list[Text], bool]:
    reasons, is_unknown = [], False
    vcpus, memory = float(servers.vcpus[row]), float(servers.memory_bytes[row])
    if claim.vcpus:
        is_unknown |= math.isnan(vcpus)
        if vcpus not in (claim.vcpus, math.nan) and not math.isnan(vcpus):
            reasons.append(say("wrong_vcpus", had=number(vcpus), claimed=claim.vcpus))
    if claim.memory_bytes:
        is_unknown |= math.isnan(memory)
        each = float(servers.accelerator_memory_bytes[row])
        if (
            not math.isnan(memory)
            and not memory_agrees(claim.memory_bytes, memory)
            and (claim.is_host_memory or not memory_agrees(claim.memory_bytes, each))
        ):
            key = "wrong_any_memory" if each > 0 and not claim.is_host_memory else "wrong_memory"
            shown = (
                {"host": number(memory / GIB), "each": number(each / GIB)} if key == "wrong_any_memory" else {"had": number(memory / GIB)}
            )
            reasons.append(say(key, claimed=number(claim.memory_bytes / 1e9), **shown))
    return reasons, is_unknown


def _network(claim: Claim, servers: ServerTable, row: int) -> tuple[list[Text], bool]:
    reasons, is_unknown = [], False
    if claim.network_bytes_per_s:
        figures = [float(column[row]) for column in (servers.network_bytes_per_s, servers.network_burst_bytes_per_s)]
        known = [figure for figure in figures if not math.isnan(figure)]
        is_unknown = not known
        if known and not any(abs(figure / claim.network_bytes_per_s - 1) <= 0.02 for figure in known):
            reasons.append(say("wrong_network", had=number(known[0] * 8e-9), claimed=number(claim.network_bytes_per_s * 8e-9)))
    if claim.rdma and claim.rdma != servers.rdma[row] and not (claim.rdma == "rdma" and servers.rdma[row] != "none"):
        reasons.append(say("wrong_rdma", had=servers.rdma[row], claimed=claim.rdma))
    return reasons, is_unknown


def _price(catalog: Catalog, claim: Claim, servers: ServerTable, row: int) -> tuple[list[Text], bool]:
    if not claim.price_usd_per_h:
        return [], False
    offers = catalog.offers_of(row)
    prices = offers.price_usd_per_h[~offers.is_quarantined]
    if not len(prices):
        return [], True
    if np.any(np.abs(prices / claim.price_usd_per_h - 1) <= _PRICE_TOLERANCE):
        return [], False
    shown = {"low": number(float(prices.min())), "high": number(float(prices.max())), "claimed": number(claim.price_usd_per_h)}
    current = on_demand_example(catalog, row, home_region=names_data()["home_regions"].get(servers.provider[row], ""))
    if current is None:
        return [say("wrong_price", **shown)], False
    return [
        say("wrong_current_price", price=number(current["price_usd_per_h"]), region=current["region"], as_of=current["as_of"], **shown)
    ], False


def on_demand_example(catalog: Catalog, row: int, *, home_region: str) -> dict[str, Any] | None:
    """One on-demand price of a server: in the provider's home region, else the cheapest
    real region, else any."""
    offers: OfferTable = catalog.offers_of(row)
    rows = np.flatnonzero((offers.purchase_index == PURCHASE_CODES["on-demand"]) & ~offers.is_quarantined)
    if not len(rows):
        return None

    def rank(index: int) -> tuple[bool, bool, float]:
        return (
            offers.regions[offers.region_index[index]] != home_region,
            bool(offers.is_pseudo_region[index]),
            float(offers.price_usd_per_h[index]),
        )

    return offers.row(min(rows.tolist(), key=rank))


# ---- The answer to one question of `rightfit check`: its facts and its sentences.

BRACKETS = re.compile(r"[(（]([^()（）]*)[)）]")
COUNT_NEAREST = 5


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer to one NAME[=CLAIM]. `kind` is server, accelerator, provider, model, rule or term;
    `claim` is right, wrong, unknown, or None without a claim."""

    query: str
    kind: str
    exists: bool
    claim: str | None
    facts: dict[str, Any]
    nearest: tuple[str, ...]
    explanation_en: str
    explanation_zh: str

    def to_dict(self, *, lang: str = "en") -> dict[str, Any]:
        """The contract's JSON object."""
        explanation = self.explanation_zh if lang == "zh" else self.explanation_en
        values = {"query": self.query, "kind": self.kind, "exists": self.exists, "claim": self.claim, "facts": self.facts}
        return {**values, "nearest": list(self.nearest), "explanation": explanation}


def example_row(catalog: Catalog, rows: Sequence[int]) -> int:
    """The smallest recommendable size with whole accelerators."""
    servers = catalog.servers()
    return min(by_size(catalog, rows), key=lambda row: (bool(servers.not_recommended[row]), servers.num_accelerators[row] < 1))


def by_size(catalog: Catalog, rows: Iterable[int]) -> list[int]:
    servers = catalog.servers()
    return sorted(rows, key=lambda row: (servers.num_accelerators[row], np.nan_to_num(servers.vcpus[row]), servers.instance_type[row]))


def server_facts(catalog: Catalog, row: int) -> dict[str, Any]:
    """A server in base units, with one price; unknown figures are None."""
    servers = catalog.servers()
    count = float(servers.num_accelerators[row])
    memory = known_or_none(servers.accelerator_memory_bytes[row])
    accelerator = {"name": servers.accelerator_name[row], "count": count, "memory_bytes": memory} if count else None
    network = known_or_none(servers.network_bytes_per_s[row])
    home = names_data()["home_regions"].get(servers.provider[row], "")
    price = on_demand_example(catalog, row, home_region=home)
    keys = ("region", "purchase", "price_usd_per_h", "as_of", "source", "is_estimate", "is_stale")
    return {
        "provider": servers.provider[row],
        "instance_type": servers.instance_type[row],
        "vcpus": known_or_none(servers.vcpus[row]),
        "memory_bytes": known_or_none(servers.memory_bytes[row]),
        "accelerator": accelerator,
        "network_gbps": None if network is None else network * 8e-9,
        "rdma": servers.rdma[row],
        "gpu_interconnect": servers.gpu_interconnect[row],
        "status": servers.status[row],
        "not_recommended": servers.not_recommended[row] or None,
        "price": {key: price[key] for key in keys} if price else None,
        "source": servers.source[row],
        "note": servers.note[row],
    }


def known_or_none(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def whole_or_zero(value: Any) -> int:
    return 0 if np.isnan(value) else int(value)


def shape_text(catalog: Catalog, row: int) -> Text:
    """ "8 x A100-SXM-40GB (40 GiB each), 96 vCPU, 1152 GiB, 400 Gbit/s efa; 21.96 USD/h ..."."""
    servers, known = catalog.servers(), server_facts(catalog, row)
    parts = []
    if known["accelerator"]:
        each = known["accelerator"]["memory_bytes"]
        count = float(servers.num_accelerators[row])
        whole = f", {number(count * each / GIB)} GiB in all" if each and count > 1 else ""
        parts.append(cards(servers, row) + (f" ({number(each / GIB)} GiB each{whole})" if each else ""))
    parts += [f"{number(known['vcpus'])} vCPU"] if known["vcpus"] else []
    parts += [f"{number(known['memory_bytes'] / GIB)} GiB RAM"] if known["memory_bytes"] else []
    parts += (
        [f"{number(known['network_gbps'])} Gbit/s" + ("" if known["rdma"] == "none" else f" {known['rdma']}")]
        if known["network_gbps"]
        else []
    )
    shape = ", ".join(parts)
    in_chinese = re.sub(r"(?:, ([\d.]+) GiB in all)?\)", lambda one: f"，共 {one[1]} GiB)" if one[1] else ")", shape)
    texts = [Text(shape, in_chinese.replace(" GiB each", " GiB/卡").replace(" GiB RAM", " GiB 内存"))]
    if price := known["price"]:
        texts.append(say("price_example", price=number(price["price_usd_per_h"]), region=price["region"], as_of=price["as_of"]))
    return join(texts)


def named_shape(catalog: Catalog, row: int) -> str:
    servers = catalog.servers()
    sizes = (cards(servers, row), f"{number(float(servers.vcpus[row]))} vCPU", f"{number(float(servers.memory_bytes[row]) / GIB)} GiB")
    return f"{servers.instance_type[row]} ({', '.join(size for size in sizes if size and 'nan' not in size)})"


def overall(verdicts: Sequence[ClaimVerdict]) -> str | None:
    """One wrong statement makes the claim wrong; one that cannot be checked leaves it open."""
    words = {verdict.word for verdict in verdicts}
    if "right" in words and all(re.search(r"\d", verdict.claim.text) is None for verdict in verdicts if verdict.word == "unknown"):
        words.discard("unknown")  # what a server is for, beside figures that hold
    return next((word for word in ("wrong", "unknown", "right") if word in words), None)


def verdict_texts(verdicts: Iterable[ClaimVerdict]) -> list[Text]:
    return [
        say("claim_wrong", claim=verdict.claim.text, reasons=join(verdict.reasons, en=", ", zh="，"))
        if verdict.word == "wrong"
        else say(f"claim_{verdict.word}", claim=verdict.claim.text)
        for verdict in verdicts
    ]


def claim_facts(verdicts: Iterable[ClaimVerdict]) -> list[dict[str, Any]]:
    return [
        {"text": verdict.claim.text, "verdict": verdict.word, "reasons": [reason.en for reason in verdict.reasons]} for verdict in verdicts
    ]


@functools.cache
def provider_text(code: str) -> Text:
    return Text(provider_display(code), provider_display(code, lang="zh"))


def result(
    catalog: Catalog,
    query: str,
    kind: str,
    *,
    exists: bool,
    claim: str | None,
    facts_: dict[str, Any],
    nearest: Sequence[int],
    texts: Iterable[Text],
) -> CheckResult:
    servers, explanation = catalog.servers(), join(texts)
    names = tuple(servers.instance_type[row] for row in nearest)
    return CheckResult(query, kind, exists, claim, facts_, names, explanation.en, explanation.zh)
