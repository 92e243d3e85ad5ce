"""`rightfit estimate --engine`: what can be said without PyTorch. The engine itself is
tested in tests/oracle."""

from __future__ import annotations

import importlib.util
import json
import os

import pytest

from rightfit.cli.plan_view import READ, traced_answer
from rightfit.errors import InputError
from rightfit.estimation.traced import TracedEstimate
from rightfit.search.request_checks import refuse_unheeded
from rightfit.workload import Workload
from rightfit.workload.options import OPTIONS

HAS_TORCH = importlib.util.find_spec("torch") is not None


def test_an_unknown_engine_is_one_line(run) -> None:
    result = run("estimate", "gpt2", "--engine", "tracd")
    assert (result.code, result.out) == (2, "")
    assert result.err.strip() == "error: unknown engine 'tracd'; allowed are analytic, traced; did you mean traced?"


@pytest.mark.skipif(HAS_TORCH, reason="PyTorch is installed")
def test_without_pytorch_it_says_how_to_get_it(run) -> None:
    result = run("estimate", "gpt2", "--engine", "traced")
    assert result.code == 3
    assert "pip install 'rightfit[trace]'" in result.err


def test_adapters_are_refused(run) -> None:
    result = run("estimate", "gpt2", "--engine", "traced", "--method", "qlora")
    assert result.code == 2
    assert "qlora" in result.err


@pytest.mark.parametrize("option", sorted(set(OPTIONS) - READ.options))
def test_what_a_step_does_not_read_is_refused(option: str) -> None:
    wish = Workload(model="gpt2", method="full").settled(**dict.fromkeys(OPTIONS[option].attributes, 7), assumed=())
    with pytest.raises(InputError, match=f"{option} contradicts engine traced"):
        refuse_unheeded(wish, READ)


def test_a_service_is_not_traced(run) -> None:
    assert "task serve contradicts engine traced" in run("estimate", "gpt2", "--engine", "traced", "--task", "serve").err


def test_a_server_says_which_card(run) -> None:
    result = run("estimate", "gpt2", "--engine", "traced", "--gpu", "T4", "--on", "aws/g5.xlarge")
    assert "gpu contradicts on aws/g5.xlarge" in result.err


@pytest.mark.parametrize(("capacity", "word"), [(8e9, "fits"), (1e9, "does not fit")])
def test_the_answer_says_whether_it_fits(capacity: float, word: str) -> None:
    from rightfit.cli.output import Format, View

    found = TracedEstimate(
        model="m", num_parameters=10, micro_batch=1, seq_len=8, dtype="bf16", recompute=False, shard_degree=1, saved_activations_bytes=1e9,
        terms={"weights": 2e9, "activations": 1e9}, peak_bytes=3e9, accelerator="T4", capacity_bytes=capacity,
    )  # fmt: skip
    view = View(format=Format.table, lang="en", top=None, quiet=False, verbose=False)
    answer = traced_answer(found, view)
    assert word in answer.parts[0]
    assert answer.data["fits"] is (capacity > 3e9)
    assert answer.data["terms"]["weights"] == 2e9


def test_what_the_traced_module_prints_is_no_answer(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    from rightfit.cli import main

    def loud(model: str, **_: object) -> TracedEstimate:
        print("loading")  # as Python prints
        os.write(1, b"compiling\n")  # and as C does
        return TracedEstimate(
            model=model, num_parameters=10, micro_batch=1, seq_len=8, dtype="bf16", recompute=False, shard_degree=1, saved_activations_bytes=1e9,
            terms={"weights": 2e9}, peak_bytes=2e9, accelerator="", capacity_bytes=None,
        )  # fmt: skip

    monkeypatch.setattr("rightfit.estimation.traced.traced_estimate", loud)
    assert main(["estimate", "gpt2", "--engine", "traced", "--format", "json"]) == 0
    shown = capfd.readouterr()
    assert json.loads(shown.out)["engine"] == "traced"
    assert sorted(shown.err.split()) == ["compiling", "loading"]
