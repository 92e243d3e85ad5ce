"""The public functions take what people naturally give them."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import os
import sys
import typing
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.api import read_workload
from rightfit.cli import main
from rightfit.cli.app import build
from rightfit.errors import MissingComponentError
from rightfit.workload.option_types import WorkloadOptions
from rightfit.workload.options import OPTIONS


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


def test_an_option_that_a_function_does_not_have_is_refused_with_those_that_it_has() -> None:
    """Every public function; those with options of their own refuse them where they are read."""
    functions = {name: value for name in rightfit.__all__ if inspect.isfunction(value := getattr(rightfit, name))}
    every = {name: inspect.signature(function).parameters for name, function in functions.items()}
    closed = {name: known for name, known in every.items() if all(one.kind is not one.VAR_KEYWORD for one in known.values())}
    assert {"check", "fit", "models", "runs"} <= set(closed)
    for name, parameters in closed.items():
        with pytest.raises(rightfit.UnknownNameError, match="unknown option 'no_such_thing'") as told:
            functions[name](no_such_thing=1)
        assert all(one in str(told.value) for one, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY)
    with pytest.raises(rightfit.UnknownNameError, match="did you mean catalog"):
        rightfit.check("g5.xlarge", catalogue=None)  # type: ignore[call-arg]


def test_plan_estimate_and_why_agree() -> None:
    wish = rightfit.Workload(model="meta-llama/Meta-Llama-3-8B", method="qlora", data="50Mtok")
    plan = rightfit.plan(wish, top=1)
    assert plan.best is not None
    server = f"{plan.best.provider}/{plan.best.instance_type}"
    assert rightfit.why(server, wish).fits
    alone = rightfit.estimate(wish, on=server, nodes=plan.best.nodes, region=plan.best.region, purchase=plan.best.purchase)
    assert alone.best is not None
    assert alone.best.cost.total_usd == pytest.approx(plan.best.cost.total_usd, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "wishes"),
    [
        ("meta-llama/Meta-Llama-3-8B", {"method": "qlora", "data": "50Mtok"}),
        ("meta-llama/Meta-Llama-3-8B", {"task": "serve", "rate": "10/s"}),
        ("resnet50", {"task": "train", "data": "imagenet-1k", "epochs": 90}),
        ("xgboost", {"task": "train", "data": "11Mrows x 28cols"}),
        ("meta-llama/Meta-Llama-3-8B", {"method": "full", "data": "50Mtok", "budget": "0.01usd"}),
    ],
)
def test_a_plan_shows_itself_in_a_few_lines(model: str, wishes: dict[str, Any]) -> None:
    """What an interpreter prints: the choice or the refusal, never the whole record."""
    plan = rightfit.plan(model, **wishes)
    lines = repr(plan).splitlines()
    assert 2 <= len(lines) < 30
    assert max(map(len, lines)) < 400
    assert plan.best is None or plan.best.instance_type in lines[1]
    server = f"{plan.best.provider}/{plan.best.instance_type}" if plan.best else "aws/g5.xlarge"
    told = repr(rightfit.why(server, model, **wishes)).splitlines()
    assert 2 <= len(told) < 30
    assert server in told[0]


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


def test_each_command_has_a_function_that_an_editor_completes_and_help_explains() -> None:
    """The two servers excepted, which never return. Options of a workload are typed keywords, as
    the table has them."""
    functions = {name: getattr(rightfit, name) for name in set(build().commands) - {"serve", "mcp"}}
    told = {name: (inspect.getdoc(one) or "").partition("\n\n") for name, one in functions.items()}
    assert [name for name, (first, _, _) in told.items() if not first.rstrip().endswith(".")] == []
    hints = typing.get_type_hints(WorkloadOptions)
    assert list(hints) == list(OPTIONS)
    listed = {"names", "words", "cards"}
    wrong = [name for name, hint in hints.items() if ("Sequence" in str(hint)) != (OPTIONS[name].kind in listed)]
    assert wrong == []
    untyped = [
        name for name in ("plan", "estimate", "why", "resize") if "Unpack[WorkloadOptions]" not in str(inspect.signature(functions[name]))
    ]
    assert untyped == []


def test_functions_give_what_their_commands_print(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def printed(*words: str) -> Any:
        assert main([*words, "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    assert [dataclasses.asdict(one) for one in rightfit.fit("2xRTX-3090", task="finetune")] == printed(
        "fit", "2xRTX-3090", "--task", "finetune"
    )
    assert rightfit.providers("aws", "gcp") == printed("providers", "aws", "gcp")
    assert rightfit.regions(cloud="aws", near="Berlin") == printed("regions", "--cloud", "aws", "--near", "Berlin", "--top", "1000")
    mine = rightfit.own("8xH100", utilisation="60%", price="250000usd")
    assert mine.content["yearly_terms"] == printed("own", "8xH100", "--utilisation", "60%", "--price", "250000usd")["yearly_terms"]
    assert json.loads(json.dumps(rightfit.catalog().status().to_dict())) == printed("catalog", "status")


def test_functions_around_a_run(tmp_path: Path) -> None:
    found = rightfit.plan("meta-llama/Meta-Llama-3-8B", method="lora", data="10Mtok", top=1)
    kept = tmp_path / "plan.json"
    kept.write_text(found.to_json(), encoding="utf-8")
    assert (
        rightfit.export(kept, "skypilot", name="mine")
        == rightfit.export(found, "skypilot", name="mine")
        == found.export("skypilot", name="mine")
    )
    run = rightfit.probe([sys.executable, "-c", "print(1)"], setup={"model": "7B"}, plan=kept)
    assert (run.exit_code, run.setup["model"]) == (0, "7B")
    store = rightfit.runs(tmp_path / "runs.sqlite")
    store.save([run])
    assert [one.id for one in store.all()] == [run.id]
    with pytest.raises(rightfit.InputError, match="modle"):
        rightfit.probe(["true"], setup={"modle": "7B"})
    with pytest.raises(rightfit.InputError, match="ttft"):
        rightfit.probe(["true"], ttft="3s")
    with pytest.raises(TypeError, match="utilisation"):
        rightfit.own("H100", utilization="60%")
    states = list(itertools.islice(rightfit.watch(str(os.getpid()), every_s=0.05), 2))
    assert states[-1].look.is_alive
    log = tmp_path / "bench.json"
    log.write_text(json.dumps([{"method": "lora", "step": 1}]), encoding="utf-8")
    with pytest.raises(rightfit.RightfitError):
        rightfit.ingest(log)
