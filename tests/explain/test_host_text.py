"""Plans of classical machine learning and data preparation in words, English and Chinese."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.explain.family_text import host_option_text, host_renderer
from rightfit.explain.messages import fields_of, has, topic
from rightfit.explain.voices import plan_text
from rightfit.messages import LANGS, Lang
from rightfit.search.answer import Plan, Reason
from rightfit.search.classical_wish import ASSUMED

_HAN = re.compile(r"[一-鿿]")
WISHES: dict[str, dict[str, Any]] = {
    "boosting": {"model": "xgboost", "data": "11Mrows x 28cols", "trees": 500, "deadline": "2h", "budget": "5usd"},
    "forest": {"model": "random-forest", "data": "5GB", "objective": "balanced"},
    "gpu": {"model": "k-means", "data": "11M x 100", "settings": "1000 clusters", "library": "cuml", "objective": "time"},
    "one thread": {"model": "svm", "data": "1M x 20", "library": "sklearn", "purchase": "spot"},
    "impossible": {"model": "xgboost", "data": "1B x 5000"},
    "late": {"model": "random-forest", "data": "50GB", "deadline": "6min"},
    "scored": {"model": "lightgbm", "task": "batch", "data": "HIGGS"},
    "text": {"operation": "tokenize", "data": "500GB", "deadline": "4h", "model": "bert-base"},
    "spilled": {"operation": "sort", "data": "500GB", "library": "duckdb", "storage": "gp3", "cloud": "aws"},
    "held": {"operation": "dedup", "data": "100GB"},
    "images": {"task": "prepare", "model": "resnet50", "data": "1Mimages"},
}


@pytest.fixture(scope="module", params=list(WISHES))
def plan(request: pytest.FixtureRequest) -> Plan:
    return rightfit.plan(**WISHES[request.param], top=3)


@pytest.mark.parametrize("lang", LANGS)
def test_everything_is_said_in_the_language(plan: Plan, lang: Lang) -> None:
    text = plan_text(plan, lang)
    best = text.best
    lines = [text.headline, text.blame, text.considered, *text.advice, *text.assumptions, *text.rejected, *text.faster]
    lines += [best.outcome, best.setup, best.speed, best.margin, *best.why, *best.warnings] if best else []
    lines += [term.text for group in (best.memory, best.time, best.cost) for term in group] if best else []
    spoken = [line for line in lines if line]
    assert len(spoken) > 5
    for line in spoken:
        assert "host_" not in line
        assert "{" not in line
        assert bool(_HAN.search(line)) == (lang == "zh"), line


@pytest.mark.parametrize("lang", LANGS)
def test_servers_that_do_not_hold_the_job_say_what_is_lacking(lang: Lang) -> None:
    ram = rightfit.estimate("random-forest", data="5GB", on="aws/t3.large")
    text = plan_text(ram, lang)
    assert text.best is None
    assert "137 GiB" in text.headline
    assert "7.35 GiB" in text.headline
    card = rightfit.estimate("k-means", data="500M x 10", library="cuml", on="aws/g4dn.16xlarge")
    told = plan_text(card, lang).headline
    assert ("the GPU needs" if lang == "en" else "显存含余量") in told
    assert card.unfit is not None
    assert host_option_text(card.unfit, card.workload, lang).setup


def test_both_languages_name_the_same_fields() -> None:
    for key, entry in topic("host").items():
        assert fields_of(entry["en"]) == fields_of(entry["zh"]), key
        assert _HAN.search(entry["zh"]) or key in ("cores", "cores_and_cards"), key


def test_every_tip_is_given_and_every_assumption_has_its_words() -> None:
    estimate = Path(rightfit.__file__).parent / "estimation"
    codes = "".join((estimate / f"{name}.py").read_text("utf-8") for name in ("classical", "preparation"))
    tips = [key.removeprefix("host_tip_") for key in topic("host") if key.startswith("host_tip_")]
    assert len(tips) >= 20
    assert [tip for tip in tips if f'"{tip.replace("_", "-")}"' not in codes] == []
    for field in ASSUMED.values():
        assert has(f"host.assumed_host_{field}"), field


def test_every_term_of_the_physics_has_its_words() -> None:
    source = Path(rightfit.__file__).parent / "physics"
    times = re.findall(r'^ {8}"(\w+)":', (source / "classical.py").read_text("utf-8"), re.MULTILINE)
    memory = re.findall(r'^ {8}"(\w+)":', (source / "classical_work.py").read_text("utf-8"), re.MULTILINE)
    assert len(times) >= 12
    assert len(memory) == 7
    assert [name for name in times if not has(f"host.time_{name}")] == []
    assert [name for name in memory if not has(f"host.memory_{name}")] == []


def test_reasons_of_other_plans_are_left_to_the_general_renderer() -> None:
    said = host_renderer("en")(Reason("budget_met", {"total_usd": 3.0, "budget_usd": 5.0, "probability": 0.95}))
    assert said == "It costs $3.00, within the $5.00 budget, with 95% probability."


@pytest.mark.parametrize("lang", LANGS)
def test_servers_without_cards_have_a_word_for_it(lang: Lang) -> None:
    word = "no GPU" if lang == "en" else "无加速卡"
    asked = plan_text(rightfit.plan("xgboost", data="HIGGS", gpu="MI300X"), lang)
    assert any(word in line for line in asked.advice)
    assert not any("requested MI300X, it is ." in line for line in asked.rejected)
    assert word in plan_text(rightfit.estimate("k-means", data="1M x 20", library="cuml", on="aws/m5.xlarge"), lang).headline
