"""HTTP/1.1 over asyncio, as little of it as a load test needs: connections that are kept, bodies by chunk, by length or to the end. A small client because the
client's own time is part of what it measures; no redirects, no compression."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ssl
from collections.abc import AsyncIterator, Mapping
from urllib.parse import urlsplit

from rightfit.errors import InputError
from rightfit.messages import Message
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
    """The place of an API by an address of it, with or without /v1 and the name of a call. Raises InputError."""
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
        """The answer to a request. Raises HttpError and OSError. The connection is kept when the body was read to its end."""
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
            raise HttpError(Message("measure.part_broke_off_no_http")) from error
        finally:
            if is_whole:
                self._idle.append((reader, writer))
            else:
                writer.close()

    async def _sent(self, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """The request written and the first line of its answer; once more over a new connection where a kept one had been closed meanwhile."""
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
        raise HttpError(Message("measure.part_no_http" if line else "measure.part_closed"))
    return int(words[1])


async def _headers(reader: asyncio.StreamReader) -> Mapping[str, str]:
    headers = {}
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return headers


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str], done: list[bool]) -> AsyncIterator[bytes]:
    """Pieces of the body as they come; `done` gets an entry where the connection can be used again."""
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
                raise HttpError(Message("measure.part_broke_off"))
            left -= len(piece)
            yield piece
        done.append(True)
    else:
        while piece := await reader.read(_PIECE):
            yield piece
