"""Write the files that start a plan."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, note
from rightfit.errors import InputError
from rightfit.explain.messages import label
from rightfit.explain.quantities import Column, Table, counted
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.exports.job import Job
    from rightfit.exports.launching import Launch


_COLUMNS = (Column("target"), Column("group"), Column("summary", flexible=True), Column("checked_by", flexible=True, drop=1))
_FILES = (Column("path"), Column("bytes", right=True))


def export(
    plan: Annotated[
        Path | None, argument(help="A plan: rightfit plan ... --format json > plan.json", metavar="PLAN.json", show_default=False)
    ] = None,
    to: Annotated[str, option("--to", help="Export target, or all; omit it to list targets.", metavar="TARGET")] = "",
    option: Annotated[int, option("--option", help="Rank of the option to launch.", metavar="K")] = 1,
    out: Annotated[Path | None, option("--out", "-o", help="Output folder; omit it to print the files.", metavar="DIR")] = None,
    *,
    force: Annotated[bool, option("--force", help="Overwrite files in a folder that is not empty.")] = False,
    name: Annotated[str, option("--name", help="Name of the job's resources; default: model and plan id.", metavar="NAME")] = "",
    ssh_cidr: Annotated[
        str, option("--ssh-cidr", help="CIDR range allowed to reach the servers, e.g. 203.0.113.7/32.", metavar="CIDR")
    ] = "",
    bucket: Annotated[str, option("--bucket", help="Where checkpoints go, e.g. s3://my-bucket/runs.", metavar="ADDRESS")] = "",
    data_path: Annotated[str, option("--data-path", help="Path of the data set in the job.", metavar="PATH", show_default=False)] = "",
    stop_after: Annotated[
        float, option("--stop-after", help="Shut servers down automatically after this many hours.", metavar="HOURS")
    ] = 0.0,
    queue: Annotated[str, option("--queue", help="Cluster queue: kueue/NAME or volcano/NAME.", metavar="QUEUE")] = "",
    revision: Annotated[str, option("--revision", help="Revision (commit) of the model repository.", metavar="COMMIT")] = "",
    given: Annotated[
        list[str] | None,
        option("--set", help="Variable required by the launcher, e.g. TF_VAR_image_id=m-1; repeatable.", metavar="NAME=VALUE"),
    ] = None,
    data_columns: Annotated[
        str,
        option("--data-columns", help="Map column names to your data: prompt=question,completion=answer.", metavar="NAME=THEIRS,..."),
    ] = "",
    then: Annotated[
        str, option("--then", help="Next step after the run: serve also exports a service for the trained model.", metavar="STEP")
    ] = "",
    limits: Annotated[
        str,
        option("--limits", help="Override the plan's serving limits: max-model-len=8192,max-num-seqs=64.", metavar="NAME=N,..."),
    ] = "",
    view: View,
) -> None:
    """Write the files that start a plan: SkyPilot, Terraform, Kubernetes, training and serving
    commands, monitoring.

    Example: rightfit export plan.json --to skypilot --out job
    """
    from rightfit import exports
    from rightfit.exports.bundle import start_of
    from rightfit.exports.fleets import files_of_fleet, read_document
    from rightfit.exports.registry import ALL
    from rightfit.exports.stack import stack_problem

    if not to:
        rows = [
            {"target": found.name, "group": found.group, "summary": found.summary, "checked_by": found.checked_by}
            for found in exports.all_targets().values()
        ]
        emit(Answer(rows, rows, [Table(_COLUMNS, rows)]), view)
        return
    if plan is None:
        raise InputError(Message("cli.export_no_plan"), field="plan")
    settings = exports.ExportSettings(
        name=name,
        ssh_cidr=ssh_cidr,
        bucket=bucket,
        data_path=data_path,
        stop_after_h=stop_after,
        queue=queue,
        revision=revision,
        columns=data_columns,
        then=then,
        limits=limits,
        given=tuple((word.partition("=")[0], word.partition("=")[2]) for word in given or ()),
    )
    fleet = read_document(plan)
    if fleet is not None:
        from rightfit.fleets.planning import with_plans

        _put(files_of_fleet(with_plans(fleet), to, settings), out, force=force, view=view)
        return
    job = exports.job_of(exports.read_plan(plan), rank=option, settings=settings)
    files = exports.files_of(job, to)
    _put(files, out, force=force, view=view)
    if out is not None and (command := start_of(job, to.strip().casefold(), files, str(plan))):
        note(label("status", "export_next", view.lang, command=command, plan=plan), view)
    if to.strip().casefold() == ALL and (problem := stack_problem(job)):
        raise InputError(Message("export.nothing_starts", problem=problem), field="to")


def _put(files: Mapping[str, str], out: Path | None, *, force: bool, view: View) -> None:
    """Files to the screen, or into a folder."""
    from rightfit import exports

    if out is None:
        for path, text in files.items():
            click.echo(f"# ==> {path}\n{text}" if len(files) > 1 else text, nl=False)
        return
    written = exports.write_files(files, out, force=force)
    listed = [{"path": str(path), "bytes": path.stat().st_size} for path in written]
    note(label("status", "exported", view.lang, files=counted("file", len(listed), view.lang), path=out), view)
    emit(Answer(listed, listed, [Table(_FILES, listed)]), view)


# ---- Start a plan through SkyPilot or Terraform, after showing what it costs and asking.


def launch(
    plan: Annotated[Path, argument(help="A plan: rightfit plan ... --format json > plan.json", metavar="PLAN.json", show_default=False)],
    tool: Annotated[str, option("--with", help="Launcher: skypilot or terraform.", metavar="TOOL")] = "skypilot",
    option: Annotated[int, option("--option", help="Rank of the option to launch.", metavar="K")] = 1,
    *,
    trial: Annotated[
        bool, option("--trial", help="Run under rightfit probe until step time stabilizes, then shut the server down.")
    ] = False,
    dry_run: Annotated[bool, option("--dry-run", help="Dry run: nothing is rented.")] = False,
    yes: Annotated[bool, option("--yes", "-y", help="Start without asking.")] = False,
    out: Annotated[Path | None, option("--out", "-o", help="Folder for the exported files and launcher state.", metavar="DIR")] = None,
    name: Annotated[str, option("--name", help="Name of the job's resources; default: model and plan id.", metavar="NAME")] = "",
    ssh_cidr: Annotated[
        str, option("--ssh-cidr", help="CIDR range allowed to reach the servers, e.g. 203.0.113.7/32.", metavar="CIDR")
    ] = "",
    bucket: Annotated[str, option("--bucket", help="Where checkpoints go, e.g. s3://my-bucket/runs.", metavar="ADDRESS")] = "",
    data_path: Annotated[str, option("--data-path", help="Path of the data set in the job.", metavar="PATH", show_default=False)] = "",
    stop_after: Annotated[
        float, option("--stop-after", help="Shut servers down automatically after this many hours.", metavar="HOURS")
    ] = 0.0,
    view: View,
) -> None:
    """Launch a plan with SkyPilot or Terraform: show its cost, confirm, and run the launcher on
    the exported files.

    Examples:

    rightfit launch plan.json --dry-run

    rightfit launch plan.json --trial --bucket s3://my-bucket/trial
    """
    from rightfit import exports
    from rightfit.exports import launching

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
    from rightfit.exports.launching import money_at_risk
    from rightfit.exports.quoting import shell

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
