"""Questions about a card or a model are answered from their own figures, and about themselves."""

from __future__ import annotations

import pytest

from rightfit import facts
from rightfit.explain.card_questions import card_question, usual_card
from rightfit.explain.model_questions import model_question
from rightfit.explain.questions import question_lookup
from rightfit.market import Catalog
from rightfit.search.offers import open_priced

CARDS = ("T4", "V100", "A10", "A30", "A100", "L4", "L40S", "RTX 4090", "RTX 5090", "H100", "H200", "B200")


@pytest.fixture(scope="module")
def market() -> Catalog:
    return open_priced()


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize(
    ("form", "column"),
    [
        ("Can I run FP8 models on an {}?", "fp8_flops"),
        ("{} 能跑 FP8 模型吗", "fp8_flops"),
        ("does a {} do bf16?", "bf16_flops"),
        ("{} 能用 FP4 吗", "fp4_flops"),
        ("can I use NVLink on a {}?", "nvlink_bandwidth"),
    ],
)
def test_whether_a_card_is_able_is_told_by_its_column(card: str, form: str, column: str, market: Catalog) -> None:
    found = question_lookup(form.format(card), market)
    assert found is not None
    has = any(getattr(facts.accelerators()[name], column) > 0 for name in facts.match_accelerators(card))
    assert found.claim == ("right" if has else "wrong"), found.explanation_en
    own = usual_card(facts.match_accelerators(card), market).name
    assert own in found.explanation_en.splitlines()[0]
    assert own in found.explanation_zh.splitlines()[0]


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("form", ["Can I split an {} with MIG?", "{}支持MIG吗"])
def test_mig_is_told_by_the_profiles_of_the_vendor(card: str, form: str, market: Catalog) -> None:
    found = question_lookup(form.format(card), market)
    assert found is not None
    has = card in ("A30", "A100", "H100", "H200", "B200")
    assert found.claim == ("right" if has else "wrong")
    assert ("1g." if has else "MPS") in found.explanation_en


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("form", ["{}现在还值得租吗", "is the {} still worth renting?", "AWQ or GGUF for a {}, which one?"])
def test_the_card_that_is_asked_about_is_the_one_that_is_answered_about(card: str, form: str, market: Catalog) -> None:
    found = question_lookup(form.format(card), market)
    assert found is not None
    first, names = found.explanation_en.splitlines()[0], facts.match_accelerators(card)
    assert any(name in first for name in names), first
    assert found.facts["cards"][0] in names


@pytest.mark.parametrize(("card", "size"), [("RTX 4090", 48), ("RTX 3080", 20), ("2080 Ti", 22), ("RTX 5090", 96)])
@pytest.mark.parametrize("form", ["{1}G魔改{0}租着靠谱吗", "is a modded {0} with {1}GB reliable?", "{0} {1}G 魔改版能用吗"])
def test_changed_memory_is_no_product(card: str, size: int, form: str, market: Catalog) -> None:
    found = question_lookup(form.format(card, size), market)
    assert found is not None
    assert found.facts["size"] == size
    assert f"{size} GB is no product" in found.explanation_en


@pytest.mark.parametrize(("one", "other"), [("RTX PRO 6000 96GB", "A100 80GB"), ("H20", "H100"), ("L4", "T4"), ("A100", "RTX 4090")])
def test_a_stand_in_is_judged_for_inference_and_for_training(one: str, other: str, market: Catalog) -> None:
    found = card_question(f"{one}能替代{other}吗", market)
    assert found is not None
    assert len(found.facts["cards"]) == 2
    assert "训练" in found.explanation_zh.splitlines()[1]


@pytest.mark.parametrize("card", ["RTX 4090", "A100", "L40S", "H100"])
@pytest.mark.parametrize("model", ["8B", "14B"])
def test_one_user_gets_what_the_bandwidth_allows(card: str, model: str, market: Catalog) -> None:
    told = facts.accelerator(card, typical=True)
    for form in ("{card}跑{model} fp16单用户最快能到多少token每秒", "how many tokens per second does an {model} get on one {card}"):
        found = model_question(form.format(card=card, model=model), market)
        assert found is not None
        most = told.memory_bandwidth / (2e9 * float(model[:-1]))
        fits = 2e9 * float(model[:-1]) < 0.92 * told.memory_bytes
        assert found.facts["tokens_per_s"] == pytest.approx(most if fits else 0.0, rel=0.08)


@pytest.mark.parametrize(("size", "minutes", "claim"), [("70B", 20, "right"), ("32B", 9, "right"), ("7B", 20, "wrong")])
def test_a_load_is_normal_where_the_disk_explains_it(size: str, minutes: int, claim: str, market: Catalog) -> None:
    for form in ("Model load takes {} minutes from EBS on my {} box. Normal?", "从 gp3 云盘加载 {1} 模型要 {0} 分钟正常吗"):
        found = model_question(form.format(minutes, size), market)
        assert found is not None
        assert found.claim == claim


@pytest.mark.parametrize("sentence", ["满血DeepSeek 671B最低什么配置能跑", "what's the minimum hardware to run Qwen2.5-72B"])
def test_the_least_hardware_is_told_for_each_precision(sentence: str, market: Catalog) -> None:
    found = question_lookup(sentence, market)
    assert found is not None
    sizes = list(found.facts["bytes"].values())
    assert len(sizes) >= 2
    assert all(f"{one} bits" in found.explanation_en for one in (8, 4))
