"""Services behind the gateways of others (llm-d's charts, Dynamo's operator) against the names that
their own charts and definitions have (data/gateway_fields.json says where each was read), the
chart's schema of values where RIGHTFIT_CRDS has it, and the API's schemas of pods."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import crds
import pytest
import yaml
from jobs import files, hostile, job, taken
from typical_plans import plan_values

from rightfit.errors import InputError
from rightfit.exports import ExportSettings, find_target, job_of, plan_document
from rightfit.exports.model_words import hub_id, servers_of_replica
from rightfit.exports.stack import stack_of
from rightfit.exports.targets.clusters import held_problem
from rightfit.exports.targets.inference_gateways import DYNAMO_PROGRAM, DYNAMO_VLLM, OF_THE_SERVER
from rightfit.facts.engine_releases import model_class, numbers
from rightfit.facts.tables import table

KNOWN: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data/gateway_fields.json").read_text(encoding="utf-8"))
CHART, POOL, GRAPH = KNOWN["llm-d-modelservice"], KNOWN["inferencepool"], KNOWN["DynamoGraphDeployment"]
SCHEMA = "llm-d-modelservice.values.schema.json"
"""charts/llm-d-modelservice/values.schema.json of llm-d-incubation/llm-d-modelservice@3051935e."""
GROUP = "chat-two-servers-aws"


def strangers(value: dict[str, Any], known: list[str]) -> set[str]:
    return set(value) - set(known)


def values(name: str, maker: Any = files) -> tuple[dict[str, Any], dict[str, Any]]:
    found = maker("llm-d", name)
    return yaml.safe_load(found["values.yaml"]), yaml.safe_load(found["pool.yaml"])


def faults_of_values(found: dict[str, Any]) -> set[str]:
    """Names that the chart reads nowhere: it would pass over them without a word."""
    main, *others = found["decode"]["containers"]
    assert not others
    pieces = {
        "values": found,
        **{part: found[part] for part in ("modelArtifacts", "routing", "accelerator", "decode", "prefill")},
        "proxy": found["routing"]["proxy"],
        "parallelism": found["decode"]["parallelism"],
        "container": main,
    }
    strange = {f"{part}.{name}" for part, value in pieces.items() for name in strangers(value, CHART[part])}
    return strange | ({"modelCommand"} if main["modelCommand"] not in CHART["modelCommand"] else set())


@pytest.mark.parametrize("name", taken("llm-d"))
def test_values_are_what_the_charts_read(name: str) -> None:
    for maker in (files, hostile):
        found, pool = values(name, maker)
        assert not faults_of_values(found)
        assert not strangers(pool["inferencePool"], POOL["inferencePool"])
        assert pool["provider"]["name"] in POOL["name"]
        assert pool["inferencePool"]["modelServers"]["matchLabels"] == found["modelArtifacts"]["labels"]
        assert pool["inferencePool"]["targetPorts"] == [{"number": found["routing"]["servicePort"]}]
    assert faults_of_values({**found, "decode": {**found["decode"], "replicaCount": 1}}) == {"decode.replicaCount"}


@pytest.mark.parametrize("name", taken("llm-d"))
def test_values_are_of_the_charts_schema(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    path = crds.FOLDER / SCHEMA if crds.FOLDER else None
    if path is None or not path.exists():
        pytest.skip(f"RIGHTFIT_CRDS names no folder with {SCHEMA}")
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(values(name)[0], schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**values(name)[0], "routing": {"port": 8}}, schema)


def valid_pod(labels: dict[str, str], spec: dict[str, Any]) -> None:
    """As the template of a Deployment, by the API's schema, unknown fields refused."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    whole = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    kubernetes_validate.validate(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": whole}, "1.31", strict=True
    )


@pytest.mark.parametrize("name", taken("llm-d"))
def test_the_chart_starts_the_plan_s_server(name: str) -> None:
    """The command is the plan's own, whole; what the chart passes on to pod and container is of
    their kind."""
    given, (found, _) = job(name), values(name)
    main = found["decode"]["containers"][0]
    server = stack_of(given)
    assert main["image"] == server.image
    assert hub_id(given) in main["command"]
    assert found["modelArtifacts"]["name"] == hub_id(given)
    assert found["decode"]["replicas"] == max(1, given.option.layout.replicas)
    cards = given.option.layout.tensor * given.option.layout.pipeline
    assert {main["resources"][kind]["nvidia.com/gpu"] for kind in ("limits", "requests")} == {str(cards)}
    own = {key: main[key] for key in ("name", "image", "command", "env", "ports", "resources", "volumeMounts")}
    pod = {key: found["decode"][key] for key in ("volumes", "nodeSelector", "tolerations") if key in found["decode"]}
    valid_pod(found["modelArtifacts"]["labels"], {**pod, **found["decode"]["extraConfig"], "containers": [{**own, **main["extraConfig"]}]})


