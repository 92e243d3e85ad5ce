"""Text of other formats, always through their own writers, so that no name can
break out of its place."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import yaml


def shell(words: Sequence[object], variables: Mapping[str, str] | None = None) -> str:
    """An argument vector as one line of POSIX shell. `variables`: text -> what the shell
    puts in its place, however the rest of the word is quoted."""
    return " ".join(_word(str(word), variables or {}) for word in words)


def _word(word: str, variables: Mapping[str, str]) -> str:
    """A path (a text that begins with "/") is the beginning of one, not a part of a longer one."""
    marks = "|".join(rf"(?<![\w./-]){re.escape(text)}(?![\w.-])" if text.startswith("/") else re.escape(text) for text in variables)
    pieces = re.split(f"({marks})", word) if marks else [word]
    return "".join(f'"{variables[piece]}"' if piece in variables else shlex.quote(piece) for piece in pieces if piece) or "''"


def shell_lines(words: Sequence[object], variables: Mapping[str, str] | None = None, *, indent: str = "  ") -> str:
    """The same with an option (and its value) a line, for people to read. A word is taken as an
    option when it begins with "-"."""
    pieces: list[list[str]] = [[]]
    for word in words:
        text = _word(str(word), variables or {})
        if str(word).startswith("-") and pieces[-1]:
            pieces.append([])
        pieces[-1].append(text)
    return f" \\\n{indent}".join(" ".join(piece) for piece in pieces)


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, lists indented under their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _string)


def to_yaml(*documents: Mapping[str, Any]) -> str:
    """YAML of one or more documents, keys in the given order."""
    return yaml.dump_all(
        [plain(document) for document in documents],
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=10_000,
        explicit_start=len(documents) > 1,
    )


def to_json(value: Any) -> str:
    """JSON with two spaces of indent and a final newline."""
    return json.dumps(plain(value), ensure_ascii=False, indent=2) + "\n"


def plain(value: Any) -> Any:
    """Tuples as lists and mappings as dictionaries, so that every writer takes them."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def hcl(value: Any) -> str:
    """One Terraform value. Strings are quoted as JSON with its template marks disarmed: "${" and
    "%{" stay what they are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{hcl(str(key))} = {hcl(item)}" for key, item in value.items())
        return "{ " + inner + " }" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(hcl(item) for item in value) + "]"
    return json.dumps(str(value), ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def label(text: str, *, most: int = 63) -> str:
    """Text as a label value: letters, digits, ".", "_" and "-", beginning and ending with a letter
    or digit (Kubernetes, Docker and clouds agree on that)."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:most].strip("._-")
    return cleaned or "x"


def comment(text: str) -> str:
    """Text that stays on its comment line whatever it holds."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())


# ---- Shell scripts that exports write: strict mode, what they are for, and which environment
# variables must be set.

HEAD = "#!/bin/sh"


def script(about: str, command: Sequence[str], *, needs: Sequence[tuple[str, str]] = (), before: Sequence[str] = ()) -> str:
    """A script that runs one command in place of itself. `needs`: (variable, what it must hold),
    refused when unset; `before`: ready shell lines."""
    required = [f': "${{{name}:?set {name} to {comment(meaning)}}}"' for name, meaning in needs]
    return "\n".join([HEAD, f"# {comment(about)}", "set -eu", *required, *before, f"exec {shell_lines(command)}", ""])


def in_quotes(value: str) -> str:
    """A value within double quotes of a shell."""
    return re.sub(r'(["$`\\}])', r"\\\1", value)
