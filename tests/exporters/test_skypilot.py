"""SkyPilot's own parser reads every exported task."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import files, hostile, job, taken

sky = pytest.importorskip("sky", reason="skypilot is not installed (pip install skypilot==0.14.1)")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("name", taken("skypilot"))
def test_tasks_are_read_back(name: str, tmp_path: Path) -> None:
    import jsonschema
    import yaml
    from sky.utils import schemas

    for maker in (files, hostile):
        found = maker("skypilot", name)
        task = yaml.safe_load(found["task.yaml"])
        jsonschema.validate(task, schemas.get_task_schema())
        jsonschema.validate({key: value for key, value in task["resources"].items() if key != "any_of"}, schemas.get_resources_schema())
        for place in task["resources"].get("any_of", []):
            jsonschema.validate(place, schemas.get_resources_schema())
        assert task["resources"]["labels"]["rightfit-plan"] == job(name).plan_id or maker is hostile


def test_the_schema_would_find_a_wrong_key() -> None:
    import jsonschema
    import yaml
    from sky.utils import schemas

    task = yaml.safe_load(files("skypilot", "qlora-8b")["task.yaml"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**task, "runn": "x"}, schemas.get_task_schema())
