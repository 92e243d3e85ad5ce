"""The tools give the library's answers with a text that can be quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

import rightfit
from rightfit.errors import InputError
from rightfit.explain.messages import plain
from rightfit.mcp.server import _refusal
from rightfit.mcp.tools import all_tools
from rightfit.workload.options import OPTIONS

QLORA = {"model": "7B", "method": "qlora", "data": "50Mtok"}
TOOLS = {tool.name: tool for tool in all_tools()}
COMMAND_WORDS = re.compile(r"(?<![\w-])--[a-z][a-z-]*|\brightfit [a-z]+")


def ask(tool: str, /, **values: Any) -> Any:
    """A tool's answer with its defaults filled in, as the server does."""
    defaults = {field: info.default for field, (_, info) in TOOLS[tool].fields.items() if not info.is_required()}
    return TOOLS[tool].answer({**defaults, **values})


def test_the_tools_of_the_task_are_there_with_every_option() -> None:
    asked = ["plan", "estimate", "why", "details", "options", "check", "predict", "understand", "export", "search_catalog"]
    assert list(TOOLS) == asked
    for name in ("plan", "estimate", "why", "export"):
        assert set(OPTIONS) <= set(TOOLS[name].fields)


@pytest.mark.parametrize(("lang", "word"), [("en", "Rent "), ("zh", "租用")])
def test_a_plan_is_quoted_in_few_lines_and_its_options_given(lang: str, word: str) -> None:
    found = ask("plan", **QLORA, lang=lang)
    expected = rightfit.plan(**QLORA, top=5)
    assert word in found.text
    assert expected.best is not None
    assert expected.best.instance_type in found.text
    assert len(found.text.splitlines()) <= 15
    assert [option["instance_type"] for option in found.data["options"]] == [option.instance_type for option in expected.options]


#: Requests whose answers tell what to change, and errors that do.
TOLD: list[tuple[str, dict[str, Any]]] = [
    ("plan", QLORA),
    ("plan", {"model": "8B", "task": "serve", "rate": "5/s"}),
    ("plan", {"model": "meta-llama/Meta-Llama-3-8B", "method": "lora", "cloud": "gcp"}),
    ("plan", {"model": "xgboost", "data": "11Mrows x 28cols"}),
    ("plan", {"model": "resnet50", "task": "train", "data": "1Mimages"}),
    ("plan", {"model": "70B", "task": "train", "data": "1Ttok", "budget": "1usd"}),
    ("plan", {"ask": "which GPU for a 70B chat bot, 200 users?"}),
    ("plan", {"ask": "which clouds have an H100?"}),
    ("plan", {"ask": "fine-tune Llama-3-8B with LoRA, aws or gcp"}),
    ("plan", {"model": "7B", "data_location": "moon"}),
    ("estimate", {"on": "aws/p4d.24xlarge", **QLORA}),
    ("why", {"server": "aws/g5.xlarge", **QLORA}),
    ("why", {"server": "aws/g5.xlarge"}),
    ("check", {"claims": ["g5.xlarge=T4", "RAM >= 4x VRAM", "no such thing"]}),
    ("options", {}),
    ("understand", {"sentence": "fine-tune llama on aws or gcp within 2 days"}),
    *(("search_catalog", {"kind": kind, "query": "A100", "limit": 2}) for kind in ("models", "prices", "servers", "regions")),
]


