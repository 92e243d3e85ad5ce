"""User-facing text is written as an engineer writes it: `tests/data/style.toml` lists what it does
not say, with the reason."""

from __future__ import annotations

import inspect
import io
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from babel.messages.pofile import read_po

import rightfit
from rightfit.cli.app import build
from rightfit.messages.message import LOCALE, rooms

SOURCE = Path(rightfit.__file__).parent
RULES = tomllib.loads((Path(__file__).parents[1] / "data" / "style.toml").read_text("utf-8"))
#: Tables of words.
TABLES = sorted({*SOURCE.glob("explain/data/*.toml"), *SOURCE.glob("web/data/words.toml"), *SOURCE.glob("rest/data/words.toml")})
#: Keys under which a table quotes.
QUOTED = re.compile(r"\.statement$|^posts\.")
#: Names of things that a rule would take for prose: fields, options, commands, code.
NAMES = re.compile(r"\{[^{}]*\}|--[\w-]+|`[^`]*`|\[\[\w+\]\]")
FIELD = "{}"


def pairs(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    """(key, English, Chinese) of a table of words, at any depth."""
    if isinstance(table.get("en"), str):
        yield path, table["en"], table["zh"]
    for key, value in table.items():
        if isinstance(value, dict):
            yield from pairs(value, f"{path}.{key}" if path else key)


def messages(path: Path) -> dict[str, str]:
    return {str(entry.id): str(entry.string) for entry in read_po(io.BytesIO(path.read_bytes()))}


@cache
def strings() -> tuple[tuple[str, str, str], ...]:
    """(where, English, Chinese) of every catalog and table."""
    found = []
    for room in rooms():
        english, chinese = (messages(LOCALE / lang / "LC_MESSAGES" / f"{room}.po") for lang in ("en", "zh"))
        found += [(f"{room}.po {key}", english[key], chinese[key]) for key in english if key]
    for path in TABLES:
        found += [(f"{path.name} {key}", en, zh) for key, en, zh in pairs(tomllib.loads(path.read_text("utf-8"))) if not QUOTED.search(key)]
    return tuple(found)


def help_texts(command: Any) -> Iterator[tuple[str, str]]:
    """(where, text) of what --help prints, of a command and those below it."""
    yield command.name, command.help or ""
    yield from ((f"{command.name} {parameter.name}", parameter.help or "") for parameter in command.params)
    for below in getattr(command, "commands", {}).values():
        if not below.hidden:
            yield from help_texts(below)


def spoken_texts() -> Iterator[tuple[str, str]]:
    """(where, text) of what help() and an assistant read: docstrings of public functions, tools of
    the MCP server, its questions and instructions."""
    from rightfit.mcp.resources import QUESTIONS, all_shelves
    from rightfit.mcp.server import INSTRUCTIONS
    from rightfit.mcp.tools import all_tools

    public = [getattr(rightfit, name) for name in rightfit.__all__ if not name.startswith("_")]
    for one in (rightfit, *filter(inspect.isfunction, public)):
        yield f"help({one.__name__})", re.sub(r">>> .*", "", one.__doc__ or "")
    for tool in all_tools():
        yield f"tool {tool.name}", tool.about
        yield from ((f"tool {tool.name} {name}", info.description or "") for name, (_, info) in tool.fields.items())
    yield from ((f"question {one.name}", f"{one.about}. {one.text} {' '.join(one.asks.values())}") for one in QUESTIONS)
    yield from ((f"resource {one.name}", one.about) for one in all_shelves())
    yield "instructions", INSTRUCTIONS


def faults(rules: dict[str, Any], text: str) -> list[str]:
    plain = NAMES.sub(FIELD, text)
    return [
        f"{found.group()!r}: {rule['why']}" for rule in rules.values() if "pattern" in rule and (found := re.search(rule["pattern"], plain))
    ]


def test_english_reads_as_an_engineer_writes_it() -> None:
    texts = [(where, text) for where, text, _ in strings()]
    told = (*texts, *help_texts(build()), *spoken_texts())
    wrong = [f"{where}: {text!r}: {why}" for where, text in told for why in faults(RULES["english"], text)]
    assert not wrong, "\n".join(wrong)


def test_chinese_is_chinese() -> None:
    rules = RULES["chinese"]
    word = re.compile(rf"(?<![\w./:-])(?:{'|'.join(map(re.escape, rules['words'].split()))})(?![\w./:=-])")
    wrong = [
        f"{where}: {text!r}: {why}"
        for where, _, text in strings()
        for why in faults({k: v for k, v in rules.items() if k != "words"}, text)
    ]
    wrong += [f"{where}: {text!r}: {found.group()!r}" for where, _, text in strings() if (found := word.search(NAMES.sub(FIELD, text)))]
    assert not wrong, "\n".join(wrong)


# ---- Pages of the documentation, which had thousands of these forms: each page has at most as many
# as style_pages.toml grants it, and a page that is not there has none.

DOCS = Path(__file__).parents[2] / "docs"
#: Pages made whole by a script out of others' words, and papers on decisions.
NOT_OURS = {"questions.md", "rules-of-thumb.md", "scenarios.md", "nomenclature.md", "coverage.md", "comparison.md", "accuracy.md"}
CODE = re.compile(r"```.*?```|<!-- (?:accuracy|output|sizes)[^>]*-->.*?<!-- end -->|<!--.*?-->|`[^`\n]*`|\]\([^)]*\)", re.DOTALL)


def page_faults(text: str) -> list[str]:
    plain = CODE.sub(FIELD, text)
    return [f"{found[0]!r}: {rule['why']}" for rule in RULES["english"].values() for found in re.finditer(rule["pattern"], plain)]


def test_pages_read_as_an_engineer_writes_them() -> None:
    granted: dict[str, int] = tomllib.loads((Path(__file__).parents[1] / "data" / "style_pages.toml").read_text("utf-8"))["most"]
    ours = [
        page
        for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
        if not page.name.endswith(".zh.md") and page.name not in NOT_OURS and not {"decisions", "reference", "accuracy"} & set(page.parts)
    ]
    assert len(ours) > 60
    found = {page.relative_to(DOCS.parent).as_posix(): page_faults(page.read_text(encoding="utf-8")) for page in ours}
    wrong = {name: faults for name, faults in found.items() if len(faults) > granted.get(name, 0)}
    assert not wrong
    assert not granted.keys() - found.keys(), "pages that are gone"
    assert page_faults("The card stands beside it, 80 % of `card`.") != page_faults("`card` 80% ![card](card.png)")


def test_each_rule_can_fail() -> None:
    """A rule that matches nothing that was ever written is none."""
    old = {
        "card": "per card", "wish": "this wish", "stands": "it stands", "lies": "data lie in", "holds": "a card holds", "beside": "beside it",
        "nine_in_ten": "with nine in ten", "works_off": "it works off 3 requests", "told": "is told", "says": "say --rate", "bears": "it bears",
        "free": "for nothing", "nowhere": "stands nowhere", "in_no_release": "is in no release", "counts": "what counts", "plural": "5 job(s)",
        "plural_of_one": "at 1 requests/s", "in_place_of": "in place of", "reckon": "reckoned", "per": "{usd} a month", "percent": "80 % interval",
        "one_s_own": "of one's own", "known": "is not known", "set_up": "Set-up:", "asked": "asked for", "would_do": "2 would do",
        "at_most": "it pays from", "british": "quantised", "seller": "the seller states",
    }  # fmt: skip
    assert old.keys() == RULES["english"].keys()
    assert not [name for name, text in old.items() if not faults({name: RULES["english"][name]}, text)]
