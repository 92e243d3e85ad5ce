"""User data by cloud-init's own schema, and the script in it by shellcheck."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from jobs import HOSTILE, files, job
from typical_plans import WISHES

from rightfit.exports import find_target
from rightfit.exports.buckets import COPIER_SECRETS
from rightfit.exports.recipes import recipe_of
from rightfit.exports.targets import provider_cli

CLOUD_INIT = shutil.which("cloud-init")
BUCKET = {"bucket": "s3://mine/runs"}
TAKEN = [name for name in WISHES if not find_target("cloud-init").problem(job(name, **BUCKET))]
SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent))


def schema(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = folder / "user-data.yaml"
    path.write_text(text, encoding="utf-8")
    return subprocess.run([str(CLOUD_INIT), "schema", "--config-file", str(path)], capture_output=True, text=True, check=False)


@pytest.mark.skipif(CLOUD_INIT is None, reason="cloud-init is not installed (Debian: apt-get install cloud-init)")
@pytest.mark.parametrize("name", TAKEN)
def test_user_data_is_valid(name: str, tmp_path: Path) -> None:
    for settings in (BUCKET, {**BUCKET, "data_path": HOSTILE}):
        found = schema(files("cloud-init", name, **settings)["user-data.yaml"], tmp_path)
        assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.skipif(CLOUD_INIT is None, reason="cloud-init is not installed (Debian: apt-get install cloud-init)")
def test_the_schema_would_find_a_wrong_value(tmp_path: Path) -> None:
    text = files("cloud-init", "qlora-8b", **BUCKET)["user-data.yaml"]
    assert schema(text.replace("permissions: '0700'", "permissions: 700"), tmp_path).returncode != 0


@pytest.mark.parametrize("name", TAKEN)
def test_the_script_inside_is_clean_and_asks_for_its_secrets(name: str, tmp_path: Path) -> None:
    body = yaml.safe_load(files("cloud-init", name, **BUCKET)["user-data.yaml"])
    script = tmp_path / "first-boot.sh"
    script.write_text(body["write_files"][1]["content"], encoding="utf-8")
    if SHELLCHECK:
        found = subprocess.run([SHELLCHECK, "--severity=warning", str(script)], capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout
    assert "RIGHTFIT_BUCKET=mine/runs" in script.read_text(encoding="utf-8")


def test_a_run_without_a_bucket_is_refused() -> None:
    assert "--bucket" in str(find_target("cloud-init").problem(job("qlora-8b")))
    assert not find_target("cloud-init").problem(job("chat-8b-aws"))


@pytest.mark.parametrize("provider", ["aws", "lambda", "gcp", "crusoe", "runpod", "own"])
def test_a_server_without_a_role_is_given_the_keys_of_its_bucket(provider: str) -> None:
    """A bucket that no role opens ends the run after minutes of tries, on a server that costs."""
    found = job("qlora-8b", **BUCKET)
    found = dataclasses.replace(found, option=found.option.model_copy(update={"provider": provider}))
    recipe = recipe_of(found, "cloud-init")
    asked, boot = {name for name, _ in recipe.needs}, provider_cli.ground(found)
    has_role = provider == "aws"
    assert set(COPIER_SECRETS) <= asked if not has_role else not set(COPIER_SECRETS) & asked
    assert len(boot.credentials) == (0 if has_role else 2)
    for name in COPIER_SECRETS:
        assert any(f"/etc/rightfit/secrets/{name}" in line for line in recipe.before + recipe.start) != has_role
        assert any(name in line and line.startswith("RCLONE_S3_") for line in boot.credentials) != has_role
    google = job("qlora-8b", bucket="gs://mine/runs")
    google = dataclasses.replace(google, option=google.option.model_copy(update={"provider": provider}))
    assert bool(find_target("cloud-init").problem(google)) == (provider != "gcp")
