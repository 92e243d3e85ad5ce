"""The answer to one question of `rightfit check`: its facts and its sentences."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rightfit.catalog.market import Catalog
from rightfit.catalog.names import names_data, provider_display
from rightfit.catalog.verdicts import ClaimVerdict, Text, cards, join, number, on_demand_example, say
from rightfit.records import dataclass
from rightfit.units import GIB

BRACKETS = re.compile(r"[(（]([^()（）]*)[)）]")
COUNT_NEAREST = 5


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer to one NAME[=CLAIM]. `kind` is server, accelerator, provider, model or rule; `claim` is right, wrong, unknown, or None
    without a claim."""

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
        parts.append(cards(servers, row) + (f" ({number(each / GIB)} GiB each)" if each else ""))
    parts += [f"{number(known['vcpus'])} vCPU"] if known["vcpus"] else []
    parts += [f"{number(known['memory_bytes'] / GIB)} GiB"] if known["memory_bytes"] else []
    parts += (
        [f"{number(known['network_gbps'])} Gbit/s" + ("" if known["rdma"] == "none" else f" {known['rdma']}")]
        if known["network_gbps"]
        else []
    )
    shape = ", ".join(parts)
    texts = [Text(shape, shape.replace(" GiB each", " GiB/卡"))]
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
