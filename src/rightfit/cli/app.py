"""The commands, registered. Each command module imports the library only when it runs."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from rightfit.cli.declared import Looks, UnusableValueError, command_as_ours, help_lang, help_text, lang_of, looks
from rightfit.cli.parameters import command
from rightfit.facts.tables import read_rows
from rightfit.files import write_whole
from rightfit.messages import Message
from rightfit.records import dataclass

# ---- Completion of words in shells: the script that click writes for each, printed, or put where
# the shell finds it.

#: The variable by which a shell asks for completions.
VARIABLE = "_RIGHTFIT_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
SHOW, INSTALL = (
    "Print the completion script for bash, zsh or fish.",
    "Install shell completion.",
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
        raise UnusableValueError(Message("usage.shell"))
    return shell


def _show(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(script(context.command, _named(value)))
        context.exit()


def _install(context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    shell = _named(value)
    place(shell).parent.mkdir(parents=True, exist_ok=True)
    write_whole(place(shell), script(context.command, shell))
    click.echo(f"{place(shell)}")
    if shell == "zsh":
        click.echo("~/.zshrc: fpath+=~/.zfunc; autoload -Uz compinit; compinit")
    context.exit()


UsageError, Abort, Exit = click.UsageError, click.Abort, click.exceptions.Exit

MAIN, LOOK, REAL = "Plan", "Look around", "Measure"
#: Groups of commands: what help says of them, and where it shows them.
GROUPS = {"catalog": ("Manage the catalog of servers and prices.", LOOK), "runs": ("Manage saved run records.", REAL)}
_PURPOSE = "Find the cloud server to rent for a training, fine-tuning or serving job: setup, cost, time, and how sure the prediction is."


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command is defined, and where help shows it."""

    module: str
    function: str
    panel: str = ""
    workload: bool = False


_HELP = frozenset({"-h", "--help"})
#: Commands in the order of help; those of a group are named "group command".
COMMANDS = {
    **{name: Command("plan", name, MAIN, workload=True) for name in ("plan", "estimate", "why")},
    "fleet": Command("plan", "fleet", MAIN),
    "export": Command("export", "export", MAIN),
    "launch": Command("export", "launch", MAIN),
    "serve": Command("serve", "serve", MAIN),
    "mcp": Command("serve", "mcp", MAIN),
    "predict": Command("predict", "predict", MAIN),
    "validate": Command("predict", "validate", MAIN),
    "probe": Command("runs", "probe", REAL),
    "watch": Command("watch", "watch", REAL),
    "ingest": Command("runs", "ingest", REAL),
    "resize": Command("runs", "resize", REAL, workload=True),
    **{name: Command("facts", name, LOOK) for name in ("check", "models", "servers", "prices", "accelerators", "datasets")},
    "fit": Command("facts", "fit", LOOK),
    "own": Command("own", "own", LOOK),
    "providers": Command("facts", "providers", LOOK),
    "regions": Command("facts", "regions", LOOK),
    **{f"catalog {name}": Command("catalog", name) for name in ("status", "verify", "refresh")},
    **{f"runs {name.rstrip('_')}": Command("runs", name) for name in ("list_", "show", "delete", "merge", "send")},
}


def build(arguments: Sequence[str] = ()) -> click.Group:
    """The command line: of the command that `arguments` begin with alone, else whole.

    So a plan does not wait for the options of twenty others to be read, nor for what draws help.
    """
    only = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    look = looks(is_help=not arguments or arguments[-1] in GROUPS or not _HELP.isdisjoint(arguments))
    root: click.Group = look.group(
        "rightfit",
        help=help_text("command", "root", _PURPOSE),
        epilog=_first_commands() if look.has_panels else "",
        no_args_is_help=True,
        params=_root_options(),
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120, **look.settings},
    )
    groups = {} if only else {name: _group(name, look) for name in GROUPS}
    for name, entry in COMMANDS.items():
        if only in ("", name):
            groups.get(name.partition(" ")[0], root).add_command(_command(name, entry, look))
    for group in groups.values():
        root.add_command(group)
    return root


def _first_commands() -> str:
    """What people want first, each with a command; the READMEs have the same table."""
    lang = help_lang()
    rows = read_rows((Path(__file__).with_name("data") / "first_commands.csv").read_text(encoding="utf-8"))
    return "\n\n".join(f"{row[lang]}{': ' if lang == 'en' else '：'}rightfit {row['command']}" for row in rows)


def _group(name: str, look: Looks) -> click.Group:
    purpose, panel = GROUPS[name]
    made: click.Group = look.group(name, help=help_text("command", name, purpose), no_args_is_help=True, **look.within(_panel(panel)))
    return made


def _command(name: str, entry: Command, look: Looks) -> click.Command:
    function = getattr(importlib.import_module(f"rightfit.cli.commands.{entry.module}"), entry.function)
    run, parameters, told = command(function, workload=entry.workload, looks=look)
    panel = look.within(_panel(entry.panel) if entry.panel else "")
    made: click.Command = look.command(name.rpartition(" ")[2], callback=run, params=parameters, help=told, **panel)
    return made


def _panel(name: str) -> str:
    return help_text("group", name, name)


def _root_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help=help_text("said", "Show the version.", "Show the version."),
        ),
        *options(),
    ]


def _version(context: click.Context, _parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        from rightfit import __version__

        click.echo(f"rightfit {__version__}")
        context.exit()


def _renamed(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments with our name for the command, where people have another; that is said."""
    ours, meant = command_as_ours(arguments)
    if meant:
        click.echo(Message("usage.read_as", option=arguments[0], meant=f"rightfit {meant}").text(lang_of(arguments)), err=True)
    return ours


def call(arguments: Sequence[str]) -> Any:
    """Run the command line and give what the command returns; what stops it is raised (click's own
    `main` writes on Ctrl-C)."""
    if arguments and arguments[0].startswith("-") and "--lang" in arguments[:-1]:  # of the whole command line: of its command
        place = list(arguments).index("--lang")
        rest = [*arguments[:place], *arguments[place + 2 :]]
        arguments = rest if all(word.startswith("-") for word in rest) else [*rest, *arguments[place : place + 2]]
    if arguments and arguments[0] not in COMMANDS and arguments[0] not in GROUPS:
        arguments = _renamed(arguments)
    root = build(arguments)
    if VARIABLE in os.environ:
        return root.main(args=list(arguments), prog_name="rightfit", standalone_mode=False, complete_var=VARIABLE)
    with root.make_context("rightfit", list(arguments)) as context:
        return root.invoke(context)
