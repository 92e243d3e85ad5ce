"""The records of runs that are kept: list, show, delete, merge, send to a team's server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rightfit.cli.declared import argument, option
from rightfit.cli.output import Answer, View, emit, listing, note
from rightfit.errors import InputError
from rightfit.explain.messages import say
from rightfit.explain.tables import Table
from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.measure.record import Run

Store = Annotated[Path | None, option("--store", help="File of the store (default: RIGHTFIT_RUNS, else the user's own).", metavar="FILE")]


def list_(store: Store = None, *, view: View) -> None:
    """The records of runs that are kept, newest first.

    Example: rightfit runs list
    """
    from rightfit.explain.run_text import LIST_COLUMNS, list_records
    from rightfit.measure.store import RunStore

    found = RunStore(store).all()
    if not found and not view.is_machine:
        note(say("measure.none", view.lang), view)
        return
    listing(list_records(found), Table(LIST_COLUMNS, []), view)


def show(
    run: Annotated[str, argument(help="Id of a record (or how it begins), or a file with one.", metavar="RUN", show_default=False)],
    store: Store = None,
    *,
    view: View,
) -> None:
    """One record: what ran, where, and every figure with its definition.

    Example: rightfit runs show run.json
    """
    draw([one(run, store)], view)


def delete(
    run: Annotated[list[str], argument(help="Ids of records.", metavar="RUN", show_default=False)], store: Store = None, *, view: View
) -> None:
    """Forget records that are kept, by their ids.

    Example: rightfit runs delete 1f2e3d
    """
    from rightfit.measure.store import RunStore

    kept = RunStore(store)
    count = kept.delete([kept.get(id_).id for id_ in run])
    note(say("measure.deleted", view.lang, count=count, path=kept.path), view)


def merge(
    run: Annotated[list[str], argument(help="Ids or files of records of one run.", metavar="RUN", show_default=False)],
    out: Annotated[Path | None, option("--out", "-o", help="Write the record here.", metavar="RUN.json")] = None,
    store: Store = None,
    *,
    view: View,
) -> None:
    """One record of what several programs saw of the same run.

    Example: rightfit runs merge trainer.json gpu.json --out run.json
    """
    from rightfit.measure.record import merged
    from rightfit.measure.store import RunStore

    if len(run) < 2:
        raise InputError(Message("cli.merge_one"), field="run")
    whole = merged([one(name, store) for name in run])
    if out is None:
        RunStore(store).save([whole])
    hand_over([whole], out, view)


def send(
    address: Annotated[str, argument(help="Address of the rightfit serve that keeps them.", metavar="URL", show_default=False)],
    run: Annotated[list[str], argument(help="Ids or files of records.", metavar="RUN", show_default=False)],
    store: Store = None,
    *,
    view: View,
) -> None:
    """Send records to the server of a team, where --runs URL finds them; its key is read from RIGHTFIT_TOKEN.

    Example: rightfit runs send https://rightfit.example.com run.json
    """
    from rightfit.measure import team

    if not team.is_address(address):
        raise InputError(Message("cli.send_address", address=address), field="address")
    runs = [one(name, store) for name in run]
    note(say("measure.sent", view.lang, new=team.send(address, runs), count=len(runs), path=address), view)


def one(name: str, store: Path | None) -> Run:
    """A record by its file, or by its id in the store."""
    from rightfit.measure.places import is_there
    from rightfit.measure.record import read_runs
    from rightfit.measure.store import RunStore

    if is_there(name):
        found = read_runs(name)
        if len(found) != 1:
            raise InputError(Message("cli.several_records", path=name, count=len(found)), field="run")
        return found[0]
    return RunStore(store).get(name)


def hand_over(runs: list[Run], out: Path | None, view: View) -> None:
    """Show records, and write them where asked."""
    from rightfit.measure.files import write_whole
    from rightfit.measure.record import written

    if out is not None:
        write_whole(out, written(runs))
        note(say("measure.wrote", view.lang, count=len(runs), path=out), view)
    draw(runs, view)


def draw(runs: list[Run], view: View) -> None:
    """Records as text and tables, or as JSON."""
    from rightfit.explain.run_text import figure_record, figure_table, run_lines
    from rightfit.measure.record import document

    documents = [document(run) for run in runs]
    parts: list[str | Table] = []
    for run in runs:
        parts += ["\n".join(run_lines(run, view.lang)), *([figure_table([run], view.lang)] if run.measured else [])]
    records = [{"run": run.id, **figure_record(item, view.lang)} for run in runs for item in run.measured]
    emit(Answer(documents[0] if len(documents) == 1 else documents, records, parts), view)
