"""Every sentence that refuses or fails has its Chinese: the sentences are read out of the source, so that a new one without it is found."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit import errors
from rightfit.errors import RightfitError
from rightfit.explain.messages import has, refusal_topics, topic
from rightfit.explain.problems import problems_of
from rightfit.explain.refusals import part, pattern_of, refusal
from rightfit.fleet.reading import read_fleet

SOURCE = Path(rightfit.__file__).parent
MODULES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def kinds() -> set[str]:
    """Names of our errors, those of single modules with them."""
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, RightfitError)}
    classes = [node for tree in MODULES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    size = 0
    while size < len(known):
        size = len(known)
        known |= {node.name for node in classes if {ast.unparse(base).rpartition(".")[2] for base in node.bases} & known}
    return known


KINDS = kinds()
#: Methods and functions that raise the sentence which they are given.
RAISERS = {"RefusedError", "fail", "_fail", "refuse", "_refuse"}
#: Errors that name a thing and its kind, which `explain.problems` puts into words.
NAMES = {"UnknownNameError", "AmbiguousNameError"}
#: Rooms whose sentences only developers meet, but for those of the cases that anybody may ask about.
INSIDE, READ = ("proof",), ("proof", "cases")
#: Sentences that are another one behind the name of what it is about, and those that are put together of others.
MADE_ELSEWHERE = re.compile(
    r"(?:\{[^{}]+\}(?:: |, )?)+|\{unlisted\} \(\{answer\.error\}\)|\{name\} contradicts \{honours.*|\{file\}: \{key\} has no \{needed\}"
)
#: The room of what the parser of commands and the system say, which tests/cli/test_bad_input.py walks.
COMMAND_LINE = "refusals/usage"
HAN = re.compile(r"[\u4e00-\u9fff]")
ENGLISH = re.compile(r"\b(the|not|is|are|such|write|give|stands|must|should|cannot|needs?|input|given|unable|unknown|or)\b")
VALUES = {"self.where": "fleet.yaml", "where": "fleet.yaml", "name": "fleet.yaml", "place": "jobs[1] (a)", "hint": "; did you mean count?"}


def sentences(path: Path) -> Iterator[tuple[str, str]]:
    """(file and line, sentence with examples in place of its values) of every error that a module makes."""
    for node in ast.walk(MODULES[path]):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and path.name == "rules.py":  # option and sentence, made an error of later
            for _, text in written(node.elts[1]):
                if " " in text:
                    yield f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", text
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name | ast.Attribute):
            called = node.func.id if isinstance(node.func, ast.Name) else "super" if "super" in ast.unparse(node.func) else ""
            raiser = node.func.attr if isinstance(node.func, ast.Attribute) else called
            if called not in KINDS - NAMES and called != "super" and raiser not in RAISERS:
                continue
            for source, text in written(node.args[0]):
                if text and not MADE_ELSEWHERE.fullmatch(source):
                    yield f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", text


def written(node: ast.AST) -> list[tuple[str, str]]:
    """What a text of the source can be: with its values by name, and with examples in their place; nothing where it is no text."""
    if isinstance(node, ast.Constant):
        return [(node.value, node.value)] if isinstance(node.value, str) else []
    if isinstance(node, ast.IfExp):
        return written(node.body) + written(node.orelse)
    if isinstance(node, ast.BinOp):
        return together([written(node.left), written(node.right)])
    if isinstance(node, ast.JoinedStr):
        return together([written(value) for value in node.values])
    if isinstance(node, ast.FormattedValue):
        source = ast.unparse(node.value)
        return [("{" + source + "}", VALUES.get(source, "7"))]
    return []


def together(parts: list[list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Every way to put the parts of a text together."""
    return [("".join(one for one, _ in way), "".join(other for _, other in way)) for way in itertools.product(*parts)]


def is_met(path: Path) -> bool:
    """Whether users meet what a module says."""
    parts = path.relative_to(SOURCE).parts
    return parts[:1] != INSIDE or parts[:2] == READ


SENTENCES = [found for path in sorted(SOURCE.rglob("*.py")) if is_met(path) for found in sentences(path)]


def test_the_source_is_read() -> None:
    assert len(SENTENCES) >= 400
    assert {place.partition("/")[0] for place, _ in SENTENCES} >= {"fleet", "workload", "families", "cli", "catalog", "measure", "facts"}


@pytest.mark.parametrize(("place", "text"), SENTENCES, ids=[place for place, _ in SENTENCES])
def test_every_sentence_has_its_chinese(place: str, text: str) -> None:
    said = refusal(text)
    assert said is not None, f"{place} says {text!r}, which no file of explain/data/refusals has"
    assert HAN.search(said)
    assert not ENGLISH.search(said), said


def test_no_chinese_is_of_a_sentence_that_nobody_writes() -> None:
    """Whole sentences of the data are each made by the code."""
    texts = {text for _, text in SENTENCES} | {text.partition(": ")[2] for _, text in SENTENCES}
    unused = [
        f"{room}: {key}"
        for room in refusal_topics()
        if room != COMMAND_LINE
        for key, words in topic(room).items()
        if not key.startswith("part_") and not any(pattern_of(words["en"], room=room).fullmatch(text) for text in texts)
    ]
    assert unused == []


def names() -> Iterator[tuple[str, ast.Call]]:
    """(file and line, call) of every error on a name that is not known or means several things."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(MODULES[path]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in NAMES and node.args:
                yield f"{path.relative_to(SOURCE).as_posix()}:{node.lineno}", node


NAMED = [found for found in names() if found[0].partition("/")[0] not in INSIDE]


def test_every_kind_of_name_has_its_chinese() -> None:
    kinds = {(place, str(call.args[0].value)) for place, call in NAMED if isinstance(call.args[0], ast.Constant)}
    assert len(kinds) > 40
    assert [(place, kind) for place, kind in sorted(kinds) if not has(f"problems.kind_{kind.replace(' ', '_')}")] == []


def test_what_there_is_instead_of_a_name_has_its_chinese() -> None:
    told = []
    for place, call in NAMED:
        for given in (keyword.value for keyword in call.keywords if keyword.arg == "allowed"):
            told += [(place, text) for _, text in written(given) if text]
    assert len(told) > 10
    assert [(place, text) for place, text in told if not HAN.search(part(text))] == []


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
        "model: which one? name a model",
        "seq_len: 0 must be greater than 0",
        "a: b: c",
    ],
)
def test_other_sentences_are_left_alone(text: str) -> None:
    assert refusal(text) is None
