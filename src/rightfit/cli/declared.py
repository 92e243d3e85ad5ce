"""How a command declares its parameters, and the parameters of click that are made of them.

A command is a function whose annotations say all: `top: Annotated[int | None, option("--top",
help="how many", metavar="N", min=0)] = None`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import click

from rightfit.explain.messages import default_lang
from rightfit.facts.tables import read_rows
from rightfit.messages import Lang, Message, did_you_mean, foreign
from rightfit.records import dataclass
from rightfit.workload.vocabulary import nearest_words

# ---- The language of a command's answer and of its help.

_DATA = Path(__file__).with_name("data")


@functools.cache
def help_lang() -> Lang:
    """The language of --help, which is needed before options are read: `--lang` on the command
    line, else the locale."""
    return lang_of(sys.argv[1:])


def lang_of(arguments: Sequence[str]) -> Lang:
    """The language that arguments ask for, else that of the locale."""
    words = " ".join(arguments).replace("--lang=", "--lang ").split()
    given = words[words.index("--lang") + 1] if "--lang" in words[:-1] else ""
    if not given and is_chinese(_asked(arguments)):
        return "zh"
    return "zh" if given in ("zh", "chinese", "cn", "zh-cn", "中文") or (not given and default_lang() == "zh") else "en"


def is_chinese(sentence: str) -> bool:
    """Whether a sentence has Chinese words."""
    return any("\u4e00" <= char <= "\u9fff" for char in sentence)


def _asked(arguments: Sequence[str]) -> str:
    """The sentence of --ask, whose language the answer speaks where --lang says nothing."""
    told = next((word.removeprefix("--ask=") for word in arguments if word.startswith("--ask=")), "")
    return told or next((after for word, after in itertools.pairwise(arguments) if word == "--ask"), "")


@functools.cache
def _help_texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((_DATA / "help.toml").read_text(encoding="utf-8"))


def help_text(section: str, key: str, english: str) -> str:
    """A help text in the language of --help; `english` is the one in the code."""
    return english if help_lang() == "en" else _help_texts()[section].get(key, english)


# ---- What is wrong with how a command was called, from what the parser of commands raises.

#: Click before 8.2 has none: it prints the help itself.
_NO_ARGUMENTS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())


class UnusableValueError(click.BadParameter):
    """A value that an option cannot take, with our message."""

    def __init__(self, problem: Message, ctx: click.Context | None = None, param: click.Parameter | None = None) -> None:
        super().__init__(str(problem), ctx, param)
        self.problem = problem


def usage_problem(error: Any, arguments: Sequence[str] = ()) -> Message | None:
    """A wrong call, with the nearest valid option or command; None where the call was
    empty, and help is due. `arguments`: as they were typed."""
    if isinstance(error, _NO_ARGUMENTS):
        return None
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        names = [name for parameter in context.command.params for name in getattr(parameter, "opts", ()) if name.startswith("--")]
        taken = {parameter.name for parameter in context.command.params}
        from rightfit.workload.options import OPTIONS

        if "plan" in taken and error.option_name.removeprefix("--").replace("-", "_") in OPTIONS:
            return Message("usage.of_plan", option=error.option_name, command=context.command_path)
        if context.command.name == "fleet" and (place := _in_a_fleet(error.option_name)):
            return Message("usage.of_fleet", option=error.option_name, place=place)
        if error.option_name.removeprefix("--").replace("-", "_") in OPTIONS and (example := _example(context.command.help or "")):
            return Message("usage.not_here", option=error.option_name, command=context.command_path, example=example)
        return Message("usage.no_option", option=error.option_name, hint=_nearest(error.option_name, names))
    text = " ".join(error.format_message().split())
    if text.startswith("No such command") and context is not None:
        typed = text.split("'")[1]
        names = [name for name, entry in context.command.commands.items() if not entry.hidden]
        meant = _meant_commands(typed, names, arguments, context)
        hint = did_you_mean(meant) if meant else Message("usage.known", names=", ".join(names))
        return Message("usage.no_command", command=repr(typed), hint=hint)
    if (found := _EXTRA.search(text)) and (machine := _machine_of_own(arguments)):
        return Message("usage.own_machine", machine=machine)
    if found and context is not None and (unquoted := _unquoted(found[1].split(), arguments, context.command)):
        return unquoted
    if isinstance(error, click.MissingParameter) and context is not None and (example := _example(context.command.help or "")):
        return Message("usage.missing", argument=_param_hint(error).strip("'"), example=example)
    if found and context is not None and (other := command_names().get(f"{context.command.name} MODEL")):
        meant = [f"rightfit {command.format(found[1])}" for command in other["commands"].split("|")]
        return Message(
            "usage.said", problem=Message("usage.takes_none", command=context.command_path, word=found[1]), hint=did_you_mean(meant)
        )
    see = Message("usage.see", help=f"{context.command_path} --help") if context is not None else ""
    if isinstance(error, UnusableValueError):
        return Message("usage.value", option=_param_hint(error), problem=error.problem, hint=see)
    return Message("usage.said", problem=foreign(text[:1].lower() + text[1:].rstrip(".")), hint=see)


def _meant_commands(typed: str, names: Sequence[str], arguments: Sequence[str], context: Any) -> list[str]:
    """The commands that do what was typed, by what it means, else by how it is spelled."""
    others = command_names()
    group = f"{context.info_name} " if context.parent else ""
    known = {name: row["commands"] for name, row in others.items() if not group or f"|{row['commands']}".find(f"|{group}") >= 0}
    near = [_plain_name(typed)] if _plain_name(typed) in known else nearest_words(_plain_name(typed), [*names, *known], count=2)
    rest = " ".join(map(shlex.quote, itertools.islice(itertools.dropwhile(lambda word: word != typed, arguments), 1, None)))
    meant = [
        name if name in names else f"rightfit {command.format(rest or MODEL)}"
        for name in near
        for command in ([group] if name in names else known[name].split("|"))
        if command.startswith(group)
    ]
    return list(dict.fromkeys(meant))


def _example(told: str) -> str:
    """The first example of a command's help."""
    found = re.search(r"(?:Examples?|例)[:：]\s*(rightfit (?:[^\n]|\n(?!\n))*)", told)
    return " ".join(found[1].split()) if found else ""


