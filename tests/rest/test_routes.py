"""Every route answers, with the field names of the plan's JSON; the library is asked, nothing is worked out here."""

from __future__ import annotations

import io
import json
import zipfile
from importlib import resources
from typing import Any

import jsonschema
import pytest

import rightfit
from rightfit.explain import plan_document
from rightfit.explain.plain import plain

from .conftest import API, QLORA


def get(client: Any, path: str, **headers: str) -> Any:
    answer = client.get(API + path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post(client: Any, path: str, body: Any, **headers: str) -> Any:
    answer = client.post(API + path, json=body, headers=headers)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def test_a_plan_is_the_library_s_own(client: Any, plan: dict[str, Any]) -> None:
    expected = plain(plan_document(rightfit.plan(**QLORA, top=3), "en"))
    assert plan == expected
    schema = json.loads(resources.files("rightfit").joinpath("schema/plan.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(plan, schema)


def test_a_question_in_the_query_gets_the_same_answer(client: Any, plan: dict[str, Any]) -> None:
    assert get(client, "/plan?model=7B&method=qlora&data=50Mtok&top=3") == plan


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
    assert client.delete(f"{API}/plans/{saved['id']}").status_code == 204
    assert client.get(f"{API}/plans/{saved['id']}").status_code == 404
    assert get(client, f"/measurements?plan_id={saved['id']}")["total"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"figure": "step_s", "option": 9}, "option"),
        ({"figure": "steps"}, "figure"),
        ({"figure": "step_s", "value": -1.0}, "value"),
        ({"figure": "step_s", "plan_id": "nobody"}, "plan_id"),
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


def test_the_description_page_asks_nobody_else(client: Any) -> None:
    page = client.get(f"{API}/docs").text
    assert "https://" not in page
    for path in [part.split('"')[0] for part in page.split('src="')[1:] + page.split('href="')[1:]]:
        assert client.get(path).status_code == 200, path
