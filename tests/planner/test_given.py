"""One given server: estimate and why."""

from __future__ import annotations

import math

import pytest

from rightfit import facts
from rightfit.errors import InputError, UnavailableError, UnknownNameError
from rightfit.planner.given import estimate_one, why
from rightfit.planner.plan import default_catalog, plan
from rightfit.workload import Workload
from rightfit.workload.vocabulary import read_cards

LLAMA = "meta-llama/Meta-Llama-3-8B"
QLORA = Workload(model=LLAMA, method="qlora", data="50Mtok")
FULL = Workload(model=LLAMA, method="full", data="50Mtok", offload="none")


def test_estimate_on_a_server_that_fits() -> None:
    found = estimate_one(QLORA, on="aws/p4d.24xlarge", nodes=2)
    option = found.best
    assert option is not None
    assert (option.provider, option.instance_type, option.nodes) == ("aws", "p4d.24xlarge", 2)
    assert option.accelerator.name == "A100-SXM-40GB"
    assert option.num_accelerators == 16
    assert found.unfit is None


def test_estimate_says_how_much_is_missing_where_nothing_fits() -> None:
    found = estimate_one(FULL, on="g5.xlarge")
    assert found.best is None
    assert found.unfit is not None
    assert found.unfit.estimate["peak_memory_bytes"].mid > 4 * found.unfit.facts["capacity_bytes"]
    assert found.rejected[0].criterion == "gpu_memory"
    assert found.rejected[0].nearest is not None
    assert found.rejected[0].nearest.change.key == "change_gpu_memory"


def test_estimate_agrees_with_the_plan() -> None:
    best = plan(QLORA).best
    assert best is not None
    alone = estimate_one(QLORA, on=f"{best.provider}/{best.instance_type}", nodes=best.nodes).best
    assert alone is not None
    assert alone.cost.total_usd == pytest.approx(best.cost.total_usd)
    assert alone.layout == best.layout


def test_a_fixed_layout_is_used() -> None:
    workload = Workload(
        model=LLAMA, method="full", data="50Mtok", tensor_parallel=4, micro_batch=2, recompute="full", sharding="zero3", precision="bf16"
    )
    option = estimate_one(workload, on="aws/p4d.24xlarge").best
    assert option is not None
    assert (option.layout.tensor, option.layout.micro_batch, option.layout.recompute, option.layout.sharding) == (4, 2, "full", "zero-3")


def test_a_server_without_prices_is_estimated_without_cost() -> None:
    option = estimate_one(QLORA, on="gcp/a4x-highgpu-4g").best
    assert option is not None
    assert math.isnan(option.cost.total_usd)
    assert (option.region, option.purchase) == ("", "")
    assert [reason.key for reason in option.warnings if "price" in reason.key] == ["price_unknown"]
    assert estimate_one(QLORA, on="gcp/a4x-highgpu-4g").to_dict()["options"][0]["cost"]["total_usd"] is None


def test_bad_servers_are_refused_in_one_line() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean aws/g4dn.xlarge"):
        estimate_one(QLORA, on="aws/g4dn.xlarg")
    with pytest.raises(UnavailableError, match="no accelerator"):
        estimate_one(QLORA, on="aws/m5.large")
    with pytest.raises(InputError, match="nodes"):
        estimate_one(QLORA, on="aws/p4d.24xlarge", nodes=0)


def test_why_the_best_is_the_best() -> None:
    best = plan(QLORA).best
    assert best is not None
    verdict = why(QLORA, f"{best.provider}/{best.instance_type}")
    assert verdict.fits
    assert verdict.standing[0].key == "why_best"


def test_why_another_one_is_not() -> None:
    verdict = why(QLORA, "aws/p4d.24xlarge")
    reason = verdict.standing[0]
    assert reason.key == "why_ranked"
    assert reason.params["rank"] > 1
    assert 0 < reason.params["price_factor"] < 1
    assert verdict.option is not None
    assert verdict.option.cost.total_usd > reason.params["best_usd"]


def test_why_a_server_was_refused_and_the_least_change() -> None:
    workload = Workload(model=LLAMA, method="full", data="50Mtok", offload="none", max_nodes=1)
    verdict = why(workload, "aws/g5.2xlarge")
    assert not verdict.fits
    assert verdict.standing[0].params["criterion"] == "gpu_memory"
    assert any(reason.key == "change_gpu_memory" for reason in verdict.standing)


def test_why_a_chip_for_inference_cannot_train() -> None:
    verdict = why(QLORA, "aws/inf1.xlarge")
    assert verdict.option is None
    assert verdict.standing[0].params["needed"] == "training"
    assert verdict.to_dict()["option"] is None


def test_the_leanest_setup_is_lean_in_what_is_lacking() -> None:
    found = estimate_one(Workload(model=LLAMA, method="lora", data="50Mtok", micro_batch=1), on="aws/g4dn.xlarge", nodes=3)
    assert found.best is None
    assert found.unfit is not None
    assert found.given == "aws/g4dn.xlarge"
    refused = next(rejection for rejection in found.rejected if rejection.criterion == "host_memory")
    assert found.unfit.estimate["host_memory_bytes"].mid == pytest.approx(refused.needed)
    assert "memory_tight" not in {warning.key for warning in found.unfit.warnings} or found.unfit.facts["fit_probability"] > 0.5


@pytest.mark.parametrize("count", [1, 8])
def test_an_accelerator_stands_for_a_server_that_has_it(count: int) -> None:
    """The best one where any does the job, else one that says what is missing; of every product
    that servers with so many of it are listed for, each twelfth here."""
    table = default_catalog().servers(has_accelerator=True)
    had = sorted({name for name, number in zip(table.accelerator_name, table.num_accelerators, strict=True) if number == count})
    walked = [name for name in had[::12] if read_cards(name) and set(facts.match_accelerators(name)) == {name}]
    assert len(walked) >= 3
    for name in walked:
        said = f"{count}x{name}" if count > 1 else name
        verdict = why(QLORA, said)
        places = {(cloud, kind): row for row, (cloud, kind) in enumerate(zip(table.provider, table.instance_type, strict=True))}
        row = places[verdict.provider, verdict.instance_type]
        assert table.accelerator_name[row] == name
        assert count == 1 or table.num_accelerators[row] == count
        assert verdict.standing, said
        assert verdict.fits or verdict.failed


def test_an_accelerator_that_no_server_has() -> None:
    table = default_catalog().servers(has_accelerator=True)
    absent = next(
        name for name in sorted(facts.accelerators()) if name not in table.accelerator_name and facts.match_accelerators(name) == (name,)
    )
    with pytest.raises(InputError, match="no listed server has"):
        why(QLORA, absent)
