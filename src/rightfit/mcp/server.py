"""The tools as an MCP server on standard input and output."""

from __future__ import annotations

import gc
import inspect
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit import __version__, reach
from rightfit.errors import MissingComponentError, RightfitError
from rightfit.explain.messages import plain, problems_of
from rightfit.mcp.resources import QUESTIONS, Question, all_shelves
from rightfit.mcp.tools import Tool, all_tools, told
from rightfit.messages import Lang, Message
from rightfit.workload.fields import settled

_UNSHOWN = frozenset({"anyOf", "title", "minLength", "maxLength"})
MISSING = Message("faces.mcp_needs")
INSTRUCTIONS = (
    "rightfit finds the cloud server to rent for a machine-learning workload, offline, from dated prices and performance models fitted to measurements. Call `plan` "
    "with arguments or with a sentence in `ask`, and quote the text. The structured answer has each figure as [middle, low, high] of an 80% interval in base units. "
    "Prices carry their date. No local files are read: name models by Hugging Face ID, alias or size."
)


def create_server(*, lang: Lang = "en") -> Any:
    """The server with its tools; MissingComponentError without the extra mcp."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise MissingComponentError(Message("rest.lacks", why=MISSING, word=error.name or "mcp>=2")) from None
    tools = {tool.name: _strict_tool(tool, lang) for tool in all_tools()}
    server = MCPServer(
        "rightfit",
        title="rightfit",
        version=__version__,
        instructions=INSTRUCTIONS,
        tools=list(tools.values()),
        resources=_resources(),
        middleware=[_judged({name: tool.fn_metadata.arg_model for name, tool in tools.items()}, lang)],
        log_level="ERROR",
    )
    for question in QUESTIONS:
        server.add_prompt(_prompt(question))
    return server


def _resources() -> list[Any]:
    from mcp.server.mcpserver.resources import FunctionResource

    return [
        FunctionResource(uri=shelf.uri, name=shelf.name, description=shelf.about, mime_type=shelf.mime_type, fn=shelf.read)
        for shelf in all_shelves()
    ]


def _prompt(question: Question) -> Any:
    from mcp.server.mcpserver.prompts.base import Prompt, PromptArgument

    def ask(**given: str) -> str:
        return question.text.format(**given)

    return Prompt(
        name=question.name,
        description=question.about,
        arguments=[PromptArgument(name=name, description=about, required=True) for name, about in question.asks.items()],
        fn=ask,
    )


def _strict_tool(tool: Tool, lang: Lang) -> Any:
    """The tool as the server knows it. An argument that it does not have is refused: a misspelt
    wish must not be passed over."""
    from mcp.server.mcpserver.tools import Tool as ServerTool

    made = ServerTool.from_function(_function(tool, lang), name=tool.name, description=tool.about, annotations=_annotations())
    arguments = made.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    made.parameters = _listed(arguments.model_json_schema(by_alias=True), tool)
    made.fn_metadata.output_schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in tool.gives.items()},
        "required": list(tool.gives),
    }
    return made


def _listed(schema: dict[str, Any], tool: Tool) -> dict[str, Any]:
    """What an assistant is shown of the arguments: without titles and nulls, and without those that
    the tool `options` tells of."""
    shown = {name: _short(one) for name, one in schema["properties"].items() if name not in tool.unlisted}
    required = {"required": schema["required"]} if "required" in schema else {}
    return {"type": "object", "properties": shown, **required, "additionalProperties": bool(tool.unlisted)}


def _short(one: dict[str, Any]) -> dict[str, Any]:
    """One argument: its kinds without null, in few words."""
    kinds = [kind["type"] for kind in one.get("anyOf", ()) if kind["type"] != "null"]
    rest = {name: value for name, value in one.items() if name not in _UNSHOWN and (name, value) != ("default", None)}
    return {"type": kinds[0] if len(kinds) == 1 else kinds, **rest} if kinds else rest


def _judged(models: Mapping[str, Any], lang: Lang) -> Any:
    """Arguments are judged before the tool sees them, each refusal in our own words
    with the nearest name."""

    async def middleware(context: Any, call_next: Any) -> Any:
        asked = context.params if context.method == "tools/call" and isinstance(context.params, Mapping) else {}
        given = asked.get("arguments")
        if str(asked.get("name")) in models:
            try:
                settled(models[str(asked["name"])], {} if given is None else given)
            except RightfitError as error:
                asked_lang = given.get("lang") if isinstance(given, Mapping) else None
                return _refusal([error], "zh" if (asked_lang or lang) == "zh" else "en")
        return await call_next(context)

    return middleware


def _refusal(errors: Sequence[RightfitError], lang: Lang = "en") -> Any:
    """In one line each what was wrong: an assistant can put that right and ask again."""
    from mcp.types import CallToolResult, TextContent

    problems = [problem for error in errors for problem in problems_of(error, lang)]
    text = TextContent(type="text", text=told("\n".join(problem.message for problem in problems)))
    records = [{**problem.to_dict(), "message": told(problem.message), "allowed": told(problem.allowed)} for problem in problems]
    return CallToolResult(content=[text], structured_content={"errors": records}, is_error=True)


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
