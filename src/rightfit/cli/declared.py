"""How a command declares its parameters, and the parameters of click that are made of them.

A command is a function whose annotations say all: `top: Annotated[int | None, option("--top", help="how many", metavar="N", min=0)] = None`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import click

from rightfit.cli.looks import PLAIN, Looks
from rightfit.cli.usage import UnusableValueError
from rightfit.messages import Message
from rightfit.records import dataclass

Completion = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Declared:
    """One parameter: how it is written (an argument has no flags), what help says of it, what it may be, and what a shell completes."""

    flags: tuple[str, ...]
    help: str = ""
    metavar: str | None = None
    panel: str = ""
    low: float | None = None
    high: float | None = None
    is_default_shown: bool = True
    completion: Completion | None = None


def option(
    *flags: str,
    help: str = "",  # noqa: A002 the names of click
    metavar: str | None = None,
    panel: str = "",
    min: float | None = None,  # noqa: A002
    max: float | None = None,  # noqa: A002
    show_default: bool = True,
    completion: Completion | None = None,
) -> Declared:
    """An option, written as one of `flags`; a number is from `min` to `max`."""
    return Declared(flags, help, metavar, panel, min, max, show_default, completion)


def argument(*, help: str = "", metavar: str | None = None, show_default: bool = True) -> Declared:  # noqa: A002
    """An argument: its place is its name."""
    return Declared((), help, metavar, is_default_shown=show_default)


class _Number(click.ParamType):  # type: ignore[type-arg]  # of no kind before click 8.5
    """A number within limits; what no number can be (nan) is refused too."""

    name = "number"

    def __init__(self, *, is_whole: bool, low: float | None, high: float | None) -> None:
        self._is_whole, self._low, self._high = is_whole, low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number: float = int(value) if self._is_whole else float(value)
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise UnusableValueError(Message("usage.part_whole" if self._is_whole else "usage.part_number"), ctx, param)
        if self._low is not None and number < self._low:
            raise UnusableValueError(Message("usage.part_or_more", least=self._low), ctx, param)
        if self._high is not None and number > self._high:
            raise UnusableValueError(Message("usage.part_or_less", most=self._high), ctx, param)
        return number


def made(parameter: inspect.Parameter, looks: Looks = PLAIN) -> click.Parameter:
    """The parameter that click reads, of the class that it has in these looks."""
    kind, declared = get_args(parameter.annotation)
    known = kind if isinstance(kind, type) or get_origin(kind) is list else next(one for one in get_args(kind) if one is not NoneType)
    is_list = get_origin(known) is list
    is_required = parameter.default is inspect.Parameter.empty
    values: dict[str, Any] = {"required": is_required, "help": declared.help, "shell_complete": _completing(declared.completion)}
    values |= {"is_flag": True} if known is bool else {"type": _type(get_args(known)[0] if is_list else known, declared)}
    values |= {} if is_required or is_list else {"default": parameter.default}
    values |= looks.within(declared.panel)
    built: click.Parameter
    if declared.flags:
        shown = declared.is_default_shown and parameter.default not in (None, False, "")
        names = [parameter.name, *declared.flags]
        built = looks.option(names, metavar=declared.metavar, multiple=is_list, show_default=shown, **values)
    else:
        metavar = declared.metavar if is_required or not declared.metavar else f"[{declared.metavar}]"
        built = looks.argument([parameter.name], metavar=metavar, nargs=-1 if is_list else 1, **values)
    return built


def given(parameter: inspect.Parameter, value: Any) -> Any:
    """What a command gets of what click read: a list that nobody began is the default."""
    if isinstance(value, tuple):
        return list(value) if value or parameter.default is inspect.Parameter.empty else parameter.default
    return value


def _type(kind: Any, declared: Declared) -> Any:
    if kind in (int, float):
        return _Number(is_whole=kind is int, low=declared.low, high=declared.high)
    return click.Path(path_type=Path) if kind is Path else click.STRING


def _completing(complete: Completion | None) -> Any:
    return None if complete is None else lambda _context, _parameter, incomplete: complete(incomplete)
