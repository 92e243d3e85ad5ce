"""Training told by its steps: gradient accumulation makes a global batch, steps of a batch an
amount of samples. What it takes on trust is kept in `Sentence.assumed`, for the answer to say.
"""

from __future__ import annotations

import contextlib

from rightfit import facts
from rightfit.errors import InputError, RightfitError
from rightfit.facts import tables
from rightfit.facts.trainers import tuning_methods
from rightfit.messages import Message
from rightfit.units import SECONDS_PER_HOUR, format_count, parse_count, parse_data
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
        _settle_small_batch(sentence, whole)
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


#: Sequences of a batch that trainers of language models give each GPU: no whole batch is so small.
_SMALL_BATCH = 4


def _settle_small_batch(sentence: Sentence, whole: Reading | None) -> None:
    """A batch of a few texts, of a model that writes, is that of each GPU: "batch size 1"."""
    if whole is None or _WHOLE.search(whole.words) or sentence.has("micro_batch") or parse_count(whole.value) > _SMALL_BATCH:
        return
    if _writes(sentence):
        sentence.readings[sentence.readings.index(whole)] = Reading("micro_batch", whole.value, whole.words)
        sentence.assumed.append(Message("workload.assumed_small_batch", words=whole.words))


_WRITING = ("decoder", "moe-decoder", "vlm", "encoder-decoder")


def read_steps(sentence: Sentence) -> None:
    """How many steps are trained for; `settle_steps` makes an amount of them."""
    if found := _STEPS.search(sentence.text):
        sentence.steps = (found[0].strip(), parse_count((found["head"] or found["en"] or found["zh"]).replace(" ", "")))
        sentence.blank(*found.span())


_EACH_REPEATED = grammar.shape(
    r"(?<![\w.])(?P<en>\d{1,3})\s(?:image\s)?{image_repeat}(?:\s(?:each|{of_each_item}\s{image}))?(?![a-z])|(?<![A-Za-z]){image_repeat}{is}(?P<head>\d{1,3})(?![\w.%])|(?:每张图?(?:片)?)?重复\s*(?P<zh>\d{1,3})\s*(?:次|遍)"
)


def read_image_repeats(sentence: Sentence) -> None:
    """Trainers of pictures show each picture so many times in an epoch: the epochs are as many
    times more."""
    found, data = _EACH_REPEATED.search(sentence.text), _told(sentence, "data")
    if found is None or data is None or not _IMAGES.search(data.value):
        return
    times, epochs = float(found["en"] or found["head"] or found["zh"]), _told(sentence, "epochs")
    many = times * (parse_count(epochs.value.split()[0]) if epochs else 1.0)
    words = found[0].strip(" ,，")
    _say(sentence, "epochs", f"{many:g}", "; ".join((*((epochs.words,) if epochs else ()), words)))
    sentence.blank(*found.span())


_IMAGES = grammar.shape("images?|{image}|[张幅]")


def settle_steps(sentence: Sentence, task: str) -> None:
    """The samples that so many steps go through: the amount of data, or the epochs of one that is
    told. The batch of a training that nobody tells is the usual one, as the answer says."""
    if sentence.steps is None:
        return
    (words, steps), batch, data = sentence.steps, _batch(sentence), _told(sentence, "data")
    held = _samples(sentence, data) if data else 0.0
    epochs = _told(sentence, "epochs")
    if held and epochs and not batch and _is_whole_batch(held * parse_count(epochs.value.split()[0]) / steps):
        sentence.noted.append(words)  # the same, said again
        return
    if data and held and not epochs and (answers := _answers_of_step(sentence)):
        sentence.readings.append(Reading("global_batch", f"{held * answers:.0f}", f"{data.words} {words}"))
        sentence.readings.append(Reading("epochs", "1", words))
        _say(sentence, "data", f"{steps * held:.0f} samples", f"{data.words}; {words}")
        sentence.assumed.append(Message("workload.assumed_steps", steps=f"{steps:,.0f}", batch=f"{held:g}", samples=f"{steps * held:,.0f}"))
        return
    if task not in ("train", "finetune") or (data and (not held or epochs)):
        sentence.asked.append(words)
        return
    if not batch and task == "train" and _writes(sentence):
        _take_tokens(sentence, words, steps, data)
        return
    each = _answers_each(sentence)
    usual = 0.0 if batch else _usual_batch(sentence, data, task)
    if usual:
        sentence.readings.append(Reading("global_batch", f"{usual * each:g}", words))
    elif not batch:
        sentence.asked.append(words)
        return
    passed = steps * (usual or max(batch / each, 1.0))
    if not data:
        sentence.readings.append(Reading("data", f"{passed:.0f} samples", words))
    if not sentence.has("epochs"):
        sentence.readings.append(Reading("epochs", f"{max(passed / held, 0.001):.4g}" if held else "1", words))
    told = {"steps": f"{steps:,.0f}", "batch": f"{usual or batch:g}", "samples": f"{passed:,.0f}"}
    sentence.assumed.append(Message("workload.assumed_steps_usual", **told) if usual else Message("workload.assumed_steps", **told))


