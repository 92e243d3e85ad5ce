"""dstack's own models read every exported configuration."""

from __future__ import annotations

import pytest
import yaml
from jobs import HOSTILE, files, hostile, job, taken

configurations = pytest.importorskip("dstack._internal.core.models.configurations", reason="dstack is not installed (pip install dstack)")


@pytest.mark.parametrize("name", taken("dstack"))
def test_runs_are_read(name: str) -> None:
    for maker in (files, hostile):
        found = maker("dstack", name)
        run = configurations.parse_run_configuration(yaml.safe_load(found["run.dstack.yml"]))
        assert run.type == ("service" if job(name).is_service else "task")
        assert run.instance_types == [job(name).option.instance_type]
        assert run.tags["rightfit-plan"] == job(name).plan_id or maker is hostile
        assert all(path.local_path in found for path in run.files)
        if "volume.dstack.yml" in found:
            volume = configurations.DstackConfiguration.model_validate(yaml.safe_load(found["volume.dstack.yml"])).root.root
            assert [mount.name for mount in run.volumes] == [volume.name]
    assert HOSTILE not in found["run.dstack.yml"].splitlines()[0]


def test_the_parser_would_find_a_wrong_key() -> None:
    values = yaml.safe_load(files("dstack", "qlora-8b")["run.dstack.yml"])
    with pytest.raises(Exception, match="comands"):
        configurations.parse_run_configuration({**values, "comands": []})


def test_backends_are_those_of_dstack() -> None:
    from dstack._internal.core.models.backends.base import BackendType

    from rightfit.export.targets.dstack import BACKENDS

    assert set(BACKENDS.values()) <= {kind.value for kind in BackendType}
