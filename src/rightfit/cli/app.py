"""The commands, registered. Each command module imports the library only when it runs."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from rightfit.cli.languages import help_text
from rightfit.cli.parameters import command, nearest_name
from rightfit.records import dataclass

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
Abort, Exit = typer.Abort, typer.Exit

MAIN, LOOK, REAL = "Plan", "Look around", "Measure"
#: Groups of commands: what help says of them, and where it shows them.
GROUPS = {"catalog": ("The catalog of servers and prices.", LOOK), "runs": ("The records of runs that are kept.", REAL)}
# What the parser says of a number, in our words.
_PLAINER = {
    r"Input should be a valid integer.*": "it must be a whole number",
    r"Input should be greater than or equal to (\S+)": r"it must be \1 or more",
}
_PURPOSE = (
    "Say what you want to train, fine-tune or serve; get the cloud server to rent, how to set it up, what it costs, and how sure that is."
)


@dataclass(frozen=True, slots=True)
class Command:
    """Where a command is defined, and where help shows it."""

    module: str
    function: str
    panel: str = ""
    workload: bool = False


#: Commands in the order of help; those of a group are named "group command".
COMMANDS = {
    **{name: Command("plan", name, MAIN, workload=True) for name in ("plan", "estimate", "why")},
    "fleet": Command("fleet", "fleet", MAIN),
    "export": Command("export", "export", MAIN),
    "launch": Command("launch", "launch", MAIN),
    "serve": Command("serve", "serve", MAIN),
    "mcp": Command("serve", "mcp", MAIN),
    "predict": Command("predict", "predict", MAIN),
    "validate": Command("predict", "validate", MAIN),
    "probe": Command("probe", "probe", REAL),
    "watch": Command("watch", "watch", REAL),
    "ingest": Command("ingest", "ingest", REAL),
    "resize": Command("resize", "resize", REAL, workload=True),
    **{name: Command("facts", name, LOOK) for name in ("check", "models", "servers", "prices", "accelerators", "datasets")},
    "fit": Command("fit", "fit", LOOK),
    "own": Command("own", "own", LOOK),
    "providers": Command("places", "providers", LOOK),
    "regions": Command("places", "regions", LOOK),
    **{f"catalog {name}": Command("catalog", name) for name in ("status", "verify", "refresh")},
    **{f"runs {name.rstrip('_')}": Command("runs", name) for name in ("list_", "show", "delete", "merge", "send")},
}


def command_line(only: str = "", said: Sequence[str] | None = None) -> typer.Typer:
    """The command line; with `only`, that command alone, and with the words that are `said` behind it, of its options those that they may mean, so
    that a plan does not wait for the options of twenty others to be read, nor for those of its own that nobody gave."""
    app = typer.Typer(
        name="rightfit",
        help=help_text("command", "root", _PURPOSE),
        epilog="Example: rightfit plan meta-llama/Meta-Llama-3-8B --task finetune --method qlora --data 50Mtok --deadline 24h",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback(help=help_text("command", "root", _PURPOSE))(_root)
    groups = {name: typer.Typer(help=help_text("command", name, purpose), no_args_is_help=True) for name, (purpose, _) in GROUPS.items()}
    if not only:
        for name, group in groups.items():
            app.add_typer(group, name=name, rich_help_panel=_panel(GROUPS[name][1]))
    for name, entry in COMMANDS.items():
        if only in ("", name):
            _register(groups.get(name.partition(" ")[0], app) if " " in name else app, name, entry, said)
    return app


def _register(app: typer.Typer, name: str, entry: Command, said: Sequence[str] | None) -> None:
    function = getattr(importlib.import_module(f"rightfit.cli.commands.{entry.module}"), entry.function)
    shown = app.command(name.rpartition(" ")[2], rich_help_panel=_panel(entry.panel) if entry.panel else None)
    shown(command(function, workload=entry.workload, said=said))


def _panel(name: str) -> str:
    return help_text("group", name, name)


def _version(asked: bool) -> None:
    if asked:
        from rightfit import __version__

        typer.echo(f"rightfit {__version__}")
        raise typer.Exit


def _root(version: Annotated[bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)] = False) -> None:
    """Options before the command."""


def build(arguments: Sequence[str] = ()) -> Any:
    """The command line as one callable: of the command that `arguments` begin with alone, else whole."""
    first = arguments[0] if arguments else ""
    return typer.main.get_command(command_line(first, arguments[1:]) if first in COMMANDS else command_line())


def usage_line(error: Any) -> str:
    """A wrong call in one line, with the nearest valid option or command."""
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    wrong = getattr(error, "option_name", None)
    if wrong and context is not None:
        names = [name for parameter in context.command.params for name in getattr(parameter, "opts", ()) if name.startswith("--")]
        return f"no such option {wrong}{nearest_name(wrong, names)}"
    if message.startswith("No such command") and context is not None:
        typed = message.split("'")[1]
        names = [name for name, entry in context.command.commands.items() if not entry.hidden]
        return f"no such command {typed!r}{nearest_name(typed, names) or '; known: ' + ', '.join(names)}"
    if not message:
        return ""
    for pattern, words in _PLAINER.items():
        message = re.sub(pattern, words, message)
    return message[:1].lower() + message[1:].rstrip(".") + _usage_hint(context)


def _usage_hint(context: Any) -> str:
    return f"; see {context.command_path} --help" if context is not None else ""
