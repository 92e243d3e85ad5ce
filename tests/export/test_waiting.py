"""Every wait.sh is run, with stand-ins that answer as the programs were recorded
(tests/exporters/data/programs_on_nothing.json): the run that was begun is waited for, and no other;
a server that is gone is rented again or said to be lost; nothing waits for ever."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typical_plans import plan_values

from rightfit.exports import ExportSettings, Job, all_targets, find_target, job_of, plan_document
from rightfit.exports.finding import ROLES
from rightfit.exports.recipes import has_recipe, recipe_of
from rightfit.exports.targets.provider_cli import NEEDS

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "exporters" / "data" / "programs_on_nothing.json").read_text(encoding="utf-8")
)
CLOUDS = ("aws", "gcp", "azure", "alicloud", "tencent")
STORES = {"aws": "s3", "gcp": "gs", "azure": "https", "alicloud": "oss", "tencent": "cos"}
WAYS = [
    *(("terraform-" + cloud, cloud) for cloud in CLOUDS),
    *(("provider-cli", cloud) for cloud in CLOUDS),
    ("cloudformation", "aws"),
    ("cloud-init", "aws"),
    ("dstack", "aws"),
    ("runpod", "runpod"),
    *((target, "aws") for target in ("kubernetes", "kubeflow-trainjob", "jobset", "ray")),
]
CLUSTERS = ("kubernetes", "kubeflow-trainjob", "jobset", "ray")
RENTS_AGAIN = ("terraform-", "provider-cli", "cloudformation")
"""Ways whose wait.sh rents another server where one on spot was taken; dstack and clusters
do so by themselves."""

PROGRAM = r"""#!/bin/bash
# A seller and its store: $BOX/ended is what lies at the run's place, $BOX/servers the ids of what runs, $BOX/offline a network that is away.
name=$(basename "$0")
echo "$name $*" >> "$BOX/calls"
offline() { [ ! -f "$BOX/offline" ] || { echo "no route to host" >&2; exit "${1:-255}"; }; }
get() { # source, target
  offline 1
  case "$1" in */ended) ;; *) echo "asked for $1" >&2; exit 9 ;; esac
  [ -s "$BOX/ended" ] || exit "$(cat "$BOX/nothing.$name")"
  cp "$BOX/ended" "$2"
}
rent() { offline; echo i-2 > "$BOX/servers"; }
case "$name $*" in
  "sleep "*)
    line=$(head -n 1 "$BOX/turns" 2>/dev/null)
    sed -i 1d "$BOX/turns" 2>/dev/null
    echo turn >> "$BOX/slept"
    if [ -n "$line" ]; then eval "$line"; else /bin/sleep 0.2; fi ;;
  "aws s3 cp "*|"gcloud storage cp "*|"ossutil cp "*|"coscli cp "*|"azcopy copy "*) get "${@: -2:1}" "${@: -1}" ;;
  "aws s3 ls "*|"coscli ls "*|"azcopy list "*|"ossutil stat "*|"gcloud storage ls "*) echo "a list is asked for" >&2; exit 9 ;;
  "terraform output -raw bucket") echo "@ADDRESS@" ;;
  "terraform apply "*|"aws ec2 run-instances "*|"az vm create "*|"gcloud compute instances create "*|"aliyun ecs RunInstances "*|"tccli cvm RunInstances "*) rent ;;
  "az keyvault show "*|"az storage account show "*|"az role assignment create "*) offline; echo an-id ;;
  "aws cloudformation deploy "*) rent ;;
  "aws cloudformation "*) ;;
  "aws ec2 describe-instances "*|"az vm list "*|"gcloud compute instances list "*) offline; cat "$BOX/servers" ;;
  "aliyun ecs DescribeInstances "*)
    offline
    [ -s "$BOX/servers" ] && state=Running || state=Stopped
    echo '{"Instances": {"Instance": [{"InstanceId": "i-1", "Status": "'$state'"}]}, "TotalCount": 1}' ;;
  "tccli cvm DescribeInstances "*)
    offline
    [ -s "$BOX/servers" ] && state=RUNNING || state=STOPPED
    echo '{"TotalCount": 1, "InstanceSet": [{"InstanceId": "ins-1", "InstanceState": "'$state'"}], "RequestId": "r"}' ;;
  "dstack ps "*)
    offline
    [ -s "$BOX/servers" ] && state=running || state=failed
    echo '{"project":"main","runs":[{"id":"a","status":"running","run_spec":{"run_name":"another"}},{"id":"b","status":"'$state'","run_spec":{"run_name":"rightfit-job"}}]}' ;;
  "runpodctl pod list "*) offline; if [ -s "$BOX/servers" ]; then echo '[{"id": "p", "name": "rightfit-job", "desiredStatus": "RUNNING"}]'; else echo '[]'; fi ;;
  "ssh "*) offline; [ -s "$BOX/servers" ] || exit 255 ;;
  "kubectl get "*" name") offline 1; cat "$BOX/servers" ;;
  "kubectl get "*jsonpath*)
    offline 1
    [ ! -s "$BOX/ended" ] || read -r run code < "$BOX/ended"
    case "$code" in 0) said='@GOOD@' ;; "") said= ;; *) said='@BAD@' ;; esac
    echo "${run:-} $said" ;;
  "kubectl "*) ;;
  *) echo "no stand-in for $name $*" >&2; exit 9 ;;
