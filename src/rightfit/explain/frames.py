"""Options as a data frame of pandas or polars, whichever is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rightfit.errors import InputError, MissingComponentError
from rightfit.messages import Message, either

BACKENDS = ("pandas", "polars")


def data_frame(records: Iterable[Mapping[str, Any]], *, backend: str | None = None) -> Any:
    """Records as a data frame, one a row; `backend` "pandas" or "polars", by default the first that is installed.

    Every record gets every column, in order of first appearance; what a record lacks is missing there.
    """
    rows = list(records)
    names = list(dict.fromkeys(name for row in rows for name in row))
    library = importlib.import_module(_installed(backend))
    return library.DataFrame({name: [_plain(row.get(name)) for row in rows] for name in names}, **_strictness(library.__name__))


def _installed(backend: str | None) -> str:
    if backend is not None and backend not in BACKENDS:
        raise InputError(Message("spread.unknown_data_frame", word=backend, names=", ".join(BACKENDS)), field="backend")
    wanted: Sequence[str] = BACKENDS if backend is None else (backend,)
    found = next((name for name in wanted if importlib.util.find_spec(name) is not None), None)
    if found is None:
        raise MissingComponentError(Message("spread.no_data_frames", names=either(wanted), library=wanted[0]))
    return found


def _plain(value: Any) -> Any:
    """What one cell of either library can hold."""
    return ";".join(map(str, value)) if isinstance(value, list | tuple) else value


def _strictness(name: str) -> dict[str, Any]:
    """polars looks at the first rows only unless told otherwise, and refuses a column of whole and broken numbers."""
    return {"strict": False, "infer_schema_length": None} if name == "polars" else {}
