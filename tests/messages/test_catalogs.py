"""The catalogs and the source say the same: every key that is used is there with the fields that it
is given, in both languages, and nobody raises plain text.

Each test walks everything once and lists all that is wrong."""

from __future__ import annotations

import ast
import io
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from babel.messages.pofile import read_po
from source import every_module, nodes_of

import rightfit
from rightfit import errors
from rightfit.errors import RightfitError
from rightfit.messages import LANGS
from rightfit.messages.message import LOCALE, catalog, rooms
from rightfit.workload.options import OPTIONS

SOURCE = Path(rightfit.__file__).parent
#: Errors that name a thing and its kind.
NAMES = {"UnknownNameError", "AmbiguousNameError"}
#: Methods and functions that raise what they are given.
RAISERS = {"RefusedError", "fail", "_fail", "refuse"}
#: Rooms whose errors only developers meet.
INSIDE = {"proof"}
#: Fields that a sentence leaves out in one language on purpose.
OMITTED = {("problems.unknown_name_allowed_near", "allowed")}
#: Where messages are put together from what they are given.
MAKERS = {"messages/message.py"}
ENGLISH = re.compile(r"\b(the|not|is|are|such|write|give|stands|must|should|cannot|needs?|input|given|unable|unknown|or)\b")
HAN = re.compile(r"[\u4e00-\u9fff]")


@cache
def calls() -> list[tuple[str, ast.Call, str]]:
    """(file and line, call, name of what is called) of the whole source."""
    found = ((name, node) for name, path in every_module().items() for node in nodes_of(path) if isinstance(node, ast.Call))
    return [(f"{name}:{node.lineno}", node, getattr(node.func, "id", getattr(node.func, "attr", ""))) for name, node in found]


def fields_of(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@cache
def keys() -> set[str]:
    return {f"{room}.{name}" for room in rooms() for name in catalog(room, "en")}


def keys_of(node: ast.expr) -> set[str]:
    """The keys that an argument can be: one that is put together stands for all that fit."""
    if isinstance(node, ast.IfExp):
        return keys_of(node.body) | keys_of(node.orelse)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    if isinstance(node, ast.JoinedStr):
        parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w*" for part in node.values]
        return {key for key in keys() if re.fullmatch("".join(parts), key)} or {ast.unparse(node)}
    return set()


def used() -> Iterator[tuple[str, ast.Call, str]]:
    """(file and line, call, key) of every message that the source makes."""
    for place, call, name in calls():
        if name == "Message" and call.args and place.partition(":")[0] not in MAKERS:
            for key in keys_of(call.args[0]):
                yield place, call, key


def words_for(key: str, lang: str) -> str:
    room, _, name = key.partition(".")
    return catalog(room, lang).get(name, "") if room in rooms() else ""  # type: ignore[arg-type]


def test_every_message_is_there_with_the_fields_that_it_is_given() -> None:
    faults, count = [], 0
    for place, call, key in used():
        count += 1
        if key not in keys():
            faults.append(f"{place}: no catalog has {key}")
        elif all(keyword.arg for keyword in call.keywords):
            given = {keyword.arg for keyword in call.keywords}
            faults += [
                f"{place}: {key} is given {sorted(map(str, given))} and has {sorted(fields_of(words_for(key, lang)))} in {lang}"
                for lang in LANGS
                if fields_of(words_for(key, lang)) != given - {field for name, field in OMITTED if name == key and lang == "zh"}
            ]
    assert not faults, "\n".join(faults)
    assert count > 100


def test_no_message_is_unused() -> None:
    there = {key for _, _, key in used()} | {f"problems.kind_{kind.replace(' ', '_')}" for _, kind in kinds()}
    makers = "".join((SOURCE / name).read_text("utf-8") for name in (*MAKERS, "errors.py"))
    there |= {key for key in keys() if key.startswith("problems.") and re.search(rf'"{key.partition("_")[0]}\w*"', makers)}
    unused = {key for key in keys() - there if not key.startswith("others.")}
    assert not unused, "\n".join(sorted(unused))


def kinds() -> list[tuple[str, str]]:
    """(file and line, kind) of every thing that a name can be of."""
    found = [("workload/options.py", option.name) for option in OPTIONS.values() if option.vocabulary]
    for place, call, name in calls():
        if place.partition("/")[0] in INSIDE:
            continue
        if name in NAMES and call.args and isinstance(call.args[0], ast.Constant):
            found.append((place, str(call.args[0].value)))
        found += [
            (place, str(keyword.value.value))
            for keyword in call.keywords
            if name in {"contradiction", "find"} and keyword.arg == "kind" and isinstance(keyword.value, ast.Constant)
        ]
    return found


def test_every_kind_of_name_has_words() -> None:
    assert len(kinds()) > 60
    assert [(place, kind) for place, kind in kinds() if f"problems.kind_{kind.replace(' ', '_')}" not in keys()] == []


def error_names() -> set[str]:
    """Names of our errors, those of single modules with them."""
    known = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, RightfitError)}
    classes = [node for path in every_module().values() for node in nodes_of(path) if isinstance(node, ast.ClassDef)]
    size = 0
    while size < len(known):
        size = len(known)
        known |= {node.name for node in classes if {ast.unparse(base).rpartition(".")[2] for base in node.bases} & known}
    return known