esac
"""
PROGRAMS = (
    "aws",
    "az",
    "azcopy",
    "gcloud",
    "aliyun",
    "ossutil",
    "tccli",
    "coscli",
    "terraform",
    "dstack",
    "runpodctl",
    "ssh",
    "kubectl",
    "sleep",
)
SAYS = {"ray": ("SUCCEEDED", "FAILED"), "jobset": ("Completed ", "Failed ")}
ENVIRONMENT = {"RIGHTFIT_BUCKET": "s3://mine/runs", "SERVER": "me@203.0.113.7", "TF_VAR_project": "p", "PROJECT": "p", "ZONE": "z"}


def job(cloud: str, *, purchase: str = "on-demand", **settings: object) -> Job:
    """A fine-tuning on one server of a cloud."""
    values = plan_values("lora-8b-runpod" if cloud == "runpod" else "lora-8b-aws")
    option = {**values["options"][0], "provider": cloud, "nodes": 1, "purchase": purchase}
    return job_of(plan_document({**values, "options": [option]}), settings=ExportSettings(**settings))  # type: ignore[arg-type]


class Box:
    """A folder with the files of a way, and what its seller says."""

    def __init__(self, folder: Path, target: str, cloud: str, *, purchase: str = "on-demand") -> None:
        bucket = {"cloud-init": "s3://mine/runs"}.get(target, "")
        found = job(cloud, purchase=purchase, **({"bucket": bucket} if bucket else {}))
        self.folder, self.work = folder, folder / "work"
        self.scheme = "s3" if target in ("dstack", "runpod", "cloud-init", "cloudformation") else STORES.get(cloud, "s3")
        address = f"{self.scheme}://mine" if self.scheme != "https" else "https://mine.blob.core.windows.net/box"
        good, bad = SAYS.get(target, ("Complete SuccessCriteriaMet ", "FailureTarget Failed "))
        (folder / "bin").mkdir(parents=True)
        self.work.mkdir()
        text = PROGRAM.replace("@ADDRESS@", address).replace("@GOOD@", good).replace("@BAD@", bad).replace("rightfit-job", found.name)
        for program in PROGRAMS:
            (folder / "bin" / program).write_text(text)
            (folder / "bin" / program).chmod(0o755)
        for path, body in find_target(target).files(found).items():
            (self.work / path).write_text(body)
        for program, answer in RECORDED.items():
            (folder / f"nothing.{program}").write_text(str(answer["copy"]["exit"]))
        (folder / "servers").write_text("i-1\n")
        self.environment = {
            **ENVIRONMENT,
            "RIGHTFIT_BUCKET": address,
            **dict.fromkeys((*dict(NEEDS.get(cloud, ())), *ROLES.values()), "x"),
        }

    def sh(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        kept = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "BOX": str(self.folder), "HOME": str(self.folder), "LIMIT_S": "20"}
        every = {**self.environment, **kept, **environment}
        return subprocess.run(["sh", *words], cwd=self.work, env=every, capture_output=True, text=True, check=False, timeout=60)

    def begin(self) -> str:
        done = self.sh("wait.sh", "new")
        assert done.returncode == 0, done.stderr
        return (self.work / "run.id").read_text().strip()

    def ends(self, run: str, code: object) -> None:
        (self.folder / "ended").write_text(f"{run} {code}\n")

    def turns(self, *lines: str) -> None:
        """What happens at each pause between two looks."""
        (self.folder / "turns").write_text("".join(f"{line or ':'}\n" for line in lines))

    @property
    def calls(self) -> str:
        return (self.folder / "calls").read_text() if (self.folder / "calls").exists() else ""

    @property
    def looks(self) -> int:
        return len((self.folder / "slept").read_text().splitlines()) if (self.folder / "slept").exists() else 0


@pytest.fixture
def box(tmp_path: Path) -> Callable[..., Box]:
    return lambda target, cloud, **words: Box(tmp_path / f"{target}-{cloud}", target, cloud, **words)


def test_every_way_that_starts_a_run_and_returns_waits_by_this_script() -> None:
    """SkyPilot's `sky jobs logs` and `sky logs`, and `sbatch --wait`, stay until the run ends;
    every other line that waits is this script."""
    known = {target for target, _ in WAYS}
    for cloud in (*CLOUDS, "runpod"):
        found = job(cloud, bucket="s3://mine") if cloud == "aws" else job(cloud)
        for target in filter(has_recipe, all_targets()):
            if find_target(target).problem(found):
                continue
            recipe = recipe_of(found, target)
            assert not any(re.search(r"\b(until|while|kubectl wait --for)", line) for line in recipe.result if "files" not in line), target
            assert (target in known) == ("sh wait.sh" in recipe.result), target
            assert ("wait.sh" in find_target(target).files(found)) == (target in known)
            assert target not in known or any("sh wait.sh new" in line for line in recipe.start)


@pytest.mark.parametrize(("target", "cloud"), WAYS)
def test_the_end_of_the_run_is_seen_and_how_it_ended(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud)
    found.ends(found.begin(), 0)
    done = found.sh("wait.sh")
    assert (done.returncode, "ended well" in done.stdout, found.looks) == (0, True, 0), done.stderr
    found.ends((found.work / "run.id").read_text().strip(), 137)
    done = found.sh("wait.sh")
    assert (done.returncode, "failed (" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(("target", "cloud"), WAYS)
def test_nothing_and_an_earlier_run_s_end_do_not_end_the_wait(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud)
    run = found.begin()
    found.turns("", "echo 20200101T000000Z-1 0 > $BOX/ended", "", "", f"echo {run} 0 > $BOX/ended")
    done = found.sh("wait.sh")
    assert (done.returncode, found.looks) == (0, 5), done.stderr


@pytest.mark.parametrize(("target", "cloud"), WAYS)
def test_a_server_that_is_gone_without_a_word_is_lost(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud)
    run = found.begin()
    found.turns("", ": > $BOX/servers", *[""] * 40)
    done = found.sh("wait.sh")
    assert (done.returncode, f"of run {run} is gone" in done.stderr) == (3, True), done.stderr
    assert found.looks >= 4  # lists are behind: one look is not believed


@pytest.mark.parametrize(("target", "cloud"), WAYS)
def test_a_server_that_gave_itself_back_after_its_end_is_not_lost(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud)
    run = found.begin()
    found.turns("", f": > $BOX/servers; echo {run} 0 > $BOX/ended")
    assert found.sh("wait.sh").returncode == 0


@pytest.mark.parametrize(("target", "cloud"), [way for way in WAYS if way[0].startswith(RENTS_AGAIN)])
def test_after_a_spot_loss_another_server_is_rented_for_the_same_run(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud, purchase="spot")
    run = found.begin()
    found.turns(": > $BOX/servers", *[""] * 3, "", f"echo {run} 0 > $BOX/ended", *[""] * 40)
    done = found.sh("wait.sh")
    assert done.returncode == 0, done.stderr
    assert "renting another" in done.stderr
    assert (found.folder / "servers").read_text() == "i-2\n"
    assert (found.work / "run.id").read_text().strip() == run


@pytest.mark.parametrize(("target", "cloud"), WAYS)
def test_no_wait_is_longer_than_the_run_may_be(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud)
    found.begin()
    done = found.sh("wait.sh", LIMIT_S="1")
    assert (done.returncode, "has not ended in 1 s" in done.stderr) == (4, True), done.stderr
    [limit] = re.findall(r"LIMIT_S:-(\d+)", (found.work / "wait.sh").read_text())
    assert int(limit) > job(cloud).stop_after_h * 3600


@pytest.mark.parametrize(("target", "cloud"), WAYS)
def test_a_network_that_is_away_neither_ends_a_run_nor_loses_its_server(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud)
    run = found.begin()
    found.turns("touch $BOX/offline", *[""] * 6, f"rm $BOX/offline; echo {run} 0 > $BOX/ended")
    done = found.sh("wait.sh")
    assert (done.returncode, found.looks) == (0, 8), done.stderr


@pytest.mark.parametrize(("target", "cloud"), WAYS)
def test_a_second_start_waits_for_the_end_of_the_first(target: str, cloud: str, box: Callable[..., Box]) -> None:
    found = box(target, cloud)
    assert (found.sh("wait.sh").returncode, found.calls) == (2, "")  # nothing was begun
    first = found.begin()
    again = found.sh("wait.sh", "new")
    assert (again.returncode, f"run {first} still runs" in again.stderr) == (5, True), again.stderr
    found.ends(first, 0)
    assert found.begin() != first
    assert ("kubectl delete" in found.calls) == (target in CLUSTERS)


def test_what_a_clock_ended_is_said(box: Callable[..., Box]) -> None:
    found = box("terraform-aws", "aws")
    found.ends(found.begin(), "time")
    done = found.sh("wait.sh")
    assert (done.returncode, "time of run" in done.stderr) == (1, True)


def test_the_programs_say_nothing_of_nothing() -> None:
    """Why no list decides: with some it ends with 0 where nothing is."""
    assert {program for program, answer in RECORDED.items() if answer["list"]["exit"] == 0} >= {"coscli", "azcopy"}
    assert set(RECORDED) == {"aws", "gcloud", "ossutil", "coscli", "azcopy"}
    assert all(answer["version"] and answer["source"] for answer in RECORDED.values())
