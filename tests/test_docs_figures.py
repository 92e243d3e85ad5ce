"""Figures in the hand-written pages equal those of the data and of the last validation."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from rightfit import facts
from rightfit.catalog import open_catalog
from rightfit.explain.rules import all_rules
from rightfit.search.space import NODE_COUNTS

ROOT = Path(__file__).parent.parent
README, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
ROW = re.compile(r"^\| (.+?) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$", re.MULTILINE)


def read(page: Path) -> str:
    """Text of a page on one line each."""
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_accuracy_of_the_readme_is_that_of_the_last_validation(page: Path) -> None:
    headline = json.loads(read(ROOT / "validation/headline.json"))
    kinds = ("memory, full", "memory, adapters", "time, one node", "time, many nodes", "serving, time per token", "serving, throughput")
    kinds += ("serving, first token at low load", "serving, memory", "passes, latency and throughput")
    rows = ROW.findall(read(page))
    assert len(rows) == len(kinds)
    for kind, (_, median, p90, unnamed) in zip(kinds, rows, strict=True):
        assert 0 < float(unnamed) < 100
        assert float(median) == pytest.approx(100 * headline[f"{kind}: median APE"], abs=0.51 if float(median) >= 10 else 0.051)
        assert float(p90) == pytest.approx(100 * headline[f"{kind}: P90 APE"], abs=0.51 if float(p90) >= 10 else 0.051)


@pytest.mark.parametrize("page", [README, CHINESE, ROOT / "changelog.d/catalog.added.md"], ids=lambda page: page.name)
def test_size_of_the_market(page: Path) -> None:
    status = open_catalog().status()
    text = read(page)
    assert f"{status.servers:,}" in text
    assert f"{status.prices:,}" in text
    assert re.search(rf"\b{len(status.providers)} (clouds|家云)", text)


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_size_of_the_facts(page: Path) -> None:
    kinds = Counter(type(record).__name__ for record in facts.models().values())
    text = read(page)
    assert re.search(rf"{kinds['TransformerArchitecture']} (transformer architectures|个 Transformer 结构)", text)
    assert re.search(rf"{len(facts.accelerators())} (accelerators|种加速卡)", text)
    assert f"{len(open_catalog().all_offers(has_accelerator=True).price_usd_per_h):,}" in text


def test_both_readmes_have_the_same_sections_links_and_examples() -> None:
    english, chinese = read(README), read(CHINESE)
    links = [
        {link.replace(".zh.md", ".md") for link in re.findall(r"\]\(([^)]+\.md)\)", text)} - {"README.md"} for text in (english, chinese)
    ]
    assert links[0] <= links[1]
    assert english.count("\n## ") == chinese.count("\n## ")
    assert english.count("```sh\n") == chinese.count("```sh\n")


def test_number_of_rules_and_node_counts() -> None:
    assert f"{len(all_rules())} rules" in read(ROOT / "docs/concepts/reasons.md")
    assert ", ".join(map(str, NODE_COUNTS)) in read(ROOT / "docs/concepts/search.md")


def test_memory_worked_by_hand() -> None:
    """The arithmetic of docs/concepts/memory.md, from the bundled record of Llama-3-8B and the data that physics uses."""
    page = read(ROOT / "docs/concepts/memory.md")
    model = facts.model("meta-llama/Meta-Llama-3-8B")
    assert model.params_total == pytest.approx(8.030e9, rel=1e-4)
    for bytes_each, gigabytes, gibibytes in ((2, "16.06", "15.0"), (4, "32.12", "29.9"), (8, "64.24", "59.8"), (16, "128.48", "119.7")):
        assert f"{model.params_total * bytes_each / 1e9:.2f}" == gigabytes
        assert f"{model.params_total * bytes_each / 2**30:.1f}" == gibibytes
        assert f"{gigabytes} GB = " in page
        assert f"{gibibytes} GiB" in page
    matrices = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336)
    packed = next(float(row["linear_bytes"]) for row in facts.table("quantizations") if row["name"] == "nf4-dq")
    assert f"{packed:.4f}" in page
    weights = matrices * packed + 2 * 128256 * 4096 * 2
    assert (f"{matrices / 1e9:.3f}", f"{weights / 1e9:.2f}", f"{weights / 2**30:.2f}") == ("6.979", "5.70", "5.31")
    usual = next(row["set"] for row in facts.table("frameworks") if not row["framework"] and not row["weights"])
    per_logit = int(re.findall(r"\blogit=(\d+);", usual)[0])
    logits = 2048 * 128256 * per_logit
    assert f"x 128,256 x {per_logit} bytes" in page
    assert f"{logits / 1e9:.2f} GB = {logits / 2**30:.2f} GiB" in page


def test_planning_figures_of_the_concept_pages() -> None:
    usual = facts.coefficients("planning")
    time, money = read(ROOT / "docs/concepts/time.md"), read(ROOT / "docs/concepts/money.md")
    assert f"{usual['startup_s']:.0f} s for boot" in time
    assert f"{usual['download_bytes_per_s'] / 1e9:.1f} GB/s" in time
    assert f"{1 / usual['failures_per_accelerator_s'] / (365.25 * 86400):.1f} years a card" in time
    assert f"{100 * usual['spot_monthly_low']:.0f} to {100 * usual['spot_monthly_high']:.0f} %" in money
    assert f"Below {100 * usual['memory_tight_probability']:.1f} %" in read(ROOT / "docs/concepts/intervals.md")
