"""The exceptions of rightfit, one tree.

    RightfitError                   everything below; carries the process exit code
    ├── InputError            (2)   what the user gave cannot be used
    │   ├── UnknownNameError        a model, server, cloud, region ... that does not exist
    │   ├── AmbiguousNameError      a name that fits several things equally well
    │   ├── QuantityError           a number or unit that cannot be read or makes no sense
    │   ├── ContradictionError      options that exclude each other
    │   └── FileInputError          a file that cannot be read; names the line and key
    ├── NoAnswerError         (1)   a valid wish that nothing can fulfil; the reasons are data
    └── UnavailableError      (3)   a component or the network is missing
        ├── MissingComponentError   an optional extra is not installed
        ├── OutOfTimeError          whoever answers for others has no more time for this
        ├── NetworkError            a remote service could not be reached or answered nonsense
        └── CatalogError            the catalog store cannot be built or read

An error is raised with a `Message`, key and fields: what was wrong, what is allowed, the nearest
valid thing, in one line. `str()` of it is the English, `text(lang)` what it says in a language. A
plain text is only for what another program said.
"""

from __future__ import annotations

from collections.abc import Sequence

from rightfit.messages import Lang, Message, without_places

_LONGEST_NAME = 80
_MOST_NEAREST, _MOST_CANDIDATES = 3, 5


class RightfitError(Exception):
    """Base of all our exceptions. `exit_code` is what the command line exits with."""

    exit_code = 2

    def __init__(self, message: Message | str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def key(self) -> str:
        """Which message it is, whatever it is about, for programs; empty where it is
        another program's text."""
        message = without_places(self.message)
        return message.key if isinstance(message, Message) else ""

    def text(self, lang: Lang) -> str:
        """What it says in a language."""
        return self.message.text(lang) if isinstance(self.message, Message) else self.message

    def __str__(self) -> str:
        return self.text("en")


class InputError(RightfitError):
    """What the user gave cannot be used. `field` names the option or key it came from, `allowed`
    says what can be given, `nearest` what comes nearest to it, each when known; `problems` are the
    single problems where there are several, one line of the message each."""

    exit_code = 2

    def __init__(
        self,
        message: Message | str,
        *,
        field: str | None = None,
        allowed: Message | str = "",
        nearest: Sequence[str] = (),
        problems: Sequence[InputError] = (),
    ) -> None:
        super().__init__(message)
        self.field, self.allowed, self.nearest, self.problems = field, allowed, tuple(nearest), tuple(problems)


#: Software may well exist of which nothing is known here.
_UNKNOWN = {"serving engine": "problems.unknown_engine"}


class UnknownNameError(InputError):
    """A name that is not in the knowledge base; `nearest` holds the closest names that are,
    `allowed` what there is."""

    def __init__(self, kind: str, name: str, *, nearest: Sequence[str] = (), allowed: Message | str = "", field: str | None = None) -> None:
        shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."
        told = {"allowed": allowed} if allowed else {}
        near = {"nearest": tuple(nearest[:_MOST_NEAREST])} if nearest else {}
        key = _UNKNOWN.get(kind, "problems.unknown_name") + ("_allowed" if told else "") + ("_near" if near else "")
        super().__init__(Message(key, kind=_kind(kind), name=shown, **told, **near), field=field, allowed=allowed, nearest=nearest)
        self.kind, self.name = kind, name


class AmbiguousNameError(InputError):
    """A name that matches several things; `candidates` lists them."""

    def __init__(self, kind: str, name: str, candidates: Sequence[str], *, field: str | None = None) -> None:
        names = tuple(candidates[:_MOST_CANDIDATES])
        super().__init__(Message("problems.ambiguous_name", kind=_kind(kind), name=name, names=names), field=field, nearest=candidates)
        self.kind, self.name, self.candidates = kind, name, tuple(candidates)


def _kind(kind: str) -> Message:
    """What kind of thing a name is of."""
    return Message(f"problems.kind_{kind.replace(' ', '_')}")


class QuantityError(InputError):
    """A number or unit that cannot be read, or a value outside what makes sense."""


class ContradictionError(InputError):
    """Options that exclude each other."""


class FileInputError(InputError):
    """A file that cannot be read as what it should be."""


class NoAnswerError(RightfitError):
    """A valid wish that nothing can fulfil."""

    exit_code = 1


class UnavailableError(RightfitError):
    """Something outside rightfit is missing."""

    exit_code = 3


class MissingComponentError(UnavailableError):
    """An optional extra is not installed; the message says how to install it."""


class OutOfTimeError(UnavailableError):
    """The time that whoever answers gives to one answer is over."""


class NetworkError(UnavailableError):
    """A remote service could not be reached, or did not answer usefully."""


class CatalogError(UnavailableError):
    """The catalog store cannot be built or read."""
