"""No text breaks out of its place: hostile strings through each writer and back through a
parser that is not ours."""

from __future__ import annotations

import json
import shlex

import yaml
from hypothesis import given, strategies

from rightfit.exports import quoting

TEXT = strategies.text(max_size=40)
HOSTILE = [
    "$(reboot)",
    "`id`",
    "a'b\"c",
    "x\ny: 1",
    "${var.secret}",
    "%{ if true }",
    "日本語 é",
    "--flag",
    "",
    "\\",
    "#",
    "a: b",
    "!!python/object",
]


@given(strategies.lists(TEXT.filter(lambda text: "\0" not in text), min_size=1, max_size=5))
def test_shell_words_come_back(words: list[str]) -> None:
    assert shlex.split(quoting.shell(words)) == words


@given(strategies.lists(strategies.sampled_from(HOSTILE), min_size=1, max_size=5))
def test_shell_lines_are_the_same_words(words: list[str]) -> None:
    assert shlex.split(quoting.shell_lines(words).replace("\\\n", "")) == words


@given(
    strategies.dictionaries(
        strategies.sampled_from(HOSTILE), strategies.one_of(strategies.sampled_from(HOSTILE), strategies.integers(), strategies.none())
    )
)
def test_yaml_and_json_come_back(values: dict[str, object]) -> None:
    assert yaml.safe_load(quoting.to_yaml(values)) == values
    assert json.loads(quoting.to_json(values)) == values


def test_terraform_templates_are_disarmed() -> None:
    assert quoting.hcl("a ${b} %{c}") == '"a $${b} %%{c}"'
    assert quoting.hcl({"a b": [1, True, 'q"']}) == '{ "a b" = [1, true, "q\\""] }'
    assert quoting.hcl({}) == "{}"


def test_labels_and_comments_are_tame() -> None:
    assert quoting.label("meta-llama/Meta Llama\n3$(x)") == "meta-llama-Meta-Llama-3-x"
    assert quoting.label("///") == "x"
    assert len(quoting.label("y" * 200)) == 63
    assert quoting.comment("a\nrm -rf /\r\0b") == "a rm -rf / b"
