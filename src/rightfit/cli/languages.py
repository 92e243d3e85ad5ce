"""The language of a command's answer and of its help."""

from __future__ import annotations

import functools
import itertools
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightfit.explain.messages import Lang, default_lang

_DATA = Path(__file__).with_name("data")


@functools.cache
def help_lang() -> Lang:
    """The language of --help, which is needed before options are read: `--lang` on the command line, else the locale."""
    return lang_of(sys.argv[1:])


def lang_of(arguments: Sequence[str]) -> Lang:
    """The language that arguments ask for, else that of the locale."""
    words = " ".join(arguments).replace("--lang=", "--lang ").split()
    given = words[words.index("--lang") + 1] if "--lang" in words[:-1] else ""
    if not given and is_chinese(_asked(arguments)):
        return "zh"
    return "zh" if given in ("zh", "chinese", "cn", "zh-cn", "中文") or (not given and default_lang() == "zh") else "en"


def is_chinese(sentence: str) -> bool:
    """Whether a sentence has Chinese words."""
    return any("\u4e00" <= char <= "\u9fff" for char in sentence)


def _asked(arguments: Sequence[str]) -> str:
    """The sentence of --ask, whose language the answer speaks where --lang says nothing."""
    told = next((word.removeprefix("--ask=") for word in arguments if word.startswith("--ask=")), "")
    return told or next((after for word, after in itertools.pairwise(arguments) if word == "--ask"), "")


@functools.cache
def _help_texts() -> Mapping[str, Mapping[str, str]]:
    return tomllib.loads((_DATA / "help.toml").read_text(encoding="utf-8"))


def help_text(section: str, key: str, english: str) -> str:
    """A help text in the language of --help; `english` is the one in the code."""
    return english if help_lang() == "en" else _help_texts()[section].get(key, english)
