"""Shell scripts that exports write: strict mode, what they are for, and which environment variables must be set."""

from __future__ import annotations

from collections.abc import Sequence

from rightfit.export.quoting import comment, shell_lines

HEAD = "#!/bin/sh"


def script(about: str, command: Sequence[str], *, needs: Sequence[tuple[str, str]] = (), before: Sequence[str] = ()) -> str:
    """A script that runs one command in place of itself. `needs`: (variable, what it must hold), refused when unset; `before`: ready shell
    lines."""
    required = [f': "${{{name}:?set {name} to {comment(meaning)}}}"' for name, meaning in needs]
    return "\n".join([HEAD, f"# {comment(about)}", "set -eu", *required, *before, f"exec {shell_lines(command)}", ""])
