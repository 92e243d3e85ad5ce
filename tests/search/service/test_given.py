"""One given server under a service or a batch job: estimate, why, and the front
of cost and latency."""

from __future__ import annotations

import math

import pytest

import rightfit
from rightfit.errors import InputError, UnknownNameError
from rightfit.search.answer import Option, Plan
from rightfit.search.service.kind import spread_over
from rightfit.search.service.options import ServingLayout

LLAMA = "meta-llama/Meta-Llama-3-8B"
CHAT = {"task": "serve", "rate": "10/s", "input_tokens": 1024, "output_tokens": 256, "ttft": "300ms", "tpot": "30ms"}
BERT = {"task": "serve", "rate": "1000/s", "latency": "50ms"}
CORPUS = {"task": "batch", "data": "1Msamples"}


@pytest.fixture(scope="module")
def chat() -> Plan:
    return rightfit.plan(LLAMA, **CHAT)


def _layout(option: Option) -> ServingLayout:
    assert isinstance(option.layout, ServingLayout)
    return option.layout


def test_estimate_of_the_choice_agrees_with_the_plan(chat: Plan) -> None:
    best = chat.best
    assert best is not None
    alone = rightfit.estimate(LLAMA, on=f"{best.provider}/{best.instance_type}", nodes=best.nodes, **CHAT).best
    assert alone is not None
    assert alone.cost.total_usd == pytest.approx(best.cost.total_usd)
    assert (alone.nodes, _layout(alone).replicas) == (best.nodes, _layout(best).replicas)
    assert alone.estimate["latency_s"].mid == pytest.approx(best.estimate["latency_s"].mid, rel=0.02)


