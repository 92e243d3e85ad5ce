"""Programs that launch, as scripts that note their calls."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SECRETS = ("VLLM_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


def put_on_the_path(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`sky` and `terraform` that run `script`, with the secrets and the bucket that launches ask
    for; gives the file that notes their calls (CALLS)."""
    programs, calls = folder / "bin", folder / "calls"
    programs.mkdir()
    for program in ("sky", "terraform"):
        (programs / program).write_text(script.replace("CALLS", str(calls)))
        (programs / program).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for variable in SECRETS:
        monkeypatch.setenv(variable, "k")
    monkeypatch.setenv("RIGHTFIT_BUCKET", "s3://mine/runs")
    return calls
