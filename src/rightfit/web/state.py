"""The whole state of the planning page as its address: what is shown can be sent, kept and opened again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import get_args
from urllib.parse import urlencode

from rightfit.explain.messages import Lang
from rightfit.records import dataclass
from rightfit.workload.options import OPTIONS

LONGEST_SENTENCE = 2000
LONGEST_VALUE = 300
MOST_COMPARED = 4
MOST_OPTIONS = 12
TABS = ("why", "breakdown", "change", "scale", "buying", "regions", "compare", "export")
#: Options that name files or code of the machine that rightfit runs on: not for visitors.
LOCAL_OPTIONS = frozenset({"trace", "input_shape"})
WISHES = tuple(name for name in OPTIONS if name not in LOCAL_OPTIONS)


@dataclass(frozen=True, slots=True)
class PageState:
    """`ask`: the sentence, as typed; `wishes`: options in the words of their fields; `option`: the rank that is opened; `compare`: ranks
    side by side."""

    ask: str = ""
    wishes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lang: Lang = "en"
    option: int = 1
    compare: tuple[int, ...] = ()
    tab: str = TABS[0]

    @classmethod
    def from_query(cls, query: Mapping[str, str], *, lang: Lang = "en") -> PageState:
        """The state of an address; what does not belong there is left out, what is too long is cut."""
        wishes = {name: value for name in WISHES if (value := clean(query.get(name, ""), LONGEST_VALUE))}
        compare = tuple(dict.fromkeys(rank for text in query.get("compare", "")[:40].split(",") if (rank := _rank(text))))
        said = query.get("lang", "")
        return cls(
            ask=clean(query.get("ask", ""), LONGEST_SENTENCE),
            wishes=wishes,
            lang="zh" if said == "zh" else "en" if said in get_args(Lang) else lang,
            option=_rank(query.get("option", "")) or 1,
            compare=compare[:MOST_COMPARED],
            tab=query["tab"] if query.get("tab") in TABS else TABS[0],
        )

    def query(self) -> dict[str, str]:
        """The parameters of the address; what is as usual is left out."""
        found = {"ask": self.ask, **{name: self.wishes[name] for name in WISHES if self.wishes.get(name)}}
        found |= {"option": str(self.option) if self.option != 1 else "", "compare": ",".join(map(str, self.compare))}
        found |= {"tab": self.tab if self.tab != TABS[0] else "", "lang": self.lang}
        return {name: value for name, value in found.items() if value}

    def address(self, path: str = "/") -> str:
        """The permanent link."""
        return f"{path}?{urlencode(self.query())}"

    def with_wish(self, name: str, value: str) -> PageState:
        """With one option given, or taken away by an empty value; the chosen rank no longer means the same."""
        wishes = {key: old for key, old in self.wishes.items() if key != name}
        text = clean(value, LONGEST_VALUE)
        return dataclasses.replace(self, wishes={**wishes, name: text} if text else wishes, option=1, compare=())

    def with_wishes(self, wishes: Mapping[str, str], *, ask: str = "") -> PageState:
        """With other wishes altogether."""
        kept = {name: clean(str(wishes[name]), LONGEST_VALUE) for name in WISHES if wishes.get(name)}
        return dataclasses.replace(self, wishes=kept, ask=clean(ask, LONGEST_SENTENCE), option=1, compare=())


def clean(text: object, most: int) -> str:
    """Plain text of bounded length: without control characters and blanks at its ends."""
    if not isinstance(text, str):
        return ""
    return "".join(character for character in text[: 2 * most] if character.isprintable()).strip()[:most].strip()


def _rank(text: str) -> int:
    """A rank from 1 to the most that are shown; 0 where it is none."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 3 and 1 <= int(text) <= MOST_OPTIONS else 0
