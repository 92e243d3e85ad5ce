"""How a plan is started, followed and ended by hand: the lines that the bundle's README shows, its
check.sh looks for, and `rightfit launch` runs.

One builder for all of them, so that what is documented is what is done.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from rightfit.errors import InputError
from rightfit.exports import skypilot_words
from rightfit.exports.bare_server import OPTIONAL_SECRETS, RUN_PLACE
from rightfit.exports.buckets import (
    BUCKET,
    BUCKET_FILE,
    CHECKPOINTS,
    CLIENTS,
    COPIERS,
    PASSED_ON,
    SCHEMES,
    bucket_file,
    bucket_of,
    place_of,
    place_words,
    scheme_of,
    whole,
    whole_words,
)
from rightfit.exports.finding import CLOUD_CLIENTS, found_by, stored, vault_needs
from rightfit.exports.job import DATA_FOLDER, Job
from rightfit.exports.model_words import MODEL_FOLDER, hub_id, longest_start_s, own_folder
from rightfit.exports.quoting import comment, shell
from rightfit.exports.stack import stack_name, stack_of, stack_problem
from rightfit.exports.targets import cloudformation, dstack, inference_gateways, provider_cli
from rightfit.exports.waiting import READY_FILE, RUN, RUN_FILE, RUN_MARK, terraform_place
from rightfit.messages import Message
from rightfit.records import dataclass

WITHOUT_REPLY = "dry-run"
Command = tuple[str, ...]
Environment = Mapping[str, str]
LAUNCHERS = (
    "skypilot",
    "terraform",
    "dstack",
    "runpod",
    "cloudformation",
    "provider-cli",
    "kubernetes",
    "slurm",
    "cloud-init",
    "docker-compose",
)
PRIVATE = "private"
"""The provider of machines of the user's own."""
"""In the order of preference: the first that can express a plan is the one that its
README goes through."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Shell lines, run in the target's folder. `program`: what runs them, and how it is got;
    `needs`: (variable, what it holds) that must be set;
    `before`: secrets and data to where the job finds them; `start`; `result`: the result to the
    folder RESULT; `end`: everything given back."""

    target: str
    program: tuple[str, str]
    needs: tuple[tuple[str, str], ...]
    before: tuple[str, ...]
    start: tuple[str, ...]
    result: tuple[str, ...]
    end: tuple[str, ...]
    kept: str = ""


RESULT = "../result"
WAIT = "sh wait.sh"
"""Waits for the run that `sh wait.sh new` began, and says how it ended."""


def begins(job: Job, *start: str) -> tuple[str, ...]:
    """The lines of a start. Each run has an id, by which its end is told from that of an earlier
    one; while that still runs nothing else is started."""
    return start if job.is_service else (" && ".join((f"{WAIT} new", *start)),)


def recipe_of(job: Job, target: str) -> Recipe:
    """The recipe of a launch target that can express the job. KeyError for other targets."""
    if target == here(job):
        return _here(job)
    cloud = target.partition("-")[0] if target.startswith("terraform-") else target
    return _RECIPES[cloud](job)


def launcher_of(job: Job, written: Iterable[str]) -> str:
    """The launcher that the README goes through; "" where none is written."""
    names = set(written)
    if job.option.provider == PRIVATE and job.num_nodes == 1 and (here(job) or "docker-compose") in names:
        return here(job) or "docker-compose"
    order = [f"terraform-{job.option.provider}" if name == "terraform" else name for name in LAUNCHERS]
    return next((name for name in order if name in names), "")


def has_recipe(target: str) -> bool:
    """Whether a target starts a job."""
    return target in _RECIPES or target.startswith("terraform-")


# ------------------------------------------------------------------------------------------------
# what every recipe is made of


_ADDRESSES = {
    "s3": "s3://NAME/PATH",
    "gs": "gs://NAME/PATH",
    "oss": "oss://NAME/PATH",
    "cos": "cos://NAME/PATH",
    "https": "https://ACCOUNT.blob.core.windows.net/CONTAINER",
}


