"""Training told by its steps: gradient accumulation makes a global batch, steps of a batch an
amount of samples. What it takes on trust is kept in `Sentence.assumed`, for the answer to say.
"""

from __future__ import annotations

import contextlib

from rightfit.errors import InputError
from rightfit.messages import Message
from rightfit.units import parse_count, parse_data
from rightfit.workload.ask import grammar
from rightfit.workload.ask.named import card_count
from rightfit.workload.ask.sentence import Reading, Sentence

_ACCUMULATION = grammar.shape(
    r"(?:grad(?:ient)?s?[\s_-]?)?{accumulation}(?:[\s_-]?steps?)?{is}(?P<after>\d{1,4})(?:\ssteps?|\stimes)?(?![\w%.])"
    r"|(?<![\w.=])(?P<before>\d{1,4})[\s-]?(?:steps?\sof\s|x\s?|times\s)?(?:grad(?:ient)?s?[\s_-]?)?{accumulation}(?:[\s_-]?steps?)?(?!\s*[=:]|\s+\d)"
    r"|{accumulation_zh}{step_count_zh}?{is}(?P<zh>\d{1,4}|{han})(?:步|次)?"
)
_STEPS = grammar.shape(
    r"(?:max[\s_-]?steps{is}(?P<head>{amount})|(?P<en>{amount})\s?(?:{step_kind}\s)?{step_name}|(?P<zh>{amount})\s*步)(?![a-z])"
)
_WHOLE = grammar.shape("{whole_batch}")


def _told(sentence: Sentence, option: str) -> Reading | None:
    return next((reading for reading in sentence.readings if reading.option == option), None)


def _say(sentence: Sentence, option: str, value: str, words: str) -> None:
    sentence.readings = [reading for reading in sentence.readings if reading.option != option]
    sentence.readings.append(Reading(option, value, words))


def read_accumulation(sentence: Sentence) -> None:
    """How many passes are before a step; `settle_accumulation` makes a batch of it."""
    if found := _ACCUMULATION.search(sentence.text):
        sentence.accumulation = (found[0].strip(" ,，"), card_count(found["before"] or found["after"] or found["zh"]))
        sentence.blank(*found.span())


def settle_accumulation(sentence: Sentence) -> None:
    """The global batch of a batch per GPU, passes before a step and GPUs (one where none are told).
    Without a batch it is asked about."""
    micro, whole = _told(sentence, "micro_batch"), _told(sentence, "global_batch")
    if sentence.accumulation is None:
        return
    words, times = sentence.accumulation
    if not (micro or whole):
        sentence.asked.append(words)
        return
    cards = _told(sentence, "num_gpus")
    gpus = int(parse_count(cards.value)) if cards else 1
    if micro is None and whole is not None and not _WHOLE.search(whole.words):
        micro, whole = whole, None
        _say(sentence, "micro_batch", micro.value, micro.words)
        sentence.readings = [reading for reading in sentence.readings if reading.option != "global_batch"]
    if whole is None and micro is not None:
        size = int(parse_count(micro.value)) * times * gpus
        _say(sentence, "global_batch", f"{size}", f"{micro.words}; {words}")
        sentence.assumed.append(Message("workload.assumed_accumulation", batch=size, micro=micro.value, times=times, gpus=gpus))
    elif micro is None and whole is not None:
        size = max(int(parse_count(whole.value)) // (times * gpus), 1)
        _say(sentence, "micro_batch", f"{size}", words)
        sentence.assumed.append(Message("workload.assumed_accumulation", batch=whole.value, micro=size, times=times, gpus=gpus))


def read_steps(sentence: Sentence) -> None:
    """How many steps are trained for; `settle_steps` makes an amount of them."""
    if found := _STEPS.search(sentence.text):
        sentence.steps = (found[0].strip(), parse_count((found["head"] or found["en"] or found["zh"]).replace(" ", "")))
        sentence.blank(*found.span())


def settle_steps(sentence: Sentence, task: str) -> None:
    """The samples that so many steps go through: the amount of data, or the epochs of one that is
    told. Without a batch it is asked about."""
    if sentence.steps is None:
        return
    (words, steps), batch, data = sentence.steps, _batch(sentence), _told(sentence, "data")
    held = _samples(sentence, data) if data else 0.0
    if not batch or task not in ("train", "finetune") or (data and (not held or sentence.has("epochs"))):
        sentence.asked.append(words)
        return
    passed = steps * batch
    if not data:
        sentence.readings.append(Reading("data", f"{passed:.0f} samples", words))
    if not sentence.has("epochs"):
        sentence.readings.append(Reading("epochs", f"{max(passed / held, 0.001):.4g}" if held else "1", words))
    sentence.assumed.append(Message("workload.assumed_steps", steps=f"{steps:,.0f}", batch=f"{batch:g}", samples=f"{passed:,.0f}"))


def _batch(sentence: Sentence) -> float:
    """Samples of one step; 0 where nothing tells."""
    if whole := _told(sentence, "global_batch"):
        return parse_count(whole.value)
    micro, cards = _told(sentence, "micro_batch"), _told(sentence, "num_gpus")
    return parse_count(micro.value) * (parse_count(cards.value) if cards else 1) if micro else 0.0


def _samples(sentence: Sentence, data: Reading) -> float:
    """How many samples an amount of data is; 0 where only tokens or bytes are told."""
    if sentence.data_samples:
        return sentence.data_samples
    with contextlib.suppress(InputError):
        return parse_data(data.value).samples or 0.0
    return 0.0
