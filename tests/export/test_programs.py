"""A README names every program that its lines call, check.sh looks for each, and no line has a word
that the reader must replace first."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typical_plans import WISHES, plan_values

from rightfit.exports import files_of, job_of, plan_document
from rightfit.exports.buckets import CLIENTS
from rightfit.exports.finding import CLOUD_CLIENTS

PROGRAMS = sorted({name for name, _ in (*CLIENTS.values(), *CLOUD_CLIENTS.values())})
ON_ALIBABA = {"provider": "alicloud", "region": "cn-shanghai", "instance_type": "ecs.gn7i-c8g1.2xlarge", "purchase": "on-demand"}
ON_TENCENT = {"provider": "tencent", "region": "ap-shanghai", "instance_type": "GN7.5XLARGE80", "purchase": "on-demand"}
MOVED = {"chat-8b in alicloud": ("chat-8b-aws", ON_ALIBABA), "chat-8b in tencent": ("chat-8b-aws", ON_TENCENT)}


def exported(name: str) -> dict[str, str]:
    base, place = MOVED.get(name, (name, {}))
    values = plan_values(base)
    option = {**values["options"][0], **place}
    return dict(files_of(job_of(plan_document({**values, "options": [option]})), "all"))


def ways(readme: str) -> dict[str, str]:
    """Each way of starting, "" the first, and its part of the README."""
    first, _, others = readme.partition("## Other ways to start it")
    others = others.partition("\n## ")[0]
    return {"": first, **{part.partition("/")[0]: part for part in others.split("### `")[1:]}}


@pytest.mark.parametrize("name", [*WISHES, *MOVED])
def test_every_program_that_is_called_is_named_and_looked_for(name: str) -> None:
    files, faults, called = exported(name), [], set()
    check = files["check.sh"]
    for way, part in ways(files["README.md"]).items():
        lines = "\n".join(re.findall(r"```(?:ba)?sh\n(.*?)```", part, re.DOTALL))
        named = way or next(iter(re.findall(r"^cd ([\w-]+)$", lines, re.MULTILINE)), "")
        looked = next(iter(re.findall(rf"^  {named}\)\n(.*?)^  ;;$", check, re.MULTILINE | re.DOTALL)), check)
        for program in PROGRAMS:
            if not re.search(rf"(?<![\w./-]){program} (?!>)", lines):
                continue
            called.add(program)
            if f"the program `{program}`" not in part:
                faults.append(f"{way or 'README'}: {program} is called and not named")
            if f"command -v {program} " not in looked:
                faults.append(f"{way or 'README'}: check.sh does not look for {program}")
    assert not faults, "\n".join(faults)
    provider = str(plan_values(MOVED.get(name, (name,))[0])["options"][0]["provider"])
    assert called or provider not in CLOUD_CLIENTS


TOOLS = ("sh", "cat", "cut", "head", "sed", "tr", "ls", "grep", "sha256sum", "date", "mktemp", "rm", "dirname", "basename", "python3")
SAYS = re.compile(r"(there|missing|not checked): .+|\d+ missing")


@pytest.mark.parametrize("name", ["lora-8b-aws", "full-8b-gcp", "bert-azure", "pretrain-1b-alicloud", "batch-8b-tencent"])
def test_a_machine_with_none_of_the_programs_is_told_what_is_missing_and_nothing_else(name: str, tmp_path: Path) -> None:
    """By every way: no line of a shell about programs or keys that are not there."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(Path(str(shutil.which(tool))).resolve() if tool != "python3" else shutil.which(tool) or "")
    (tools / "curl").write_text("#!/bin/sh\nexit 6\n")
    (tools / "curl").chmod(0o755)
    for path, text in exported(name).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    known = re.findall(r"^  ([\w-]+)\)$", (tmp_path / "check.sh").read_text(), re.MULTILINE)
    assert len(known) > 3
    for way in known:
        environment = {"PATH": str(tools), "HOME": str(tmp_path / "home")}
        done = subprocess.run(
            ["sh", "check.sh", way], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment, timeout=60
        )
        assert done.returncode == 1, way
        lines = (done.stdout + done.stderr).splitlines()
        assert not [line for line in lines if not SAYS.fullmatch(line)], way


@pytest.mark.parametrize("name", ["lora-8b-aws", "pretrain-1b-alicloud"])
def test_what_is_typed_for_a_spot_server_starts_the_programs_own_script(name: str) -> None:
    values = plan_values(name)
    option = {**values["options"][0], "purchase": "spot"}
    files = files_of(job_of(plan_document({**values, "options": [option]})), "all")
    script = re.search(r"sh start\.sh sh \.\./(\S+)", files["README.md"])
    assert script
    assert script[1] in files
