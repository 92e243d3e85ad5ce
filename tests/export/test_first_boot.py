"""The first boot of every cloud is run, with stand-ins for its programs: however the job ends, what
it made is kept and the server is given back."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest
from typical_plans import plan_values

from rightfit.errors import InputError
from rightfit.exports import ExportSettings, Job, bare_server, find_target, job_of, plan_document
from rightfit.exports.targets import provider_cli, terraform_alicloud, terraform_aws, terraform_azure, terraform_gcp, terraform_tencent

CLOUDS = {
    "aws": terraform_aws,
    "azure": terraform_azure,
    "gcp": terraform_gcp,
    "alicloud": terraform_alicloud,
    "tencent": terraform_tencent,
}
ENDS = {
    "aws": "shutdown -h now",
    "gcp": "shutdown -h now",
    "azure": "/deallocate?api-version",
    "alicloud": "DeleteInstance",
    "tencent": "TerminateInstances",
}
REPLY = (
    '{"access_token": "t", "value": "secret", "SecretData": "secret", "SecretString": "secret", "AccessKeyId": "k", "AccessKeySecret": "k", '
    '"SecurityToken": "k", "TmpSecretId": "k", "TmpSecretKey": "k", "Token": "k"}'
)
PROGRAM = r"""#!/bin/bash
name=$(basename "$0")
echo "$name $*" >> "$BOX/calls"
case "$name $*" in
  "sleep "*) [ "${2%%.*}" -lt 300 ] 2>/dev/null || exec /bin/sleep 0.3; exit 0 ;;
  "docker run "*rclone*)
    [ -z "${COPY_FAILS:-}" ] || exit 1
    from="${@: -2:1}" to="${@: -1}"
    [[ $from == :* ]] && from="$BOX/store/${from##*:}"
    [[ $to == :* ]] && to="$BOX/store/${to##*:}"
    mkdir -p "$from" "$to" && cp -r "$from/." "$to/" ;;
  "docker run "*google-cloud*|"docker run "*cloud-sdk*) exec "$BOX/bin/aws" ;;
  "docker run "*)
    [ -z "${PULL_FAILS:-}" ] || exit 125
    cp -r "$BOX/checkpoints" "$BOX/seen"
    echo made > "$BOX/checkpoints/result"
    exit "${JOB_CODE:-0}" ;;
  "docker "*|systemctl*|systemd-run*|shutdown*|tar*|pip3*|flock*) ;;
  "curl "*"/security-credentials/") echo a-role-of-theirs ;;
  "curl "*"/health"*) exit "${HEALTH_CODE:-0}" ;;
  *)
    tries=$(cat "$BOX/tries" 2>/dev/null || echo 0)
    echo $((tries + 1)) > "$BOX/tries"
    [ "$tries" -ge "${SECRET_FAILS:-0}" ] || exit 1
    echo '@REPLY@' ;;
