"""Fields for the options of a workload, built from the one table of options: a choice where there
are words, else a line of text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, get_args
from urllib.parse import urlencode

from nicegui import ui

from rightfit.explain import quantities as q
from rightfit.messages import Lang
from rightfit.records import dataclass
from rightfit.web.words import choice_name, option_name, word, words
from rightfit.workload.options import OPTIONS, RequestOption
from rightfit.workload.vocabulary import fold

# ---- The whole state of the planning page as its address: what is shown can be sent,
# kept and opened again.

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
    """`ask`: the sentence, as typed; `wishes`: options in the words of their fields; `option`: the
    rank that is opened; `compare`: ranks side by side."""

    ask: str = ""
    wishes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lang: Lang = "en"
    option: int = 1
    compare: tuple[int, ...] = ()
    tab: str = TABS[0]

    @classmethod
    def from_query(cls, query: Mapping[str, str], *, lang: Lang = "en") -> PageState:
        """The state of an address; what does not belong there is left out, what
        is too long is cut."""
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
        """With one option given, or taken away by an empty value; the chosen rank no
        longer means the same."""
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


#: A coroutine, said exactly: mypy refuses whoever calls it without waiting for it.
Changed = Callable[[str, str], Coroutine[Any, Any, None]]
#: The fields that matter for each task, in the order of a conversation; everything else is
#: under "more options".
MAIN = {
    "train": ("model", "task", "data", "epochs", "deadline", "budget", "cloud", "purchase"),
    "finetune": ("model", "task", "method", "data", "deadline", "budget", "cloud", "purchase"),
    "serve": ("model", "task", "users", "rate", "ttft", "budget", "cloud", "purchase"),
    "batch": ("model", "task", "data", "output_tokens", "deadline", "budget", "cloud", "purchase"),
    "prepare": ("operation", "task", "data", "library", "deadline", "budget", "cloud", "purchase"),
}
USUAL_TASK = "finetune"
MOST_SUGGESTED = 12


def main_options(task: str) -> tuple[str, ...]:
    """The fields that are shown at once."""
    return MAIN.get(task, MAIN[USUAL_TASK])


def more_options(task: str) -> tuple[str, ...]:
    """The rest, in the order of the table."""
    shown = set(main_options(task))
    return tuple(name for name in WISHES if name not in shown)


def field(name: str, value: str, lang: Lang, changed: Changed, *, clouds: tuple[str, ...]) -> Any:
    """One field; `changed(name, value)` is called when the visitor has finished changing it."""
    option = OPTIONS[name]
    if name == "cloud":
        return _choices(option, value, {code: q.provider_text(code, lang) for code in clouds}, lang, changed, several=True)
    if option.vocabulary is not None:
        words = {code: value_name(name, code, lang) for code in option.vocabulary.words}
        return _choices(option, value, words, lang, changed, several=option.kind == "words")
    return _line(option, value, lang, changed)


def value_name(option: str, code: str, lang: Lang) -> str:
    """The value of an option in the reader's language, where it is a word."""
    if option in ("purchase", "method"):
        return q.purchase_text(code, lang) if option == "purchase" else q.method_text(code, lang)
    if option == "cloud":
        return q.provider_text(code, lang)
    return code.upper() if option == "currency" else choice_name(option, code, lang)


def _choices(option: RequestOption, value: str, words: dict[str, str], lang: Lang, changed: Changed, *, several: bool) -> Any:
    """A list to choose from; a value that is not in the list (another spelling, or nonsense from an
    address) is shown as it was given."""
    given = [part.strip() for part in value.split(",") if part.strip()] if several else [value] if value else []
    settled = [_settled(option, part) for part in given]
    words = words | {part: part for part in settled if part not in words}
    start: Any = settled if several else (settled[0] if settled else None)
    found = ui.select(words, label=option_name(option.name, lang), value=start, multiple=several, clearable=True)
    found.props(f"outlined dense options-dense stack-label {'use-chips' if several else ''}")
    found.on_value_change(lambda event: changed(option.name, ",".join(event.value or ()) if several else event.value or ""))
    return _labelled(found, option, lang)


def example_of(option: RequestOption, lang: Lang) -> str:
    """A value of an option as its readers write it: units and currency of the language."""
    entry = words()["value"].get(option.name)
    return entry[lang] if entry else option.example


def _settled(option: RequestOption, text: str) -> str:
    if option.vocabulary is None:
        return text
    folded = fold(text)
    return folded if folded in option.vocabulary.words else option.vocabulary.aliases.get(folded, text)


def _line(option: RequestOption, value: str, lang: Lang, changed: Changed) -> Any:
    found = ui.input(
        option_name(option.name, lang),
        value=value,
        placeholder=word("ask.for_example", lang, example=example_of(option, lang)) if option.example else "",
    )
    found.props(f"outlined dense stack-label maxlength={LONGEST_VALUE} autocomplete=off spellcheck=false data-option={option.name}")
    last = value

    async def settle() -> None:
        nonlocal last
        now = str(found.value or "")
        if now != last:
            last = now
            await changed(option.name, now)

    found.on("change", settle)  # Tab, a click elsewhere, a suggestion that was taken
    found.on("keydown.enter", settle)
    return _labelled(found, option, lang)


def _labelled(element: Any, option: RequestOption, lang: Lang) -> Any:
    if lang == "en" and option.help:
        element.props["title"] = option.help
    return element.mark(f"field-{option.name}")


def show_error(element: Any, message: str) -> None:
    """One line below a field; an empty one takes it away."""
    element.props["error"] = bool(message)
    element.props["error-message"] = message


def list_name(element: Any) -> str:
    """The name under which a line of text looks for its suggestions; NiceGUI gives it, whatever
    is said of `list`."""
    return f"{element.html_id}-datalist"


def model_names(query: str) -> list[str]:
    """Names to suggest while a model is typed."""
    from rightfit import api

    if not query.strip():
        return []
    return [record.name for record in api.models(query.strip()[:LONGEST_VALUE])[:MOST_SUGGESTED]]
