"""Programs that judge files by rules of good practice, and what they find in a folder of exports:
FOLDER/TARGET/PLAN/FILE."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

EXCEPTIONS = tomllib.loads((Path(__file__).parent / "data/checker_exceptions.toml").read_text(encoding="utf-8"))["exception"]
KUBERNETES = "1.31"
FRAMEWORKS = ("dockerfile", "terraform", "cloudformation", "kubernetes")
OF_THE_API = (
    "v1",
    "apps/v1",
    "batch/v1",
    "autoscaling/v2",
    "policy/v1",
    "networking.k8s.io/v1",
    "rbac.authorization.k8s.io/v1",
    "storage.k8s.io/v1",
)


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """What a checker says of a file. `target`: the first folder, which is the
    target that wrote it."""

    checker: str
    rule: str
    target: str
    path: str
    said: str


def program(name: str) -> str | None:
    """A checker beside this Python, or on the path."""
    return shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")


def texts(folder: Path, *, ends: Sequence[str] = (), script: bool = False) -> list[Path]:
    """Files by the end of their names, or by their first line where they are scripts of a shell;
    each text once for a target."""
    found: dict[tuple[str, str, str], Path] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        text = path.read_text(encoding="utf-8")
        if path.name.endswith(tuple(ends)) if ends else script and re.match(r"#!.*\b(ba)?sh\b", text):
            found.setdefault((target_of(folder, path), path.name, text), path)
    return list(found.values())


def target_of(folder: Path, path: Path) -> str:
    return path.relative_to(folder).parts[0]


def asked(folder: Path, words: Sequence[object]) -> str:
    """What a checker prints. Those that find something end with 1; more is a fault of its own."""
    ended = subprocess.run([str(program(str(words[0]))), *map(str, words[1:])], capture_output=True, text=True, check=False, cwd=folder)
    assert ended.returncode in (0, 1, 2, 4, 6, 8, 10, 12, 14), ended.stderr[-2000:]
    assert ended.stdout or ended.returncode == 0, ended.stderr[-2000:]
    return ended.stdout


def finding(checker: str, rule: str, folder: Path, path: Path | str, said: str) -> Finding:
    path = folder / str(path).lstrip("/") if not str(path).startswith(str(folder)) else Path(path)
    return Finding(checker, rule, target_of(folder, path), path.relative_to(folder).as_posix(), said)


def yamllint(folder: Path) -> Iterator[Finding]:
    files = texts(folder, ends=(".yaml", ".yml"))
    for line in asked(folder, ["yamllint", "--strict", "--format", "parsable", *files]).splitlines():
        found = re.fullmatch(r"(.*?):(\d+):\d+: \[\w+\] (.*?)(?: \(([\w-]+)\))?", line)
        assert found, line
        yield finding("yamllint", found[4] or "syntax", folder, found[1], f"line {found[2]}: {found[3]}")


def shellcheck(folder: Path) -> Iterator[Finding]:
    files = texts(folder, script=True)
    for row in json.loads(asked(folder, ["shellcheck", "--format", "json", *files])):
        yield finding("shellcheck", f"SC{row['code']}", folder, row["file"], f"line {row['line']}: {row['message']}")


def bandit(folder: Path) -> Iterator[Finding]:
    files = texts(folder, ends=(".py",))
    for row in csv.DictReader(io.StringIO(asked(folder, ["bandit", "--quiet", "--ignore-nosec", "--format", "csv", *files]))):
        yield finding("bandit", row["test_id"], folder, row["filename"], f"line {row['line_number']}: {row['issue_text']}")


def hadolint(folder: Path) -> Iterator[Finding]:
    files = texts(folder, ends=("Dockerfile",))
    for row in json.loads(asked(folder, ["hadolint", "--format", "json", *files])):
        yield finding("hadolint", row["code"], folder, row["file"], f"line {row['line']}: {row['message']}")


def cfn_lint(folder: Path) -> Iterator[Finding]:
    """Each region knows its own server types, so its templates are asked about together."""
    regions: dict[str, list[Path]] = {}
    for path in folder.glob("cloudformation/*/template.yaml"):
        regions.setdefault((path.parent / "REGION").read_text(encoding="utf-8").strip(), []).append(path)
    for region, files in sorted(regions.items()):
        for row in json.loads(asked(folder, ["cfn-lint", "--regions", region, "--format", "json", "--template", *files]) or "[]"):
            yield finding("cfn-lint", row["Rule"]["Id"], folder, row["Filename"], row["Message"])


def kubernetes_validate(folder: Path) -> Iterator[Finding]:
    """Objects of the API itself; those of operators are for crds.py."""
    import kubernetes_validate as validator

    for path in texts(folder, ends=(".yaml", ".yml")):
        for document in documents(path):
            try:
                validator.validate(document, KUBERNETES, strict=True)
            except validator.ValidationError as problem:
                yield finding("kubernetes-validate", document["kind"], folder, path, problem.message)


def documents(path: Path) -> list[dict[str, object]]:
    """The objects in a file that Kubernetes' own API takes."""
    found = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Loader)) if not path.name.startswith("template") else []
    return [document for document in found if isinstance(document, dict) and document.get("apiVersion") in OF_THE_API]


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def checkov(folder: Path) -> Iterator[Finding]:
    words = ["checkov", "--directory", folder, "--framework", *FRAMEWORKS, "--skip-download", "--compact", "--quiet", "--output", "json"]
    answers = json.loads(asked(folder, words))
    for answer in answers if isinstance(answers, list) else [answers]:
        if "results" not in answer:  # nothing found of any kind
            continue
        for path in answer["results"].get("parsing_errors") or ():
            yield finding("checkov", "syntax", folder, path, "cannot be read")
        for row in answer["results"].get("failed_checks") or ():
            yield finding("checkov", row["check_id"], folder, row["file_path"], f"{row['resource']}: {row['check_name']}")


CHECKERS = {
    "yamllint": yamllint,
    "shellcheck": shellcheck,
    "bandit": bandit,
    "hadolint": hadolint,
    "cfn-lint": cfn_lint,
    "kubernetes-validate": kubernetes_validate,
    "checkov": checkov,
}


def excused(found: Finding) -> int | None:
    """The exception that a finding falls under, by its number."""
    for number, one in enumerate(EXCEPTIONS):
        if (one["checker"], one["rule"]) != (found.checker, found.rule):
            continue
        if found.target in one.get("targets", [found.target]) and re.search(one.get("said", ""), found.said):
            return number
    return None


def told(findings: Iterable[Finding]) -> str:
    """Each rule once for a target, with its first place."""
    first: dict[tuple[str, str, str], Finding] = {}
    for one in sorted(findings):
        first.setdefault((one.checker, one.rule, one.target), one)
    return "\n".join(f"{one.checker} {one.rule} {one.path}: {one.said}" for one in first.values())
