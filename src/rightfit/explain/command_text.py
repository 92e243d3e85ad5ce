"""The command that asks the same as a wish that was read from a sentence."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any


def command_line(wishes: Mapping[str, Any], *, server: str = "") -> str:
    """The command that asks the same by options; `server`: of one server alone."""
    words = ["rightfit", *(["estimate", server] if server else ["plan"])] + ([str(wishes["model"])] if "model" in wishes else [])
    for name, value in wishes.items():
        if name != "model":
            words += ["--" + name.replace("_", "-"), ",".join(value) if isinstance(value, list | tuple) else str(value)]
    return shlex.join(words)
