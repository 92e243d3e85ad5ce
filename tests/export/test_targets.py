"""What targets write is the plan's: figures followed from the plan into the
files, target by target."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml
from typical_plans import plan_values

import rightfit
from rightfit.errors import InputError
from rightfit.exports import ExportSettings, Job, find_target, job_of, plan_document
from rightfit.exports.job import GIB
from rightfit.exports.stack import stack_of


def job(name: str, **settings: object) -> Job:
    return job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]


def task_plan(name: str) -> str:
    return job(name).plan_id


def files(target: str, name: str, **settings: object) -> dict[str, str]:
    return dict(find_target(target).files(job(name, **settings)))


def test_the_scaler_acts_at_the_plan_s_requests_in_flight() -> None:
    found = yaml.safe_load(files("keda", "chat-8b")["scaled-object.yaml"])["spec"]
    day = plan_values("chat-8b")["sections"]["autoscaling"]
    assert float(found["triggers"][0]["metadata"]["threshold"]) == pytest.approx(day["target_in_flight"], rel=1e-3)
    assert found["pollingInterval"] == 30
    assert found["cooldownPeriod"] == round(day["cooldown_s"])
    assert found["minReplicaCount"] == plan_values("chat-8b")["options"][0]["layout"]["replicas"]


def test_the_server_keeps_the_plan_s_limits() -> None:
    words = files("vllm", "chat-8b")["serve.sh"]
    layout = plan_values("chat-8b")["options"][0]["layout"]
    assert f"--max-num-seqs {layout['max_batch']}" in words
    assert "--max-model-len 5120" in words  # four usual lengths: the cache of the plan's batch holds such a request


def test_a_run_stops_itself_after_the_plan_s_time_and_a_margin() -> None:
    option = plan_values("qlora-8b")["options"][0]
    hours = option["estimate"]["total_time_s"]["high95"] * 1.25 / 3600
    assert job("qlora-8b").stop_after_h == pytest.approx(hours, abs=0.1)
    assert job("qlora-8b", stop_after_h=7.0).stop_after_h == 7.0
    assert job("chat-8b").stop_after_h == 0.0
    told = re.search(r"#SBATCH --time=(\d+):(\d+):", files("slurm", "qlora-8b", stop_after_h=7.0)["job.sbatch"])
    assert told is not None
    assert 7 * 60 + 20 <= int(told[1]) * 60 + int(told[2]) <= 9 * 60, "with what is installed and downloaded before"


def test_a_cluster_with_an_old_python_ends_before_anything_is_installed() -> None:
    lines = files("slurm", "qlora-8b")["job.sbatch"].splitlines()
    begun = lines[lines.index("set -euo pipefail") + 1]
    assert begun.startswith("python3 -c")
    assert "Python 3.10 or later" in begun
    old = begun.replace("sys.version_info", "(3, 9)")
    for line, code in ((begun, 0), (old, 1)):
        assert subprocess.run(["bash", "-c", line], capture_output=True, check=False).returncode == code


def test_pods_take_their_share_of_the_server() -> None:
    option = plan_values("bert-service-azure")["options"][0]
    objects = {found["kind"]: found for found in yaml.safe_load_all(files("kubernetes", "bert-service-azure")["objects.yaml"])}
    limits = objects["Deployment"]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == "1"
    assert int(limits["memory"].removesuffix("Gi")) <= option["memory_bytes"] / GIB
    assert objects["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"] == 8000


def test_memory_alerts_lie_between_the_prediction_and_the_card() -> None:
    rules = yaml.safe_load(files("prometheus", "full-8b-gcp")["alerts.yml"])["groups"][0]["rules"]
    [rule] = [rule for rule in rules if rule.get("alert") == "GpuMemoryHigh"]
    limit_bytes = float(rule["expr"].rpartition(">")[2]) * 1024**2
    option = plan_values("full-8b-gcp")["options"][0]
    assert option["estimate"]["peak_memory_bytes"]["mid"] < limit_bytes <= option["accelerator"]["memory_bytes"]


def test_terraform_asks_for_spot_only_when_the_plan_is_spot() -> None:
    spot, fixed = files("terraform-aws", "lora-8b-aws")["main.tf"], files("terraform-aws", "chat-8b-aws")["main.tf"]
    assert 'market_type = "spot"' in spot
    assert "market_type" not in fixed
    assert "aws_lb_listener" in fixed
    assert "aws_lb_listener" not in spot
    assert "HF_TOKEN" not in spot  # the secret's name stands in the first boot's script alone, as a reference
    assert "fetch_HF_TOKEN" in files("terraform-aws", "lora-8b-aws")["first-boot.sh"]


def test_images_are_pinned_and_labelled() -> None:
    text = files("dockerfile", "bert-service-azure")["Dockerfile"]
    assert text.splitlines()[1].startswith("FROM pytorch/pytorch:2.8.0-cuda12.8")
    assert f"rightfit-plan={job('bert-service-azure').plan_id}" in text
    assert json.loads(text.strip().rpartition("CMD ")[2])[0] == "uvicorn"


def test_spot_tasks_recover_and_take_only_alternatives_that_run_the_same() -> None:
    task = yaml.safe_load(files("skypilot", "lora-8b-aws", bucket="s3://mine/runs")["task.yaml"])
    assert task["resources"]["job_recovery"]["strategy"] == "EAGER_NEXT_REGION"
    assert task["file_mounts"] == {"/bucket": {"source": "s3://mine", "mode": "MOUNT_CACHED"}}
    assert task["setup"].splitlines()[-2] == f"kept=/bucket/runs/{job('lora-8b-aws').name}-{task_plan('lora-8b-aws')}"
    assert task["secrets"] == {"HF_TOKEN": None}
    first = plan_values("lora-8b-aws")["options"][0]
    places = task["resources"]["ordered"]
    assert places[0] == {"infra": f"aws/{first['region']}", "instance_type": first["instance_type"], "use_spot": True}
    assert {place["infra"].partition("/")[2] for place in places[1:]} <= {other["region"] for other in first["alternatives"]}
    assert all(place["use_spot"] for place in places)


def test_where_skypilot_mounts_nothing_the_job_copies_its_checkpoints_itself() -> None:
    task = yaml.safe_load(files("skypilot", "qlora-8b", bucket="s3://mine/runs")["task.yaml"])
    assert "file_mounts" not in task
    assert set(task["secrets"]) == {"HF_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}
    entered, _, run = task["run"].partition("\n")
    assert entered == '. "$HOME/job-env/bin/activate"'  # a Python that the packages go with
    assert run.startswith(f"kept=s3://mine/runs/{job('qlora-8b').name}-{task_plan('qlora-8b')}\n")
    without = yaml.safe_load(files("skypilot", "qlora-8b")["task.yaml"])
    assert without["envs"]["RIGHTFIT_BUCKET"] is None  # SkyPilot starts nothing before it is given
    service = plan_values("chat-8b")
    moved = {**service["options"][0], "provider": "verda", "region": "FIN-02", "instance_type": "1H100.80S.32V"}
    moved_job = job_of(plan_document({**service, "options": [moved]}))
    with pytest.raises(InputError, match="SkyPilot opens no ports on verda"):
        find_target("skypilot").files(moved_job)


def test_what_nothing_can_start_is_said() -> None:
    values = plan_values("bert-service-azure")
    layout = {**values["options"][0]["layout"], "engine": "Neuron"}
    other = job_of(plan_document({**values, "options": [{**values["options"][0], "layout": layout}]}))
    with pytest.raises(InputError, match="no launcher is written yet for serving with Neuron"):
        stack_of(other)


def test_plans_export_themselves(tmp_path) -> None:  # type: ignore[no-untyped-def]
    plan = rightfit.plan("meta-llama/Meta-Llama-3-8B", task="finetune", method="qlora", data="50Mtok", top=2)
    files = plan.export("skypilot", out=tmp_path / "job", name="mine")
    assert yaml.safe_load(files["task.yaml"])["name"] == "mine"
    assert (tmp_path / "job" / "task.yaml").read_text(encoding="utf-8") == files["task.yaml"]
