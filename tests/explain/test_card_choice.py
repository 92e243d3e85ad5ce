"""Cards are told apart by their own figures, every one that is asked about."""

from __future__ import annotations

import itertools

import pytest

from rightfit import facts
from rightfit.api import check
from rightfit.explain.card_choice import card_choice
from rightfit.market import Catalog
from rightfit.search.offers import open_priced


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


GROUPS = [
    ("L4", "L20", "L40", "L40S"),
    ("T4", "L4", "A10"),
    ("A10", "A10G"),
    ("A100", "H100", "H200", "B200"),
    ("V100", "P100", "T4"),
    ("A800", "A100"),
    ("RTX 3090", "RTX 4090", "RTX 5090"),
    ("H20", "H100"),
]


@pytest.mark.parametrize("cards", GROUPS)
@pytest.mark.parametrize(
    ("form", "joint"), [("{}都什么区别", " "), ("what's the difference between {}?", " and "), ("{}怎么区分，差别在哪", "、")]
)
def test_each_card_that_is_asked_about_has_its_line(form: str, joint: str, cards: tuple[str, ...], market: Catalog) -> None:
    (found,) = check([form.format(joint.join(cards))], catalog=market)
    lines = [*found.explanation_en.splitlines()]
    for card in cards:
        names = facts.match_accelerators(card)
        assert any(line.startswith(f"{name}: ") for name in names for line in lines), (card, lines)


@pytest.mark.parametrize("pair", list(itertools.combinations(("T4", "L4", "A10", "L40S", "A100", "H100"), 2)))
@pytest.mark.parametrize("form", ["{}还是{}做7B的LoRA微调", "LoRA of a 7B: {} or {}?"])
def test_training_is_chosen_by_computing_for_the_money(form: str, pair: tuple[str, str], market: Catalog) -> None:
    found = card_choice(form.format(*pair), market)
    assert found is not None
    names = {name for card in pair for name in facts.match_accelerators(card)}
    assert found.facts["better"] in names
    assert "TFLOPS" in found.explanation_en
    assert "per month" not in found.explanation_en


def test_a_card_named_twice_is_one_card(market: Catalog) -> None:
    (found,) = check(["H20 96G和A100 80G跑70B推理选哪个?网上老说H20是阉割版"], catalog=market)
    assert found.facts["cards"] == ["H20-96GB", "A100-SXM-80GB"]
    assert found.facts["counts"] == [1, 2]
    assert "每月" not in found.explanation_zh


@pytest.mark.parametrize("sentence", ["A10和A10G哪个便宜", "can an A10 or a T4 do bf16?", "serve 8B for 50 users on L4 or A10?"])
def test_other_questions_about_cards_are_left_to_others(sentence: str, market: Catalog) -> None:
    assert card_choice(sentence, market) is None
