"""Write the reference pages that come from code: commands, Python and physics functions,
coefficients, schemas, the REST API.

Usage: python scripts/build_docs.py [--out FOLDER]     (docs/reference of the checkout, which git
                                                       ignores, or of FOLDER)
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import json
import os
import pkgutil
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))
os.environ["LC_ALL"] = "C.UTF-8"  # help texts follow the locale, the reference is in English

MADE_BY = "<!-- made by scripts/build_docs.py: edit the code, not this page -->\n\n"


def command_pages() -> dict[str, str]:
    """One page with each command: help, options, examples, Python twin."""

    from rightfit.cli.app import build

    group: Any = build()
    parts = [
        MADE_BY,
        "# Commands\n\nExit codes: 0 answered, 1 no feasible answer (the reasons are printed), 2 bad input, 3 a needed component or network is missing.\n",
    ]
    for path, command in walk_commands(group, ()):
        parts.append(command_section(path, command))
    return {"docs/reference/commands.md": "".join(parts)}


def walk_commands(group: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    """Every visible command with its path of names, in order."""
    found = []
    for name, command in group.commands.items():
        if getattr(command, "hidden", False):
            continue
        if hasattr(command, "commands"):
            found += walk_commands(command, (*path, name))
        else:
            found.append(((*path, name), command))
    return found


def command_section(path: tuple[str, ...], command: Any) -> str:
    """The section of one command."""
    lines = [f"\n## rightfit {' '.join(path)}\n\n", inspect.cleandoc(command.help or "").replace("\b", "").strip() + "\n"]
    twin = python_twin(path)
    if twin:
        lines.append(f"\nIn Python: `{twin}`\n")
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option" and not parameter.hidden]
    if arguments or options:
        lines.append("\n| option | meaning |\n|---|---|\n")
    lines += [f"| `{parameter.metavar or parameter.name}` | {cell(getattr(parameter, 'help', '') or '')} |\n" for parameter in arguments]
    for parameter in options:
        names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
        lines.append(f"| {names} | {cell(parameter.help or '')} |\n")
    return "".join(lines)


def cell(text: str) -> str:
    """Text that cannot break a table row."""
    return " ".join(text.replace("|", "\\|").split())


def python_twin(path: tuple[str, ...]) -> str:
    """The public Python function of the same name, with its signature shortened to its name."""
    import rightfit

    name = path[0]
    return f"rightfit.{name}(...)" if name in rightfit.__all__ and len(path) == 1 else ""


def physics_pages() -> dict[str, str]:
    """One page a physics module, from its docstrings."""
    import rightfit.physics

    pages = {}
    index = [
        MADE_BY,
        f"# Physics\n\n{inspect.getdoc(rightfit.physics)}\n\n| module | subject |\n|---|---|\n",
    ]
    for information in sorted(pkgutil.iter_modules(rightfit.physics.__path__), key=lambda item: item.name):
        module = importlib.import_module(f"rightfit.physics.{information.name}")
        summary = " ".join((inspect.getdoc(module) or "").partition("\n\n")[0].split())
        index.append(f"| [{information.name}]({information.name}.md) | {cell(summary)} |\n")
        pages[f"docs/reference/physics/{information.name}.md"] = module_page(information.name, module)
    pages["docs/reference/physics/index.md"] = "".join(index)
    return pages


def module_page(name: str, module: Any) -> str:
    """Docstring of the module, then each public function and class that it defines."""
    parts = [MADE_BY, f"# physics.{name}\n\n", (inspect.getdoc(module) or "") + "\n"]
    for member_name, member in vars(module).items():
        if member_name.startswith("_") or getattr(member, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(member):
            parts.append(f"\n## {member_name}\n\n```python\n{member_name}{signature(member)}\n```\n\n{inspect.getdoc(member) or ''}\n")
        elif inspect.isclass(member):
            parts.append(f"\n## {member_name}\n\n{inspect.getdoc(member) or ''}\n{field_units(member)}")
    return "".join(parts)


def field_units(kind: type) -> str:
    """The fields of a struct of columns with their units."""
    fields = getattr(kind, "__dataclass_fields__", {}).values()
    named = [f"`{field.name}` [{field.metadata['unit']}]" for field in fields if field.metadata.get("unit")]
    return f"\nFields: {', '.join(named)}.\n" if named else ""


def signature(function: Any) -> str:
    """The signature with short type names."""
    text = str(inspect.signature(function)).replace("''", '""')
    text = re.sub(r"'([^']+)'", r"\1", text)
    return text.replace("rightfit.physics.columns.", "").replace("numpy.ndarray[tuple[Any, ...], numpy.dtype[numpy.float64]]", "Array")


def coefficient_page() -> dict[str, str]:
    """Every calibrated or published coefficient with unit and source."""
    parts = [MADE_BY, "# Coefficients\n\nEach number that physics uses and that is not a definition, with its source.\n"]
    for file in sorted((ROOT / "src/rightfit/facts/data/coefficients").glob("*.toml")):
        parts.append(f"\n## {file.stem}\n\n| name | value | unit | source |\n|---|---|---|---|\n")
        for name, entry in flatten(tomllib.loads(file.read_text(encoding="utf-8"))):
            parts.append(f"| `{name}` | {entry['value']} | {cell(str(entry.get('unit', '')))} | {cell(str(entry['source']))} |\n")
    return {"docs/reference/coefficients.md": "".join(parts)}


def flatten(table: dict[str, Any], prefix: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Nested tables to dotted names; an entry is a table with a value."""
    found = []
    for name, entry in table.items():
        if isinstance(entry, dict) and "value" in entry:
            found.append((prefix + name, entry))
        elif isinstance(entry, dict):
            found += flatten(entry, f"{prefix}{name}.")
    return found


