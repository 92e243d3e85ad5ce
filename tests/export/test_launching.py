"""Launching: the cost is shown, the question asked, the right program run on the right files;
stand-ins for the programs note how they are called."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from stand_in_tools import put_on_the_path
from typical_plans import plan_values

from rightfit.cli import main
from rightfit.errors import FileInputError, InputError, UnavailableError
from rightfit.exports import ExportSettings, Job, job_of, plan_document
from rightfit.exports.launching import launch_of, money_at_risk, prepare, start
from rightfit.exports.skypilot_words import install

STAND_IN = '#!/bin/sh\necho "$PWD|$0|$*" | sed "s|$0|$(basename "$0")|" >> CALLS\nls -A "$PWD" >> CALLS\nexit ${CODE:-0}\n'


def job(name: str, **settings: object) -> Job:
    return job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`sky` and `terraform` on the path; gives the file that notes their calls."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    return put_on_the_path(tmp_path, STAND_IN, monkeypatch)


def saved(name: str, folder: Path) -> str:
    path = folder / "plan.json"
    path.write_text(json.dumps(plan_values(name)), encoding="utf-8")
    return str(path)


def test_a_trial_runs_under_probe_and_takes_its_server_down(tools: Path) -> None:
    found = launch_of(job("lora-8b-aws", trial=True))
    *_, words = found.commands
    assert words == ("sky", "launch", "--yes", "--down", "--cluster", job("lora-8b-aws").name, *words[6:-1], "task.yaml")
    by_hand = launch_of(job("qlora-8b", trial=True)).commands[0]
    assert by_hand[:3] == ("sky", "jobs", "launch")  # SkyPilot cannot take servers down there but by its controller
    task, plain = (yaml.safe_load(launch_of(job("lora-8b-aws", trial=trial)).files["task.yaml"]) for trial in (True, False))
    entered, run = task["run"].split("\n", 1)
    assert entered == '. "$HOME/job-env/bin/activate"'
    words, whole = (shlex.split(next(line for line in text.splitlines() if line.startswith("timeout "))) for text in (run, plain["run"]))
    assert words[:3] == ["timeout", "--signal=TERM", "--kill-after=300"]
    words = words[4:]
    at = words.index("--")
    assert words[:5] == ["rightfit", "probe", "--stop-when-stable", "--out", "/checkpoints/run.json"]
    assert {"method=lora", "n_gpus=1", "precision=bf16"} <= set(words[5:at])
    assert words[at + 1 :] == whole[4:]  # the very command of the whole run
    assert 'pip install "$RIGHTFIT_PACKAGE"' in task["setup"]
    assert task["envs"]["RIGHTFIT_PACKAGE"] == "rightfit[measure]"


@pytest.mark.parametrize(
    ("name", "tool", "text"),
    [
        ("chat-8b", "skypilot", "rightfit probe --url"),
        ("full-70b", "skypilot", "--nodes 1"),
        ("lora-8b-aws", "terraform", "started with skypilot"),
    ],
)
def test_what_no_trial_can_be_made_of_is_said(name: str, tool: str, text: str) -> None:
    if name == "full-70b" and job(name).num_nodes == 1:
        pytest.skip("the plan is of one server")
    with pytest.raises(InputError, match=text):
        launch_of(job(name, trial=True), tool=tool)


@pytest.mark.parametrize(
    ("name", "tool", "dry_run", "begin"),
    [
        ("qlora-8b", "skypilot", False, ["sky jobs launch --yes --name NAME"]),
        ("full-8b-gcp", "skypilot", False, ["sky launch --yes --cluster NAME"]),
        ("lora-8b-aws", "skypilot", False, ["sky jobs launch --yes --name NAME"]),
        ("lora-8b-aws", "skypilot", True, ["sky launch --dryrun --yes --cluster NAME"]),
        ("chat-8b-aws", "skypilot", False, ["sky serve up --yes --service-name NAME"]),
        ("qlora-8b", "skypilot", True, ["sky launch --dryrun --yes --cluster NAME"]),
        (
            "lora-8b-aws",
            "terraform",
            False,
            ["sh -c sh wait.sh new", "terraform init -input=false", "terraform apply -input=false -auto-approve"],
        ),
        ("lora-8b-aws", "terraform", True, ["terraform init -input=false", "terraform plan -input=false"]),
    ],
)
def test_the_commands_fit_the_plan(name: str, tool: str, dry_run: bool, begin: list[str], tools: Path) -> None:
    found = launch_of(job(name), tool=tool, dry_run=dry_run)
    begin = [words.replace("NAME", job(name).name) for words in begin]
    assert [" ".join(command).startswith(words) for command, words in zip(found.commands, begin, strict=True)] == [True] * len(begin)
    assert "apply" not in str(found.commands) or not dry_run


def test_secrets_go_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    for variable in ("VLLM_API_KEY", "RIGHTFIT_BUCKET"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(InputError, match=r"set AWS_ACCESS_KEY_ID in the environment"):
        launch_of(job("qlora-8b"))
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "key_very_secret")
    with pytest.raises(InputError, match=r"give --bucket s3://.* would be lost"):
        launch_of(job("qlora-8b"))
    monkeypatch.setenv("RIGHTFIT_BUCKET", "s3://mine/runs")
    words = launch_of(job("qlora-8b")).commands[0]
    assert words[words.index("--secret") :][:2] == ("--secret", "HF_TOKEN")
    assert "very_secret" not in " ".join(words)
    assert words[words.index("--env") :][:2] == ("--env", "RIGHTFIT_BUCKET")
    with pytest.raises(InputError, match="set VLLM_API_KEY in the environment"):
        launch_of(job("chat-8b-aws"))
    assert "VLLM_API_KEY=dry-run" in launch_of(job("chat-8b-aws"), dry_run=True).commands[0]


def test_the_bucket_is_told_without_its_folder_beside_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """SkyPilot mounts whole buckets; it is given by name what the user set, and by value
    what is cut from it."""
    address = "https://mine.blob.core.windows.net/box"
    monkeypatch.setenv("RIGHTFIT_BUCKET", f"{address}/runs/of us/")
    words = launch_of(job("bert-azure")).commands[-1]
    assert [words[number + 1] for number, word in enumerate(words) if word == "--env"] == [
        "RIGHTFIT_BUCKET",
        f"RIGHTFIT_BUCKET_ROOT={address}",
    ]
    monkeypatch.setenv("RIGHTFIT_BUCKET", "oss://mine/runs")
    with pytest.raises(InputError, match="SkyPilot cannot mount oss://mine/runs: it takes s3://NAME") as caught:
        launch_of(job("bert-azure"))
    assert "SkyPilot 无法挂载 oss://mine/runs" in caught.value.text("zh")


@pytest.mark.parametrize(
    ("name", "bucket", "told", "mounted"),
    [
        ("lora-8b-aws", "", "", False),  # one of the plan's own, which a dry run does not make
        ("lora-8b-aws", "", "s3://mine", True),
        ("lora-8b-aws", "s3://mine/runs", "", True),
        ("bert-azure", "", "", False),
        ("bert-azure", "", "https://mine.blob.core.windows.net/box/runs", True),
    ],
)
def test_a_dry_run_looks_for_a_bucket_only_where_there_can_be_one(
    name: str, bucket: str, told: str, mounted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SkyPilot asks for the bucket in a dry run too, and by its name would make it."""
    monkeypatch.setenv("RIGHTFIT_BUCKET", told) if told else monkeypatch.delenv("RIGHTFIT_BUCKET", raising=False)
    found = launch_of(job(name, bucket=bucket), dry_run=True)
    task = yaml.safe_load(found.files["task.yaml"])
    assert ("file_mounts" in task) == mounted
    [words] = found.commands
    given = [words[number + 1].partition("=")[0] for number, word in enumerate(words) if word == "--env"]
    assert given == [variable for variable, value in task["envs"].items() if value is None]
    assert "file_mounts" in yaml.safe_load(launch_of(job(name, bucket=bucket or "s3://mine")).files["task.yaml"])


