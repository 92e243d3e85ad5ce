"""The server as an assistant starts it: over standard input and output, with the
protocol's own client."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra mcp is not installed")

import rightfit
from rightfit.mcp.tools import LISTED

SOURCE = Path(rightfit.__file__).parent.parent


def talk(work: Callable[[Any], Awaitable[Any]], *arguments: str) -> Any:
    """Start the server, do `work(session)`, and end it."""
    from mcp import ClientSession, StdioServerParameters, stdio_client

    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "LANG": "C.UTF-8"}

    async def session() -> Any:
        parameters = StdioServerParameters(command=sys.executable, args=["-m", "rightfit", "mcp", *arguments], env=environment)
        async with stdio_client(parameters) as (reading, writing), ClientSession(reading, writing) as client:
            await client.initialize()
            return await work(client)

    return asyncio.run(asyncio.wait_for(session(), 150))


def test_a_whole_conversation() -> None:
    async def work(client: Any) -> None:
        listed = await client.list_tools()
        assert len(json.dumps(listed.model_dump(mode="json", by_alias=True, exclude_none=True))) < 15_000
        tools = {tool.name: tool for tool in listed.tools}
        assert all(tool.output_schema["required"] for tool in tools.values())
        assert tools["check"].input_schema["additionalProperties"] is False
        schema = tools["plan"].input_schema
        assert set(LISTED) < set(schema["properties"])
        assert schema["properties"]["top"]["maximum"] == 20
        assert tools["estimate"].input_schema["required"] == ["on"]
        assert tools["plan"].annotations.read_only_hint

        found = await client.call_tool(
            "plan", {"ask": "fine-tune Llama-3-8B with LoRA on 50k samples, under $200", "cloud": ["aws", "gcp"]}
        )
        assert not found.is_error
        assert found.content[0].text.startswith("Rent ")
        assert {option["provider"] for option in found.structured_content["options"]} <= {"aws", "gcp"}

        listed = await client.call_tool("search_catalog", {"kind": "prices", "query": "g5.xlarge", "limit": 1})
        assert listed.structured_content["items"][0]["instance_type"] == "g5.xlarge"

        for arguments, said in (
            ({"model": "Llama-3-8C"}, "Meta-Llama-3-8B"),
            ({"model": "/etc/passwd"}, "no files"),
            ({"model": "os:system"}, "no code"),
            ({"model": "7B", "epochs": -1}, "0.001"),
            ({"modl": "7B"}, "no such field 'modl'; did you mean model?"),
            ({"model": "7B", "top": 0}, "top: not a number from 1 to 20"),
            ({"model": "7B", "top": "many", "lang": "zh"}, "top"),
            ({"model": ["7B"]}, "not a value for this option"),
            ({"model": "7B", "lang": "fr"}, "'en' or 'zh'"),
        ):
            refused = await client.call_tool("plan", arguments)
            assert refused.is_error
            assert said in refused.content[0].text
            assert "Traceback" not in refused.content[0].text
            assert "validation error" not in refused.content[0].text
        assert not (await client.call_tool("check", {"claims": ["g5.xlarge=T4"]})).is_error
        # An option that the schema leaves to the tool `options` is taken all the same.
        unlisted = await client.call_tool("plan", {"model": "7B", "method": "lora", "lora_rank": 64, "top": 1})
        assert unlisted.structured_content["workload"]["lora_rank"] == 64
        part = await client.call_tool("details", {"answer": unlisted.structured_content["answer"], "part": "options", "rank": 1})
        assert part.structured_content["found"]["rank"] == 1

    talk(work)


def test_texts_and_usual_questions() -> None:
    async def work(client: Any) -> None:
        for shelf in (await client.list_resources()).resources:
            assert json.loads((await client.read_resource(shelf.uri)).contents[0].text)
        for question in (await client.list_prompts()).prompts:
            given = {argument.name: f"<{argument.name}>" for argument in question.arguments}
            text = (await client.get_prompt(question.name, given)).messages[0].content.text
            assert all(place in text for place in given.values())

    talk(work)


def test_chinese() -> None:
    async def work(client: Any) -> str:
        found = await client.call_tool("plan", {"model": "7B", "lang": "zh"})
        return str(found.content[0].text)

    assert "租用" in talk(work)


def test_without_the_extra_one_line_says_how(tmp_path: Path) -> None:
    import subprocess

    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp/__init__.py").write_text("raise ImportError('not installed', name='mcp')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}", "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-m", "rightfit", "mcp"], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: the MCP server needs: pip install 'rightfit[mcp]' (mcp is missing)\n"
