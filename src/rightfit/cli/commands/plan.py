"""The main job and its two companions: plan, estimate, why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rightfit.cli.output import View
from rightfit.errors import UnavailableError

Model = Annotated[
    str | None,
    typer.Argument(help="Hub id, alias, size such as 7B, dimensions, or a path to config.json.", metavar="MODEL", show_default=False),
]
File = Annotated[
    Path | None, typer.Option("--file", help="Read the workload from a YAML, TOML or JSON file; options given here win.", metavar="FILE")
]


def plan(
    model: Model = None,
    file: File = None,
    ask: Annotated[str | None, typer.Option("--ask", help="The wish in plain words.", metavar="TEXT", hidden=True)] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the workload to this file as well.", metavar="FILE")] = None,
    *,
    view: View,
    wishes: dict[str, Any],
) -> None:
    """Rank servers for a workload.

    Examples:

    rightfit plan meta-llama/Meta-Llama-3-8B --task finetune --method qlora --data 50Mtok

    rightfit plan 7B --method lora --data 10万条 --deadline 24h --budget 500元 --cloud 阿里云
    """
    raise UnavailableError("rightfit plan is not in this version")


def estimate(
    model: Model = None,
    on: Annotated[str, typer.Option("--on", help="The server.", metavar="PROVIDER/INSTANCE")] = "",
    nodes: Annotated[int, typer.Option("--nodes", help="How many of them.", min=1, max=64)] = 1,
    file: File = None,
    *,
    view: View,
    wishes: dict[str, Any],
) -> None:
    """What a workload does on one given server.

    Example: rightfit estimate 7B --on aws/p4d.24xlarge --method full
    """
    raise UnavailableError("rightfit estimate is not in this version")


def why(
    server: Annotated[str, typer.Argument(help="The server.", metavar="PROVIDER/INSTANCE", show_default=False)],
    model: Model = None,
    file: File = None,
    *,
    view: View,
    wishes: dict[str, Any],
) -> None:
    """Why this server was or was not chosen, and the least change that would alter it.

    Example: rightfit why aws/g5.xlarge 7B --method qlora --data 50Mtok
    """
    raise UnavailableError("rightfit why is not in this version")
