"""No model named: typical models for the kind of data, each planned, and the question
that would narrow it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rightfit import facts
from rightfit.cli import main
from rightfit.planner.typical import asked_rows, typical_rows


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