API_CLASSES = (
    ("rightfit.workload.model", "Workload"),
    ("rightfit.answers", "Plan"),
    ("rightfit.search.answer", "Option"),
    ("rightfit.search.answer", "Layout"),
    ("rightfit.search.service.options", "ServingLayout"),
    ("rightfit.families.tables.explore", "HostLayout"),
    ("rightfit.search.answer", "OptionAccelerator"),
    ("rightfit.estimation.figures", "Figure"),
    ("rightfit.search.answer", "Cost"),
    ("rightfit.search.service.options", "ServingCost"),
    ("rightfit.search.answer", "Alternative"),
    ("rightfit.search.answer", "Rejection"),
    ("rightfit.search.answer", "NearMiss"),
    ("rightfit.search.answer", "Assumption"),
    ("rightfit.search.answer", "Reason"),
    ("rightfit.search.answer", "Section"),
    ("rightfit.search.answer", "Counts"),
    ("rightfit.answers", "Verdict"),
)


def python_page() -> dict[str, str]:
    """The public functions, the classes of their answers, and the exceptions, from
    signatures and docstrings."""
    import rightfit

    names = [name for name in rightfit.__all__ if inspect.isfunction(getattr(rightfit, name))]
    parts = [
        MADE_BY,
        "# Python\n\nEverything here is `import rightfit`; the commands have the same names. Numbers are in base units (bytes, seconds, US dollars).\n",
    ]
    parts += [function_section(f"rightfit.{name}", getattr(rightfit, name)) for name in names]
    parts.append("\n## Classes of the answers\n")
    parts += [class_section(getattr(importlib.import_module(module), name)) for module, name in API_CLASSES]
    errors = importlib.import_module("rightfit.errors")
    parts.append("\n## Exceptions\n\n```text\n" + (inspect.getdoc(errors) or "").split("\n\n")[1] + "\n```\n")
    return {"docs/reference/python.md": "".join(parts)}


def function_section(name: str, function: Any) -> str:
    """Signature and docstring of a function."""
    return f"\n## {name}\n\n```python\n{name}{signature(function)}\n```\n\n{inspect.getdoc(function) or ''}\n"


