"""The tools as an MCP server on standard input and output."""

from __future__ import annotations

import gc
import inspect
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit import __version__, reach
from rightfit.errors import MissingComponentError, RightfitError, UnknownNameError
from rightfit.explain.messages import Lang
from rightfit.explain.plain import plain
from rightfit.explain.problems import problems_of
from rightfit.mcp.tools import Tool, all_tools
from rightfit.workload.vocabulary import nearest_words

MISSING = "the MCP server needs: pip install 'rightfit[mcp]'"
INSTRUCTIONS = (
    "rightfit picks the cloud server for a machine-learning workload, offline, from dated prices and measured physics. Ask `plan` with options or a "
    "sentence in `ask`; quote the text, the figures with intervals are in the structured answer. Prices carry their date. "
    "No file of this machine is read: name models by hub id, alias or size."
)


def create_server(*, lang: Lang = "en") -> Any:
    """The server with its tools; MissingComponentError without the extra mcp."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise MissingComponentError(f"{MISSING} ({error.name or 'mcp>=2'} is missing)") from None
    tools = [_strict_tool(tool, lang) for tool in all_tools()]
    return MCPServer(
        "rightfit",
        title="rightfit",
        version=__version__,
        instructions=INSTRUCTIONS,
        tools=tools,
        middleware=[_refuse_misspelt],
        log_level="ERROR",
    )


def _strict_tool(tool: Tool, lang: Lang) -> Any:
    """The tool as the server knows it. An argument that it does not have is refused: a misspelt wish must not be passed over."""
    from mcp.server.mcpserver.tools import Tool as ServerTool

    made = ServerTool.from_function(_function(tool, lang), name=tool.name, description=tool.about, annotations=_annotations())
    arguments = made.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    made.parameters = arguments.model_json_schema(by_alias=True)
    return made


async def _refuse_misspelt(context: Any, call_next: Any) -> Any:
    """A tool's argument that does not exist, told with the nearest that does."""
    asked = context.params if context.method == "tools/call" and isinstance(context.params, Mapping) else {}
    known = {tool.name: tool.fields for tool in all_tools()}.get(str(asked.get("name")), {}) if asked else {}
    given = asked.get("arguments")
    unknown = [name for name in given if name not in known] if known and isinstance(given, Mapping) else []
    if not unknown:
        return await call_next(context)
    return _refusal(
        [
            UnknownNameError("argument", str(name), nearest=nearest_words(str(name), list(known), count=2), field=str(name))
            for name in unknown
        ]
    )


def _refusal(errors: Sequence[RightfitError], lang: Lang = "en") -> Any:
    """In one line each what was wrong: an assistant can put that right and ask again."""
    from mcp.types import CallToolResult, TextContent

    problems = [problem for error in errors for problem in problems_of(error, lang)]
    text = TextContent(type="text", text="\n".join(problem.message for problem in problems))
    return CallToolResult(content=[text], structured_content={"errors": [problem.to_dict() for problem in problems]}, is_error=True)


def _annotations() -> Any:
    from mcp.types import ToolAnnotations

    return ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


def _function(tool: Tool, lang: Lang) -> Any:
    """A function with the tool's typed arguments, as the server reads them."""
    from mcp.types import CallToolResult

    def run(**values: Any) -> Any:
        return _result(tool, {"lang": lang, **values})

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=field)
        for name, (kind, field) in tool.fields.items()
    ]
    run.__name__, run.__doc__ = tool.name, tool.about
    run.__signature__ = inspect.Signature(parameters, return_annotation=CallToolResult)  # type: ignore[attr-defined]
    run.__annotations__ = {**{name: kind for name, (kind, _) in tool.fields.items()}, "return": CallToolResult}
    return run


def _result(tool: Tool, values: dict[str, Any]) -> Any:
    """The answer, or what was wrong."""
    from mcp.types import CallToolResult, TextContent

    try:
        with reach.closed():
            found = tool.answer(values)
    except RightfitError as error:
        return _refusal([error], "zh" if values.get("lang") == "zh" else "en")
    return CallToolResult(content=[TextContent(type="text", text=found.text)], structured_content=plain(found.data))


def run(*, lang: Lang = "en") -> None:
    """Serve until standard input ends. Nothing but the protocol goes to standard output."""
    gc.enable()
    server = create_server(lang=lang)
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, force=True)
    server.run("stdio")
