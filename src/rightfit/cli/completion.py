"""Completion of words in shells: the script that click writes for each, printed, or put where the shell finds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from rightfit.cli.languages import help_text
from rightfit.cli.usage import UnusableValueError
from rightfit.kept import write_whole
from rightfit.messages import Message

#: The variable by which a shell asks for completions.
VARIABLE = "_RIGHTFIT_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
SHOW, INSTALL = (
    "Print what makes bash, zsh or fish complete the words of rightfit.",
    "Make the shell complete the words of rightfit from now on.",
)
_THIS = "this shell"


def options() -> list[click.Parameter]:
    """--show-completion and --install-completion, with or without the name of a shell."""

    def one(name: str, told: str, callback: Any) -> click.Option:
        return click.Option(
            [f"--{name}-completion"], metavar="SHELL", is_flag=False, flag_value=_THIS, is_eager=True, expose_value=False,
            callback=callback, help=help_text("said", told, told),
        )  # fmt: skip

    return [one("install", INSTALL, _install), one("show", SHOW, _show)]


def script(command: click.Command, shell: str) -> str:
    """What the shell has to run."""
    from click.shell_completion import get_completion_class

    known = get_completion_class(shell)
    assert known is not None
    return known(command, {}, "rightfit", VARIABLE).source()


def place(shell: str) -> Path:
    """Where a shell looks for the completions of a command."""
    home = Path.home()
    if shell == "bash":
        return Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share") / "bash-completion/completions/rightfit"
    if shell == "fish":
        return Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "fish/completions/rightfit.fish"
    return home / ".zfunc/_rightfit"


def _named(value: str) -> str:
    shell = Path(os.environ.get("SHELL", "")).name if value == _THIS else value
    if shell not in SHELLS:
        raise UnusableValueError(Message("usage.part_shell"))
    return shell


def _show(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(script(context.command, _named(value)))
        context.exit()


def _install(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    shell = _named(value)
    write_whole(place(shell), script(context.command, shell))
    click.echo(f"{place(shell)}")
    if shell == "zsh":
        click.echo("~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit")
    context.exit()
