"""dstack's own models read every exported configuration."""

from __future__ import annotations

import pytest
import yaml
from jobs import HOSTILE, files, hostile, job, taken
from typical_plans import plan_values

from rightfit.exports import find_target, job_of, plan_document
from rightfit.exports.skypilot_words import dstack_name, is_by_the_card

configurations = pytest.importorskip("dstack._internal.core.models.configurations", reason="dstack is not installed (pip install dstack)")


@pytest.mark.parametrize("name", taken("dstack"))
def test_runs_are_read(name: str) -> None:
    for maker in (files, hostile):
        found = maker("dstack", name)
        run = configurations.parse_run_configuration(yaml.safe_load(found["run.dstack.yml"]))
        assert run.type == ("service" if job(name).is_service else "task")
        option = job(name).option
        assert run.instance_types == (None if is_by_the_card(option) else [dstack_name(option)])
        assert run.tags["rightfit-plan"] == job(name).plan_id or maker is hostile
        assert all(path.local_path in (*found, "model.onnx") for path in run.files)
        fleet = configurations.DstackConfiguration.model_validate(yaml.safe_load(found["fleet.dstack.yml"])).root
        assert [each.name for each in run.fleets] == [fleet.name]
        assert (fleet.instance_types, fleet.regions, fleet.backends) == (run.instance_types, run.regions, run.backends)
        assert (fleet.nodes.min, fleet.idle_duration) == (0, 60)  # nothing is rented before the run, nothing stays behind it
        assert fleet.nodes.max >= (job(name).num_nodes if not job(name).is_service else run.replicas.max)
        assert (fleet.placement is not None) == (job(name).num_nodes > 1 and not job(name).is_service)
        if job(name).is_service:
            assert run.auth is False  # the program has its own key: two bearer tokens in one header cannot be sent
    assert HOSTILE not in found["run.dstack.yml"].splitlines()[0]


def test_a_price_list_without_instance_types_is_asked_for_by_its_cards() -> None:
    values = plan_values("chat-8b-aws")
    card = {"name": "H200-SXM-141GB", "count_per_node": 8, "memory_bytes": 141e9}
    moved = {"provider": "crusoe", "region": "any", "instance_type": "8x_H200-SXM-141GB", "purchase": "on-demand", "accelerator": card}
    option = {**values["options"][0], **moved, "layout": {**values["options"][0]["layout"], "tensor": 8}}
    found = find_target("dstack").files(job_of(plan_document({**values, "options": [option]})))
    run = configurations.parse_run_configuration(yaml.safe_load(found["run.dstack.yml"]))
    assert run.instance_types is None
    assert (run.resources.gpu.name, run.resources.gpu.count.min, run.resources.gpu.memory.min) == (["H200"], 8, 141)


def test_the_parser_would_find_a_wrong_key() -> None:
    values = yaml.safe_load(files("dstack", "qlora-8b")["run.dstack.yml"])
    with pytest.raises(Exception, match="comands"):
        configurations.parse_run_configuration({**values, "comands": []})


def test_backends_are_those_of_dstack() -> None:
    from dstack._internal.core.models.backends.base import BackendType

    from rightfit.exports.targets.dstack import BACKENDS

    assert set(BACKENDS.values()) <= {kind.value for kind in BackendType}