def texts(found: Any) -> Iterator[str]:
    """Every text of an answer's data."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list | tuple):
        for one in found.values() if isinstance(found, dict) else found:
            yield from texts(one)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_no_tool_speaks_of_commands_and_flags(lang: str) -> None:
    """An assistant has tools and arguments, no command line: neither answers nor errors, nor what
    the tools say of themselves, name one."""
    said = [(tool.name, tool.about) for tool in TOOLS.values()]
    said += [(tool.name, str(info.description)) for tool in TOOLS.values() for _, info in tool.fields.values()]
    for tool, values in TOLD:
        spoken = {"lang": lang} if "lang" in TOOLS[tool].fields else {}
        try:
            found = ask(tool, **values, **spoken)
        except InputError as error:
            said += [(f"{tool} {values}", text) for text in texts(plain(_refusal([error], lang).structured_content))]  # type: ignore[arg-type]
        else:
            said += [(f"{tool} {values}", text) for text in (found.text, *texts(found.data))]
            for part in found.data.get("parts", ()):
                kept = ask("details", answer=found.data["answer"], part=part).data["found"]
                said += [(f"details {part}", text) for text in texts(kept)]
    wrong = {(where, found) for where, text in said for found in COMMAND_WORDS.findall(text)}
    assert sorted(wrong) == []
    assert COMMAND_WORDS.search("use --gpu, then `rightfit why`")


def test_plain_words_give_the_same_plan_as_options() -> None:
    said = ask("plan", ask="fine-tune a 7B with QLoRA on 50M tokens")
    assert said.data["options"] == ask("plan", task="finetune", **QLORA).data["options"]


def test_what_is_asked_beside_a_wish_is_answered_and_so_is_what_is_no_wish() -> None:
    found = ask("plan", ask="微调LLaMA-2-13B要不要NVLink多卡", lang="zh")
    assert found.text.startswith("要不要NVLink多卡：")
    assert found.data["answers"] == [found.text.splitlines()[0]]
    asked = ask("plan", ask="哪些云有H100", lang="zh")
    assert "Lambda" in asked.text
    assert asked.data["items"][0]["kind"] == "market"


@pytest.mark.parametrize(
    "wish",
    [
        QLORA,
        {"model": "8B", "task": "serve", "rate": "5/s"},
        {"model": "resnet50", "task": "train", "data": "1Mimages"},
        {"model": "xgboost", "data": "11Mrows x 28cols"},
        {"model": "70B", "task": "train", "data": "1Ttok", "budget": "1usd"},
    ],
    ids=lambda wish: wish["model"],
)
def test_a_plan_is_small_and_its_details_are_kept(wish: dict[str, Any]) -> None:
    found = ask("plan", **wish)
    assert len(found.text) + len(json.dumps(found.data)) < 8_000
    whole = rightfit.plan(**wish, top=5)
    kept = ask("details", answer=found.data["answer"], part="rejected").data["found"]
    assert [one["criterion"] for one in kept] == [one.criterion for one in whole.rejected]
    for option in whole.options:
        given = ask("details", answer=found.data["answer"], part="options", rank=option.rank).data["found"]
        assert given["estimate"].keys() == option.estimate.keys()
    for option, brief in zip(whole.options, found.data["options"], strict=True):
        for name, (mid, low, high) in brief["figures"].items():
            assert option.estimate[name].mid == pytest.approx(mid, rel=1e-3)
            assert low <= mid <= high


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"answer": "gone", "part": "options"}, "answer 'gone' is no longer available"),
        ({"part": "optons"}, "did you mean options"),
        ({"part": "options", "rank": 99}, "no option 99; allowed: 1, 2"),
    ],
)
def test_details_that_are_not_there(asked: dict[str, Any], said: str) -> None:
    code = ask("plan", **QLORA, top=2).data["answer"]
    with pytest.raises(InputError, match=said):
        ask("details", **{"answer": code, **asked})


def test_every_option_is_told() -> None:
    assert [one["option"] for one in ask("options").data["items"]] == list(OPTIONS)
    assert "qlora" in ask("options", query="method").text
    assert ask("options", query="no such thing").text == "no option matches"


def test_a_server_is_estimated_and_judged() -> None:
    assert ask("estimate", on="aws/p4d.24xlarge", **QLORA).data["options"][0]["instance_type"] == "p4d.24xlarge"
    verdict = ask("why", server="aws/g5.xlarge", **QLORA)
    assert verdict.data["instance_type"] == "g5.xlarge"
    assert "g5.xlarge" in verdict.text.splitlines()[0]


def test_claims_words_and_rows() -> None:
    assert "the claim is wrong" in ask("check", claims=["g5.xlarge=T4"]).text
    assert ask("understand", sentence="用 QLoRA 微调 Llama-3-8B").data["wishes"]["method"] == "qlora"
    rows = [{"metric": "peak_mem_gib_per_gpu", "model": "7B", "gpu": "A100-SXM-80GB", "method": "lora"}, {"metric": "nothing"}]
    found = ask("predict", rows=rows)
    assert found.data["items"][0]["predicted"] == rightfit.predict(rows)[0]["predicted"]
    assert found.text.splitlines()[0].startswith("1. peak_mem_gib_per_gpu = ")
    assert "not predicted" in found.text.splitlines()[1]


def test_files_of_a_plan() -> None:
    found = ask("export", to="skypilot", name="my-job", **{**QLORA, "model": "Llama-3-8B"}, cloud="aws")
    assert "my-job" in found.data["files"]["task.yaml"]
    assert "task.yaml" in found.text


@pytest.mark.parametrize("kind", ["models", "accelerators", "datasets", "servers", "prices", "providers", "regions", "targets"])
def test_lists(kind: str) -> None:
    found = ask("search_catalog", kind=kind, limit=2)
    assert found.data["total"] >= len(found.data["items"]) == 2
    assert found.text.count("\n- ") == 2


@pytest.mark.parametrize(
    "row", [{"model": "x" * 20_000}, {"x" * 20_000: "1"}, {str(number): "1" for number in range(1000)}, {"model": ["x" * 5_000] * 5}]
)
def test_a_row_that_is_far_too_large_is_answered_in_few_words(row: dict[str, Any]) -> None:
    found = ask("predict", rows=[{"metric": "step_time_s", **row}])
    assert len(found.text) < 1000
    assert len(json.dumps(found.data)) < 60_000