def graph(name: str, maker: Any = files) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(maker("dynamo", name)["dynamo.yaml"]))


@pytest.mark.parametrize("name", [*taken("dynamo"), GROUP])
def test_a_graph_has_the_fields_of_its_definition(name: str) -> None:
    for maker in (files, hostile):
        found, policy = graph(name, maker)
        assert (found["apiVersion"], found["kind"]) == (GRAPH["apiVersion"], "DynamoGraphDeployment")
        assert not strangers(found["spec"], GRAPH["spec"])
        assert found["spec"]["backendFramework"] in GRAPH["backendFramework"]
        for each in found["spec"]["components"]:
            assert not strangers(each, GRAPH["component"])
            assert set(GRAPH["required"]) <= set(each)
            assert re.fullmatch(GRAPH["namePattern"], each["name"])
            assert each["type"] in GRAPH["type"]
            assert not strangers(each.get("multinode", {}), GRAPH["multinode"])
            assert each.get("multinode", {}).get("nodeCount", GRAPH["leastNodeCount"]) >= GRAPH["leastNodeCount"]
            template = each["podTemplate"]
            assert [main["name"] for main in template["spec"]["containers"]] == [GRAPH["mainContainer"]]
            assert policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
            valid_pod(template["metadata"]["labels"], template["spec"])


@pytest.mark.parametrize("name", [*taken("dynamo"), GROUP])
def test_a_worker_is_the_plan_s_replica(name: str) -> None:
    """Its cards, servers and words of the engine are the plan's; those of the server alone are the
    front's affair."""
    given = job(name)
    worker = next(each for each in graph(name)[0]["spec"]["components"] if each["type"] == "worker")
    main, layout = worker["podTemplate"]["spec"]["containers"][0], given.option.layout
    servers = worker.get("multinode", {}).get("nodeCount", 1)
    assert servers == servers_of_replica(given)
    assert servers * int(main["resources"]["limits"]["nvidia.com/gpu"]) == layout.tensor * layout.pipeline
    assert worker["replicas"] == max(1, layout.replicas)
    words = main["args"]
    assert words[:2] == ["--model", hub_id(given)]
    assert not set(words) & set(OF_THE_SERVER)
    known = json.loads((Path(__file__).parent / "data/server_options.json").read_text(encoding="utf-8"))["vllm"]
    assert {word for word in words if word.startswith("--")} <= set(known["options"]) | {"--model"}


def test_a_replica_over_servers_goes_to_dynamo_alone() -> None:
    assert not find_target("dynamo").problem(job(GROUP))
    with pytest.raises(InputError, match="server"):
        files("llm-d", GROUP)


def test_what_neither_can_do_is_refused_in_a_line() -> None:
    """A run, another engine, a queue."""
    chat = plan_values("chat-8b-aws")
    for target in ("llm-d", "dynamo"):
        for found in (
            job("lora-8b-aws"),
            job("chat-8b-sglang"),
            job_of(plan_document(chat), settings=ExportSettings(queue="kueue/team-a")),
        ):
            problem = str(find_target(target).problem(found))
            assert problem
            assert "\n" not in problem


def test_a_model_younger_than_the_runtime_is_refused() -> None:
    """Of every class that engines know: the vLLM in Dynamo's image has it, or the plan is
    refused."""
    given, told = job("chat-8b-aws"), dict[bool, int]()
    for row in table("engine_support"):
        for name in row["hub_ids"].split(";")[:1] if row["min_vllm"] else ():
            known = model_class(name)
            if known is None or known.architecture != row["architecture"]:
                continue
            is_young = numbers(known.least["vllm"]) > numbers(DYNAMO_VLLM)
            problem = held_problem(dataclasses.replace(given, model=name), DYNAMO_PROGRAM, within=DYNAMO_VLLM)
            assert bool(problem) == is_young, name
            told[is_young] = told.get(is_young, 0) + 1
    assert len(told) == 2, told