def is_text(node: ast.expr) -> bool:
    """Whether an argument is text that stands in the source."""
    if isinstance(node, ast.IfExp):
        return is_text(node.body) or is_text(node.orelse)
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(node.value))


def test_nobody_raises_plain_text() -> None:
    known, faults, count = error_names(), [], 0
    for place, call, name in calls():
        room = place.partition("/")[0].partition(":")[0].removesuffix(".py")
        if room in INSIDE or not call.args or name not in known | RAISERS:
            continue
        count += 1
        told = [keyword.value for keyword in call.keywords if keyword.arg == "allowed"] if name in NAMES else [call.args[0]]
        faults += [f"{place}: {ast.unparse(one)}" for one in told if is_text(one)]
    assert not faults, "\n".join(faults)
    assert count > 100


def test_both_languages_have_the_same_keys_and_fields() -> None:
    faults = []
    for room in rooms():
        english, chinese = (catalog(room, lang) for lang in LANGS)
        faults += [f"{room}.{key} stands in one language alone" for key in english.keys() ^ chinese.keys()]
        faults += [
            f"{room}.{key}: {sorted(differ)}"
            for key in english.keys() & chinese.keys()
            if (differ := fields_of(english[key]) ^ fields_of(chinese[key]) - {field for name, field in OMITTED if name == f"{room}.{key}"})
            and not {(f"{room}.{key}", field) for field in differ} <= OMITTED
        ]
    assert not faults, "\n".join(faults)


def test_chinese_is_chinese() -> None:
    faults = []
    for room in rooms():
        for key, text in catalog(room, "zh").items():
            plain = re.sub(r"\{\w+[^{}]*\}|`[^`]*`|'[^']*'|--[\w-]+", "", text)
            if ENGLISH.search(plain):
                faults.append(f"{room}.{key} has English words: {text}")
            if any(mark in plain for mark in ("; ", "。 ")):
                faults.append(f"{room}.{key} has a blank after its mark: {text}")
            if (
                re.search(r"[a-z]{3} [a-z]", re.sub(r"\{\w+[^{}]*\}", "", catalog(room, "en")[key]))
                and text == catalog(room, "en")[key]
                and room != "problems"
            ):
                faults.append(f"{room}.{key} is not translated: {text}")
    assert not faults, "\n".join(faults)


def test_the_files_are_valid() -> None:
    """As tools for translators read them: no entry twice, none empty, none in
    doubt or left over."""
    faults, count = [], 0
    for path in sorted(LOCALE.rglob("*.po")):
        text = path.read_bytes()
        read = read_po(io.BytesIO(text), abort_invalid=True)
        entries = [entry for entry in read if entry.id]
        count += len(entries)
        name = path.relative_to(LOCALE).as_posix()
        faults += [f"{name}: {entry.id} has no text" for entry in entries if not entry.string]
        faults += [f"{name}: {entry.id} is in doubt" for entry in entries if entry.fuzzy]
        if len(entries) != text.count(b'\nmsgid "') - 1 or read.obsolete:
            faults.append(f"{name}: an entry stands twice, or is obsolete")
        if str(read.locale) != path.parts[-3]:
            faults.append(f"{name}: is of {read.locale}")
    assert not faults, "\n".join(faults)
    assert count > 1000