def secret_needs(job: Job, names: Iterable[str], scheme: str = "") -> tuple[tuple[str, str], ...]:
    """What each secret holds."""
    about = {
        "HF_TOKEN": "a Hugging Face token for gated models; leave it empty for others",
        "AWS_ACCESS_KEY_ID": "an access key that may write to the bucket",
        "AWS_SECRET_ACCESS_KEY": "its secret",
        BUCKET: f"the bucket that keeps what the job makes, {_ADDRESSES[scheme or scheme_of(job)]}",
    }
    return tuple((name, about.get(name, "a key of your own that clients of the service must send: openssl rand -hex 24")) for name in names)


def edits(job: Job, recipe: Recipe) -> dict[str, tuple[str, ...]]:
    """What the user gives by hand before a way starts a plan: for the bucket, the token, the data,
    and what else only he knows."""
    asked = [name for name, _ in recipe.needs if name not in OPTIONAL_SECRETS and not found_by(job, name)]
    kinds = {
        name: "bucket" if name in (BUCKET, "RIGHTFIT_CHECKPOINTS") else "token" if name in stack_of(job).secrets else "else"
        for name in asked
    }
    return {
        "bucket": tuple(name for name in asked if kinds[name] == "bucket"),
        "token": tuple(name for name in asked if kinds[name] == "token"),
        "data": tuple(f"{name}/" for name in brings(job)),
        "else": tuple(name for name in asked if kinds[name] == "else"),
    }


def uses_own_data(job: Job) -> bool:
    """Whether the job reads a data set that the user brings: not one of the hub, not one that
    it fetches itself."""
    return not job.is_service and job.settings.data_path == DATA_FOLDER


def brings(job: Job) -> dict[str, str]:
    """Folders beside the README that go to /checkpoints before the job starts: name -> what the
    user puts into it."""
    found = {"data": "the data set"} if uses_own_data(job) else {}
    if job.is_service:
        return found
    if "--pretrained-checkpoint" in stack_of(job).command:
        found["pretrained"] = "the weights in Megatron's own form, made with Megatron Bridge,"
    if name := own_folder(job):
        return {**found, "model": f"the model {comment(job.model)}, as {name},"}
    model = str(json.loads(stack_of(job).files.get("run.json", "{}")).get("model") or "")
    if model.startswith(MODEL_FOLDER):
        found["model"] = f"the model that scores, {model.removeprefix(MODEL_FOLDER)}"
    return found


def copies_up(job: Job, where: str, scheme: str = "") -> tuple[str, ...]:
    """Lines that copy what the user brings to the plan's folder of a bucket."""
    return tuple(_copy_folder(scheme or scheme_of(job), f"../{name}", f"{where}/{name}") for name in brings(job))


def copies_down(job: Job, where: str, scheme: str = "") -> tuple[str, ...]:
    """Lines that copy what the job made from there, of a training without its checkpoints."""
    scheme = scheme or scheme_of(job)
    line = _copy_folder(scheme, f"{where}/{job.name}", RESULT)
    return (f"mkdir -p {RESULT}", f"{line} {COPIERS[scheme].without}{AND_CHECKPOINTS}" if leaves_checkpoints(job) else line)


AND_CHECKPOINTS = "   # without --exclude: the checkpoints too, weights with the optimizer's state, to train on"


def leaves_checkpoints(job: Job) -> bool:
    """Whether the job's folder holds checkpoints beside its result; Megatron's checkpoints are
    its result."""
    return not job.is_service and job.task not in ("batch", "prepare")


def copied_here(job: Job, source: str) -> str:
    """A line that copies what a job made out of a folder, of a training without its
    checkpoints."""
    if not leaves_checkpoints(job):
        return f"cp -r {source}/. {RESULT}/"
    chosen = " ".join(f"! -name {shell([name])}" for name in CHECKPOINTS)
    line = f"find {source} -mindepth 1 -maxdepth 1 {chosen} -exec cp -r {{}} {RESULT}/ \\;"
    return line + AND_CHECKPOINTS.replace("--exclude", "! -name")


