"""Write the files that start a plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import click

from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, note
from rightfit.errors import InputError
from rightfit.explain.labels import label
from rightfit.explain.tables import Column, Table
from rightfit.messages import Message

_COLUMNS = (Column("target"), Column("group"), Column("summary", flexible=True), Column("checked_by", flexible=True, drop=1))
_FILES = (Column("path"), Column("bytes", right=True))


def export(
    plan: Annotated[
        Path | None, argument(help="A plan: rightfit plan ... --format json > plan.json", metavar="PLAN.json", show_default=False)
    ] = None,
    to: Annotated[str, option("--to", help="Target, or all; without it the targets are listed.", metavar="TARGET")] = "",
    option: Annotated[int, option("--option", help="Rank of the option to start.", metavar="K")] = 1,
    out: Annotated[Path | None, option("--out", "-o", help="Folder to write to; without it the files are printed.", metavar="DIR")] = None,
    *,
    force: Annotated[bool, option("--force", help="Overwrite files in a folder that is not empty.")] = False,
    name: Annotated[str, option("--name", help="Name of the job's resources.", metavar="NAME")] = "rightfit-job",
    ssh_cidr: Annotated[
        str, option("--ssh-cidr", help="Address range that may reach the servers, e.g. 203.0.113.7/32.", metavar="CIDR")
    ] = "",
    bucket: Annotated[str, option("--bucket", help="Where checkpoints go, e.g. s3://my-bucket/runs.", metavar="ADDRESS")] = "",
    data_path: Annotated[str, option("--data-path", help="The data set as the job sees it.", metavar="PATH", show_default=False)] = "",
    stop_after: Annotated[float, option("--stop-after", help="Hours after which servers stop themselves.", metavar="HOURS")] = 0.0,
    queue: Annotated[str, option("--queue", help="Queue of a cluster: kueue/NAME or volcano/NAME.", metavar="QUEUE")] = "",
    revision: Annotated[str, option("--revision", help="Commit of the model's repository on the hub.", metavar="COMMIT")] = "",
    view: View,
) -> None:
    """Write the files that start a plan: SkyPilot, Terraform, Kubernetes, training and serving commands, monitoring.

    Example: rightfit export plan.json --to skypilot --out job
    """
    from rightfit import export as exports
    from rightfit.export.fleets import files_of_fleet, read_document

    if not to:
        rows = [
            {"target": found.name, "group": found.group, "summary": found.summary, "checked_by": found.checked_by}
            for found in exports.all_targets().values()
        ]
        emit(Answer(rows, rows, [Table(_COLUMNS, rows)]), view)
        return
    if plan is None:
        raise InputError(Message("cli.export_no_plan"), field="plan")
    fleet = read_document(plan)
    if fleet is not None:
        _put(files_of_fleet(fleet, to), out, force=force, view=view)
        return
    settings = exports.ExportSettings(
        name=name, ssh_cidr=ssh_cidr, bucket=bucket, data_path=data_path, stop_after_h=stop_after, queue=queue, revision=revision
    )
    _put(exports.files_of(exports.job_of(exports.read_plan(plan), rank=option, settings=settings), to), out, force=force, view=view)


def _put(files: Mapping[str, str], out: Path | None, *, force: bool, view: View) -> None:
    """Files to the screen, or into a folder."""
    from rightfit import export as exports

    if out is None:
        for path, text in files.items():
            click.echo(f"# ==> {path}\n{text}" if len(files) > 1 else text, nl=False)
        return
    written = exports.write_files(files, out, force=force)
    listed = [{"path": str(path), "bytes": path.stat().st_size} for path in written]
    note(label("status", "exported", view.lang, files=len(listed), path=out), view)
    emit(Answer(listed, listed, [Table(_FILES, listed)]), view)
