"""The public functions take what people naturally give them."""

from __future__ import annotations

from pathlib import Path

import pytest

import rightfit
from rightfit.api import read_workload
from rightfit.errors import MissingComponentError


def test_forms_of_a_workload(tmp_path: Path) -> None:
    wanted = rightfit.Workload(model="7B", method="qlora", data="50Mtok")
    path = wanted.save(tmp_path / "wish.yaml")
    assert read_workload(None, {"model": "7B", "method": "qlora", "data": "50Mtok"}) == wanted
    assert read_workload("7B", {"method": "qlora", "data": "50Mtok"}) == wanted
    assert read_workload(path, {}) == read_workload(str(path), {}) == wanted
    assert read_workload(wanted, {}) is wanted
    assert read_workload(wanted, {"data": "1Mtok"}) == wanted.with_changes(data="1Mtok")
    with pytest.raises(rightfit.FileInputError, match="no such file"):
        read_workload("nowhere.yaml", {})


def test_plan_estimate_and_why_agree() -> None:
    wish = rightfit.Workload(model="meta-llama/Meta-Llama-3-8B", method="qlora", data="50Mtok")
    plan = rightfit.plan(wish, top=1)
    assert plan.best is not None
    server = f"{plan.best.provider}/{plan.best.instance_type}"
    assert rightfit.why(server, wish).fits
    alone = rightfit.estimate(wish, on=server, nodes=plan.best.nodes, region=plan.best.region, purchase=plan.best.purchase)
    assert alone.best is not None
    assert alone.best.cost.total_usd == pytest.approx(plan.best.cost.total_usd, rel=1e-9)


def test_looking_around() -> None:
    assert [record.name for record in rightfit.accelerators("A100")] == [
        "A100-PCIe-40GB",
        "A100-SXM-40GB",
        "A100-PCIe-80GB",
        "A100-SXM-80GB",
    ]
    assert rightfit.models("meta-llama/Meta-Llama-3-8B")[0].name == "meta-llama/Meta-Llama-3-8B"
    assert len(rightfit.models()) > 1000
    assert rightfit.datasets("alpaca")[0].samples == 52002
    assert {server["provider"] for server in rightfit.servers("g5.xlarge", cloud="aws")} == {"aws"}
    assert rightfit.prices("g5.xlarge", purchase="on-demand", region="us-east-1")[0]["price_usd_per_h"] == pytest.approx(1.006)
    assert rightfit.check("g5.xlarge=T4")[0].claim == "wrong"


def test_predict_keeps_the_order_of_rows() -> None:
    rows = [
        {"id": "b", "model": "meta-llama/Llama-2-7b-hf", "gpu": "A100-SXM-80GB", "method": "lora", "micro_batch": 1, "seq_len": 2048},
        {"id": "a"},
    ]
    answers = rightfit.predict(rows)
    assert [answer["id"] for answer in answers] == ["b", "a"]
    assert answers[0]["predicted"] > 10
    assert answers[1]["predicted"] is None
    assert answers[1]["error"]


def test_a_form_without_its_libraries_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """One library is there and the other is not, whatever this environment has."""
    from rightfit import notebook

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "anywidget" else object())
    with pytest.raises(MissingComponentError) as caught:
        notebook.form(model="7B")
    assert caught.value.message.fields["names"] == "anywidget"
