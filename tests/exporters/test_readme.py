"""The README of a bundle is done from top to bottom, with stand-ins for clouds and launchers
(stand_ins.py): in the end the result is at home, and the server is given back, also when the job
fails; a job that is killed goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from bundles import Bundle
from typical_plans import plan_values
from walked import FIRST_WAY

from rightfit.exports.buckets import bucket_of, whole

KINDS = {
    "qlora-8b": "skypilot",
    "lora-8b-aws": "skypilot",
    "full-8b-gcp": "skypilot",
    "full-70b": "skypilot",
    "bert-azure": "skypilot",
    "pretrain-1b-alicloud": "terraform-alicloud",
    "sdxl-aws": "skypilot",
    "resnet-gcp": "skypilot",
    "pretrain-8b-megatron": "skypilot",
    "whisper-train-aws": "skypilot",
    "bge-batch": "skypilot",
    "xgboost-train-aws": "skypilot",
    "tokenize-aws": "skypilot",
    "batch-8b-tencent": "terraform-tencent",
    "chat-8b": "skypilot",
    "bert-service-azure": "skypilot",
}
"""Plans of many kinds and the launcher that their README goes through: adapters and whole models,
encoders, images, sound, tables, a model split among cards, batches, preparation of data, services;
one server and several; spot and not; a bucket that is mounted, made, copied to."""
RUNS = [name for name in KINDS if plan_values(name)["workload"].get("task") != "serve"]
OTHERS = ("dstack", "cloudformation", "provider-cli", "kubernetes", "slurm", "terraform-aws")


def test_the_documented_plans_are_those_that_are_run() -> None:
    assert set(KINDS) == set(FIRST_WAY)


@pytest.mark.parametrize("name", KINDS)
def test_the_readme_leads_to_the_result(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle(name, tmp_path, monkeypatch)
    assert f"cd {KINDS[name]}\n" in bundle.steps[-1]
    done = bundle.run("\n".join(bundle.steps))
    assert "FAILED" not in done.stderr, done.stderr[-3000:]
    assert "nothing is missing" in done.stdout
    if not bundle.job.is_service:
        assert any((bundle.folder / "result").iterdir()), done.stderr[-2000:]
        trains = bundle.job.task not in ("batch", "prepare")
        assert not trains or not list((bundle.folder / "result").glob("checkpoint-*")), "the optimizer's state is taken home"
        assert "server ended 0" in bundle.calls or "docker run" in bundle.calls
    assert bundle.calls.count("server begun") <= 1 or bundle.job.num_nodes > 1


@pytest.mark.parametrize(
    ("name", "bucket", "told"),
    [
        ("lora-8b-aws", "s3://own", "exported"),
        ("tokenize-aws", "s3://own/runs/of.us/", "exported"),
        ("bge-batch", "s3://own/runs", "exported"),
        ("full-8b-gcp", "gs://own/runs/of.us", "exported"),
        ("bert-azure", "https://own.blob.core.windows.net/box/runs/of.us/", "exported"),
        ("bert-azure", "https://own.blob.core.windows.net/box", "launched"),
        ("bert-azure", "https://own.blob.core.windows.net/box/runs/of us/", "launched"),
    ],
)
def test_data_and_result_lie_in_the_bucket_s_folder_where_the_job_works(
    name: str, bucket: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SkyPilot mounts the bucket; the folder behind it is the job's and the README's affair, and
    they mean the same one."""
    bundle = Bundle(name, tmp_path, monkeypatch, **({"bucket": bucket} if told == "exported" else {}))
    place = bundle.box / "store" / bucket.partition("://")[2].strip("/")
    (bundle.box / "store" / whole(bucket_of(bucket)).partition("://")[2]).mkdir(parents=True)  # the folder in it is not there yet
    done = bundle.run("\n".join(bundle.steps), RIGHTFIT_BUCKET=bucket)
    assert "FAILED" not in done.stderr, done.stderr[-3000:]
    assert any((bundle.folder / "result").iterdir()), done.stderr[-2000:]
    [kept] = place.iterdir()
    assert kept.name == f"{bundle.job.name}-{bundle.job.plan_id}"
    assert {"data", bundle.job.name} <= {each.name for each in kept.iterdir()}


@pytest.mark.parametrize("name", RUNS)
def test_a_job_that_fails_gives_its_server_back_and_one_that_is_killed_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle(name, tmp_path, monkeypatch)
    bundle.run(bundle.until_started, JOB_FAILS="1")
    ends = ("given back", "shutdown", "DeleteInstance", "TerminateInstances")
    assert any(word in bundle.calls for word in ends), bundle.calls
    killed = bundle.run(bundle.start, JOB_KILLED="1")
    assert sum(bundle.calls.count(word) for word in ends) >= 2, killed.stderr
    again = bundle.run(bundle.from_start)
    assert any((bundle.folder / "result").iterdir()), again.stderr[-2000:]
    made = bundle.folder / "result" / "result"
    assert not made.exists() or made.read_text() == "made, gone on\n"


@pytest.mark.parametrize("target", OTHERS)
def test_every_other_way_leads_to_the_result(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle("lora-8b-aws", tmp_path, monkeypatch)
    done = bundle.run(bundle.other(target))
    assert "FAILED" not in done.stderr, done.stderr[-3000:]
    assert any((bundle.folder / "result").iterdir()), bundle.calls
    assert not list((bundle.folder / "result").glob("checkpoint-*")), "the optimizer's state is taken home"
    assert "the checkpoints too" in bundle.other(target)


def test_the_check_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle("qlora-8b", tmp_path, monkeypatch)
    assert bundle.run("sh check.sh").returncode == 0
    (bundle.folder / "data" / "rows.jsonl").unlink()
    (bundle.box / "bin" / "sky").unlink()
    found = bundle.run("sh check.sh", AWS_ACCESS_KEY_ID="", PATH=f"{bundle.box}/bin:/usr/bin:/bin", RIGHTFIT_BUCKET="s3://another")
    said = [line.partition(":")[2].split()[0:3] for line in found.stderr.splitlines() if line.startswith("missing")]
    assert said == [
        ["the", "program", "sky:"],
        ["AWS_ACCESS_KEY_ID:", "an", "access"],
        ["the", "bucket", "RIGHTFIT_BUCKET:"],
        ["data:", "put", "the"],
    ]
    assert found.returncode == 1
