"""What people say of a job in passing: tables of embeddings, trees that run each week, dimensions,
data of which only the rows are told."""

from __future__ import annotations

import pytest

from rightfit import api
from rightfit.cli import main
from rightfit.workload.ask import understand
from rightfit.workload.model import Workload


@pytest.mark.parametrize(
    ("sentence", "model", "data"),
    [
        ("DLRM style recommender with 200 GB of embedding tables, training on 4 TB click logs", "DLRM 200 GB tables", "4 TB"),
        ("train DLRM on 4 TB of click logs, 1.5 TB of embeddings", "DLRM 1500 GB tables", "4 TB"),
        ("DLRM 推荐模型，200GB embedding 表，用 4TB 点击日志训练", "DLRM 200 GB tables", "4TB"),
    ],
)
def test_tables_of_embeddings_are_those_of_the_model(sentence: str, model: str, data: str) -> None:
    found = understand(sentence)
    assert (found.wishes["model"], found.wishes["data"]) == (model, data)
    assert not found.weighty


def test_larger_tables_take_more_memory() -> None:
    less, more = (
        max(option.accelerator.memory_bytes * option.num_accelerators for option in plan.options if option.accelerator)
        for plan in (api.plan(Workload(model=f"DLRM {size} GB tables", task="train", data="100 GB"), top=1) for size in (10, 600))
    )
    assert less < 600e9 < more


@pytest.mark.parametrize(
    "sentence",
    [
        "Forecast demand for 200k time series weekly with LightGBM and maybe a small temporal transformer, runs every Monday",
        "每天跑一次 LightGBM，200 万行",
    ],
)
def test_trees_run_as_jobs(sentence: str) -> None:
    found = understand(sentence)
    assert found.wishes.get("task", "train") == "train"
    assert "data" in found.wishes
    assert not found.weighty


def test_trees_that_answer_requests_are_served() -> None:
    assert understand("run LightGBM at 500 requests per second").wishes["task"] == "serve"


@pytest.mark.parametrize("data", ["3 million rows", "300 万行", "200k samples"])
def test_columns_that_nobody_told_are_assumed_and_said(data: str) -> None:
    found = api.plan(Workload(model="lightgbm", task="train", data=data), top=1)
    assert found.best is not None
    assert "columns" in {one.field for one in found.assumptions}


@pytest.mark.parametrize(
    ("sentence", "deadline"),
    [
        ("医院影像分割 nnU-Net 3D，要什么显卡", None),
        ("train nnU-Net 3d_fullres on 500 scans", None),
        ("nnU-Net 3D, 500 scans", None),
        ("fine-tune Llama-3-8B with LoRA on 5k samples within 3D", "3D"),
        ("fine-tune Llama-3-8B with LoRA on 5k samples, deadline 3D", "3D"),
    ],
)
def test_dimensions_are_no_days(sentence: str, deadline: str | None) -> None:
    assert understand(sentence).wishes.get("deadline") == deadline


@pytest.mark.parametrize(
    "sentence", ["Clean 1 TB of text, no deep learning", "清洗 1TB 文本，不用深度学习", "Tokenize 3 TB of text (Common Crawl)"]
)
def test_what_asks_nothing_of_data_preparation_stops_nothing(sentence: str) -> None:
    found = understand(sentence)
    assert found.wishes["task"] == "prepare"
    assert not found.weighty


@pytest.mark.parametrize(
    ("sentence", "said", "count"),
    [
        ("部署 bge-m3 和 bge-reranker，每秒 50 次查询，要 GPU 吗", "要 GPU 吗：", 2),
        ("医院影像分割 nnU-Net 3D，数据不能出内网，我们打算买机器，要什么显卡", "不小于 8 GiB 显存", 1),
        ("XTTS service, 10 parallel calls", "8 to 16 GB", 1),
    ],
)
def test_what_is_asked_is_answered(sentence: str, said: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", "--ask", sentence])
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count(said) == count
