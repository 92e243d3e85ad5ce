"""A bundle of a typical plan in a folder of its own, whose README is run with stand-ins for clouds
and launchers (stand_ins.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from stand_ins import CLOUDS, JOBS, NOTED, NOTHING, PROGRAMS
from typical_plans import plan_values

from rightfit.exports import ExportSettings, Job, bare_server, files_of, job_of, plan_document, write_files
from rightfit.exports.stack import stack_name, stack_problem

FORMS = {
    "timm": ("train/a/1.png", "validation/a/1.png"),
    "diffusers": ("metadata.jsonl",),
    "megatron": ("tokens_text_document.idx",),
    "llama_factory": ("train.jsonl",),
}
"""What else must lie in the folder of the data."""
STARTED = f"import sys; sys.path.insert(0, '{Path(__file__).parent}'); import stand_ins; sys.exit(stand_ins.main())"
READERS = ("sky", "dstack", "kubectl")
"""Stand-ins that read their files by the programs' own readers, or by PyYAML."""
SECRETS = {
    "HF_TOKEN": "hf",
    "AWS_ACCESS_KEY_ID": "k",
    "AWS_SECRET_ACCESS_KEY": "k",
    "VLLM_API_KEY": "k",
    "RIGHTFIT_API_KEY": "k",
    "RIGHTFIT_VAULT": "v",
    "RIGHTFIT_VAULT_GROUP": "g",
    "TF_VAR_image_id": "i",
    "TF_VAR_ssh_public_key": "ssh-ed25519 k",
    "SSH_PUBLIC_KEY": "ssh-ed25519 k",
    "IMAGE_ID": "i",
    **dict.fromkeys(("VSWITCH_ID", "SUBNET_ID", "SECURITY_GROUP_ID", "ZONE", "VPC_ID", "RAM_ROLE", "CAM_ROLE"), "n"),
}


class Bundle:
    """A bundle in a folder of its own, with the stand-ins before everything else on the path."""

    def __init__(self, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: object) -> None:
        self.folder, self.box = folder / "bundle", folder / "box"
        (self.box / "bin").mkdir(parents=True)
        (self.box / "store").mkdir()
        (self.box / "image").mkdir()
        for program in (*PROGRAMS, *CLOUDS, *JOBS, *NOTHING):
            path = self.box / ("image" if program == "python3" else "bin") / program
            call = f'echo "{program} $*" >> {self.box}/calls'
            if program not in NOTHING:
                # Without what is installed beside Python a program starts in a quarter of the time,
                # and a shell that notes it in a twentieth.
                alone = "" if program in (*READERS, *JOBS) else "-S "
                noted = f'case "$1" in {"|".join(NOTED[program])}) {call}; exit ;; esac\n' if program in NOTED else ""
                call = f'{noted}exec {sys.executable} {alone}-c "{STARTED}" {program} "$@"'
            path.write_text(f"#!/bin/sh\n{call}\n")
            path.chmod(0o755)
        # Between the copies of a long run there are minutes; what sleeps so long sleeps on.
        (self.box / "bin" / "sleep").write_text('#!/bin/sh\n[ "${1%%.*}" -lt 300 ] || exec /bin/sleep 600\n')
        monkeypatch.setattr(bare_server, "FOLDER", str(self.box / "rightfit"))
        monkeypatch.setattr(bare_server, "CHECKPOINTS", str(self.box / "checkpoints"))
        self.job: Job = job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]
        write_files(files_of(self.job, "all"), self.folder)
        (self.folder / "data").mkdir()
        (self.folder / "data" / "rows.jsonl").write_text('{"text": "a b c d e f g h", "label": 1, "audio": "a.wav"}\n' * 64)

        for path in FORMS.get("" if stack_problem(self.job) else stack_name(self.job), ()):
            (self.folder / "data" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / "data" / path).write_text("{}\n")

    def run(self, lines: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Lines typed one after the other; those that fail are told at the end."""
        script = f"trap 'echo \"FAILED $BASH_COMMAND\" >&2' ERR\n{lines}\n"
        scheme = re.search(r"\$RIGHTFIT_BUCKET` in|keeps what the job makes, (\w+)://", (self.folder / "README.md").read_text())
        place = "mine.blob.core.windows.net/runs" if scheme and scheme[1] == "https" else "mine/runs"
        bucket = f"{(scheme[1] if scheme and scheme[1] else 's3')}://{place}"
        (self.box / "store" / place).mkdir(parents=True, exist_ok=True)
        words = {**SECRETS, "RIGHTFIT_BUCKET": bucket, "RIGHTFIT_CHECKPOINTS": str(self.box / "shared"), "RIGHTFIT_BOX": str(self.box)}
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "PYTHONPATH")}
        every = {**kept, **words, "PATH": f"{self.box}/bin:{os.environ['PATH']}", **environment}
        return subprocess.run(
            ["bash", "-uc", script],
            cwd=self.folder,
            env=every,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )

    @property
    def steps(self) -> list[str]:
        """The README's own way, block by block."""
        return re.findall(r"```sh\n(.*?)```", (self.folder / "README.md").read_text(), re.DOTALL)

    @property
    def others(self) -> dict[str, str]:
        """The README's block of each other way."""
        return dict(re.findall(r"### `([\w-]+)/`.*?```bash\n(.*?)```", (self.folder / "README.md").read_text(), re.DOTALL))

    def other(self, target: str) -> str:
        """The README's block of another way."""
        return self.others[target]

    @property
    def until_started(self) -> str:
        """What must be set, the look before, and the start."""
        return "\n".join(self.steps[: self._start + 1])

    @property
    def from_start(self) -> str:
        """The start and everything after it."""
        return "\n".join(self.steps[self._start :])

    @property
    def start(self) -> str:
        return self.steps[self._start]

    @property
    def _start(self) -> int:
        return next(number for number, step in enumerate(self.steps) if step.startswith("cd "))

    @property
    def calls(self) -> str:
        return (self.box / "calls").read_text() if (self.box / "calls").exists() else ""
