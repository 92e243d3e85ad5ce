"""The tools: each asks the library once and gives a text to quote with the
whole answer beside it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from rightfit import api, lookup
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.beside.settled import Asked, settle
from rightfit.explain.messages import plain
from rightfit.explain.questions import question_or_open_wish
from rightfit.explain.rule_lookup import headed, verdict_of
from rightfit.explain.sheets import Extent, estimate_sheet, short_sheet, verdict_sheet
from rightfit.explain.voices import plan_document, verdict_document
from rightfit.mcp.resources import KEPT, brief_plan, brief_verdict, option_records, sheet_text, spoken, spoken_data
from rightfit.messages import Lang
from rightfit.proof.tables import HIDDEN_COLUMNS
from rightfit.records import dataclass
from rightfit.workload.fields import LONGEST_NAME, workload_fields

Fields = Mapping[str, tuple[Any, Any]]
_MOST_ROWS = 500
_EXTENT = Extent(warnings=1, speed=False, commands=False)
_OF_COMMANDS = frozenset({"plan", "estimate", "why", "check", "predict", "export"})
_LISTS = ("models", "accelerators", "datasets", "servers", "prices", "providers", "regions", "targets")


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool found: a text to quote, and the whole as data."""

    text: str
    data: Mapping[str, Any]


def _tool_of(command: str) -> str:
    """The tool that does what a command does; empty where none does."""
    return "search_catalog" if command in _LISTS else command if command in _OF_COMMANDS else ""


