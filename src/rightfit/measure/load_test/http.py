"""HTTP/1.1 over asyncio, as little of it as a load test needs: connections that are kept, bodies by
chunk, by length or to the end. A small client because the client's own time is part of what it
measures; no redirects, no compression."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import math
import random
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from rightfit.errors import InputError
from rightfit.measure.record import json_of
from rightfit.messages import Message, cause
from rightfit.records import dataclass

_PIECE = 65_536


class HttpError(Exception):
    """An answer that is no HTTP, or a connection that broke."""

    def __init__(self, message: Message) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True, slots=True)
class Place:
    """A server, and the path of its API without the last slash ("/v1")."""

    scheme: str
    host: str
    port: int
    base: str

    def __str__(self) -> str:
        return f"{self.scheme}://{_authority(self)}{self.base}"


def place_of(url: str) -> Place:
    """The place of an API by an address of it, with or without /v1 and the name of a call.
    Raises InputError."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(Message("measure.no_server_address", address=url[:80]), field="url")
    if parts.username or parts.password or parts.query:
        raise InputError(Message("measure.no_secrets_in_address"), field="url")
    path = parts.path.rstrip("/")
    for ending in ("/chat/completions", "/completions", "/models"):
        path = path.removesuffix(ending)
    return Place(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), path or "/v1")


@dataclasses.dataclass(slots=True)
class Reply:
    """Status and body of an answer that is being read."""

    status: int
    body: AsyncIterator[bytes]

    async def text(self) -> str:
        """The whole body."""
        return b"".join([part async for part in self.body]).decode("utf-8", errors="replace")


class Client:
    """Requests to one place over connections that are kept as long as the server keeps them."""

    def __init__(self, place: Place, key: str = "") -> None:
        self.place = place
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._head = f"Host: {_authority(place)}\r\nUser-Agent: rightfit\r\nAccept: */*\r\n" + (
            f"Authorization: Bearer {key}\r\n" if key else ""
        )
        self._tls = ssl.create_default_context() if place.scheme == "https" else None

    async def close(self) -> None:
        """End every connection."""
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    @contextlib.asynccontextmanager
    async def ask(self, method: str, path: str, body: bytes = b"") -> AsyncIterator[Reply]:
        """The answer to a request. Raises HttpError and OSError. The connection is kept when the
        body was read to its end."""
        text = f"{method} {path} HTTP/1.1\r\n{self._head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        reader, writer, line = await self._sent(text.encode() + body)
        is_whole = False
        try:
            status = _status(line)
            headers = await _headers(reader)
            done: list[bool] = []
            yield Reply(status, _body(reader, headers, done))
            is_whole = bool(done) and headers.get("connection", "").lower() != "close"
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise HttpError(Message("measure.broke_off_no_http")) from error
        finally:
            if is_whole:
                self._idle.append((reader, writer))
            else:
                writer.close()

    async def _sent(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """The request written and the first line of its answer; once more over a new connection
        where a kept one had been closed meanwhile."""
        while self._idle:
            reader, writer = self._idle.pop()
            with contextlib.suppress(OSError):
                line = await _first_line(reader, writer, request)
                if line:
                    return reader, writer, line
            writer.close()
        reader, writer = await asyncio.open_connection(self.place.host, self.place.port, ssl=self._tls, limit=2**20)
        try:
            return reader, writer, await _first_line(reader, writer, request)
        except BaseException:
            writer.close()
            raise


def _authority(place: Place) -> str:
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"{host}:{place.port}"


async def _first_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    try:
        await writer.drain()
        return await reader.readline()
    except BaseException:
        writer.close()
        raise


def _status(line: bytes) -> int:
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise HttpError(Message("measure.no_http" if line else "measure.closed"))
    return int(words[1])


async def _headers(reader: asyncio.StreamReader) -> Mapping[str, str]:
    headers = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str], done: list[bool]) -> AsyncIterator[bytes]:
    """Pieces of the body as they come; `done` gets an entry where the connection
    can be used again."""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while size := int((await reader.readline()).split(b";")[0], 16):
            yield (await reader.readexactly(size + 2))[:-2]
        while (await reader.readline()).strip():
            pass
        done.append(True)
    elif "content-length" in headers:
        left = int(headers["content-length"])
        while left > 0:
            piece = await reader.read(min(left, _PIECE))
            if not piece:
                raise HttpError(Message("measure.broke_off"))
            left -= len(piece)
            yield piece
        done.append(True)
    else:
        while piece := await reader.read(_PIECE):
            yield piece


# ---- One streamed chat completion: when its first token came, when its last one, and how many
# tokens the server says there were.
#
# Tokens are those of `usage` (stream_options.include_usage); text is never counted, since another
# tokenizer gives another number and a chunk may hold several tokens. Servers that repeat a running
# `usage` on every chunk are read by the last.

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """One request. Moments [s] of one clock: `due` (when it should have left), sent, first token,
    last chunk; tokens by the server's count. `error` says why it failed; of a failed one the
    moments that were not reached are infinite."""

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
        """(end to end - first token) / (tokens - 1) [s]; not a number for an answer of one
        token, or of one piece."""
        if self.tokens_out < 2 or self.is_whole:
            return math.nan
        return (self.last - self.first) / (self.tokens_out - 1)

    @property
    def is_whole(self) -> bool:
        """Whether several tokens came in one piece: a proxy that buffers, a server that holds text
        back. Its first token is its last."""
        return self.tokens_out > 1 and self.last <= self.first

    @property
    def latency(self) -> float:
        """From sending to the last chunk [s]."""
        return self.last - self.sent


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a prompt of `numbers` random numbers, for `output_tokens` tokens. `forced`:
    the server is told not to stop earlier."""

    model: str
    numbers: int
    output_tokens: int
    forced: bool = True

    def body(self) -> bytes:
        """A prompt that no earlier one began with, so that no cache of prefixes
        shortens the first token."""
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
    """Send the question and read its answer to the end. Never raises for what the server does; a
    failure is an answer with `error`."""
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
        return dataclasses.replace(start, error=Message("measure.no_whole_answer", seconds=timeout_s))
    except asyncio.CancelledError:
        return dataclasses.replace(start, error=Message("measure.not_finished"))
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
        failure = Message("measure.no_text")
    found = dataclasses.replace(start, first=first, last=last, error=failure, status=200)
    return dataclasses.replace(found, tokens_in=_count(usage, "prompt_tokens"), tokens_out=_count(usage, "completion_tokens"))


def _event(line: bytes) -> Mapping[str, Any] | None:
    if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
        return None
    try:
        found = json_of(line[5:])
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
        found = json_of(text)
        found = found.get("error", found) if isinstance(found, dict) else found
        text = str(found.get("message", found)) if isinstance(found, dict) else str(found)
    except ValueError:
        pass
    return f"HTTP {status}: {' '.join(text.split())[:_LONGEST]}"