def _copy_folder(scheme: str, source: str, to: str) -> str:
    words = COPIERS[scheme].folder
    return words.replace('"$1"', source).replace('"$2"', to).replace('"$1/"', f"{source}/").replace('"$2/"', f"{to}/")


def client(job: Job) -> tuple[tuple[str, str], ...]:
    """The program that copies to the job's bucket."""
    return (CLIENTS[scheme_of(job)],) if not job.is_service else ()


def exports_model(job: Job) -> tuple[str, ...]:
    """Lines that make the file which ONNX Runtime serves, where the launcher's folder goes to the
    server as it is and none lies in it yet."""
    if stack_name(job) != "onnx_service":
        return ()
    return (f"test -f model.onnx || optimum-cli export onnx --model {shell([hub_id(job)])} .   # pip install optimum-onnx",)


# ------------------------------------------------------------------------------------------------
# SkyPilot


def sky_commands(job: Job, *, dry_run: bool, environment: Environment | None = None) -> tuple[Command, ...]:
    """A service, a managed job, or a plain cluster. A dry run chooses the server and stops there.

    Values never stand in a command line: SkyPilot takes them from the environment, where
    `environment` says that they are (all, without one).
    """
    words = _given(job, dry_run=dry_run, environment=environment)
    if dry_run:
        return (("sky", "launch", "--dryrun", "--yes", "--cluster", job.name, *words, "task.yaml"),)
    if job.is_service:
        return (("sky", "serve", "up", "--yes", "--service-name", job.name, *words, "task.yaml"),)
    if skypilot_words.managed(job):
        return (("sky", "jobs", "launch", "--yes", "--name", job.name, *words, "task.yaml"),)
    if job.settings.trial:  # a plain cluster, taken down behind the run: a trial is not brought back when a spot server is taken
        return (("sky", "launch", "--yes", "--down", "--cluster", job.name, *words, "task.yaml"),)
    return (("sky", "launch", "--yes", "--cluster", job.name, *words, "task.yaml"),)


def sky_queued(job: Job) -> str:
    """A shell line that hands the task to SkyPilot's controller, whatever it is paid by, and does
    not stay."""
    words = ("sky", "jobs", "launch", "--yes", "--detach-run", "--name", job.name, *_given(job, dry_run=False, environment=None))
    return f"{shell(words)}{_passed()} task.yaml"


def _passed() -> str:
    return " " + " ".join(f"${{{name}:+--env {name}}}" for name in PASSED_ON)


def bucket_is_there(job: Job, environment: Environment) -> bool:
    """Whether a dry run can look for the bucket: SkyPilot asks for it even then."""
    return bool(job.settings.bucket or (skypilot_words.bucket_is_told(job) and environment.get(BUCKET)))


def _given(job: Job, *, dry_run: bool, environment: Environment | None) -> Command:
    """Secrets and variables by their names; the bucket without its folder by its value
    where that is known."""
    found: list[str] = []
    address = _ADDRESSES["s3" if skypilot_words.copies(job) else scheme_of(job)]
    place = skypilot_words.bucket_variables(job) if skypilot_words.bucket_is_told(job) else ()
    for flag, names in (("--secret", skypilot_words.secrets(job)), ("--env", place)):
        for name in names:
            found += [flag, _by_name(name, address, makes=skypilot_words.bucket_is_made(job), dry_run=dry_run, environment=environment)]
    if environment is not None:
        found += [word for name in PASSED_ON if environment.get(name) and not job.is_service for word in ("--env", name)]
    return tuple(found)


