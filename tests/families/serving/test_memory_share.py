"""The engine's share of a GPU's memory: each engine by its own setting, through every face."""

from __future__ import annotations

from typing import Any

import pytest

import rightfit
from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.explain.voices import plan_text
from rightfit.exports.model_words import ENGINE_LIMITS
from rightfit.mcp.tools import all_tools

BIG = {
    "model": "Qwen/Qwen2.5-72B-Instruct",
    "task": "serve",
    "precision": "bf16",
    "rate": "0.2/s",
    "input_tokens": 1000,
    "output_tokens": 300,
    "gpu": "2xH100-SXM-80GB",
}
STACKS = facts.table("serving_stacks")
SETTABLE = [row["name"] for row in STACKS if row["memory_setting"]]
OTHERS = [row["name"] for row in STACKS if not row["memory_setting"]]


def plan(**more: Any) -> rightfit.Plan:  # type: ignore[name-defined]
    return rightfit.plan(**{**BIG, **more})


def test_the_table_names_the_settings_that_exports_write() -> None:
    settings = {row["words"].split("|")[0]: row["memory_setting"] for row in STACKS if row["memory_setting"]}
    flags = {engine: words[2].removeprefix("--").replace("-", "_") for engine, words in ENGINE_LIMITS.items() if words[2]}
    assert settings == flags


@pytest.mark.parametrize("engine", SETTABLE)
def test_what_the_default_refuses_fits_when_told(engine: str) -> None:
    refused = plan(framework=engine)
    assert refused.best is None
    (advice,) = [reason for reason in refused.advice if reason.key == "serve_share_fits"]
    assert (advice.params["engine"], advice.params["setting"], advice.params["devices"]) == (engine, 0.95, 2)
    assert advice.params["share"] == 0.9
    told = plan(framework=engine, gpu_memory_utilization=0.95)
    assert told.best is not None
    assert told.best.layout.tensor * told.best.layout.pipeline == 2
    assert not [reason for reason in told.advice if "share" in reason.key and reason.key.startswith("serve_share")]
    row = next(row for row in STACKS if row["name"] == engine)
    target = row["words"].split("|")[0]
    flag = ENGINE_LIMITS[target][2]
    files = told.export(target)
    assert f"{flag} 0.95" in files["serve.sh"].replace(" \\\n ", "")


@pytest.mark.parametrize("engine", OTHERS)
def test_an_engine_without_the_setting_refuses_it(engine: str) -> None:
    with pytest.raises(ContradictionError, match="no setting for its share") as caught:
        plan(
            model="7B",
            gpu="H100-SXM-80GB",
            framework=next(row for row in STACKS if row["name"] == engine)["words"].split("|")[-1],
            precision=None,
            gpu_memory_utilization=0.95,
        )
    assert all(name in str(caught.value) for name in SETTABLE)


def test_a_larger_share_holds_more_requests_and_a_smaller_one_fewer() -> None:
    most = [
        plan(model="meta-llama/Meta-Llama-3-8B", gpu="1xL4", framework="vllm", gpu_memory_utilization=share).best.layout.max_batch
        for share in (0.85, 0.9, 0.95)
    ]
    assert most[0] < most[1] < most[2]


@pytest.mark.parametrize(
    ("lang", "said"), [("en", "It fits with --gpu-memory-utilization 0.95"), ("zh", "设 --gpu-memory-utilization 0.95 就放得下")]
)
def test_the_refusal_says_what_would_do(lang: str, said: str) -> None:
    assert said in " ".join(plan_text(plan(framework="vllm"), lang).advice)


def test_no_advice_where_no_share_would_do() -> None:
    found = plan(gpu="1xH100-SXM-80GB")
    assert found.best is None
    assert not [reason for reason in found.advice if reason.key.startswith("serve_share")]


def test_fewer_gpus_are_offered_where_they_save() -> None:
    (reason,) = [reason for reason in plan(gpu="H100-SXM-80GB").advice if reason.key == "serve_share_saves"]
    assert reason.params["devices"] == 2
    assert reason.params["saving_usd"] > 0


def test_every_face_takes_it(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("fastapi", reason="the extra web is not installed")
    from starlette.testclient import TestClient

    from rightfit.cli import main
    from rightfit.rest import Settings
    from rightfit.web.asgi import create_app
    from rightfit.web.forms import PageState

    told = {**BIG, "framework": "vllm", "gpu_memory_utilization": 0.95}
    wanted = rightfit.plan(**told).best.instance_type
    tool = next(tool for tool in all_tools() if tool.name == "plan")
    defaults = {field: info.default for field, (_, info) in tool.fields.items() if not info.is_required()}
    assert tool.answer({**defaults, **told}).data["options"][0]["instance_type"] == wanted
    app = create_app(Settings(page=True, database_url=f"sqlite:///{tmp_path / 'plans.sqlite'}", rate_per_s=1e6, burst=1_000_000))
    with TestClient(app) as client:
        assert client.post("/api/v1/plan", json=told).json()["options"][0]["instance_type"] == wanted
        state = PageState.from_query({name: str(value) for name, value in told.items()})
        assert rightfit.plan(**state.wishes).best.instance_type == wanted
        assert client.get("/", params=state.wishes).status_code == 200
        refused = client.post("/api/v1/plan", json={**told, "gpu_memory_utilization": 2})
        assert refused.status_code == 422
    words = [word for name, value in told.items() if name != "model" for word in (f"--{name.replace('_', '-')}", str(value))]
    assert main(["plan", BIG["model"], *words]) == 0
    assert wanted in capsys.readouterr().out
    assert main(["plan", BIG["model"], *[word if word != "0.95" else "2" for word in words]]) == 2


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve Qwen/Qwen2.5-72B-Instruct --tensor-parallel-size 2 --gpu-memory-utilization 0.95",
        "python -m sglang.launch_server --model-path Qwen/Qwen2.5-72B-Instruct --tp 2 --mem-fraction-static 0.95",
        "text-generation-launcher --model-id Qwen/Qwen2.5-72B-Instruct --num-shard 2 --cuda-memory-fraction 0.95",
    ],
)
def test_a_start_command_is_read_with_it(command: str) -> None:
    assert float(rightfit.understand(command).wishes["gpu_memory_utilization"]) == 0.95
