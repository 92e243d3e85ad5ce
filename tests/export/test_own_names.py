"""Two plans share no job, volume or folder; the steps of a README may be repeated; and each way
says what it asks for, of data in the form that its program reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from kinds import REFUSED, kind_plan
from typical_plans import FURTHER, OTHER_KINDS, STARTED, WISHES, plan_values

from rightfit.exports import ExportSettings, Job, all_targets, files_of, job_of, plan_document, write_files
from rightfit.exports.bundle import FORMS, data_columns
from rightfit.exports.job import _NAME, MOST_OF_MODEL
from rightfit.exports.recipes import PRIVATE, brings, has_recipe, here, recipe_of
from rightfit.exports.stack import stack_name, stack_problem

PLANS = [*WISHES, *FURTHER, *OTHER_KINDS, *STARTED]
SECRETS = {"HF_TOKEN": "", "PATH": os.environ["PATH"]}


def job(of: str, **settings: object) -> Job:
    return job_of(plan_document(plan_values(of)), settings=ExportSettings(**settings))  # type: ignore[arg-type]


def ways(found: Job) -> list[str]:
    return [name for name, target in all_targets().items() if has_recipe(name) and not target.problem(found)]


def test_no_two_plans_have_one_name() -> None:
    names = {job(name).plan_id: job(name).name for name in PLANS}
    assert len(set(names.values())) == len(names)
    assert all(_NAME.fullmatch(name) and len(name) <= MOST_OF_MODEL + 7 for name in names.values()), names
    assert job("lora-8b-aws", name="mine").name == "mine"


@pytest.mark.parametrize("model", ["", "Qwen/Qwen2.5-7B", "/home/me/\u6a21\u578b", "C:\\models\\x", "01-ai/Yi-6B", "a/" + "x" * 90, "--"])
def test_any_model_gives_a_name_that_clouds_take(model: str) -> None:
    import dataclasses

    assert _NAME.fullmatch(dataclasses.replace(job("lora-8b-aws"), model=model).name)


@pytest.mark.parametrize("name", PLANS)
def test_a_way_names_nothing_that_another_plan_s_way_names(name: str) -> None:
    """Volumes, jobs and folders: every folder that a step fills has the plan's name in it, but
    for a bucket's or volume's own."""
    found = job(name)
    if stack_problem(found):
        return
    for way in ways(found):
        recipe = recipe_of(found, way)
        for line in (*recipe.before, *recipe.start, *recipe.result, *recipe.end):
            assert "rightfit-job" not in line
            for place in re.findall(r'RIGHTFIT_CHECKPOINTS/([^/" ]+)', line):
                assert found.plan_id in place, line
            if "kubectl" in line and "/checkpoints" in line:
                assert found.name in line


@pytest.mark.parametrize("name", ["lora-8b-aws", "full-8b-gcp", "vision", "xgboost-score-aws"])
def test_data_that_are_copied_twice_lie_there_once(name: str, tmp_path: Path) -> None:
    found = job(name)
    (tmp_path / "slurm").mkdir()
    for folder in brings(found):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one").write_text("x")
    steps = "\n".join(recipe_of(found, "slurm").before)
    for _ in range(2):
        subprocess.run(
            ["sh", "-euc", steps], cwd=tmp_path / "slurm", env={**SECRETS, "RIGHTFIT_CHECKPOINTS": str(tmp_path / "s")}, check=True
        )
    assert len(list((tmp_path / "s").rglob("one"))) == len(brings(found))
    copies = [line for line in recipe_of(found, "kubernetes").before if line.startswith("kubectl cp")]
    assert copies
    assert all(line.endswith(":/checkpoints") for line in copies)  # into a folder that is always there


@pytest.mark.parametrize("name", PLANS)
def test_the_form_of_the_data_is_told_and_looked_for(name: str, tmp_path: Path) -> None:
    """A folder with something else in it is not taken for the data."""
    found = job(name)
    if stack_problem(found) or "data" not in brings(found):
        return
    files = files_of(found, "all")
    told = data_columns(found)
    assert told, stack_name(found)
    assert f"the data set in the folder `data/` beside this file: {told}" in files["README.md"]
    write_files(
        {"check.sh": files["check.sh"], **{path: text for path, text in files.items() if path.endswith("reward.py")}}, tmp_path / "b"
    )
    (tmp_path / "b" / "data").mkdir()
    (tmp_path / "b" / "data" / "rows.jsonl").write_text('{"another": 1}\n')
    (tmp_path / "bin").mkdir()
    for program in ("curl", "docker", "aws", "az", "gcloud"):
        (tmp_path / "bin" / program).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / program).chmod(0o755)
    said = subprocess.run(
        ["sh", "check.sh"],
        cwd=tmp_path / "b",
        env={**SECRETS, "PATH": f"{tmp_path}/bin:{SECRETS['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    loose = FORMS.get(stack_name(found), ("", ""))[1] == "true" or ".npy" in told or found.option.layout.job == "score"
    assert loose or re.search(r"columns of the data|form of the data", said), said


@pytest.mark.parametrize("name", PLANS)
def test_check_asks_for_the_variables_of_the_way_that_is_named_once_and_in_words(name: str, tmp_path: Path) -> None:
    found = job(name)
    if stack_problem(found):
        return
    (tmp_path / "check.sh").write_text(files_of(found, "all")["check.sh"])
    (tmp_path / "bin").mkdir()
    for program in ("curl", "docker", "aws", "az", "gcloud"):
        (tmp_path / "bin" / program).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / program).chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    for way in ways(found):
        done = subprocess.run(["sh", "check.sh", way], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == bool(done.stderr)
        assert "parameter not set" not in done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == len(set(lines)), lines
        for variable, about in recipe_of(found, way).needs:
            asked = [line for line in lines if line.startswith(f"missing: {variable}: ")]
            assert len(asked) <= 1
            assert not asked or about in asked[0]
    wrong = subprocess.run(["sh", "check.sh", "nowhere"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert len(ways(found)) < 2 or (wrong.returncode, "usage: sh check.sh [" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("name", ["lora-8b-aws", "full-8b-gcp", "vision", "sdxl-lora", "xgboost-train-aws", "chat-8b-aws", "grpo"])
def test_on_a_machine_of_one_s_own_the_command_itself_comes_first(name: str) -> None:
    """With its packages, data and result beside the README; nothing is rented or billed."""
    values = plan_values(name)
    option = {**values["options"][0], "provider": PRIVATE, "region": "home", "purchase": "owned", "nodes": 1}
    found = job_of(plan_document({**values, "options": [option]}))
    readme = files_of(found, "all")["README.md"]
    first = readme.partition("## 3. Start it")[2].partition("```sh\n")[2].partition("```")[0].splitlines()
    if found.is_service:
        assert first[:2] == ["cd docker-compose", "docker compose up --detach --wait"]
    else:
        assert first[0] == f"cd {here(found)}"
        assert any(line.startswith("pip install ") for line in first)
        assert re.fullmatch(r"sh (train|run)\.sh", first[-2])
        assert f"`{found.name}/` beside this file" in readme
    assert not re.search(r"console of|is billed|given back|account on", readme + files_of(found, "all")["check.sh"])


@pytest.mark.parametrize("name", [name for name in PLANS if (WISHES | FURTHER | OTHER_KINDS | STARTED)[name].get("task") == "serve"])
def test_every_folder_that_starts_a_service_is_in_the_readme(name: str) -> None:
    files = files_of(job(name), "all")
    for folder in {path.partition("/")[0] for path in files if "/" in path}:
        assert f"`{folder}/`" in files["README.md"] or f"cd {folder}\n" in files["README.md"], folder
    if "slurm/job.sbatch" in files and "pip install" in files["README.md"]:
        assert "venv env" in files["slurm/job.sbatch"] or "exec vllm" not in files["slurm/job.sbatch"]


@pytest.mark.parametrize("name", [*REFUSED, "dpo"])
def test_an_export_of_everything_that_starts_nothing_says_so(name: str, tmp_path: Path) -> None:
    values = kind_plan(name)
    (tmp_path / "plan.json").write_text(json.dumps(values))
    words = [sys.executable, "-m", "rightfit", "export", "plan.json", "--to", "all", "--out", "out"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (2 if name in REFUSED else 0), done.stderr
    assert ("nothing here starts this plan" in done.stderr) == (name in REFUSED)
    assert "Traceback" not in done.stderr
