"""Write how much is known (servers, prices, clouds, models, accelerators, rules) into the
pages that say it.

Usage: python scripts/write_sizes.py [--check]     (--check writes nothing and exits 1 where a page
                                                   is behind, with a line for each figure)
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from rightfit import facts
from rightfit.explain.rules import rule_names
from rightfit.market import open_catalog

NUMBER = r"\d[\d,]*"
# Page -> (what is counted, words around the number, which stands for "#").
FIGURES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "README.md": (("clouds", "every server and price of # clouds"),),
    "README.zh.md": (("clouds", "覆盖 # 家云"),),
    "docs/coverage.md": (
        ("servers", "# server types and"),
        ("prices", "server types and # prices"),
        ("clouds", "prices of # clouds: on demand"),
        ("transformers", "# transformer architectures"),
        ("accelerators", "architectures and # accelerators"),
        ("offers of accelerators", "over all # accelerator offers"),
    ),
    "docs/coverage.zh.md": (
        ("clouds", r"\* # 家云"),
        ("servers", "家云的 # 种机型"),
        ("prices", "种机型、# 条价格"),
        ("transformers", "# 个 Transformer 结构"),
        ("accelerators", "# 种加速卡"),
        ("offers of accelerators", "比较 # 个加速卡报价"),
    ),
    "docs/concepts/reasons.md": (("rules", "# rules"),),
}


def sizes() -> dict[str, int]:
    """What is counted."""
    catalog = open_catalog()
    status = catalog.status()
    kinds = Counter(type(record).__name__ for record in facts.models().values())
    return {
        "servers": status.servers,
        "prices": status.prices,
        "clouds": len(status.providers),
        "offers of accelerators": len(catalog.all_offers(has_accelerator=True).price_usd_per_h),
        "transformers": kinds["TransformerArchitecture"],
        "accelerators": len(facts.accelerators()),
        "rules": len(rule_names()),
    }


def differences(page: str, text: str, known: Mapping[str, int]) -> Iterator[str]:
    """One line for each figure of a page that is not what is counted."""
    for what, words in FIGURES[page]:
        said = [found[1] for found in _pattern(words).finditer(text)]
        if not said:
            yield f"{page} no longer says how many {what} there are ({words.replace('#', '...')}); change scripts/write_sizes.py with the page"
        yield from (
            f"{page} says {number} {what}, there are {known[what]:,}; run scripts/write_sizes.py"
            for number in said
            if number != f"{known[what]:,}"
        )


def written(page: str, text: str, known: Mapping[str, int]) -> str:
    """The page with its figures put right."""
    for what, words in FIGURES[page]:
        text = _pattern(words).sub(lambda found, what=what: found[0].replace(found[1], f"{known[what]:,}", 1), text)
    return text


def _pattern(words: str) -> re.Pattern[str]:
    return re.compile(words.replace("#", f"({NUMBER})"))


def main(arguments: list[str]) -> int:
    """Write or check."""
    known, lines = sizes(), []
    for page in FIGURES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        lines += differences(page, text, known)
        if "--check" not in arguments:
            path.write_text(written(page, text, known), encoding="utf-8")
    sys.stderr.write("".join(line + "\n" for line in lines))
    return int(bool(lines) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
