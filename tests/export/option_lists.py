"""Parsers rebuilt from the option lists of programs that cannot be installed here (options/*.json:
names, types and choices, each file with its source)."""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import Any, NoReturn

FOLDER = Path(__file__).parent / "options"
TYPES = {"int": int, "float": float, "str": str}


class Parser(argparse.ArgumentParser):
    """Raises where argparse would end the process."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


@functools.cache
def scripts(program: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Options of each script of a program."""
    found: dict[str, dict[str, dict[str, Any]]] = json.loads((FOLDER / f"{program}.json").read_text(encoding="utf-8"))["scripts"]
    return found


def parser(program: str, script: str = "") -> Parser:
    """A parser that takes what the program's own takes, whole words alone."""
    made = Parser(allow_abbrev=False, add_help=False)
    for names, facts in scripts(program)[script].items():
        action = facts["action"]
        if action == "BooleanOptional":
            made.add_argument(*[name for name in names.split() if not name.startswith("--no-")], action=argparse.BooleanOptionalAction)
            continue
        words: dict[str, Any] = {
            "action": {"Store": "store", "StoreTrue": "store_true", "StoreFalse": "store_false", "Append": "append"}[action]
        }
        if action in ("Store", "Append"):
            words["type"] = TYPES[facts["type"]]
            words |= {key: facts[key] for key in ("choices", "nargs") if key in facts}
        if facts.get("required"):
            words["required"] = True
        made.add_argument(*names.split(), **words)
    return made