def _by_name(name: str, address: str, *, makes: bool, dry_run: bool, environment: Environment | None) -> str:
    if name in (BUCKET, skypilot_words.ROOT) and makes and environment is not None and not environment.get(BUCKET) and not dry_run:
        return name  # made before the start, by bucket.sh
    if name == skypilot_words.ROOT and environment is not None:
        told = environment.get(BUCKET) or address.replace("NAME", WITHOUT_REPLY)
        if BUCKET in environment and (problem := skypilot_words.address_problem(told)):
            raise InputError(Message("export.not_expressed", target="skypilot", problem=problem, instead=""), field="bucket")
        return f"{name}={whole(bucket_of(told))}"
    if environment is None or name in environment:
        return name
    if dry_run:
        return f"{name}={address.replace('NAME', WITHOUT_REPLY)}" if name == BUCKET else f"{name}={WITHOUT_REPLY}"
    if name in OPTIONAL_SECRETS:
        return f"{name}="
    if name == BUCKET:
        raise InputError(
            Message("export.bucket_missing", address=address, variable=BUCKET),
            field="bucket",
        )
    raise InputError(Message("export.secret_missing", variable=name), field="with")


def _skypilot(job: Job) -> Recipe:
    [dry], [*_, start] = sky_commands(job, dry_run=True), sky_commands(job, dry_run=False)
    passed = "" if job.is_service else _passed()
    where = place_words(job)
    made = (BUCKET_LINE,) if skypilot_words.bucket_is_made(job) else ()
    whole_bucket = (
        (f"{skypilot_words.ROOT}={whole_words(job)} && export {skypilot_words.ROOT}   # SkyPilot mounts a bucket as a whole",)
        if skypilot_words.bucket_is_told(job) and skypilot_words.mounts(job)
        else ()
    )
    follow = f"sky jobs logs --name {job.name}" if skypilot_words.managed(job) else f"sky logs {job.name}"
    end = f"sky down --yes {job.name}"
    if skypilot_words.managed(job):
        end = f"sky jobs cancel --yes --name {job.name}"
    if job.is_service:
        follow, end = f"sky serve status {job.name}", f"sky serve down --yes {job.name}"
    needs = secret_needs(job, _names(job))
    controller = f"   # {found}" if (found := skypilot_words.controller_words(job)) else ""
    return Recipe(
        "skypilot",
        ("sky", f"{skypilot_words.install(job)} && sky check {' '.join(skypilot_words.clouds(job))}{controller}"),
        needs,
        (*made, *whole_bucket, *exports_model(job), *(() if job.is_service else copies_up(job, where))),
        (f"{shell(dry)}   # chooses the server and rents nothing", f"{shell(start[:-1])}{passed} {start[-1]}"),
        (follow,) if job.is_service else (follow, *copies_down(job, where)),
        (end,),
        kept="" if job.is_service else where,
    )


def _names(job: Job) -> tuple[str, ...]:
    place = (BUCKET,) if skypilot_words.bucket_is_told(job) and not skypilot_words.bucket_is_made(job) else ()
    return (*skypilot_words.secrets(job), *place)


BUCKET_LINE = f'export {BUCKET}="${{{BUCKET}:-$(sh {BUCKET_FILE} || echo none://refused)}}"'
"""The bucket of the plan, where the environment names none: made in the account, or nothing that
anything could be copied to."""


# ------------------------------------------------------------------------------------------------
# dstack


def _dstack(job: Job) -> Recipe:
    where = place_words(job)
    passed = "" if job.is_service else " " + " ".join(f"${{{name}:+-e {name}}}" for name in PASSED_ON)
    run = "" if job.is_service else f' -e {RUN}="$(cat {RUN_FILE})"'
    return Recipe(
        "dstack",
        ("dstack", 'pip install "dstack[all]==0.22.5"   # a server: dstack server'),
        secret_needs(job, dstack.secrets(job), "s3"),
        exports_model(job) if job.is_service else copies_up(job, where, "s3"),
        begins(job, "dstack apply --yes -f fleet.dstack.yml", f"dstack apply --yes --detach{run}{passed} -f run.dstack.yml"),
        (f"dstack logs {job.name}",) if job.is_service else (WAIT, *copies_down(job, where, "s3")),
        (f"dstack stop --yes {job.name} || true", f"dstack fleet delete --yes {job.name}"),
        kept="" if job.is_service else where,
    )


