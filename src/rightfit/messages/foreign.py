"""What other programs say, in our languages: readers of files, databases, checks of values. They raise text alone, without a code, so that it is found among
those that `others.po` has."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from functools import cache

from rightfit.messages.catalogs import catalog
from rightfit.messages.message import Message, either

_FIELD = re.compile(r"\{(\w+)\}")
#: A field that is another text of the same program.
_INNER = frozenset(("problem", "why"))

_WORDS = "'.+"
#: What the system says, by its number.
_SYSTEM: Mapping[int, str] = {
    errno.ENOENT: "no_file",
    errno.EISDIR: "folder",
    errno.ENOTDIR: "not_folder",
    errno.EACCES: "denied",
    errno.ENOSPC: "full",
    errno.EEXIST: "there",
    errno.EROFS: "read_only",
    errno.ENAMETOOLONG: "too_long",
    errno.ECONNREFUSED: "connection_refused",
    errno.ECONNRESET: "connection_reset",
    errno.ENETUNREACH: "network_unreachable",
    errno.EHOSTUNREACH: "no_route",
    errno.ETIMEDOUT: "timed_out_os",
    errno.ENOEXEC: "exec_format",
}


def system_problem(error: BaseException, *, lower: bool = False) -> Message | str:
    """What the system says of a file or an address, without its number and name; `lower` in small letters."""
    own = str(getattr(error, "strerror", None) or error)
    key = _SYSTEM.get(getattr(error, "errno", None) or 0)
    if key is None or not isinstance(error, OSError):
        return foreign(own.lower() if lower else own)
    return Message(f"others.{key}{'_lower' if lower else ''}")


def cause(error: BaseException) -> Message | str:
    """What an exception says: its message where it is ours, else the words for what the system or another program says, as far as there are some."""
    own = getattr(error, "message", None)
    if isinstance(own, Message):
        return own
    if isinstance(error, OSError) and error.errno is not None and error.strerror and not error.filename2:
        alone = Message("others.os_error", number=error.errno, why=system_problem(error))
        return alone if error.filename is None else Message("others.os_error_of_file", **alone.fields, path=repr(error.filename))
    return foreign(str(error))


def foreign(text: str) -> Message | str:
    """The message of another program's text; the text itself where it is not known."""
    found = ((key, match.groupdict()) for key, pattern in _patterns() if (match := pattern.fullmatch(text)))
    key, fields = next(found, ("", {}))
    return Message(key, **{name: _field(name, part) for name, part in fields.items()}) if key else text


def _field(name: str, text: str) -> Message | str:
    """A field of another program's text: a text of its own, or a list of words."""
    if name in _INNER:
        return foreign(text)
    first, is_list, last = text.rpartition(" or ") if name == "words" else (text, "", "")
    return either((first, last)) if is_list else text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The texts as patterns, those with most words of their own first."""
    texts = sorted(catalog("others", "en").items(), key=lambda one: -len(_FIELD.sub("", one[1])))
    return tuple((f"others.{key}", re.compile(_pattern(text), re.DOTALL)) for key, text in texts)


def _pattern(text: str) -> str:
    """A text with places as a pattern. Words that a value must be among stand in quotes."""
    plain = re.escape(text).replace(r"\{", "{").replace(r"\}", "}")
    return _FIELD.sub(lambda found: f"(?P<{found[1]}>{_WORDS if found[1] == 'words' else '.+?'})", plain)
