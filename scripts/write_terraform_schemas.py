"""Write tests/exporters/data/terraform_schemas.jsonl: which attributes and blocks the resources of
our Terraform folders have, from the providers themselves.

Usage: python scripts/write_terraform_schemas.py JSII_GOOGLE JSII_AZURERM ALICLOUD_SOURCE
TENCENTCLOUD_SOURCE

The first two are the .jsii.tgz files inside the packages cdktf-cdktf-provider-google and -azurerm
of PyPI (made by HashiCorp from the providers' own schemas); the last two are checkouts of
aliyun/terraform-provider-alicloud and tencentcloudstack/terraform-provider-tencentcloud, whose Go
files declare the schemas. Only the names of attributes and whether they are required are kept, of
the resources that the folders use.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGETS = ROOT / "src" / "rightfit" / "exports" / "targets"
FLEET = ROOT / "src" / "rightfit" / "exports" / "fleet_terraform.py"
OUT = ROOT / "tests" / "exporters" / "data" / "terraform_schemas.jsonl"
Schema = dict[str, Any]


def used(module: str) -> list[tuple[str, str]]:
    """(kind, type) of everything that a target's module declares."""
    text = (TARGETS / f"{module}.py").read_text(encoding="utf-8") if module != FLEET.stem else FLEET.read_text(encoding="utf-8")
    return sorted(set(re.findall(r'^(resource|data) "(\w+)"', text, re.MULTILINE)))


def from_jsii(path: Path, *, prefix: str, wanted: list[tuple[str, str]]) -> tuple[str, dict[str, Schema]]:
    """Schemas out of a .jsii.tgz, and what it was made from."""
    with tarfile.open(path) as archive:
        types = json.load(archive.extractfile("package/.jsii"))["types"]  # type: ignore[arg-type]
        package = json.load(archive.extractfile("package/package.json"))  # type: ignore[arg-type]
    made_from = package["cdktf"]["provider"]
    found = {}
    for kind, name in wanted:
        camel = re.sub(r"_(\w)", lambda hit: hit[1].upper(), name.removeprefix(f"{prefix}_"))
        module = camel if kind == "resource" else f"data{prefix.capitalize()}{camel[:1].upper()}{camel[1:]}"
        found[f"{kind} {name}"] = of_struct(types, f"{package['name']}.{module}.{module[:1].upper()}{module[1:]}Config")
    return f"{package['name']} {package['version']}, made from {made_from['name']} {made_from['version']}", found


def of_struct(types: dict[str, Any], name: str) -> Schema:
    """Attributes of one struct; blocks are schemas of their own."""
    found: Schema = {}
    for part in types[name].get("properties", []):
        snake = re.sub(r"(?<!^)([A-Z])", r"_\1", part["name"]).lower()
        block = next(
            (
                inner
                for inner in re.findall(r'"fqn": "([^"]+)"', json.dumps(part["type"]))
                if types.get(inner, {}).get("kind") == "interface"
            ),
            None,
        )
        found[snake] = {"required": not part.get("optional", False), **({"block": of_struct(types, block)} if block else {})}
    return found


def from_go(folder: Path, *, wanted: list[tuple[str, str]]) -> tuple[str, dict[str, Schema]]:
    """Schemas out of a provider's Go files."""
    commit = git(folder, "rev-parse", "HEAD").strip()
    listed = git(folder, "ls-tree", "-r", "HEAD", "--name-only").split("\n")
    found = {}
    for kind, name in wanted:
        stem = name.partition("_")[2]
        ends = tuple(f"/{'resource' if kind == 'resource' else 'data_source'}_{word}_{stem}.go" for word in ("alicloud", "tc"))
        [path] = [path for path in listed if path.endswith(ends) and not path.startswith("vendor/")]
        text = git(folder, "show", f"HEAD:{path}")
        resource = re.search(r"func (?i:resource|datasource)\w+\(\) \*schema\.Resource \{", text)
        found[f"{kind} {name}"] = of_map(
            text, re.compile(r"\bSchema:\s*map\[string\]\*schema\.Schema\{").search(text, resource.start()).start()
        )  # type: ignore[union-attr]
    return f"{folder.parent.name.replace('+', '/') if folder.name == 'repo' else folder.name}@{commit[:9]}", found


def git(folder: Path, *words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout  # noqa: S603, S607


def of_map(text: str, start: int) -> Schema:
    """The entries of a map[string]*schema.Schema{...} that begins at `start`."""
    found: Schema = {}
    place = text.index("{", text.index("Schema{", start)) + 1
    while True:
        entry = re.compile(r'\s*(?://[^\n]*\n\s*)*(?:"(\w+)":\s*(&schema\.Schema)?\{|"(\w+)":\s*[^{\n]*\n|(\}))').match(text, place)
        if entry is None or entry[4]:
            return found
        if entry[3]:
            found[entry[3]] = {"required": False}
            place = entry.end()
            continue
        end = closing(text, entry.end())
        body = text[entry.end() : end]
        inner = body.find("map[string]*schema.Schema{")
        own = body if inner < 0 else body[:inner]
        rest = own if inner < 0 else own + body[closing(body, body.index("{", inner) + 1) :]
        is_only_read = bool(re.search(r"Computed:\s*true", rest)) and not re.search(r"(Optional|Required):\s*true", rest)
        if not is_only_read:
            named = re.search(r"Schema:\s*(\w+)[,\s}]", rest)
            block = {"block": of_map(body, inner)} if inner >= 0 else {}
            if named:
                block = {"block": of_map(text, re.search(rf"{named[1]} :?= map\[string\]\*schema\.Schema", text).start())}  # type: ignore[union-attr]
            found[entry[1]] = {"required": bool(re.search(r"Required:\s*true", rest)), **block}
        place = re.compile(r"\},?").match(text, end).end()  # type: ignore[union-attr]


def closing(text: str, start: int) -> int:
    """Where the brace that was opened just before `start` closes; strings and
    comments are skipped."""
    depth = 1
    for token in re.finditer(r'"(?:\\.|[^"\\])*"|`[^`]*`|//[^\n]*|/\*.*?\*/|[{}]', text[start:], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return start + token.start()
    raise ValueError("unbalanced braces")


def main() -> None:
    """Write the file."""
    google, azurerm, alicloud, tencent = (Path(word) for word in sys.argv[1:5])
    fleets = used(FLEET.stem)
    found = {
        "fleet-gcp": from_jsii(google, prefix="google", wanted=[one for one in fleets if one[1].startswith("google_")]),
        "fleet-azure": from_jsii(azurerm, prefix="azurerm", wanted=[one for one in fleets if one[1].startswith("azurerm_")]),
        "terraform-gcp": from_jsii(google, prefix="google", wanted=used("terraform_gcp")),
        "terraform-azure": from_jsii(azurerm, prefix="azurerm", wanted=used("terraform_azure")),
        "terraform-alicloud": from_go(alicloud, wanted=used("terraform_alicloud")),
        "terraform-tencent": from_go(tencent, wanted=used("terraform_tencent")),
    }
    lines = [
        json.dumps({"target": target, "name": name, "source": source, "schema": schema}, sort_keys=True)
        for target, (source, schemas) in found.items()
        for name, schema in schemas.items()
    ]
    OUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
