"""One streamed chat completion: when its first token came, when its last one, and how many tokens the server says there were.

Tokens are those of `usage` (stream_options.include_usage); text is never counted, since another tokenizer gives another number and a chunk may hold several
tokens. Servers that repeat a running `usage` on every chunk are read by the last.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import math
import random
import time
from collections.abc import Mapping
from typing import Any

from rightfit.measure.load_test.http import Client, HttpError
from rightfit.messages import Message, cause
from rightfit.records import dataclass

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """One request. Moments [s] of one clock: `due` (when it should have left), sent, first token, last chunk; tokens by the server's count.
    `error` says why it failed; of a failed one the moments that were not reached are infinite."""

    due: float
    sent: float
    first: float = math.inf
    last: float = math.inf
    tokens_in: int = 0
    tokens_out: int = 0
    error: Message | str = ""
    status: int = 0

    @property
    def ttft(self) -> float:
        """From sending to the first token [s]."""
        return self.first - self.sent

    @property
    def tpot(self) -> float:
        """(end to end - first token) / (tokens - 1) [s]; not a number for an answer of one token, or of one piece."""
        if self.tokens_out < 2 or self.is_whole:
            return math.nan
        return (self.last - self.first) / (self.tokens_out - 1)

    @property
    def is_whole(self) -> bool:
        """Whether several tokens came in one piece: a proxy that buffers, a server that holds text back. Its first token is its last."""
        return self.tokens_out > 1 and self.last <= self.first

    @property
    def latency(self) -> float:
        """From sending to the last chunk [s]."""
        return self.last - self.sent


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a prompt of `numbers` random numbers, for `output_tokens` tokens. `forced`: the server is told not to stop earlier."""

    model: str
    numbers: int
    output_tokens: int
    forced: bool = True

    def body(self) -> bytes:
        """A prompt that no earlier one began with, so that no cache of prefixes shortens the first token."""
        prompt = " ".join(str(random.randrange(100, 1000)) for _ in range(self.numbers))  # noqa: S311 (no secret)
        asked: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.forced:
            asked["ignore_eos"] = True
        return json.dumps(asked, separators=(",", ":")).encode()


async def ask(client: Client, question: Question, *, due: float | None = None, timeout_s: float) -> Answer:
    """Send the question and read its answer to the end. Never raises for what the server does; a failure is an answer with `error`."""
    body = question.body()
    sent = time.perf_counter()
    start = Answer(sent if due is None else due, sent)
    try:
        async with asyncio.timeout(timeout_s):
            async with client.ask("POST", f"{client.place.base}/chat/completions", body) as reply:
                if reply.status != 200:
                    return dataclasses.replace(start, error=_told(reply.status, await reply.text()), status=reply.status)
                return await _read(start, reply.body)
    except TimeoutError:
        return dataclasses.replace(start, error=Message("measure.part_no_whole_answer", seconds=timeout_s))
    except asyncio.CancelledError:
        return dataclasses.replace(start, error=Message("measure.part_not_finished"))
    except (OSError, HttpError) as error:
        return dataclasses.replace(start, error=cause(error) if str(error) else type(error).__name__)


async def _read(start: Answer, body: Any) -> Answer:
    first, silent, last, rest = math.inf, math.inf, math.inf, b""
    failure: Message | str = ""
    usage: Mapping[str, Any] = {}
    async for piece in body:
        now = time.perf_counter()
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            event = _event(line)
            if event is None:
                continue
            failure = failure or (_told(200, json.dumps(event)) if "error" in event else "")
            usage = event.get("usage") or usage
            for choice in event.get("choices") or ():
                last = now
                first = min(first, now) if _has_text(choice) else first
                silent = silent if "role" in (choice.get("delta") or {}) else min(silent, now)
    if not math.isfinite(first) and _count(usage, "completion_tokens"):
        first = silent  # tokens without text (part of a character, an end that is ignored): what follows the role is the first of them
    if not failure and not math.isfinite(first):
        failure = Message("measure.part_no_text")
    found = dataclasses.replace(start, first=first, last=last, error=failure, status=200)
    return dataclasses.replace(found, tokens_in=_count(usage, "prompt_tokens"), tokens_out=_count(usage, "completion_tokens"))


def _event(line: bytes) -> Mapping[str, Any] | None:
    if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
        return None
    try:
        found = json.loads(line[5:])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _has_text(choice: Mapping[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    return any(delta.get(name) for name in ("content", "reasoning", "reasoning_content", "tool_calls"))


def _count(usage: Mapping[str, Any], name: str) -> int:
    found = usage.get(name)
    return found if isinstance(found, int) and found > 0 else 0


def _told(status: int, text: str) -> str:
    """What the server says of a failure, in one line."""
    try:
        found = json.loads(text)
        found = found.get("error", found) if isinstance(found, dict) else found
        text = str(found.get("message", found)) if isinstance(found, dict) else str(found)
    except ValueError:
        pass
    return f"HTTP {status}: {' '.join(text.split())[:_LONGEST]}"
