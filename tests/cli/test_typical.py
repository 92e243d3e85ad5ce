"""No model named: typical models for the kind of data, each planned, and the question
that would narrow it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from rightfit import facts
from rightfit.cli import main
from rightfit.planner.typical import asked_rows, typical_rows, typical_wishes
from rightfit.workload.ask import understand


@pytest.mark.parametrize(
    ("sentence", "models", "question"),
    [
        ("I have 200GB of images", {"resnet50"}, "Which model"),
        ("我有200GB图片", {"vit_base_patch16_224"}, "哪个模型"),
        ("推荐系统高并发推理 5000 QPS", {"deepfm"}, "哪个模型"),
        ("train on 50 hours of speech", {"whisper-small"}, "Which model"),
        ("20GB of text documents to classify", {"bert-base-uncased"}, "Which model"),
    ],
)
def test_typical_models_are_planned(sentence: str, models: set[str], question: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--ask", sentence]) == 0
    text = capsys.readouterr().out
    assert models <= {line.split("：")[0].split(":")[0] for line in text.splitlines()}
    assert question in text
    assert ("Rent " in text) or ("租用" in text)


HOSTED = (
    "What is the best open LLM I could run 24/7 for 200 dollars a month just for me?",
    "which open model can I self-host for $300 a month?",
    "my own private ChatGPT for 3 people, 400 dollars a month",
    "每月1500元，我自己用，能部署什么开源大模型？",
    "想自己搭一个私有的对话助手，每月不超过3000元",
)
SPEECH = (
    "transcribe 20,000 hours of Mandarin recordings on demand within a week",
    "turn 3,000 hours of podcasts into text, cheapest way",
    "speech to text for 800 hours of German court hearings",
    "把2万小时普通话录音转成文字，一周内完成",
    "给1000小时英文课程加字幕，两天内",
)


def rows_of(sentence: str) -> list[Mapping[str, str]]:
    found = understand(sentence)
    return typical_rows(sentence, found.kind, found.wishes.get("task", ""))


@pytest.mark.parametrize("sentence", HOSTED)
def test_a_model_to_host_is_served_and_not_trained(sentence: str) -> None:
    assert {row["task"] for row in rows_of(sentence)} == {"serve"}
    sizes = [facts.model(row["model"], network=False).params_total for row in rows_of(sentence)]
    assert sizes[0] == max(sizes)
    assert sizes[-1] == min(sizes)


def test_the_larger_models_that_a_month_of_money_pays_for_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    first: dict[str, str] = {}
    for money in ("20", "700", "40000"):
        assert main(["plan", "--ask", f"which open LLM can I host for ${money} a month, 5 users", "--sellers", "all"]) in (0, 1)
        first[money] = capsys.readouterr().out.split(":")[0]
    assert first["20"] == "Qwen/Qwen3-8B"
    assert first["40000"] == "openai/gpt-oss-120b"


@pytest.mark.parametrize("sentence", SPEECH)
def test_speech_is_transcribed_by_a_strong_model(sentence: str) -> None:
    rows = rows_of(sentence)
    assert [row["model"] for row in rows] == ["openai/whisper-large-v3-turbo"]
    assert ("SenseVoice" in rows[0]["why_en"]) == any(word in sentence for word in ("Mandarin", "普通话"))


@pytest.mark.parametrize("sentence", ["two-tower recommender, 5M interactions", "矩阵分解做推荐，1亿条评分"])
def test_tables_of_users_and_items_are_trained_as_such(sentence: str) -> None:
    assert rows_of(sentence)[0]["model"] == "ncf-ml-20m"
    assert {row["kind"] for row in rows_of(sentence)} == {"recommendation"}


def test_a_sentence_that_tells_no_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--ask", "something quick within 2 days"]) == 2
    assert "no known model" in capsys.readouterr().err


@pytest.mark.parametrize("model", sorted({row["model"] for row in facts.table("typical_models")}))
def test_typical_models_are_bundled(model: str) -> None:
    assert facts.model(model) if model not in ("xgboost", "random-forest") else typical_rows("tabular 小数据")


@pytest.mark.parametrize(("goal", "kind"), [(row["goal"], row["kind"]) for row in facts.table("typical_goals")])
@pytest.mark.parametrize("word", ["goal", "goal_zh"])
def test_every_goal_is_found_by_its_names_and_planned(goal: str, kind: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    row = next(row for row in facts.table("typical_goals") if (row["goal"], row["kind"]) == (goal, kind))
    assert main(["plan", "--kind", kind, "--goal", row[word]]) == 0
    first = capsys.readouterr().out.split(":")[0]
    named = {one["model"] for one in asked_rows(row[word], kind)}
    assert set(row["models"].split()) <= named
    assert first in named


def test_a_goal_is_of_the_kind_that_its_words_tell() -> None:
    assert {row["model"] for row in asked_rows("I have 200GB of images to classify")} == {"resnet50", "vit_base_patch16_224"}


def test_data_alone_show_where_so_many_lie(run: Any) -> None:
    done = run("plan", "--data", "50GB", "--lang", "zh")
    assert done.code == 0
    lit = [line for line in done.out.splitlines() if line.startswith("->")]
    assert lit == ["-> 100 GB 以内：一次性复制到服务器本地盘"]
    assert "--kind" in done.out
    assert json.loads(run("plan", "--data", "50GB", "--format", "json").out)["tier"] == "medium"
    assert run("plan", "--data", "50Mtok").code == 2


def test_no_model_that_is_served_is_set_up_as_one_that_is_trained() -> None:
    for row in facts.table("typical_models"):
        for task in ("serve", "batch"):
            for one, wish in typical_wishes(typical_rows("", row["kind"], task), {"task": task}):
                assert one["task"] in ("", "serve", "batch"), one
                assert "method" not in wish, one


@pytest.mark.parametrize("words", ["object detection on 10k images", "a detector of 10k photos", "检测1万张图片"])
def test_what_detects_comes_before_what_classifies(words: str) -> None:
    assert typical_rows(words, "images", "train")[0]["model"] == "yolov8m"


def test_a_library_that_is_its_own_algorithm_is_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--kind", "table", "--data", "1Mrows", "--columns", "30", "--library", "lightgbm", "--have", "1xRTX-3090@home"]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "lightgbm" in told
    assert "home" in told


def test_no_server_is_shown_that_the_tables_of_the_sentence_do_not_fit(run: Any) -> None:
    found = run(
        "plan", "--ask", "Train a two-tower recommender with 100M users, 10M items, 64-dim embeddings on 5 billion interactions, one epoch"
    )
    assert found.code == 0
    servers = re.findall(r"(\d+) x \S+ \((\d+) GiB\)", found.out)
    assert servers
    assert all(int(count) * int(each) >= 84.5e9 / 2**30 for count, each in servers)
