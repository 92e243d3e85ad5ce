"""`rightfit estimate` and `rightfit why` for services and batch jobs, through the command line."""

from __future__ import annotations

import json

import pytest

from rightfit.cli import main

LLAMA = "meta-llama/Meta-Llama-3-8B"
CHAT = ["--task", "serve", "--rate", "10/s", "--ttft", "300ms", "--tpot", "30ms"]
BERT = ["bert-large-uncased", "--task", "serve", "--rate", "1000/s", "--latency", "50ms"]


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """What a command prints on standard output; its exit code must be this."""
    assert main(list(words)) == code
    return " ".join(capsys.readouterr().out.split())


def test_estimate_shows_the_service_on_the_given_server(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "estimate", LLAMA, "--on", "aws/p4d.24xlarge", *CHAT)
    assert "p4d.24xlarge" in text
    assert "10 requests/s" in text
    assert "meets every limit" not in text.lower()  # nothing was chosen


def test_estimate_in_json_has_one_option(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "estimate", LLAMA, "--on", "aws/p4d.24xlarge", "--nodes", "2", *CHAT, "--format", "json"))
    (option,) = data["options"]
    assert (option["nodes"], option["instance_type"], data["unfit"]) == (2, "p4d.24xlarge", None)
    assert option["layout"]["replicas"] == 2 * 8 // option["layout"]["tensor"]


def test_too_few_servers_exit_with_1_and_show_what_would_do(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "estimate", *BERT, "--on", "aws/g4dn.xlarge", code=1)
    assert text.startswith("1 x aws/g4dn.xlarge is not enough for this job: ")
    assert "How many of this server you need: Rent" in text
    data = json.loads(printed(capsys, "estimate", *BERT, "--on", "aws/g4dn.xlarge", "--format", "json", code=1))
    assert data["options"] == []
    assert data["unfit"]["nodes"] > 1


def test_a_broken_limit_is_told_as_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "estimate", LLAMA, "--on", "aws/g4dn.xlarge", *CHAT, code=1)
    assert "time to first token too long even without load (takes " in text
    text = printed(capsys, "why", "aws/g4dn.xlarge", LLAMA, *CHAT)
    assert "aws/g4dn.xlarge does not meet your limits for this job" in text
    assert "ms, limit 30 ms)" in text
    assert "for each output token." in text


@pytest.mark.parametrize(("lang", "words"), [("en", "ranks"), ("zh", "在机型中排第")])
def test_why_in_both_languages(capsys: pytest.CaptureFixture[str], lang: str, words: str) -> None:
    text = printed(capsys, "why", "aws/p4d.24xlarge", LLAMA, *CHAT, "--lang", lang)
    assert words in text
    assert "{" not in text


def test_why_of_a_batch_job_tells_money_and_time_of_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "why", "aws/p4d.24xlarge", LLAMA, "--task", "batch", "--data", "1Msamples", "--format", "json"))
    assert data["fits"]
    assert "per month" not in data["standing"][0]
    assert data["option"]["estimate"]["total_time_s"]["mid"] > 0


def test_the_front_is_in_the_json_of_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(printed(capsys, "plan", *BERT, "--format", "json", "--top", "2"))
    assert len(data["options"]) == 2
    assert data["pareto"][0]["total_usd"] <= data["options"][0]["cost"]["monthly_usd"]
    assert {"latency_s", "replicas", "total_usd"} <= set(data["pareto"][0])
