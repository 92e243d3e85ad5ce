"""Data of the user's own, counted: rows, and tokens of their text (by the model's tokenizer where
it lies beside the model, else by characters, with the doubt of that)."""

from __future__ import annotations

import csv
import functools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rightfit import reach
from rightfit.errors import FileInputError
from rightfit.facts.tables import constants
from rightfit.messages import Message, system_problem
from rightfit.records import dataclass
from rightfit.workload.folders import files_below

_ROWS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".txt", ".parquet")
_IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
#: Bytes of a file that are read whole; of a larger one these are read and the rest is taken to be
#: alike.
_READ_BYTES = 64_000_000
_NUMERIC_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class DataCount:
    """Rows, and what they hold: `tokens` of text with the low and high end of their doubt (0: no
    text), `columns` of a table of numbers (0: none), `images`; `how` they were counted: tokenizer
    or characters."""

    rows: int
    tokens: float = 0.0
    low: float = 0.0
    high: float = 0.0
    columns: int = 0
    images: int = 0
    how: str = ""

    @property
    def text(self) -> str:
        """The amount as a wish says it."""
        if self.images:
            return f"{self.images} images"
        if self.columns:
            return f"{self.rows}rows x {self.columns}cols"
        return f"{max(round(self.tokens), 1)}tok"


def is_data_path(text: str) -> bool:
    """Whether an amount of data is written as a path that is there."""
    if reach.is_closed() or not text or len(text) > 4096 or "\x00" in text:
        return False
    path = Path(text)
    try:
        if path.suffix.casefold() in _ROWS:
            return path.is_file()
        return (os.sep in text or text.startswith(".")) and path.is_dir()
    except (OSError, ValueError):
        return False


def counted(text: str, *, tokenizer: Path | None = None) -> DataCount:
    """The data of a file or folder. Raises FileInputError where there is nothing to count."""
    path = Path(text)
    try:
        state = path.stat()
        return _counted(str(path), state.st_size, state.st_mtime_ns, str(tokenizer) if tokenizer else "")
    except OSError as error:
        raise FileInputError(Message("problems.cannot_read", name=text, error=system_problem(error)), field="data") from None


@functools.lru_cache(maxsize=32)
def _counted(name: str, size: int, changed_ns: int, tokenizer: str) -> DataCount:
    del size, changed_ns  # part of the key: data that changed are counted again
    path = Path(name)
    files = [path] if path.is_file() else list(files_below(path))
    images = sum(one.suffix.casefold() in _IMAGES for one in files)
    length = _length(tokenizer)
    found = [one for file in files if file.suffix.casefold() in _ROWS and (one := _file(file, length)) is not None and one.rows]
    if images and images >= sum(one.rows for one in found):
        return DataCount(images, images=images)
    if not found:
        raise FileInputError(Message("workload.no_data_file", name=name), field="data")
    columns = {one.columns for one in found}
    return DataCount(
        sum(one.rows for one in found), sum(one.tokens for one in found), sum(one.low for one in found), sum(one.high for one in found),
        columns.pop() if len(columns) == 1 else 0, how=found[0].how,
    )  # fmt: skip


Length = Callable[[str], tuple[float, float, float]]


def _length(tokenizer: str) -> tuple[Length, str]:
    """Tokens of a text (with low and high), and how they are counted."""
    if tokenizer:
        try:
            from tokenizers import Tokenizer

            known = Tokenizer.from_file(tokenizer)
        except Exception:  # noqa: S110 - without the library, or with a file that it does not read, characters tell
            pass
        else:
            return (lambda text: (float(len(known.encode(text).ids)),) * 3), "tokenizer"
    return _by_characters, "characters"


def _by_characters(text: str) -> tuple[float, float, float]:
    """Tokens by characters: so many of a Latin script for a token, fewer of the Chinese, Japanese
    and Korean."""
    figures = constants("data_files")
    wide = sum(char >= "\u2e80" for char in text)
    narrow = len(text) - wide
    usual = narrow / figures["latin_characters"] + wide / figures["wide_characters"]
    return usual, usual * figures["low"], usual * figures["high"]


def _file(file: Path, length: tuple[Length, str]) -> DataCount | None:
    """One file; None where it is empty or cannot be read as what its ending says."""
    kind = file.suffix.casefold()
    if kind == ".parquet":
        return _parquet(file, length)
    size = file.stat().st_size
    with file.open("rb") as stream:
        data = stream.read(_READ_BYTES)
    share = len(data) / size if size else 1.0
    text = data.decode("utf-8-sig", "replace")
    if kind in (".csv", ".tsv"):
        return _table(text, "\t" if kind == ".tsv" else ",", length, share)
    rows = list(_objects(text, kind))
    return _texts(rows, length, share)


def _objects(text: str, kind: str) -> Iterator[Any]:
    if kind == ".json":
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if isinstance(found, dict):
            found = next((one for one in found.values() if isinstance(one, list)), [found])
        if isinstance(found, list):
            yield from found
            return
    for line in text.splitlines():
        if not line.strip():
            continue
        if kind == ".txt":
            yield line
            continue
        try:
            yield json.loads(line)
        except ValueError:
            continue  # the last line of a part may be cut


def _words(value: Any) -> Iterator[str]:
    """Every text in a row, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _words(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _words(inner)


def _texts(rows: list[Any], length: tuple[Length, str], share: float) -> DataCount | None:
    if not rows:
        return None
    usual = low = high = 0.0
    for row in rows:
        for text in _words(row):
            one, least, most = length[0](text)
            usual, low, high = usual + one, low + least, high + most
    grown = 1.0 / share if share else 1.0
    return DataCount(round(len(rows) * grown), usual * grown, low * grown, high * grown, how=length[1])


def _table(text: str, mark: str, length: tuple[Length, str], share: float) -> DataCount | None:
    rows = [row for row in csv.reader(text.splitlines(), delimiter=mark) if row]
    if len(rows) < 2:
        return None
    head, body = rows[0], rows[1:]
    sample = [cell for row in body[:1000] for cell in row]
    numeric = sum(_is_number(cell) for cell in sample) / max(len(sample), 1)
    if numeric >= _NUMERIC_SHARE:
        return DataCount(round(len(body) / (share or 1.0)), columns=len(head))
    return _texts(body, length, share)


def _is_number(cell: str) -> bool:
    try:
        float(cell or 0)
    except ValueError:
        return False
    return True


def _parquet(file: Path, length: tuple[Length, str]) -> DataCount | None:
    """Rows from the footer, text from the first rows."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        return None
    try:
        table = parquet.ParquetFile(file)
        rows = int(table.metadata.num_rows)
        first = next(table.iter_batches(batch_size=2000), None)
    except Exception:
        return None
    if first is None or not rows:
        return None
    listed = first.to_pylist()
    found = _texts(listed, length, len(listed) / rows)
    if found is None or not found.tokens:
        return DataCount(rows, columns=int(table.metadata.num_columns))
    return found
