"""A plan in words, from hand-made data with round figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from rightfit.explain.plan_words import layout_text, nearest_text, rejection_lines
from rightfit.explain.reasons import needed_had_text
from rightfit.explain.voices import option_text, plan_text
from rightfit.search.answer import Assumption, Counts, NearMiss, Option, Plan, Reason, Rejection
from rightfit.workload import Workload

GIB = 2**30


@pytest.fixture(scope="module")
def plan(option_of: Callable[..., Option], workload: Workload) -> Plan:
    miss = NearMiss(
        "aws", "g4dn.xlarge", "us-east-1", "on-demand", 1, 18 * GIB, 15 * GIB, Reason("change_gpu_memory", {"bytes": 3.0 * GIB})
    )
    faster = option_of(
        rank=2,
        provider="aws",
        instance_type="p5.48xlarge",
        estimate={**option_of().estimate, "total_time_s": option_of().estimate["step_s"]},
    )
    return Plan(
        workload=workload,
        assumptions=(Assumption("epochs", 1.0, Reason("assumed_epochs", {"value": 1.0})),),
        options=(option_of(),),
        pareto=(option_of(), faster),
        rejected=(
            Rejection("gpu_memory", 312, 40, 18 * GIB, 15 * GIB, 0.2, "aws/g4dn.xlarge", miss),
            Rejection("cloud", 9000, 0, "aws", "gcp", 1.0, "gcp/x"),
        ),
        advice=(Reason("spot", {"saving_usd": 2.0, "total_usd": 1.68, "provider": "gcp", "instance_type": "g2-standard-4"}),),
        catalog={},
        counts=Counts(200_000, 40_000, 12_431, 320, 5_000_000),
    )


def test_the_choice_in_words(option_of: Callable[..., Option], workload: Workload) -> None:
    text = option_text(option_of(), workload, "en")
    assert text.headline == "Rent g2-standard-4 from Google Cloud in us-central1, on demand: 1 x L4 (24 GiB), $0.707 per hour (2026-07-30)."
    assert text.outcome.startswith(
        "QLoRA of meta-llama/Meta-Llama-3-8B on 50 M tokens takes 5 h 12 min (80% interval 4 h 41 min to 5 h 43 min) and costs $3.68"
    )
    setup = "Setup: one GPU; micro-batch 2, sequence length 2048, gradient accumulation 8; gradient checkpointing; bf16."
    assert text.setup == f"{setup} Peak memory: 12 GiB of 24 GiB per GPU, 24 GiB of 16 GiB RAM."
    assert text.margin == "Free memory per GPU: 10 GiB (55% used; 95% upper bound 14.4 GiB)."
    assert text.speed == "Speed: 3,277 tokens/s, 10 s per step, 42% MFU."
    assert text.warnings == ("The price dates from 2024-12-31, over a year ago, and may have changed. Check it before renting.",)


def test_the_choice_in_chinese(option_of: Callable[..., Option], workload: Workload) -> None:
    text = option_text(option_of(nodes=2), workload, "zh")
    assert (
        text.headline == "租用谷歌云 us-central1 的 2 台 g2-standard-4（按量付费）：每台 1 张 L4（24 GiB），每小时 $0.707（2026-07-30）。"
    )
    assert text.speed == "速度：3,277 token/秒，单步 10 秒；实际算力为峰值的 42%。"
    assert text.warnings == ("该价格日期为 2024-12-31，已超过一年，可能已有变动，租用前请核对。",)


def test_terms_are_ordered_and_add_up(option_of: Callable[..., Option], workload: Workload) -> None:
    text = option_text(option_of(), workload, "en")
    assert [term.name for term in text.memory] == ["weights", "activations", "logits", "context"]
    assert sum(term.share for term in text.memory) == pytest.approx(1)
    assert text.memory[0].text == "weights: 5.5 GiB (46%)"
    assert text.time[0].text == "matrix multiplications (GEMM): 9 s (90%)"
    assert [term.text for term in text.cost] == ["servers: $3.60 (98%)", "storage: $0.08 (2.2%)"]


def test_memory_that_may_not_do_says_so(option_of: Callable[..., Option], workload: Workload) -> None:
    tight = option_of(facts={"capacity_bytes": 13 * GIB, "seq_len": 2048, "tokens": 5e7})
    assert "over the usable 13 GiB" in option_text(tight, workload, "en").margin


def test_layouts_in_words(option_of: Callable[..., Option]) -> None:
    layout = option_of(layout={"data": 4, "tensor": 2, "sharding": "zero3", "offload": "optimizer"}).layout
    assert (
        layout_text(layout, "en") == "4-way data parallel, 2-way tensor parallel, ZeRO-3 (everything sharded), optimizer state in host RAM"
    )
    assert layout_text(layout, "zh") == "4 路数据并行、2 路张量并行、ZeRO-3（参数、梯度、优化器状态全部分片）、优化器状态卸载到主机内存"


def test_a_whole_plan(plan: Plan) -> None:
    text = plan_text(plan, "en")
    assert text.considered == "Evaluated 12,431 offers of 320 server types: 5 M configurations."
    assert text.assumptions == ("epochs = 1: one pass over the data",)
    assert text.rejected == (
        "not enough GPU memory: 312 offers (40 for this reason only)",
        "Nearest miss: AWS g4dn.xlarge on 1 node, needs 18 GiB per GPU for 90% confidence, 15 GiB usable. It is short of 3 GiB of memory per GPU.",
        "not one of the requested clouds: 9,000 offers",
    )
    assert text.advice == ("Spot servers: $1.68 ($2.00 less) on Google Cloud g2-standard-4, if the job can resume from checkpoints.",)
    assert text.faster == ("AWS p5.48xlarge takes 10 s for $3.68 (same cost)",)
    assert text.blame == ""


def test_a_plan_without_answer_names_the_blame(plan: Plan, workload: Workload) -> None:
    hurried = workload.with_changes(deadline="1h", budget="1usd")
    none = Plan(hurried, (), (), (), plan.rejected, (), {}, plan.counts, blame=(("status", "gpu_memory", "deadline", "budget"),))
    text = plan_text(none, "en")
    assert text.best is None
    assert text.headline == "No server in the catalog meets this request."
    assert text.blame == "No offer is left: deadline, budget and GPU memory together exclude all of them."
    assert plan_text(none, "zh").blame == "没有可行方案：期限、预算和显存合在一起排除了全部报价。"
    single = Plan(hurried, (), (), (), (), (), {}, plan.counts, blame=(("deadline",),))
    assert plan_text(single, "en").blame == "No offer is left: deadline alone excludes all of them."


def test_rejections_in_chinese(plan: Plan) -> None:
    lines = rejection_lines(plan.rejected[0], "zh")
    assert lines[0] == "显存不足：312 个报价（其中 40 仅因这一条）"
    assert lines[1] == "最接近的是 AWS g4dn.xlarge（1 个节点）：每卡需要 18 GiB（含 90% 把握的余量），只有 15 GiB。每张卡还差 3 GiB 显存。"


@pytest.mark.parametrize(
    ("criterion", "needed", "had", "text"),
    [
        ("deadline", 86400.0, 172800.0, "may take up to 2 days, limit 24 h"),
        ("budget", 200.0, 350.0, "may cost up to $350.00, budget $200.00"),
        ("capability", "bf16", "T4", "T4: no bf16 support"),
        ("host_memory", 432.1 * GIB, 432.0 * GIB, "needs 432.1 GiB of host RAM, has 432 GiB"),
        ("layout", "", "", "no valid way to split the model across its GPUs"),
    ],
)
def test_what_was_needed_and_had(criterion: str, needed: float | str, had: float | str, text: str) -> None:
    assert needed_had_text(criterion, needed, had, "en") == text


def test_a_given_server_that_does_not_hold_the_job_says_what_is_missing(
    plan: Plan, workload: Workload, option_of: Callable[..., Option]
) -> None:
    host = Rejection("host_memory", 1, 1, 170 * GIB, 85 * GIB, 1.0, "gcp/a2-highgpu-1g")
    empty = Plan(
        workload,
        (),
        (),
        (),
        (host,),
        (),
        {},
        plan.counts,
        blame=(("host_memory",),),
        unfit=option_of(layout={"offload": "optimizer+parameters"}),
    )
    text = plan_text(empty, "en")
    assert text.headline == (
        "The job does not fit on Google Cloud g2-standard-4 (1 x L4 (24 GiB)): GPU memory and host RAM. It does not fit in GPU memory, "
        "and with weights and optimizer state in host RAM it needs 170 GiB of host RAM and the server has 85 GiB."
    )
    assert text.blame == ""
    assert text.unfit is not None
    plain = Plan(workload, (), (), (), (host,), (), {}, plan.counts, unfit=option_of())
    assert "host RAM. It fits in GPU memory, but needs 170 GiB" in plan_text(plain, "en").headline
    card = Rejection("gpu_memory", 1, 1, 13 * GIB, 10 * GIB, 0.3, "gcp/g2-standard-4")
    memory = Plan(workload, (), (), (), (card,), (), {}, plan.counts, unfit=option_of(facts={"capacity_bytes": 10 * GIB, "tokens": 5e7}))
    assert "GPU memory. Even the leanest setup peaks at 12 GiB per GPU (13 GiB for 90% confidence" in plan_text(memory, "en").headline


def test_a_given_server_that_cannot_run_the_job_at_all_says_why(plan: Plan, workload: Workload) -> None:
    chip = Rejection("capability", 1, 1, "training", "Inferentia2", 0.0, "aws/inf2.xlarge")
    text = plan_text(Plan(workload, (), (), (), (chip,), (), {}, plan.counts, (("capability",),), given="aws/inf2.xlarge"), "en")
    assert text.headline == "aws/inf2.xlarge cannot run this job: the GPU or its software cannot run this (Inferentia2: it cannot train)."
    assert text.blame == ""


def test_a_near_miss_promises_only_what_is_known() -> None:
    change = Reason("change_filter", {"criterion": "purchase", "value": "capacity-block"})
    miss = NearMiss("aws", "p5.48xlarge", "us-east-1", "capacity-block", 3, "on-demand", "capacity-block", change)
    assert nearest_text("purchase", miss, "en").endswith(
        "capacity block, requested on demand. Allowing capacity block as pricing model would make it feasible."
    )
    more = dataclasses.replace(miss, also=("deadline", "budget"))
    assert nearest_text("purchase", more, "en") == (
        "Nearest miss: AWS p5.48xlarge on 3 nodes, capacity block, requested on demand. It also fails on deadline, budget."
    )
    assert "would make it feasible" not in nearest_text("purchase", more, "en")
    unknown = dataclasses.replace(miss, unknown=("deadline",))
    assert nearest_text("purchase", unknown, "en").endswith("Whether it meets the other limits (deadline) is unknown.")
    assert nearest_text("purchase", unknown, "zh").endswith("能否满足其余限制（期限）尚不可知。")


def test_sets_of_limits_are_one_sentence_without_those_that_hold_a_smaller_one() -> None:
    from rightfit.explain.plan_words import blamed

    assert blamed([("country", "budget"), ("budget",)], "en") == blamed([("budget",)], "en")
    both = blamed([("country", "budget"), ("gpu", "budget")], "en")
    assert " and " in both
    assert ", or " in both
    assert ";" not in both
    assert "；" not in blamed([("country", "budget"), ("gpu", "budget")], "zh")
