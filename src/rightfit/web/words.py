"""The words of the page itself, English and Chinese side by side, from data/words.toml; those of
answers come from explain."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from rightfit.errors import RightfitError
from rightfit.explain.messages import problems_of
from rightfit.messages import Lang, spaced

_DATA = Path(__file__).with_name("data")


def text_of(name: str) -> str:
    """A text that travels beside the pages."""
    return (_DATA / name).read_text(encoding="utf-8")


@functools.cache
def words() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """{section: {key: {"en": text, "zh": text}}}."""
    return tomllib.loads((_DATA / "words.toml").read_text(encoding="utf-8"))


def word(key: str, lang: Lang, **fields: object) -> str:
    """The text `section.name` in one language with its fields filled in."""
    section, _, name = key.partition(".")
    text = words()[section][name][lang].format(**fields)
    return spaced(text) if lang == "zh" else text


def option_name(option: str, lang: Lang) -> str:
    """The name of an option of the workload, as a label."""
    entry = words()["option"].get(option)
    return entry[lang] if entry else option.replace("_", " ")


_FLAG = re.compile(r"--([a-z][a-z-]+)")
#: Advice that a visitor cannot follow: files are those of the machine that serves.
_LOCAL = ("; run `rightfit datasets` for the list", ", or a path to config.json", ", or path to config.json", "，或 config.json 的路径")
_NAMED = re.compile(r"^([a-z][a-z_]+) = ")


def on_page(line: str, lang: Lang) -> str:
    """A sentence of the library as the page says it: options by the names of their fields, not as
    flags of a command."""
    named = _NAMED.match(line)
    if named and named[1] in words()["option"]:
        value, colon, why = _split(line[named.end() :])
        line = f"{option_name(named[1], lang)} = {choice_name(named[1], value, lang)}{colon}{why}"
    for advice in _LOCAL:
        line = line.replace(advice, "")
    return _FLAG.sub(lambda flag: f"“{option_name(flag[1].replace('-', '_'), lang)}”", line)


def _split(text: str) -> tuple[str, str, str]:
    """A value, the colon of its language, and the reason behind it."""
    found = re.search(r": |：", text)
    return (text[: found.start()], found[0], text[found.end() :]) if found else (text, "", "")


def choice_name(option: str, value: str, lang: Lang) -> str:
    """One word of an option's vocabulary in the reader's language; as it is where it
    is a technical name."""
    entry = words()["choice"].get(f"{option}_{value}".replace("-", "_"))
    return entry[lang] if entry else value


def problem_lines(error: RightfitError, lang: Lang) -> list[tuple[str, str]]:
    """The problems of an error as (field, one line for the reader)."""
    from rightfit.web.answers import BusyError, InternalError  # what only a server says needs its libraries

    if isinstance(error, InternalError):
        return [("", word("error.internal", lang, number=error.number))]
    if isinstance(error, BusyError):
        return [("", word("error.busy", lang, seconds=error.retry_s))]
    kind = getattr(error, "kind", "")
    about = kind if kind in words()["option"] else ""  # a name of which only the kind is known is about the field of that kind
    return [(problem.field or about, on_page(_said(problem.message, problem.field, lang), lang)) for problem in problems_of(error, lang)]


def _said(message: str, field: str, lang: Lang) -> str:
    """The message with the name of the field as the page has it."""
    for before in (f"{field}: ", f"{field}："):
        if field and message.startswith(before):
            rest = message.removeprefix(before)
            return rest[:1].upper() + rest[1:]
    return message[:1].upper() + message[1:]
