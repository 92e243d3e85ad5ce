"""The user's wish: read, checked, frozen."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit.errors import AmbiguousNameError, ContradictionError, InputError, QuantityError, UnknownNameError
from rightfit.workload import Workload
from rightfit.workload.options import OPTIONS


@pytest.mark.parametrize("budget", ["300usd", "2000cny", "300 USD"])
def test_a_budget_of_a_service_without_a_period_is_monthly_and_that_is_assumed(budget: str) -> None:
    """As --help says; a period that is given is no assumption, and a job has a total."""
    bare, told = (Workload(model="7B", task="serve", budget=text) for text in (budget, f"{budget}/month"))
    assert bare.budget_per_month
    assert bare.budget_usd == told.budget_usd
    assert "budget_per_month" in bare.assumed
    assert "budget_per_month" not in told.assumed
    assert Workload(**bare.to_dict()) == bare
    assert not Workload(model="7B", budget=budget).budget_per_month


def test_options_become_base_units() -> None:
    workload = Workload(
        model="meta-llama/Meta-Llama-3-8B",
        task="finetune",
        method="QLoRA",
        data="50Mtok",
        deadline="24h",
        budget="1440cny",
        cloud="阿里云,aws",
        country="中国,us",
        purchase="spot,按量",
        gpu=["H100", "A100"],
        seq_len="8k",
    )
    assert workload.method == "qlora"
    assert workload.data_tokens == 5e7
    assert workload.deadline_s == 86400.0
    assert workload.budget_usd == pytest.approx(200.0, rel=1e-12)
    assert workload.currency == "cny"
    assert workload.cloud == ("alicloud", "aws")
    assert workload.country == ("CN", "US")
    assert workload.purchase == ("spot", "on-demand")
    assert workload.gpu == ("H100", "A100")
    assert workload.seq_len == 8192


def test_serving_options() -> None:
    workload = Workload(model="7B", rate="600/min", ttft="300ms", tpot="30ms", budget="200usd/month", percentile="p99", input_tokens="1k")
    assert workload.task == "serve"
    assert workload.method is None
    assert (workload.rate_per_s, workload.ttft_s, workload.tpot_s) == (10.0, 0.3, 0.03)
    assert (workload.budget_usd, workload.budget_per_month, workload.percentile, workload.input_tokens) == (200.0, True, 99.0, 1024)


def test_what_was_left_open_is_named() -> None:
    assert Workload(model="7B").assumed == ("task", "method", "objective", "currency")
    assert Workload(model="7B", task="train").method == "full"
    assert Workload(model="7B", quantization="nf4").method == "qlora"
    assert Workload(model="7B", task="serve", latency="100ms").percentile == 95.0
    assert Workload(model="7B", task="finetune", method="lora", objective="time", currency="usd").assumed == ()


def test_a_named_dataset_brings_its_size() -> None:
    workload = Workload(model="7B", data="alpaca")
    assert workload.data_samples == 52002
    assert workload.data_unit == "dataset"
    with pytest.raises(UnknownNameError, match="did you mean"):
        Workload(model="7B", data="alpacca-x")


def test_frozen_and_equal_by_value() -> None:
    workload = Workload(model="7B", deadline="1d")
    assert workload == Workload(model="7B", deadline="24h") == Workload(model="7B", deadline_s=86400.0)
    with pytest.raises(AttributeError):
        workload.model = "13B"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wishes", "error", "message"),
    [
        ({"method": "qlroa"}, UnknownNameError, "did you mean qlora"),
        ({"task": "finetuen"}, UnknownNameError, "did you mean finetune"),
        ({"objective": "fast!"}, UnknownNameError, "did you mean time"),
        ({"purchase": "spott"}, UnknownNameError, "did you mean spot"),
        ({"sqlen": 3}, UnknownNameError, "did you mean seq_len?"),
        ({"deadline": "24"}, QuantityError, "did you mean 24h?"),
        ({"deadline": 24}, QuantityError, "did you mean 24h?"),
        ({"deadline": "0h"}, QuantityError, "not positive; allowed 1s to 10y, nearest 1s"),
        ({"deadline": "-3h"}, QuantityError, "not positive"),
        ({"deadline": "1ns"}, QuantityError, "nearest 1s"),
        ({"deadline": "300y"}, QuantityError, "nearest 10y"),
        ({"deadline_s": float("nan")}, QuantityError, "not a finite number"),
        ({"data": "50"}, QuantityError, "'50 samples', 50Mtok or 50GB?"),
        ({"data": "0tok"}, QuantityError, "not positive"),
        ({"data": "-5GB"}, QuantityError, "not positive"),
        ({"data": "1e30 tokens"}, QuantityError, "out of range"),
        ({"data": "nan"}, QuantityError, "not a quantity"),
        ({"budget": "0usd"}, QuantityError, "not positive"),
        ({"budget": "-5usd"}, QuantityError, "not positive"),
        ({"budget": 200}, QuantityError, "200usd or 200cny?"),
        ({"budget": "inf usd"}, QuantityError, "no number"),
        ({"epochs": 0}, QuantityError, "not positive"),
        ({"epochs": float("nan")}, QuantityError, "not a quantity"),
        ({"epochs": float("inf")}, QuantityError, "not a quantity"),
        ({"max_nodes": 1e30}, QuantityError, "nearest 64"),
        ({"max_nodes": 0}, QuantityError, "nearest 1"),
        ({"max_nodes": 1.5}, QuantityError, "whole number"),
        ({"seq_len": "-8k"}, QuantityError, "not positive"),
        ({"seq_len": "1e30"}, QuantityError, "nearest 16,777,216"),
        ({"rate": "10", "task": "serve"}, QuantityError, "10/s?"),
        ({"percentile": "120", "latency": "1s"}, QuantityError, "nearest 100"),
        ({"model": True}, InputError, "true or false"),
        ({"model": "  "}, InputError, "is empty"),
        ({"model": "a\x00b"}, InputError, "control characters"),
        ({"model": {"a": 1}}, InputError, "a mapping"),
        ({"cloud": ","}, InputError, "is empty"),
        ({"method": "qlora", "task": "serve"}, ContradictionError, "method qlora contradicts task serve"),
        ({"method": "qlora", "task": "batch"}, ContradictionError, "use task finetune"),
        ({"method": "lora", "task": "train"}, ContradictionError, "use task finetune"),
        ({"task": "train", "ttft": "300ms"}, ContradictionError, "ttft contradicts task train"),
        ({"task": "batch", "rate": "10/s"}, ContradictionError, "rate contradicts task batch"),
        ({"task": "serve", "deadline": "3h"}, ContradictionError, "deadline contradicts task serve"),
        ({"budget": "300usd/month"}, ContradictionError, "give the total"),
        ({"method": "full", "quantization": "nf4"}, ContradictionError, "method qlora"),
        ({"method": "qlora", "quantization": "none"}, ContradictionError, "method lora"),
        ({"method": "full", "lora_rank": 8}, ContradictionError, "lora, qlora and dora"),
        ({"micro_batch": 64, "global_batch": 8}, ContradictionError, "at most 8"),
        ({"percentile": 99}, ContradictionError, "of what"),
        ({"model": None}, ContradictionError, "which one?"),
    ],
)
def test_bad_wishes_get_one_clear_line(wishes: dict[str, object], error: type[InputError], message: str) -> None:
    with pytest.raises(error) as caught:
        Workload(**{"model": "7B", **wishes})
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    if error is not UnknownNameError or "sqlen" not in wishes:
        assert caught.value.field in OPTIONS or caught.value.field in {field.name for field in dataclasses.fields(Workload)}


def test_every_problem_gets_its_line() -> None:
    with pytest.raises(InputError) as caught:
        Workload(model="7B", method="qlroa", deadline="24", budget="0usd", max_nodes=-1)
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == ["method", "deadline", "budget", "max_nodes"]


def test_a_dataset_name_that_fits_several_names_the_option() -> None:
    with pytest.raises((AmbiguousNameError, UnknownNameError), match=r"^data: "):
        Workload(model="7B", data="wiki")


def test_with_changes_keeps_the_rest_and_drops_what_no_longer_holds() -> None:
    workload = Workload(model="7B", budget="720cny", data="10GB", deadline="3h")
    assert workload.with_changes(budget_usd=5.0).wishes() == {"model": "7B", "budget": "5usd", "data": "10GB", "deadline": "3h"}
    assert workload.with_changes(data="1Mtok").data_bytes is None
    assert workload.with_changes(deadline=None).deadline_s is None
    assert workload.with_changes(deadline_s=60.0).wishes()["deadline"] == "1min"
    assert workload.with_changes(task="train").method == "full"


_WISHES = st.fixed_dictionaries(
    {"model": st.sampled_from(["7B", "meta-llama/Meta-Llama-3-8B", "./模型 folder/config.json"])},
    optional={
        "task": st.sampled_from(["train", "finetune"]),
        "data": st.one_of(st.sampled_from(["50Mtok", "10万条", "10GB", "alpaca"]), st.integers(1, 10**9).map("{} tokens".format)),
        "epochs": st.floats(min_value=0.01, max_value=100),
        "seq_len": st.integers(1, 100_000),
        "deadline_s": st.floats(min_value=1.0, max_value=1e8),
        "budget_usd": st.floats(min_value=0.01, max_value=1e6),
        "cloud": st.lists(st.sampled_from(["aws", "gcp", "阿里云"]), min_size=1, max_size=3),
        "purchase": st.lists(st.sampled_from(["spot", "on-demand", "reserved"]), min_size=1, max_size=2),
        "max_nodes": st.integers(1, 64),
        "objective": st.sampled_from(["cost", "time", "balanced"]),
        "recompute": st.sampled_from(["none", "full", True]),
        "framework": st.sampled_from(["null", "yes", "1e3", 'Megatron: "core"', "深度学习"]),
    },
)


@settings(max_examples=100, deadline=None)
@given(_WISHES)
def test_round_trip_through_dict_and_wishes(wishes: dict[str, object]) -> None:
    workload = Workload(**wishes)
    assert Workload(**workload.to_dict()) == workload
    assert Workload(**workload.wishes()) == workload
    assert workload.with_changes() == workload
