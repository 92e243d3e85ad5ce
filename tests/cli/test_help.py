"""Help: every command has a sentence and an example, and fits the screen."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rightfit.cli import app
from rightfit.cli.app import build
from rightfit.workload.options import OPTIONS


def commands(group: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for name, command in group.commands.items():
        if not command.hidden:
            found += commands(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]
    return found


WHOLE: Any = build()
COMMANDS = commands(WHOLE)


def test_the_contract_s_commands_are_there() -> None:
    names = {" ".join(path) for path, _ in COMMANDS}
    wanted = ["plan", "estimate", "why", "predict", "check", "models", "servers", "prices", "accelerators", "datasets", "validate"]
    assert {*wanted, "catalog status", "catalog verify"} <= names
    everything = set(WHOLE.commands)
    assert {"export", "serve", "probe", "watch", "ingest", "resize", "mcp"} <= everything
    assert WHOLE.name == "rightfit"


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[" ".join(path) for path, _ in COMMANDS])
def test_every_command_is_explained_with_an_example(path: tuple[str, ...], command: Any) -> None:
    assert len(command.help.splitlines()[0]) > 20
    assert f"rightfit {' '.join(path)}" in command.help
    for parameter in command.params:
        assert parameter.help or parameter.name == "help", parameter.name


def test_plan_has_every_option_of_a_workload() -> None:
    plan = dict(COMMANDS)["plan",]
    flags = {name for parameter in plan.params for name in parameter.opts}
    assert {"--" + name.replace("_", "-") for name in OPTIONS if name != "model"} <= flags
    assert {"--format", "--lang", "--top", "--quiet", "--verbose", "--file", "--save", "--ask"} <= flags


@pytest.mark.parametrize("path", [(), ("plan",), ("catalog",), ("catalog", "verify")])
def test_help_exits_0(run: Any, path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.code == 0
    assert "Usage" in result.out


@pytest.mark.parametrize("path", [(), ("catalog",)])
def test_no_arguments_show_help(run: Any, path: tuple[str, ...]) -> None:
    result = run(*path)
    assert (result.code, result.err) == (0, "")
    assert "Usage" in result.out


def test_completion_of_words() -> None:
    from rightfit.cli.parameters import _complete

    complete = _complete(("lora", "qlora", "full"))
    assert complete("l") == ["lora"]
    assert complete("full,q") == ["full,qlora"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_options_and_words(process: Any, shell: str, tmp_path: Path) -> None:
    assert "_RIGHTFIT_COMPLETE" in process("--show-completion", shell).out
    line = {"COMP_WORDS": "rightfit plan --method ql", "COMP_CWORD": "3" if shell == "bash" else "ql" if shell == "fish" else "3"}
    assert "qlora" in process(_RIGHTFIT_COMPLETE=f"{shell}_complete", **line).out
    shown = process("--show-completion", SHELL=f"/usr/bin/{shell}")
    assert shown.out == process("--show-completion", shell).out
    told = process("--install-completion", SHELL=f"/usr/bin/{shell}", HOME=str(tmp_path), XDG_DATA_HOME="", XDG_CONFIG_HOME="")
    (written,) = (path for path in tmp_path.rglob("*rightfit*") if path.is_file())
    assert (told.code, told.out.splitlines()[0], written.read_text() + "\n") == (0, str(written), shown.out)
    for wrong in ("--show-completion", "--install-completion"):
        refused = process(wrong, "tcsh")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "it must be bash, zsh or fish" in refused.err


def test_every_help_text_has_its_chinese_twin() -> None:
    from rightfit.cli.declared import _help_texts

    texts = _help_texts()
    names = {parameter.name for _, command in COMMANDS for parameter in command.params if parameter.name != "help"}
    special = {name for name in texts["parameter"] if name.startswith(tuple(f"{path[-1]}_" for path, _ in COMMANDS)) and name not in names}
    probe = {f"probe_{name}" for name in ("plan", "option", "file", "model", "input_tokens", "output_tokens", "ttft", "tpot", "percentile")}
    watch = {f"watch_{name}" for name in ("target", "plan", "option", "usd_per_hour")}
    assert special == {
        "serve_rate",
        "serve_workers",
        "ingest_kind",
        "ingest_last",
        *probe,
        *watch,
    }  # other meanings of names that a workload has too
    assert set(texts["parameter"]) - {"model"} - special == names - {"model"}
    assert set(texts["command"]) == {path[-1] for path, _ in COMMANDS} | {"catalog", "runs", "root"}


def test_help_follows_the_locale(process: Any) -> None:
    shown = process("plan", "--help", LANG="zh_CN.UTF-8").out
    assert "按工作负载给服务器排名" in shown
    assert "训练方法" in shown
    assert "rightfit plan meta-llama/Meta-Llama-3-8B" in shown
    assert "训练方法" in process("plan", "--help", "--lang", "zh").out
    assert "training method" in process("plan", "--help", "--lang", "en", LANG="zh_CN.UTF-8").out


def told(command: Any) -> dict[str, tuple[Any, ...]]:
    """What a built command says of each of its parameters."""
    return {
        one.name: (one.opts, one.secondary_opts, one.help, one.default, one.required, one.multiple, one.nargs) for one in command.params
    }


def panels(command: Any) -> dict[str, str | None]:
    return {one.name: one.panel for one in command.params}


ALONE = pytest.mark.parametrize("name", [name for name in app.COMMANDS if " " not in name])


@ALONE
@pytest.mark.parametrize("words", [["--help"], ["--no-such-option"], ["--"]])
def test_a_command_that_is_built_alone_is_the_same(name: str, words: list[str]) -> None:
    """A plan does not wait for the options of other commands; what is built for it alone says what
    the whole command line says."""
    whole, alone = WHOLE.commands[name], build([name, *words]).commands
    assert list(alone) == [name]
    assert list(told(alone[name]).items()) == list(told(whole).items())
    assert alone[name].help == whole.help
    if "--help" in words:  # what draws help is loaded for it
        assert (alone[name].panel, panels(alone[name])) == (whole.panel, panels(whole))


def test_options_of_a_plan_are_grouped_by_kind_of_work() -> None:
    """What only training, serving, images or tables read is under that kind, and what is left over
    is short; each heading has its Chinese."""
    from collections import Counter

    groups = Counter(panel for name, panel in panels(build(["plan", "--help"]).commands["plan"]).items() if name in OPTIONS)
    assert {"Training", "Serving", "Images, audio and video", "Tables and data preparation"} < groups.keys()
    assert groups["Setup (chosen automatically if not set)"] <= 6
    chinese = tomllib.loads((Path(app.__file__).parent / "data" / "help.toml").read_text(encoding="utf-8"))["group"]
    assert {name for name in groups if name} <= chinese.keys()
