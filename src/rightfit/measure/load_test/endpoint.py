"""What stands behind an address: the model it serves, whether it speaks the API, how long a prompt must be to be so many of its tokens, when it is warm."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from rightfit.errors import InputError, NetworkError
from rightfit.facts.constants import constant_group
from rightfit.facts.fuzzy import nearest
from rightfit.measure.load_test.http import Client, HttpError
from rightfit.measure.load_test.stream import Answer, Question, ask
from rightfit.measure.readers.exposition import Sample, samples_of
from rightfit.messages import Message, cause, did_you_mean, system_problem
from rightfit.records import dataclass

_ENGINES = ("vllm", "sglang")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A service that answers: what to ask it, its engine where it tells, and its answers when nothing else runs."""

    question: Question
    engine: str
    alone: tuple[Answer, ...]
    notes: tuple[str, ...]


async def found_at(client: Client, *, model: str, input_tokens: int, output_tokens: int) -> Endpoint:
    """The endpoint, warm. Raises NetworkError (not reached, every request fails) and InputError (no such API, no such model, no count of tokens)."""
    name, engine, unlisted = await _model(client, model)
    question, notes = await _accepted(client, Question(name, max(input_tokens // 3, 1), output_tokens), unlisted)
    notes += [f"the server answers for {name!r}, which its list of models lacks: see that it serves that model"] if unlisted else []
    question = await _of_length(client, question, input_tokens)
    return Endpoint(question, engine, await _warm(client, question), tuple(notes))


async def _model(client: Client, wanted: str) -> tuple[str, str, Message | None]:
    """The model to ask for, the engine, and what to say where the server refuses that model and its list lacks it. The one that is named is tried also
    where it is on no list: servers that load what they are asked for (transformers serve) list what lies in a cache."""
    place = client.place
    try:
        async with client.ask("GET", f"{place.base}/models") as reply:
            status, text = reply.status, await reply.text()
    except (OSError, HttpError) as error:
        raise NetworkError(
            Message("measure.cannot_reach", address=place, error=cause(error) if isinstance(error, HttpError) else system_problem(error))
        ) from None
    if status in (401, 403):
        raise InputError(Message("measure.asks_for_a_key", address=place, status=status), field="key_env")
    served = _served(text) if status == 200 else None
    if served is None:
        if wanted:
            return wanted, "", None
        raise InputError(
            Message("measure.not_openai", address=place, base=place.base, status=status),
            field="url",
        )
    names = list(served)
    shown = Message("measure.part_served", names=", ".join(names[:5])) if names else Message("measure.part_served_none")
    if not wanted and len(names) != 1:
        raise InputError(Message("measure.serves_several_models", address=place, count=len(names), line=shown), field="model")
    name = wanted or names[0]
    if name not in served:
        near = nearest(wanted, names)
        hint = did_you_mean(near[:1])
        return name, "", Message("measure.no_model", model=wanted, address=place, served=shown, hint=hint)
    return name, served[name] if served[name] in _ENGINES else "", None


def _served(text: str) -> dict[str, str] | None:
    """Name -> owner of the models of a list; None where it is no such list."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    data = found.get("data") if isinstance(found, dict) else None
    if not isinstance(data, list):
        return None
    return {str(item["id"]): str(item.get("owned_by", "")) for item in data if isinstance(item, dict) and "id" in item}


async def _accepted(client: Client, question: Question, unlisted: Message | None) -> tuple[Question, list[str]]:
    """The question in the form that the server takes; refusals of the first request are told as they are, after `unlisted`."""
    answer = await _one(client, question)
    notes = []
    if answer.status in (400, 422):
        question = dataclasses.replace(question, forced=False)
        answer = await _one(client, question)
        notes = ["the server does not take ignore_eos: answers may be shorter than asked for"]
    if answer.error and unlisted and answer.status:
        raise InputError(Message("measure.refused_model", problem=unlisted, error=answer.error), field="model")
    if answer.error:
        kind: Any = InputError if answer.status in (400, 401, 403, 404, 405, 413, 422) else NetworkError
        raise kind(Message("measure.no_chat", address=client.place, error=answer.error))
    if not answer.tokens_out or not answer.tokens_in:
        raise InputError(Message("measure.no_usage", address=client.place), field="url")
    return question, notes


async def _of_length(client: Client, question: Question, input_tokens: int) -> Question:
    """The question with so many numbers that the server counts `input_tokens`: a line through two lengths."""
    short = dataclasses.replace(question, numbers=max(question.numbers // 2, 1), output_tokens=2)
    long = dataclasses.replace(question, numbers=question.numbers + 1, output_tokens=2)
    low, high = await _one(client, short), await _one(client, long)
    per_number = (high.tokens_in - low.tokens_in) / (long.numbers - short.numbers)
    if not low.tokens_in or not high.tokens_in or per_number <= 0:
        return question
    wanted = short.numbers + round((input_tokens - low.tokens_in) / per_number)
    return dataclasses.replace(question, numbers=max(wanted, 1))


async def _warm(client: Client, question: Question) -> tuple[Answer, ...]:
    """Answers one after the other until the first token has settled: the last few are near the fastest of them."""
    rule = constant_group("measure", "load")
    answers: list[Answer] = []
    for _ in range(int(rule["most_warm_up"])):
        answers.append(await _one(client, question))
        if answers[-1].error:
            raise NetworkError(Message("measure.stopped_answering", address=client.place, error=answers[-1].error))
        last = answers[-int(rule["least_warm_up"]) :]
        if len(last) == rule["least_warm_up"] and max(one.ttft for one in last) <= rule["settled"] * min(one.ttft for one in answers):
            break
    return tuple(answers[-int(rule["least_warm_up"]) :])


async def _one(client: Client, question: Question) -> Answer:
    return await ask(client, question, timeout_s=constant_group("measure", "load")["timeout"])


async def counters(client: Client, at: float | None = None) -> list[Sample]:
    """What the server's own page of metrics shows at this moment; nothing where it has none."""
    try:
        async with client.ask("GET", "/metrics") as reply:
            text = await reply.text() if reply.status == 200 else ""
    except (OSError, HttpError):
        return []
    return [dataclasses.replace(sample, at=at) for sample in samples_of(text)]
