"""A workload from plain words, by rules alone: what was understood, what was assumed, what
could not be used.

A sentence is read once, rule by rule; what one rule has read no later rule sees (its place is
blanked out). What is left at the end, beyond words that carry nothing, is reported as not used.
Nothing is guessed without saying so.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts import tables
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.units import normalize
from rightfit.workload.ask import grammar
from rightfit.workload.options import read_wish

LONGEST_SENTENCE, LONGEST_NUMBER = 2000, 24
BLANK = "\u241f"
_LISTS = ("cloud", "region", "country", "purchase", "gpu")


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
    follow from others; `unused` words that no option holds."""

    sentence: str
    readings: tuple[Reading, ...]
    inferred: tuple[Reading, ...]
    unused: tuple[str, ...]

    @property
    def weighty(self) -> tuple[str, ...]:
        """Of the words that no option holds those that would change the answer: a law, a period, a
        promise, how many of something."""
        return tuple(piece for piece in self.unused if grammar.WEIGHTY.search(piece) or _is_demand(piece))

    @property
    def own_machine(self) -> str:
        """The machine that somebody has ("I have two RTX 3090 at home"), as --have takes it; empty
        where none is told."""
        gpu = next((reading.value for reading in self.readings if reading.option == "gpu"), "")
        if not gpu or not grammar.OWNING.search(self.sentence):
            return ""
        count = next((piece.split()[0] for piece in self.unused if piece.endswith(f"({gpu})") and piece[0].isdigit()), "1")
        place = next((name for name, spelled in grammar.OWN_PLACES.items() if spelled.search(self.sentence)), "")
        return f"{int(''.join(char for char in count if char.isdigit()))}x{gpu}" + (f"@{place}" if place else "")

    @property
    def wishes(self) -> dict[str, Any]:
        """Options by name."""
        found: dict[str, Any] = {}
        for reading in (*self.readings, *self.inferred):
            if reading.option in _LISTS:
                found[reading.option] = ",".join(filter(None, (found.get(reading.option, ""), reading.value)))
            else:
                found.setdefault(reading.option, reading.value)
        return found


class _Sentence:
    """The text, with what has been read blanked out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.readings: list[Reading] = []

    def take(self, start: int, end: int, option: str, value: str) -> None:
        self.readings.append(Reading(option, value, self.text[start:end].strip(" ,;.，。；、")))
        self.text = self.text[:start] + BLANK * (end - start) + self.text[end:]

    def blank(self, start: int, end: int) -> str:
        gone = self.text[start:end]
        self.text = self.text[:start] + BLANK * (end - start) + self.text[end:]
        return gone.strip()

    def has(self, option: str) -> bool:
        return any(reading.option == option for reading in self.readings)


def understand(text: str, *, today: datetime.date | None = None) -> Understood:
    """Read a wish from plain words. `today` settles "by Monday". InputError when there
    is nothing to read."""
    plain = normalize(text)
    if not plain:
        raise InputError(Message("workload.say_what"), field="ask")
    if len(plain) > LONGEST_SENTENCE:
        raise InputError(Message("workload.sentence_too_long", count=len(plain), most=LONGEST_SENTENCE), field="ask")
    if endless := re.search(rf"\d{{{LONGEST_NUMBER + 1}}}", plain):  # every rule for quantities would try each of its digits
        raise InputError(Message("workload.endless_number", count=LONGEST_NUMBER, digits=endless[0][:10]), field="ask")
    _refuse_unplanned(plain)
    sentence = _Sentence(_with_digits(plain))
    unused: list[str] = []
    _read_hub_id(sentence)
    unused += _memory_sizes(sentence)
    _read_gpus(sentence, unused)
    _read_table_names(sentence)
    for rule in grammar.QUANTITIES:
        _apply(sentence, rule)
    _read_described(sentence)
    _read_deadline(sentence, today or datetime.date.today())
    _read_reward_model(sentence)
    _read_words(sentence)
    _read_places(sentence)
    task_text = sentence.text
    _read_model(sentence)
    inferred = _infer(sentence, task_text)
    return Understood(plain, tuple(sentence.readings), tuple(inferred), (*unused, *_left_over(sentence.text)))


def _refuse_unplanned(text: str) -> None:
    """Methods that no plan knows are refused: without their word the sentence
    would be another wish."""
    for name, pattern in grammar.UNPLANNED.items():
        match = pattern.search(text)
        if match and not _NEGATION.search(text[: match.start()]):
            raise InputError(
                Message("workload.unplanned_method", word=match[0], method=name),
                field="ask",
            )


def _with_digits(text: str) -> str:
    """English number words as digits, and "2w条" as 2 万, so that one grammar reads all."""
    text = tables.shape(grammar.TABLE, r"(?<=\d)\s?[wW](?=\s*{counted_after_w})").sub("万", text)
    digits = grammar.NUMBER_WORDS.sub(lambda match: grammar.ENGLISH_NUMBERS[match[0].casefold()], text)
    return re.sub(r"(?<![\w.])(\d{1,2}) hundred(?![a-z])", r"\g<1>00", digits, flags=re.IGNORECASE)


def _apply(sentence: _Sentence, rule: grammar.GrammarRule) -> None:
    """The first place where a rule holds and its option takes the value."""
    if sentence.has(rule.option):
        return
    for match in rule.pattern.finditer(sentence.text):
        value = rule.read(match)
        is_negative = "value" in match.re.groupindex and _MINUS.search(sentence.text[: match.start("value")])
        if match.end() > match.start() and not is_negative and _is_taken(rule.option, value):
            sentence.take(match.start(), match.end(), rule.option, value)
            return


def _read_described(sentence: _Sentence) -> None:
    """An amount of data whose unit has words before it that say which: "20k math prompts", "2
    million scanned pages"."""
    if sentence.has("data"):
        return
    for match in grammar.DESCRIBED.finditer(sentence.text):
        between = match["between"].casefold().split()
        value = grammar.data_of(f"{match['amount']} {match['unit']}")
        if not grammar.NO_ADJECTIVES & set(between) and not grammar.model_match(match["between"]) and _is_taken("data", value):
            sentence.take(match.start(), match.end(), "data", value)
            return


