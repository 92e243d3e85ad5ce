"""`rightfit plan` on the whole catalog: choice, formats, languages, exit codes,
the published schema."""

from __future__ import annotations

import csv
import io
import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import rightfit
from rightfit.cli.output import text_width

QLORA = ("plan", "meta-llama/Meta-Llama-3-8B", "--task", "finetune", "--method", "qlora", "--data", "50Mtok")
IMPOSSIBLE = (
    "plan",
    "meta-llama/Llama-2-70b-hf",
    "--task",
    "finetune",
    "--method",
    "full",
    "--data",
    "10Mtok",
    "--deadline",
    "1h",
    "--budget",
    "1usd",
)


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text(encoding="utf-8"))
    return loaded


def test_the_first_command_of_the_readme(run: Any) -> None:
    result = run(*QLORA, "--verbose")
    assert result.code == 0
    assert result.out.startswith("Rent ")
    assert result.err == ""
    for heading in ("Why and how:", "Memory of one GPU at the peak", "Time of one step", "Assumed:", "Refused:"):
        assert heading in result.out


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("arguments", [QLORA, IMPOSSIBLE], ids=["feasible", "impossible"])
def test_json_and_yaml_match_the_published_schema(run: Any, arguments: tuple[str, ...], lang: str) -> None:
    result = run(*arguments, "--format", "json", "--lang", lang)
    plan = json.loads(result.out)
    jsonschema.validate(plan, schema(), cls=jsonschema.Draft202012Validator)
    assert bool(plan["options"]) == (result.code == 0)
    texts = [*plan["advice"], *(item["why"] for item in plan["assumptions"])]
    assert all(isinstance(text, str) and text for text in texts)
    assert any("\u4e00" <= char <= "\u9fff" for char in "".join(texts)) == (lang == "zh")
    assert yaml.safe_load(run(*arguments, "--format", "yaml", "--lang", lang).out)["options"] == plan["options"]


def test_options_are_ranked_by_cost_and_csv_says_the_same(run: Any) -> None:
    asked = (*QLORA, "--purchase", "on-demand", "--sellers", "hyperscaler", "--max-nodes", "1")  # fresh prices, one server: by cost alone
    plan = json.loads(run(*asked, "-f", "json", "--top", "4").out)
    totals = [option["cost"]["total_usd"] for option in plan["options"]]
    assert totals == sorted(totals)
    assert [option["rank"] for option in plan["options"]] == [1, 2, 3, 4]
    rows = list(csv.DictReader(io.StringIO(run(*asked, "-f", "csv", "--top", "4").out)))
    assert [float(row["total_usd"]) for row in rows] == pytest.approx(totals, rel=1e-12)
    assert [row["instance_type"] for row in rows] == [option["instance_type"] for option in plan["options"]]


def test_constraints_hold(run: Any) -> None:
    plan = json.loads(
        run(*QLORA, "--cloud", "aws,阿里云", "--purchase", "on-demand", "--gpu", "A10,A10G", "--deadline", "20h", "-f", "json").out
    )
    assert plan["options"]
    for option in plan["options"]:
        assert option["provider"] in ("aws", "alicloud")
        assert option["purchase"] == "on-demand"
        assert option["accelerator"]["name"] in ("A10", "A10G")
        assert option["estimate"]["total_time_s"]["mid"] <= 20 * 3600


def test_impossible_wishes_exit_1_and_say_why(run: Any) -> None:
    result = run(*IMPOSSIBLE, "--verbose")
    assert (result.code, result.err) == (1, "")
    assert "No server" in result.out
    assert "deadline" in result.out
    assert "budget" in result.out


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("arguments", [QLORA, IMPOSSIBLE], ids=["feasible", "impossible"])
def test_it_fits_the_screen(run: Any, arguments: tuple[str, ...], lang: str, width: int) -> None:
    lines = run(*arguments, "--lang", lang, "--verbose", width=width).out.splitlines()
    too_wide = [line for line in lines if text_width(line) > width and " " in line.strip()]
    assert too_wide == []
    assert not any("\x1b" in line or "{" in line for line in lines)


def test_estimate_of_one_server(run: Any) -> None:
    arguments = ("estimate", "7B", "--on", "aws/p4d.24xlarge", "--method", "full", "--data", "50Mtok")
    plan = json.loads(run(*arguments, "-f", "json").out)
    jsonschema.validate(plan, schema(), cls=jsonschema.Draft202012Validator)
    assert [option["instance_type"] for option in plan["options"]] == ["p4d.24xlarge"]
    text = run(*arguments).out
    assert "The cheapest option that" not in text
    assert "optimizer state" in text


def test_estimate_of_a_server_that_is_too_small(run: Any) -> None:
    result = run("estimate", "70B", "--on", "aws/g5.xlarge", "--method", "full", "--data", "1Mtok")
    assert (result.code, result.err) == (1, "")
    assert result.out.startswith("The job does not fit")