# ------------------------------------------------------------------------------------------------
# RunPod


def _runpod(job: Job) -> Recipe:
    where = place_words(job)
    return Recipe(
        "runpod",
        ("runpodctl", "https://github.com/runpod/runpodctl"),
        secret_needs(job, provider_cli.secrets(job, stack_of(job)), "s3"),
        () if job.is_service else copies_up(job, where, "s3"),
        begins(job, "sh launch.sh"),
        (f"runpodctl pod list --name {job.name}",) if job.is_service else (WAIT, *copies_down(job, where, "s3")),
        ("sh end.sh",),
        kept="" if job.is_service else where,
    )


# ------------------------------------------------------------------------------------------------
# bare servers


BUCKET_RESOURCES = {
    "aws": "aws_s3_bucket.checkpoints",
    "gcp": "google_storage_bucket.checkpoints",
    "azure": "azurerm_storage_container.checkpoints",
    "alicloud": "alicloud_oss_bucket.checkpoints",
    "tencent": "tencentcloud_cos_bucket.checkpoints",
}


def _terraform(job: Job) -> Recipe:
    clients = (
        ((CLIENTS_RANGE, "the addresses whose clients may reach the service: yours alone where you give none"),) if job.is_service else ()
    )
    needs = [*secret_needs(job, stack_of(job).secrets), *vault_needs(job), *_TERRAFORM_NEEDS.get(job.option.provider, ()), *clients]
    init, apply = (shell(command) for command in terraform_commands(dry_run=False))
    vault = (
        ('export TF_VAR_key_vault_id="$(az keyvault show --name "$RIGHTFIT_VAULT" --query id --output tsv)"',)
        if job.option.provider == "azure"
        else ()
    )
    first = (
        f"{apply} -target={BUCKET_RESOURCES[job.option.provider]}   # the bucket alone, so that the data lie in it before the server starts",
    )
    where = terraform_place(job)
    up = copies_up(job, where)
    begin = (*stored(job), *vault, init, *((*(() if job.settings.bucket else first), *up) if up else ()))
    plan = "terraform plan -input=false   # shows what would be made"
    minutes = math.ceil(longest_start_s(job) / 60)
    asked = f"terraform output   # after at most {minutes} min of loading, `sh ../check.sh request http://ADDRESS` sends service_address one request"
    result: tuple[str, ...] = (asked,) if job.is_service else (WAIT, *copies_down(job, where))
    target = f"terraform-{job.option.provider}"
    install = "https://developer.hashicorp.com/terraform/install"
    return Recipe(target, ("terraform", install), tuple(needs), begin, (*begins(job), plan, apply), result, terraform_end(job), kept=where)


ALL_BUT_THE_BUCKET = {
    "aws": ("aws_vpc.net", "aws_iam_role.server"),
    "gcp": ("google_compute_network.net", "google_service_account.server"),
    "azure": ("azurerm_resource_group.all",),
    "alicloud": ("alicloud_vpc.net", "alicloud_ram_role.server", "alicloud_ram_policy.server"),
    "tencent": (
        "tencentcloud_vpc.net",
        "tencentcloud_security_group.server",
        "tencentcloud_cam_role.server",
        "tencentcloud_cam_policy.server",
    ),
}
"""Provider -> resources with which all goes that stands on them, and that is everything but the
bucket and its settings."""


def terraform_end(job: Job) -> tuple[str, ...]:
    """Everything given back but the bucket, which holds the result and is open to a later run."""
    if job.is_service:
        return ("terraform destroy -auto-approve",)
    targets = " ".join(f"-target={name}" for name in ALL_BUT_THE_BUCKET[job.option.provider])
    return (f"terraform destroy -auto-approve {targets}   # all but the bucket; without -target it goes too, once it is empty",)


