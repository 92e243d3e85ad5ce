"""Every sentence that refuses a fleet has its Chinese: the sentences are read out of the library's source, so that a new one without it is found."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.errors import RightfitError
from rightfit.explain.fleet_problems import fleet_problem, pattern_of
from rightfit.explain.messages import topic
from rightfit.explain.problems import problems_of
from rightfit.fleet.reading import read_fleet

FOLDER = Path(rightfit.__file__).parent / "fleet"
KINDS = ("InputError", "QuantityError", "FileInputError")
#: Sentences that are made elsewhere: of the planner, behind the name of a job; and several problems at once.
MADE_ELSEWHERE = ("{name}: {found.error}",)
HAN = re.compile(r"[\u4e00-\u9fff]")
ENGLISH = re.compile(r"\b(the|not|is|are|such|write|give|stands|must|should|cannot|needs?|input|given|unable|unknown|or)\b")
VALUES = {"self.where": "fleet.yaml", "where": "fleet.yaml", "name": "fleet.yaml", "place": "jobs[1] (a)", "hint": "; did you mean count?"}


def sentences() -> Iterator[tuple[str, str]]:
    """(file and line, sentence with examples in place of its values) of every error that the fleet's own code makes."""
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else "super" if "super" in ast.unparse(node.func) else ""
                if called not in (*KINDS, "super") or not isinstance(node.args[0], ast.JoinedStr | ast.Constant | ast.BinOp):
                    continue
                source, text = written(node.args[0])
                if source not in MADE_ELSEWHERE and isinstance(text, str):
                    yield f"{path.name}:{node.lineno}", text


def written(node: ast.AST) -> tuple[str, str]:
    """A text of the source with its values by name, and with examples in their place."""
    if isinstance(node, ast.Constant):
        return str(node.value), str(node.value)
    if isinstance(node, ast.BinOp):
        parts = [written(side) for side in (node.left, node.right)]
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    if isinstance(node, ast.JoinedStr):
        parts = [written(value) for value in node.values]
        return "".join(one for one, _ in parts), "".join(other for _, other in parts)
    if isinstance(node, ast.FormattedValue):
        source = ast.unparse(node.value)
        return "{" + source + "}", VALUES.get(source, "7")
    return "", ""


SENTENCES = list(sentences())


def test_the_source_is_read() -> None:
    assert len(SENTENCES) >= 30
    assert {place.partition(":")[0] for place, _ in SENTENCES} >= {"reading.py", "sources.py", "rolling.py"}


@pytest.mark.parametrize(("place", "text"), SENTENCES, ids=[place for place, _ in SENTENCES])
def test_every_sentence_has_its_chinese(place: str, text: str) -> None:
    said = fleet_problem(text)
    assert said is not None, f"{place} says {text!r}, which explain/data/fleet_problems.toml lacks"
    assert HAN.search(said)
    assert not ENGLISH.search(said), said


def test_no_chinese_is_of_a_sentence_that_nobody_writes() -> None:
    """Whole sentences of the data are each made by the code."""
    patterns = {key: pattern_of(words["en"]) for key, words in topic("fleet_problems").items() if not key.startswith("part_")}
    texts = [text for _, text in SENTENCES]
    unused = [key for key, pattern in patterns.items() if not any(pattern.fullmatch(text) for text in texts)]
    assert unused == []


JOB: dict[str, Any] = {"name": "a", "workload": {"model": "7B"}}


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        ({}, "没有任务也没有服务"),
        ({"jobs": [{**JOB, "cuont": 3}]}, "没有键 jobs[1].cuont，是否指 count？"),
        ({"jobs": [{**JOB, "count": -2}]}, "jobs[1].count：不得小于 1（给出的是：-2）"),
        ({"jobs": [{**JOB, "count": "many"}]}, "须为整数（给出的是：many）"),
        ({"jobs": [{**JOB, "priority": 1.5}]}, "须为整数"),
        ({"jobs": [{**JOB, "interruptible": "maybe"}]}, "须为 true 或 false"),
        ({"jobs": [{**JOB, "name": ""}]}, "至少 1 个字符"),
        ({"jobs": [{**JOB, "team": [1]}]}, "须为文本"),
        ({"jobs": [{"name": "a", "workload": 3}]}, "须为映射"),
        ({"jobs": "x"}, "须为列表"),
        ({"jobs": [JOB], "owned": [{"kind": "x", "gpu": "8xH100"}]}, "'block' 或 'savings-plan'"),
        ({"jobs": [JOB], "owned": [{"server": "p5"}]}, "请写成 PROVIDER/INSTANCE"),
        ({"jobs": [JOB], "owned": [{"gpu": "8xH1000"}]}, "没有名为“H1000”的加速卡"),
        ({"jobs": [JOB], "horizon": "9y"}, "不在 0 与三年之间"),
        ({"jobs": [JOB], "limits": {"budget": "many"}}, "不是金额"),
        ({"services": [{**JOB, "demand": "fast"}]}, "中没有数字"),
        ({"services": [{**JOB, "demand": "10/s nights"}]}, "没有负载形状 'nights'"),
        ({"services": [{**JOB, "demand": "1,2,x"}]}, "不是数字"),
        ({"jobs": [{"name": "a"}]}, "缺少 jobs[1].workload"),
        ({"jobs": [JOB, JOB]}, "出现两次"),
        ({"jobs": [{**JOB, "earliest": "3d", "deadline": "2d"}]}, "截止时间 2d 不晚于最早开始 3d"),
        ({"jobs": [{**JOB, "deadline": "soon"}]}, "jobs[1] (a).deadline"),
        ({"jobs": [{**JOB, "deadline": "2999-01-01"}]}, "超过三年"),
        ({"jobs": [JOB], "start": "soon"}, "不是日期"),
        ({"jobs": [{"name": "a", "workload": {"modell": "7B"}}]}, "没有选项 'modell'，是否指"),
        ({"jobs": [{"name": "a", "workload": {"model": "7B", "deadline": "2d"}}]}, "写在它旁边"),
        ({"services": [JOB]}, "缺少 demand"),
        ({"services": [{**JOB, "demand": [1, 2]}]}, "有 2 个数"),
        ({"jobs": [JOB], "owned": [{"kind": "savings-plan"}]}, "节省计划"),
        ({"jobs": [JOB], "owned": [{}]}, "写一个"),
        ({"jobs": [JOB], "limits": {"budget": "0usd"}}, "不大于 0"),
        ({"jobs": [JOB], "limits": {"spot_share": 2}}, "不得大于 1"),
        ({"jobs": [{**JOB, "team": "x"}], "teams": ["nlp"]}, "没有名为“x”的"),
    ],
)
def test_bad_fleets_are_refused_in_chinese(fleet: dict[str, Any], words: str) -> None:
    with pytest.raises(RightfitError) as caught:
        read_fleet(fleet)
    told = problems_of(caught.value, "zh")
    assert words in told[0].message, told[0].message
    assert not ENGLISH.search(told[0].message), told[0].message
    assert str(caught.value) != told[0].message


@pytest.mark.parametrize(
    "text",
    [
        "cannot read 'foo': no number in it; write for example 24h, 90min, 3d or 300ms",
        "model: which one? name a model",
        "seq_len: 0 must be greater than 0",
        "a: b: c",
    ],
)
def test_other_sentences_are_left_alone(text: str) -> None:
    assert fleet_problem(text) is None