def test_what_cannot_be_launched_is_said() -> None:
    with pytest.raises(InputError, match="choose one of skypilot, terraform"):
        launch_of(job("qlora-8b"), tool="ansible")
    with pytest.raises(InputError, match=r"no Terraform is written for verda; there is .*aws"):
        launch_of(job("qlora-8b"), tool="terraform")
    with pytest.raises(InputError, match="SkyPilot does not rent on tencent"):
        launch_of(job("batch-8b-tencent"))


@pytest.mark.parametrize("name", ["qlora-8b", "chat-8b", "full-70b"])
def test_money_is_the_plan_s(name: str) -> None:
    cost, money = plan_values(name)["options"][0]["cost"], money_at_risk(job(name))
    assert money["hourly_usd"] == cost["hourly_usd"]
    assert money["whole_usd"] == (cost.get("total_usd") or cost.get("monthly_usd"))
    assert money["most_usd"] >= money["whole_usd"]


def test_a_trial_run_shows_the_cost_and_keeps_nothing(tools: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = set(tmp_path.iterdir())
    path = saved("qlora-8b", tmp_path)
    assert main(["launch", path, "--dry-run"]) == 0
    out, err = capfd.readouterr()
    assert f"${plan_values('qlora-8b')['options'][0]['cost']['hourly_usd']:,.2f} per hour" in out
    assert "sky launch --dryrun" in out
    assert "nothing was rented" in err
    called = tools.read_text().splitlines()
    assert called[0].split("|")[2].startswith("launch --dryrun")
    assert "task.yaml" in called
    assert not Path(called[0].split("|")[0]).exists()
    assert set(tmp_path.iterdir()) - before == {tools, tmp_path / "plan.json"}


def test_yes_starts_and_the_folder_keeps_the_state(tools: Path, tmp_path: Path) -> None:
    path = saved("lora-8b-aws", tmp_path)
    folder = tmp_path / f"mine-{job('lora-8b-aws').plan_id}"
    assert main(["launch", path, "--with", "terraform", "--yes", "--name", "mine"]) == 0
    assert [line.split("|")[2].split()[0] for line in tools.read_text().splitlines() if "|" in line] == ["init", "apply"]
    (folder / "terraform.tfstate").write_text("state")
    assert main(["launch", path, "--with", "terraform", "--yes", "--name", "mine"]) == 0  # again: the state stays
    assert (folder / "terraform.tfstate").read_text() == "state"
    with pytest.raises(FileInputError, match="contains the launch state of another plan"):
        prepare(launch_of(job("qlora-8b")), folder)


def test_nobody_to_ask_is_an_error(tools: Path, tmp_path: Path) -> None:
    path = saved("qlora-8b", tmp_path)
    words = [sys.executable, "-c", "import sys; from rightfit.cli import main; sys.exit(main(sys.argv[1:]))", "launch", path]
    found = subprocess.run(words, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (found.returncode, "use --yes" in found.stderr, tools.exists()) == (2, True, False)


@pytest.mark.parametrize(("answer", "said", "ran"), [(b"n\n", "nothing was started", False), (b"y\n", "started; files", True)])
def test_a_person_is_asked(answer: bytes, said: str, ran: bool, tools: Path, tmp_path: Path) -> None:
    path = saved("qlora-8b", tmp_path)
    words = [sys.executable, "-c", "import sys; from rightfit.cli import main; sys.exit(main(sys.argv[1:]))", "launch", path]
    ours, theirs = pty.openpty()
    os.write(ours, answer)
    found = subprocess.run(
        words,
        cwd=tmp_path,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={**os.environ, "LANG": "C.UTF-8"},
    )
    os.close(ours)
    os.close(theirs)
    text = found.stdout.decode()
    assert (found.returncode, said in text, tools.exists()) == (0, True, ran), text
    assert text.index("cost:") < text.index("Start it?")


def test_a_missing_program_is_named_with_its_install_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    path = saved("lora-8b-aws", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["launch", path, "--dry-run"]) == 3
    assert capfd.readouterr().err.strip() == f"error: sky is not installed; get it: {install(job('lora-8b-aws'))}"
    assert main(["launch", path, "--with", "terraform", "--dry-run"]) == 3


def test_a_program_that_fails_is_passed_on(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODE", "5")
    with pytest.raises(UnavailableError, match="terraform init failed with exit code 5"):
        start(launch_of(job("lora-8b-aws"), tool="terraform"), folder=tmp_path / "job")
