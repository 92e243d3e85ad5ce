"""The nearest that is known to a question that nothing answers, and comparisons with factors."""

from __future__ import annotations

import re
import shlex

import pytest

from rightfit.api import check
from rightfit.explain.factor_claims import factor_claim
from rightfit.explain.glossary import glossary, with_figures
from rightfit.explain.messages import topic
from rightfit.explain.nearest import askable, known_answer, nearest_answer, nearest_texts
from rightfit.explain.questions import asked_so, question_or_open_wish
from rightfit.explain.server_questions import with_cards
from rightfit.explain.yes_or_no import is_question
from rightfit.messages import LANGS
from rightfit.search.offers import open_priced

KNOWN = topic("nearest")["known"]


def test_each_way_to_ask_finds_its_answer() -> None:
    missed = [(name, ask) for name, entry in KNOWN.items() for ask in entry["asks"] if nearest_texts(ask)[0].name != name]
    assert not missed


def test_each_way_to_ask_is_answered_before_all_else() -> None:
    """Whatever a question names, where it stands in the table it is answered from it."""
    asks = [(name, ask) for name, entry in KNOWN.items() for ask in entry["asks"] if is_question(ask)]
    assert len(asks) > 200
    assert [(name, ask) for name, ask in asks if (found := asked_so(ask)) is None or found.facts["known"] != name] == []


def test_each_statement_gets_its_verdict_and_its_opposite_none() -> None:
    turned = {"快": "慢", "慢": "快", "faster": "slower", "slower": "faster", "便宜": "贵", "always": "never", "more": "less"}
    words = {"right": "right", "wrong": "wrong", "depends": "unknown"}
    for name, entry in KNOWN.items():
        for word, claim in words.items():
            for said in entry.get(word, ()):
                found = known_answer(said)
                assert found is not None, said
                assert (found.facts["known"], found.claim) == (name, claim), said
                for one, other in turned.items():
                    if re.search(one, said) and (back := known_answer(said.replace(one, other, 1))) is not None:
                        assert said.replace(one, other, 1) in {text for key in words for text in entry.get(key, ())}, said
                        assert back.claim != claim, said


def test_what_is_compared_the_other_way_round_is_not_judged_alike() -> None:
    for said in ("ZeRO-2 比 ZeRO-3 慢", "LoRA is slower than QLoRA", "DDP is as fast as DataParallel or slower", "V100 不值得租"):
        found = known_answer(said)
        assert found is None or found.claim != "right" or said in {text for entry in KNOWN.values() for text in entry.get("right", ())}


def test_texts_are_in_both_languages_without_prices_and_with_figures_of_the_table() -> None:
    for name, entry in KNOWN.items():
        assert {ask.isascii() for ask in entry["asks"]} == {True, False}, name
        for lang in LANGS:
            assert "{" not in with_figures(entry[lang]), name
            assert not re.search(r"[$¥]\s?\d|\d\s*(?:万)?[美]?元", entry[lang]), name
        assert shlex.split(entry["ask"])[0] == "rightfit", name


@pytest.mark.parametrize(
    ("sentence", "claim"),
    [
        ("A10 比 T4 快一倍以上", "right"),
        ("A10 比 T4 快五倍", "wrong"),
        ("阿里云 gn7i 比 gn6i 贵一倍", "wrong"),
        ("Lambda is cheaper than AWS for 8xA100", "right"),
        ("AWS is cheaper than Lambda for 8xA100", "wrong"),
        ("A100 80G 的显存是 T4 的 5 倍", "right"),
        ("H200 has twice the memory of H100", "wrong"),
        ("H100 带宽比 A100 高 60%", "right"),
        ("A100 是 H100 的三分之一速度", "wrong"),
    ],
)
def test_comparisons_with_factors_are_judged_by_our_figures(sentence: str, claim: str) -> None:
    found = factor_claim(sentence, open_priced())
    assert found is not None
    assert found.claim == claim


def test_a_factor_is_wrong_where_it_is_far_from_the_ratio_that_is_told() -> None:
    found = factor_claim("A100 80G 的显存是 T4 的 5 倍", open_priced())
    assert found is not None
    ratio = found.facts["ratio"][0]
    for factor in (0.5 * ratio, 2.0 * ratio):
        other = factor_claim(f"A100 80G 的显存是 T4 的 {factor:g} 倍", open_priced())
        assert other is not None
        assert other.claim == "wrong"


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("1 亿条文本里有 3 种语言，预训练 BERT-base 要多久", "BERT-base"),
        ("腾讯云 GN7 和阿里云 gn6i 训练会差在哪里呢", "GN7"),
        ("Do I need 10 Gbit/s network for 4x A10 on one machine?", "nothing goes over the network"),
    ],
)
def test_a_question_that_nothing_answers_gets_the_nearest(sentence: str, said: str) -> None:
    found = nearest_answer(sentence, open_priced())
    assert found is not None
    assert said in found.explanation_en
    assert found.claim is None


