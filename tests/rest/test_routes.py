"""Every route answers, with the field names of the plan's JSON; the library is asked, nothing
is worked out here."""

from __future__ import annotations

import io
import json
import zipfile
from importlib import resources
from typing import Any

import jsonschema
import pytest

import rightfit
from rightfit.explain.messages import plain
from rightfit.explain.voices import plan_document

from .conftest import API, NAMED, QLORA


def get(client: Any, path: str, **headers: str) -> Any:
    answer = client.get(API + path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(client: Any, path: str, body: Any, **headers: str) -> Any:
    answer = client.post(API + path, json=body, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def test_a_plan_is_the_library_s_own(client: Any, plan: dict[str, Any]) -> None:
    expected = plain(plan_document(rightfit.plan(**NAMED, sellers="hyperscaler", top=3), "en"))
    assert plan == expected
    schema = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(plan, schema)


def test_a_question_in_the_query_gets_the_same_answer(client: Any, plan: dict[str, Any]) -> None:
    assert get(client, f"/plan?model={NAMED['model']}&method=qlora&data=50Mtok&sellers=hyperscaler&top=3") == plan


def test_the_workload_of_a_plan_can_be_asked_again(client: Any, plan: dict[str, Any]) -> None:
    again = post(client, "/plan?top=3", plan["workload"])
    assert [option["instance_type"] for option in again["options"]] == [option["instance_type"] for option in plan["options"]]


def test_lists_are_taken_as_lists_and_repeated_in_a_query(client: Any) -> None:
    body = post(client, "/plan?top=5", {**QLORA, "cloud": ["aws", "gcp"], "purchase": "on-demand,spot"})
    assert {option["provider"] for option in body["options"]} <= {"aws", "gcp"}
    query = get(client, "/plan?model=7B&method=qlora&data=50Mtok&cloud=aws&cloud=gcp&purchase=on-demand,spot&top=5")
    assert query["options"] == body["options"]


def test_plain_words_with_options_beside_them(client: Any) -> None:
    found = post(client, "/plan?top=1", {"ask": "fine-tune Llama-3-8B with LoRA on 50k samples", "cloud": "aws"})
    assert found["workload"]["method"] == "lora"
    assert found["options"][0]["provider"] == "aws"


def test_questions_beside_a_wish_and_without_one(client: Any) -> None:
    found = post(client, "/plan?top=1&lang=zh", {"ask": "微调LLaMA-2-13B要不要NVLink多卡"})
    assert found["answers"][0].startswith("要不要NVLink多卡：")
    bare = post(client, "/plan?top=1&lang=zh", {"ask": "微调LLaMA-2-13B"})
    assert "answers" not in bare
    assert found["options"] == bare["options"]
    asked = post(client, "/plan?top=1&lang=zh", {"ask": "哪些云有H100"})
    assert "Lambda" in asked["items"][0]["explanation"]


@pytest.mark.parametrize("path", ["/plan?top=1&lang=zh", "/plan?top=1"])
def test_the_language_of_the_query_or_the_browser(client: Any, path: str) -> None:
    found = post(client, path, QLORA, **{"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"})
    assert "的" in "".join(found["options"][0]["why"])


def test_a_wish_that_nothing_fulfils_is_an_answer(client: Any) -> None:
    found = post(client, "/plan", {"model": "405B", "task": "train", "data": "1Ttok", "deadline": "1h", "max_nodes": 1})
    assert found["options"] == []
    assert found["rejected"]


def test_estimate_and_why(client: Any) -> None:
    found = post(client, "/estimate", {**QLORA, "on": "aws/p4d.24xlarge", "nodes": 2})
    assert (found["options"][0]["instance_type"], found["options"][0]["nodes"]) == ("p4d.24xlarge", 2)
    assert get(client, "/estimate?model=7B&method=qlora&data=50Mtok&on=aws/p4d.24xlarge&nodes=2") == found
    verdict = post(client, "/why", {**QLORA, "server": "aws/g5.xlarge"})
    assert verdict["instance_type"] == "g5.xlarge"
    assert get(client, "/why?model=7B&method=qlora&data=50Mtok&server=aws/g5.xlarge") == verdict


def test_check_and_understand(client: Any) -> None:
    (found,) = post(client, "/check", {"claims": ["g5.xlarge=T4"]})["items"]
    assert (found["exists"], found["claim"]) == (True, "wrong")
    assert "声称" in post(client, "/check?lang=zh", {"claims": ["g5.xlarge=T4"]})["items"][0]["explanation"] or found["kind"] == "server"
    said = post(client, "/understand", {"sentence": "用 QLoRA 微调 Llama-3-8B，预算 500 元"})
    assert said["wishes"]["method"] == "qlora"


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/models?q=llama-3-8b&limit=1", "family", "transformer"),
        ("/accelerators?q=A100-SXM-80GB", "name", "A100-SXM-80GB"),
        ("/datasets?q=imdb", "name", "IMDB"),
        ("/servers?q=g5.xlarge&cloud=aws", "instance_type", "g5.xlarge"),
        ("/prices?q=g5.xlarge&purchase=spot&limit=1", "purchase", "spot"),
        ("/providers?q=aws", "provider", "aws"),
        ("/regions?q=frankfurt&cloud=aws", "region", "eu-central-1"),
        ("/targets", "target", "cloud-init"),
    ],
)
def test_lists(client: Any, path: str, field: str, value: str) -> None:
    found = get(client, path)
    assert found["total"] >= len(found["items"]) > 0
    assert found["items"][0][field] == value


