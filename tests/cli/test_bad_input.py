"""Bad input: exit code 2, one line on standard error with the nearest valid thing, nothing on
standard output, never a traceback."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rightfit.cli.app import COMMANDS

PLAN = ("plan", "7B")

#: Commands that run until they are stopped, or take no name.
_ENDLESS = {"serve", "mcp"}

BAD = [
    (("plam",), "no such command 'plam'; did you mean plan?"),
    (("zzz",), "no such command 'zzz'; known: plan"),
    (("catalog", "verfy"), "no such command 'verfy'; did you mean verify?"),
    ((*PLAN, "--metod", "lora"), "no such option --metod; did you mean --method?"),
    ((*PLAN, "--method"), "requires an argument"),
    ((*PLAN, "--method", "qlroa"), "did you mean qlora"),
    ((*PLAN, "--task", "fintune"), "did you mean finetune"),
    ((*PLAN, "--data", "50"), "did you mean '50 samples', 50Mtok or 50GB?"),
    ((*PLAN, "--data", "0tok"), "not positive"),
    ((*PLAN, "--data", "nan"), "not a quantity"),
    ((*PLAN, "--data", "alpacca-x"), "did you mean"),
    ((*PLAN, "--deadline", "24"), "did you mean 24h?"),
    ((*PLAN, "--deadline", "-3h"), "not positive"),
    ((*PLAN, "--deadline", "0h"), "not positive"),
    ((*PLAN, "--deadline", "1ns"), "nearest 1s"),
    ((*PLAN, "--budget", "0usd"), "not positive"),
    ((*PLAN, "--budget", "200"), "did you mean 200usd or 200cny?"),
    ((*PLAN, "--budget", "inf"), "not a quantity"),
    ((*PLAN, "--max-nodes", "1e30"), "nearest 64"),
    ((*PLAN, "--max-nodes", "0"), "nearest 1"),
    ((*PLAN, "--epochs", "nan"), "not a quantity"),
    ((*PLAN, "--seq-len", "-1"), "not positive"),
    ((*PLAN, "--rate", "10", "--task", "serve"), "did you mean 10/s?"),
    ((*PLAN, "--task", "serve", "--method", "qlora"), "method qlora contradicts task serve"),
    ((*PLAN, "--task", "train", "--ttft", "300ms"), "ttft contradicts task train"),
    ((*PLAN, "--budget", "10usd/month"), "give the total"),
    ((*PLAN, "--format", "jsn"), "did you mean json"),
    ((*PLAN, "--lang", "fr"), "allowed: en, zh"),
    ((*PLAN, "--top", "-1"), "invalid value for '--top': it must be 0 or more; see"),
    ((*PLAN, "--top", "x"), "invalid value for '--top': it must be a whole number; see"),
    (("serve", "--workers", "100"), "invalid value for '--workers': it must be 64 or less; see"),
    (("serve", "--port", "1.5"), "invalid value for '--port': it must be a whole number; see"),
    (("watch", "x", "--usd-per-hour", "nan"), "invalid value for '--usd-per-hour': it must be a number; see"),
    (("estimate", "7B", "--on", "aws/g5.xlarge", "--nodes", "0"), "nodes: 0 is out of range; allowed 1 to 4096"),
    (
        ("models", "--kind", "transformers"),
        "unknown kind 'transformers'; allowed: transformer, vision, diffusion, other; did you mean transformer?",
    ),
    (("plan", "/usr"), "/usr: a folder without config.json"),
    ((*PLAN, "extra"), "unexpected extra argument"),
    (("plan",), "which one? for example"),
    (("plan", ""), "is empty"),
    (("plan", "--file", "/nowhere/w.yaml"), "no such file"),
    (("plan", "--file", "/"), "is a folder"),
    (("estimate", "7B"), "give --on PROVIDER/INSTANCE"),
    (("predict", "/nowhere.csv"), "no such file"),
    (("predict",), "missing argument"),
    (("check",), "missing argument"),
    (("check", "nowhere.txt"), "no such file"),
    (("prices", "--cloud", "awss"), "did you mean aws"),
    (("fit", "--gpu", "4090"), "rightfit fit has no --gpu; example: rightfit fit RTX-4090"),
    (("accelerators", "--cloud", "aws"), "rightfit accelerators has no --cloud; example: rightfit accelerators"),
    (("fit", "Qwen/Qwen2.5-7B"), "rightfit plan Qwen/Qwen2.5-7B --task serve"),
    (("prices", "--gpu", "H1000"), "did you mean"),
    (("servers", "--gpu", "qwertz"), "unknown accelerator"),
    (("prices", "--region", "us-eas-1"), "us-east-1"),
    (("prices", "--purchase", "spott"), "did you mean spot"),
    (("prices", "--country", "Atlantis"), "the catalog has regions in"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[" ".join(arguments)[:50] for arguments, _ in BAD])
def test_one_line_and_exit_2(run: Any, arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert result.err.startswith("error: ")
    assert len(result.err.splitlines()) == 1


#: Prose of English, which no name, option or unit is.
ENGLISH = re.compile(r"\b(the|not|is|are|such|write|give|must|should|cannot|needs?|input|given|unknown|or|did|allowed|known|missing|see)\b")
HAN = re.compile(r"[\u4e00-\u9fff]")


@pytest.mark.parametrize(
    "arguments", [arguments for arguments, _ in BAD if "fr" not in arguments], ids=lambda arguments: " ".join(arguments)[:50]
)
def test_chinese_is_answered_in_chinese(run: Any, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert all(line.startswith("错误：") for line in result.err.splitlines())
    said = re.sub(r"'[^']*'|“[^”]*”", "", result.err)
    assert HAN.search(said.replace("错误", ""))
    assert not ENGLISH.search(said), result.err


def test_each_problem_of_a_file_has_its_line_in_chinese(run: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    book = tmp_path / "book.csv"
    book.write_text("entry,provider,instance,price\nserver,aws,x,abc\nserver,awss,,5\n", encoding="utf-8")
    result = run(*PLAN, "--price-book", str(book))
    assert (result.code, result.out) == (2, "")
    assert [line.rpartition("book.csv:")[2].partition("：")[0] for line in result.err.splitlines()] == ["2", "2", "3"]
    assert all(line.startswith("错误：") and HAN.search(line.removeprefix("错误")) for line in result.err.splitlines())
    assert not ENGLISH.search(re.sub(r"可用：.*", "", result.err)), result.err


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_refuses_in_chinese(run: Any, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """An option that it lacks, a file that is not there, an argument too many."""
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    for arguments in (("--qwertz",), ("/nowhere/qwertz.json",), ("qwertz", "a", "b", "c", "d")):
        if command in _ENDLESS and arguments[0][0] != "-":
            continue
        result = run(*command.split(), *arguments)
        said = re.sub(r"'[^']*'|“[^”]*”", "", result.err)
        assert result.code in (0, 1, 2, 3)
        assert not ENGLISH.search(said), result.err


def test_a_malformed_file_names_line_and_key(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    path.write_text("model: 7B\ndeadline: 24\n", encoding="utf-8")
    result = run("plan", "--file", str(path))
    assert (result.code, result.err) == (
        2,
        f"error: {path} line 2, key 'deadline': '24' has no unit; did you mean 24h? (units: ms, s, min, h, d, w)\n",
    )


def test_each_problem_has_its_line(run: Any) -> None:
    result = run("plan", "7B", "--method", "qlroa", "--deadline", "24")
    assert result.code == 2
    assert [line.split(":")[1].strip() for line in result.err.splitlines()] == ["method", "deadline"]


def test_no_command_of_the_contract_is_put_off_to_a_later_version(run: Any) -> None:
    result = run("watch", "x", "--any", "y")
    assert (result.code, result.out) == (2, "")
    assert "no such option --any" in result.err
    assert "not supported" not in result.err


def test_plain_words_that_say_nothing(run: Any) -> None:
    for sentence, said in (
        ("", "describe what you want to run"),
        ("bring me tea", "no known model"),
        ("来杯茶", "没有认得出的模型"),
        ("x" * 3000, "2000 is the most"),
    ):
        result = run("plan", "--ask", sentence)
        assert (result.code, result.out) == (2, "")
        assert said in result.err.splitlines()[-1]


@pytest.mark.parametrize(
    "name",
    ["a" * 5000, "/tmp/" + "a" * 300, "a" * 300 + ".json", "b\\c\\d", "/dev/null/x"],
    ids=["long", "long_path", "long_file", "backslashes", "below_a_file"],
)
@pytest.mark.parametrize("command", sorted(set(COMMANDS) - _ENDLESS))
def test_a_name_that_no_file_system_takes_is_the_user_s_to_put_right(run: Any, command: str, name: str) -> None:
    result = run(*command.split(), name)
    assert result.code in (0, 2, 3)
    assert "cannot write the answer" not in result.err
    assert "internal error" not in result.err
    assert "Traceback" not in result.err
    if result.code == 2:
        assert result.err.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan", "7B", "--data", "20k", "samples", "--method", "lora"], "--data '20k samples'"),
        (["plan", "--ask", "fine-tune", "a", "7B"], "--ask 'fine-tune a 7B'"),
        (["plan", "7B", "extra"], "unexpected extra argument"),
    ],
)
def test_a_value_that_was_typed_without_quotes_is_shown_with_them(run: Any, words: list[str], said: str) -> None:
    result = run(*words)
    assert (result.code, said in result.err) == (2, True)