CLIENTS_RANGE = "TF_VAR_client_cidr"
_TERRAFORM_NEEDS = {
    "azure": (("TF_VAR_ssh_public_key", "a public SSH key of yours, the words of the .pub file"),),
    "gcp": (("TF_VAR_project", "the project that pays"),),
    "alicloud": (("TF_VAR_image_id", "an image with Docker, and with the driver and container toolkit of the cards"),),
    "tencent": (("TF_VAR_image_id", "an image with Docker and pip, and with the driver and container toolkit of the cards"),),
}


def terraform_commands(*, dry_run: bool) -> tuple[Command, ...]:
    """Terraform's own question is answered here: `rightfit launch` has asked before, and the README
    shows the plan before."""
    last = ("terraform", "plan", "-input=false") if dry_run else ("terraform", "apply", "-input=false", "-auto-approve")
    return (("terraform", "init", "-input=false"), last)


def _cloudformation(job: Job) -> Recipe:
    where = place_words(job)
    made = () if job.settings.bucket or job.is_service else (BUCKET_LINE,)
    stack = f"--stack-name {job.name} --region {shell([job.option.region])}"
    outputs = f"aws cloudformation describe-stacks {stack} --query 'Stacks[0].Outputs'"
    result = (outputs,) if job.is_service else (WAIT, *copies_down(job, where))
    before = (*stored(job), *made, *(() if job.is_service else copies_up(job, where)))
    end = (f"aws cloudformation delete-stack {stack}", f"aws cloudformation wait stack-delete-complete {stack}")
    needs = secret_needs(job, stack_of(job).secrets)
    start = begins(job, cloudformation.deploy_words(job))
    return Recipe("cloudformation", CLOUD_CLIENTS["aws"], needs, before, start, result, end, kept="" if job.is_service else where)


def _provider_cli(job: Job) -> Recipe:
    provider = job.option.provider
    where = place_words(job)
    needs = [*secret_needs(job, stack_of(job).secrets), *vault_needs(job), *provider_cli.NEEDS[provider]]
    made = bucket_file(job)
    if not job.is_service and not job.settings.bucket and not made:
        needs.append((BUCKET, f"the bucket that keeps what the job makes, {_ADDRESSES[SCHEMES[provider]]}"))
    export = (
        (BUCKET_LINE,)
        if made
        else (f"export {BUCKET}={shell([job.settings.bucket])}",)
        if job.settings.bucket and not job.is_service
        else ()
    )
    result = () if job.is_service else (WAIT, *copies_down(job, where))
    before = (*stored(job), *export, *(() if job.is_service else copies_up(job, where)))
    return Recipe(
        "provider-cli",
        CLOUD_CLIENTS[provider],
        tuple(dict(needs).items()),
        before,
        begins(job, "bash launch.sh"),
        result,
        ("sh end.sh",),
        kept="" if job.is_service else where,
    )


def _cloud_init(job: Job) -> Recipe:
    where = place_words(job)
    secrets = (*stack_of(job).secrets, *provider_cli.bucket_secrets(job))
    needs = (
        *secret_needs(job, secrets),
        ("SERVER", "user@address of the server, once the seller has made it with user-data.yaml as its user data"),
    )
    put = tuple(
        f'printf %s "${{{name}:- }}" | ssh "$SERVER" "sudo mkdir -p -m 700 /etc/rightfit/secrets && sudo tee /etc/rightfit/secrets/{name} >/dev/null"'
        for name in secrets
    )
    if not job.is_service:
        put = (*begins(job), f'ssh "$SERVER" "sudo mkdir -p /etc/rightfit && sudo tee {RUN_PLACE} >/dev/null" < {RUN_FILE}', *put)
    result = () if job.is_service else (WAIT, *copies_down(job, where))
    up = () if job.is_service else copies_up(job, where)
    end = (
        ()
        if job.option.provider == PRIVATE
        else (
            f"# delete the server in the console of {comment(job.option.provider)}, or by its API: a server that is only switched off may go on costing",
        )
    )
    return Recipe("cloud-init", ("ssh", "a server with user-data.yaml"), needs, up, put, result, end, kept="" if job.is_service else where)


