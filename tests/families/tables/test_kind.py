"""Plans, estimates and verdicts for classical machine learning and data preparation."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

from rightfit import api
from rightfit.errors import InputError, UnknownNameError
from rightfit.families.tables.match import HostLayout
from rightfit.search.answer import Option, Plan


def keys(reasons: Any) -> set[str]:
    return {reason.key for reason in reasons}


def best_of(plan: Plan) -> Option:
    assert plan.best is not None
    return plan.best


def test_a_plan_is_whole_and_matches_the_schema() -> None:
    plan = api.plan("xgboost", data="11Mrows x 28cols", trees=500, depth=8)
    best = best_of(plan)
    assert isinstance(best.layout, HostLayout)
    assert sum(best.memory_terms.values()) == pytest.approx(best.estimate["host_memory_bytes"].mid)
    assert sum(best.time_terms.values()) == pytest.approx(best.estimate["work_s"].mid)
    assert sum(best.cost.terms.values()) == pytest.approx(best.cost.total_usd)
    assert best.estimate["rows_per_s"].mid == pytest.approx(11e6 / best.estimate["work_s"].mid)
    for figure in best.estimate.values():
        assert figure.low95 <= figure.low80 <= figure.mid <= figure.high80 <= figure.high95
    assert keys(best.why) >= {"host_fits"}
    assert {"cheapest", "cheapest_below"} & keys(best.why)
    assert "host_gpu_instead" in keys(plan.advice)
    assert [option.rank for option in plan.options] == list(range(1, len(plan.options) + 1))
    assert plan.rejected
    schema = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(plan.to_json()), schema | {"required": [name for name in schema["required"] if name != "rules"]})


def test_ram_decides_for_forests_and_wide_memory_wins_where_cores_do_little() -> None:
    forest = best_of(api.plan("random-forest", data="5GB", cloud="aws", library="sklearn"))
    assert forest.memory_bytes >= forest.facts["ram_needed_bytes"] > 20 * 5e9
    linear = best_of(api.plan("logistic-regression", data="5GB", cloud="aws"))
    assert linear.memory_bytes / linear.vcpus >= 7.5 * 2**30
    assert {"host_memory_decides", "decided_room"} & keys(linear.why)


def test_what_no_server_holds_says_what_would_help() -> None:
    plan = api.plan("xgboost", data="1B x 5000")
    assert plan.best is None
    assert {"host_tip_external_memory", "host_tip_dask"} <= keys(plan.advice)
    assert plan.blame


def test_a_given_server_that_does_not_hold_the_job() -> None:
    plan = api.estimate("random-forest", data="5GB", on="aws/t3.large")
    assert plan.best is None
    assert plan.unfit is not None
    assert plan.unfit.cost.total_usd > 0
    assert "host_burstable" in keys(plan.unfit.warnings)
    assert "host_memory" in {rejection.criterion for rejection in plan.rejected}


def test_a_given_server_that_cannot_run_the_library_at_all() -> None:
    plan = api.estimate("k-means", data="1M x 20", library="cuml", on="aws/m5.xlarge")
    assert plan.best is None
    assert plan.unfit is None
    assert [rejection.criterion for rejection in plan.rejected] == ["capability"]
    verdict = api.why("aws/m5.xlarge", "k-means", data="1M x 20", library="cuml")
    assert not verdict.fits
    assert verdict.option is None


def test_a_given_server_that_does() -> None:
    best = best_of(api.estimate("logistic-regression", data="1M x 20", on="aws/g5.xlarge", library="cuml"))
    assert isinstance(best.layout, HostLayout)
    assert (best.layout.device, best.layout.cards) == ("gpu", 1)
    assert "host_gpu_unmeasured" in keys(best.warnings)
    assert best.accelerator.name == "A10G"


def test_why_stands_and_falls() -> None:
    stands = api.why("alicloud/ecs.r7.8xlarge", operation="tokenize", data="100GB")
    assert stands.fits
    assert keys(stands.standing) == {"why_ranked"}
    falls = api.why("aws/m5.xlarge", "random-forest", data="9GB")
    assert not falls.fits
    assert "why_refused" in keys(falls.standing)
    assert "change_host_memory" in keys(falls.standing)


def test_preparation_says_when_a_server_of_its_own_pays() -> None:
    plan = api.plan(operation="tokenize", data="500GB", model="bert-base")
    assert {"host_prepare_apart", "host_tip_prepare_once"} <= keys(plan.advice)
    assert not best_of(plan).accelerator.name


def test_a_deadline_brings_more_servers_or_cores() -> None:
    free, hurried = (api.plan(operation="tokenize", data="2TB", deadline=deadline) for deadline in (None, "2h"))
    assert best_of(free).estimate["total_time_s"].mid > 7200 >= best_of(hurried).estimate["total_time_s"].mid
    assert best_of(hurried).nodes > 1
    assert best_of(hurried).facts["deadline_probability"] < 1
    with pytest.raises(UnknownNameError):
        api.plan(operation="tokenize", data="2TB", storage="gp33")


def test_embedding_is_a_batch_of_inference() -> None:
    plan = api.plan("bert-base", operation="embed", data="10Mtok")
    assert plan.workload.task == "batch"
    assert plan.best is not None
    with pytest.raises(InputError, match="needs a model"):
        api.plan(operation="embed", data="10Mtok")


def test_scoring_takes_less_than_training() -> None:
    trained, scored = (best_of(api.plan("xgboost", data="11M x 28", task=task, trees=500)) for task in ("train", "batch"))
    assert scored.estimate["work_s"].mid < trained.estimate["work_s"].mid


def test_a_saved_wish_reads_back(tmp_path: Any) -> None:
    from rightfit.workload import Workload

    for wish in (Workload(operation="tokenize", data="500GB"), Workload(model="svm", data="5GB x 20cols", settings="float32")):
        assert Workload.from_file(wish.save(tmp_path / "w.yaml")) == wish
        assert Workload(**wish.to_dict()) == wish
