"""Start a plan through SkyPilot or Terraform, after showing what it costs and asking."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from rightfit.cli.declared import argument, option
from rightfit.cli.output import View, note
from rightfit.errors import InputError
from rightfit.explain.labels import label
from rightfit.messages import Message

if TYPE_CHECKING:  # imported where the command runs
    from rightfit.export.job import Job
    from rightfit.export.launching import Launch


def launch(
    plan: Annotated[Path, argument(help="A plan: rightfit plan ... --format json > plan.json", metavar="PLAN.json", show_default=False)],
    tool: Annotated[str, option("--with", help="Program that starts it: skypilot or terraform.", metavar="TOOL")] = "skypilot",
    option: Annotated[int, option("--option", help="Rank of the option to start.", metavar="K")] = 1,
    *,
    trial: Annotated[
        bool, option("--trial", help="Run under rightfit probe until the step time has settled, then take the server down.")
    ] = False,
    dry_run: Annotated[bool, option("--dry-run", help="The program's own trial run: nothing is rented.")] = False,
    yes: Annotated[bool, option("--yes", "-y", help="Start without asking.")] = False,
    out: Annotated[Path | None, option("--out", "-o", help="Folder that keeps the files and the program's state.", metavar="DIR")] = None,
    name: Annotated[str, option("--name", help="Name of the job's resources.", metavar="NAME")] = "rightfit-job",
    ssh_cidr: Annotated[
        str, option("--ssh-cidr", help="Address range that may reach the servers, e.g. 203.0.113.7/32.", metavar="CIDR")
    ] = "",
    bucket: Annotated[str, option("--bucket", help="Where checkpoints go, e.g. s3://my-bucket/runs.", metavar="ADDRESS")] = "",
    data_path: Annotated[str, option("--data-path", help="The data set as the job sees it.", metavar="PATH", show_default=False)] = "",
    stop_after: Annotated[float, option("--stop-after", help="Hours after which servers stop themselves.", metavar="HOURS")] = 0.0,
    view: View,
) -> None:
    """Start a plan through SkyPilot or Terraform: shows the cost, asks, and runs that program on the exported files.

    Examples:

    rightfit launch plan.json --dry-run

    rightfit launch plan.json --trial --bucket s3://my-bucket/trial
    """
    from rightfit import export as exports
    from rightfit.export import launching

    settings = exports.ExportSettings(
        name=name, ssh_cidr=ssh_cidr, bucket=bucket, data_path=data_path, stop_after_h=stop_after, trial=trial
    )
    job = exports.job_of(exports.read_plan(plan), rank=option, settings=settings)
    found = launching.launch_of(job, tool=tool, dry_run=dry_run)
    launching.check_program(found)
    _show(job, found, view)
    if dry_run:
        launching.start(found, folder=out)
        note(label("launch", "tried", view.lang), view)
        return
    if not yes and not _agreed(view):
        click.echo(label("launch", "nothing", view.lang))
        return
    folder = out or Path(f"{name}-{job.plan_id}")
    launching.start(found, folder=folder)
    note(label("launch", "started", view.lang, path=folder), view)


def _show(job: Job, launch: Launch, view: View) -> None:
    """What is rented, what it costs, and what will be run."""
    from rightfit.export.launching import money_at_risk
    from rightfit.export.quoting import shell

    option, money = job.option, money_at_risk(job)
    cards = f" ({job.gpus_per_node} x {job.accelerator})" if job.gpus_per_node else ""
    server = f"{option.nodes} x {option.provider} {option.instance_type}{cards}, {option.region}, {option.purchase}"
    kind = "service" if job.is_service else "run"
    lines = [
        label("launch", "what", view.lang, model=job.model, task=job.task, server=server, plan=job.plan_id),
        label(
            "launch",
            kind,
            view.lang,
            hourly=f"${money['hourly_usd']:,.2f}",
            whole=f"${money['whole_usd']:,.2f}",
            most=f"${money['most_usd']:,.2f}",
        ),
    ]
    if job.stop_after_h:
        lines.append(label("launch", "stops", view.lang, hours=f"{job.stop_after_h:g}"))
    lines += [label("launch", "runs", view.lang, command=shell(command)) for command in launch.commands]
    click.echo("\n".join(lines))


def _agreed(view: View) -> bool:
    """The user's answer; where nobody can answer, --yes must have been given."""
    if not sys.stdin.isatty():
        raise InputError(Message("cli.launch_unanswered"), field="yes")
    return click.confirm(label("launch", "question", view.lang))
