"""Figures in the hand-written pages equal those of the data and of the last validation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

import pytest
from loaded import load_module

from rightfit import facts
from rightfit.proof import honest_page
from rightfit.search.training.space import NODE_COUNTS

ROOT = Path(__file__).parent.parent
README, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"


def read(page: Path) -> str:
    """Text of a page on one line each."""
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [README, CHINESE], ids=lambda page: page.name)
def test_accuracy_of_the_readme_is_that_of_the_last_validation(page: Path) -> None:
    """Blind scores first, then first contact, then own rows with the stack unknown and named, each
    as its file holds it."""
    headline = json.loads(read(ROOT / "validation/headline.json"))
    blind, contact = honest_page.blind_lines(ROOT / "validation"), honest_page.contact_lines(ROOT / "validation")
    table = re.search(r"<!-- accuracy -->\n(.*?)<!-- end -->", read(page), re.DOTALL)
    assert table is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()[2:]]
    assert len(rows) == len(honest_page.goals(ROOT / "validation"))
    for name, (_, *cells) in zip(honest_page.goals(ROOT / "validation"), rows, strict=True):
        expected = [(float(lines[name]["median_by_source"]), float(lines[name]["p90_ape"])) for lines in (blind, contact)]
        expected += [
            tuple(headline[f"{way}: {name}: {kind}"] for kind in ("median", "P90"))
            for way in ("left out, stack unknown", "left out, stack named")
        ]
        assert cells == [honest_page.pair(*figures) for figures in expected], name


@pytest.fixture(scope="module")
def sizes() -> ModuleType:
    """scripts/write_sizes.py."""
    return load_module(ROOT / "scripts/write_sizes.py")


@pytest.mark.parametrize("page", ["README.md", "README.zh.md", "docs/coverage.md", "docs/coverage.zh.md", "docs/concepts/reasons.md"])
def test_pages_say_how_much_is_known(page: str, sizes: ModuleType) -> None:
    assert page in sizes.FIGURES
    behind = list(sizes.differences(page, read(ROOT / page), sizes.sizes()))
    assert not behind, "; ".join(behind)


def test_figures_that_are_behind_are_named_and_put_right(sizes: ModuleType) -> None:
    known = {**sizes.sizes(), "servers": 12345}
    text = read(ROOT / "docs/coverage.md")
    [line] = sizes.differences("docs/coverage.md", text, known)
    assert line.endswith("servers, there are 12,345; run scripts/write_sizes.py")
    assert list(sizes.differences("docs/coverage.md", sizes.written("docs/coverage.md", text, known), known)) == []


def test_both_readmes_have_the_same_sections_links_and_examples() -> None:
    english, chinese = read(README), read(CHINESE)
    links = [
        {link.replace(".zh.md", ".md") for link in re.findall(r"\]\(([^)]+\.md)\)", text)} - {"README.md"} for text in (english, chinese)
    ]
    assert links[0] <= links[1]
    assert english.count("\n## ") == chinese.count("\n## ")
    assert english.count("```sh\n") == chinese.count("```sh\n")


def test_node_counts() -> None:
    assert ", ".join(map(str, NODE_COUNTS)) in read(ROOT / "docs/concepts/search.md")


def test_memory_worked_by_hand() -> None:
    """The arithmetic of docs/concepts/memory.md, from the bundled record of Llama-3-8B and the data
    that physics uses."""
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
    assert f"{1 / usual['failures_per_accelerator_s'] / (365.25 * 86400):.1f} years a GPU" in time
    assert f"{100 * usual['spot_monthly_low']:.0f} to {100 * usual['spot_monthly_high']:.0f}%" in money
    assert f"Below {100 * usual['memory_told_probability']:.1f}%" in read(ROOT / "docs/concepts/intervals.md")