esac
""".replace("@REPLY@", REPLY)
PROGRAMS = ("aws", "aliyun", "tccli", "curl", "docker", "flock", "pip3", "shutdown", "sleep", "systemctl", "systemd-run", "tar")


def job(name: str, provider: str, **settings: object) -> Job:
    """The typical plan of a name, on a server of another cloud."""
    values = plan_values(name)
    option = {**values["options"][0], "provider": provider, "nodes": 1, "purchase": "on-demand"}
    return job_of(plan_document({**values, "options": [option]}), settings=ExportSettings(**settings))  # type: ignore[arg-type]


class Box:
    """A server: its folders and programs."""

    def __init__(self, folder: Path, cloud: str) -> None:
        self.folder, self.cloud = folder, cloud
        (folder / "bin").mkdir()
        for program in PROGRAMS:
            (folder / "bin" / program).write_text(PROGRAM)
            (folder / "bin" / program).chmod(0o755)

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = self.folder / "first-boot.sh"
        path.write_text(script)
        words = {"PATH": f"{self.folder}/bin:/usr/bin:/bin", "BOX": str(self.folder), "RIGHTFIT_BUCKET": "mine/runs", "RIGHTFIT_VAULT": "v"}
        if self.cloud == "azure":
            words["RIGHTFIT_BUCKET"] = "https://acc.blob.core.windows.net/mine/runs"
        found = subprocess.Popen(
            ["bash", str(path)],
            env={**words, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )
        try:
            code = found.wait(timeout=240)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(found.pid, signal.SIGKILL)
        out, err = found.communicate()
        return subprocess.CompletedProcess([], code, out, err)

    @property
    def calls(self) -> str:
        return (self.folder / "calls").read_text()

    def kept(self, found: Job) -> Path:
        return self.folder / "store" / "mine" / "runs" / f"{found.name}-{found.plan_id}"


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Box:
    monkeypatch.setattr(bare_server, "FOLDER", str(tmp_path / "rightfit"))
    monkeypatch.setattr(bare_server, "CHECKPOINTS", str(tmp_path / "checkpoints"))
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return Box(tmp_path, params.get("cloud", "aws"))


@pytest.mark.parametrize("code", [0, 1, 137])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_run_keeps_its_result_and_gives_the_server_back_however_it_ends(cloud: str, code: int, box: Box) -> None:
    found = job("lora-8b-aws", cloud)
    (box.kept(found) / "data").mkdir(parents=True)
    (box.kept(found) / "data" / "rows.jsonl").write_text("{}")
    done = box.run(CLOUDS[cloud].boot(found), JOB_CODE=str(code))
    assert done.returncode == code, done.stderr
    assert (
        box.folder / "seen" / "data" / "rows.jsonl"
    ).exists()  # what lies in the plan's own folder of the bucket is there before the job
    assert (box.kept(found) / "result").read_text() == "made\n"
    assert ENDS[cloud] in box.calls
    assert box.calls.index("docker stop") < box.calls.index(ENDS[cloud])


@pytest.mark.parametrize("trouble", [{"PULL_FAILS": "1"}, {"SECRET_FAILS": "1000"}, {"RIGHTFIT_BUCKET": ""}])
@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_fails_before_the_job_ends_the_server_too(cloud: str, trouble: dict[str, str], box: Box) -> None:
    done = box.run(CLOUDS[cloud].boot(job("lora-8b-aws", cloud)), **trouble)
    if "SECRET_FAILS" not in trouble:  # the one secret is optional: models that everybody may fetch need none
        assert done.returncode != 0
    assert ENDS[cloud] in box.calls or "shutdown -h now" in box.calls


@pytest.mark.parametrize("cloud", ["aws", "azure", "gcp"])
def test_secrets_are_asked_for_until_the_role_may_read_them(cloud: str, box: Box) -> None:
    done = box.run(CLOUDS[cloud].boot(job("lora-8b-aws", cloud)), SECRET_FAILS="3")
    assert (done.returncode, "failed; again in" in done.stderr, "going on without" in done.stderr) == (0, True, False)


@pytest.mark.parametrize("cloud", ["alicloud", "tencent"])
def test_a_server_acts_as_the_role_that_it_was_given(cloud: str, box: Box) -> None:
    """Whatever the user calls it: to its secret, its bucket, and its own end."""
    found = job("lora-8b-aws", cloud)
    assert box.run(CLOUDS[cloud].boot(found)).returncode == 0
    assert "/security-credentials/a-role-of-theirs" in box.calls
    assert f"{found.name}-server" not in box.calls
    asked = [line for line in box.calls.splitlines() if line.startswith(("aliyun ", "tccli "))]
    assert len(asked) >= 2
    assert all("--ram-role-name a-role-of-theirs" in line or "--use-cvm-role" in line for line in asked)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_service_that_does_not_come_up_gives_its_server_back(cloud: str, box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare_server, "longest_start_s", lambda _job: 1)
    found = CLOUDS[cloud].boot(job("chat-8b-aws", cloud))
    done = box.run(found, HEALTH_CODE="7")
    assert (done.returncode, ENDS[cloud] in box.calls) == (1, True), done.stderr
    assert "docker logs" in box.calls


def test_a_service_that_comes_up_stays(box: Box) -> None:
    done = box.run(terraform_aws.boot(job("chat-8b-aws", "aws")))
    assert (done.returncode, "shutdown" in box.calls) == (0, False), done.stderr


def test_a_run_by_cloud_init_needs_a_place_that_survives(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="--bucket s3://"):
        find_target("cloud-init").files(job("qlora-8b", "verda"))
    found = job("qlora-8b", "aws", bucket="s3://mine/runs")
    monkeypatch.setattr(provider_cli, "SECRETS", str(box.folder))
    (box.folder / "HF_TOKEN").write_text("hf")
    done = box.run(bare_server.first_boot(found, provider_cli.ground(found)))
    assert done.returncode == 0, done.stderr
    assert (box.kept(found) / "result").exists()


@pytest.mark.parametrize("path", sorted(Path(bare_server.__file__).parent.glob("scripts/*.py")), ids=lambda path: path.stem)
def test_a_program_without_its_prose_is_the_same_program(path: Path) -> None:
    program = path.read_text(encoding="utf-8")
    short = bare_server.without_prose(program)
    assert len(short) <= len(program)
    assert ast.dump(without_docstrings(program)) == ast.dump(without_docstrings(short))


def test_packed_files_come_back_whole(tmp_path: Path) -> None:
    """Files as a first boot carries them, whatever they hold, and no letter that a shell or a
    template of the carrier would read."""
    wanted = {"train.json": '{"a": "${HOME} `x` %{y} \'EOF\'"}\n', "deep/run.sh": "#!/bin/sh\necho '$1'\n", "empty": ""}
    lines = bare_server.packed_files({f"{tmp_path}/{path}": text for path, text in wanted.items()})
    subprocess.run(["bash", "-e"], input=lines, text=True, check=True)
    assert {path: (tmp_path / path).read_text(encoding="utf-8") for path in wanted} == wanted
    carried = lines.partition("bash -e\n")[2]
    assert not set(carried) & set("$%`")


def without_docstrings(program: str) -> ast.AST:
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and len(node.body) > 1 and ast.get_docstring(node) is not None:
            del node.body[0]
    return tree
