"""Scripts of operations, run: checkpoints against a simulated S3, spot notices from a local server,
stops and budgets with what stands in for the clouds."""

from __future__ import annotations

import dataclasses
import http.server
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from jobs import files, hostile, job, taken

from rightfit.exports import buckets

BIN = Path(sys.executable).parent
AWS = shutil.which("aws", path=str(BIN))
MOTO = shutil.which("moto_server", path=str(BIN))
GCLOUD = shutil.which("gcloud")
simulated = pytest.mark.skipif(
    AWS is None or MOTO is None, reason="aws and moto_server are not installed here (pip install awscli 'moto[s3,server]')"
)
OF_CLOUD = {"aws": "lora-8b-aws", "azure": "bert-azure", "alicloud": "pretrain-1b-alicloud"}


def put(folder: Path, found: Mapping[str, str]) -> None:
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")


def stand_in(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    (folder / name).chmod(0o755)


def until(holds: Callable[[], bool], limit_s: float = 60) -> None:
    """Wait until it holds; a test waits for what it needs and never for a time."""
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, "it never came to hold"
        time.sleep(0.05)


def checkpoint(folder: Path, number: int, text: str = "weights") -> None:
    (folder / f"checkpoint-{number}").mkdir(parents=True)
    (folder / f"checkpoint-{number}" / "model.bin").write_text(text * 100)


@pytest.fixture(scope="module")
def simulated_aws() -> Iterator[dict[str, str]]:
    """An environment in which the aws program speaks to a simulated AWS."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([str(MOTO), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    environment = {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "NO_PROXY": "*",
        "EVERY_S": "1",
        "SETTLE_S": "1",
    }
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield environment
    server.terminate()
    server.wait(timeout=20)


def aws(environment: Mapping[str, str], *words: str) -> str:
    found = subprocess.run([str(AWS), *words], capture_output=True, text=True, env=dict(environment), check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


def sync(folder: Path, word: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(folder / "checkpoint-sync.sh"), word], capture_output=True, text=True, env=dict(environment), check=False, timeout=120
    )


@simulated
def test_checkpoints_go_to_the_bucket_and_come_back(simulated_aws: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path, files("checkpoint-sync", "lora-8b-aws", bucket="s3://kept/runs"))
    place = f"s3://kept/runs/{job('lora-8b-aws').name}-{job('lora-8b-aws').plan_id}"
    here, there = ({**simulated_aws, "CHECKPOINTS": str(tmp_path / name)} for name in ("here", "there"))
    missing = sync(tmp_path, "restore", here)
    assert (missing.returncode, f"cannot write to {place}" in missing.stderr) == (1, True)
    aws(simulated_aws, "s3", "mb", "s3://kept")
    assert f"no checkpoint in {place} yet" in sync(tmp_path, "restore", here).stdout
    for number in (5, 10, 9):
        checkpoint(tmp_path / "here", number, text=f"weights {number} ")
    assert sync(tmp_path, "push", here).stdout == f"kept checkpoint-10 in {place}\n"
    assert sync(tmp_path, "push", here).stdout == ""  # nothing new
    assert sync(tmp_path, "restore", there).stdout == f"restored checkpoint-10 from {place}\n"
    assert (tmp_path / "there/checkpoint-10/model.bin").read_text() == "weights 10 " * 100
    assert not (tmp_path / "there/checkpoint-5").exists()


@simulated
def test_the_bucket_of_a_plan_is_made_once(simulated_aws: dict[str, str]) -> None:
    """bucket.sh before SkyPilot, where nobody named a bucket: beside the server, once."""
    plain = job("lora-8b-aws")
    found = dataclasses.replace(plain, settings=dataclasses.replace(plain.settings, name="ours"))
    line = buckets.bucket_script(found, found.option.region)
    for _ in range(2):
        done = subprocess.run(["sh", "-c", line], env=simulated_aws, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    names = json.loads(aws(simulated_aws, "s3api", "list-buckets"))["Buckets"]
    [ours] = [each["Name"] for each in names if each["Name"].startswith(f"ours-{found.plan_id}-")]  # with a mark of the account
    place = json.loads(aws(simulated_aws, "s3api", "get-bucket-location", "--bucket", ours))
    assert place["LocationConstraint"] == found.option.region


class OpenBucket(http.server.BaseHTTPRequestHandler):
    """A bucket that everybody may use, as S3 documents it: HeadBucket refuses (403) whoever expects
    another owner, and nobody else can make one of its name (409)."""

    owner, caller = "", "123456789012"

    def do_HEAD(self) -> None:
        self.answer(200 if self.headers.get("x-amz-expected-bucket-owner", self.owner) == self.owner else 403)

    def do_PUT(self) -> None:
        self.answer(409, "<Error><Code>BucketAlreadyExists</Code><Message>taken</Message></Error>")

    def do_POST(self) -> None:
        said = f"<GetCallerIdentityResult><Account>{self.caller}</Account></GetCallerIdentityResult>"
        self.answer(200, f'<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{said}</GetCallerIdentityResponse>')

    def answer(self, code: int, body: str = "") -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.mark.skipif(AWS is None, reason="awscli is not installed")
@pytest.mark.parametrize("owner", [OpenBucket.caller, "999999999999"])
def test_a_bucket_of_our_name_in_a_stranger_s_account_is_refused(owner: str) -> None:
    """Also one that its owner has opened to us: what a run makes would be the stranger's."""
    found = job("lora-8b-aws")
    bucket = type("Bucket", (OpenBucket,), {"owner": owner})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), bucket) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true", "NO_PROXY": "*"}
        environment = {"PATH": f"{BIN}:/usr/bin:/bin", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", **keys}
        line = buckets.bucket_script(found, found.option.region)
        done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=300)
        server.shutdown()
    if owner == OpenBucket.caller:
        assert (done.returncode, done.stdout.startswith(f"s3://{found.name}-{found.plan_id}-")) == (0, True), done.stderr
    else:
        assert (done.returncode, done.stdout, "is not yours" in done.stderr) == (1, "", True), done.stderr


