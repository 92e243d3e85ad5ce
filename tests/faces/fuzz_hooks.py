"""What schemathesis needs to know beyond the description: how a table of JSON lines is written."""

from __future__ import annotations

import json
from typing import Any

import schemathesis


@schemathesis.serializer("application/x-ndjson")
def json_lines(_context: Any, value: Any) -> bytes:
    """A text as it is; anything else as one line of JSON."""
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