def test_more_servers_cost_more_and_answer_no_later() -> None:
    few, many = (rightfit.estimate(LLAMA, on="aws/p4d.24xlarge", nodes=nodes, **CHAT).best for nodes in (1, 3))
    assert few is not None
    assert many is not None
    assert (few.nodes, many.nodes) == (1, 3)
    assert many.cost.terms["servers_usd"] == pytest.approx(3 * few.cost.terms["servers_usd"])
    assert many.estimate["latency_s"].mid <= few.estimate["latency_s"].mid
    for option in (few, many):
        layout = _layout(option)
        assert layout.replicas == option.nodes * (8 // layout.tensor)
        assert option.estimate["ttft_s"].mid <= 0.3


def test_too_few_servers_say_how_many_would_do() -> None:
    found = rightfit.estimate("bert-large-uncased", on="aws/g4dn.xlarge", nodes=1, **BERT)
    assert found.best is None
    assert found.unfit is not None
    needed = found.unfit.nodes
    assert needed > 1
    refused = {rejection.criterion: rejection for rejection in found.rejected}
    assert set(refused) == {"max_nodes"}
    assert (refused["max_nodes"].needed, refused["max_nodes"].had) == (1.0, float(needed))
    assert refused["max_nodes"].nearest is not None
    assert refused["max_nodes"].nearest.change.params["nodes"] == needed
    enough = rightfit.estimate("bert-large-uncased", on="aws/g4dn.xlarge", nodes=needed, **BERT)
    assert enough.best is not None
    assert enough.best.cost.total_usd == pytest.approx(found.unfit.cost.total_usd)
    assert rightfit.estimate("bert-large-uncased", on="aws/g4dn.xlarge", nodes=needed - 1, **BERT).best is None


def test_a_limit_that_the_server_breaks_even_without_load() -> None:
    found = rightfit.estimate(LLAMA, on="aws/g4dn.xlarge", **CHAT)
    assert found.best is None
    assert found.unfit is None
    assert [rejection.criterion for rejection in found.rejected] == ["ttft", "tpot"]
    tpot = found.rejected[1]
    # 16 GB of weights through 320 GB/s take 50 ms at the least.
    assert tpot.needed == pytest.approx(0.03)
    assert float(tpot.had) > 16.06e9 / 320e9
    assert tpot.nearest is not None
    assert tpot.nearest.change.key == "serve_change_latency"


def test_a_model_that_does_not_fit_lacks_memory() -> None:
    found = rightfit.estimate(LLAMA, on="aws/m5.large", task="serve", rate="1/s")
    assert found.best is None
    assert "host_memory" in {rejection.criterion for rejection in found.rejected}


def test_a_server_without_price_is_estimated_without_cost() -> None:
    found = rightfit.estimate(LLAMA, on="gcp/a4x-highgpu-4g", **CHAT)
    assert found.best is not None
    assert math.isnan(found.best.cost.total_usd)
    assert (found.best.region, found.best.purchase, found.rejected) == ("", "", ())
    assert {warning.key for warning in found.best.warnings} <= {"price_unknown", "arm_builds"}
    verdict = rightfit.why("gcp/a4x-highgpu-4g", LLAMA, **CHAT)
    assert verdict.fits
    assert [reason.key for reason in verdict.standing] == ["why_unpriced"]


def test_a_former_name_says_what_the_server_is_called_now() -> None:
    verdict = rightfit.why("crusoe/l40s-48gb.1x", LLAMA, **CHAT)
    assert [reason.key for reason in verdict.standing[:2]] == ["why_unpriced", "price_superseded"]
    assert verdict.standing[1].params == {"newer": "crusoe/1x_L40S"}


def test_a_filter_does_not_take_the_option_away() -> None:
    found = rightfit.estimate(LLAMA, on="aws/p4d.24xlarge", **CHAT, cloud="gcp", budget="1usd/month")
    assert found.best is not None
    assert {"cloud", "budget"} <= {rejection.criterion for rejection in found.rejected}


def test_batch_on_any_number_of_servers() -> None:
    few, many = (rightfit.estimate(LLAMA, on="aws/p4d.24xlarge", nodes=nodes, **CORPUS).best for nodes in (1, 7))
    assert few is not None
    assert many is not None
    assert (few.nodes, many.nodes) == (1, 7)
    run = [option.estimate["total_time_s"].mid for option in (few, many)]
    assert run[0] / 7 < run[1] < run[0] / 5  # the start-up is not divided
    late = rightfit.estimate(LLAMA, on="aws/p4d.24xlarge", **CORPUS, deadline="1h")
    assert [rejection.criterion for rejection in late.rejected] == ["deadline"]
    assert late.best is not None


def test_bad_servers_and_counts() -> None:
    with pytest.raises(UnknownNameError, match=r"did you mean aws/g4dn.xlarge"):
        rightfit.estimate(LLAMA, on="aws/g4dn.xlarg", **CHAT)
    with pytest.raises(InputError, match="nodes"):
        rightfit.estimate(LLAMA, on="aws/p4d.24xlarge", nodes=0, **CHAT)
    with pytest.raises(UnknownNameError):
        rightfit.why("aws/g4dn.xlarg", LLAMA, **CHAT)


def test_why_the_choice_and_a_dearer_one(chat: Plan) -> None:
    best = chat.best
    assert best is not None
    verdict = rightfit.why(f"{best.provider}/{best.instance_type}", LLAMA, **CHAT)
    assert [reason.key for reason in verdict.standing] == ["why_best"]
    assert verdict.option is not None
    assert verdict.standing[0].params["monthly_usd"] == pytest.approx(verdict.option.cost.total_usd)
    other = rightfit.why("aws/p4d.24xlarge", LLAMA, **CHAT)
    (reason,) = other.standing
    assert reason.key == "why_ranked"
    assert reason.params["rank"] > 1
    assert reason.params["price_factor"] == pytest.approx(reason.params["best_usd"] / reason.params["monthly_usd"])
    assert reason.params["best_usd"] == pytest.approx(best.cost.total_usd)


def test_why_refused_names_the_criterion_and_the_least_change() -> None:
    verdict = rightfit.why("aws/g4dn.xlarge", LLAMA, **CHAT)
    assert not verdict.fits
    assert verdict.option is None
    assert [reason.key for reason in verdict.standing] == ["why_refused", "why_refused", "serve_change_latency", "serve_change_latency"]
    assert [rejection.criterion for rejection in verdict.failed] == ["ttft", "tpot"]
    allowed = verdict.standing[-1].params["limit_s"]
    freed = rightfit.why("aws/g4dn.xlarge", LLAMA, **{**CHAT, "tpot": f"{allowed * 1.5}s", "ttft": "3s", "rate": "0.1/s"})
    assert freed.fits


def test_why_too_many_servers_are_needed() -> None:
    verdict = rightfit.why("aws/g4dn.xlarge", "bert-large-uncased", **BERT, max_nodes=1)
    assert verdict.standing[0].params["criterion"] == "max_nodes"
    assert verdict.option is not None
    assert verdict.option.nodes == verdict.standing[0].params["had"]


def test_why_of_a_batch_job_is_as_of_training() -> None:
    verdict = rightfit.why("aws/p4d.24xlarge", LLAMA, **CORPUS)
    assert {"total_usd", "total_time_s"} <= set(verdict.standing[0].params)


@pytest.mark.parametrize("wish", [CHAT, {"task": "serve", "users": 50}, CORPUS])
def test_front_of_cost_and_time(wish: dict[str, object]) -> None:
    plan = rightfit.plan(LLAMA, **wish)
    points = plan.to_dict()["pareto"]
    assert 1 < len(points) <= 12
    time = "total_time_s" if wish["task"] == "batch" else "latency_s"
    costs, times = ([point[name] for point in points] for name in ("total_usd", time))
    counted = [option.cost.total_usd for option in plan.pareto]  # an old spot price counts as more than was listed
    assert counted == sorted(counted)
    assert plan.best is not None
    assert plan.best.cost.total_usd in [pytest.approx(usd) for usd in costs]
    best = plan.best.cost.total_usd
    cheaper = [option for option in plan.pareto if option.cost.total_usd < min(0.9 * best, best - 50.0)]  # less does not decide
    assert {option.facts["country"] for option in cheaper} <= {"CN"}  # what is across the border of mainland China goes last
    assert all(point["replicas"] >= 1 for point in points)
    names = {
        "provider",
        "region",
        "instance_type",
        "nodes",
        "purchase",
        "accelerator",
        "total_usd",
        "hourly_usd",
        "total_time_s",
        "replicas",
    }
    assert names <= set(points[0])
    if wish is not CHAT:  # there the choice is by the queue model, the others by the quick law
        assert times == sorted(times, reverse=True)


def test_a_long_front_keeps_its_ends() -> None:
    rows = list(range(40))
    kept = spread_over(rows, 12)  # type: ignore[arg-type]
    assert (kept[0], kept[-1], len(kept)) == (0, 39, 12)
    assert spread_over(rows[:5], 12) == rows[:5]  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "gpu"), [("llama3-70b", "A10G"), ("llama3-70b", "T4"), ("Qwen/Qwen2.5-72B-Instruct", "T4")])
def test_a_limit_that_nobody_stated_is_named_where_it_keeps_a_named_card_out(model: str, gpu: str) -> None:
    """And the limit that is named lets the card pass."""
    wish = {"model": model, "task": "serve", "rate": "0.2/s", "gpu": gpu, "quantization": "none"}
    plan = rightfit.plan(**wish)
    if plan.best is not None:  # twice the usual wait is planned for and said
        assert "assumed_serve_wait" in {one.why.key for one in plan.assumptions}
        return
    [change] = [reason for reason in plan.advice if reason.key == "serve_change_assumed"]
    metric, limit_s = change.params["metric"], change.params["limit_s"]
    assert rightfit.plan(**wish, **{metric: f"{limit_s * 1.001:.4f}s"}).best is not None
    said = {reason.key for reason in rightfit.plan(**wish, **{metric: "0.01s"}).advice if reason.params.get("metric") == metric}
    assert "serve_change_assumed" not in said
