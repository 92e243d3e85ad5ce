"""Plans for training on samples: they fit, they scale, they add up, and what is
asked for is done."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
from counted import counted_usd

import rightfit
from rightfit import facts
from rightfit.errors import InputError
from rightfit.estimation.figures import FigureColumns, probability_within
from rightfit.estimation.sample_training import TrainSetup, train_devices, training_memory, work_columns
from rightfit.explain.sheets import short_sheet
from rightfit.families.samples.engine import SampleEngine
from rightfit.physics.columns import MemoryCounter, SetupColumns
from rightfit.planner.given import estimate_one, why
from rightfit.planner.plan import plan, search
from rightfit.search.answer import MUCH_LONGER, Option, Plan
from rightfit.workload import Workload

SCENARIOS: dict[str, dict[str, Any]] = {
    "resnet": {"model": "resnet50", "task": "train", "data": "imagenet-1k", "epochs": 90, "deadline": "24h"},
    "lora": {"model": "stable-diffusion-xl", "task": "finetune", "method": "lora", "data": "5kimages"},
    "dreambooth": {"model": "stable-diffusion-xl", "method": "dreambooth", "data": "5images"},
    "inversion": {"model": "stable-diffusion-1.5", "method": "textual-inversion", "data": "5images"},
    "flux": {"model": "flux.1-dev", "method": "full", "data": "1kimages"},
    "whisper": {"model": "whisper-small", "data": "500hours"},
    "wav2vec2": {"model": "wav2vec2-base", "task": "train", "data": "librispeech", "epochs": 10},
    "dlrm": {"model": "dlrm", "task": "train", "data": "criteo"},
    "ncf": {"model": "ncf", "task": "train", "data": "movielens-20m"},
    "graph": {"model": "graphsage", "task": "train", "data": "ogbn-papers100M"},
    "yolo": {"model": "yolov8m", "task": "train", "data": "coco"},
    "maskrcnn": {"model": "mask-rcnn", "task": "train", "data": "coco"},
    "vit": {"model": "timm/vit_base_patch16_224", "task": "train", "data": "imagenet-1k", "max_nodes": 2},
    "gan": {"model": "stylegan2", "task": "train", "image_size": "256"},
    "unet": {"model": "unet", "task": "train", "data": "5kimages"},
    "sam": {"model": "sam-vit-base", "data": "10kimages"},
    "video": {"model": "wan2.1-1.3b", "method": "lora", "data": "200clips", "frames": 33},
    "rnn": {"model": "lstm", "task": "train", "data": "100ksamples"},
}


@functools.cache
def planned(name: str) -> Plan:
    return plan(Workload(**SCENARIOS[name]))


def best(name: str) -> Option:
    option = planned(name).best
    assert option is not None
    return option


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_option_fits_and_its_terms_add_up(name: str) -> None:
    for option in planned(name).options:
        peak, limit = option.estimate["peak_memory_bytes"].mid, option.facts["capacity_bytes"]
        assert peak <= limit
        assert option.facts["fit_probability"] >= 0.85
        assert sum(option.memory_terms.values()) == pytest.approx(peak)
        assert sum(option.time_terms.values()) == pytest.approx(option.estimate["step_s"].mid)
        assert sum(option.cost.terms.values()) == pytest.approx(option.cost.total_usd)


@pytest.mark.parametrize("name", SCENARIOS)
def test_steps_samples_and_time_agree(name: str) -> None:
    option = best(name)
    layout, estimate = option.layout, option.estimate
    assert layout.data == option.num_accelerators
    assert estimate["samples_per_s"].mid == pytest.approx(layout.global_batch / estimate["step_s"].mid)
    work_s = option.facts["steps"] * estimate["step_s"].mid
    assert work_s == pytest.approx(option.facts["run_s"], rel=0.02)
    assert estimate["total_time_s"].mid >= option.facts["run_s"]
    low, mid, high = (getattr(estimate["samples_per_s"], name) for name in ("low80", "mid", "high80"))
    assert low < mid < high
    assert estimate["step_s"].low80 == pytest.approx(layout.global_batch / high)


def test_options_come_in_order_and_nothing_on_the_front_is_beaten() -> None:
    for name in ("resnet", "lora", "dlrm"):
        found = planned(name)
        deadline_s = 86400.0 if "deadline" in SCENARIOS[name] else None
        costs = [counted_usd(option, deadline_s=deadline_s) for option in found.options]
        longest = MUCH_LONGER * found.options[0].estimate["total_time_s"].mid  # slower ones go last
        costs = [cost for cost, option in zip(costs, found.options, strict=True) if option.estimate["total_time_s"].mid <= longest]
        assert costs == sorted(costs)
        front = sorted((option.cost.total_usd, option.estimate["total_time_s"].mid) for option in found.pareto)
        assert [time for _, time in front] == sorted((time for _, time in front), reverse=True)


def test_the_deadline_holds_and_a_tighter_one_costs_no_less() -> None:
    assert best("resnet").estimate["total_time_s"].mid <= 86400
    tight = plan(Workload(**SCENARIOS["resnet"] | {"deadline": "6h"})).best
    assert tight is not None
    assert tight.estimate["total_time_s"].mid <= 6 * 3600
    assert tight.cost.total_usd >= best("resnet").cost.total_usd


def test_nothing_fits_a_deadline_of_a_minute_and_the_reason_is_named() -> None:
    found = plan(Workload(**SCENARIOS["resnet"] | {"deadline": "1min"}))
    assert found.best is None
    assert found.blame == (("deadline",),)
    assert found.advice[0].key == "change_deadline"
    assert found.advice[0].params["deadline_s"] > 60


def test_more_accelerators_are_never_slower_per_step() -> None:
    found = search(Workload(**SCENARIOS["resnet"] | {"global_batch": 1024, "deadline": None}))
    best_of = found.best.run_s[:, :, -1]
    for machine, name in enumerate(found.fleet.machines.accelerators):
        for other in np.flatnonzero(np.array(found.fleet.machines.accelerators) == name):
            same_links = found.fleet.machines.links.take(np.array([machine, other]))
            if (
                found.fleet.machines.gpus_per_node[other] == 2 * found.fleet.machines.gpus_per_node[machine]
                and np.ptp(same_links.intra_kind) == 0
            ):
                assert best_of[other, 0] <= best_of[machine, 0] * 1.0001


def test_two_cards_are_at_most_twice_as_fast() -> None:
    workload = Workload(model="resnet50", task="train", data="imagenet-1k", epochs=10, decode="dali")
    one, eight = (estimate_one(workload, on=server).best for server in ("aws/g5.xlarge", "aws/g5.48xlarge"))
    assert one is not None
    assert eight is not None
    gain = eight.estimate["samples_per_s"].mid / one.estimate["samples_per_s"].mid
    assert 4.0 < gain <= 8.0


def test_memory_grows_with_micro_batch_and_image_and_shrinks_with_recomputation() -> None:
    def peak(**changes: Any) -> float:
        options = {"model": "resnet50", "task": "train", "data": "imagenet-1k", "micro_batch": 32, "recompute": "none", **changes}
        found = estimate_one(Workload(**options), on="gcp/a2-ultragpu-1g").best
        assert found is not None
        return found.estimate["peak_memory_bytes"].mid

    base = peak()
    assert peak(micro_batch=64) > base
    assert peak(image_size=448) > 2 * base
    assert peak(recompute="full") < base
    assert peak(precision="fp32") > base


def test_activations_are_those_of_the_physics() -> None:
    found = estimate_one(
        Workload(model="resnet50", task="train", micro_batch=64, recompute="none", precision="bf16"), on="gcp/a2-ultragpu-1g"
    ).best
    assert found is not None
    wish = search(Workload(model="resnet50", task="train")).wish
    assert hasattr(wish, "work")
    setup = TrainSetup.of(batch=64, precision=2, channels_last=1, optimizer_bytes=4, counter=float(MemoryCounter.DRIVER))
    terms, required = training_memory(work_columns([wish.work]), setup, train_devices(["A100-SXM-80GB"]))
    assert found.memory_terms["activations"] == pytest.approx(float(terms["activations"][0]))
    assert found.estimate["peak_memory_bytes"].mid == pytest.approx(float(required[0]))


def test_split_states_shrink_with_the_degree_and_cost_time() -> None:
    wish = search(Workload(**SCENARIOS["flux"])).wish
    engine = SampleEngine.of(wish)  # type: ignore[arg-type]
    degree = np.array([1.0, 4.0, 8.0])
    setup = SetupColumns.of(seq_len=1, data=degree, shard_degree=degree, gpus_per_node=8, micro_batch=1, recompute=2, compute_dtype=3)
    peak = engine.memory(setup)
    assert (np.diff(peak) < 0).all()
    states = engine.memory_terms(setup)["states"]
    assert states[0] / states[2] == pytest.approx(8.0)
    assert states[0] == pytest.approx(wish.work.params * (4 + 8))  # type: ignore[attr-defined]  # fp32 gradients and two moments


def test_large_tables_are_split_over_cards() -> None:
    layout = best("dlrm").layout
    assert layout.sharding == "tables"
    assert layout.shard_degree == layout.data > 1
    tables = best("dlrm").memory_terms["tables"]
    assert tables * layout.data == pytest.approx(22_777e6 * facts.coefficients("vision")["table_bytes"], rel=0.01)


def test_weights_of_a_denoiser_may_lie_in_host_memory() -> None:
    wishes = {"model": "flux.1-dev", "method": "lora", "data": "100images"}
    plain, moved = (
        estimate_one(Workload(**wishes, offload=offload), on="gcp/a2-ultragpu-1g").unfit
        or estimate_one(Workload(**wishes, offload=offload), on="gcp/a2-ultragpu-1g").best
        for offload in ("none", "params")
    )
    assert plain is not None
    assert moved is not None
    assert moved.layout.offload == "parameters"
    assert moved.memory_terms["weights"] == pytest.approx(0.15 * plain.memory_terms["weights"])
    assert moved.estimate["host_memory_bytes"].mid - plain.estimate["host_memory_bytes"].mid == pytest.approx(0.85 * 11_901e6 * 2, rel=0.01)


def test_live_latents_need_more_memory_and_time() -> None:
    live, cached = (
        estimate_one(Workload(**SCENARIOS["lora"], latents=word, micro_batch=1, recompute="full"), on="gcp/a2-ultragpu-1g").best
        for word in ("live", "cached")
    )
    assert live is not None
    assert cached is not None
    assert live.estimate["peak_memory_bytes"].mid > cached.estimate["peak_memory_bytes"].mid
    assert live.estimate["step_s"].mid > cached.estimate["step_s"].mid
    assert "frozen_networks" not in cached.memory_terms


def test_a_server_with_few_vcpus_starves_its_cards_and_says_so() -> None:
    workload = Workload(model="resnet18", task="train", data="imagenet-1k", epochs=10)
    starved = estimate_one(workload, on="aws/p3.2xlarge").best
    assert starved is not None
    data = starved.data_path
    waiting = starved.time_terms["loading_s"] / starved.estimate["step_s"].mid
    assert data["stall_share"] == pytest.approx(waiting, rel=0.02)
    assert data["stall_share"] == pytest.approx(1 - 1 / data["loading_share"], rel=1e-6)
    assert data["stall_share"] > data["rule_share"]
    assert data["needed_cores"] > data["cores"]
    assert "data_starved_prepare" in {reason.key for reason in starved.warnings}
    decoded = estimate_one(workload.with_changes(decode="dali"), on="aws/p3.2xlarge").best
    assert decoded is not None
    assert decoded.estimate["samples_per_s"].mid > 1.5 * starved.estimate["samples_per_s"].mid


def test_servers_with_few_vcpus_lose_rank() -> None:
    def first(decode: str) -> Option:
        found = plan(
            Workload(
                model="resnet18", task="train", data="imagenet-1k", epochs=10, cloud="aws", gpu="A10G", purchase="on-demand", decode=decode
            )
        ).best
        assert found is not None
        return found

    assert first("pillow").vcpus > first("dali").vcpus
    assert first("pillow").cost.total_usd > first("dali").cost.total_usd


def test_a_card_that_decodes_pays_for_it() -> None:
    found = estimate_one(Workload(model="resnet50", task="train", data="imagenet-1k", decode="dali"), on="gcp/a2-ultragpu-1g").best
    assert found is not None
    assert found.time_terms["decoding_s"] == pytest.approx(256 / 4143.68)
    assert found.data_path["stall_share"] < 0.01


def test_a_graph_wants_the_ram_of_its_features() -> None:
    option = best("graph")
    assert option.estimate["host_memory_bytes"].mid * option.nodes > 66e9
    assert option.memory_bytes >= option.estimate["host_memory_bytes"].mid
    small = estimate_one(Workload(**SCENARIOS["graph"]), on="aws/g4dn.xlarge")
    assert small.best is None
    assert [rejection.criterion for rejection in small.rejected] == ["host_memory"]


def test_an_image_larger_than_any_card_is_a_slip() -> None:
    with pytest.raises(InputError, match="one sample of 100000 takes"):
        plan(Workload(model="resnet50", task="train", image_size=100_000))


def test_filters_budget_and_objective_hold() -> None:
    workload = Workload(
        model="resnet50",
        task="train",
        data="imagenet-1k",
        cloud="aws",
        purchase="on-demand",
        gpu="A10G,T4",
        budget="400usd",
        objective="time",
    )
    found = plan(workload)
    assert found.options
    for option in found.options:
        assert (option.provider, option.purchase) == ("aws", "on-demand")
        assert option.accelerator.name in ("A10G-24GB", "T4-16GB", "A10G", "T4")
        assert option.cost.total_usd <= 400
    times = [option.estimate["total_time_s"].mid for option in found.options]
    assert all(first <= 1.011 * second for first, second in itertools.pairwise(times))  # a hundredth longer counts as equally fast


def test_why_a_server_stands_where_it_does() -> None:
    verdict = why(Workload(**SCENARIOS["resnet"]), "aws/p3.2xlarge")
    assert not verdict.fits or verdict.option is not None
    assert verdict.standing[0].key in ("why_refused", "why_ranked")
    assert verdict.option is not None
    assert verdict.option.layout.precision == "fp16"


def test_the_answer_as_data_has_samples_and_no_tokens() -> None:
    answer = planned("whisper").to_dict()
    option = answer["options"][0]
    assert "samples_per_s" in option["estimate"]
    assert "tokens_per_s" not in option["estimate"]
    assert option["cost"]["per_million_samples_usd"] == pytest.approx(option["cost"]["total_usd"] * 1e6 / (500 * 3600 / 12.3 * 3))
    assert "per_million_tokens_usd" not in option["cost"]
    assert option["layout"]["attention"] == "none"


def test_probability_from_intervals() -> None:
    figure = FigureColumns(*(np.full(5, value) for value in (10.0, 8.0, 12.5, 7.0, 14.0)))
    within = probability_within(figure, np.array([10.0, 12.5, 14.0, 8.0, 1e9]))
    assert within == pytest.approx([0.5, 0.9, 0.975, 0.1, 1.0], abs=1e-4)
    assert math.isfinite(float(probability_within(FigureColumns(*(np.ones(1) for _ in range(5))), np.array([2.0]))[0]))


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("cards", [8, 4])
def test_what_a_batch_that_grows_with_the_cards_saves_is_said(cards: int, lang: str) -> None:
    wish = {"model": "resnet50", "task": "train", "data": "imagenet", "gpu": "V100", "num_gpus": str(cards)}
    found = rightfit.plan(**wish, top=3)
    (larger,) = [reason for reason in found.advice if reason.key == "larger_batch"]
    assert float(larger.params["global_batch"]) == 256 * cards
    assert larger.params["total_usd"] < 0.9 * found.best.cost.total_usd
    text = " ".join(part for part in short_sheet(found, lang) if isinstance(part, str))
    assert str(256 * cards) in text
    told = rightfit.plan(**wish, global_batch=str(256 * cards), top=1)
    assert told.best.cost.total_usd == pytest.approx(larger.params["total_usd"], rel=0.15)
    assert not any(reason.key == "larger_batch" for reason in told.advice)


@pytest.mark.parametrize(
    "wish",
    [
        {"model": "resnet50", "task": "finetune", "data": "10kimages"},
        {"model": "sdxl", "method": "lora", "data": "1kimages"},
        {"model": "resnet50", "task": "train", "data": "imagenet", "gpu": "A100", "num_gpus": "1", "max_nodes": "1"},
    ],
    ids=str,
)
def test_no_larger_batch_is_told_of_one_card_or_of_tuning(wish: dict[str, str]) -> None:
    assert not any(reason.key == "larger_batch" for reason in rightfit.plan(**wish, top=1).advice)


@pytest.mark.parametrize("name", ["nnU-Net", "nnUNetv2", "SwinUNETR", "Swin-UNETR", "V-Net", "SegResNet"])
def test_a_network_for_volumes_is_planned_by_its_nearest_relative_and_says_so(name: str) -> None:
    found = rightfit.plan(model=name, task="train", data="1200samples", epochs="300", top=1)
    (told,) = [one for one in found.assumptions if one.why.key == "assumed_relative_model"]
    assert told.value == "mlperf/3d-unet-kits19"
    same = rightfit.plan(model=told.value, task="train", data="1200samples", epochs="300", top=1)
    assert found.best.cost.total_usd == pytest.approx(same.best.cost.total_usd, rel=0.01)
    assert name in "\n".join(part for part in short_sheet(found, "en") if isinstance(part, str))
