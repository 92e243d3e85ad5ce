"""What a sentence states is kept: no API where nobody else may compute, both ways to pay where they
are asked about, the middle estimate where nothing is sure enough, one model where its objective
is named too."""

from __future__ import annotations

import pytest

from rightfit.cli import main
from rightfit.explain.beside.able import is_private
from rightfit.workload.ask import understand

PRIVATE = [
    "必须私有化",
    "一定要本地部署",
    "不能用外部API",
    "数据不能出内网",
    "合同不得离开公司",
    "it must be self-hosted",
    "no external API",
    "documents must not leave the building",
    "self-hosted only",
]


def test_words_for_servers_of_ones_own_are_known() -> None:
    assert [words for words in PRIVATE if not is_private(f"serve Qwen3-8B for 20 lawyers, {words}")] == []
    assert not is_private("serve Qwen3-8B for 20 lawyers, self-hosted or an API?")
    assert not is_private("Qwen3-8B给20个人用,私有化和API哪个便宜")
    for words in PRIVATE:
        assert not understand(f"serve Qwen3-8B for 20 users, {words}").weighty, words


@pytest.mark.parametrize(("words", "is_compared"), [("", True), (", it must be self-hosted", False)])
def test_no_api_is_held_against_what_must_be_private(words: str, is_compared: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--ask", f"serve Qwen3-8B for 20 users{words}"]) == 0
    assert ("API:" in capsys.readouterr().out) == is_compared


@pytest.mark.parametrize(
    "words", ["包月还是按小时租", "按量还是包年划算", "monthly or by the hour", "on demand or reserved?", "spot vs on demand"]
)
def test_ways_to_pay_that_are_asked_about_are_no_wish_for_one(words: str) -> None:
    found = understand(f"serve Qwen3-8B for 20 users, {words}")
    assert "purchase" not in found.wishes
    assert any(one.key == "workload.assumed_bills" for one in found.assumed)
    assert understand("serve Qwen3-8B for 20 users, on spot").wishes["purchase"]


def test_limits_that_nothing_keeps_surely_are_kept_by_the_middle_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "MAE pretrain ViT-L on 14M histopathology patches (224px), 4k pounds, within two weeks"
    assert main(["plan", "--ask", sentence]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "with 90% probability. The plan below meets them with" in said
    assert main(["plan", "--ask", sentence, "--confidence", "99"]) == 1
    assert main(["plan", "--ask", sentence.replace("two weeks", "2 minutes")]) == 1


@pytest.mark.parametrize(
    "words", ["MAE pretrain ViT-L", "DINOv2 pretraining of ViT-B", "用SimCLR预训练ResNet-50", "pretrain with BYOL a resnet50"]
)
def test_how_a_network_learns_is_no_second_model(words: str) -> None:
    found = understand(f"{words}, 2M images")
    assert not found.weighty
    assert any(one.key == "workload.assumed_objective" for one in found.assumed)