# ------------------------------------------------------------------------------------------------
# clusters


CLUSTER_FILES = {
    "kubernetes": ("objects.yaml", "job"),
    "kubeflow-trainjob": ("trainjob.yaml", "trainjob"),
    "jobset": ("jobset.yaml", "jobset"),
    "ray": ("ray.yaml", "rayjob"),
}
"""Target on a cluster -> its file, and the kind of the run in it."""
SERVICE_FILES = {
    "kubernetes": ("objects.yaml", "deployment"),
    "kserve": ("inference-service.yaml", "inferenceservice"),
    "leaderworkerset": ("group.yaml", "leaderworkerset"),
    "ray": ("ray.yaml", "rayservice"),
    "dynamo": ("dynamo.yaml", "dynamographdeployment"),
}
"""Target on a cluster -> its file, and the kind of the service in it."""
READY = f"sh {READY_FILE}"
KUBECTL = ("kubectl", "https://kubernetes.io/docs/tasks/tools/")


def _kept_secrets(job: Job, secrets: Sequence[str]) -> tuple[str, ...]:
    """A line that makes the job's Secret in the cluster."""
    literals = " ".join(f'--from-literal={name}="${{{name}}}"' for name in secrets)
    return (f"kubectl create secret generic {job.name} {literals} --dry-run=client -o yaml | kubectl apply -f -",) if secrets else ()


def _llm_d(job: Job) -> Recipe:
    secrets = stack_of(job).secrets
    end = (f"helm uninstall --ignore-not-found {job.name} {job.name}-pool",)
    program = ("helm", "https://helm.sh/docs/intro/install, and kubectl")
    return Recipe(
        "llm-d", program, secret_needs(job, secrets), _kept_secrets(job, secrets), inference_gateways.llm_d_commands(job), (READY,), end
    )


def _cluster(job: Job, target: str) -> Recipe:
    path, kind = SERVICE_FILES[target] if job.is_service else CLUSTER_FILES[target]
    secrets = stack_of(job).secrets if target != "dynamo" else ("HF_TOKEN",)  # its front has no key
    made, needs = _kept_secrets(job, secrets), secret_needs(job, secrets)
    start: tuple[str, ...] = (f"kubectl apply -f {path}",)
    end: tuple[str, ...] = (f"kubectl delete --ignore-not-found -f {path}",)
    if job.is_service:
        port = stack_of(job).port
        forward = f"# kubectl port-forward service/{job.name} {port}:{port}, and in another window `sh ../check.sh request http://127.0.0.1:{port}`"
        return Recipe(target, KUBECTL, needs, made, start, (READY, *((forward,) if target == "kubernetes" else ())), end)
    mark = f'kubectl annotate --overwrite {kind}/{job.name} {RUN_MARK}="$(cat {RUN_FILE})"'
    start = begins(job, *start, mark)
    if job.settings.bucket:
        where = place_words(job)
        up, down = copies_up(job, where), copies_down(job, where)
    else:
        where, pod = f"the volume claim {job.name}", f"{job.name}-files"
        files = "files.yaml" if target == "kubernetes" else "../kubernetes/files.yaml"
        open_it = (f"kubectl apply -f {files}", f"kubectl wait --for=condition=ready --timeout=10m pod/{pod}")
        close = f"kubectl delete pod {pod} --wait"
        copies = [f"kubectl cp ../{name} {pod}:/checkpoints" for name in brings(job)]
        up = (*open_it, *copies, close) if copies else ()
        place = f"/checkpoints/{job.name}"
        chosen = "|".join(f"{name.replace('*', '.*')}" for name in CHECKPOINTS)
        each = f"kubectl exec {pod} -- ls {place} | grep -vxE '{chosen}' | xargs -I {{}} kubectl cp {pod}:{place}/{{}} {RESULT}/{{}}"
        whole_of = AND_CHECKPOINTS.replace("--exclude", "grep")
        take = (f"mkdir -p {RESULT}", each + whole_of) if leaves_checkpoints(job) else (f"kubectl cp {pod}:{place} {RESULT}",)
        down = (*open_it, *take, close)
        end = (*end, f"kubectl delete --ignore-not-found -f {files}   # the volume too: what is on it is gone then")
    return Recipe(target, KUBECTL, needs, (*made, *up), start, (WAIT, *down), end, kept=where)