def _answers_each(sentence: Sentence) -> float:
    """Answers to each prompt of a method that learns from them, which a batch counts; else 1."""
    told, method = _told(sentence, "completions"), _told(sentence, "method")
    tuning = tuning_methods().get(method.value) if method else None
    if tuning is None or not tuning.rollout:
        return 1.0
    return parse_count(told.value) if told else float(tuning.sequences)


def _usual_batch(sentence: Sentence, data: Reading | None, task: str) -> float:
    """Samples of a step where nobody tells the batch: one picture of a model that draws, else what
    trainers take on each GPU."""
    usual, model, cards = tables.coefficients("planning"), _told(sentence, "model"), _told(sentence, "num_gpus")
    gpus = float(parse_count(cards.value)) if cards else 1.0
    draws = isinstance(_record(model), facts.DiffusionModel) or (data is not None and _are_images(data) and task == "finetune")
    return gpus if draws else usual["least_global_batch"] * gpus


def _take_tokens(sentence: Sentence, words: str, steps: float, data: Reading | None) -> None:
    """Steps of a language model from scratch, each of the usual number of tokens, whatever corpus
    they are of."""
    tokens = steps * tables.coefficients("planning")["train_step_tokens"]
    if data:
        sentence.readings.remove(data)
        sentence.noted.append(data.words)
    sentence.readings.append(Reading("data", f"{tokens:.0f} tokens", words))
    each = format_count(tables.coefficients("planning")["train_step_tokens"])
    sentence.assumed.append(Message("workload.assumed_steps_tokens", steps=f"{steps:,.0f}", each=each, tokens=format_count(tokens)))


def _record(model: Reading | None) -> object:
    with contextlib.suppress(RightfitError):
        return facts.model(model.value, network=False) if model else None
    return None


def _writes(sentence: Sentence) -> bool:
    return getattr(_record(_told(sentence, "model")), "kind", "") in _WRITING


#: More prompts than a step of published recipes draws answers to: they are the whole set.
_MOST_PROMPTS = 4096
_TIMES = grammar.shape(r"(?:[x×*]|with\s|of\s)|每[条个道]")


def _answers_of_step(sentence: Sentence) -> float:
    """Answers to each prompt where the prompts that are told are those of one step, "512 prompts x
    16 samples"; 0 where they are the whole set."""
    data, answers = _told(sentence, "data"), _told(sentence, "completions")
    if data is None or answers is None or _batch(sentence) or not _TIMES.match(answers.words):
        return 0.0
    return parse_count(answers.value) if _samples(sentence, data) <= _MOST_PROMPTS else 0.0


def _are_images(data: Reading) -> bool:
    with contextlib.suppress(RightfitError):
        return parse_data(data.value).unit == "images"
    return False


def _is_whole_batch(samples: float) -> bool:
    """Whether a step may hold so many samples: the steps follow from data and epochs then."""
    return samples >= 0.95 and abs(samples - round(samples)) <= 0.05 * samples


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
        held = parse_data(data.value)
        each = SECONDS_PER_HOUR / tables.coefficients("planning")["utterance_s"] if held.unit == "hours" else 1.0
        return (held.samples or 0.0) * each
    return 0.0
