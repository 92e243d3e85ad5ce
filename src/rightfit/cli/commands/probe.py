"""Measure a command while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rightfit.cli.declared import argument, option
from rightfit.cli.output import View, note
from rightfit.errors import InputError
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.measure.record import Run
    from rightfit.measure.watching.judging import Expected
    from rightfit.running import Asked


def probe(
    cmd: Annotated[list[str] | None, argument(help="Command to run, after --.", metavar="-- CMD", show_default=False)] = None,
    given: Annotated[list[str] | None, option("--set", help="Setup value, e.g. model=7B; repeatable.", metavar="NAME=VALUE")] = None,
    out: Annotated[Path | None, option("--out", "-o", help="Output file for the records.", metavar="RUN.json")] = None,
    *,
    file: Annotated[Path | None, option("--file", help="Workload of the command: model, method, length.", metavar="FILE")] = None,
    log: Annotated[
        Path | None,
        option("--log", help="Log file of the command, used for progress if steps cannot be counted.", metavar="FILE"),
    ] = None,
    deep: Annotated[
        bool, option("--deep", help="Profile three steps with the PyTorch profiler, and save a memory snapshot on out-of-memory errors.")
    ] = False,
    stop_when_stable: Annotated[bool, option("--stop-when-stable", help="Stop the command when its step time stabilizes.")] = False,
    keep: Annotated[bool, option("--keep", help="Save the records to the store.")] = False,
    url: Annotated[str | None, option("--url", help="Load-test this OpenAI-compatible endpoint.", metavar="URL")] = None,
    input_tokens: Annotated[int | None, option("--input-tokens", help="Input tokens per request.", metavar="N", min=1)] = None,
    output_tokens: Annotated[int | None, option("--output-tokens", help="Output tokens per request.", metavar="N", min=2)] = None,
    ttft: Annotated[str | None, option("--ttft", help="TTFT target, e.g. 300ms.", metavar="DURATION")] = None,
    tpot: Annotated[str | None, option("--tpot", help="TPOT target, e.g. 30ms.", metavar="DURATION")] = None,
    percentile: Annotated[int | None, option("--percentile", help="Percentile for the targets: 50|90|95|99.", metavar="N")] = None,
    plan: Annotated[Path | None, option("--plan", help="Plan of the command or service.", metavar="PLAN.json")] = None,
    option: Annotated[int, option("--option", help="Rank of the plan option.", metavar="N", min=1)] = 1,
    usd_per_hour: Annotated[
        float | None, option("--usd-per-hour", help="Hourly price of all servers behind the URL.", metavar="USD", min=0.0)
    ] = None,
    model: Annotated[str | None, option("--model", help="Model name, if the URL serves several.", metavar="NAME")] = None,
    key_env: Annotated[str | None, option("--key-env", help="Environment variable with the API key.", metavar="NAME")] = None,
    requests: Annotated[int | None, option("--requests", help="Minimum requests per load level.", metavar="N", min=10)] = None,
    level_time: Annotated[str | None, option("--level-time", help="Minimum time per load level.", metavar="DURATION")] = None,
    time: Annotated[str | None, option("--time", help="Total test time.", metavar="DURATION")] = None,
    view: View,
) -> int:
    """Run and measure a command without code changes, or load-test an endpoint.

    Examples:

    rightfit probe --set model=7B --out run.json -- python train.py

    rightfit probe --plan plan.json --stop-when-stable --out run.json -- python train.py

    rightfit probe --url http://127.0.0.1:8000 --input-tokens 512 --output-tokens 128
    --ttft 300ms --tpot 30ms

    The command's output and exit code stay what they are; what was measured is printed
    on standard error.
    """
    from rightfit.cli.commands.runs import setup_of
    from rightfit.running import Asked

    asked = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "ttft": ttft,
        "tpot": tpot,
        "percentile": percentile,
        "plan": plan,
        "option": option,
        "usd_per_hour": usd_per_hour,
        "model": model,
        "key_env": key_env,
        "requests": requests,
        "level_time": level_time,
        "time": time,
    }
    if url is not None:
        wrong = cmd or stop_when_stable or deep or file or log
        if wrong:
            raise InputError(Message("cli.url_alone"), field="url")
        return load_test(url, asked, setup=setup_of(given or []), out=out, keep=keep, view=view)
    stray = [name for name, value in asked.items() if value is not None and name not in ("plan", "option")]
    if stray:
        raise InputError(Message("cli.load_test_option", option=f"--{stray[0].replace('_', '-')}"), field=stray[0])
    snapshot = out.with_suffix(".memory") if deep and out is not None else None
    told = Asked(setup_of(given or []), plan, option, file, log, snapshot, deep=deep, stop_when_stable=stop_when_stable)
    return _command(cmd or [], told, out=out, keep=keep, view=view)


def _command(cmd: list[str], asked: Asked, *, out: Path | None, keep: bool, view: View) -> int:
    """Run the command, hand over its record, and show predictions beside what was measured."""
    from rightfit.cli.commands.runs import hand_over
    from rightfit.running import probed

    run, expected = probed(cmd, asked)
    hand_over([run], out, view, keep=keep, drawn=lambda: _show(run, expected if run.server or not expected else None, view))
    return run.exit_code or 0


def _show(run: Run, expected: Expected | None, view: View) -> None:
    from rightfit.cli.output import output_width, render
    from rightfit.explain.run_text import beside_table, explanation_lines, figure_table, profile_lines, run_lines
    from rightfit.measure.own_runs import beside, explanations
    from rightfit.proof.predict import predict

    if view.quiet:
        return
    width = output_width()
    parts = ["\n".join(run_lines(run, view.lang)), render(figure_table([run], view.lang), lang=view.lang, width=width)]
    pairs = beside(run, predict, expected)
    if pairs:
        parts.append(render(beside_table(pairs, view.lang), lang=view.lang, width=width))
    found = [line for one in pairs for line in explanation_lines(one, explanations(run, one, predict), view.lang)]
    parts += ["\n".join(found)] if found else []
    parts += ["\n".join(profile_lines(run, view.lang))] if run.profile else []
    note("\n\n".join(parts), view)


def load_test(url: str, asked: dict[str, Any], *, setup: dict[str, str], out: Path | None, keep: bool, view: View) -> int:
    """Trial the endpoint, say what it bears, hand over the record."""
    from rightfit.cli.commands.runs import hand_over
    from rightfit.explain.run_text import load_lines
    from rightfit.running import load_tested

    run, found, test, usd = load_tested(url, asked, setup=setup)
    note("\n".join(load_lines(found, test, usd, view.lang)), view)
    hand_over([run], out, view, keep=keep)
    return 0