def test_lists_come_in_pages(client: Any) -> None:
    whole = get(client, "/datasets?limit=1000")
    assert whole["total"] == len(whole["items"])
    assert get(client, "/datasets?limit=2&offset=3")["items"] == whole["items"][3:5]
    dear = get(client, "/prices?q=g5.xlarge&limit=3&offset=1")
    assert dear["items"] == get(client, "/prices?q=g5.xlarge&limit=4")["items"][1:]


def test_files_of_a_plan_as_json_and_as_an_archive(client: Any, plan: dict[str, Any]) -> None:
    files = post(client, "/export", {"plan": plan, "to": "skypilot", "name": "my-job"})["files"]
    assert "my-job" in files["task.yaml"]
    answer = client.post(f"{API}/export", json={"plan": plan, "to": "skypilot", "name": "my-job"}, headers={"Accept": "application/zip"})
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == files
    assert answer.headers["content-disposition"] == 'attachment; filename="my-job.zip"'


def test_the_life_of_a_saved_plan(client: Any, plan: dict[str, Any]) -> None:
    saved = post(client, "/plans", {"plan": plan, "name": "第一次"})
    assert get(client, f"/plans/{saved['id']}") == {**saved, "plan": plan}
    assert saved in get(client, "/plans?limit=500")["items"]
    assert get(client, f"/plans/{saved['id']}/export?to=skypilot")["files"]
    measured = post(client, "/measurements", {"plan_id": saved["id"], "option": 2, "figure": "step_s", "value": 27.6, "remark": "ours"})
    (found,) = get(client, f"/measurements?plan_id={saved['id']}")["items"]
    assert found.pop("saved_at") >= saved["saved_at"]
    assert found == measured
    assert get(client, f"/runs?plan_id={saved['id']}")["items"][0]["measured"][0]["value"] == 27.6
    assert client.delete(f"{API}/plans/{saved['id']}").status_code == 204
    assert get(client, f"/runs?plan_id={saved['id']}")["items"] == []
    assert client.get(f"{API}/plans/{saved['id']}").status_code == 404
    assert get(client, f"/measurements?plan_id={saved['id']}")["total"] == 0


RUN = {
    "kind": "run",
    "source": {"kind": "probe"},
    "command": "python train.py --hf-token hf_abcdefghijklmnopqrstuvwxyz012345",
    "setup": {"model": "7B", "gpu": "A100-SXM-80GB", "method": "lora"},
    "measured": [{"metric": "step_time_s", "value": 1.9, "unit": "s"}],
}


