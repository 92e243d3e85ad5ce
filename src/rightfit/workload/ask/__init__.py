"""A workload from plain words, by rules alone: what was understood, what was assumed, what could
not be used.

A sentence is read in steps, and what one has read no later one sees (its place is blanked out).
First the names (`names`), the longest first; then quantities, each with the noun that it counts
(`grammar`); then words for a choice. A word that denies, compares or counts reaches only what it
stands before. What is left at the end is hard (`leftover`): the answer stops with a question.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Mapping
from typing import Any

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts import tables
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.units import normalize, parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.leftover import BLANK, known_words, left_over
from rightfit.workload.ask.names import Name, is_model, names_in
from rightfit.workload.options import read_wish
from rightfit.workload.vocabulary import nearest_words

LONGEST_SENTENCE, LONGEST_NUMBER = 2000, 24
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
    `unused` those and the soft words; `kind` the kind of data that a kind of work is for."""

    sentence: str
    readings: tuple[Reading, ...]
    inferred: tuple[Reading, ...]
    weighty: tuple[str, ...]
    unused: tuple[str, ...]
    own_machine: str = ""
    kind: str = ""

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

    def settled(self) -> dict[str, Any]:
        """The wishes of a sentence that is used whole; InputError with the question where a word of
        it is not, or where a machine of one's own is told, which no option of a wish is."""
        if self.weighty or self.own_machine:
            raise InputError(self.question(), field="ask")
        return self.wishes

    def question(self) -> Message:
        """What is asked about the words that no option holds."""
        words = ", ".join((*self.weighty, *filter(None, (self.own_machine,))))
        near = [near for word in self.weighty for near in nearest_words(word.casefold(), known_words(), count=1)]
        if near:
            return Message("workload.weighty_near", words=words, nearest=", ".join(dict.fromkeys(near)))
        return Message("workload.weighty", words=words)


