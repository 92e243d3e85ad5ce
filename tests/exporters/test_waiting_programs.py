"""What wait.sh, bucket.sh and end.sh ask, before the programs themselves: aws before moto, azcopy
before azurite where both are there, dstack's own models, JMESPath. What they answer of nothing is
what was recorded (data/programs_on_nothing.json)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jobs import job
from typical_plans import plan_values

from rightfit.exports import Files, find_target, job_of, plan_document
from rightfit.exports.buckets import bucket_script
from rightfit.exports.waiting import RUNS_OF_DSTACK

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "programs_on_nothing.json").read_text(encoding="utf-8"))
BIN = str(Path(sys.executable).parent)
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The one that azurite documents for its one account."""


def moved(target: str, provider: str) -> Files:
    values = plan_values("lora-8b-aws")
    option = {**values["options"][0], "provider": provider, "nodes": 1, "purchase": "on-demand"}
    return find_target(target).files(job_of(plan_document({**values, "options": [option]})))


def put(folder: Path, found: Files) -> None:
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")


def sh(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    every = {"HOME": str(folder), "PATH": f"{folder}/bin:{BIN}:/usr/bin:/bin", "EVERY_S": "0.2", **environment}
    return subprocess.run(["sh", *words], cwd=folder, env=every, capture_output=True, text=True, check=False, timeout=200)


# ------------------------------------------------------------------------------------------------
# AWS


@pytest.fixture
def amazon() -> Iterator[dict[str, str]]:
    moto = pytest.importorskip("moto.server", reason="moto is not installed")
    if shutil.which("aws", path=BIN) is None:
        pytest.skip("awscli is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    urllib.request.urlopen(urllib.request.Request(f"{address}/moto-api/reset", method="POST"))
    keys = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-2",
        "AWS_PAGER": "",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    yield {**keys, "AWS_ENDPOINT_URL": address, "RIGHTFIT_BUCKET": "s3://box"}
    server.stop()


def test_aws_answers_of_nothing_and_of_the_end_as_recorded(amazon: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path, moved("provider-cli", "aws"))
    made = sh(tmp_path, "-c", "aws s3 mb s3://box", **amazon)
    assert made.returncode == 0, made.stderr
    for kind in ("copy", "list"):
        said = RECORDED["aws"][kind]
        done = sh(tmp_path, "-c", said["command"].replace("FILE", "here"), **amazon)
        assert (done.returncode, done.stdout, done.stderr) == (said["exit"], said["stdout"], said["stderr"])
    assert sh(tmp_path, "wait.sh", "new", **amazon).returncode == 0
    lost = sh(tmp_path, "wait.sh", **amazon)  # nothing runs, and nothing lies there
    assert (lost.returncode, "is gone" in lost.stderr) == (3, True), lost.stderr
    run, [place] = (
        (tmp_path / "run.id").read_text().strip(),
        re.findall(r"^  place=\S*?/([\w-]+)$", (tmp_path / "wait.sh").read_text(), re.MULTILINE),
    )
    (tmp_path / "end").write_text(f"{run} 0\n")
    assert sh(tmp_path, "-c", f"aws s3 cp end s3://box/{place}/ended", **amazon).returncode == 0
    assert sh(tmp_path, "wait.sh", **amazon).returncode == 0


def test_servers_are_found_by_their_label_and_ended(amazon: dict[str, str], tmp_path: Path) -> None:
    import boto3

    put(tmp_path, moved("provider-cli", "aws"))
    text = (tmp_path / "end.sh").read_text()
    [plan], [region] = set(re.findall(r"Values=(\w{12})\b", text)), set(re.findall(r"--region (\S+)", text))
    keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "endpoint_url": amazon["AWS_ENDPOINT_URL"], "region_name": region}
    ec2 = boto3.client("ec2", **keys)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "rightfit-plan", "Value": plan}]}]
    [ours] = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, TagSpecifications=tags)["Instances"]
    [other] = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    assert sh(tmp_path, "wait.sh", "new", **amazon).returncode == 0
    assert (sh(tmp_path, "wait.sh", "new", **amazon).returncode, sh(tmp_path, "wait.sh", LIMIT_S="1", **amazon).returncode) == (5, 4)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "bin" / "sleep").chmod(0o755)
    ended = sh(tmp_path, "end.sh", **amazon)
    assert (ended.returncode, f"nothing of plan {plan} runs any more" in ended.stdout) == (0, True), ended.stderr
    states = {one["InstanceId"]: one["State"]["Name"] for group in ec2.describe_instances()["Reservations"] for one in group["Instances"]}
    assert states == {ours["InstanceId"]: "terminated", other["InstanceId"]: "running"}
    away = sh(tmp_path, "end.sh", **{**amazon, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_MAX_ATTEMPTS": "1"})
    assert (away.returncode, "may still run" in away.stderr) == (1, True)


def test_the_bucket_is_the_account_s_own_or_none(amazon: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bucket.sh").write_text(bucket_script(job("lora-8b-aws"), "us-east-2"))
    first, again = (sh(tmp_path, "bucket.sh", **amazon) for _ in range(2))
    digits = hashlib.sha256(b"123456789012").hexdigest()[:8]
    assert re.fullmatch(rf"s3://[\w-]+-\w{{12}}-{digits}\n", first.stdout), first.stderr
    assert (again.returncode, again.stdout) == (0, first.stdout)
    # The simulation looks at no owner; the program is told whose it must be, and a refusal
    # ends in no address.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "aws").write_text(
        f'#!/bin/sh\ncase "$*" in *head-bucket*) echo "$*" >> asked; exit 254 ;; esac\nexec {BIN}/aws "$@"\n'
    )
    (tmp_path / "bin" / "aws").chmod(0o755)
    strange = sh(tmp_path, "bucket.sh", **amazon)
    assert (strange.returncode, strange.stdout, "is not yours" in strange.stderr) == (1, "", True)
    assert "--expected-bucket-owner 123456789012" in (tmp_path / "asked").read_text()


# ------------------------------------------------------------------------------------------------
# Azure


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[dict[str, str]]:
    """azurite's store and azcopy, from npm (azurite, @azure-tools/azcopy-linux): RIGHTFIT_NPM names
    the folder in which they were installed."""
    modules = Path(os.environ.get("RIGHTFIT_NPM", "node_modules"))
    azcopy, azurite = modules / "@azure-tools/azcopy-linux/dist/bin/azcopy_linux_amd64", modules / "azurite/dist/src/blob/main.js"
    if not (azcopy.exists() and azurite.exists() and shutil.which("node")):
        pytest.skip("azcopy and azurite are not installed (RIGHTFIT_NPM)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["node", str(azurite), "--inMemoryPersistence", "--blobPort", str(port), "--silent", "--skipApiVersionCheck"]
    server = subprocess.Popen(words, cwd=tmp_path)
    base, signed = f"http://127.0.0.1:{port}/devstoreaccount1", signature()
    try:
        for _ in range(150):
            try:
                request(f"{base}/box?restype=container&{signed}", b"")
                break
            except OSError:
                time.sleep(0.2)
        (tmp_path / "bin").mkdir()
        text = f"""import os, sys
words = ["--from-to=BlobLocal"] if sys.argv[1] == "copy" else ["--location=Blob"]
address = "https://acc.blob.core.windows.net"
sent = [word.replace(address, {base!r}) + "?" + {signed!r} if word.startswith(address) else word for word in sys.argv[1:]]
os.execv({str(azcopy)!r}, ["azcopy", *sent, *words])
"""
        (tmp_path / "bin" / "azcopy").write_text(f"#!{sys.executable}\n{text}")
        (tmp_path / "bin" / "azcopy").chmod(0o755)
        places = {"AZCOPY_LOG_LOCATION": str(tmp_path / "log"), "AZCOPY_JOB_PLAN_LOCATION": str(tmp_path / "log")}
        yield {**places, "RIGHTFIT_BUCKET": "https://acc.blob.core.windows.net/box", "BASE": base, "SIGNED": signed}
    finally:
        server.kill()  # it finishes its connections first when it is asked to end
        server.wait(timeout=20)


def signature() -> str:
    """A shared access signature of the account."""
    version, until = "2021-10-04", "2035-01-01T00:00:00Z"
    text = "\n".join(["devstoreaccount1", "rwdlacup", "b", "sco", "", until, "", "", version, "", ""])
    sig = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    return urllib.parse.urlencode({"sv": version, "ss": "b", "srt": "sco", "sp": "rwdlacup", "se": until, "sig": sig})


def request(address: str, body: bytes) -> None:
    headers = {"x-ms-version": "2021-10-04", "x-ms-blob-type": "BlockBlob"}
    urllib.request.urlopen(urllib.request.Request(address, data=body, method="PUT", headers=headers), timeout=20).read()


def test_azcopy_answers_of_nothing_and_of_the_end_as_recorded(azure: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path, moved("provider-cli", "azure"))
    (tmp_path / "bin" / "az").write_text("#!/bin/sh\necho /subscriptions/s/vm\n")
    (tmp_path / "bin" / "az").chmod(0o755)
    for kind in ("copy", "list"):
        said = RECORDED["azcopy"][kind]
        done = sh(tmp_path, "-c", said["command"].replace("ACCOUNT", "acc").replace("FILE", "here"), **azure)
        assert done.returncode == said["exit"], done.stdout + done.stderr
        assert not (tmp_path / "here").exists()
    assert sh(tmp_path, "wait.sh", "new", **azure).returncode == 0
    assert sh(tmp_path, "wait.sh", LIMIT_S="1", **azure).returncode == 4  # a list ends with 0 where nothing is
    run, [place] = (
        (tmp_path / "run.id").read_text().strip(),
        re.findall(r"^  place=\S*?/([\w-]+)$", (tmp_path / "wait.sh").read_text(), re.MULTILINE),
    )
    request(f"{azure['BASE']}/box/{place}/ended?{azure['SIGNED']}", f"{run} 0\n".encode())
    done = sh(tmp_path, "wait.sh", **azure)
    assert (done.returncode, "ended well" in done.stdout) == (0, True), done.stderr


def test_queries_of_azure_find_what_carries_the_label() -> None:
    """By the library that az reads them with."""
    jmespath = pytest.importorskip("jmespath")
    found = moved("provider-cli", "azure")
    [plan] = set(re.findall(r"rightfit-plan=(\w{12})", found["end.sh"]))
    [query] = re.findall(r"--query '?(.*\.id)'? --output tsv", found["wait.sh"].replace("'\"'\"'", "'"))
    ours = {"id": "/a", "tags": {"rightfit-plan": plan}, "powerState": "VM running"}
    others = [
        {**ours, "id": "/b", "powerState": "VM deallocated"},
        {**ours, "id": "/c", "tags": {"rightfit-plan": "x"}},
        {**ours, "id": "/d", "tags": None},
    ]
    assert jmespath.search(query, [ours, *others]) == ["/a"]
    [query] = re.findall(r'--query "(.*\.id)" --output tsv', found["end.sh"])
    parts = [{"id": "/a", "type": "Microsoft.Compute/virtualMachines"}, {"id": "/s", "type": "Microsoft.Storage/storageAccounts"}]
    assert jmespath.search(query, parts) == ["/a"]


# ------------------------------------------------------------------------------------------------
# dstack


def test_the_list_of_dstack_is_read_as_its_own_model_writes_it() -> None:
    runs = pytest.importorskip("dstack._internal.core.models.runs", reason="dstack is not installed")
    states = {state.value for state in runs.RunStatus}
    named = set(re.findall(r'"(done|failed|terminated|terminating)"', RUNS_OF_DSTACK))
    assert named - {"terminating"} == {state.value for state in runs.RunStatus.finished_statuses()}
    assert named <= states
    assert {"id", "status", "run_spec"} <= set(runs.Run.model_fields)
    assert "run_name" in runs.RunSpec.model_fields
