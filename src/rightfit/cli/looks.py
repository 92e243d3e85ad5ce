"""The classes of click that the command line is made of: plain ones, and those that draw their help in panels, which take a tenth of a second to load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rightfit.cli.languages import help_text
from rightfit.records import dataclass


class _InOrder(click.Group):
    """A group whose commands help shows in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class _Argument(click.Argument):
    """An argument that help says something of, also before click 8.5."""

    def __init__(self, names: Sequence[str], *, help: str, **values: Any) -> None:  # noqa: A002 the names of click
        super().__init__(names, **values)
        self.help: str | None = help


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


PLAIN = Looks(_InOrder, click.Command, click.Option, _Argument, {}, has_panels=False)


def looks(*, is_help: bool) -> Looks:
    """Those for a command line that asks for help, or for one that does not."""
    if not is_help:
        return PLAIN
    import rich_click

    arguments, options = help_text("group", "Arguments", "Arguments"), help_text("group", "Options", "Options")

    class Group(_Helpful, _InOrder, rich_click.RichGroup):  # type: ignore[misc]
        """Panels of commands in their order."""

    class Command(_Helpful, rich_click.RichCommand):
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