@simulated
def test_a_checkpoint_that_is_being_written_waits(simulated_aws: dict[str, str], tmp_path: Path) -> None:
    put(tmp_path, files("checkpoint-sync", "lora-8b-aws", bucket="s3://busy"))
    aws(simulated_aws, "s3", "mb", "s3://busy")
    checkpoint(tmp_path / "run", 1)
    environment = {**simulated_aws, "CHECKPOINTS": str(tmp_path / "run")}
    watching = subprocess.Popen(["sh", str(tmp_path / "checkpoint-sync.sh"), "watch"], env=environment, stdout=subprocess.PIPE, text=True)
    for _ in range(12):
        with (tmp_path / "run/checkpoint-1/model.bin").open("a") as file:
            file.write("more")
        time.sleep(0.25)
    assert not (tmp_path / "run/.sent").exists()
    watching.send_signal(signal.SIGTERM)
    assert "kept checkpoint-1 in s3://busy" in watching.communicate(timeout=60)[0]
    assert f"{job('lora-8b-aws').name}-{job('lora-8b-aws').plan_id}/latest" in aws(simulated_aws, "s3", "ls", "--recursive", "s3://busy")


COPY = """#!/bin/sh
# The last two arguments are what and where to; the store is a folder.
echo "$0 $*" >> STORE.calls
while [ "$#" -gt 2 ]; do shift; done
place() { case "$1" in *://*) echo "STORE/${1#*://}" ;; *) echo "$1" ;; esac; }
from=$(place "$1") to=$(place "$2")
[ -e "$from" ] || exit 1
mkdir -p "$(dirname "$to")"
if [ -d "$from" ]; then mkdir -p "$to" && cp -r "$from/." "$to"; else cp "$from" "$to"; fi
"""


