"""`rightfit plan --task serve|batch` as a process: output, JSON, exit codes."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

from rightfit.cli.run import run

LLAMA = "meta-llama/Meta-Llama-3-8B"
CHAT = ["plan", LLAMA, "--task", "serve", "--rate", "10/s", "--ttft", "300ms", "--tpot", "30ms"]


def _schema() -> dict[str, object]:
    found: dict[str, object] = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text("utf-8"))
    return found


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (CHAT, 0),
        (["plan", "bert-base-uncased", "--task", "serve", "--rate", "5/s"], 0),
        (["plan", LLAMA, "--task", "batch", "--data", "1Msamples", "--deadline", "24h"], 0),
        ([*CHAT[:-1], "1ms"], 1),
    ],
)
def test_json_follows_the_schema(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, "--format", "json"]) == code
    data = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(_schema()).validate(data)
    assert bool(data["options"]) == (code == 0)


def test_contract_names_of_a_service(capsys: pytest.CaptureFixture[str]) -> None:
    run([*CHAT, "--format", "json"])
    option = json.loads(capsys.readouterr().out)["options"][0]
    for name in ("ttft_s", "tpot_s", "latency_s", "requests_per_s", "tokens_per_s", "peak_memory_bytes", "ttft_p99_s"):
        figure = option["estimate"][name]
        assert figure["low95"] <= figure["low80"] <= figure["mid"] <= figure["high80"] <= figure["high95"]
    for name in ("monthly_usd", "per_million_tokens_usd", "per_thousand_requests_usd", "hourly_usd", "by_purchase"):
        assert option["cost"][name]
    assert option["layout"]["engine"] == "vLLM"
    assert option["layout"]["replicas"] >= 1


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("form", ["table", "markdown", "csv", "yaml"])
def test_every_format(form: str, lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CHAT, "--format", form, "--lang", lang]) == 0
    assert len(capsys.readouterr().out) > 500


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--quantization", "q9"], 2, "unknown quantization"),
        (["--framework", "foo"], 2, "unknown serving engine"),
        (["--gpu", "A100", "--quantization", "fp8"], 2, "does not support fp8"),
        (["--gpu", "K80", "--framework", "vllm"], 2, "vLLM does not support"),
        (["--input-tokens", "20000"], 2, "exceeds the limit"),
        (["--output-tokens", "0"], 2, "output_tokens"),
        (["--rate", "0/s"], 2, "rate"),
        (["--rate", "1e9/s"], 2, "rate"),
        (["--deadline", "24h"], 2, "deadline contradicts task serve"),
        (["--budget", "5usd/month"], 1, ""),
    ],
)
def test_bad_wishes_are_one_line(arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CHAT, *arguments]) == code
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
    if code == 2:
        assert captured.err.count("\n") == 1


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_int4_weights_that_no_engine_makes_are_warned_of_in_the_plan(run: Any, lang: str) -> None:
    wish = ("--task", "serve", "--rate", "0.2/s", "--lang", lang)
    wanted = {"en": "needs a checkpoint that is already", "zh": "已量化好的"}[lang]
    said = " ".join(run("plan", "meta-llama/Llama-3.1-70B-Instruct", *wish, "--quantization", "awq").out.split())
    assert wanted in said
    held = " ".join(run("plan", "Qwen/Qwen2.5-72B-Instruct-AWQ", *wish).out.split())
    assert wanted not in held