def _slurm(job: Job) -> Recipe:
    needs = secret_needs(job, stack_of(job).secrets)
    if job.is_service:
        return Recipe(
            "slurm",
            ("sbatch", "a login node of the cluster"),
            needs,
            (),
            ("sbatch job.sbatch",),
            ("squeue --me",),
            (f"scancel --name={job.name}",),
        )
    needs = (*needs, ("RIGHTFIT_CHECKPOINTS", "a folder that all nodes see, with room for data and checkpoints"))
    own = f'"$RIGHTFIT_CHECKPOINTS/{place_of(job)}'
    up = (f'mkdir -p {own}"', *(f'mkdir -p {own}/{name}" && cp -r ../{name}/. {own}/{name}/"' for name in brings(job)))
    start = (f'rm -f succeeded; RIGHTFIT_CHECKPOINTS={own}" sbatch --wait job.sbatch && touch succeeded',)
    lines = (f"  mkdir -p {RESULT}", f"  {copied_here(job, f'{own}/{job.name}' + chr(34))}")
    down = ("if [ -e succeeded ]; then", *lines, f'else echo "the job failed: see {job.name}-*.log" >&2; fi')
    end = (f"scancel --name={job.name}",)
    return Recipe("slurm", ("sbatch", "a login node of the cluster"), needs, up, start, down, end, kept=f'{own}"')


def _compose(job: Job) -> Recipe:
    """On a server that is there: Docker, and for its address a name and ports 80 and 443."""
    secrets = stack_of(job).secrets
    needs = (
        *secret_needs(job, secrets),
        ("DOMAIN", "the name of the server, to which its certificate is given"),
        ("GRAFANA_PASSWORD", "a password of your own for the dashboards"),
    )
    up, down = ("docker compose up --detach --wait",), ("docker compose down",)
    return Recipe("docker-compose", ("docker", "https://docs.docker.com/engine/install/"), needs, (), up, ("docker compose ps",), down)


def here(job: Job) -> str:
    """The target whose command runs on the machine that the export lies on; "" for a service."""
    return "" if job.is_service else stack_name(job).replace("_", "-")


PROGRAM = "PROGRAM"
"""In what to type: the script of the plan's own program, from the top of the bundle."""


def program_of(job: Job) -> str:
    """The folder and script of the program that launchers start."""
    script = "run.sh" if not stack_problem(job) and "run.json" in stack_of(job).files else "train.sh"
    return f"{stack_name(job).replace('_', '-')}/{script}"


def _here(job: Job) -> Recipe:
    script = program_of(job).rpartition("/")[2]
    need = secret_needs(job, stack_of(job).secrets)
    before = ("python3 -m venv ../env", ". ../env/bin/activate", *(line for line in stack_of(job).setup if line.startswith("pip ")))
    result = (f"mkdir -p {RESULT}", copied_here(job, f"../{job.name}"))
    return Recipe(here(job), ("python3", "https://www.python.org/downloads/"), need, before, (f"sh {script}",), result, (), kept=job.name)


_RECIPES: dict[str, Callable[[Job], Recipe]] = {
    "skypilot": _skypilot,
    "terraform": _terraform,
    "dstack": _dstack,
    "runpod": _runpod,
    "cloudformation": _cloudformation,
    "provider-cli": _provider_cli,
    "cloud-init": _cloud_init,
    **{name: functools.partial(_cluster, target=name) for name in {**CLUSTER_FILES, **SERVICE_FILES}},
    "llm-d": _llm_d,
    "slurm": _slurm,
    "docker-compose": _compose,
}