def told(text: str) -> str:
    """A text of the library as an assistant can follow it: tools and arguments in place of
    commands and flags."""
    return spoken(text, _tool_of)


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool. `fields` are its typed arguments: {name: (type, default and description)};
    `unlisted` those that its schema leaves to the tool `options` (seventy of them in four tools
    would fill an assistant's memory); `gives` {name: JSON type} of the answer as data."""

    name: str
    about: str
    fields: Fields
    answer: Callable[[Mapping[str, Any]], ToolAnswer]
    gives: Mapping[str, str]
    unlisted: frozenset[str] = frozenset()


#: Options of a workload that the schema of `plan` lists, and those that the other tools list, which
#: take them all as well.
LISTED = (
    "model",
    "task",
    "method",
    "data",
    "rate",
    "input_tokens",
    "output_tokens",
    "deadline",
    "budget",
    "cloud",
    "region",
    "gpu",
    "purchase",
)
_LEAST = ("model", "task", "method", "data", "rate")
_UNLISTED, _FEW = (frozenset(workload_fields()).difference(names) for names in (LISTED, _LEAST))
_Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
_LANG: Fields = {"lang": (Literal["en", "zh"], Field(default="en", description="language of the sentences"))}
_ASK: Fields = {
    "ask": (
        Annotated[str, Field(max_length=2000)] | None,
        Field(default=None, description="the request in plain English or Chinese; other arguments take precedence"),
    )
}
_TOP: Fields = {"top": (int, Field(default=5, ge=1, le=20, description="number of options to return"))}
_ON: Fields = {
    "on": (_Name, Field(description="the server, as PROVIDER/INSTANCE_TYPE", examples=["aws/p4d.24xlarge"])),
    "nodes": (int, Field(default=1, ge=1, le=1024, description="number of servers")),
}


def _wishes(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: values[name] for name in workload_fields() if values.get(name) is not None}
    said = api.understand(without_questions(values["ask"]).wish).settled() if values.get("ask") else {}
    return {**said, **given}


def _catalog() -> Any:
    from rightfit.planner.plan import default_catalog

    return default_catalog()


def _lang(values: Mapping[str, Any]) -> Lang:
    return "zh" if values.get("lang") == "zh" else "en"


def plan(values: Mapping[str, Any]) -> ToolAnswer:
    """Rank servers."""
    lang, catalog = _lang(values), _catalog()
    given = any(values.get(name) is not None for name in workload_fields())
    if values.get("ask") and not given and (known := question_or_open_wish(values["ask"], catalog)):
        record = known.to_dict(lang=lang)
        return ToolAnswer(record["explanation"], {"answer": "", "parts": [], "workload": {}, "options": [], "items": [record]})
    asked = settle(values["ask"], catalog, {name: values.get(name) for name in workload_fields()}) if values.get("ask") else Asked("")
    found = api.plan(**{**_wishes({**values, "ask": asked.wish}), **asked.chosen}, catalog=catalog, top=values["top"])
    document = plain(plan_document(found, lang, catalog=catalog))
    told = asked.lines(found, catalog, lang)
    text = "\n".join([*told, sheet_text(short_sheet(found, lang, extent=_EXTENT), lang)])
    return ToolAnswer(text, {**brief_plan(document), **({"answers": told} if told else {})})


def estimate(values: Mapping[str, Any]) -> ToolAnswer:
    """One given server."""
    lang, catalog = _lang(values), _catalog()
    found = api.estimate(**_wishes(values), on=values["on"], nodes=values["nodes"], catalog=catalog)
    text = sheet_text(estimate_sheet(found, lang, catalog=catalog), lang)
    return ToolAnswer(text, brief_plan(plain(plan_document(found, lang, catalog=catalog))))


def why(values: Mapping[str, Any]) -> ToolAnswer:
    """Why a server was or was not chosen."""
    lang = _lang(values)
    found = api.why(values["server"], **_wishes(values), catalog=_catalog())
    return ToolAnswer(sheet_text(verdict_sheet(found, lang), lang), brief_verdict(plain(verdict_document(found, lang))))


def details(values: Mapping[str, Any]) -> ToolAnswer:
    """A part of an answer that is kept."""
    found = spoken_data(KEPT.part(values["answer"], values["part"], values["rank"]), _tool_of)
    return ToolAnswer(json.dumps(found, ensure_ascii=False), {"answer": values["answer"], "part": values["part"], "found": found})


def options(values: Mapping[str, Any]) -> ToolAnswer:
    """What a wish may say."""
    found = option_records(values["query"])
    lines = [f"{one['option']}: {one['help']}, e.g. {one['example']}" + _words_text(one.get("words", ())) for one in found]
    return ToolAnswer("\n".join(lines) or "no option matches", {"items": found})


def _words_text(words: Sequence[str]) -> str:
    return f" ({', '.join(words)})" if words else ""


def check(values: Mapping[str, Any]) -> ToolAnswer:
    """Names and claims."""
    lang = _lang(values)
    results = api.check(values["claims"], catalog=_catalog())
    found = [result.to_dict(lang=lang) for result in results]
    stop = "。" if lang == "zh" else ". "
    lines = [
        stop.join(filter(None, [headed(one.query, verdict_of(one, lang), lang).rstrip(".。"), told["explanation"]]))
        for one, told in zip(results, found, strict=True)
    ]
    return ToolAnswer("\n".join(lines), {"items": found})


def predict(values: Mapping[str, Any]) -> ToolAnswer:
    """Rows of cases."""
    found = [{key: value for key, value in row.items() if key not in HIDDEN_COLUMNS} for row in api.predict(values["rows"])]
    lines = [
        f"{number}. {row['metric']}: {row['error']}"
        if row["error"]
        else f"{number}. {row['metric']} = {row['predicted']:.4g} (80% interval {row['low80']:.4g} to {row['high80']:.4g})"
        for number, row in enumerate(found[:20], start=1)
    ]
    return ToolAnswer("\n".join([*lines, *(["..."] if len(found) > len(lines) else [])]), {"items": found})


def understand(values: Mapping[str, Any]) -> ToolAnswer:
    """Plain words."""
    found = api.understand(values["sentence"])
    lines = [f"{name} = {value}" for name, value in found.wishes.items()]
    unused = [f"not used: {', '.join(found.unused)}"] if found.unused else []
    assumed = [one.text(_lang(values)) for one in found.assumed]
    told = [f"assumed: {'; '.join(assumed)}"] if assumed else []
    return ToolAnswer("\n".join([*lines, *told, *unused]), {**dataclasses.asdict(found), "assumed": assumed, "wishes": found.wishes})


def export(values: Mapping[str, Any]) -> ToolAnswer:
    """The files that start the best option."""
    from rightfit import exports

    found = api.plan(**_wishes(values), catalog=_catalog(), top=max(values["option"], 1))
    document = plan_document(found, _lang(values))
    job = exports.job_of(
        exports.plan_document(plain(document)), rank=values["option"], settings=exports.ExportSettings(name=values["name"])
    )
    files = dict(exports.files_of(job, values["to"]))
    text = "\n".join(f"# ==> {path}\n{content}" for path, content in files.items()) if len(files) <= 3 else "\n".join(files)
    return ToolAnswer(text, {"target": values["to"], "files": files})


def search_catalog(values: Mapping[str, Any]) -> ToolAnswer:
    """A list of what is known."""
    rows, total = _found(values)
    lines = [("- " + ", ".join(f"{key} {row[key]}" for key in _SHOWN if row.get(key) not in (None, "", 0))) for row in rows]
    head = f"{values['kind']}: {total} found, {len(rows)} shown"
    return ToolAnswer("\n".join([head, *lines]), {"kind": values["kind"], "total": total, "items": rows})


def _found(values: Mapping[str, Any]) -> tuple[list[Any], int]:
    query, limit, kind = values["query"], values["limit"], values["kind"]
    places = {name: values[name] for name in ("cloud", "gpu")}
    if kind == "prices":
        priced = lookup.prices(query, **places, limit=limit, catalog=_catalog())
        return [plain(row) for row in priced.rows()], priced.total
    found = list(_finders(values["lang"])[kind](query, places))
    return [plain(row) for row in found[:limit]], len(found)


def _finders(lang: Lang) -> Mapping[str, Callable[[str, Mapping[str, str]], Sequence[Any]]]:
    from rightfit import exports
    from rightfit.search import servers as geography

    return {
        "models": lambda query, _: [lookup.model_record(record) for record in api.models(query)],
        "accelerators": lambda query, _: api.accelerators(query),
        "datasets": lambda query, _: api.datasets(query),
        "servers": lambda query, places: lookup.servers(query, **places, catalog=_catalog()).rows(),
        "providers": lambda query, _: geography.providers(_catalog(), asked=query.replace(",", " ").split(), lang=lang),
        "regions": lambda query, places: geography.regions(_catalog(), query, cloud=lookup.read_names("cloud", places["cloud"])),
        "targets": lambda query, _: [
            {"target": one.name, "summary": one.summary} for one in exports.all_targets().values() if query in one.name
        ],
    }


_SHOWN = (
    "provider",
    "instance_type",
    "region",
    "name",
    "target",
    "purchase",
    "price_usd_per_h",
    "as_of",
    "accelerator_name",
    "num_accelerators",
    "vcpus",
    "summary",
    "params_total",
    "memory_bytes",
    "samples",
    "tokens",
    "country",
    "largest",
)


def _claims() -> Fields:
    described = "server types, accelerators, models, NAME=CLAIM (g5.xlarge=T4), or rules of thumb (RAM >= 4x VRAM)"
    return {
        "claims": (Annotated[list[_Name], Field(min_length=1, max_length=50)], Field(description=described, examples=[["g5.xlarge=T4"]]))
    }


def _rows() -> Fields:
    cells = dict[str, str | int | float | None]
    described = "cases to predict, one object each: metric (peak_mem_gib_per_gpu, tokens_per_s_per_gpu, step_time_s ...), model, gpu, n_gpus, method, precision, seq_len, micro_batch ..."
    return {"rows": (Annotated[list[cells], Field(min_length=1, max_length=_MOST_ROWS)], Field(description=described))}


def _list_fields() -> Fields:
    word = Annotated[str, Field(max_length=LONGEST_NAME)]
    return {
        "kind": (Literal[_LISTS], Field(description="what to look for")),
        "query": (word, Field(default="", description="words the name must contain; empty lists all")),
        "cloud": (word, Field(default="", description="servers and prices: only these clouds, e.g. aws,gcp")),
        "gpu": (word, Field(default="", description="servers and prices: only these accelerators, e.g. A100")),
        "limit": (int, Field(default=20, ge=1, le=200, description="maximum number of results")),
    }


_OF_PLAN = {"answer": "string", "parts": "array"}


def all_tools() -> tuple[Tool, ...]:
    """Every tool. Their answers name tools and arguments; files and parts stay as they are."""
    return tuple(
        tool if tool.name in ("export", "details") else dataclasses.replace(tool, answer=_spoken(tool.answer)) for tool in _tools()
    )


def _spoken(answer: Callable[[Mapping[str, Any]], ToolAnswer]) -> Callable[[Mapping[str, Any]], ToolAnswer]:
    def told_answer(values: Mapping[str, Any]) -> ToolAnswer:
        found = answer(values)
        return ToolAnswer(told(found.text), spoken_data(found.data, _tool_of))

    return told_answer


def _tools() -> tuple[Tool, ...]:
    workload = workload_fields()
    server = {"server": (_Name, Field(description="the server, as PROVIDER/INSTANCE_TYPE", examples=["aws/g5.xlarge"]))}
    to = {
        "to": (
            _Name,
            Field(description="target: skypilot, terraform-aws, kubernetes-job ...; search_catalog with kind targets lists them"),
        ),
        "option": (int, Field(default=1, ge=1, le=20, description="rank of the option to export")),
        "name": (
            Annotated[str, Field(max_length=60)],
            Field(default="", description="name of the job's resources; default: model and plan id"),
        ),
    }
    sentence = {
        "sentence": (Annotated[str, Field(min_length=1, max_length=2000)], Field(description="a request in plain English or Chinese"))
    }
    kept = {
        "answer": (_Name, Field(description="ID of an answer from plan, estimate or why")),
        "part": (_Name, Field(description="name of the part, one of its `parts`", examples=["options"])),
        "rank": (int | None, Field(default=None, ge=1, description="with part `options`: return only this rank")),
    }
    words = {"query": (Annotated[str, Field(max_length=LONGEST_NAME)], Field(default="", description="words in the name or description"))}
    return (
        Tool(
            "plan",
            "Find the cloud server to rent for training, fine-tuning, serving or preparing data: ranked options with price, time, memory, cost, 80% intervals "
            "and reasons. More arguments are accepted by name: see the tool `options`. For the full results use the tool `details`.",
            {**_ASK, **workload, **_TOP, **_LANG},
            plan,
            {**_OF_PLAN, "workload": "object", "options": "array"},
            _UNLISTED,
        ),
        Tool(
            "estimate",
            "Predict memory, time and cost of a workload on one server, without a search. Arguments as in `plan`.",
            {**_ON, **_ASK, **workload, **_LANG},
            estimate,
            {**_OF_PLAN, "workload": "object", "options": "array"},
            _FEW,
        ),
        Tool(
            "why",
            "Explain why a server was or was not chosen for a workload, and the smallest change that would alter it. Arguments as in `plan`.",
            {**server, **_ASK, **workload, **_LANG},
            why,
            {**_OF_PLAN, "provider": "string", "instance_type": "string", "fits": "boolean", "standing": "array"},
            _FEW,
        ),
        Tool(
            "details",
            "Return one part of an answer from plan, estimate or why in full.",
            kept,
            details,
            {"answer": "string", "part": "string"},
        ),
        Tool(
            "options",
            "List the arguments that describe a workload, each with an example and the values it accepts.",
            words,
            options,
            {"items": "array"},
        ),
        Tool(
            "check",
            "Check whether a server, accelerator, claim or rule of thumb is right, and return the correct or nearest one.",
            {**_claims(), **_LANG},
            check,
            {"items": "array"},
        ),
        Tool("predict", "Predict memory or speed for each row of a table.", _rows(), predict, {"items": "array"}),
        Tool(
            "understand",
            "Parse a request in plain words: the arguments it sets, and the words that were not used.",
            sentence,
            understand,
            {"wishes": "object", "unused": "array"},
        ),
        Tool(
            "export",
            "Write the files that start an option of a plan: SkyPilot, Terraform, Kubernetes, training and serving commands. Arguments as in `plan`.",
            {**to, **_ASK, **workload, **_LANG},
            export,
            {"target": "string", "files": "object"},
            _FEW,
        ),
        Tool(
            "search_catalog",
            "Search models, accelerators, datasets, servers, prices with dates, providers, regions and export targets.",
            {**_list_fields(), **_LANG},
            search_catalog,
            {"kind": "string", "total": "integer", "items": "array"},
        ),
    )