class _Sentence:
    """The text, with what has been read blanked out."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.readings: list[Reading] = []
        self.asked: list[str] = []
        self.own_machine = ""
        self.kinds: list[str] = []

    def take(self, start: int, end: int, option: str, value: str) -> None:
        self.readings.append(Reading(option, value, self.text[start:end].replace(BLANK, "").strip(" ,;.，。；、")))
        self.blank(start, end)

    def blank(self, start: int, end: int, mark: str = BLANK) -> str:
        gone = self.text[start:end]
        self.text = self.text[:start] + mark * (end - start) + self.text[end:]
        return gone.replace(BLANK, "").strip()

    def ask(self, start: int, end: int) -> None:
        """These words no option holds."""
        self.asked.append(self.blank(start, end))

    def has(self, option: str) -> bool:
        return any(reading.option == option for reading in self.readings)

    def denied_from(self, start: int, end: int) -> tuple[int, int] | None:
        """Where the denial of what stands there begins and ends; None where it is not denied."""
        if before := grammar.NEGATED.search(self.text[:start]):
            return before.start(), end
        after = grammar.NEGATED_AFTER.match(self.text, end)
        return (start, after.end()) if after else None


_DASH = re.compile(r"(?<=\s)[-–—](?=\s)")
"""Between the parts of a sentence: it stands between no two numbers."""


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
    sentence = _Sentence(_with_digits(normalize(_DASH.sub(";", text.replace("，", ", ")))))
    for match in list(grammar.NO_MODEL.finditer(sentence.text)):
        sentence.blank(*match.span())
    _read_hub_id(sentence)
    _read_names(sentence)
    _read_cards(sentence)
    for rule in grammar.QUANTITIES:
        _apply(sentence, rule)
    _read_described(sentence)
    _read_deadline(sentence, today or datetime.date.today())
    _read_words(sentence)
    for match in list(grammar.NO_SERVICE.finditer(sentence.text)):
        sentence.blank(*match.span())
    task_text = " ".join((sentence.text, *(reading.words for reading in sentence.readings if reading.option == "data")))
    _read_size(sentence)
    inferred = _infer(sentence, task_text)
    _read_amount(sentence, inferred)
    for again in (grammar.GLUE_PHRASE, *((grammar.QUANTIZED,) if sentence.has("quantization") else ())):
        for match in list(again.finditer(sentence.text)):
            sentence.blank(*match.span())
    hard, soft = left_over(sentence.text)
    weighty = tuple(dict.fromkeys((*sentence.asked, *hard)))
    kind = next(iter(sentence.kinds), "")
    return Understood(plain, tuple(sentence.readings), tuple(inferred), weighty, (*weighty, *soft), sentence.own_machine, kind)


def _refuse_unplanned(text: str) -> None:
    """Methods that no plan knows are refused: without their word the sentence
    would be another wish."""
    for name, pattern in grammar.UNPLANNED.items():
        match = pattern.search(text)
        if match and not grammar.NEGATED.search(text[: match.start()]):
            raise InputError(Message("workload.unplanned_method", word=match[0], method=name), field="ask")


def _with_digits(text: str) -> str:
    """English number words as digits, and "2w条" as 2 万, so that one grammar reads all."""
    text = tables.shape(grammar.TABLE, r"(?<=\d)\s?[wW](?=\s*{counted_after_w})").sub("万", text)
    digits = grammar.NUMBER_WORDS.sub(lambda match: grammar.ENGLISH_NUMBERS[match[0].casefold()], text)
    digits = re.sub(r"(?<![\w.])(\d{1,2}) hundred(?![a-z])", r"\g<1>00", digits, flags=re.IGNORECASE)
    return re.sub(r"(?<![\w.])(\d{1,3}) thousand(?![a-z])", r"\g<1>000", digits, flags=re.IGNORECASE)


# ---- Names, and what reaches them.


def _read_hub_id(sentence: _Sentence) -> None:
    for found in (*grammar.HUB_ID.finditer(sentence.text), *grammar.PATH.finditer(sentence.text)):
        is_unit = grammar.shape("{rate_not_id}/{rate_period}s?").fullmatch(found[0])
        if is_unit or sentence.has("model"):
            continue
        sentence.take(found.start(), found.end(), "model", found[0])


def _read_names(sentence: _Sentence) -> None:
    """What is named. The model is the longest of the names of models, one behind "reward model"
    rewards; other models, servers and kinds that no usual model stands for are asked about."""
    names = names_in(sentence.text)
    models = [name for name in names if name.kind == "model"]
    rewarding = _rewarding(sentence, models)
    model = max((name for name in models if name is not rewarding), key=lambda one: one.end - one.start, default=None)
    for name in names:
        if name.kind == "gpu":
            _read_gpu(sentence, name)
        elif name.kind in ("cloud", "country", "region", "city"):
            _read_place(sentence, name)
        elif name.kind == "data" and not sentence.has("data") and _is_taken("data", name.value):
            sentence.take(name.start, name.end, "data", name.value)
        elif name.kind == "server":
            sentence.ask(name.start, name.end)
        elif name.kind == "choice":
            sentence.blank(name.start, name.end)
        elif name is model and not sentence.has("model"):
            sentence.take(name.start, name.end, "model", name.value)
        elif name.kind == "work":
            _read_kind(sentence, name, is_named=model is not None or sentence.has("model"))


def _rewarding(sentence: _Sentence, models: list[Name]) -> Name | None:
    """The model after "reward model": it rewards the answers of another one, which is trained."""
    for name in models if len(models) > 1 else ():
        if head := grammar.shape(r"{reward_model_head}\s*$").search(sentence.text[: name.start]):
            sentence.take(head.start(), name.end, "reward_model", name.value)
            return name
    return None


def _read_kind(sentence: _Sentence, name: Name, *, is_named: bool) -> None:
    """A kind of work: beside a model it says nothing more; alone, usual models of its kind of data
    stand for it, or it is asked which model is meant."""
    kind = grammar.KINDS_OF_DATA.get(name.value.casefold(), "")
    if not is_named and kind not in {row["kind"] for row in facts.table("typical_models")}:
        sentence.ask(name.start, name.end)
        return
    if not is_named:
        sentence.kinds.append(kind)
    sentence.blank(name.start, name.end)


def _read_place(sentence: _Sentence, name: Name) -> None:
    option = "region" if name.kind == "city" else name.kind
    if option == "country" and name.value == "Europe" and sentence.text[name.start : name.end].isupper():
        option = "residency"  # the union is an area of law
    value = "eu" if option == "residency" else name.value
    if denied := sentence.denied_from(name.start, name.end):
        _deny(sentence, denied, option, value)
    else:
        sentence.take(name.start, name.end, option, value)


def _deny(sentence: _Sentence, span: tuple[int, int], option: str, value: str) -> None:
    """What is not wanted, where the option can say so; else it is asked about."""
    opposite = grammar.OPPOSITES.get((option, value), "")
    if not opposite and (option not in ("cloud", "country", "gpu") or value == "none"):
        sentence.ask(*span)
        return
    words = sentence.text[slice(*span)].replace(BLANK, "").replace(grammar.DENIED, "").strip()
    sentence.readings.append(Reading(option, opposite, words) if opposite else Reading("avoid", value, words))
    sentence.blank(*span, grammar.DENIED)


def _read_gpu(sentence: _Sentence, name: Name) -> None:
    """An accelerator, how many of it, and whether it is one's own."""
    start, end = name.start, name.end
    if denied := sentence.denied_from(start, end):
        _deny(sentence, denied, "gpu", name.value)
        return
    if name.value == "none":
        sentence.take(start, end, "gpu", name.value)
        return
    before = sentence.text[:start]
    counted = grammar.COUNT_BEFORE.search(before)
    after = None if counted else grammar.COUNT_AFTER.match(sentence.text, end)
    count = _card_count(counted["count"]) if counted else int(after["times"] or after["cards"]) if after else 0
    first, last = counted.start() if counted else start, after.end() if after else end
    if owned := grammar.OWNED.search(sentence.text[:first]):
        _own(sentence, owned.start(), last, f"{count or 1}x{name.value}")
        return
    nodes = grammar.NODES_BEFORE.search(sentence.text[:first]) if counted else None
    if compared := grammar.COMPARED.search(sentence.text[:first]):
        sentence.ask(compared.start(), last)
        return
    sentence.take(start, end, "gpu", name.value)
    if after:
        sentence.take(end, last, "num_gpus", str(count))
    _count(sentence, counted, nodes, count)