def _in_a_fleet(option: str) -> str:
    """The key of a fleet file that an option of a plan is there; empty for any other option."""
    from rightfit.fleets.sources import JobRecord, LimitRecord
    from rightfit.workload.options import OPTIONS

    name = option.removeprefix("--").replace("-", "_")
    limit = next((key for key in (name, f"{name}s") if key in LimitRecord.model_fields), "")
    if limit or name in JobRecord.model_fields:
        return f"limits.{limit}" if limit else f"jobs[].{name}"
    return f"defaults.{name}" if name in OPTIONS else ""


def _machine_of_own(arguments: Sequence[str]) -> str:
    """The machine that was typed behind --own, which takes none; empty where that is none."""
    if "--own" not in arguments[:-1]:
        return ""
    from rightfit.errors import RightfitError
    from rightfit.search.ownership import read_machine

    machine = arguments[arguments.index("--own") + 1]
    try:
        read_machine(machine)
    except RightfitError:
        return ""
    return machine


_EXTRA = re.compile(r"unexpected extra arguments? \((.*)\)")


def _unquoted(extra: Sequence[str], arguments: Sequence[str], command: Any) -> Message | None:
    """Words behind the value of an option are the rest of it, typed without quotes."""
    valued = {name for one in command.params if not getattr(one, "is_flag", True) for name in one.opts}
    before = list(arguments[: list(arguments).index(extra[0])] if extra and extra[0] in arguments else ())
    last = max((place for place, word in enumerate(before) if word.startswith("-")), default=-1)
    if last < 0 or before[last] not in valued or len(before) < last + 2:
        return None
    value = itertools.takewhile(lambda word: not word.startswith("-"), arguments[last + 1 :])
    return Message("usage.unquoted", option=before[last], value=shlex.quote(" ".join(value)))


def _nearest(text: str, names: list[str]) -> Message | str:
    near = nearest_words(text, names, count=2)
    return did_you_mean(near)


def _param_hint(error: click.BadParameter) -> str:
    """The option that a value was given to, as the parser writes it."""
    hint = error.param_hint or (error.param.get_error_hint(error.ctx) if error.param and error.ctx else "")
    return hint if isinstance(hint, str) else " / ".join(f"'{one}'" for one in hint)


# ---- The classes of click that the command line is made of: plain ones, and those that draw their
# help in panels, which take a tenth of a second to load.


class _InOrder(click.Group):
    """A group whose commands help shows in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class _Argument(click.Argument):
    """An argument that help says something of, also before click 8.5."""

    def __init__(self, names: Sequence[str], *, help: str, **values: Any) -> None:  # noqa: A002 the names of click
        super().__init__(names, **values)
        self.help: str | None = help


class _Spelled(click.Command):
    """A command that takes options by the names of other programs too, and says so."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:

        known = {flag for one in self.params if one.name != "work_place" for flag in (*one.opts, *one.secondary_opts)}
        known |= {MODEL} if any(parameter.name == "model" and isinstance(parameter, click.Argument) for parameter in self.params) else set()
        ours, said = as_ours(args, known) if any(word.startswith("--") for word in args) else (args, [])
        for written, read in said:
            click.echo(Message("usage.read_as", option=written, meant=read).text(lang_of(args)), err=True)
        return super().parse_args(ctx, list(ours))


