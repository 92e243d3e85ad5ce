"""What a user gives by hand from a plan to its running job: bucket, token and data, which are
options of the export or of the environment, and asked for by check.sh where they are missing."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from loaded import load_script
from typical_plans import plan_values

from rightfit.errors import InputError
from rightfit.exports import ExportSettings, Job, all_targets, files_of, job_of, plan_document
from rightfit.exports.bundle import check_script, set_line
from rightfit.exports.model_words import hub_id
from rightfit.exports.recipes import edits, has_recipe, recipe_of

pages = load_script("write_export_pages")
CLOUDS = ("aws", "gcp", "azure", "alicloud", "tencent", "runpod")
KNOWN_BY_NOBODY_ELSE = {
    ("terraform-alicloud", "alicloud"): {"TF_VAR_image_id"},
    ("terraform-tencent", "tencent"): {"TF_VAR_image_id"},
    ("cloud-init", "aws"): {"SERVER"},
    ("provider-cli", "alicloud"): {"IMAGE_ID"},
    ("provider-cli", "tencent"): {"IMAGE_ID"},
}
"""Ways that ask for more than bucket, token and data: two clouds have no public image with Docker
and the driver of cards, and cloud-init makes no server."""


@functools.cache
def job(cloud: str, settings: ExportSettings | None = None) -> Job:
    values = plan_values("lora-8b-runpod" if cloud == "runpod" else "lora-8b-aws")
    option = {**values["options"][0], "provider": cloud, "nodes": 1, "purchase": "on-demand"}
    return job_of(plan_document({**values, "options": [option]}), settings=settings)


def ways(cloud: str) -> list[str]:
    found = [name for name in all_targets() if has_recipe(name) and not all_targets()[name].problem(job(cloud))]
    assert found
    return found


@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_way_asks_for_more_than_bucket_token_and_data(cloud: str) -> None:
    for target in ways(cloud):
        asks_for_no_more(target, cloud)


def asks_for_no_more(target: str, cloud: str) -> None:
    found = edits(job(cloud), recipe_of(job(cloud), target))
    assert set(found["else"]) == KNOWN_BY_NOBODY_ELSE.get((target, cloud), set())
    assert all(len(found[kind]) <= 1 for kind in ("bucket", "token", "data"))
    check = check_script(job(cloud), recipe_of(job(cloud), target))
    for name in (*found["bucket"], *found["token"], *found["else"]):
        assert re.search(rf'lacks ["\']?{name}: ', check), name
    assert "lacks 'data: " in check


def test_what_the_export_was_told_is_asked_for_no_more() -> None:
    told = ExportSettings(bucket="oss://mine", data_path="/data", given=(("TF_VAR_image_id", 'm-"1$(reboot)`}'),))
    found = job("alicloud", told)
    line = set_line(found, "TF_VAR_image_id")
    done = subprocess.run(
        ["sh", "-c", f'{line}; printf %s "$TF_VAR_image_id"'], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    assert done.stdout == 'm-"1$(reboot)`}'
    check = check_script(found, recipe_of(found, "terraform-alicloud"))
    asked = [part for part in check.split("\n") if "TF_VAR_image_id" in part]
    done = subprocess.run(
        ["sh", "-c", "there() { echo there; }; lacks() { echo lacks; }\n" + "\n".join(asked)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "there\n"
    assert edits(found, recipe_of(found, "terraform-alicloud"))["data"] == ()


@pytest.mark.parametrize(
    ("model", "is_a_folder"),
    [
        ("./full/ft", True),
        ("/data/ft", True),
        ("~/ft", True),
        ("out/ft/checkpoint-30", True),
        (r"C:\models\ft", True),
        ("me/mine", False),
        ("gpt2", False),
    ],
)
def test_a_folder_is_not_asked_of_the_hub(model: str, is_a_folder: bool) -> None:
    """A run takes it to its server with the data; of a service the export says what to do."""
    values = plan_values("lora-8b-aws")
    mine = job_of(plan_document({**values, "workload": {**values["workload"], "model": model}}))
    recipe = recipe_of(mine, "skypilot")
    asked = check_script(mine, recipe)
    assert ("resolve/main/config.json" in asked) == (not is_a_folder and "/" in hub_id(mine))
    assert ("lacks 'model: put the model" in asked) == is_a_folder
    assert any("../model" in line and "/model" in line.rpartition("../model")[2] for line in recipe.before) == is_a_folder
    name = re.split(r"[\\/]", model)[-1]
    for target in ("trl", "axolotl", "llama-factory", "torchrun"):
        files = all_targets()[target].files(mine)
        assert (f"/checkpoints/model/{name}" in "".join(files.values())) == is_a_folder, target
    values = plan_values("chat-8b-aws")
    served = job_of(plan_document({**values, "workload": {**values["workload"], "model": model}}))
    files = files_of(served, "all")
    for path in ("README.md", "check.sh"):
        assert ("is a folder of this machine" in files[path]) == is_a_folder, path
    assert "/checkpoints/model" not in "".join(files.values())


ANSWER = json.dumps(
    {
        "AvailableZones": {"AvailableZone": [{"ZoneId": "y", "Status": "SoldOut"}, {"ZoneId": "z", "Status": "Available"}]},
        "VSwitches": {"VSwitch": [{"VSwitchId": "in-y", "ZoneId": "y"}, {"VSwitchId": "in-z", "ZoneId": "z"}]},
        "VpcId": "v",
        "SecurityGroups": {"SecurityGroup": []},
        "SecurityGroupId": "made",
        "InstanceTypeQuotaSet": [{"Zone": "y", "Status": "SOLD_OUT"}, {"Zone": "z", "Status": "SELL"}],
        "VpcSet": [{"VpcId": "v"}],
        "SubnetSet": [{"SubnetId": "in-z"}],
        "SecurityGroupSet": [],
        "SecurityGroup": {"SecurityGroupId": "made"},
    }
)
"""What the interfaces of Alibaba Cloud and Tencent Cloud give to each question, by the fields of
their references; a group is not there yet."""


@pytest.mark.parametrize(
    ("cloud", "told"),
    [
        ("alicloud", {"VSWITCH_ID": "in-z", "SECURITY_GROUP_ID": "made"}),
        ("tencent", {"ZONE": "z", "VPC_ID": "v", "SUBNET_ID": "in-z", "SECURITY_GROUP_ID": "made"}),
    ],
)
def test_a_network_is_found_where_the_server_is_sold(cloud: str, told: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "find.sh").write_text(all_targets()["provider-cli"].files(job(cloud))["find.sh"])
    for program in ("aliyun", "tccli"):
        (tmp_path / program).write_text(f"#!/bin/sh\necho \"$0 $*\" >> {tmp_path}/calls\ncat <<'EOF'\n{ANSWER}\nEOF\n")
        (tmp_path / program).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    for name, value in told.items():
        done = subprocess.run(["sh", "find.sh", name], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
        assert done.stdout == f"{value}\n"
        environment[name] = value
    calls = (tmp_path / "calls").read_text()
    assert job(cloud).option.instance_type in calls
    assert "SecurityGroupPolicySet" in calls or "--VpcId v --SecurityGroupName rightfit" in calls
    gone = subprocess.run(["sh", "find.sh", "IMAGE_ID"], capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    assert (gone.returncode, gone.stdout) == (2, "")


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_way_of_a_readme_sets_what_it_asks_for(cloud: str) -> None:
    """Not only the first: each block is done as it stands."""
    text = files_of(job(cloud), "all")["README.md"]
    first, others = text.split("## Other ways to start it")
    for target in ways(cloud):
        block = re.search(rf"### `{target}/`.*?```bash\n(.*?)```", others, re.DOTALL)
        assert block or f"cd {target}\n" in first, target
        for name, _ in recipe_of(job(cloud), target).needs if block else ():
            assert f"export {name}=" in block[1], (target, name)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_is_found_is_found_by_a_program(cloud: str, tmp_path: Path) -> None:
    """Each line is run with programs that answer, and with programs that know nothing."""
    for target in ways(cloud):
        is_found_by_a_program(target, cloud, tmp_path / target)


def is_found_by_a_program(target: str, cloud: str, tmp_path: Path) -> None:
    recipe = recipe_of(job(cloud), target)
    for knows in (True, False):
        folder = tmp_path / f"{knows}"
        (folder / ".ssh").mkdir(parents=True)
        if knows:
            (folder / ".ssh" / "id_ed25519.pub").write_text("ssh-ed25519 AAAA me\n")
        for program in ("aws", "gcloud", "az", "aliyun", "tccli"):
            (folder / program).write_text(f"#!/bin/sh\ncat <<'EOF'\n{ANSWER}\nEOF\n" if knows else "#!/bin/sh\nexit 1\n")
            (folder / program).chmod(0o755)
        (folder / "provider-cli").mkdir()
        for path, text in all_targets()[target].files(job(cloud)).items():
            (folder / "provider-cli" / path).write_text(text)
        for name, _ in recipe.needs:
            line = set_line(job(cloud), name)
            if "$(" not in line or "$(printf" in line:  # a word that is the same for everybody
                continue
            environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "VSWITCH_ID": "s", "VPC_ID": "v", "ZONE": "z"}
            environment.pop(name, None)
            words = ["sh", "-c", f'{line}; echo "<${name}>"']
            done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment, cwd=folder)
            assert (done.returncode == 0) == knows, (line, done.stderr)
            assert not knows or done.stdout != "<>\n"


@pytest.mark.parametrize("name", ["HF_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "lower", "A-B", ""])
def test_secrets_and_what_is_no_name_are_not_taken(name: str) -> None:
    with pytest.raises(InputError, match="NAME=VALUE"):
        ExportSettings(given=((name, "x"),))


def test_the_table_of_edits_is_what_the_ways_ask_for() -> None:
    before, after = pages.current_index()
    assert before == after, "docs/commands/export.md is behind; run scripts/write_export_pages.py"
    rows = [line for line in before.splitlines() if re.search(r"\| \d+ \|$", line)]
    assert len(rows) >= 15
