"""Find out what an item is and make run records of it. Two readers that both claim an item are a
question to the user, never a guess."""

from __future__ import annotations

import struct
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from rightfit.errors import AmbiguousNameError, FileInputError, InputError, NetworkError, RightfitError, UnknownNameError
from rightfit.facts.tables import nearest
from rightfit.measure.readers import prometheus, training_text
from rightfit.measure.readers.item import MOST_BYTES, Definitions, Item, Reader
from rightfit.measure.record import Run, good_runs, is_record, is_there, items_of, left_out, metrics, sealed
from rightfit.messages import Message, cause

_TIMEOUT_S = 30
#: What reading a file raises that is cut short, damaged or made to do harm.
_DAMAGED = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError, struct.error)


@cache
def readers() -> tuple[Reader, ...]:
    """Every reader."""
    from rightfit.measure.readers import load_tests, machine_logs, prometheus, trackers, training_text

    own = Reader("run-record", lambda item: is_record(item.json), lambda item, _: good_runs(items_of(item.json), item.shown), special=3)
    return (own, *load_tests.READERS, *trackers.READERS, *prometheus.READERS, *machine_logs.READERS, *training_text.READERS)


def reader_of(item: Item, kind: str = "") -> Reader:
    """The reader of an item: the kind asked for, or the most special one that detects it. Raises
    UnknownNameError, AmbiguousNameError, FileInputError."""
    if kind:
        found = [reader for reader in readers() if reader.kind == kind]
        if not found:
            names = [reader.kind for reader in readers()]
            raise UnknownNameError(
                "kind of result",
                kind,
                nearest=nearest(kind, names),
                allowed=Message("names.known_words", names=", ".join(names)),
                field="as",
            )
        return found[0]
    claims = [reader for reader in readers() if _detects(reader, item)]
    best = [reader for reader in claims if reader.special == max(claim.special for claim in claims)]
    if not best and training_text.is_table_of_runs(item):
        raise FileInputError(Message("measure.own_columns", file=item.shown, names=", ".join(metrics())))
    if not best:
        raise FileInputError(Message("measure.unknown_result", file=item.shown, kinds=", ".join(reader.kind for reader in readers())))
    if len(best) > 1:
        raise AmbiguousNameError("result", item.shown, [f"--as {reader.kind}" for reader in best])
    return best[0]


def ingest(path: str | Path, kind: str = "", definitions: Definitions | None = None) -> list[Run]:
    """Run records of a file, a folder or an address: an exporter's page, an answer of an API, or a
    Prometheus itself. Of a folder that is no result itself, of every result in it. Raises
    FileInputError, NetworkError."""
    text = str(path)
    definitions = definitions or Definitions()
    if text.startswith(("http://", "https://")):
        if kind == prometheus.KIND or (not kind and prometheus.is_server(text)):
            return [_with_setup(run, definitions) for run in prometheus.runs_of_server(text, definitions)]
        return [_with_setup(run, definitions) for run in _fetched(text, kind, definitions)]
    place = Path(path)
    if not is_there(place):
        raise FileInputError(Message("measure.no_file_or_folder", word=text))
    return [_with_setup(run, definitions) for run in _read(Item(place, text), kind, definitions)]


#: What is said of a file that holds no records of ours.
_NO_RECORDS = ("measure.not_json", "measure.not_a_run_record", "measure.holds_no_run_record")


def measured_runs(place: str | Path) -> list[Run]:
    """Records of a file as `resize` takes it, or what `ingest` reads of a log or a table."""
    from rightfit.measure.store import runs_at

    try:
        return runs_at(place)
    except FileInputError as error:
        if not is_there(place) or error.key not in _NO_RECORDS:
            raise
        try:
            return ingest(str(place))
        except InputError:
            raise error from None


def _read(item: Item, kind: str, definitions: Definitions) -> list[Run]:
    if not item.is_folder or kind or any(_detects(reader, item) for reader in readers()):
        return _runs_of(reader_of(item, kind), item, definitions)
    runs: list[Run] = []
    for path in sorted(path for path in item.path.rglob("*") if path.is_file()):
        part = Item(path, str(path))
        try:
            if any(_detects(reader, part) for reader in readers()):
                runs += _runs_of(reader_of(part), part, definitions)
        except FileInputError as error:
            left_out(path, error)
    if not runs:
        raise FileInputError(Message("measure.no_result_in_folder", file=item.shown))
    return runs


def _detects(reader: Reader, item: Item) -> bool:
    """Whether a reader takes an item for its own; what it cannot even look at is none."""
    try:
        return reader.detects(item)
    except _DAMAGED:
        return False


def _runs_of(reader: Reader, item: Item, definitions: Definitions) -> list[Run]:
    """What a reader makes of an item; a file that is cut short or of another version than the
    reader knows is refused in one line."""
    if not _detects(reader, item):
        if reader.kind == "own-table" and item.table:
            raise FileInputError(Message("measure.own_columns", file=item.shown, names=", ".join(metrics())))
        raise FileInputError(Message("measure.not_a_result", file=item.shown, tool=reader.kind))
    try:
        return reader.reads(item, definitions)
    except _DAMAGED as error:
        if isinstance(error, RightfitError):
            raise
        raise FileInputError(
            Message("measure.damaged", file=item.shown, tool=reader.kind, kind=type(error).__name__, error=cause(error))
        ) from None


def _with_setup(run: Run, definitions: Definitions) -> Run:
    """The run with what the user says of its set-up; what the user says goes first."""
    setup = {**_named_alike(run.setup, run), **_named_alike(definitions.setup, run)}
    return sealed(run.model_copy(update={"setup": setup}))


def _named_alike(setup: Mapping[str, str], run: Run) -> dict[str, str]:
    """A set-up whose GPU has the column that runs of its kind have: `gpu` of training, `device` of
    services."""
    other = {of_service: of_training for of_training, of_service in _SAME} if not is_serving(run) else dict(_SAME)
    return {name if other.get(name, name) in setup else other.get(name, name): value for name, value in setup.items()}


def _fetched(address: str, kind: str, definitions: Definitions) -> list[Run]:
    """An exporter's page, or the answer of an API, fetched once."""
    try:
        with urllib.request.urlopen(address, timeout=_TIMEOUT_S) as answer:  # noqa: S310 (http and https only)
            content = answer.read(MOST_BYTES)
    except (OSError, ValueError, urllib.error.URLError) as error:
        reason = getattr(error, "reason", error)
        raise NetworkError(Message("problems.cannot_read", name=prometheus.shown(address), error=reason)) from None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer"
        path.write_bytes(content)
        return _read(Item(path, address), kind, definitions)


#: Columns of `rightfit predict` without which a run cannot be predicted, by what it measured.
_NEEDED = {
    "training": ("model", "gpu", "micro_batch", "seq_len"),
    "serving": ("model", "device", "engine", "input_tokens", "output_tokens"),
}
#: Columns that runs of training and of services name differently.
_SAME = (("gpu", "device"), ("n_gpus", "n_devices"))
_SERVING = frozenset(("ttft_ms", "tpot_ms", "req_per_s", "output_tok_per_s_total", "total_tok_per_s", "latency_ms", "peak_mem_gib"))


def is_serving(run: Run) -> bool:
    """Whether a run is of a service."""
    return any(item.metric in _SERVING for item in run.measured)


def missing_setup(run: Run) -> Sequence[str]:
    """Columns that a prediction of this run would need and that it does not tell."""
    return [name for name in _NEEDED["serving" if is_serving(run) else "training"] if not run.setup.get(name)]
