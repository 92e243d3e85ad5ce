"""`rightfit launch --dry-run` with the real programs: Terraform plans against a simulated AWS,
SkyPilot reads command and task."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import job
from terraform_mirror import mirror
from typical_plans import plan_values

from rightfit.exports.launching import launch_of, prepare

BIN = Path(sys.executable).parent
MIRROR = mirror()
RIGHTFIT = [sys.executable, "-W", "ignore", "-c", "import sys; from rightfit.cli import main; sys.exit(main(sys.argv[1:]))"]


def launched(folder: Path, name: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "plan.json").write_text(json.dumps(plan_values(name)), encoding="utf-8")
    every = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **environment}
    return subprocess.run(
        [*RIGHTFIT, "launch", "plan.json", "--dry-run", *words],
        cwd=folder,
        env=every,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.skipif(shutil.which("terraform") is None or MIRROR is None, reason="terraform or its mirror of plug-ins is not there")
def test_terraform_plans_what_would_be_made(tmp_path: Path) -> None:
    server = pytest.importorskip("moto.server", reason="moto is not installed (pip install 'moto[ec2,server]')")
    from test_terraform_apply import OVERRIDE, SERVICES

    aws = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    aws.start()
    try:
        host, port = aws.get_host_and_port()
        folder = tmp_path / "kept"
        prepare(launch_of(job("lora-8b-aws"), tool="terraform", dry_run=True), folder)
        endpoints = "\n".join(f'    {name} = "http://{host}:{port}"' for name in SERVICES)
        (folder / "moto_override.tf").write_text(OVERRIDE.format(endpoints=endpoints))
        settings = tmp_path / "settings.tfrc"
        settings.write_text(f'provider_installation {{\n  filesystem_mirror {{\n    path = "{MIRROR}"\n  }}\n}}\n')
        words = ("--with", "terraform", "--out", str(folder))
        found = launched(
            tmp_path, "lora-8b-aws", *words, TF_CLI_CONFIG_FILE=str(settings), CHECKPOINT_DISABLE="1", NO_PROXY="*", TF_CLI_ARGS="-no-color"
        )
    finally:
        aws.stop()
    assert found.returncode == 0, found.stdout + found.stderr
    assert "to add, 0 to change, 0 to destroy" in found.stdout
    assert job("lora-8b-aws").option.instance_type in found.stdout
    assert f"${job('lora-8b-aws').option.cost.hourly_usd:,.2f} per hour" in found.stdout
    assert "nothing was rented" in found.stderr
    assert not (folder / "terraform.tfstate").exists()


@pytest.mark.skipif(importlib.util.find_spec("sky") is None, reason="skypilot is not installed (pip install skypilot==0.14.1)")
def test_skypilot_reads_the_command_and_the_task(tmp_path: Path) -> None:
    """Without prices and clouds it stops where it would choose a server; that choice and the dry
    run behind it are made in test_skypilot.py."""
    environment = {"HOME": str(tmp_path / "home"), "SKYPILOT_DISABLE_USAGE_COLLECTION": "1", "NO_PROXY": "*"}
    (tmp_path / "home").mkdir()
    try:
        found = launched(tmp_path, "full-8b-gcp", **environment)
    finally:
        subprocess.run([str(BIN / "sky"), "api", "stop"], env={**os.environ, **environment}, check=False, capture_output=True, timeout=100)
    assert "YAML to run: task.yaml" in found.stdout, found.stdout[-3000:] + found.stderr[-3000:]
    assert (found.returncode, found.stderr.splitlines()[-1]) == (3, "error: sky launch failed with exit code 1; see its output above")
