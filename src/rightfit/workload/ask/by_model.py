"""A sentence read by a language model of the user's own, behind any endpoint that speaks OpenAI's
protocol (Ollama, vLLM, a hosted one), and held to the rule of all sentences: each word is used, or
is soft, or stops the answer. The model never decides what counts as read: a reading holds where its
words stand in the sentence, its option takes its value, and its numbers are those of its words."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

from rightfit import reach
from rightfit.errors import InputError, NetworkError
from rightfit.messages import Message, cause
from rightfit.units import normalize, parse_count
from rightfit.workload.ask import grammar, understand
from rightfit.workload.ask.leftover import BLANK, left_over
from rightfit.workload.ask.numbers import with_digits
from rightfit.workload.ask.sentence import Reading, Understood, is_taken
from rightfit.workload.options import OPTIONS

TIMEOUT_S, LONGEST_ANSWER = 120.0, 200_000
KEY = "RIGHTFIT_ASK_KEY"
_NUMBER = grammar.shape(r"\d[\d,]*(?:\.\d+)?\s?(?:{multiplier_zh}|{multiplier_en}(?![a-z])|[kmbgt](?![a-z])|[kmbgt](?=\s?{data_unit}))?")
_TASK = (
    "Read the user's wish for renting machine-learning servers into options. Quote for each the exact words of the sentence that say it, with their"
    " numbers unchanged. Leave out what the sentence does not say. Options:\n"
)


def understand_with(sentence: str, place: str) -> Understood:
    """What a sentence says, as the model at `place` (URL#MODEL) reads it. InputError for a place
    that is none, NetworkError where nothing useful answers."""
    url, _, model = place.strip().rpartition("#")
    if not model or not url.startswith(("http://", "https://")):
        raise InputError(Message("workload.ask_with_form", place=place), field="ask_with")
    if reach.is_closed():
        raise InputError(Message("workload.ask_with_closed"), field="ask_with")
    by_rules = understand(sentence)  # refuses what is empty, endless or not planned at all
    text = with_digits(normalize(sentence))
    held = [reading for reading in _readings(_asked(url, model, text)) if _holds(reading, text)]
    rest = text
    for reading in held:
        at = rest.casefold().find(reading.words.casefold())
        if at >= 0:
            rest = rest[:at] + BLANK * len(reading.words) + rest[at + len(reading.words) :]
    for pattern in grammar.TASKS.values() if any(reading.option == "task" for reading in held) else ():
        rest = pattern.sub(lambda match: BLANK * len(match[0]), rest)
    hard, soft = left_over(rest)
    return Understood(by_rules.sentence, tuple(held), (), tuple(hard), (*hard, *soft))


def _asked(url: str, model: str, text: str) -> Any:
    """What the endpoint answers, as JSON by our schema."""
    options = "\n".join(f"{name}: {option.help}, e.g. {option.example}" for name, option in OPTIONS.items())
    body = {
        "model": model,
        "temperature": 0,
        "messages": [{"role": "system", "content": _TASK + options}, {"role": "user", "content": text}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "wish", "strict": True, "schema": schema()}},
    }
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {os.environ[KEY]}"} if os.environ.get(KEY) else {})}
    request = urllib.request.Request(url.rstrip("/") + "/chat/completions", json.dumps(body).encode(), headers)  # noqa: S310 http, as the user wrote
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
            said = json.loads(response.read(LONGEST_ANSWER))
        return json.loads(said["choices"][0]["message"]["content"])
    except (OSError, urllib.error.URLError) as error:
        raise NetworkError(Message("workload.ask_with_silent", url=url, why=cause(error))) from None
    except (ValueError, KeyError, IndexError, TypeError):
        raise NetworkError(Message("workload.ask_with_unread", url=url)) from None


def schema() -> dict[str, Any]:
    """What the model may answer: readings, each an option, its value and the words that say it."""
    one = {name: {"type": "string"} for name in ("option", "value", "words")}
    one["option"] = {"type": "string", "enum": list(OPTIONS)}  # type: ignore[dict-item]
    reading = {"type": "object", "properties": one, "required": list(one), "additionalProperties": False}
    found = {"readings": {"type": "array", "items": reading}}
    return {"type": "object", "properties": found, "required": ["readings"], "additionalProperties": False}


def _readings(answer: Any) -> Iterator[Reading]:
    """The readings of an answer that have their form."""
    listed = answer.get("readings") if isinstance(answer, Mapping) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, Mapping) and one.get("option") in OPTIONS:
            yield Reading(str(one["option"]), str(one.get("value", "")), str(one.get("words", "")).strip())


def _holds(reading: Reading, text: str) -> bool:
    """Whether a reading is one of this sentence."""
    stands = bool(reading.words) and reading.words.casefold() in text.casefold()
    return stands and is_taken(reading.option, reading.value) and _same_numbers(reading.words, reading.value)


def _same_numbers(words: str, value: str) -> bool:
    """Whether what is said in numbers is what is read; a word for a choice ("one server") may stand
    for its number."""
    said, read = ({parse_count(match[0].replace(" ", "")) for match in _NUMBER.finditer(text)} for text in (words, value))
    return not said or not read or said == read
