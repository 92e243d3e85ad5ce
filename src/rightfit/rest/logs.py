"""One JSON line for each request, without anything secret: no body, no query, no header of the client but its language and program."""

from __future__ import annotations

import datetime
import json
import logging
import sys
import traceback
from typing import Any

NAME = "rightfit.access"
_LONGEST = 200


class JsonLines(logging.Formatter):
    """Log records as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        values: dict[str, Any] = {
            "at": datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.casefold(),
            "logger": record.name,
            "message": record.getMessage()[:2000],
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            values["trace"] = "".join(traceback.format_exception(*record.exc_info))[-8000:]
        if record.stack_info:
            values["trace"] = record.stack_info[-8000:]
        return json.dumps(values, ensure_ascii=True, default=str)


def set_up(level: str = "INFO") -> None:
    """Send the log of the server to standard error as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ("rightfit", "uvicorn"):
        logging.getLogger(name).setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers[:] = []
        logging.getLogger(name).propagate = name != "uvicorn.access"


def shown(text: str) -> str:
    """A text of a client as a log may hold it: short, and without anything that a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text[:_LONGEST])