@pytest.mark.parametrize(
    ("name", "bucket", "program"),
    [
        ("full-8b-gcp", "gs://kept/runs", "gcloud"),
        ("pretrain-1b-alicloud", "oss://kept/runs", "ossutil"),
        ("qlora-8b", "cos://kept/runs", "coscli"),
        ("bert-azure", "https://mine.blob.core.windows.net/kept", "azcopy"),
    ],
)
def test_every_cloud_s_program_is_asked_to_copy(name: str, bucket: str, program: str, tmp_path: Path) -> None:
    stand_in(tmp_path / "bin", program, COPY.replace("STORE", str(tmp_path / "store")))
    put(tmp_path, files("checkpoint-sync", name, bucket=bucket))
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "CHECKPOINTS": str(tmp_path / "here")}
    checkpoint(tmp_path / "here", 3)
    assert "kept checkpoint-3" in sync(tmp_path, "push", environment).stdout
    assert "restored checkpoint-3" in sync(tmp_path, "restore", {**environment, "CHECKPOINTS": str(tmp_path / "there")}).stdout
    assert (tmp_path / "there/checkpoint-3/model.bin").read_text() == "weights" * 100


@pytest.mark.parametrize("moment", ["settling", "copying", "resting"])
def test_a_watch_that_is_ended_keeps_the_last_checkpoint(moment: str, tmp_path: Path) -> None:
    """The first checkpoint is kept and a nap is over; the signal then comes while the second one
    settles, is copied, or is yet to be seen."""
    calls, run = tmp_path / "store.calls", tmp_path / "run"
    stand_in(tmp_path / "bin", "aws", COPY.replace("STORE", str(tmp_path / "store")).replace("from=", "sleep 0.5\nfrom=", 1))
    put(tmp_path, files("checkpoint-sync", "lora-8b-aws", bucket="s3://kept"))
    every = "30" if moment == "resting" else "0.1"
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "CHECKPOINTS": str(run), "EVERY_S": every, "SETTLE_S": "0.3"}
    checkpoint(run, 1)
    watching = subprocess.Popen(
        ["sh", str(tmp_path / "checkpoint-sync.sh"), "watch"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    until(lambda: (run / ".sent").exists())
    time.sleep(0.2 if moment == "resting" else 0.6)
    checkpoint(run, 2)
    if moment == "copying":
        until(lambda: "checkpoint-2" in calls.read_text())
    watching.send_signal(signal.SIGTERM)
    said, complaints = watching.communicate(timeout=60)
    assert (watching.returncode, complaints) == (0, "")
    assert "kept checkpoint-2" in said
    assert next((tmp_path / "store").rglob("latest")).read_text() == "checkpoint-2\n"


def test_without_its_program_or_its_bucket_it_says_so(tmp_path: Path) -> None:
    put(tmp_path, files("checkpoint-sync", "lora-8b-aws"))
    assert "set RIGHTFIT_BUCKET" in sync(tmp_path, "push", {"PATH": "/usr/bin:/bin"}).stderr
    nothing = tmp_path / "nothing"
    for program in ("sh", "mkdir", "cat"):
        stand_in(nothing, program, f'#!/bin/sh\nexec /bin/{program} "$@"\n')
    found = sync(tmp_path, "push", {"PATH": str(nothing), "RIGHTFIT_BUCKET": "s3://x"})
    assert (found.returncode, "aws is not installed" in found.stderr) == (3, True)


class Metadata(http.server.BaseHTTPRequestHandler):
    """A cloud's metadata: silent until the server is to be taken."""

    taken = False
    seen: list[str] = []  # noqa: RUF012  shared by the handlers of one server on purpose

    def do_PUT(self) -> None:
        self._answer("a-token")

    def do_GET(self) -> None:
        type(self).seen.append(self.path)
        if "scheduledevents" in self.path:
            events = [{"EventType": "Preempt"}] if self.taken else [{"EventType": "Reboot"}]
            self._answer(json.dumps({"Events": events}))
        elif self.taken and ("instance-action" not in self.path or self.headers["X-aws-ec2-metadata-token"] == "a-token"):
            self._answer("2026-11-20T12:00:00Z")
        else:
            self.send_error(404)

    def _answer(self, text: str) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def metadata() -> Iterator[str]:
    Metadata.taken, Metadata.seen = False, []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


TRAINING = """#!/bin/sh
trap 'mkdir -p "$CHECKPOINTS/checkpoint-8"; echo saved > "$CHECKPOINTS/checkpoint-8/state"; exit 143' TERM
echo begun > "$CHECKPOINTS/begun"
i=0
while [ $i -lt "$TURNS" ]; do sleep 0.2; i=$((i + 1)); done
"""


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("cloud", sorted(OF_CLOUD))
def test_a_notice_ends_the_run_after_a_last_copy(cloud: str, metadata: str, tmp_path: Path) -> None:
    if job(OF_CLOUD[cloud]).option.purchase != "spot":
        pytest.skip("this plan is on demand")
    store, bucket = tmp_path / "store", {"aws": "s3://kept", "azure": "https://mine/kept", "alicloud": "oss://kept"}[cloud]
    put(tmp_path, files("spot-recovery", OF_CLOUD[cloud], bucket=bucket))
    program = {"aws": "aws", "azure": "azcopy", "alicloud": "ossutil"}[cloud]
    stand_in(tmp_path / "bin", program, COPY.replace("STORE", str(store)))
    stand_in(tmp_path, "train.sh", TRAINING)
    environment = {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "CHECKPOINTS": str(tmp_path / "run"),
        "METADATA_URL": metadata,
        "POLL_S": "0.2",
        "EVERY_S": "30",
        "SETTLE_S": "1",
        "TURNS": "300",
    }
    started = subprocess.Popen(["sh", "start.sh", "./train.sh"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "run/begun").exists():
        time.sleep(0.05)
    time.sleep(0.7)
    assert started.poll() is None  # no notice, no end
    Metadata.taken = True
    said = started.communicate(timeout=60)[1]
    assert started.returncode == 75, said
    assert "the server will be taken" in said
    assert next(store.rglob("latest")).read_text() == "checkpoint-8\n"
    Metadata.taken = False
    again = subprocess.run(
        ["sh", "start.sh", "./train.sh"],
        cwd=tmp_path,
        env={**environment, "CHECKPOINTS": str(tmp_path / "second"), "TURNS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert again.returncode == 0, again.stderr
    assert "restored checkpoint-8" in again.stdout
    assert (tmp_path / "second/checkpoint-8/state").read_text() == "saved\n"


@pytest.mark.parametrize("name", taken("auto-stop"))
def test_servers_stop_themselves(name: str, tmp_path: Path) -> None:
    """Programs that stop are stand-ins that note the call; the time is the real one, made short."""
    put(tmp_path, files("auto-stop", name))
    tools = tmp_path / "bin"
    for program in ("shutdown", "az", "aliyun", "tccli", "curl", "give-back"):
        stand_in(tools, program, f'#!/bin/sh\necho "{program} $*" >> {tmp_path}/calls\necho id-1\n')
    stand_in(tools, "nvidia-smi", f"#!/bin/sh\ncat {tmp_path}/load\n")
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "POLL_S": "0.2", "STOP_COMMAND": "give-back now"}
    words = ["sh", str(tmp_path / "auto-stop.sh")]

    (tmp_path / "load").write_text("0\n97\n")  # one of two cards works
    over = subprocess.run(
        words, env={**environment, "LIMIT_S": "2", "IDLE_S": "1"}, capture_output=True, text=True, check=False, timeout=30
    )
    assert (over.returncode, over.stdout.splitlines()[0]) == (0, "stopping this server: the plan's time is over")
    (tmp_path / "load").write_text("0\n3\n")
    idle = subprocess.run(words, env={**environment, "IDLE_S": "1"}, capture_output=True, text=True, check=False, timeout=30)
    assert "nothing has run" in idle.stdout
    asked = {"aws": "shutdown -h now", "gcp": "shutdown -h now", "azure": "az vm deallocate --no-wait --ids id-1"}
    asked |= {"alicloud": "aliyun ecs StopInstance --StoppedMode StopCharging --InstanceId id-1"}
    asked |= {"tencent": 'tccli cvm StopInstances --StoppedMode STOP_CHARGING --InstanceIds ["id-1"]'}
    assert (tmp_path / "calls").read_text().count(asked.get(job(name).option.provider, "give-back now")) == 2


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    put(tmp_path, files("auto-stop", "lora-8b-aws"))
    found = subprocess.run(["systemd-analyze", "verify", str(tmp_path / "auto-stop.service")], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "auto-stop.service:" not in found.stderr.replace("Command /bin/sh is not executable", "")


@simulated
@pytest.mark.parametrize("name", [name for name in taken("budget-alarm") if job(name).option.provider == "aws"])
def test_a_budget_is_made_on_a_simulated_aws(name: str, simulated_aws: dict[str, str], tmp_path: Path) -> None:
    for maker in (files, hostile):
        put(tmp_path, maker("budget-alarm", name))
    environment = {**simulated_aws, "RIGHTFIT_EMAIL": "me@example.org"}
    bad = subprocess.run(
        ["sh", "budget.sh"], cwd=tmp_path, env={**environment, "RIGHTFIT_EMAIL": "a,b=c"}, capture_output=True, text=True, check=False
    )
    assert (bad.returncode, "not an address" in bad.stderr) == (2, True)
    found = subprocess.run(["sh", "budget.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found.stderr
    account = json.loads(aws(simulated_aws, "sts", "get-caller-identity"))["Account"]
    (budget,) = json.loads(aws(simulated_aws, "budgets", "describe-budgets", "--account-id", account))["Budgets"]
    of_budget = ("--account-id", account, "--budget-name", budget["BudgetName"])
    assert float(budget["BudgetLimit"]["Amount"]) >= (job(name).option.cost.total_usd or job(name).option.cost.monthly_usd or 0)
    notices = json.loads(aws(simulated_aws, "budgets", "describe-notifications-for-budget", *of_budget))["Notifications"]
    assert sorted(notice["NotificationType"] for notice in notices) == ["ACTUAL", "FORECASTED"]
    aws(simulated_aws, "budgets", "delete-budget", *of_budget)


@pytest.mark.skipif(GCLOUD is None, reason="gcloud is not installed")
def test_gcloud_knows_every_word_of_its_budget(tmp_path: Path) -> None:
    """Without an account it stops after it has read the command line: a word that it does not know
    is its first complaint."""
    put(tmp_path, files("budget-alarm", "full-8b-gcp"))
    environment = {
        "PATH": os.environ["PATH"],
        "BILLING_ACCOUNT": "012345-567890-ABCDEF",
        "PROJECT": "mine",
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "HOME": str(tmp_path),
    }
    said = subprocess.run(
        ["sh", "budget.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    ).stderr
    assert "unrecognized arguments" not in said
    assert "active account" in said or "credentials" in said
    text = (tmp_path / "budget.sh").read_text().replace("--calendar-period", "--calender-period")
    (tmp_path / "budget.sh").write_text(text)
    said = subprocess.run(
        ["sh", "budget.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    ).stderr
    assert "unrecognized arguments" in said


@pytest.mark.parametrize("name", [name for name in taken("budget-alarm") if job(name).option.provider == "azure"])
def test_the_template_of_azure_has_what_its_reference_requires(name: str) -> None:
    template = json.loads(files("budget-alarm", name)["budget.json"])
    [budget] = template["resources"]
    assert set(budget) == {"type", "apiVersion", "name", "properties"}
    # https://learn.microsoft.com/azure/templates/microsoft.consumption/budgets: amount, category,
    # timeGrain and timePeriod are required
    assert set(budget["properties"]) == {"amount", "category", "timeGrain", "timePeriod", "filter", "notifications"}
    for notice in budget["properties"]["notifications"].values():
        assert set(notice) == {"enabled", "operator", "threshold", "thresholdType", "contactEmails"}


@pytest.mark.parametrize("name", taken("mlflow"))
def test_mlflow_keeps_the_plan(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed (pip install mlflow-skinny)")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setattr(sys, "argv", ["start_mlflow_run.py", str(tmp_path / "plan.json")])
    mlflow.set_tracking_uri(f"file://{tmp_path}/store")
    for maker in (hostile, files):
        put(tmp_path, maker("mlflow", name))
        runpy.run_path(str(tmp_path / "start_mlflow_run.py"), run_name="__main__")
    run_id = capsys.readouterr().out.strip().splitlines()[-1].removeprefix("export MLFLOW_RUN_ID=")
    kept = next((tmp_path / "store").glob(f"*/{run_id}"))
    assert (kept / "tags/rightfit.instance_type").read_text() == job(name).option.instance_type
    assert (kept / "tags/managed-by").read_text() == "rightfit"
    figure, predicted = next(iter(job(name).option.estimate.items()))
    assert float((kept / f"metrics/predicted/{figure}/mid").read_text().split()[1]) == pytest.approx(predicted.mid)
