"""Words of the field and symptoms, explained in both languages with figures of our own tables
(data/glossary.toml)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.explain.rule_match import folded
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.catalog.verdicts import CheckResult

_DATA = Path(__file__).with_name("data")
_ASKED = re.compile(
    r"^(?:what(?:'s| is| are| does)|什么是|啥是|解释一下|explain|define)\s*(?:an?\s+|the\s+)?|\s*(?:是什么(?:意思)?|是啥|什么意思|的含义|mean)?\s*[?？]?$",
    re.IGNORECASE,
)
_CARD_FIGURES: Mapping[str, tuple[str, float, str]] = {
    "memory": ("memory_bytes", 2.0**30, "GiB"),
    "bandwidth": ("memory_bandwidth", 1e9, "GB/s"),
    "nvlink": ("nvlink_bandwidth", 1e9, "GB/s"),
    **{name: (f"{name}_flops", 1e12, "TFLOPS") for name in ("fp16", "bf16", "fp8")},
    "int8": ("int8_ops", 1e12, "TOPS"),
}


@cache
def glossary() -> Mapping[str, Any]:
    """Every term by id: its words, what it means in each language, and a command to ask."""
    return tomllib.loads((_DATA / "glossary.toml").read_text(encoding="utf-8"))


def term_text(name: str, lang: Lang) -> str:
    """What a term means, with the figures of cards filled in from the table of cards."""
    from rightfit import facts

    def figure(found: re.Match[str]) -> str:
        column, unit, shown = _CARD_FIGURES[found["figure"]]
        return f"{getattr(facts.accelerators()[found['card']], column) / unit:,.4g} {shown}"

    told = re.sub(r"\{(?P<card>[\w-]+)\.(?P<figure>\w+)\}", figure, glossary()[name][lang])
    return f"{told} `{glossary()[name]['ask']}`"


def term_lookup(query: str) -> CheckResult | None:
    """The answer to a word of the field, asked for alone or as "what is ..."."""
    from rightfit.catalog.verdicts import CheckResult

    asked = {folded(query), folded(_ASKED.sub("", query.strip()))}
    name = next((name for name, entry in glossary().items() if asked & set(map(folded, entry["words"]))), None)
    if name is None:
        return None
    return CheckResult(
        query, "term", True, None, {"id": name, "ask": glossary()[name]["ask"]}, (), term_text(name, "en"), term_text(name, "zh")
    )
