"""The commands, registered. Each command module imports the library only when it runs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from rightfit.cli.commands import catalog, export, facts, later, launch, own, places, plan, predict, serve
from rightfit.cli.languages import help_text
from rightfit.cli.parameters import command, nearest_name

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
Abort, Exit = typer.Abort, typer.Exit

_LOOK, _MAIN = help_text("group", "Look around", "Look around"), help_text("group", "Plan", "Plan")
# What the parser says of a number, in our words.
_PLAINER = {
    r"Input should be a valid integer.*": "it must be a whole number",
    r"Input should be greater than or equal to (\S+)": r"it must be \1 or more",
}
_PURPOSE = (
    "Say what you want to train, fine-tune or serve; get the cloud server to rent, how to set it up, what it costs, and how sure that is."
)

app = typer.Typer(
    name="rightfit",
    help=help_text("command", "root", _PURPOSE),
    epilog="Example: rightfit plan meta-llama/Meta-Llama-3-8B --task finetune --method qlora --data 50Mtok --deadline 24h",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
catalog_app = typer.Typer(help=help_text("command", "catalog", "The catalog of servers and prices."), no_args_is_help=True)
app.add_typer(catalog_app, name="catalog", rich_help_panel=_LOOK)

_ACTING: dict[str, Callable[..., Any]] = {"export": export.export, "launch": launch.launch}
_WITH_WORKLOAD: dict[str, Callable[..., Any]] = {"plan": plan.plan, "estimate": plan.estimate, "why": plan.why}
_SERVING: dict[str, Callable[..., Any]] = {"serve": serve.serve, "mcp": serve.mcp}
_PREDICTION: dict[str, Callable[..., Any]] = {"predict": predict.predict, "validate": predict.validate}
_LOOKING: dict[str, Callable[..., Any]] = {
    "check": facts.check,
    "models": facts.models,
    "servers": facts.servers,
    "prices": facts.prices,
    "accelerators": facts.accelerators,
    "datasets": facts.datasets,
    "own": own.own,
    "providers": places.providers,
    "regions": places.regions,
}
for _commands, _panel in ((_WITH_WORKLOAD, _MAIN), (_ACTING, _MAIN), (_SERVING, _MAIN), (_PREDICTION, _MAIN), (_LOOKING, _LOOK)):
    for _name, _function in _commands.items():
        app.command(_name, rich_help_panel=_panel)(command(_function, workload=_commands is _WITH_WORKLOAD))
catalog_app.command("status")(command(catalog.status))
catalog_app.command("verify")(command(catalog.verify))
catalog_app.command("refresh")(command(catalog.refresh))
later.register(app)


def _version(asked: bool) -> None:
    if asked:
        from rightfit import __version__

        typer.echo(f"rightfit {__version__}")
        raise typer.Exit


@app.callback(help=help_text("command", "root", _PURPOSE))
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)] = False) -> None:
    """Options before the command."""


def build() -> Any:
    """The whole command line as one callable."""
    return typer.main.get_command(app)


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
