"""schemathesis against a running server: thousands of requests made from the description, sound and
unsound ones, with all of its checks."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

if importlib.util.find_spec("schemathesis") is None:
    pytest.skip("schemathesis is not installed", allow_module_level=True)

HERE = Path(__file__).parent
# A text can be sound by its description and yet name no model: that is 422, and a plan that
# nobody saved is 404.
CONFIGURATION = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", "404", "422"]
"""


def test_no_request_made_from_the_description_goes_wrong(serve: Callable[..., Any], tmp_path: Path) -> None:
    settings = tmp_path / "schemathesis.toml"
    settings.write_text(CONFIGURATION)
    with serve("--no-page") as (address, _):
        options = ["--checks", "all", "--max-examples", "4", "--seed", "1", "--suppress-health-check", "all", "--request-timeout", "30"]
        command = [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(settings),
            "run",
            f"{address}/api/v1/openapi.json",
            *options,
        ]
        environment = {**os.environ, "PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "fuzz_hooks"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=240)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Traceback" not in (tmp_path / "server.log").read_text()
