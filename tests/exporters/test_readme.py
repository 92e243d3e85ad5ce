"""The README of a bundle is done from top to bottom, with stand-ins for clouds and launchers (stand_ins.py): in the end the result is at home, and the
server is given back, also when the job fails; a job that is killed goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typical_plans import plan_values

from rightfit.export import ExportSettings, Job, bare_server, files_of, job_of, plan_document, write_files
from rightfit.export.recipes import recipe_of

STAND_INS = Path(__file__).with_name("stand_ins.py")
sys.path.insert(0, str(STAND_INS.parent))
from stand_ins import CLOUDS, JOBS, NOTHING, PROGRAMS  # noqa: E402

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
    "chat-8b": "skypilot",
    "bert-service-azure": "skypilot",
}
"""Plans of many kinds and the launcher that their README goes through: adapters and whole models, encoders, images, a model split among cards, services;
one server and several; spot and not; a bucket that is mounted, made, copied to."""
RUNS = [name for name in KINDS if plan_values(name)["workload"].get("task") != "serve"]
OTHERS = ("dstack", "cloudformation", "provider-cli", "kubernetes", "slurm", "terraform-aws")
SECRETS = {
    "HF_TOKEN": "hf",
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": "k",
    "VLLM_API_KEY": "k",
    "RIGHTFIT_API_KEY": "k",
    "RIGHTFIT_VAULT": "v",
    "RIGHTFIT_VAULT_GROUP": "g",
    "TF_VAR_image_id": "i",
    "SUBNET_ID": "s",
    "SECURITY_GROUP_ID": "s",
    "INSTANCE_PROFILE": "p",
}


class Bundle:
    """A bundle in a folder of its own, with the stand-ins before everything else on the path."""

    def __init__(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
        self.folder, self.box = folder / "bundle", folder / "box"
        (self.box / "bin").mkdir(parents=True)
        (self.box / "store").mkdir()
        for program in (*PROGRAMS, *CLOUDS, *JOBS, *NOTHING):
            path = self.box / "bin" / program
            path.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_INS} {program} "$@"\n')
            path.chmod(0o755)
        # Between the copies of a long run there are minutes; what sleeps so long sleeps on.
        (self.box / "bin" / "sleep").write_text('#!/bin/sh\n[ "${1%%.*}" -lt 300 ] || exec /bin/sleep 600\n')
        monkeypatch.setattr(bare_server, "FOLDER", str(self.box / "rightfit"))
        monkeypatch.setattr(bare_server, "CHECKPOINTS", str(self.box / "checkpoints"))
        self.job: Job = job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]
        write_files(files_of(self.job, "all"), self.folder)
        (self.folder / "data").mkdir()
        (self.folder / "data" / "rows.jsonl").write_text('{"text": "a b c d e f g h", "label": 1}\n' * 64)

    def run(self, lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Lines typed one after the other; those that fail are told at the end."""
        script = f"trap 'echo \"FAILED $BASH_COMMAND\" >&2' ERR\n{lines}\n"
        scheme = re.search(r"\$RIGHTFIT_BUCKET` in|keeps what the job makes, (\w+)://", (self.folder / "README.md").read_text())
        bucket = f"{(scheme[1] if scheme and scheme[1] else 's3')}://mine/runs"
        (self.box / "store" / "mine" / "runs").mkdir(parents=True, exist_ok=True)
        words = {**SECRETS, "RIGHTFIT_BUCKET": bucket, "RIGHTFIT_CHECKPOINTS": str(self.box / "shared"), "RIGHTFIT_BOX": str(self.box)}
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "HOME", "RIGHTFIT_TORCH_BIN", "RIGHTFIT_TINY_MODEL", "PYTHONPATH")
        }
        every = {**kept, **words, "PATH": f"{self.box}/bin:{os.environ['PATH']}", **environment}
        return subprocess.run(["bash", "-uc", script], cwd=self.folder, env=every, capture_output=True, text=True, check=False, timeout=300)

    @property
    def steps(self) -> list[str]:
        """The README's own way, block by block."""
        return re.findall(r"```sh\n(.*?)```", (self.folder / "README.md").read_text(), re.DOTALL)

    @property
    def calls(self) -> str:
        return (self.box / "calls").read_text() if (self.box / "calls").exists() else ""


@pytest.mark.parametrize("name", KINDS)
def test_the_readme_leads_to_the_result(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle(name, tmp_path, monkeypatch)
    assert f"cd {KINDS[name]}\n" in bundle.steps[-1]
    done = bundle.run("\n".join(bundle.steps))
    assert "FAILED" not in done.stderr, done.stderr[-3000:]
    assert "nothing is missing" in done.stdout
    if not bundle.job.is_service:
        assert any((bundle.folder / "result").iterdir()), done.stderr[-2000:]
        assert "server ended 0" in bundle.calls or "docker run" in bundle.calls
    assert bundle.calls.count("server begun") <= 1 or bundle.job.num_nodes > 1


@pytest.mark.parametrize("name", RUNS)
def test_a_job_that_fails_gives_its_server_back_and_one_that_is_killed_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = Bundle(name, tmp_path, monkeypatch)
    bundle.run("\n".join(bundle.steps[:3]), JOB_FAILS="1")
    ends = ("given back", "shutdown", "DeleteInstance")
    assert any(word in bundle.calls for word in ends), bundle.calls
    killed = bundle.run(bundle.steps[2], JOB_KILLED="1")
    assert sum(bundle.calls.count(word) for word in ends) >= 2, killed.stderr
    again = bundle.run("\n".join(bundle.steps[2:]))
    assert any((bundle.folder / "result").iterdir()), again.stderr[-2000:]
    made = bundle.folder / "result" / "result"
    assert not made.exists() or made.read_text() == "made, gone on\n"


@pytest.mark.parametrize("target", OTHERS)
def test_every_other_way_leads_to_the_result(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle("lora-8b-aws", tmp_path, monkeypatch)
    recipe = recipe_of(bundle.job, target)
    lines = "\n".join((f"cd {target}", *recipe.before, *recipe.start, *recipe.result, *recipe.end))
    done = bundle.run(lines)
    assert "FAILED" not in done.stderr, done.stderr[-3000:]
    assert any((bundle.folder / "result").iterdir()), bundle.calls


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
        ["data:", "put", "the"],
        ["the", "bucket", "RIGHTFIT_BUCKET:"],
    ]
    assert found.returncode == 1