def _is_taken(option: str, value: str) -> bool:
    try:
        read_wish(option, value)
    except InputError:
        return False
    return True


def _read_hub_id(sentence: _Sentence) -> None:
    for found in (*grammar.HUB_ID.finditer(sentence.text), *grammar.PATH.finditer(sentence.text)):
        is_unit = grammar.shape("{rate_not_id}/{rate_period}s?").fullmatch(found[0])
        if is_unit or sentence.has("model"):
            continue
        sentence.take(found.start(), found.end(), "model", found[0])


_MEMORY = grammar.shape(
    r"(?:\d+(?:\.\d+)?\s?{gigabyte}\s*(?:of\s)?(?:的)?{memory}|{memory_head}\s*{at_least}?\s*\d+(?:\.\d+)?\s?{gigabyte})(?![a-z])"
)
_TOKEN_RATE = grammar.shape(r"\d[\d,.]*\s?[kmb]?\s*tokens?\s*{each_second}\s*{token_period}(?![a-z])(?!\s*{each_again}\s*{token_receiver})")
_CARD_COUNT = grammar.shape(r"(?P<count>{card_count})\s?{times}?\s?{card}?\s?(?:的)?$")
_UNNAMED_CARDS = grammar.shape(
    r"(?<![A-Za-z0-9_.-]){card_count}\s?{card_counter}?\s?(?:\d+(?:\.\d+)?\s?{gigabyte}\s?(?:的)?\s?(?:{memory}\s?(?:的)?\s?)?|"
    + BLANK
    + r"+(?:的)?\s?)?{card_name}(?![a-z])"
)
_MINUS = re.compile(r"(?:^|[^\w.,])-$")  # a dash with a blank behind it begins a line of a list
_NEGATION = grammar.shape(r"{negation}\s*{article}?\s*$")


def _memory_sizes(sentence: _Sentence) -> list[str]:
    """Sizes of memory: the plan finds out what is needed."""
    return [
        sentence.blank(match.start(), match.end()) for pattern in (_MEMORY, _TOKEN_RATE) for match in list(pattern.finditer(sentence.text))
    ]


def _read_gpus(sentence: _Sentence, unused: list[str]) -> None:
    """Accelerators by name. How many is for the plan to say, so a count is reported as not used; a
    name after "no" is too."""
    for start, end, name in reversed(grammar.gpu_matches(sentence.text)):
        before = sentence.text[:start]
        if negated := _NEGATION.search(before):
            unused.append(sentence.blank(negated.start(), end))
            continue
        sentence.take(start, end, "gpu", name)
        if counted := _CARD_COUNT.search(before):
            unused.append(sentence.blank(counted.start(), counted.end()) + f" ({name})")
    while counted := _UNNAMED_CARDS.search(sentence.text):  # "8 张卡" is no amount of pictures
        unused.append(sentence.blank(*counted.span()))
    gpus = [reading for reading in sentence.readings if reading.option == "gpu"]
    others = [reading for reading in sentence.readings if reading.option != "gpu"]
    sentence.readings = [*others, *reversed(gpus)]


def _read_table_names(sentence: _Sentence) -> None:
    """Data sets by name, before amounts are read: "CIFAR-10" holds a number."""
    if found := grammar.dataset_match(sentence.text):
        start, end, name = found
        if _is_taken("data", name):
            sentence.take(start, end, "data", name)


