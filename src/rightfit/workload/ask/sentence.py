"""A sentence as it is read, and what was understood of it."""

from __future__ import annotations

import re
from typing import Any

from rightfit.errors import InputError
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.workload.ask import grammar
from rightfit.workload.ask.leftover import BLANK, demands, known_words
from rightfit.workload.ask.names import is_model, relative
from rightfit.workload.options import read_wish
from rightfit.workload.vocabulary import nearest_words

#: How much is to be done: what stands beside it may be left out, and is shown.
_AMOUNTS = ("data", "users", "rate", "prompts", "steps")
_PLACES = ("country", "region", "residency")
_LISTS = ("cloud", "region", "country", "purchase", "gpu", "avoid")


@dataclass(frozen=True, slots=True)
class Reading:
    """One thing understood: the option, its value in friendly form, and the words it was read from
    (empty: it follows from the rest)."""

    option: str
    value: str
    words: str


@dataclass(frozen=True, slots=True)
class Understood:
    """What a sentence says. `wishes` are options as Workload takes them; `inferred` those that
    follow from others; `weighty` words that no option holds and that would change the answer;
    `unused` those and the soft words; `kind` the kind of data that a kind of work is for;
    `assumed` what a figure takes on trust."""

    sentence: str
    readings: tuple[Reading, ...]
    inferred: tuple[Reading, ...]
    weighty: tuple[str, ...]
    unused: tuple[str, ...]
    own_machine: str = ""
    kind: str = ""
    assumed: tuple[Message, ...] = ()
    #: Cards that are named to rent, each with how many (0: nobody says).
    cards: tuple[tuple[str, int], ...] = ()
    #: The cloud of each card that has its own: "a 4090 on RunPod or 8 H100".
    card_clouds: tuple[tuple[str, str], ...] = ()
    #: Questions whose answers decide, of a story whose facts have no sure place in its plan.
    open: tuple[Message, ...] = ()

    @property
    def wishes(self) -> dict[str, Any]:
        """Options by name."""
        found: dict[str, Any] = {}
        for reading in (*self.readings, *self.inferred):
            if reading.option in _LISTS:
                found[reading.option] = ",".join(dict.fromkeys([*filter(None, found.get(reading.option, "").split(",")), reading.value]))
            else:
                found.setdefault(reading.option, reading.value)
        return found

    def settled(self) -> dict[str, Any]:
        """The wishes of a sentence that is used whole; InputError with the question where a word of
        it is not, or where a machine of one's own is told, which no option of a wish is."""
        if self.weighty or self.own_machine:
            raise InputError(self.question(), field="ask")
        return self.wishes

    def unknown_model(self) -> Message | None:
        """What is said of a well-known model that has no figures here, where no other is named."""
        if "model" in self.wishes:
            return None
        name, near = relative(self.sentence)
        if not name:
            return None
        return Message("workload.relative", name=name, model=near) if near else Message("workload.no_relative", name=name)

    def question(self) -> Message:
        """What is asked about the words that no option holds."""
        words = ", ".join(self.weighty or filter(None, (self.own_machine,)))
        if unknown := self.unknown_model():
            return unknown
        second = next((word for word in self.weighty if is_model(word)), "") if "model" in self.wishes else ""
        if second:
            return Message("workload.second_model", words=words, second=second, model=self.wishes["model"])
        near = [near for word in self.weighty if len(word) > 4 for near in nearest_words(word.casefold(), known_words(), count=1)]
        kind = self._kind_of(self.weighty[0] if self.weighty else "")
        how = Message(f"workload.weighty_{kind}")
        if near:
            return Message("workload.question_near", words=words, how=how, nearest=", ".join(dict.fromkeys(near)))
        return Message("workload.weighty", words=words, how=how)

    def leaves_a_plan(self) -> bool:
        """Whether the rest of the sentence can be planned under the words that no option takes."""
        told = self.wishes
        return self.unknown_model() is None and ("model" in told or told.get("task") == "prepare")

    def turns(self) -> bool:
        """Whether a word that no option takes would turn the answer: it demands or denies, names a
        place or another model, or counts where no amount is told. Others are said above it."""
        is_told, is_placed = (any(option in self.wishes for option in options) for options in (_AMOUNTS, _PLACES))
        return any(
            is_model(word)
            or demands(word)
            or (not is_told and (grammar.HARD_DENIAL.search(word) or _COUNTS.search(word)))
            or (not is_placed and _is_place(word, self.sentence))
            for word in self.weighty
        )

    @staticmethod
    def _kind_of(words: str) -> str:
        """Whether a piece denies, counts, names or says something else: each has its options."""
        if grammar.HARD_DENIAL.search(words):
            return "denial"
        if any(char.isdigit() for char in words):
            return "steps" if grammar.COUNTED_STEPS.fullmatch(words) else "number"
        return "name" if words[:1].isupper() or re.fullmatch(r"[A-Za-z][\w.+-]*[A-Z\d][\w.+-]*", words) else "word"