def class_section(kind: Any) -> str:
    """Docstring, fields, and methods of a class."""
    lines = [f"\n### {kind.__name__}\n\n{inspect.getdoc(kind) or ''}\n"]
    if fields := fields_of(kind):
        lines.append("\n| field | type |\n|---|---|\n")
        lines += [f"| `{name}` | {f'`{kind_}`' if kind_ else ''} |\n" for name, kind_ in fields]
    for name, member in members_of(kind).items():
        if name.startswith("_") or not inspect.getdoc(member):
            continue
        if isinstance(member, property):
            lines.append(f"\n`.{name}`: {inspect.getdoc(member)}\n")
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            function = getattr(kind, name)
            lines.append(f"\n```python\n.{name}{signature(function)}\n```\n\n{inspect.getdoc(member)}\n")
    return "".join(lines)


def members_of(kind: Any) -> dict[str, Any]:
    """What a class of ours and those of ours that it goes back to define, the first first."""
    ours = [base for base in reversed(kind.__mro__) if base.__module__.startswith("rightfit.")]
    return {name: member for base in ours for name, member in vars(base).items()}


def fields_of(kind: Any) -> list[tuple[str, str]]:
    """Names and types of the fields of a dataclass or a pydantic model."""
    found = getattr(kind, "model_fields", None)
    if found is not None:
        return [(name, cell(str(kind.__annotations__.get(name, "")))) for name in found]
    return [(field.name, cell(str(field.type))) for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []


def schema_page() -> dict[str, str]:
    """Every field of the published JSON schemas."""
    parts = [
        MADE_BY,
        "# JSON schemas\n\nWhat `--format json` prints and what a workload file holds, field by field. `[]` stands for each element of a list, `*` for any key.\n",
    ]
    for file in sorted((ROOT / "src/rightfit/schema").glob("*.json")):
        schema = json.loads(file.read_text(encoding="utf-8"))
        parts.append(f"\n## {file.name}\n\n{schema.get('description', '')} [The file](../../src/rightfit/schema/{file.name}).\n")
        parts.append("\n| field | type | meaning |\n|---|---|---|\n")
        parts += schema_rows(schema, "", schema.get("required", ()))
        for name, part in schema.get("$defs", {}).items():
            parts.append(
                f"\n### {file.name.partition('.')[0]}: {name}\n\n{part.get('description', '')}\n\n| field | type | meaning |\n|---|---|---|\n"
            )
            parts += schema_rows(part, "", part.get("required", ()))
    return {"docs/reference/schema.md": "".join(parts)}


def schema_rows(schema: dict[str, Any], path: str, required: Any) -> list[str]:
    """One row a field, nested fields below their parent."""
    rows = []
    for name, part in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        optional = "" if name in required or not required else " (optional)"
        rows.append(f"| `{where}` | {cell(schema_type(part))}{optional} | {cell(schema_meaning(part))} |\n")
        inner = part.get("items") if isinstance(part.get("items"), dict) else None
        rows += schema_rows(part, where, part.get("required", ()))
        rows += schema_rows(inner, f"{where}[]", inner.get("required", ())) if inner else []
    free = schema.get("additionalProperties")
    if isinstance(free, dict):
        rows.append(f"| `{path}.*` | {cell(schema_type(free))} | {cell(schema_meaning(free))} |\n")
    return rows


def schema_type(part: dict[str, Any]) -> str:
    """The type of a field in words."""
    if "$ref" in part:
        return part["$ref"].rpartition("/")[2]
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(schema_type(one) for one in part["anyOf"]))
    if "enum" in part or "const" in part:
        return "one of a few words" if "enum" in part else json.dumps(part["const"])
    kind = part.get("type", "any")
    if kind == "array" and isinstance(part.get("items"), dict):
        return f"list of {schema_type(part['items'])}"
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def schema_meaning(part: dict[str, Any]) -> str:
    """What a field means, and the words that it may have."""
    choices = part.get("enum") or next((one["enum"] for one in part.get("anyOf", ()) if "enum" in one), ())
    words = ", ".join(f"`{choice}`" for choice in choices)
    return ": ".join(text for text in (part.get("description", ""), words) if text)