def _count(sentence: _Sentence, counted: re.Match[str] | None, nodes: re.Match[str] | None, count: int) -> None:
    """So many cards, each of so many servers having them where that is said."""
    if counted is None or sentence.has("num_gpus"):
        return
    sentence.take(counted.start(), counted.end(), "num_gpus", str(count * (_card_count(nodes["nodes"]) if nodes else 1)))
    if nodes:
        sentence.take(nodes.start(), nodes.end(), "max_nodes", str(_card_count(nodes["nodes"])))


def _card_count(text: str) -> int:
    return grammar.CARD_COUNTS.get(text.casefold()) or int(parse_count(text))


def _own(sentence: _Sentence, start: int, end: int, machine: str) -> None:
    """A machine that somebody has, and where it stands."""
    places = [(place, stands) for place, spelled in grammar.OWN_PLACES.items() if (stands := spelled.search(sentence.text))]
    sentence.blank(start, end)
    for _, stands in places:
        sentence.blank(*stands.span())
    sentence.own_machine = machine + (f"@{places[0][0]}" if places else "")


def _read_cards(sentence: _Sentence) -> None:
    """Cards by their number or their memory, without a name; memory of servers and tokens a second
    of a whole service are for the plan to say, so they are asked about."""
    for pattern in (grammar.CARD_RANGE, grammar.TOKEN_RATE):
        while match := pattern.search(sentence.text):
            sentence.ask(*match.span())
    while match := grammar.CARD_MEMORY.search(sentence.text):
        size = f"{match['value'] or match['size']}GB" + ("+" if match["more"] or match["up"] else "")
        counted = grammar.COUNT_BEFORE.search(sentence.text[: match.start()])
        if facts.accelerators_of_memory(size):
            sentence.take(*match.span(), "gpu", size)
        else:
            sentence.ask(*match.span())
        if counted:
            _count(sentence, counted, grammar.NODES_BEFORE.search(sentence.text[: counted.start()]), _card_count(counted["count"]))
    while match := grammar.HOST_MEMORY.search(sentence.text):
        sentence.ask(*match.span())
    while match := grammar.UNNAMED_CARDS.search(sentence.text):  # "8 张卡" is no amount of pictures
        nodes = grammar.NODES_BEFORE.search(sentence.text[: match.start()])
        if denied := sentence.denied_from(*match.span()):
            sentence.ask(*denied)
        elif sentence.has("num_gpus"):
            sentence.ask(*match.span())
        else:
            _count(sentence, match, nodes, _card_count(match["count"]))


# ---- Quantities.


def _apply(sentence: _Sentence, rule: grammar.GrammarRule) -> None:
    """The first place where a rule holds and its option takes the value."""
    if sentence.has(rule.option):
        return
    for match in rule.pattern.finditer(sentence.text):
        value = rule.read(match)
        is_negative = "value" in match.re.groupindex and grammar.MINUS.search(sentence.text[: match.start("value")])
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
        if not grammar.NO_ADJECTIVES & set(between) and not is_model(match["between"]) and _is_taken("data", value):
            sentence.take(match.start(), match.end(), "data", value)
            return