_COUNTS = re.compile(r"(?<![A-Za-z])\d")  # "8 devs", not "S3"
_PLACE_AHEAD = grammar.shape(r"(?:(?<![A-Za-z]){place_ahead}\s|{place_ahead_zh}\s*)$")


def _is_place(word: str, text: str) -> bool:
    """Whether a name stands where places do."""
    return bool(re.match("[A-Z]", word)) and any(_PLACE_AHEAD.search(text[: one.start()]) for one in re.finditer(re.escape(word), text))


class Sentence:
    """The text, with what has been read blanked out."""

    def __init__(self, text: str) -> None:
        self.text = self.whole = text
        self.readings: list[Reading] = []
        self.asked: list[str] = []
        self.noted: list[str] = []
        self.assumed: list[Message] = []
        self.own_machine = ""
        self.own_at = -1
        #: The kind that is planned like another, and the options that are usual for it.
        self.likeness: tuple[str, str] = ("", "")
        self.card_counts: list[tuple[str, int]] = []
        self.card_spans: list[tuple[int, int]] = []
        self.other_counts: list[str] = []
        self.is_post = False
        self.lease = ""
        #: Words that say that nothing is to be trained.
        self.untrained = ""
        self.each_day = False
        #: Days within which work that comes again is done.
        self.spans = 1
        #: Clouds that are named, where each stands.
        self.cloud_spans: list[tuple[str, int, int]] = []
        #: Cards that a choice is between, each with the cloud that is said of it alone.
        self.card_clouds: list[tuple[str, str]] = []
        self.cut: tuple[str, str] = ("", "")
        self.hours_a_day: tuple[str, float] = ("", 0.0)
        self.kinds: list[str] = []
        #: Words that say that each thing is made anew, and how many times.
        self.remade: tuple[str, float] = ("", 1.0)
        self.data_start = self.data_end = -1
        self.data_samples = 0.0
        self.data_set: tuple[str, str] = ("", "")
        self.denied: dict[int, tuple[int, int]] = {}
        self.accumulation: tuple[str, int] | None = None
        self.steps: tuple[str, float] | None = None
        self.pairs: tuple[float, str] | None = None
        #: Whether something is trained again each day or week.
        self.is_retrained = False
        #: Whether the data are points of time series.
        self.is_series = False
        #: Rows of a recommender's tables: the words, and how many bytes they are.
        self.vector_tables: tuple[str, float] = ("", 0.0)
        #: How long samples are that are counted elsewhere: the words, and tokens.
        self.usual_length: tuple[str, float] = ("", 0.0)
        self.per_time: tuple[str, str, float] | None = None

    def take(self, start: int, end: int, option: str, value: str) -> None:
        self.readings.append(Reading(option, value, self.text[start:end].replace(BLANK, "").strip(" ,;.，。；、")))
        if option == "data":
            self.data_start, self.data_end = start, end
        self.blank(start, end)

    def blank(self, start: int, end: int, mark: str = BLANK) -> str:
        gone = self.text[start:end]
        self.text = self.text[:start] + mark * (end - start) + self.text[end:]
        return gone.replace(BLANK, "").strip()

    def ask(self, start: int, end: int) -> None:
        """These words no option holds."""
        self.asked.append(self.blank(start, end))

    def note(self, start: int, end: int) -> None:
        """These words say something that no figure depends on."""
        self.noted.append(self.blank(start, end))

    def has(self, option: str) -> bool:
        return any(reading.option == option for reading in self.readings)

    def denied_from(self, start: int, end: int) -> tuple[int, int] | None:
        """Where the denial of what stands there begins and ends; None where it is not denied."""
        if start in self.denied:
            return self.denied[start]
        if before := grammar.NEGATED.search(self.text[:start]):
            return before.start(), end
        after = grammar.NEGATED_AFTER.match(self.text, end)
        return (start, after.end()) if after else None

    def wished_softly(self, start: int, end: int) -> bool:
        """Whether what stands there is only liked, "in Zurich if possible": it is noted then."""
        if before := grammar.SOFT_BEFORE.search(self.text[:start]):
            self.note(before.start(), end)
            return True
        after = grammar.SOFT_AFTER.match(self.text, end)
        if after is None:
            return False
        head = grammar.SOFT_HEAD.search(self.text[:start])
        self.note(head.start() if head else start, end if after["others"] else after.end())
        return True

    def deny(self, span: tuple[int, int], option: str, value: str) -> None:
        """What is not wanted, where the option can say so; else it is asked about."""
        opposite = grammar.OPPOSITES.get((option, value), "")
        if not opposite and (option not in ("cloud", "country", "gpu") or value == "none"):
            self.ask(*span)
            return
        words = self.text[slice(*span)].replace(BLANK, "").replace(grammar.DENIED, "").strip()
        self.readings.append(Reading(option, opposite, words) if opposite else Reading("avoid", value, words))
        self.blank(*span, grammar.DENIED)


def is_taken(option: str, value: str) -> bool:
    try:
        read_wish(option, value)
    except InputError:
        return False
    return True