def rest_page() -> dict[str, str]:
    """Every route of the REST API: what it takes, what it answers, an example."""
    from rightfit.rest import Settings, create_app

    schema = create_app(Settings(page=False)).openapi()
    parts = [MADE_BY, "# The REST API\n\n", schema["info"]["description"] + "\n\n", _REST_INTRODUCTION]
    for path, methods in schema["paths"].items():
        for method, entry in methods.items():
            parts.append(f"\n## {method.upper()} {path}\n\n{entry['summary']}.\n")
            parts.append(_rest_parameters(entry))
            parts += [_rest_example(kind, found) for kind, found in entry.get("requestBody", {}).get("content", {}).items()]
            answers = [f"{status} {answer['description']}" for status, answer in entry["responses"].items() if int(status) < 300]
            others = ", ".join(str(status) for status in entry["responses"] if int(status) >= 300)
            parts.append(f"\nAnswers: {'; '.join(answers)}" + (f". Refusals: {others}.\n" if others else ".\n"))
    parts += [
        "\n## Fields of a workload\n\nIn the body of `plan`, `estimate` and `why`, and in their queries:\n\n| field | takes | meaning |\n|---|---|---|\n"
    ]
    question = schema["components"]["schemas"]["WorkloadQuestion"]["properties"]
    from rightfit.workload.options import OPTIONS

    parts += [f"| `{name}` | {cell(schema_type(question[name]))} | {cell(question[name]['description'])} |\n" for name in OPTIONS]
    return {"docs/reference/rest.md": "".join(parts)}


_REST_INTRODUCTION = (
    "The address is that of `rightfit serve` with `/api/v1` ([how to run it](../commands/serve.md)); `/api/v1/docs` shows this description in the browser and "
    "`/api/v1/openapi.json` gives it to programs. Sentences are in the language of `?lang=zh` or of Accept-Language. A refusal is `application/problem+json` "
    "with `detail`, `field`, `allowed` and `nearest`, and the same for each problem in `errors`.\n"
)


def _rest_parameters(entry: dict[str, Any]) -> str:
    """The query of a route; the options of a workload are told once, at the end."""
    from rightfit.workload.options import OPTIONS

    found = entry.get("parameters", [])
    own = [one for one in found if one["name"] not in OPTIONS]
    told = "\nAnd in the query [the fields of a workload](#fields-of-a-workload).\n" if len(own) < len(found) else ""
    if not own:
        return told
    rows = [f"| `{one['name']}` | {one['in']}{', needed' if one['required'] else ''} | {cell(one['description'])} |\n" for one in own]
    return "\n| parameter | in | meaning |\n|---|---|---|\n" + "".join(rows) + told


def _rest_example(kind: str, found: dict[str, Any]) -> str:
    """A body, in its form."""
    example = found["example"]
    text = example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)
    return f"\nBody, `{kind}`:\n\n```{'json' if 'json' in kind else 'text'}\n{text.rstrip()}\n```\n"


def build_pages() -> dict[str, str]:
    """Path -> text of every generated page."""
    return {
        path: text.rstrip() + "\n"
        for path, text in (command_pages() | physics_pages() | coefficient_page() | python_page() | schema_page() | rest_page()).items()
    }


def write(root: Path = ROOT) -> list[Path]:
    """Write every page below a folder, and take away what is no page of ours any
    more. Gives the pages."""
    pages = {root / path: text for path, text in build_pages().items()}
    for path in (root / "docs/reference").rglob("*.md"):
        if path not in pages:
            path.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(pages)


def main() -> None:
    """Write the pages into the checkout (git ignores them), or below a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT, help="a folder in the place of the checkout")
    write(parser.parse_args().out)


if __name__ == "__main__":
    main()