class _Helpful(click.Command):
    """A command whose --help is explained in the language of help."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        option = super().get_help_option(ctx)
        if option is not None and option.help:
            option.help = help_text("said", option.help, option.help)
        return option


@dataclass(frozen=True, slots=True)
class Looks:
    """The classes, and whether a panel can be named for what is made of them."""

    group: Any
    command: Any
    option: Any
    argument: Any
    settings: dict[str, Any]
    has_panels: bool

    def within(self, panel: str) -> dict[str, str]:
        """What says that something is shown in this panel."""
        return {"panel": panel} if panel and self.has_panels else {}


PLAIN = Looks(_InOrder, _Spelled, click.Option, _Argument, {}, has_panels=False)


def looks(*, is_help: bool) -> Looks:
    """Those for a command line that asks for help, or for one that does not."""
    if not is_help:
        return PLAIN
    import rich_click

    arguments, options = help_text("group", "Arguments", "Arguments"), help_text("group", "Options", "Options")

    class Group(_Helpful, _InOrder, rich_click.RichGroup):  # type: ignore[misc]
        """Panels of commands in their order."""

    class Command(_Spelled, _Helpful, rich_click.RichCommand):
        """The panels of what matters most come first."""

        def __init__(self, *given: Any, **values: Any) -> None:
            super().__init__(*given, panels=[rich_click.RichOptionPanel(arguments), rich_click.RichOptionPanel(options)], **values)

    shown = {
        "show_arguments": True,
        "arguments_panel_title": arguments,
        "options_panel_title": options,
        "text_paragraph_linebreaks": "\n\n",
        "padding_helptext_first_line": (0, 0, 1, 0),
        "max_width": 120,
    }
    return Looks(Group, Command, rich_click.RichOption, rich_click.RichArgument, {"rich_help_config": shown}, has_panels=True)


Completion = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Declared:
    """One parameter: how it is written (an argument has no flags), what help says of it, what it
    may be, and what a shell completes."""

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


def argument(
    *,
    help: str = "",  # noqa: A002
    metavar: str | None = None,
    show_default: bool = True,
    completion: Completion | None = None,
) -> Declared:
    """An argument: its place is its name."""
    return Declared((), help, metavar, is_default_shown=show_default, completion=completion)


def model_names(incomplete: str) -> list[str]:
    """What a shell completes of a model's name, its own name or that of its repository."""
    from rightfit.facts import bundled

    begun = incomplete.casefold()
    names = (name for entry in bundled.index() for name in (entry.name, *entry.aliases))
    return sorted(name for name in names if name.casefold().startswith(begun)) if begun else []


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
            raise UnusableValueError(Message("usage.whole" if self._is_whole else "usage.number"), ctx, param)
        if self._low is not None and number < self._low:
            raise UnusableValueError(Message("usage.or_more", least=self._low), ctx, param)
        if self._high is not None and number > self._high:
            raise UnusableValueError(Message("usage.or_less", most=self._high), ctx, param)
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


# ---- Options by the names that other programs, or people, give them (data/option_names.csv):
# each is read as ours, and that is said.

MODEL = "MODEL"


@functools.cache
def option_names() -> Mapping[str, Mapping[str, str]]:
    """Name -> its line: `option` as ours is called (MODEL: the argument), `value` that a flag sets
    or that the value given is put into, `otherwise` the option where the value is no number."""
    text = (_DATA / "option_names.csv").read_text(encoding="utf-8")
    return {row["name"]: row for row in read_rows(text)}


@functools.cache
def command_names() -> Mapping[str, Mapping[str, str]]:
    """Name that people give a command -> its line: `commands` that do it ({}: what was typed behind
    it), of one meaning with it where `is_same`."""
    text = (_DATA / "command_names.csv").read_text(encoding="utf-8")
    return {row["name"]: row for row in read_rows(text)}


def _plain_name(typed: str) -> str:
    return typed.casefold().replace("_", "-")


def command_as_ours(arguments: Sequence[str]) -> tuple[list[str], str]:
    """(arguments with our name of the command, how its name is read: empty where that was ours)."""
    name, *rest = arguments or ("",)
    row = command_names().get(_plain_name(name))
    if row is None or not row["is_same"]:
        return [*arguments], ""
    words = shlex.split(row["commands"])
    ours = [one for word in words for one in (rest if word == "{}" else [word])]
    return ours, " ".join(word for word in words if word != "{}")


def as_ours(arguments: Sequence[str], known: Container[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """(arguments with our names, (as it was written, as it is read) of each that was another).
    `known`: the flags of the command, MODEL where it takes one; what it knows stays as it is."""
    ours: list[str] = []
    said: list[tuple[str, str]] = []
    waiting = iter(arguments)
    for word in waiting:
        if word == "--":
            return [*ours, word, *waiting], said
        flag, has_value, value = word.partition("=")
        row = option_names().get(flag.removeprefix("--").replace("_", "-")) if flag.startswith("--") and flag not in known else None
        if row is None or (row["option"] if row["option"] == MODEL else f"--{row['option']}") not in known:
            ours.append(word)
            continue
        if not row["value"] or "{}" in row["value"]:
            given = value if has_value else next(waiting, None)
            if given is None:
                ours.append(word)
                continue
            read = _read(row, given)
        else:
            read = [f"--{row['option']}", row["value"]]
        ours += read
        said.append((flag, " ".join(read[:1] if len(read) > 1 and not row["value"] else read) if row["option"] != MODEL else MODEL))
    return ours, said


def _read(row: Mapping[str, str], given: str) -> list[str]:
    if row["option"] == MODEL:
        return [given]
    option = row["otherwise"] if row["otherwise"] and not given.isdigit() else row["option"]
    return [f"--{option}", row["value"].format(given) if row["value"] else given]