def _read_amount(sentence: _Sentence, inferred: list[Reading]) -> None:
    """A number with a noun that no rule knows is the amount of data, where data are worked on and
    none were told: "3 million product titles"."""
    task = next((reading.value for reading in inferred), "")
    if task not in ("train", "finetune", "batch") or sentence.has("data"):
        return
    for match in grammar.COUNTED_NOUN.finditer(sentence.text):
        words = match["thing"].casefold().split()
        if not grammar.NO_ADJECTIVES & set(words) and _is_taken("data", value := f"{match['amount']} samples"):
            sentence.take(match.start(), match.end(), "data", value)
            return


def _is_taken(option: str, value: str) -> bool:
    try:
        read_wish(option, value)
    except InputError:
        return False
    return True


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


def _read_size(sentence: _Sentence) -> None:
    """The model by a bare size: "7B", "70亿参数"."""
    if not sentence.has("model") and (match := grammar.BARE_SIZE.search(sentence.text)):
        size = match["latin"].replace(" ", "").upper() if match["latin"] else f"{parse_count(match['han'] + match['unit']) / 1e9:g}B"
        sentence.take(match.start(), match.end(), "model", size)


# ---- Words for a choice.

_CHOICES: tuple[tuple[str, Mapping[str, re.Pattern[str]]], ...] = (
    ("purchase", grammar.PURCHASES),
    ("method", grammar.TUNING_METHODS),
    ("update", grammar.UPDATES),
    ("method", grammar.METHODS),
    ("optimizer", grammar.OPTIMIZERS),
    ("sharding", grammar.SHARDINGS),
    ("framework", grammar.FRAMEWORKS),
    ("quantization", grammar.QUANTIZATIONS),
    ("precision", grammar.PRECISIONS),
    ("objective", grammar.OBJECTIVES),
    ("max_nodes", grammar.MAX_NODES),
    ("residency", grammar.RESIDENCIES),
)


def _read_words(sentence: _Sentence) -> None:
    """Words for a choice. Purchase modes may be several; of the others the first that fits is
    taken, the most particular being listed first."""
    for option, choices in _CHOICES:
        if option == "update" and not sentence.has("method"):
            continue  # only beside a method that learns from preferences or rewards
        if option == "method" and sentence.has("method"):
            continue
        if choices is grammar.TUNING_METHODS:
            _read_tuning(sentence)
        else:
            _read_choice(sentence, option, choices)


def _read_choice(sentence: _Sentence, option: str, choices: Mapping[str, re.Pattern[str]]) -> None:
    for value, pattern in choices.items():
        match = pattern.search(sentence.text)
        if match is None or (sentence.has(option) and option != "purchase"):
            continue
        compared = grammar.COMPARED.search(sentence.text[: match.start()])
        if denied := sentence.denied_from(*match.span()):
            _deny(sentence, denied, option, value)
        elif compared:
            sentence.ask(compared.start(), match.end())
        else:
            sentence.take(match.start(), match.end(), option, value)
            for again in list(pattern.finditer(sentence.text)):  # said twice, meant once
                sentence.blank(*again.span())


def _read_tuning(sentence: _Sentence) -> None:
    """A method that learns from preferences or rewards: the first that is named, an abbreviation
    before the words for its kind. The other words for it have then been used."""
    named = [*grammar.TUNING_METHODS.items(), *grammar.TUNING_KINDS.items()]
    for value, pattern in named:
        match = pattern.search(sentence.text)
        if match and not sentence.denied_from(*match.span()):
            sentence.take(match.start(), match.end(), "method", value)
            break
    if sentence.has("method"):
        for _, pattern in named:
            for match in list(pattern.finditer(sentence.text)):
                sentence.blank(match.start(), match.end())


# ---- What follows from the rest.


def _infer(sentence: _Sentence, text: str) -> list[Reading]:
    """What follows from the rest: the task, and options that mean something else in it."""
    task = _task(sentence, text)
    inferred = [Reading("task", task, "")] if task else []
    if task == "prepare" and (operation := _operation(text)):
        inferred.append(Reading("operation", operation, ""))
    for pattern in grammar.TASKS.values():  # words that name tasks have been used
        for match in list(pattern.finditer(sentence.text)):
            sentence.blank(*match.span())
    if task == "serve":
        _ask_of_data(sentence)
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


def _ask_of_data(sentence: _Sentence) -> None:
    """A service works through no amount: "each query scores 50 passages" is something else."""
    sentence.asked += [reading.words for reading in sentence.readings if reading.option == "data"]
    sentence.readings = [reading for reading in sentence.readings if reading.option != "data"]


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


__all__ = ["Reading", "Understood", "understand"]
