"""The published schemas are current, valid, and describe what they should."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rightfit.workload import Workload

ROOT = Path(__file__).parent.parent


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.files("rightfit").joinpath(f"schema/{name}.schema.json").read_text(encoding="utf-8"))
    return loaded


def test_schemas_are_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts/build_schema.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["plan", "workload", "fleet", "fleet-plan"])
def test_schemas_are_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))


def test_saved_workloads_match_the_file_schema(tmp_path: Path) -> None:
    workload = Workload(
        model="7B", method="qlora", data="50Mtok", deadline="24h", cloud="aws,gcp", purchase="spot", seq_len="4k", budget="1500cny"
    )
    saved = json.loads(workload.save(tmp_path / "w.json").read_text(encoding="utf-8"))
    jsonschema.validate(saved, schema("workload"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**saved, "methd": "lora"}, schema("workload"))


def test_workloads_match_their_part_of_the_plan_schema() -> None:
    part = {**schema("plan")["properties"]["workload"], "$defs": schema("plan")["$defs"]}
    jsonschema.validate(Workload(model="7B", rate="10/s", ttft="300ms", budget="200usd/month").to_dict(), part)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"model": 7}, part)