def _read_deadline(sentence: _Sentence, today: datetime.date) -> None:
    for rule in grammar.DEADLINES:
        _apply(sentence, rule)
    if sentence.has("deadline"):
        return
    if match := grammar.BY_WEEKDAY.search(sentence.text):
        day = grammar.WEEKDAYS[(match["en"] or match["zh"]).casefold()]
        ahead = (day - today.weekday()) % 7 or 7
        sentence.take(match.start(), match.end(), "deadline", f"{ahead * 24}h")
        return
    for pattern, value in grammar.DEADLINE_WORDS:
        if match := pattern.search(sentence.text):
            sentence.take(match.start(), match.end(), "deadline", value)
            return


def _read_words(sentence: _Sentence) -> None:
    """Words for a choice. Purchase modes may be several; of the others the first that fits is
    taken, the most particular being listed first."""
    for option, choices, several in (
        ("purchase", grammar.PURCHASES, True),
        ("method", grammar.TUNING_METHODS, False),
        ("update", grammar.UPDATES, False),
        ("method", grammar.METHODS, False),
        ("optimizer", grammar.OPTIMIZERS, False),
        ("sharding", grammar.SHARDINGS, False),
        ("framework", grammar.FRAMEWORKS, False),
        ("quantization", grammar.QUANTIZATIONS, False),
        ("precision", grammar.PRECISIONS, False),
        ("objective", grammar.OBJECTIVES, False),
        ("max_nodes", grammar.MAX_NODES, False),
        ("residency", grammar.RESIDENCIES, False),
    ):
        _read_choice(sentence, option, choices, several=several)


def _read_choice(sentence: _Sentence, option: str, choices: Mapping[str, re.Pattern[str]], *, several: bool) -> None:
    if option == "update" and not sentence.has("method"):
        return  # only beside a method that learns from preferences or rewards
    if option == "method" and sentence.has("method"):
        return
    if choices is grammar.TUNING_METHODS:
        _read_tuning(sentence)
        return
    for value, pattern in choices.items():
        match = pattern.search(sentence.text)
        if match and not _NEGATION.search(sentence.text[: match.start()]):
            sentence.take(match.start(), match.end(), option, value)
            if not several:
                return


def _read_tuning(sentence: _Sentence) -> None:
    """A method that learns from preferences or rewards: the first that is named, an abbreviation
    before the words for its kind. The other words for it have then been used."""
    named = [*grammar.TUNING_METHODS.items(), *grammar.TUNING_KINDS.items()]
    for value, pattern in named:
        match = pattern.search(sentence.text)
        if match and not _NEGATION.search(sentence.text[: match.start()]):
            sentence.take(match.start(), match.end(), "method", value)
            break
    if sentence.has("method"):
        for _, pattern in named:
            for match in list(pattern.finditer(sentence.text)):
                sentence.blank(match.start(), match.end())


def _read_places(sentence: _Sentence) -> None:
    """Clouds, regions, countries, cities."""
    for match in grammar.REGION.finditer(sentence.text):
        sentence.take(match.start(), match.end(), "region", match[0])
    for match in list(grammar.CLOUD.finditer(sentence.text)):
        key = re.sub(r"[\s-]+", " ", match[0].casefold())
        sentence.take(match.start(), match.end(), "cloud", grammar.CLOUD_NAMES.get(key) or grammar.CLOUD_NAMES[key.replace(" ", "")])
    for match in list(grammar.CITY.finditer(sentence.text)):
        sentence.take(match.start(), match.end(), "region", match[0])
    for match in list(grammar.COUNTRY.finditer(sentence.text)):
        key = re.sub(r"[\s-]+", " ", match[0].casefold())
        sentence.take(match.start(), match.end(), "country", grammar.COUNTRY_NAMES.get(key) or grammar.COUNTRY_NAMES[match[0]])
    for match in list(grammar.COUNTRY_CODE.finditer(sentence.text)):
        sentence.take(match.start(), match.end(), "country", grammar.COUNTRY_CODES[match["code"]])


_REWARD_MODEL = grammar.shape(r"{reward_model_head}\s*")


def _read_reward_model(sentence: _Sentence) -> None:
    """The model after "reward model": it rewards the answers of another one, which is trained."""
    for head in _REWARD_MODEL.finditer(sentence.text):
        before = sentence.text[: head.end()]
        found = grammar.model_match(sentence.text[head.end() :])
        if found and found[0] == 0 and grammar.model_match(before):
            sentence.take(head.start(), len(before) + found[1], "reward_model", found[2])
            return


def _read_model(sentence: _Sentence) -> None:
    """The model: by name, by its Chinese name, or by a bare size."""
    if sentence.has("model"):
        return
    found = grammar.chinese_model(sentence.text) or grammar.model_match(sentence.text)
    if found:
        start, end, name = found
        sentence.take(start, end, "model", name)
        return
    if match := grammar.BARE_SIZE.search(sentence.text):
        sentence.take(match.start(), match.end(), "model", _size_of(match))