def test_records_that_are_sent_come_back_once_without_their_secrets(client: Any, plan: dict[str, Any]) -> None:
    kept = post(client, "/runs", {"runs": [RUN, RUN]})
    assert kept["new"] == 1
    (id_,) = set(kept["ids"])
    assert post(client, "/runs", {"runs": [RUN]}) == {"new": 0, "ids": [id_]}
    saved = post(client, "/plans", {"plan": plan})
    post(client, "/measurements", {"plan_id": saved["id"], "option": 1, "figure": "step_s", "value": 3.5})
    total = get(client, "/runs")["total"]
    pages = [get(client, f"/runs?limit=1&offset={at}")["items"] for at in range(total)]
    values = [one["measured"][0]["value"] for page in pages for one in page]
    assert {1.9, 3.5} <= set(values)  # both what was sent and what was posted of a plan, each once, page by page
    (found,) = [one for one in get(client, "/runs?limit=500")["items"] if one["id"] == id_]
    assert "hf_abc" not in json.dumps(found)
    assert client.delete(f"{API}/runs/{id_}").status_code == 204
    assert client.delete(f"{API}/runs/{id_}").status_code == 404
    assert client.delete(f"{API}/plans/{saved['id']}").status_code == 204


@pytest.mark.parametrize(
    ("runs", "says"),
    [
        ([], "runs"),
        ([{}], "record 1"),
        ([RUN, {**RUN, "measured": [{"metric": "step_time", "value": 1, "unit": "s"}]}], "step_time"),
        ([{**RUN, "measured": [{"metric": "step_time_s", "value": "soon", "unit": "s"}]}], "record 1"),
    ],
)
def test_what_is_no_record_is_refused(client: Any, runs: list[Any], says: str) -> None:
    answer = client.post(f"{API}/runs", json={"runs": runs})
    assert answer.status_code == 422
    assert says in answer.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"figure": "step_s", "option": 9}, "option"),
        ({"figure": "steps"}, "figure"),
        ({"figure": "step_s", "value": -1.0}, "value"),
        ({"figure": "step_s", "plan_id": "nobody"}, "plan_id"),
        ({"figure": "step_s", "value": 1e-300}, "value"),
        ({"figure": "step_s", "value": 1e9}, "value"),
        ({"figure": "peak_memory_bytes", "value": 1.0}, "value"),
        ({"figure": "peak_memory_bytes", "value": 1e30}, "value"),
        ({"figure": "tokens_per_s", "value": 1e12}, "value"),
    ],
)
def test_a_measurement_must_be_of_a_figure_of_the_plan(client: Any, plan: dict[str, Any], body: dict[str, Any], field: str) -> None:
    saved = post(client, "/plans", {"plan": plan})
    answer = client.post(f"{API}/measurements", json={"plan_id": saved["id"], "value": 1.0, **body})
    assert answer.status_code == 422
    assert answer.json()["field"] == field


ROWS = [
    {"id": str(number), "metric": "peak_mem_gib_per_gpu", "model": "7B", "gpu": "A100-SXM-80GB", "method": "lora"} for number in range(3)
]


