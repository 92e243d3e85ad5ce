"""The words of headings, columns and status lines, English and Chinese, from data/labels.toml."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

from rightfit.explain.messages import Lang

_DATA = Path(__file__).with_name("data")


@functools.cache
def labels() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """{section: {key: {"en": text, "zh": text}}}."""
    return tomllib.loads((_DATA / "labels.toml").read_text(encoding="utf-8"))


def label(section: str, key: str, lang: Lang, **fields: object) -> str:
    """One text with its fields filled in; a key without a text is shown as it is, underscores as blanks."""
    entry = labels().get(section, {}).get(key)
    return entry[lang].format(**fields) if entry else key.replace("_", " ")
