"""Terraform's own validation of the exported folder. Needs the program and the AWS provider in a
local mirror of plug-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from jobs import files, hostile, taken
from terraform_mirror import mirror

MIRROR = mirror()
TERRAFORM = shutil.which("terraform")
pytestmark = pytest.mark.skipif(TERRAFORM is None or MIRROR is None, reason="terraform or its mirror of plug-ins is not there")


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder initialised once; its main.tf is exchanged for each plan."""
    folder = tmp_path_factory.mktemp("terraform")
    settings = folder / "settings.tfrc"
    settings.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n')
    put(folder, files("terraform-aws", taken("terraform-aws")[0]))
    terraform(folder, "init", "-input=false", "-no-color")
    return folder


def put(folder: Path, found: object) -> None:
    for path, text in dict(found).items():  # type: ignore[call-overload]
        (folder / path).write_text(text, encoding="utf-8")


def terraform(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(folder / "settings.tfrc"), "CHECKPOINT_DISABLE": "1"}
    found = subprocess.run([str(TERRAFORM), *words], cwd=folder, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert found.returncode == 0, found.stdout + found.stderr
    return found


@pytest.mark.parametrize("name", taken("terraform-aws"))
def test_the_folder_is_valid(name: str, workdir: Path) -> None:
    for maker in (files, hostile):
        put(workdir, maker("terraform-aws", name))
        terraform(workdir, "validate", "-no-color")
        terraform(workdir, "fmt", "-check", "-no-color")


@pytest.mark.parametrize("name", taken("terraform-aws"))
def test_nothing_is_open_to_everyone(name: str) -> None:
    text = files("terraform-aws", name)["main.tf"]
    for block in text.split("ingress {")[1:]:
        assert "0.0.0.0/0" not in block.split("}")[0]
