"""The main job and its two companions: plan, estimate, why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rightfit.cli.market import open_market
from rightfit.cli.output import View, emit, note
from rightfit.errors import ContradictionError, InputError
from rightfit.explain.labels import label

if TYPE_CHECKING:
    from rightfit.workload.model import Workload

_ALL_OPTIONS = 10_000
Model = Annotated[
    str | None,
    typer.Argument(help="Hub id, alias, size such as 7B, dimensions, or a path to config.json.", metavar="MODEL", show_default=False),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", help="Read the workload from a YAML, TOML or JSON file (- is standard input); options given here win.", metavar="FILE"
    ),
]
Save = Annotated[Path | None, typer.Option("--save", help="Write the workload to this YAML, TOML or JSON file as well.", metavar="FILE")]
Ask = Annotated[
    str | None, typer.Option("--ask", help="The wish in plain words, English or Chinese; options given beside it win.", metavar="TEXT")
]
On = Annotated[str | None, typer.Option("--on", help="The server, e.g. aws/p4d.24xlarge.", metavar="PROVIDER/INSTANCE", show_default=False)]
Nodes = Annotated[int, typer.Option("--nodes", help="How many of them.", metavar="N")]
Engine = Annotated[str, typer.Option("--engine", help="analytic, or traced (memory only; needs the extra trace).", metavar="WORD")]
Simulate = Annotated[
    bool,
    typer.Option(
        "--simulate", help="Services of language models: simulate the shown options, and print those percentiles beside the analytic ones."
    ),
]
Own = Annotated[bool, typer.Option("--own", help="Compare buying the best option's hardware with renting it.")]
Server = Annotated[str, typer.Argument(help="The server, e.g. aws/g5.xlarge.", metavar="PROVIDER/INSTANCE", show_default=False)]


def plan(
    model: Model = None,
    file: File = None,
    save: Save = None,
    simulate: Simulate = False,
    own_: Own = False,
    ask: Ask = None,
    *,
    view: View,
    wishes: dict[str, Any],
) -> int:
    """Rank servers for a workload.

    Examples:

    rightfit plan meta-llama/Meta-Llama-3-8B --task finetune --method qlora --data 50Mtok

    rightfit plan 7B --method lora --data 10万条 --deadline 24h --budget 500元 --cloud 阿里云

    rightfit plan --file workload.yaml --format json

    rightfit plan --ask "fine-tune Llama-3-8B with LoRA on 50k samples within 2 days, under $200"
    """
    if ask:
        from rightfit.cli.asking import in_words_of

        view = in_words_of(ask, view)
    workload = _workload(*_said(model, file, wishes, ask=ask, view=view))
    if save is not None:
        note(label("status", "saved", view.lang, path=workload.save(save)), view)
    from rightfit import api
    from rightfit.cli.plan_view import plan_answer

    catalog = open_market(view)
    found = api.plan(workload, catalog=catalog, top=_num_options(view), simulate=simulate)
    if own_:
        from rightfit.cli.commands.own import with_own

        found = with_own(found, catalog)
    answer = plan_answer(found, view, catalog=catalog)
    if own_:
        from rightfit.cli.commands.own import with_own_parts

        answer = with_own_parts(answer, found, view)
    emit(answer, view)
    return 0 if found.best else 1


def estimate(
    model: Model = None,
    on: On = None,
    nodes: Nodes = 1,
    engine: Engine = "analytic",
    file: File = None,
    *,
    view: View,
    wishes: dict[str, Any],
) -> int:
    """What a workload does on one given server: memory, time, cost. No search.

    Example: rightfit estimate 7B --on aws/p4d.24xlarge --method full --data 50Mtok

    --engine traced runs one step of the real PyTorch module on fake tensors, without a GPU, for memory alone; MODEL may then be module:function.
    """
    if engine != "analytic":
        from rightfit.cli import traced_view

        traced_view.check_engine(engine)
        emit(traced_view.trace(_workload(model, file, wishes), on=on, nodes=nodes, view=view), view)
        return 0
    if not on:
        raise InputError("on: which server? give --on PROVIDER/INSTANCE, for example --on aws/p4d.24xlarge", field="on")
    workload = _workload(model, file, wishes)
    from rightfit import api
    from rightfit.cli.plan_view import estimate_answer

    catalog = open_market(view)
    found = api.estimate(workload, on=on, nodes=nodes, catalog=catalog)
    emit(estimate_answer(found, view, catalog=catalog), view)
    return 0 if found.best else 1


def why(server: Server, model: Model = None, file: File = None, *, view: View, wishes: dict[str, Any]) -> int:
    """Why this server was or was not chosen, and the least change that would alter it.

    Example: rightfit why aws/g5.xlarge 7B --method qlora --data 50Mtok
    """
    workload = _workload(model, file, wishes)
    from rightfit import api
    from rightfit.cli.plan_view import verdict_answer

    emit(verdict_answer(api.why(server, workload, catalog=open_market(view)), view), view)
    return 0


def _said(
    model: str | None, file: Path | None, wishes: dict[str, Any], *, ask: str | None, view: View
) -> tuple[str | None, Path | None, dict[str, Any]]:
    """What was asked for: by options, in plain words, or in answer to questions when nothing was said at a terminal."""
    nothing = model is None and file is None and not any(value is not None for value in wishes.values())
    if ask is None and not (nothing and sys.stdin.isatty() and sys.stderr.isatty()):
        return model, file, wishes
    if ask is not None and file is not None:
        raise ContradictionError("ask: give a sentence or a file, not both", field="ask")
    from rightfit.cli import asking

    if ask is not None:
        found = asking.wishes_of(ask, {"model": model, **wishes}, view)
    else:
        found = asking.interview(view, ask=lambda question: str(typer.prompt(question, default="", show_default=False, err=True)))
    return found.pop("model", None), None, found


def _num_options(view: View) -> int:
    """How many options to rank: a few for people, more for programs; --top 0 asks for as many as there are."""
    if view.top is not None:
        return view.top or _ALL_OPTIONS
    return 10 if view.is_machine else 5


def _workload(model: str | None, file: Path | None, wishes: dict[str, Any]) -> Workload:
    from rightfit.workload.model import Workload

    given = {"model": model, **wishes} if model is not None else wishes
    return Workload.from_file(file, **given) if file is not None else Workload(**given)
