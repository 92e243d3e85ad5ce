"""What a record may say of a command, an address or a line of text: only what is known to do no
harm when somebody else reads it.

A command keeps its program, the names of its options, and the values of those options that are
known to hold none but settings (facts/data/harmless_words.csv); every other value is left out,
however it is spelt. Text that nobody can know beforehand is searched for keys by their shapes, by
the names that stand before them, and by detect-secrets where that is installed (rightfit[measure]).
Cleaning twice changes nothing, so that a record keeps its id.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from rightfit import facts

HIDDEN = "***"

# ---- the words that are known --------------------------------------------------------------------


@cache
def _known(kind: str) -> frozenset[str]:
    return frozenset(word for row in facts.table("harmless_words") if row["kind"] == kind for word in row["words"].split())


_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?\s?(k|m|g|t|b|ki?b|mi?b|gi?b|ti?b|s|ms|min|h|d|/s)?", re.IGNORECASE)
_SWITCH = re.compile(r"true|false|yes|no|on|off|none|null|auto|inf", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][\w.+-]{0,31}(,[A-Za-z][\w.+-]{0,31})*")
_NAME = re.compile(r"[\w.~][\w.@+~/-]{0,199}")
_MODULE = re.compile(r"[A-Za-z_]\w{0,39}(\.\w{1,40})*")
_OPTION = re.compile(r"--?[A-Za-z][\w.-]{0,59}")
_CUT = re.compile(r"-[A-Za-z]\*{3}")  # what is left of one that was cleaned before
_VARIABLE = re.compile(r"[+~]{0,2}[A-Za-z_][\w./-]{0,79}")
_SECRET_OPTION = re.compile(r"key|token|secret|pass|pw|auth|cred|cookie|user|dsn|sig|^-[pu]$", re.IGNORECASE)
_PYTHON = re.compile(r"(.*/)?(python|pypy)[\d.]*")


def _is_number(text: str) -> bool:
    return all(_NUMBER.fullmatch(part) or _SWITCH.fullmatch(part) for part in re.split(r"[,:x]", text)) and len(text) <= 40


#: Kinds of options -> what their values look like; a value that looks otherwise is left out.
_SHAPES: Mapping[str, Callable[[str], bool]] = {
    "number": _is_number,
    "word": lambda text: _is_number(text) or bool(_WORD.fullmatch(text)),
    "name": lambda text: bool(_NAME.fullmatch(text)),
}


def _may_stay(option: str, value: str) -> bool:
    """Whether the value of an option is a setting that is known. Of "trainer.max_steps" the last
    part counts."""
    name = option.lstrip("-+~").rpartition(".")[2].replace("-", "_")
    shapes = (shape for kind, shape in _SHAPES.items() if name.casefold() in _known(kind))
    return any(shape(value) for shape in shapes) or (name in _known("variable") and _SHAPES["word"](value))


# ---- commands ------------------------------------------------------------------------------------


def harmless_command(text: str) -> str:
    """A command line as a shell would read it, with its program, its options and their known
    values; `***` stands for what is left out."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that nobody closes
        words = text.split()
    kept = list(_kept(words))
    return harmless_text(" ".join(word if HIDDEN in word else shlex.quote(word) for word in kept))


def _kept(words: Sequence[str]) -> Iterator[str]:
    option, is_first, is_python = "", True, False
    for word in words:
        value_of, option = option, ""
        if word in ("--", "-", HIDDEN):
            yield word
        elif word.startswith("-"):
            if "=" in word:
                yield _pair_of(word, _OPTION)
            else:
                option = word if _OPTION.fullmatch(word) else ""
                yield _option(word)
        elif value_of and (_may_stay(value_of, word) or (is_python and value_of == "-m" and _MODULE.fullmatch(word))):
            yield word
        elif "=" in word.partition("://")[0]:
            yield _pair_of(word, _VARIABLE)
        elif _is_program(word, is_first=is_first, value_of=value_of, is_python=is_python):
            is_first, is_python = False, bool(_PYTHON.fullmatch(word))
            yield word
        else:
            yield _address_of(word)