def test_why_not_this_server(run: Any) -> None:
    arguments = ("why", "aws/g5.xlarge", "meta-llama/Meta-Llama-3-8B", "--method", "full", "--data", "50Mtok")
    result = run(*arguments)
    assert result.code == 0
    assert result.out.startswith("aws/g5.xlarge is too small to run this job safely (meta-llama/Meta-Llama-3-8B): host RAM.")
    verdict = json.loads(run(*arguments, "-f", "json").out)
    assert verdict["fits"] is False
    assert all(isinstance(text, str) for text in verdict["standing"])
    assert run(*arguments, "--lang", "zh").out.startswith("aws/g5.xlarge 不足以稳妥运行此任务")


def test_why_this_server(run: Any) -> None:
    result = run("why", "aws/p4d.24xlarge", "meta-llama/Meta-Llama-3-8B", "--method", "qlora", "--data", "50Mtok")
    assert result.code == 0
    assert "can run this job" in result.out


def test_rules_of_thumb_stand_beside_our_figures(run: Any) -> None:
    rules = json.loads(run(*QLORA, "-f", "json").out)["rules"]
    assert {rule["verdict"] for rule in rules} >= {"holds", "misleading"}
    assert "Rules of thumb:" in run(*QLORA, "--verbose").out
    assert "Rules of thumb:" not in run(*QLORA).out


@pytest.mark.parametrize(("lang", "words"), [("en", ("Why and how", "Cost against time")), ("zh", ("理由与依据", "费用与用时"))])
def test_html_is_a_whole_file(run: Any, lang: str, words: tuple[str, ...]) -> None:
    text = run(*QLORA, "--format", "html", "--lang", lang).out
    assert text.startswith("<!DOCTYPE html>")
    assert text.endswith("</html>\n")
    assert text.count("<h2>") == 1
    assert f"<title>{'Rent ' if lang == 'en' else '租用'}" in text
    assert all(word in text for word in words)


def test_other_commands_as_html(run: Any) -> None:
    for arguments in (
        ("why", "aws/g4dn.xlarge", *QLORA[1:]),
        ("servers", "--top", "3"),
        ("check", "p3.2xlarge"),
        ("estimate", "--on", "aws/g5.xlarge", *QLORA[1:]),
    ):
        found = run(*arguments, "--format", "html")
        assert "<title>" in found.out, found.err
        assert found.out.count("<body>") == 1
    assert run("servers", "--top", "3", "--format", "html").out.count("<tr>") == 4


def test_markdown(run: Any) -> None:
    text = run(*QLORA, "--format", "markdown", "--verbose").out
    assert "| # | server |" in text
    assert "**Memory of one GPU at the peak**" in text


def test_a_saved_workload_gives_the_same_plan(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "workload.yaml"
    first = run(*QLORA, "--deadline", "10h", "--save", str(path), "-f", "csv")
    assert first.err == f"workload written to {path}\n"
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == {
        "model": "meta-llama/Meta-Llama-3-8B",
        "task": "finetune",
        "method": "qlora",
        "data": "50Mtok",
        "deadline": "10h",
    }
    assert run("plan", "--file", str(path), "-f", "csv").out == first.out


def test_the_python_twin_gives_the_same(run: Any) -> None:
    plan = rightfit.plan(model="meta-llama/Meta-Llama-3-8B", task="finetune", method="qlora", data="50Mtok", top=3)
    shown = json.loads(run(*QLORA, "--top", "3", "-f", "json").out)
    assert plan.best is not None
    assert [option.instance_type for option in plan.options] == [option["instance_type"] for option in shown["options"]]
    assert json.loads(plan.to_json())["options"][0]["cost"]["total_usd"] == pytest.approx(plan.best.cost.total_usd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "Lama-3-8B-x"), "unknown model"),
        (("plan", "7B", "--cloud", "awss"), "did you mean aws"),
        (("plan", "7B", "--region", "us-eas-1"), "us-east-1"),
        (("plan", "7B", "--gpu", "H1000"), "H100"),
        (("plan", "7B", "--country", "Atlantis"), "country"),
        (("plan", "meta-llama/Meta-Llama-3-8B", "--seq-len", "1M"), "use 8192 or less"),
        (("plan", "/nowhere/config.json"), "/nowhere/config.json"),
        (("estimate", "7B", "--on", "aws/g5.xlage"), "did you mean aws/g5.xlarge"),
        (("why", "aws/g5.xlage", "7B"), "did you mean aws/g5.xlarge"),
        (("estimate", "7B", "--on", "aws/g5.xlarge", "--nodes", "5000"), "nodes: 5000"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_names_that_only_the_knowledge_base_can_refuse(run: Any, arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert message in result.err
