"""Write tests/exporters/data/server_options.json: the options of vLLM, SGLang and Text Generation
Inference, from their own sources.

Usage: python scripts/write_server_options.py VLLM_PACKAGE SGLANG_PACKAGE [TGI_CHECKOUT]

The first two are the folders of the packages that `pip install --no-deps` makes, at the versions
that our targets pin; the last is a checkout of huggingface/text-generation-inference that has the
pinned version as a tag. Only names and allowed values are kept: {program: {version, source,
options: {name: values or null}}}.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

OUT = Path(__file__).parent.parent / "tests" / "exporters" / "data" / "server_options.json"
Options = dict[str, list[str] | None]


def declared(path: Path) -> Options:
    """Options that a Python file adds to a parser, with their values where they
    are written there."""
    found: Options = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            choices = next((word.value for word in node.keywords if word.arg == "choices"), None)
            values = [str(item) for item in ast.literal_eval(choices)] if isinstance(choices, ast.List) else None
            names = [word.value for word in node.args if isinstance(word, ast.Constant) and str(word.value).startswith("--")]
            found.update({str(name): values for name in names})
    return found


def named(path: Path, pattern: str) -> list[str]:
    """The strings of a list that a file gives a name."""
    listed = re.search(pattern + r"\s*=\s*(?:Literal)?\[(.*?)\]", path.read_text(encoding="utf-8"), re.DOTALL)
    if listed is None:
        raise SystemExit(f"{path} has no {pattern}")
    return re.findall(r'"([^"]+)"', listed[1])


def fields_of(path: Path) -> dict[str, ast.AnnAssign]:
    """The annotated fields of every class of a file."""
    bodies = (node.body for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))
    return {
        node.target.id: node for body in bodies for node in body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def flag(name: str) -> str:
    """A field as an option."""
    return "--" + name.replace("_", "-")


def vllm(package: Path) -> Options:
    """`vllm serve`: engine's options, those of the interface (fields of a class), and the
    values of four of them."""
    interface = next(path for kind in ("common", "openai") if (path := package / "entrypoints" / kind / "cli_args.py").exists())
    found = declared(package / "engine" / "arg_utils.py") | declared(interface)
    found.update({flag(name): None for name in fields_of(interface)})
    found["--quantization"] = named(package / "model_executor" / "layers" / "quantization" / "__init__.py", "QuantizationMethods")
    found["--kv-cache-dtype"] = named(package / "config" / "cache.py", "CacheDType")
    found["--dtype"] = named(package / "config" / "model.py", "ModelDType")
    return found


def sglang(package: Path) -> Options:
    """`python -m sglang.launch_server`: the fields of its groups of arguments, with their values
    where they are written there."""
    groups = package / "srt" / "arg_groups"
    found: Options = {}
    for path in sorted((groups / "fields").glob("*.py")):
        for name, field in fields_of(path).items():
            words = [word for node in ast.walk(field.annotation) if isinstance(node, ast.Call) for word in node.keywords]
            told = {word.arg: word.value for word in words}
            choices = told.get("choices")
            values = [str(item) for item in ast.literal_eval(choices)] if isinstance(choices, ast.List) else None
            aliases = [str(item) for item in ast.literal_eval(told["aliases"])] if "aliases" in told else []
            own = str(ast.literal_eval(told["cli_name"])) if "cli_name" in told else flag(name)
            found.update(dict.fromkeys([own, *aliases], values))
    return {**found, "--quantization": named(groups / "choices.py", "QUANTIZATION_CHOICES")}


def tgi(folder: Path, version: str) -> Options:
    """`text-generation-launcher`, from the reference that is made from its parser."""
    words = ["git", "-C", str(folder), "show", f"v{version}:docs/source/reference/launcher.md"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout  # noqa: S603
    found: Options = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name = re.search(r"(--[a-z][a-z-]+)", part)
        listed = re.search(r"\[possible values: ([^\]]+)\]", part)
        values = listed[1].split(", ") if listed else re.findall(r"^ +- ([a-z0-9-]+):", part, re.MULTILINE) or None
        if name:
            found[name[1]] = values
    return found


def main() -> None:
    """Write the file."""
    from rightfit.exports.targets import llm_servers as sglang_target
    from rightfit.exports.targets import llm_servers as tgi_target
    from rightfit.exports.targets import llm_servers as vllm_target

    versions = {"vllm": vllm_target.VLLM_VERSION, "sglang": sglang_target.SGLANG_VERSION, "tgi": tgi_target.TGI_VERSION}
    options = {"vllm": vllm(Path(sys.argv[1])), "sglang": sglang(Path(sys.argv[2]))}
    if len(sys.argv) > 3:  # else what is written of it stays
        options["tgi"] = tgi(Path(sys.argv[3]), versions["tgi"])
    sources = {
        "vllm": "vllm of PyPI: engine/arg_utils.py, entrypoints/common/cli_args.py, config",
        "sglang": "sglang of PyPI: srt/arg_groups",
        "tgi": "huggingface/text-generation-inference: docs/source/reference/launcher.md at the version's tag",
    }
    values = {name: {"version": versions[name], "source": sources[name], "options": options[name]} for name in options}
    values = {**json.loads(OUT.read_text(encoding="utf-8")), **values}
    OUT.write_text(json.dumps(values, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