def _pair_of(word: str, named: re.Pattern[str]) -> str:
    name, _, value = word.partition("=")
    return HIDDEN if not named.fullmatch(name) else f"{name}={value if _may_stay(name, value) else HIDDEN}"


def _option(word: str) -> str:
    """The name of an option. Behind one hyphen a value may follow without a blank: -ppassword."""
    if not _OPTION.fullmatch(word):
        return word if _is_number(word) or _CUT.fullmatch(word) else HIDDEN
    name = word.lstrip("-").replace("-", "_").casefold()
    if word.startswith("--") or len(word) == 2 or any(name in _known(kind) for kind in ("number", "word", "name", "module")):
        return word
    return word if _may_stay(word[1], word[2:]) else f"{word[:2]}{HIDDEN}"


def _is_program(word: str, *, is_first: bool, value_of: str, is_python: bool) -> bool:
    """Whether a word names what runs: the first word, a program that another one starts, a file of
    code or settings. Behind an option that is not known it may be its value: only a file stays."""
    base = word.rpartition("/")[2]
    if not _NAME.fullmatch(word) or (_SECRET_OPTION.search(value_of) and not (value_of == "-u" and is_python)):
        return False
    if "." in base.strip(".") and base.rpartition(".")[2].casefold() in _known("ending"):
        return True
    return not value_of and (is_first or base in _known("program") or base in _known("subcommand"))


def _address_of(word: str) -> str:
    """Of an address the host; of anything else nothing."""
    if "://" not in word:
        return HIDDEN
    place = harmless_address(word).split("://", 1)
    return HIDDEN if len(place) < 2 else f"{place[0]}://{place[1].partition('/')[0].partition('?')[0]}"


# ---- addresses -----------------------------------------------------------------------------------

_ADDRESS = re.compile(r"[A-Za-z][\w+.-]{0,20}://[^\s'\"<>,]+")
#: A password as people paste it, with marks that an address would write as %2F; a port is none.
_PASSWORD = re.compile(r"(?<=://)[^/\s@:]{0,200}:(?!\d{1,5}/)[^\s@]{0,500}@")
_USER = re.compile(r"^[^/\s:@]+:[^/\s@]+@")


def harmless_address(text: str) -> str:
    """An address or a path without users, keys, values of its query and what stands behind #; a
    path's own # (a line of a file) stays."""
    if "://" not in text:
        return harmless_text(_USER.sub("", text))
    try:
        parts = urlsplit(_PASSWORD.sub("", text))
        place = parts.netloc.rpartition("@")[2]
    except ValueError:
        return HIDDEN
    query = "&".join(map(_pair, parts.query.split("&"))) if parts.query else ""
    return _without_keys(urlunsplit((parts.scheme, place, parts.path, query, "")))


def _pair(text: str) -> str:
    name, equals, value = text.partition("=")
    if not equals:
        return HIDDEN
    return f"{name}={value if name in _known('query') and (_is_number(value) or _WORD.fullmatch(value)) else HIDDEN}"


# ---- text ----------------------------------------------------------------------------------------

