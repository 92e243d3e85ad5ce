"""Words for a choice in a sentence, and what follows from all that it says: the task, and options
that mean something else in it."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping

from rightfit import facts
from rightfit.facts import engines, tables
from rightfit.facts.classical import classical_model
from rightfit.facts.expressions import Expression
from rightfit.facts.resolve import is_relative
from rightfit.facts.trainers import strange_words
from rightfit.messages import Message
from rightfit.units import parse_count, parse_data
from rightfit.workload.ask import grammar
from rightfit.workload.ask.asides import asked_of_documents, draws, settle_untrained
from rightfit.workload.ask.figured import DENIED_AT_ONCE, reads_pages
from rightfit.workload.ask.sentence import Reading, Sentence

_CHOICES: tuple[tuple[str, Mapping[str, Expression]], ...] = (
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
    ("sellers", grammar.SELLERS),
)


#: Ways to pay that bind for longer than a job runs.
_COMMITTED = ("reserved", "reserved-1y", "reserved-3y", "subscription", "subscription-1m", "capacity-block")
_OWN_DATA = grammar.shape(r"(?<![A-Za-z]){own_data}(?![a-z])|{own_data}(?<=[一-鿿])")
_PERMITTED = grammar.shape("{permitted}")


def read_words(sentence: Sentence) -> None:
    """Words for a choice. Purchase modes may be several; of the others the first that fits is
    taken, the most particular being listed first."""
    _read_unquantized(sentence)
    for option, choices in _CHOICES:
        if option == "update" and not sentence.has("method"):
            continue  # only beside a method that learns from preferences or rewards
        if option == "method" and sentence.has("method"):
            continue
        if choices is grammar.TUNING_METHODS:
            _read_tuning(sentence)
        else:
            _read_choice(sentence, option, choices)
    _note_wider(sentence)


def _read_unquantized(sentence: Sentence) -> None:
    """ "I do not want quantization"."""
    for match in grammar.QUANTIZED.finditer(sentence.text):
        if denied := sentence.denied_from(*match.span()):
            sentence.take(*denied, "quantization", "none")
            return


def _read_choice(sentence: Sentence, option: str, choices: Mapping[str, Expression]) -> None:
    for value, pattern in choices.items():
        match = pattern.search(sentence.text)
        if match is None:
            continue
        if option == "method" and sentence.has(option) and not sentence.denied_from(*match.span()):
            sentence.ask(*match.span())  # "LoRA vs full fine-tuning" is a question of its own
            continue
        if sentence.has(option) and option != "purchase":
            continue
        compared = grammar.COMPARED.search(sentence.text[: match.start()])
        kept = grammar.KEPT_IN.search(sentence.text[: match.start()]) if option == "residency" else None
        if kept:
            sentence.take(kept.start(), match.end(), option, value)
        elif denied := sentence.denied_from(*match.span()):
            sentence.deny(denied, option, value)
            for again in list(pattern.finditer(sentence.text)):  # "neither spot nor preemptible"
                if span := sentence.denied_from(*again.span()):
                    sentence.blank(*span)
        elif compared:
            sentence.ask(compared.start(), match.end())
        elif value in _COMMITTED and (after := _PERMITTED.match(sentence.text, match.end())):
            sentence.note(match.start(), after.end())  # what may be had is not what must be
        elif option not in ("purchase", "residency", "sellers") or not sentence.wished_softly(*match.span()):
            sentence.take(match.start(), match.end(), option, value)
            for again in list(pattern.finditer(sentence.text)):  # said twice, meant once
                sentence.blank(*again.span())


def _note_wider(sentence: Sentence) -> None:
    """The law of an area says no more than the area: "GDPR applies, keep it in the EU"."""
    for value, pattern in grammar.RESIDENCIES.items():
        if value != "cn-mainland" and any(reading.option == "residency" and reading.value == "eu" for reading in sentence.readings):
            for match in list(pattern.finditer(sentence.text)):
                sentence.note(*match.span())


def _read_tuning(sentence: Sentence) -> None:
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
    if any(reading.option == "method" and reading.value in _ROLLS_OUT for reading in sentence.readings):
        _read_choice(sentence, "rollout", grammar.ROLLOUTS)


_ROLLS_OUT = ("ppo", "grpo")


def infer(sentence: Sentence, text: str) -> list[Reading]:
    """What follows from the rest: the task, and options that mean something else in it."""
    task = settle_untrained(sentence) or _task(sentence, text)
    if task == "prepare":
        task = _settle_library(sentence, text)
    is_served = sentence.has("quantization") or any(
        one.option == "framework" and engines.stacks_named(one.value) for one in sentence.readings
    )
    if not task and is_served and not any(sentence.has(option) for option in ("data", "method", "epochs", "steps")):
        task = "serve"  # weights in so many bits are served, and so is what a serving engine runs
    own = _OWN_DATA.search(sentence.whole) if task == "train" and sentence.has("model") and not sentence.has("data") else None
    if own and not grammar.FROM_SCRATCH.search(sentence.whole):
        task = "finetune"
        sentence.assumed.append(Message("workload.assumed_own_data", words=own[0]))
    if not task and any(one.option == "model" and is_relative(one.value) for one in sentence.readings):
        task = "train"  # nobody adapts weights of a network that is only like it
    is_monthly = sentence.has("model") and any(one.option == "budget" and one.value.endswith("/month") for one in sentence.readings)
    if not task and not sentence.has("data") and (is_monthly or grammar.ONE_PERSON.search(sentence.text)):
        task = "serve"
    inferred = [Reading("task", task, "")] if task else []
    if task == "prepare" and (operation := _heaviest(sentence, text) or _usual_operation(sentence, text)):
        inferred.append(Reading("operation", operation, ""))
    if task == "prepare" and "token" not in text.casefold():  # no model prepares data
        sentence.asked += [reading.words for reading in sentence.readings if reading.option == "model"]
    for pattern in grammar.TASKS.values():  # words that name tasks have been used
        for match in list(pattern.finditer(sentence.text)):
            sentence.blank(*match.span())
    if found := grammar.ONE_PERSON.search(sentence.text):
        if task == "serve" and not any(sentence.has(option) for option in ("users", "rate")):
            sentence.take(*found.span(), "users", "1")
        else:
            sentence.note(*found.span())
    if task == "prepare":
        for match in list(grammar.PREPARING.finditer(sentence.text)):
            sentence.blank(*match.span())
        _prefer_bytes(sentence)
        _note_target_size(sentence)
        while sentence.has("data") and (counted := grammar.DESCRIBED.search(sentence.text) or grammar.COUNTED_NOUN.search(sentence.text)):
            sentence.note(*counted.span())  # how many things make up the amount that was told
    if task == "serve":
        _ask_of_data(sentence)
        sentence.readings = [_as_cpu_weights(sentence, _as_served(sentence, reading)) for reading in sentence.readings]
    if task in ("train", "finetune", "prepare"):
        _count_people(sentence)
    if task in ("serve", "batch"):
        sentence.readings = [as_prompt(reading) for reading in sentence.readings]
    if task == "finetune" and any(reading.option == "quantization" and reading.value in _FEW_BITS for reading in sentence.readings):
        sentence.readings = [
            _as_qlora(reading)
            for reading in sentence.readings
            if not (reading.option == "quantization" and reading.value in _FEW_BITS and sentence.has("method"))
        ]
    if task in ("train", "finetune") and sentence.has("framework"):
        _leave_engines(sentence)
    return inferred


def _leave_engines(sentence: Sentence) -> None:
    """What serves a model trains none: "with vLLM rollouts" says what answers while it learns,
    which every plan of that kind has."""
    for reading in [one for one in sentence.readings if one.option == "framework" and _only_serves(one.value)]:
        sentence.readings.remove(reading)
        sentence.noted.append(reading.words)


def _only_serves(framework: str) -> bool:
    return framework == "onnxruntime" or bool(engines.stacks_named(framework) and strange_words(framework.casefold()))


def _settle_library(sentence: Sentence, text: str) -> str:
    """A library that trains and prepares nothing: beside a word for training the training is
    planned ("特征工程和训练": it takes longer), else it is noted."""
    told = next((reading for reading in sentence.readings if reading.option == "library"), None)
    prepares = {row["library"] for row in facts.table("preparation_rates")}
    model = next((reading for reading in sentence.readings if reading.option == "model"), None)
    if model is not None and classical_model(model.value) is not None and sentence.has("data"):  # what is prepared is for it
        if told is not None:
            sentence.readings.remove(told)
            sentence.noted.append(told.words)
        return "train"
    if told is None or told.value.casefold() in prepares or _library(told.value) in prepares:
        return "prepare"
    if grammar.TASKS["train"].search(text):
        return "train"
    sentence.readings.remove(told)
    sentence.noted.append(told.words)
    return "prepare"


def _library(name: str) -> str:
    """The library of a table that a name means, "" where none does."""
    rows = facts.table("classical_libraries")
    return next((row["library"] for row in rows if re.search(row["pattern"], name, re.IGNORECASE)), "")


def _usual_operation(sentence: Sentence, text: str) -> str:
    """What is usually done with data of the kind that is told, where nobody says what: 预处理 50GB
    文本."""
    operation = tables.meaning(grammar.WORDS_TABLE, "operation_usual", text)
    if operation:
        sentence.assumed.append(Message("workload.assumed_operation", operation=operation))
    return operation


def _prefer_bytes(sentence: Sentence) -> None:
    """Of a count and a size in brackets behind it the size is what is worked through."""
    size = grammar.IN_BRACKETS.search(sentence.text)
    told = next((reading for reading in sentence.readings if reading.option == "data"), None)
    if size and told and parse_data(told.value).unit != "bytes":
        sentence.readings.remove(told)
        sentence.noted.append(told.words)
        sentence.take(*size.span("value"), "data", size["value"])


def _note_target_size(sentence: Sentence) -> None:
    """To what size images are brought: the rates are those of reading and writing one."""
    for reading in [one for one in sentence.readings if one.option == "image_size"]:
        sentence.readings.remove(reading)
        sentence.noted.append(reading.words)
        sentence.assumed.append(Message("workload.assumed_target_size", size=reading.words))


_IN_A_DAY = grammar.shape("/(?:{day_or_more})")
#: Fewer people than this are a team; more are rows to learn from.
_FEWEST_ROWS = 100


def _count_people(sentence: Sentence) -> None:
    """People that a training learns from are its data, "3 million customers", and so is what comes
    in a day: 每天新增2000万行. A few people are those who train."""
    for reading in [one for one in sentence.readings if one.option == "users" or (one.option == "rate" and _IN_A_DAY.search(one.value))]:
        sentence.readings.remove(reading)
        if reading.option == "users" and parse_count(reading.value.replace(" ", "")) < _FEWEST_ROWS:
            sentence.noted.append(reading.words)
            continue
        at = sentence.whole.find(reading.words)
        if sentence.has("data") or grammar.FOR_WHOM.search(sentence.whole[: max(at, 0)]):
            sentence.asked.append(reading.words)
        else:
            sentence.readings.append(Reading("data", f"{reading.value.partition('/')[0]} samples", reading.words))


def _ask_of_data(sentence: Sentence) -> None:
    """A service works through no amount: "each query scores 50 passages" is something else."""
    for reading in [one for one in sentence.readings if one.option == "data"]:
        length = grammar.LONG_PROMPTS.fullmatch(reading.words)
        if length and not sentence.has("input_tokens"):  # "with 4k prompts"
            sentence.readings.append(Reading("input_tokens", length["value"], reading.words))
        else:
            sentence.asked.append(reading.words)
    sentence.readings = [reading for reading in sentence.readings if reading.option != "data"]


def _heaviest(sentence: Sentence, text: str) -> str:
    """Of several things to be done with the data the one that takes a core longest; the words of
    the others are noted."""
    verbs = [match[0] for match in grammar.OPERATION_VERB.finditer(text)]
    found: dict[str, str] = {}
    for verb in verbs:
        alone = functools.reduce(lambda rest, other: rest.replace(other, " "), [one for one in verbs if one != verb], text)
        if operation := _operation(alone):
            found.setdefault(operation, verb)
    if len(found) < 2:
        return _operation(text)
    rates = facts.table("preparation_rates")
    speed = {name: max((float(row["mb_per_core_s"]) for row in rates if row["operation"] == name), default=0.0) for name in found}
    slowest = min(found, key=lambda name: speed[name])
    others = [verb for name, verb in found.items() if name != slowest]
    sentence.noted += others
    sentence.assumed.append(Message("workload.assumed_heaviest", verb=found[slowest], others=", ".join(others)))
    return slowest


def _operation(text: str) -> str:
    """What is to be done with the data: the first operation of the table whose words the sentence
    holds; "" where none does."""
    chinese = tables.meaning(grammar.WORDS_TABLE, "operation_zh", text)
    if chinese:
        return chinese
    rows = facts.table("preparation_operations")
    return next((row["operation"] for row in rows if re.search(row["pattern"], text, re.IGNORECASE)), "")


def as_prompt(reading: Reading, option: str = "input_tokens") -> Reading:
    """Where requests are answered, a context is the length of the prompt, or of another part."""
    return dataclasses.replace(reading, option=option) if reading.option == "seq_len" else reading


_NAMES_FORMAT = grammar.shape("{names_format}")


def _as_served(sentence: Sentence, reading: Reading) -> Reading:
    """Weights in four bits, no format named, are served as AWQ, which engines on GPUs run fast."""
    is_cpu = any(one.option == "gpu" and "none" in one.value for one in sentence.readings)
    if is_cpu or reading.option != "quantization" or reading.value != "nf4" or _NAMES_FORMAT.search(sentence.whole):
        return reading
    return dataclasses.replace(reading, value="awq")


def _as_cpu_weights(sentence: Sentence, reading: Reading) -> Reading:
    """Weights of few bits on a CPU, in the format that its engines run: what is written for them on
    GPUs no CPU runs."""
    is_cpu = any(one.option == "gpu" and "none" in one.value for one in sentence.readings)
    run_as = tables.senses(grammar.WORDS_TABLE, "cpu_weights").get(reading.value) if reading.option == "quantization" else None
    return dataclasses.replace(reading, value=run_as) if is_cpu and run_as else reading


def _as_qlora(reading: Reading) -> Reading:
    return dataclasses.replace(reading, value="qlora") if reading.option in ("method", "update") and reading.value == "lora" else reading


def _task(sentence: Sentence, text: str) -> str:
    """The task that the words and figures mean; "" when nothing tells."""
    if sentence.each_day:
        return "batch"
    read = " ".join(reading.words for reading in sentence.readings if reading.option in ("method", "model", "deadline"))
    first = {task: match.start() for task, pattern in grammar.STRONG.items() if (match := pattern.search(text))}
    if sentence.has("method"):
        return "finetune"
    serves = any(sentence.has(option) for option in ("rate", "users", "ttft", "tpot", "latency"))
    if serves and not ({"train", "finetune"} & set(first)):
        return "serve"
    learns = any(sentence.has(option) for option in ("epochs", "global_batch", "optimizer", "sharding"))
    if grammar.WORKS_THROUGH.search(text) and not first and not learns:
        return "batch"
    if first:
        return min(first, key=lambda task: (_PREFERENCE.index(task) if task == "finetune" else 1, first[task]))
    if sentence.has("deadline") and _turns_sound(sentence):  # of recorded calls, none is answered
        return "batch"
    model = next((reading.value for reading in sentence.readings if reading.option == "model"), "")
    if sentence.is_retrained or (sentence.vector_tables[1] and sentence.has("data")):
        return "train"
    for task, pattern in grammar.TASKS.items():
        if pattern.search(DENIED_AT_ONCE.sub(" ", f"{text} {read}")):
            return task
    if sentence.has("data") and (sentence.is_series or "recommendation" in sentence.kinds):
        return "train"
    is_monthly = sentence.has("model") and any(one.option == "budget" and one.value.endswith("/month") for one in sentence.readings)
    if is_monthly and not sentence.has("data") and grammar.HOSTED_MODEL.search(sentence.whole):
        return "serve"
    if learns:
        return "train"
    if not sentence.has("model") and grammar.OPERATION_VERB.search(text):
        return "prepare"
    verb = grammar.WORKS_ON.search(sentence.text[: max(sentence.data_start, 0)])
    if sentence.has("model") and verb and (verb["verb"] or "").casefold() not in grammar.listed("filler_en", "fillers"):
        return "batch"
    if sentence.has("data") and (sentence.has("frames") or reads_pages(sentence) or _turns_sound(sentence)):
        return "batch"
    if sentence.has("model") and sentence.has("data") and (sentence.has("output_tokens") or sentence.has("input_tokens")):
        return "batch"
    if sentence.has("data") and grammar.DRAWING.search(sentence.whole) and draws(sentence):  # images are made, not learned from
        return "batch"
    if sentence.has("data") and grammar.EMBEDS.search(model) and asked_of_documents(sentence):  # what is searched is embedded
        return "batch"
    if sentence.has("model") and not sentence.has("data") and grammar.RUNNING.search(text):
        model = next(reading.value for reading in sentence.readings if reading.option == "model")
        return "train" if classical_model(model) is not None else "serve"  # trees run as jobs, where no requests are told
    if sentence.has("data") and draws(sentence) and _many_images(sentence):  # more than anybody teaches it
        return "batch"
    if sentence.has("model") and not sentence.has("data") and grammar.SPEED_TALK.search(sentence.whole):
        return "serve"
    return ""


def _turns_sound(sentence: Sentence) -> bool:
    """Whether hours of sound are there, and a model that turns sound into text."""
    told = next((reading.value for reading in sentence.readings if reading.option == "data"), "")
    return bool(grammar.TURNS_SOUND.search(sentence.whole)) and parse_data(told).unit == "hours"


def _many_images(sentence: Sentence) -> bool:
    told = parse_data(next(reading.value for reading in sentence.readings if reading.option == "data"))
    return told.unit == "images" and (told.samples or 0.0) > tables.coefficients("planning")["taught_images"]


_FEW_BITS = ("nf4", "int4")
_PREFERENCE = ("finetune", "train", "batch", "serve", "prepare")