def test_tables_in_three_forms_give_the_same_predictions(client: Any) -> None:
    expected = [row["predicted"] for row in rightfit.predict(ROWS)]
    as_json = client.post(f"{API}/predict", json={"rows": ROWS}).json()
    assert (as_json["total"], [row["predicted"] for row in as_json["items"]]) == (3, expected)
    lines = "\n".join(json.dumps(row) for row in ROWS)
    answer = client.post(f"{API}/predict", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert [json.loads(line)["predicted"] for line in answer.text.splitlines()] == expected
    table = ",".join(ROWS[0]) + "\n" + "\n".join(",".join(row.values()) for row in ROWS) + "\n"
    answer = client.post(f"{API}/predict", content=table, headers={"Content-Type": "text/csv", "Accept": "text/csv"})
    head, *rows = answer.text.splitlines()
    assert head.startswith("id,metric,predicted,low80")
    assert [float(row.split(",")[2]) for row in rows] == expected


def test_a_long_table_comes_in_pieces_and_in_its_order(client: Any) -> None:
    rows = [{**ROWS[0], "id": str(number)} for number in range(1201)]
    with client.stream("POST", f"{API}/predict?form=ndjson", json=rows) as answer:
        ids = [json.loads(line)["id"] for line in answer.iter_lines()]
    assert ids == [row["id"] for row in rows]


def test_the_server_tells_how_it_is(client: Any) -> None:
    assert get(client, "/health") == {"status": "ok", "version": rightfit.__version__}
    assert get(client, "/ready") == {"status": "ready", "catalog": True, "store": True}
    text = client.get(f"{API}/metrics").text
    assert 'rightfit_requests_total{method="GET",route="/api/v1/health",status="200"}' in text
    assert "rightfit_request_seconds_bucket" in text


def test_the_same_question_is_worked_out_once(client: Any) -> None:
    question = {**QLORA, "epochs": 1.25}
    first = client.post(f"{API}/plan?top=1", json=question)
    assert first.headers["x-rightfit-cache"] == "miss"
    second = client.post(f"{API}/plan?top=1", json={name: question[name] for name in reversed(question)})
    assert second.headers["x-rightfit-cache"] == "hit"
    assert second.content == first.content


def test_whoever_asks_new_questions_is_let_go_to_a_free_process(client: Any) -> None:
    question = {**QLORA, "epochs": 1.75}
    new, known = (client.post(f"{API}/plan?top=1", json=question) for _ in range(2))
    assert new.headers["connection"] == "close"
    assert "connection" not in known.headers


def test_the_description_page_asks_nobody_else(client: Any) -> None:
    page = client.get(f"{API}/docs").text
    assert "https://" not in page
    for path in [part.split('"')[0] for part in page.split('src="')[1:] + page.split('href="')[1:]]:
        assert client.get(path).status_code == 200, path


FLEET: dict[str, Any] = {
    "start": "2026-12-01",
    "horizon": "1w",
    "jobs": [{"name": "tune", "count": 2, "deadline": "3d", "workload": {"model": "7B", "method": "qlora", "data": "50Mtok"}}],
    "limits": {"clouds": ["aws"]},
}


def test_a_fleet_is_planned_as_the_library_plans_it(client: Any) -> None:
    found = post(client, "/fleet", {"fleet": FLEET})
    expected = rightfit.fleet(FLEET).to_dict()
    assert found["cost"] == plain(expected["cost"])
    assert [row["instance_type"] for row in found["placements"]] == [row["instance_type"] for row in expected["placements"]]
    assert found["chart"].startswith("<svg")
    assert found["text"]
    again = post(client, "/fleet", {"fleet": FLEET, "last": found}, **{"Accept-Language": "zh"})
    assert again["moves"]["kept"] == 1


def test_purchases_of_a_fleet_are_judged_by_futures(client: Any) -> None:
    found = post(client, "/fleet", {"fleet": FLEET, "futures": 2})
    assert 1 <= found["futures"]["draws"] <= 2
    assert found["futures"]["ways_to_buy"][0]["name"] == "plan"
    assert any("over" in line and "scenarios" in line for line in found["text"])
    assert "futures" not in post(client, "/fleet", {"fleet": FLEET})
    refused = client.post(f"{API}/fleet", json={"fleet": FLEET, "futures": 1000})
    assert refused.status_code == 422


@pytest.mark.parametrize(
    ("fleet", "told"),
    [
        ({}, "0 jobs and 0 services"),
        ({"jobs": FLEET["jobs"] * 30}, "this server plans up to"),
        (
            {"services": [{"name": f"s{row}", "share": "mig", "demand": "1/s", "workload": {"model": "7B"}} for row in range(9)]},
            "27 jobs and services; this server plans up to",
        ),
        ({**FLEET, "job": []}, "did you mean jobs"),
        ({"jobs": [{**FLEET["jobs"][0], "workload": {"model": "/etc/passwd", "data": "1Mtok"}}]}, "file"),
    ],
)
def test_a_bad_fleet_is_refused_in_one_line(client: Any, fleet: dict[str, Any], told: str) -> None:
    answer = client.post(f"{API}/fleet", json={"fleet": fleet})
    assert answer.status_code == 422, answer.text
    assert told in answer.json()["detail"]
