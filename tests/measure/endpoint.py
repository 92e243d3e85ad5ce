"""A server that speaks OpenAI's API over real HTTP and obeys a known law: k slots, first come first
served, a time to the first token and a time per token.

Run as a process of its own: `python endpoint.py '{"slots": 4, ...}'`; it prints its port.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

LAW: dict[str, Any] = {
    "slots": 4,
    "first_s": 0.04,
    "token_s": 0.005,
    "models": ["tiny"],
    "takes_any_model": False,  # whether a model that is not listed is answered for, as by transformers serve
    "silent": False,  # whether tokens have no text, as parts of a character and ends that are ignored
    "usage": True,  # whether a stream ends with a usage
    "takes_ignore_eos": True,
    "fails_after": None,  # requests that succeed before every further one is refused
    "status": 503,
    "api": "openai",  # openai, html
    "key": "",
    "role_at_once": True,  # whether an empty chunk comes before the queue, or with the first token as of vLLM
    "drop": False,  # close the connection in the middle of a stream
    "factor": 1.0,  # how much more the page of metrics counts than is true
}
METRICS = {"first_sum": 0.0, "first_count": 0, "tokens": 0, "waiting": 0}


class Server:
    def __init__(self, law: dict[str, Any]) -> None:
        self.law, self.slots, self.asked = law, asyncio.Semaphore(law["slots"]), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self.answer(lines[0].split()[1], headers, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    async def answer(self, path: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> bool:
        law = self.law
        if law["api"] == "html":
            return await plain(writer, 200, "<html>hello</html>")
        if law["key"] and headers.get("authorization") != f"Bearer {law['key']}":
            return await plain(writer, 401, '{"error": {"message": "no key"}}')
        if path == "/v1/models":
            return await plain(writer, 200, json.dumps({"data": [{"id": name, "owned_by": "vllm"} for name in law["models"]]}))
        if path == "/health":
            return await plain(writer, 200, "")
        if path == "/metrics":
            return await plain(writer, 200, metrics(law))
        if path != "/v1/chat/completions":
            return await plain(writer, 404, "not found")
        asked = json.loads(body)
        if "ignore_eos" in asked and not law["takes_ignore_eos"]:
            return await plain(writer, 400, '{"error": {"message": "unknown parameter ignore_eos"}}')
        if asked["model"] not in law["models"] and not law["takes_any_model"]:
            return await plain(writer, 404, '{"error": {"message": "The model does not exist."}}')
        self.asked += 1
        if law["fails_after"] is not None and self.asked > law["fails_after"]:
            return await plain(writer, law["status"], '{"error": {"message": "out of memory"}}')
        return await self.stream(asked, writer)

    async def stream(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        law, came = self.law, time.perf_counter()
        tokens = asked.get("max_tokens") or asked.get("max_completion_tokens") or 16
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        role = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
        if law["role_at_once"]:
            await event(writer, role)
        METRICS["waiting"] += 1
        async with self.slots:
            METRICS["waiting"] -= 1
            due = time.perf_counter() + law["first_s"]
            for at in range(tokens):
                await asyncio.sleep(due - time.perf_counter())
                due += law["token_s"]
                if at == 0 and not law["role_at_once"]:
                    await event(writer, role)
                if at == 0:
                    METRICS["first_sum"] += time.perf_counter() - came
                    METRICS["first_count"] += 1
                if law["drop"] and at == tokens // 2:
                    return False
                METRICS["tokens"] += 1
                await event(writer, {"choices": [{"index": 0, "delta": {"content": "two words "}}]})
        await event(writer, {"choices": [{"delta": {}, "finish_reason": "length"}]})
        if law["usage"]:
            content = asked["messages"][0]["content"]
            prompt = 2 * len((content if isinstance(content, str) else content[0]["text"]).split()) + 7
            await event(writer, {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": tokens}})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        return True


def metrics(law: dict[str, Any]) -> str:
    label = '{model_name="tiny"}'
    lines = {
        f"vllm:generation_tokens_total{label}": METRICS["tokens"] * law["factor"],
        f"vllm:time_to_first_token_seconds_sum{label}": METRICS["first_sum"] * law["factor"],
        f"vllm:time_to_first_token_seconds_count{label}": METRICS["first_count"],
        f"vllm:num_requests_waiting{label}": METRICS["waiting"],
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())


async def plain(writer: asyncio.StreamWriter, status: int, text: str) -> bool:
    writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text.encode())}\r\n\r\n{text}".encode())
    await writer.drain()
    return True


async def event(writer: asyncio.StreamWriter, content: dict[str, Any]) -> None:
    data = f"data: {json.dumps({'id': 'a', 'object': 'chat.completion.chunk', 'model': 'tiny', **content})}\n\n".encode()
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    await writer.drain()


async def main() -> None:
    server = Server({**LAW, **json.loads(sys.argv[1])})
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