def test_the_nearest_says_that_it_is_no_answer_and_every_face_gives_it() -> None:
    sentence = "Do I need 10 Gbit/s network for 4x A10 on one machine?"
    found = question_or_open_wish(sentence, open_priced())
    assert found is not None
    assert found.facts["nearest"]
    heads = {topic("nearest")["texts"][key]["en"] for key in ("head", "general")}
    assert found.explanation_en.splitlines()[0] in heads


def test_nothing_near_is_not_told() -> None:
    assert nearest_answer("明天天气怎么样", open_priced()) is None
    (found,) = check("香蕉比苹果好吃很多")
    assert "nearest" not in found.facts


def test_what_can_be_asked_instead_is_named_in_its_language() -> None:
    for lang, sentence in (("zh", "检查点的事情"), ("en", "something about checkpoints")):
        asks = askable(sentence, lang)
        assert 1 <= len(asks) <= 2


def test_tokens_of_a_day_are_requests_of_the_length_that_is_told() -> None:
    from rightfit.workload.ask import understand

    plain, told = (
        understand("serve 7B with 12.8 million tokens per day").wishes,
        understand("7B 每天 700 万 token 输入 500 输出 200").wishes,
    )
    assert plain["rate"] == "1e+04/day"
    assert told["rate"] == "1e+04/天"


_UNITS = {"万亿": 1e12, "亿": 1e8, "万": 1e4, "trillion": 1e12, "billion": 1e9, "million": 1e6}
_FIGURE = re.compile(rf"(?<![A-Za-z\d.-])(\d+(?:\.\d+)?(?:e\d+)?)(?:\s*({'|'.join(_UNITS)}))?")
_SPAN = re.compile(rf"(\d+(?:\.\d+)?)(\s*(?:to|[～~])\s*)(?=(\d+(?:\.\d+)?)\s*({'|'.join(_UNITS)}))")


def figures_of(text: str) -> set[float]:
    """The numbers in digits of a text, commands and fields aside; both ends of "1 to 7 million"."""
    said = re.sub(r"(?<=\d),(?=\d{3})", "", re.sub(r"`[^`]*`|\{[^}]*\}|\b1/(?=\d)", " ", text))
    said = re.sub(r"\ba (?=million|billion)", "1 ", said.replace("百万", "1000000 "))
    said = _SPAN.sub(lambda one: f"{one[1]} {one[4]}{one[2]}" if float(one[1]) < float(one[3]) else one[0], said)
    return {round(float(found[1]) * _UNITS.get(found[2], 1.0), 9) for found in _FIGURE.finditer(said)}


def test_both_languages_tell_the_same_figures() -> None:
    """All entries of nearest.toml, all topics and all terms."""
    texts = {f"known {name}": entry for name, entry in KNOWN.items()}
    texts |= {f"topic {entry['id']}": entry for entry in topic("topic_questions")["topics"]}
    texts |= {f"term {name}": entry for name, entry in glossary().items()}
    apart = {name: (en - zh, zh - en) for name, one in texts.items() if (en := figures_of(one["en"])) != (zh := figures_of(one["zh"]))}
    assert not apart
    assert sum(bool(figures_of(one["en"])) for one in texts.values()) > 100
    assert (
        figures_of("about 2 to 15 trillion tokens, `--data 3Btok`, {A100.memory}") == figures_of("2 万亿～15 万亿 token") == {2e12, 15e12}
    )


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("LoRA on 10M tokens on a p4d.24xlarge", "8x A100-SXM-40GB on aws"),
        ("full fine-tuning on two p5.48xlarge nodes", "two nodes of 8x H100-SXM-80GB on aws"),
        ("用两台ecs.gn7i-c32g1.16xlarge微调", "2x A10 on alicloud"),
        ("serve 7B on g5, 5 req/s", "A10G on aws"),
        ("8M rows on a c5.4xlarge", "c5.4xlarge"),
        ("g5.xlarge or g6.xlarge for 7B", "g5.xlarge or g6.xlarge"),
    ],
)
def test_a_server_is_its_cards_and_cloud(sentence: str, told: str) -> None:
    assert told in with_cards(sentence, open_priced())