def _size_of(match: re.Match[str]) -> str:
    """ "70亿参数" -> "7B"."""
    if match["latin"]:
        return match["latin"].replace(" ", "").upper()
    from rightfit.units import parse_count

    return f"{parse_count(match['han'] + match['unit']) / 1e9:g}B"


def _infer(sentence: _Sentence, text: str) -> list[Reading]:
    """What follows from the rest: the task, and options that mean something else in it."""
    task = _task(sentence, text)
    inferred = [Reading("task", task, "")] if task else []
    if task == "prepare" and (operation := _operation(text)):
        inferred.append(Reading("operation", operation, ""))
    for found in _task_words(sentence.text, task):
        sentence.blank(*found)
    if task in ("serve", "batch"):
        sentence.readings = [_as_prompt(reading) for reading in sentence.readings]
    if task == "finetune" and sentence.has("quantization") and sentence.has("method"):
        sentence.readings = [
            _as_qlora(reading)
            for reading in sentence.readings
            if not (reading.option == "quantization" and reading.value in ("nf4", "int4"))
        ]
    if task in ("train", "finetune") and sentence.has("framework"):
        sentence.readings = [
            reading for reading in sentence.readings if reading.option != "framework" or reading.value not in ("onnxruntime",)
        ]
    return inferred


def _operation(text: str) -> str:
    """What is to be done with the data: the first operation of the table whose words the sentence
    holds; "" where none does."""
    chinese = tables.meaning(grammar.WORDS_TABLE, "operation_zh", text)
    if chinese:
        return chinese
    rows = facts.table("preparation_operations")
    return next((row["operation"] for row in rows if re.search(row["pattern"], text, re.IGNORECASE)), "")


def _as_prompt(reading: Reading) -> Reading:
    """Where requests are answered, a context is the length of the prompt."""
    return dataclasses.replace(reading, option="input_tokens") if reading.option == "seq_len" else reading


def _as_qlora(reading: Reading) -> Reading:
    return dataclasses.replace(reading, value="qlora") if reading.option in ("method", "update") and reading.value == "lora" else reading


def _task(sentence: _Sentence, text: str) -> str:
    """The task that the words and figures mean; "" when nothing tells."""
    read = " ".join(reading.words for reading in sentence.readings if reading.option in ("method", "model"))
    first = {task: match.start() for task, pattern in grammar.STRONG.items() if (match := pattern.search(text))}
    if sentence.has("method"):
        return "finetune"
    serves = any(sentence.has(option) for option in ("rate", "users", "ttft", "tpot", "latency"))
    if serves and not ({"train", "finetune"} & set(first)):
        return "serve"
    if first:
        return min(first, key=lambda task: (_PREFERENCE.index(task) if task == "finetune" else 1, first[task]))
    for task, pattern in grammar.TASKS.items():
        if pattern.search(f"{text} {read}"):
            return task
    if any(sentence.has(option) for option in ("epochs", "global_batch", "optimizer", "sharding")):
        return "train"
    return ""


_PREFERENCE = ("finetune", "train", "batch", "serve", "prepare")


def _task_words(text: str, task: str) -> Iterable[tuple[int, int]]:
    """Places of words that name tasks: they have been used."""
    for pattern in grammar.TASKS.values():
        for match in pattern.finditer(text):
            yield match.start(), match.end()


def _is_demand(piece: str) -> bool:
    """Whether a piece counts something: so many of a thing, or so many tokens in a time."""
    counted = grammar.COUNTED.fullmatch(piece)
    return bool(counted and counted["thing"].casefold() not in grammar.FILLERS) or bool(_TOKEN_RATE.fullmatch(piece))


def _left_over(text: str) -> list[str]:
    """Pieces that nothing has read and that are more than filler; a number with the
    word that it counts."""
    pieces = []
    for counted in list(grammar.COUNTED.finditer(text)):
        if counted["thing"].casefold() not in grammar.FILLERS:
            pieces.append(counted[0])
            text = text[: counted.start()] + BLANK * len(counted[0]) + text[counted.end() :]
    for piece in re.split(rf"[{BLANK}\s,.;:!?()\"'，。；：！？（）、“”/]+", text):
        if piece.isascii():
            if len(piece) > 1 and piece.casefold() not in grammar.FILLERS and not piece.isdigit():
                pieces.append(piece)
        else:
            rest = grammar.FILLERS_ZH.sub("", piece)
            if len(rest) > 1:
                pieces.append(rest)
    return list(dict.fromkeys(pieces))


__all__ = ["Reading", "Understood", "understand"]