#: Keys by the beginnings that their makers give them.
_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"hf_\w{8,}|sk-[\w-]{8,}|[srp]k_(?:live|test)_\w{8,}|whsec_\w{8,}|(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)\w{12,}|LTAI\w{8,}|AKID\w{12,}|"
    r"AIza[\w-]{16,}|ya29\.[\w-]{8,}|GOCSPX-[\w-]{8,}|gh[pousr]_\w{16,}|github_pat_\w{8,}|gl(?:pat|dt|rt|cbt)-[\w-]{8,}|xox[abeprs]-[\w-]{8,}|xapp-[\w-]{8,}|"
    r"npm_\w{16,}|pypi-[\w-]{16,}|dop_v1_\w{16,}|SG\.[\w-]{8,}\.[\w-]{8,}|nvapi-[\w-]{8,}|r8_\w{16,}|gsk_\w{16,}|wandb_v\d_\w{8,}|"
    r"dckr_pat_[\w-]{8,}|hv[sb]\.[\w-]{8,}|tskey-[\w-]{8,}|sq0\w{3}-[\w-]{8,}|shp(?:at|ss|ca)_\w{8,}|lin_api_\w{8,}|AGE-SECRET-KEY-\w+|"
    r"eyJ[A-Za-z0-9]{8,4000}\.[\w.-]+)|(?<![\w-])ey[\w-]{20,4000}\.[\w-]{8,}\.[\w-]*"
)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
#: Letters and digits without a blank, as no word has them: hexadecimal keys, random text.
_RANDOM = re.compile(r"(?<![A-Za-z0-9])(?=(?:[A-Za-z]{0,60}\d){4})(?=(?:\d{0,60}[A-Za-z]){4})[A-Za-z0-9]{24,}={0,2}(?![A-Za-z0-9])")
_NAMES_A_KEY = (
    r"(?:api|access|secret|private|account|storage|auth|shared|encryption|service|wandb|signing|ssh)[-_ ]?keys?(?:[-_]?id)?|tokens?|"
    r"secrets?|passw(?:or)?d|passphrase|pwd|passwd|credentials?|authorization|dsn|sig|signature|x-amz-\w+|cookie"
)
_TOKEN_COUNTS = re.compile(
    r"(input|output|max|num|min|new|per|total|random)[-_]tokens?|tokens?[-_](per|count|num)|tokeniz|^tokens?$", re.IGNORECASE
)
_NAMED = re.compile(
    rf"(?<![A-Za-z0-9])((?:[A-Za-z0-9]{{1,40}}[-_.]){{0,6}}(?:{_NAMES_A_KEY}))(['\"]?\s*(?:=|:)\s*)(?!//)((?:(?:bearer|basic|token|digest)\s+)?['\"]?[^\s'\",;&]+)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"\b(bearer|basic|digest)\s+(?=[\w+/.~-]{0,80}[\d+/=_.-])[\w+/=.~-]{6,}", re.IGNORECASE)


def harmless_text(text: str) -> str:
    """A text without anything that looks like a key, stands behind the name of one, or is the user
    of an address."""
    clean = _ADDRESS.sub(lambda found: harmless_address(found[0]), text)
    clean = _NAMED.sub(lambda found: found[0] if _is_count(found[1], found[3]) else f"{found[1]}{found[2]}{HIDDEN}", clean)
    return _detected(_without_keys(_SCHEME.sub(rf"\1 {HIDDEN}", clean)))


def _is_count(name: str, value: str) -> bool:
    return value == HIDDEN or (bool(_TOKEN_COUNTS.search(name)) and _is_number(value))


def _without_keys(text: str) -> str:
    return _RANDOM.sub(HIDDEN, _KEYS.sub(HIDDEN, _PEM.sub(HIDDEN, text)))


@cache
def _detectors() -> tuple[Any, ...]:
    """The detectors of detect-secrets that know a key by its shape; those that go by entropy or by
    a name find settings too. Empty where it is not installed."""
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.plugins.base import RegexBasedDetector
    except ImportError:
        return ()
    classes = get_mapping_from_secret_type_to_class().values()
    return tuple(one() for one in classes if issubclass(one, RegexBasedDetector) and one.__name__ != "IPPublicDetector")


def _detected(text: str) -> str:
    for detector in _detectors():
        for line in text.splitlines():
            for secret in detector.analyze_string(line):
                text = text.replace(secret, HIDDEN) if secret.strip(" *'\"") else text
    return text


def harmless(value: Any) -> Any:
    """A value as JSON has them, with every text in it, keys too, without secrets."""
    if isinstance(value, str):
        return harmless_text(value)
    if isinstance(value, Mapping):
        return {key: HIDDEN if _is_secret(key, item) else harmless(item) for key, item in value.items()}
    return [harmless(item) for item in value] if isinstance(value, list | tuple) else value


def _is_secret(key: Any, item: Any) -> bool:
    return (
        isinstance(item, str)
        and bool(item)
        and bool(re.fullmatch(rf"(?:[^-_.]+[-_.])*(?:{_NAMES_A_KEY})", str(key), re.IGNORECASE))
        and not _is_count(str(key), item)
    )
