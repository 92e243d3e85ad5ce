"""RunPod: a pod by the seller's own command line. The pod unpacks the job's files, installs what its image lacks, copies checkpoints to S3 and back,
and takes itself down when the run ends, however it ends."""

from __future__ import annotations

from rightfit.export.bare_server import packed_file
from rightfit.export.buckets import BUCKET, COPIER, COPIER_SECRETS, PASSED_ON, copied
from rightfit.export.environment import torch_build, torch_problem
from rightfit.export.job import Job
from rightfit.export.quoting import comment, shell
from rightfit.export.registry import Files, Target
from rightfit.export.seller_names import RUNPOD, dstack_name, name_problem
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import IMAGES_WITH_PROGRAM, ExportStack, key_of, launched, stack_of, stack_problem
from rightfit.export.waiting import RUN, RUN_FILE, end_of_pods, runpod_way, wait_files
from rightfit.messages import Message

ANY = ("", "any", "global")
KILL_AFTER_S = 300
END = """python3 - <<'EOF'
import json, os, urllib.request
query = 'mutation { podTerminate(input: {podId: "%s"}) }' % os.environ["RUNPOD_POD_ID"]
address = os.environ.get("RIGHTFIT_RUNPOD_API", "https://api.runpod.io/graphql")
# A name of its own: the seller's gate turns Python's away.
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["RUNPOD_API_KEY"], "User-Agent": "rightfit"}
urllib.request.urlopen(urllib.request.Request(address, json.dumps({"query": query}).encode(), headers), timeout=60).read()
EOF"""
"""Takes the pod down from within, with the key that RunPod gives each pod for itself."""


def image(job: Job, stack: ExportStack) -> str:
    """An image that runs the boot's shell: those that hold the program begin with it instead."""
    return torch_build(job).image if stack.program_inside or stack.image.startswith(IMAGES_WITH_PROGRAM) else stack.image


def boot(job: Job, stack: ExportStack) -> str:
    """What the pod runs."""
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    limit = ("timeout", "--signal=TERM", f"--kill-after={KILL_AFTER_S}", str(round(job.stop_after_h * 3600))) if job.stop_after_h else ()
    run = shell((*limit, *words))
    installed = [line for line in stack.setup if line.startswith("pip ")] + ([] if job.is_service else [f"pip install {COPIER}"])
    ended = (
        ""
        if job.is_service
        else f'end() {{\n{END}\n}}\nfinish() {{ for pause in 0 10 60 300; do sleep "$pause"; end && break; done; }}\ntrap finish EXIT\n'
    )
    settings = "".join(f"export {shell([f'{name}={value}'])}\n" for name, value in stack.environment.items())
    return (
        f'#!/bin/bash\n# {comment(job.model)}, plan {job.plan_id}\nset -eo pipefail\nfolder=${{RIGHTFIT_FOLDER:-/job}}\nmkdir -p "$folder" /checkpoints\ncd "$folder"\n'
        + ended
        + "".join(packed_file(path, text) for path, text in stack.files.items())
        + settings
        + "".join(f"{line}\n" for line in installed)
        + (f"exec {run}\n" if job.is_service else f"{copied(job, run)}\n")
    )


def secrets(job: Job, stack: ExportStack) -> tuple[str, ...]:
    """Variables that the pod is given from those of who starts it."""
    kept = () if job.is_service else (*COPIER_SECRETS, *(() if job.settings.bucket else (BUCKET,)))
    return (*stack.secrets, *kept)


def command(job: Job, stack: ExportStack) -> list[str]:
    """Words of runpodctl without those that the shell fills in."""
    option = job.option
    cloud = "COMMUNITY" if option.instance_type.upper().endswith("COMMUNITY") else "SECURE"
    words = ["runpodctl", "pod", "create", "--name", job.name, "--image", image(job, stack), "--cloud-type", cloud]
    words += ["--gpu-id", dstack_name(option), "--gpu-count", str(job.gpus_per_node), "--container-disk-in-gb", str(job.disk_gib)]
    words += ["--ports", f"{stack.port}/http"] if stack.port else []
    words += ["--data-center-ids", option.region] if option.region.casefold() not in ANY else []
    return words


def write(job: Job) -> Files:
    """launch.sh, and the boot that it hands over."""
    stack = stack_of(job)
    names = secrets(job, stack)
    required = [name for name in names if name != "HF_TOKEN"]
    needs = "".join(f': "${{{name}:?set {name} in the environment}}"\n' for name in required)
    given = f"import json, os; print(json.dumps({{name: os.environ[name] for name in {[*names, *PASSED_ON, *([] if job.is_service else [RUN])]!r} if os.environ.get(name)}}))"
    end = (
        f" \\\n  --terminate-after \"$(date -u -d '+{round(job.stop_after_h * 60) + 60} minutes' +%Y-%m-%dT%H:%M:%SZ)\""
        if job.stop_after_h
        else ""
    )
    # The boot is one word of base64, which no parser of arguments can take apart.
    launch = (
        f"#!/bin/sh\n# {comment(job.model)}, plan {job.plan_id}: {job.gpus_per_node} x {comment(job.accelerator)} on RunPod\nset -eu\n{needs}"
        'cd "$(dirname "$0")"\n'
        + ("" if job.is_service else f'{RUN}="$(cat {RUN_FILE} 2>/dev/null || :)"\nexport {RUN}\n')
        + f"handed=\"bash -c 'echo $(base64 -w 0 boot.sh) | base64 -d | bash'\"\n"
        f'exec {shell(command(job, stack))} \\\n  --env "$(python3 -c {shell([given])})" \\\n  --docker-args "$handed"{end}\n'
    )
    return {"launch.sh": launch, "boot.sh": boot(job, stack), **wait_files(job, runpod_way(job)), "end.sh": end_of_pods(job)}


def _refuses(job: Job) -> Message | str:
    option = job.option
    if option.provider != RUNPOD:
        return Message("export.part_server_of", provider=option.provider)
    if option.purchase != "on-demand":
        return Message("export.part_rents_on_demand", purchase=option.purchase)
    if job.num_nodes > 1:
        return Message("export.part_pods_apart")
    if problem := name_problem(option, dstack_name(option), Message("export.runpod_command")):
        return problem
    scheme = job.settings.bucket.partition("://")[0]
    if scheme not in ("", "s3") and not job.is_service:
        return Message("export.part_copies_to_s3", scheme=scheme)
    if problem := spans_servers(job) or stack_problem(job) or torch_problem(job):
        return problem
    if not any(line.startswith("pip ") for line in stack_of(job).setup):  # the boot needs a shell, and the program is had as an image alone
        return Message("export.part_image_alone", engine=option.layout.engine)
    if job.is_service and not key_of(stack_of(job)):
        return Message("export.part_runpod_port", engine=option.layout.engine)
    return ""


TARGET = Target(
    "runpod",
    "launch",
    "RunPod pod by its own command line, which ends itself",
    write,
    _refuses,
    checked_by="the options of runpodctl's source, stored; the boot is run with stand-ins for pip, aws and the seller's interface",
    run="sh launch.sh",
)
