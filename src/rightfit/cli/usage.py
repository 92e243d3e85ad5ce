"""What is wrong with how a command was called, from what the parser of commands raises."""

from __future__ import annotations

from typing import Any

import click

from rightfit.messages import Message, did_you_mean, foreign
from rightfit.workload.vocabulary import nearest_words

#: Click before 8.2 has none: it prints the help itself.
_NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class UnusableValueError(click.BadParameter):
    """A value that an option cannot take, with our message."""

    def __init__(self, problem: Message, ctx: click.Context | None = None, param: click.Parameter | None = None) -> None:
        super().__init__(str(problem), ctx, param)
        self.problem = problem


def usage_problem(error: Any) -> Message | None:
    """A wrong call, with the nearest valid option or command; None where the call was empty, and help is due."""
    if isinstance(error, _NO_ARGUMENTS):
        return None
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        names = [name for parameter in context.command.params for name in getattr(parameter, "opts", ()) if name.startswith("--")]
        return Message("usage.no_option", option=error.option_name, hint=_nearest(error.option_name, names))
    text = " ".join(error.format_message().split())
    if text.startswith("No such command") and context is not None:
        typed = text.split("'")[1]
        names = [name for name, entry in context.command.commands.items() if not entry.hidden]
        hint = _nearest(typed, names) or Message("usage.part_known", names=", ".join(names))
        return Message("usage.no_command", command=repr(typed), hint=hint)
    see = Message("usage.part_see", help=f"{context.command_path} --help") if context is not None else ""
    if isinstance(error, UnusableValueError):
        return Message("usage.value", option=_param_hint(error), problem=error.problem, hint=see)
    return Message("usage.said", problem=foreign(text[:1].lower() + text[1:].rstrip(".")), hint=see)


def _nearest(text: str, names: list[str]) -> Message | str:
    near = nearest_words(text, names, count=2)
    return did_you_mean(near)


def _param_hint(error: click.BadParameter) -> str:
    """The option that a value was given to, as the parser writes it."""
    hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
    return hint if isinstance(hint, str) else " / ".join(f"'{one}'" for one in hint)
